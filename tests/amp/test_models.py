"""The models of `tests/test_models*.py`, some steps in bfloat16 autocast: near float32's, and scripts as eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import optim
from tests.test_models_steps import MODELS, twins

#: a model whose draws depend on values, so that a rounding may take another path
CHAOTIC = "actor-critic"
#: one that adds what a product made to float32 by `index_add`, which refuses other dtypes, as torch's
REFUSED = "mixture of experts"


def train(step: Any, model: Any, batches: Any, dtype: Any) -> list[float]:
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for k, batch in enumerate(batches):
        jitgrad.manual_seed(k)
        with jitgrad.autocast("cpu", dtype=jitgrad.bfloat16, enabled=dtype is not None):
            losses.append(step(model, optimizer, *batch).item())
    return losses


@pytest.mark.parametrize("name", [n for n in MODELS if n != REFUSED])
def test_steps(name: str) -> None:
    make, loss_of, batches = MODELS[name]
    plain, model = twins(make)
    other, _ = twins(make)
    other.load_state_dict(plain.state_dict())

    def step(m: Any, optimizer: Any, *batch: Any) -> Any:
        loss = loss_of(m, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    low = train(step, plain, batches[:4], jitgrad.bfloat16)
    fast = jitgrad.script(step)
    np.testing.assert_allclose(train(fast, model, batches[:4], jitgrad.bfloat16), low, 5e-3)
    assert fast.cache_info().compilations == 1, fast.recompilations
    if name != CHAOTIC:
        np.testing.assert_allclose(low, train(step, other, batches[:4], None), 2e-2)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert p.dtype is jitgrad.float32
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 2e-2, 5e-3)
