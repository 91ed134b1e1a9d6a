"""The judge is judged: a derivative made wrong on purpose must fail, whichever order it is wrong in."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.ops import OPS
from tests.oracles import call, gradcheck

X = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3))


@pytest.mark.parametrize(("name", "wrong"), [
    ("tanh", lambda F, g, y, x: (g * (1.0 - y),)),
    ("exp", lambda F, g, y, x: (g * y * 1.0001,)),
    ("mul", lambda F, g, y, a, b: (g * b, g * b)),
    ("sum", lambda F, g, y, x, axes, keepdim: (F.unreduce(g, x, axes, keepdim) * 2.0,)),
    ("sin", lambda F, g, y, x: (None,)),
])
def test_a_wrong_rule_fails(name: str, wrong: object) -> None:
    op = OPS[name]
    attrs = {"axes": (1,), "keepdim": False} if name == "sum" else {}
    xs = (X, X + 0.5) if op.arity == 2 else (X,)
    gradcheck(call(op, attrs), xs)
    with pytest.raises(AssertionError):
        gradcheck(call(op, attrs), xs, vjps={name: wrong})


def test_a_rule_wrong_in_second_order_only_fails() -> None:
    """The slope is right, but as a constant: nothing of the operand reaches it."""
    def detached(F, g, y, x):
        return (g * F.constant(np.cos(x.data)),)

    gradcheck(call(OPS["sin"], {}), (X,), order=1, vjps={"sin": detached})
    with pytest.raises(AssertionError, match="second order"):
        gradcheck(call(OPS["sin"], {}), (X,), vjps={"sin": detached})


def test_a_cotangent_of_another_dtype_fails() -> None:
    from jitgrad import dtypes

    with pytest.raises(AssertionError, match="cotangent"):
        gradcheck(call(OPS["neg"], {}), (X,), vjps={"neg": lambda F, g, y, x: (F.cast(-g, dtype=dtypes.float32),)})
