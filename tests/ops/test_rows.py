"""Generated tests: every row, every dtype: values, types, gradients of both orders, extremes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.ops import OPS
from jitgrad.ops.rules import has_derivative
from jitgrad.ops.types import TensorType
from tests.ops.cases import DTYPES, cases, convert, differentiable, of_complex, types_of
from tests.oracles import ARRAYS, SYMMETRIC, call, gradcheck, of_symmetric

TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-12}
#: limits at infinity for which SciPy has NaN
AT_INFINITY = {"i0": np.inf, "i1": np.inf, "bessel_j0": 0.0, "bessel_j1": 0.0, "bessel_y0": 0.0, "bessel_y1": 0.0}
EXTREMES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, -1e-30])


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def run(name: str, operands: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return tuple(np.asarray(r) for r in as_tuple(getattr(ARRAYS, name)(*operands, **attrs)))


def reference(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    if module.startswith("scipy"):
        pytest.importorskip("scipy")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", OPS)
def test_types_and_dtypes(name: str) -> None:
    """The spec says what comes out, in every dtype that the row takes."""
    op = OPS[name]
    for d in DTYPES[op.dtypes]:
        for operands, attrs in cases(op):
            operands = convert(operands, d, op)
            results = run(name, operands, attrs)
            assert op.spec is not None
            expected = as_tuple(op.spec(*types_of(operands), **attrs))
            if name == "nonzero":
                expected = (TensorType(dtypes.int64, results[0].shape),)
            actual = tuple(TensorType(dtypes.from_numpy(r.dtype), r.shape) for r in results)
            assert actual == expected, (d, attrs)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.ref])
def test_values(name: str) -> None:
    """Values agree with NumPy or SciPy in every floating-point dtype."""
    op = OPS[name]
    expected_of = reference(op.ref)
    for d in (f for f in DTYPES[op.dtypes] if f.is_floating_point):
        for operands, attrs in cases(op):
            narrow = convert(operands, d, op)
            (actual,) = run(name, narrow, attrs)
            with np.errstate(all="ignore"):
                wide = [x.astype(np.float64) if x.dtype.kind in dtypes.INEXACT_KINDS else x for x in narrow]
                expected = expected_of(*wide, **attrs)
            tolerance = TOLERANCE[d.name]
            np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", differentiable(partly=True))
def test_gradients(name: str) -> None:
    """First and second order against finite differences, in float64."""
    for operands, attrs in cases(OPS[name]):
        constant = [i for i, known in enumerate(has_derivative(OPS[name], len(operands))) if not known]
        if attrs.get("dtype") is not dtypes.float32:  # rounding to float32 drowns the difference
            function = call(OPS[name], attrs)
            gradcheck(of_symmetric(function) if name in SYMMETRIC else function, operands, constant=constant)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.compose is not None and callable(op.vjp)
                                  and not of_complex(op)])
def test_composite_rule_agrees_with_its_expression(name: str) -> None:
    """A composite's own vjp is the derivative of the expression that backends compute."""
    op = OPS[name]
    for operands, attrs in cases(op):
        assert op.compose is not None
        gradcheck(lambda F, *xs, attrs=attrs: op.compose(F, *xs, **attrs), operands, order=1)
        if op.impl is not None:
            with np.errstate(all="ignore"):
                composed = op.compose(ARRAYS, *operands, **attrs)
            np.testing.assert_allclose(run(name, operands, attrs)[0], composed, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.ref and op.kind.value == "pointwise"
                                  and op.dtypes in ("float", "number", "any") and op.samples is None])
@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float64])
def test_extremes(name: str, d: dtypes.dtype) -> None:
    """Zeros, infinities, NaN and huge and tiny numbers agree with NumPy or SciPy."""
    op = OPS[name]
    grids = np.meshgrid(*[EXTREMES.astype(d.np)] * (op.arity or 0))
    operands = tuple(g.reshape(-1) for g in grids)
    (actual,) = run(name, operands, {})
    with np.errstate(all="ignore"):
        expected = np.asarray(reference(op.ref)(*operands))
    if name == "sign":
        expected = np.where(np.isnan(operands[0]), 0, expected)  # torch's choice
    elif name == "lgamma":
        expected = np.where(np.isneginf(operands[0]), np.inf, expected)  # as C and torch, unlike SciPy
    elif name == "sigmoid":
        expected = np.where(np.isneginf(operands[0]), 0, expected)
    elif name in AT_INFINITY:
        x = operands[0]
        at = np.isposinf(x) if "_y" in name else np.isinf(x)
        expected = np.where(at, x if name == "i1" else AT_INFINITY[name], expected)
    if actual.dtype.kind == "f":
        small = 1e-14 if name.startswith("bessel") else 1e-37  # SciPy rounds the phase of 1e30
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE[d.name] * 10, atol=small)
    else:
        np.testing.assert_array_equal(actual, expected)


def test_inputs_are_never_written() -> None:
    """No impl writes its operands, and only views and their like may share their memory."""
    for name, op in OPS.items():
        for operands, attrs in cases(op):
            operands = convert(operands, DTYPES[op.dtypes][-1], op)
            before = [x.copy() if isinstance(x, np.ndarray) else x for x in operands]
            results = run(name, operands, attrs)
            for x, b in zip(operands, before, strict=True):
                np.testing.assert_array_equal(x, b)
                if op.kind.value != "view" and name not in ("sum_to", "overwrite") and isinstance(x, np.ndarray):
                    assert not any(np.shares_memory(x, r) for r in results), name


def test_views_are_views() -> None:
    """As in torch a view shares memory; flip copies."""
    for name in ("reshape", "permute", "expand", "unsqueeze", "squeeze", "select", "slice", "diagonal", "flip"):
        operands, attrs = cases(OPS[name])[0]
        assert np.shares_memory(run(name, operands, attrs)[0], operands[0]) == (name != "flip"), name
    x = np.arange(3.0)
    run("select", (x,), {"axis": 0, "index": 1})[0][...] = 7
    assert x[1] == 7
    m = np.zeros((2, 2))
    run("diagonal", (m,), {"offset": 0, "axis1": 0, "axis2": 1})[0][...] = 5
    assert m[1, 1] == 5


def test_float16_composites_compute_in_float32() -> None:
    x = np.full((1, 100000), 1.0, np.float16)
    assert run("mean", (x,), {"axes": (1,), "keepdim": False})[0] == 1  # the count alone overflows float16
    assert run("sum", (x[:, :4096],), {"axes": (1,), "keepdim": False})[0] == 4096


def test_integer_powers() -> None:
    a = np.array([0, 1, -1, 2, -3, 1, -1, -1, 5])
    b = np.array([0, -3, -3, -1, 3, -2, -2, 5, 0])
    assert run("pow", (a, b), {})[0].tolist() == [1, 1, -1, 0, -27, 1, 1, -1, 1]
    assert run("pow", (a.astype(np.int8), np.int8(2)), {})[0].tolist() == [0, 1, 1, 4, 9, 1, 1, 1, 25]


def test_empty_axes() -> None:
    x = np.zeros((2, 0), np.float32)
    assert run("softmax", (x,), {"axis": 1})[0].shape == (2, 0)
    assert run("log_softmax", (x,), {"axis": 1})[0].dtype == np.float32
    assert run("logsumexp", (x,), {"axes": (1,), "keepdim": False})[0].tolist() == [-np.inf, -np.inf]
    assert run("prod", (x,), {"axes": (1,), "keepdim": True})[0].tolist() == [[1], [1]]
    with pytest.raises(ValueError, match="zero-size"):
        run("amax", (x,), {"axes": (1,), "keepdim": False})
