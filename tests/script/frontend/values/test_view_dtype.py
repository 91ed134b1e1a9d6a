"""`view(dtype)` in scripts: the same bytes as numbers of another dtype, in the same memory, without history."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64)


@program((t(3, 4),), (t(5),), compilations=2)
def exponents(x):
    return (x.view(torch.int32) >> 23) & 255


@program((t(2, 4),))
def narrower_and_back(x):
    halves = x.view(torch.int16)
    return halves, halves.view(torch.float32), x.view(torch.uint8).sum(-1)


@program((t(2, 8),))
def wider(x):
    return x.view(torch.int64) ^ 1


@program((t(4),))
def writes_are_seen(x):
    y = x * 1
    y.view(torch.int32).bitwise_and_(0x7FFFFFFF)
    y.view(torch.int16)[1] = 0
    return y


@program((t(4),))
def writes_to_an_argument(x):
    with torch.no_grad():
        x.view(torch.int32).bitwise_xor_(-2**31)
    return x.view(torch.int64)


@program((t(3, 4), True), (t(3, 4), False))
def in_branches_and_loops(x, up):
    total = torch.zeros(4, dtype=torch.int64)
    for row in x:
        bits = row.view(torch.int32) if up else (row * 2).view(torch.int32)
        total += bits >> 20
    return total


@program((t(3, 4),))
def no_history(x):
    return (x * x).sum() + x.view(torch.float32).sum() + x.view(torch.int32).float().sum()


test_programs = suite(PROGRAMS)


@pytest.mark.parametrize("to", _DTYPES, ids=str)
@pytest.mark.parametrize("of", _DTYPES, ids=str)
def test_every_pair_of_dtypes(of: torch.dtype, to: torch.dtype) -> None:
    def f(x):
        return x.view(to), x.view(to).flip(0)

    x = torch.tensor([[1, 0, -1, 3, 17, -100, 1, 0], [0, 2, 5, -7, 9, 1, 0, 64]])
    x = (x > 0) if of is torch.bool else x.to(of)
    scripted, eager = torch.script(f)(x), f(x)
    for a, b in zip(scripted, eager, strict=True):
        assert a.dtype is to
        assert a.shape == b.shape
        assert repr(a.tolist()) == repr(b.tolist())  # there are NaNs among them


def test_writes_to_bytes_seen_as_bools_are_refused() -> None:
    def f(x):
        x.view(torch.bool)[0] = True
        return x

    assert f(torch.ones(2, 3))[1].tolist() == [1.0] * 3
    with pytest.raises(ScriptError, match="seen as bools"):
        torch.script(f)(torch.ones(2, 3))


def test_errors_are_eager_s() -> None:
    def f(x):
        return x.view(torch.float64)

    with pytest.raises((RuntimeError, ScriptError), match=r"size\(-1\) must be divisible by 2 .* got 3"):
        torch.script(f)(torch.zeros(2, 3))
    with pytest.raises((RuntimeError, ScriptError), match=r"dim\(\) cannot be 0"):
        torch.script(f)(torch.zeros(()))
    with pytest.raises(ScriptError, match="not in row order"):
        torch.script(f)(torch.zeros(2, 4).t())
    with pytest.raises(ScriptError, match="a part of a tensor"):
        torch.script(lambda x: x[1:].view(torch.float64))(torch.zeros(5))
    with pytest.raises(ScriptError, match="complex64"):
        torch.script(f)(torch.zeros(2, dtype=torch.complex64))
