"""In-place writes straight into memory have the outcome of the general way: values, versions, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.eager import direct
from jitgrad.eager.backend import EagerBackend

#: y and z are operands of the target's shape, or that broadcast to it
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, y, z: x.add_(y), "add number": lambda x, y, z: x.add_(3),
    "add alpha": lambda x, y, z: x.add_(y, alpha=2), "add float alpha": lambda x, y, z: x.add_(y, alpha=0.3),
    "add number alpha": lambda x, y, z: x.add_(0.1, alpha=0.3), "sub": lambda x, y, z: x.sub_(y),
    "sub alpha": lambda x, y, z: x.sub_(y, alpha=0.7), "sub alpha 1.0": lambda x, y, z: x.sub_(y, alpha=1.0),
    "mul": lambda x, y, z: x.mul_(y), "mul number": lambda x, y, z: x.mul_(0.1),
    "mul huge": lambda x, y, z: x.mul_(10**30), "mul beyond": lambda x, y, z: x.mul_(10**400),
    "mul infinite": lambda x, y, z: x.mul_(1e300), "mul bool": lambda x, y, z: x.mul_(True),
    "div": lambda x, y, z: x.div_(y), "div 3": lambda x, y, z: x.div_(3),
    "div trunc": lambda x, y, z: x.div_(y, rounding_mode="trunc"), "div 0": lambda x, y, z: x.div_(0),
    "addcmul": lambda x, y, z: x.addcmul_(y, z), "addcmul value": lambda x, y, z: x.addcmul_(y, z, value=0.1),
    "addcdiv": lambda x, y, z: x.addcdiv_(y, z), "addcdiv value": lambda x, y, z: x.addcdiv_(y, z, value=-0.1),
    "lerp near": lambda x, y, z: x.lerp_(y, 0.1), "lerp far": lambda x, y, z: x.lerp_(y, 0.9),
    "lerp 1": lambda x, y, z: x.lerp_(y, 1), "lerp tensor": lambda x, y, z: x.lerp_(y, z),
    "clamp": lambda x, y, z: x.clamp_(-1, 0.5), "clamp min": lambda x, y, z: x.clamp_(min=0.1),
    "clamp max": lambda x, y, z: x.clamp_(max=1), "clamp_min": lambda x, y, z: x.clamp_min_(0),
    "clamp_max": lambda x, y, z: x.clamp_max_(300), "clamp 300": lambda x, y, z: x.clamp_(1, 300),
    "clamp none": lambda x, y, z: x.clamp_(), "clamp tensor": lambda x, y, z: x.clamp_(y, z),
    "clamp nan": lambda x, y, z: x.clamp_(min=float("nan")),
    "zero": lambda x, y, z: x.zero_(), "fill": lambda x, y, z: x.fill_(2), "fill float": lambda x, y, z: x.fill_(0.1),
    "fill huge": lambda x, y, z: x.fill_(300), "copy": lambda x, y, z: x.copy_(y),
    "fill tensor": lambda x, y, z: x.fill_(z.reshape(-1)[0]),
    "square": lambda x, y, z: x.square_(), "relu": lambda x, y, z: x.relu_(), "neg": lambda x, y, z: x.neg_(),
    "abs": lambda x, y, z: x.abs_(), "sqrt": lambda x, y, z: x.sqrt_(), "exp": lambda x, y, z: x.exp_(),
    "log": lambda x, y, z: x.log_(), "tanh": lambda x, y, z: x.tanh_(), "asin": lambda x, y, z: x.asin_(),
    "keyword": lambda x, y, z: x.add_(other=y), "too many": lambda x, y, z: x.mul_(y, z),
    "wrong type": lambda x, y, z: x.add_("1"), "numpy number": lambda x, y, z: x.add_(np.float32(0.1)),
    "numpy alpha": lambda x, y, z: x.add_(y, alpha=np.float64(0.1)),
}

Case = tuple[Any, Any, Any]


def _like(shape: tuple[int, ...], d: Any, seed: int) -> Any:
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return jitgrad.tensor(values).to(d) if d is not jitgrad.uint8 else jitgrad.tensor(np.abs(values)).to(d)


def _plain(d: Any) -> Case:
    return _like((5, 7), d, 0), _like((5, 7), d, 1), _like((5, 7), d, 2)


def _strided(d: Any) -> Case:
    return _like((7, 5), d, 0).t(), _like((5, 14), d, 1)[:, ::2], _like((7, 5), d, 2).t()


def _broadcast(d: Any) -> Case:
    return _like((5, 7), d, 0), _like((7,), d, 1), _like((5, 1), d, 2)


def _too_large(d: Any) -> Case:
    return _like((7,), d, 0), _like((5, 7), d, 1), _like((7,), d, 2)


def _zero_dim(d: Any) -> Case:
    return _like((), d, 0), _like((), d, 1), _like((), d, 2)


def _number_like(d: Any) -> Case:
    return _like((5, 7), d, 0), _like((), d, 1), _like((), d, 2)


def _itself(d: Any) -> Case:
    x = _like((5, 7), d, 0)
    return x, x, x


def _overlapping(d: Any) -> Case:
    x = _like((40,), d, 0)
    return x[1:36], x[:35], x[5:]


def _transposed_itself(d: Any) -> Case:
    x = _like((6, 6), d, 0)
    return x, x.t(), x[0]


def _empty(d: Any) -> Case:
    return _like((0, 3), d, 0), _like((0, 3), d, 1), _like((3,), d, 2)


def _other_dtype(d: Any) -> Case:
    return _like((5, 7), d, 0), _like((5, 7), jitgrad.float64, 1), _like((5, 7), jitgrad.int64, 2)


def _expanded(d: Any) -> Case:
    return _like((1, 7), d, 0).expand(5, 7), _like((5, 7), d, 1), _like((5, 7), d, 2)


def _expanded_once(d: Any) -> Case:
    return _like((5, 7), d, 0).expand(1, 5, 7), _like((5, 7), d, 1), _like((5, 7), d, 2)


CASES = (_plain, _strided, _broadcast, _too_large, _zero_dim, _number_like, _itself, _overlapping, _transposed_itself,
         _empty, _other_dtype, _expanded, _expanded_once)


def _outcome(case: Callable[[Any], Case], d: Any, write: Callable[[Any, Any, Any], Any]) -> list[Any]:
    x, y, z = case(d)
    before = x._version
    try:
        result = write(x, y, z)
    except Exception as e:
        return [type(e), str(e), x.numpy().copy(), x._version - before]
    assert result is x
    return [None, None, x.numpy().copy(), x._version - before, y.numpy().copy(), z.numpy().copy()]


@pytest.mark.parametrize("pieces", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__[1:])
@pytest.mark.parametrize("name", WRITES)
def test_outcomes_are_those_of_the_general_way(name: str, case: Any, pieces: bool,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (jitgrad.float32, jitgrad.float64, jitgrad.float16, jitgrad.int64, jitgrad.uint8, jitgrad.bool)
    if pieces:
        monkeypatch.setattr(direct, "BLOCK", 64)
    found = [_outcome(case, d, WRITES[name]) for d in kinds]
    monkeypatch.setattr(EagerBackend, "update", staticmethod(lambda *_: NotImplemented))
    for d, ours in zip(kinds, found, strict=True):
        general = _outcome(case, d, WRITES[name])
        assert len(ours) == len(general), (d, ours, general)
        for a, b in zip(ours, general, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b, err_msg=d.name)
            else:
                assert a == b, d


def test_what_is_tracked_goes_the_general_way() -> None:
    w = jitgrad.ones(3, requires_grad=True)
    x = jitgrad.zeros(3)
    for write in (lambda t: t.add_(w), lambda t: t.add_(w, alpha=2), lambda t: t.lerp_(w, 0.5), lambda t: t.copy_(w),
                  lambda t: t.addcmul_(w, w), lambda t: t.add_(w[:])):
        assert write(x.clone()).requires_grad
    for write in (lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t[:].mul_(2), lambda t: t.relu_()):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write(w)
        with jitgrad.no_grad():
            write(w)
    y = w * 1
    before = y.grad_fn
    y.mul_(2)
    assert y.grad_fn is not before
    with jitgrad.no_grad():
        view = w[:2]
    with pytest.raises(RuntimeError, match="no_grad mode"):
        view.add_(1)


def test_a_saved_operand_that_is_overwritten_is_noticed() -> None:
    w = jitgrad.ones(3, requires_grad=True)
    x = jitgrad.ones(3)
    y = w * x
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inference_tensors_stay_out() -> None:
    with jitgrad.inference_mode():
        x = jitgrad.ones(3)
        x.add_(1)
    with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
        x.add_(1)


def test_large_operands_are_worked_on_in_pieces() -> None:
    x, y = jitgrad.zeros(3, direct.BLOCK // 4 + 5), jitgrad.ones(3, direct.BLOCK // 4 + 5)
    x.sub_(y, alpha=0.5).lerp_(y, 0.5)
    assert bool((x == 0.25).all())
