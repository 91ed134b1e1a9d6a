"""bfloat16 against torch's, bit by bit where every library must agree; how half types are computed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jitgrad
from jitgrad import dtypes
from jitgrad.ops import OPS
from jitgrad.ops.rules import is_wide

BF16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = np.array([0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x7F7F, 0xFF7F, 0x3F80, 0x0080], np.uint16)


def patterns() -> tuple[np.ndarray, np.ndarray]:
    """Two sets of 16 bits: random ones, and every pair of special values."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 1 << 16, (2, 20000)).astype(np.uint16)
    return (np.concatenate([a, np.repeat(SPECIAL, len(SPECIAL))]), np.concatenate([b, np.tile(SPECIAL, len(SPECIAL))]))


def mine(bits: np.ndarray) -> Any:
    return jitgrad.from_numpy(bits.copy().view(BF16))


def theirs(bits: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)


def order(bits: np.ndarray) -> np.ndarray:
    """Numbers whose difference counts the steps between two values."""
    n = bits.astype(np.int64)
    return np.where(n >= 0x8000, 0x8000 - n, n)


def compare(ours: Any, other: Any, ulps: int = 0) -> None:
    """Equal to the bit, but for which NaN; or up to `ulps` steps apart."""
    if ours.dtype is not jitgrad.bfloat16:
        np.testing.assert_array_equal(ours._data, other.numpy())
        return
    import torch

    a = np.ascontiguousarray(ours.detach()._data).view(np.uint16)
    b = other.detach().contiguous().view(torch.int16).numpy().view(np.uint16)
    nan = [(x & 0x7FFF) > 0x7F80 for x in (a, b)]
    np.testing.assert_array_equal(*nan)
    a, b = a[~nan[0]], b[~nan[1]]
    if ulps:
        assert np.abs(order(a) - order(b)).max(initial=0) <= ulps
    else:
        np.testing.assert_array_equal(a, b)


EXACT = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "lt": lambda x, y: x < y, "eq": lambda x, y: x == y, "ge": lambda x, y: x >= y, "ne": lambda x, y: x != y,
    "add_number": lambda x, y: x + 0.1, "mul_number": lambda x, y: x * 0.999, "div_number": lambda x, y: x / 3.3,
    "number_sub": lambda x, y: 1.7 - x, "number_div": lambda x, y: 0.3 / x, "mul_int": lambda x, y: x * 1001,
    "in_place": lambda x, y: x.clone().mul_(0.999), "gt_number": lambda x, y: x > 0.1,
    "sqrt": lambda x, y: x.sqrt(), "neg": lambda x, y: -x, "abs": lambda x, y: x.abs(), "floor": lambda x, y: x.floor(),
    "round": lambda x, y: x.round(), "sign": lambda x, y: x.sign(), "reciprocal": lambda x, y: x.reciprocal(),
    "maximum": lambda x, y: x.maximum(y), "minimum": lambda x, y: x.minimum(y),
    "clamp": lambda x, y: x.clamp(-0.3, 0.3),
    "double": lambda x, y: x.double(), "float": lambda x, y: x.float(), "half": lambda x, y: x.half(),
    "bool": lambda x, y: x.bool(), "long": lambda x, y: x.clamp(-1e9, 1e9).nan_to_num().long(),
    "where": lambda x, y: (x > y).logical_not().bfloat16() * y,
}


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_is_torchs_to_the_bit(name: str) -> None:
    a, b = patterns()
    compare(EXACT[name](mine(a), mine(b)), EXACT[name](theirs(a), theirs(b)))


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "sigmoid", "expm1", "log1p", "rsqrt", "relu"])
def test_functions_are_one_step_from_torchs(name: str) -> None:
    a, _ = patterns()
    compare(getattr(mine(a), name)(), getattr(theirs(a), name)(), 1)


@pytest.mark.parametrize("kind", ["float64", "int64", "float32"])
def test_conversions_to_bfloat16(kind: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x = rng.normal(size=20000) * 10.0 ** rng.integers(-45, 39, 20000)
    x[:2] = 1.00390625000001, 1.00390625  # rounded twice: to float32 first
    if kind == "int64":
        x = rng.integers(-2**62, 2**62, 20000) >> rng.integers(0, 60, 20000)
        x[0] = (1 << 24) + (1 << 16) + 1
    with np.errstate(all="ignore"):
        x = x.astype(kind)
    compare(jitgrad.from_numpy(x).bfloat16(), torch.from_numpy(x).bfloat16())


REDUCED = {
    "sum": lambda m, x: x.sum(), "sum_axis": lambda m, x: x.sum(0), "mean": lambda m, x: x.mean(1),
    "var": lambda m, x: x.var(1), "softmax": lambda m, x: m.softmax(x, 1), "matmul": lambda m, x: x @ x.T,
    "log_softmax": lambda m, x: m.log_softmax(x, -1), "logsumexp": lambda m, x: m.logsumexp(x, 1),
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, (50,)), "cumsum": lambda m, x: x.cumsum(1),
    "norm": lambda m, x: x.norm(), "amax": lambda m, x: x.amax(1), "sort": lambda m, x: x.sort(1)[0],
    "argmax": lambda m, x: x.argmax(1), "topk": lambda m, x: x.topk(3, 1)[0],
    "cross_entropy": lambda m, x: m.nn.functional.cross_entropy(x, m.arange(37)),
    "silu": lambda m, x: m.nn.functional.silu(x), "gelu": lambda m, x: m.nn.functional.gelu(x),
    "not_contiguous": lambda m, x: (x.T[::3] * 0.3).sum(0), "empty": lambda m, x: x[:0].sum(1),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_accumulate_in_float32(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(2).normal(size=(37, 50)).astype(np.float32)
    ours = REDUCED[name](jitgrad, jitgrad.from_numpy(x).bfloat16())
    compare(ours, REDUCED[name](torch, torch.from_numpy(x).bfloat16()), 1)


GRADIENTS = {
    "mean": lambda m, x: x.mean(), "silu": lambda m, x: m.nn.functional.silu(x).sum(), "sum": lambda m, x: x.sum(),
    "softmax": lambda m, x: (m.softmax(x, 1) * x).sum(), "exp": lambda m, x: x.exp().sum(),
    "mul": lambda m, x: (x * x).sum(),
    "matmul": lambda m, x: (x @ x.T).mean(), "chain": lambda m, x: ((x * 0.3).tanh() / (x * x + 1.5)).sum(),
    "log_softmax": lambda m, x: m.log_softmax(x, 1)[:, 0].sum(), "index": lambda m, x: x[m.tensor([0, 0, 3])].sum(),
    "var": lambda m, x: x.var(1).sum(), "view": lambda m, x: x.T.reshape(-1)[::7].sqrt().nan_to_num().sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).normal(size=(12, 20)).astype(np.float32)
    if name == "view":
        x = np.abs(x) + 0.1
    a, b = jitgrad.from_numpy(x).bfloat16().requires_grad_(), torch.from_numpy(x).bfloat16().requires_grad_()
    GRADIENTS[name](jitgrad, a).backward()
    GRADIENTS[name](torch, b).backward()
    assert a.grad.dtype is jitgrad.bfloat16
    np.testing.assert_allclose(a.grad.float().numpy(), b.grad.float().numpy(), 1.6e-2, 4e-3)


def test_second_order() -> None:
    x = jitgrad.tensor([0.5, -1.25, 2.0], dtype=jitgrad.bfloat16, requires_grad=True)
    (g,) = jitgrad.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)
    g.sum().backward()
    wide = x.detach().double().requires_grad_()
    (h,) = jitgrad.autograd.grad((wide.tanh() * wide).sum(), wide, create_graph=True)
    h.sum().backward()
    assert g.dtype is x.grad.dtype is jitgrad.bfloat16
    np.testing.assert_allclose(x.grad.float().numpy(), wide.grad.numpy(), 2e-2, 1e-2)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["add", "mul", "div", "maximum", "exp", "tanh", "sum", "softmax", "silu", "cumsum"]),
       st.lists(st.integers(0, 3), max_size=3), st.integers(0, 1 << 30), st.booleans())
def test_values_are_float32s_rounded_once(name: str, shape: list[int], seed: int, turned: bool) -> None:
    """Any shape (0-dim, empty, not contiguous), any bits: what float32 gives, rounded."""
    rng = np.random.default_rng(seed)
    xs = [rng.integers(0, 1 << 16, shape).astype(np.uint16) for _ in range(2)]
    for x in xs:
        x[...] = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x)
    tensors = [jitgrad.from_numpy(x.view(BF16).T if turned else x.view(BF16)) for x in xs]
    if name in ("softmax", "cumsum") and not shape:
        return

    def run(a: Any, b: Any) -> Any:
        if name in ("softmax", "cumsum"):
            return getattr(jitgrad, name)(a, 0)
        if name == "silu":
            return jitgrad.nn.functional.silu(a)
        return getattr(jitgrad, name)(a, b) if OPS[name].arity == 2 else getattr(jitgrad, name)(a)

    got, wide = run(*tensors), run(*[t.float() for t in tensors])
    assert got.dtype is jitgrad.bfloat16
    assert got.shape == wide.shape
    expected = wide.bfloat16()
    np.testing.assert_array_equal(got.float().numpy(), expected.float().numpy())


def test_half_types_in_derivatives() -> None:
    """The count of a mean, 1000, is no bfloat16."""
    x = jitgrad.ones(1001, dtype=jitgrad.bfloat16, requires_grad=True)
    x.mean().backward()
    assert x.grad[0].item() == float(np.float32(1 / 1001).astype(BF16))
    assert is_wide(OPS["mean"])
    assert not is_wide(OPS["add"])
    assert not is_wide(OPS["matmul"])


def test_ml_dtypes_is_imported_on_first_use() -> None:
    code = ("import sys, jitgrad; assert 'ml_dtypes' not in sys.modules; jitgrad.bfloat16.itemsize; "
            "jitgrad.autocast('cpu'); assert 'ml_dtypes' not in sys.modules; "
            "print(jitgrad.zeros(2, dtype=jitgrad.bfloat16))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tensor([0., 0.], dtype=jitgrad.bfloat16)\n"


def test_promotion_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    for a in dtypes.ALL:
        for b in dtypes.ALL:
            expected = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
            assert dtypes.promote_types(a, b).name == str(expected).removeprefix("torch."), (a, b)
