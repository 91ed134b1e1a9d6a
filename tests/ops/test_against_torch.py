"""Values, first and second derivatives at kinks, ties, zeros and infinities, against PyTorch where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.ops import OPS
from tests.oracles import Tape, gradients

torch = pytest.importorskip("torch")
TF = torch.nn.functional

INF, NAN = np.inf, np.nan
POINTS = np.array([0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 2.5, -2.5, 3, -3, 6, -6, 8, -8, 20.5, -20.5, 100, -100, 1e-30,
                   -1e-30, 1e30, -1e30, INF, -INF, NAN])

SAME_NAME = """neg reciprocal square floor ceil trunc round sign abs exp expm1 exp2 log log1p log2 log10 sqrt rsqrt sin
cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma sigmoid relu isnan isinf isfinite
logical_not add sub mul div pow remainder fmod minimum maximum logaddexp xlogy atan2 eq ne lt le gt ge clamp lerp"""
FUNCTIONS: dict[str, Any] = {name: getattr(torch, name) for name in SAME_NAME.split()}
FUNCTIONS |= {name: getattr(TF, name) for name in (
    "silu", "logsigmoid", "mish", "gelu", "softsign", "tanhshrink", "selu", "relu6", "hardsigmoid", "hardswish")}
FUNCTIONS |= {
    "gelu_tanh": lambda x: TF.gelu(x, approximate="tanh"),
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "clamp_min": lambda x, low: torch.clamp(x, min=low),
    "clamp_max": lambda x, high: torch.clamp(x, max=high),
}
WITH_ATTRS: dict[str, Any] = {
    "leaky_relu": (lambda x: TF.leaky_relu(x, 0.1), {"negative_slope": 0.1}),
    "threshold": (lambda x: TF.threshold(x, 0.5, -1.0), {"threshold": 0.5, "value": -1.0}),
    "hardtanh": (lambda x: TF.hardtanh(x, -1.0, 3.0), {"min_val": -1.0, "max_val": 3.0}),
    "elu": (lambda x: TF.elu(x, 1.5), {"alpha": 1.5, "scale": 1.0, "input_scale": 1.0}),
    "celu": (lambda x: TF.celu(x, 1.5), {"alpha": 1.5}),
    "softplus": (lambda x: TF.softplus(x, 2.0, 20.0), {"beta": 2.0, "threshold": 20.0}),
}


def compare(name: str, theirs: Any, xs: list[np.ndarray], attrs: dict[str, Any], *, tolerance: float,
            second: bool = False) -> None:
    """Value and gradient of a random weighting agree, NaN with NaN; with `second` also where first ones are finite."""
    rng = np.random.default_rng(0)
    F = Tape()

    def agree(a: Any, b: Any, what: str) -> None:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 1e-3, err_msg=f"{name}, {what}")

    with np.errstate(all="ignore"):
        handles = [F.constant(x) for x in xs]
        y = getattr(F, name)(*handles, **attrs)
        y = y[0] if isinstance(y, tuple) else y
        tensors = [torch.tensor(x, requires_grad=True) for x in xs]
        ty = theirs(*tensors)
        agree(y.data, ty.detach().numpy(), "value")
        assert ty.requires_grad == (OPS[name].vjp is None or callable(OPS[name].vjp))
        if not ty.requires_grad:
            return
        w = rng.uniform(0.5, 1.5, y.shape).astype(xs[0].dtype)
        ours = gradients(y, handles, F.constant(w))
        torchs = torch.autograd.grad(ty, tensors, torch.tensor(w), create_graph=second)
        for k, (g, t) in enumerate(zip(ours, torchs, strict=True)):
            assert g is not None
            agree(g.data, t.detach().numpy(), f"gradient {k}")
        if second and np.isfinite(ours[0].data).all() and torchs[0].requires_grad:
            w = rng.normal(size=xs[0].shape)
            (gg,) = gradients(ours[0], handles, F.constant(w))
            (tt,) = torch.autograd.grad(torchs[0], tensors, torch.tensor(w), allow_unused=True)
            agree(0 if gg is None else gg.data, 0 if tt is None else tt.numpy(), "second order")


@pytest.mark.parametrize("name", [*FUNCTIONS, *WITH_ATTRS])
def test_pointwise(name: str) -> None:
    theirs, attrs = WITH_ATTRS.get(name) or (FUNCTIONS[name], {})
    arity = OPS[name].arity or 0
    axes = [POINTS] * arity if arity < 3 else [POINTS, *[np.array([-2.0, 0, 0.5, 1, 2, NAN, INF])] * 2]
    xs = [g.reshape(-1) for g in np.meshgrid(*axes)]
    # torch rounds 1 / 6 to float32 in the derivative of hardsigmoid
    compare(name, theirs, xs, attrs, tolerance=1e-7 if name == "hardsigmoid" else 1e-12)
    # torch differentiates hardsigmoid once only, and is wrong at the poles of lgamma
    if arity < 3 and name not in ("hardsigmoid", "lgamma"):
        compare_second(name, theirs, xs, attrs)


def compare_second(name: str, theirs: Any, xs: list[np.ndarray], attrs: dict[str, Any]) -> None:
    """Second derivatives, wherever torch's are finite and not at a pole."""
    F = Tape()
    with np.errstate(all="ignore"):
        handles = [F.constant(x) for x in xs]
        y = getattr(F, name)(*handles, **attrs)
        tensors = [torch.tensor(x, requires_grad=True) for x in xs]
        ty = theirs(*tensors)
        if not ty.requires_grad:
            return
        ones = F.constant(np.ones(y.shape))
        firsts = zip(gradients(y, handles, ones),
                     torch.autograd.grad(ty, tensors, torch.ones_like(ty), create_graph=True), strict=True)
        for g, t in firsts:
            if not t.requires_grad:
                continue
            assert g is not None
            torchs = torch.autograd.grad(t, tensors, torch.ones_like(ty), allow_unused=True, retain_graph=True)
            for gg, tt in zip(gradients(g, handles, ones), torchs, strict=True):
                expected = np.zeros(y.shape) if tt is None else tt.detach().numpy(force=True)
                actual = np.zeros(y.shape) if gg is None else gg.data
                sane = np.isfinite(expected) & (np.abs(expected) < 1e30)
                if name == "fmod":  # the zero slope of an infinite or NaN quotient is NaN here
                    sane &= np.isfinite(xs[0]) & np.isfinite(xs[1])
                np.testing.assert_allclose(actual[sane], expected[sane], rtol=1e-9, atol=1e-12, err_msg=name)


ROWS = [[1.0, 3, 3], [2, 2, 2], [-1, NAN, 0], [-INF, -INF, -INF], [INF, 1, 2], [0, 5, 0], [0, 0, 0], [1, 0, 2],
        [4, 5, 6]]
AXES = {"axes": (1,), "keepdim": False}
REDUCTIONS: dict[str, Any] = {
    "sum": (lambda t: t.sum(1), AXES), "prod": (lambda t: t.prod(1), AXES), "mean": (lambda t: t.mean(1), AXES),
    "amax": (lambda t: t.amax(1), AXES), "amin": (lambda t: t.amin(1), AXES),
    "var": (lambda t: t.var(1), {**AXES, "correction": 1}), "logsumexp": (lambda t: t.logsumexp(1), AXES),
    "softmax": (lambda t: t.softmax(1), {"axis": 1}), "log_softmax": (lambda t: t.log_softmax(1), {"axis": 1}),
    "cumsum": (lambda t: t.cumsum(1), {"axis": 1}), "cumprod": (lambda t: t.cumprod(1), {"axis": 1}),
    "sort": (lambda t: t.sort(dim=1, stable=True)[0], {"axis": 1, "descending": False, "stable": True}),
    "topk": (lambda t: t.sort(dim=1, stable=True, descending=True)[0][:, :2],
             {"axis": 1, "k": 2, "largest": True, "sorted": True}),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_reductions(name: str, row: list[float]) -> None:
    if (name == "prod" and np.isinf(row).any()) or (name == "cumprod" and not np.isfinite(row).all()):
        pytest.skip("torch's derivative of products of infinities and NaN depends on create_graph")
    theirs, attrs = REDUCTIONS[name]
    compare(name, theirs, [np.array([row], float)], attrs, tolerance=1e-12, second=True)


def test_sort_descending_keeps_ties_and_puts_nan_first() -> None:
    x = np.array([1.0, NAN, 3, 1, NAN, 3])
    F = Tape()
    values, indices = F.sort(F.constant(x), axis=0, descending=True, stable=True)
    expected = torch.sort(torch.tensor(x), stable=True, descending=True)
    np.testing.assert_array_equal(values.data, expected[0].numpy())
    np.testing.assert_array_equal(indices.data, expected[1].numpy())


def test_product_over_several_axes_with_zeros() -> None:
    for zeros in (0, 1, 2, 3):
        x = np.arange(1.0, 13).reshape(2, 3, 2) / 4
        x.reshape(-1)[:zeros] = 0
        compare("prod", lambda t: t.prod(), [x], {"axes": (0, 1, 2), "keepdim": False}, tolerance=1e-10, second=True)
