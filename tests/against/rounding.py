"""Whether rounding alone tells two answers apart: PyTorch's own in float64 decides which of them is nearer.

A difference of rounded numbers that nearly cancel, or of a half type at every step, is as large as it likes: no bound
on it tells a fault. That an answer is about as near to the numbers in float64 as PyTorch's own says that it has none.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.against.answers import Answer, answer, close, loosest, numbers_of
from tests.against.drafts import INTS, Case, numbers

#: what a dtype is computed in to decide
WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}


def wider(case: Case) -> Case:
    """The program on the same numbers in float64; the program itself where they are in that already."""
    narrow = {name: f"wide_{name}" for name, m in case.arguments.items() if m.dtype in WIDER}
    lines = [f"{wide} = {name}.to(t.{WIDER[case.arguments[name].dtype]})" for name, wide in narrow.items()]
    for line in case.lines:
        line = re.sub(rf"\.to\(t\.({'|'.join(WIDER)})\)", lambda m: f"{m[0]}.to(t.{WIDER[m[1]]})", line)
        line = re.sub(rf"dtype=t\.({'|'.join(WIDER)})\b", lambda m: f"dtype=t.{WIDER[m[1]]}", line)
        lines.append(re.sub(r"\bx\d+\b", lambda m: narrow.get(m[0], m[0]), line))
    return case._replace(lines=tuple(lines))


def lost_beside(case: Case, ours: Answer, theirs: Answer) -> bool:
    """Whether numbers differ by no more than rounding of the integers that they are sums of, however large."""
    total = sum(float(np.abs(numbers(m).astype(float)).sum()) for m in case.arguments.values() if m.dtype in INTS)
    here, there = ([*numbers_of(a.results), *numbers_of(a.gradients)] for a in (ours, theirs))
    single = re.search(r"float32|float16", str(ours.results))
    return len(here) == len(there) and all(
        _distance(a, b) <= total * (1e-7 if single else 1e-15) for a, b in zip(here, there, strict=True))


def no_farther(case: Case, ours: Answer, theirs: Answer, torch: Any) -> bool:
    """Whether our numbers are about as near as PyTorch's to those in float64, or nearer, in every tensor in which they
    differ: not four times as far, so that PyTorch's own are off by a fifth of the difference at least."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # of what is computed of integers
    try:
        right = answer(wider(case), torch)
    finally:
        torch.set_default_dtype(usual)
    parts = [[*numbers_of(a.results), *numbers_of(a.gradients)] for a in (ours, theirs, right)]
    if right.error or len({len(p) for p in parts}) > 1:
        return False
    tolerance = loosest(case)
    return all(_distance(a, c) <= 4 * _distance(b, c)
               for a, b, c in zip(*parts, strict=True) if not close(a, b, tolerance))


def _distance(a: Any, b: Any) -> float:
    """The largest difference of numbers; infinite where they are not of one shape, or one is NaN or infinite alone."""
    p, q = np.asarray(a, float), np.asarray(b, float)
    if p.shape != q.shape:
        return np.inf
    with np.errstate(all="ignore"):
        same = (p == q) | (np.isnan(p) & np.isnan(q))
        return float(np.nan_to_num(np.where(same, 0.0, np.abs(p - q)), nan=np.inf, posinf=np.inf).max(initial=0.0))
