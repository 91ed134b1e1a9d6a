"""Results lie where PyTorch's do: in an argument's memory or in their own, and who has its own memory is no view."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.calls import record
from tests.calls.generator import OWN, calls, in_memory
from tests.calls.test_calls import different, recorded, written

#: parts whose memory torch shares without a word, so that writes to them make gradients wrong: they are views here.
#: A dropout that drops nothing (p=0, or of no element) gives the argument itself in torch: here a copy, as scripts do
#: not branch on the number
DIFFERENT = re.compile(r"unsafe_|dropout\w*\((e\)|.*p=0\.0)")


@cache
def places() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(record.MEMORY.read_text())
    return found


def alike(ours: Any, theirs: Any) -> bool:
    """Whether two results lie alike. What torch makes a view of nobody else's memory may be none here."""
    return ours[0] == theirs[0] and ours[2] == theirs[2] and (
        ours[1] == theirs[1] or bool(theirs[1] and not theirs[2]))


@pytest.mark.parametrize("key", list(recorded()))
def test_results_lie_where_pytorchs_do(key: str) -> None:
    wrong = {}
    for call in calls(*key.split(":")):
        if call.out or DIFFERENT.search(call.text) or written(key.partition(":")[0], call) in different():
            continue
        known = places().get(key, {}).get(call.text)
        for requires_grad in (False, True):
            with np.errstate(all="ignore"):
                ours = in_memory(call, jitgrad, requires_grad)
            theirs = [OWN] * len(ours) if known is None else known
            if len(ours) == len(theirs) and not all(map(alike, ours, theirs)):
                wrong[call.text] = ours, theirs
    assert not wrong


RESULTS = """x.max(0)[0] x.max(1)[1] x.min(0).values x.median(0)[0] x.median() x.mode(0)[0]
x.kthvalue(1)[0] x.nanmedian(0)[0] x.quantile(0.5) x.quantile(0.5,0,True) x.matmul(x[0].clone())
x[:,0].clone()@x x[0].clone()@x[1].clone() x.rot90(3) x.logcumsumexp(0) t.logcumsumexp(c,0)
t.matmul(q,x[0].clone()) x.unique(dim=1) x.unique_consecutive(dim=1) x.argmax(keepdim=True)
t.softmax(x.sum(),0) t.kron(x,x) x.repeat(2,1) x.roll(1) x.diag_embed() x[0].clone().diag()
t.linalg.norm(x,1) t.linalg.cholesky(x.T@x,upper=True) t.linalg.solve(x.T@x,x[0].clone()) F.max_pool2d(q,2)
F.group_norm(q,1) F.grid_sample(q[None],t.zeros(1,2,2,2),align_corners=False) F.channel_shuffle(q[None],2)
t.tril_indices(3,3) t.combinations(x[0].clone()) t.histogram(x,4)[0] t.vdot(c[0].clone(),c[1].clone())
t.segment_reduce(x,'sum',lengths=t.tensor([1,2])) x.put(t.tensor([0]),x[0,:1].clone())"""


@pytest.mark.parametrize("text", RESULTS.split())
def test_who_has_its_own_memory_is_detached_in_place_and_written(text: str) -> None:
    t = jitgrad
    t.manual_seed(0)
    scope = {"t": t, "F": t.nn.functional, "x": t.randn(3, 3, requires_grad=True), "q": t.randn(2, 4, 3),
             "c": t.randn(2, 3, dtype=t.complex64, requires_grad=True)}
    made = eval(text, scope)
    assert not made._is_view()
    assert made._base is None
    recorded_by, needs = made.grad_fn, made.requires_grad
    if needs:
        made.mul_(2.0)
        assert made.grad_fn is not recorded_by
    assert not made.detach_().requires_grad
    with t.no_grad():
        made = eval(text, scope)
    if needs:  # a view made where nothing is recorded would refuse it
        w = t.ones((), requires_grad=True)
        made.mul_(w)
        made.abs().sum().backward()
        assert w.grad is not None
