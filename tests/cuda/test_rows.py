"""Every row of the op table on CUDA tensors (of CuPy's stand-in): values, types, gradients of both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.eager import record
from jitgrad.eager.construct import wrap
from jitgrad.ops import OPS
from jitgrad.ops.opdef import OPAQUE, RANDOM
from tests.ops.cases import DTYPES, cases, convert, differentiable

NUMBERS = ("fill",)


def tensors(operands: tuple[Any, ...], where: str, needs: bool = False) -> list[Any]:
    made = [wrap(np.array(x)).to(where) for x in operands]
    return [t.requires_grad_() if needs and t.dtype.is_floating_point else t for t in made]


def results(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], where: str) -> list[np.ndarray[Any, Any]]:
    op = OPS[name]
    if op.arity == 0 or name in NUMBERS or op.kind is RANDOM:
        found: Any = record.create(op, operands, attrs, jitgrad.device(where))
    else:
        found = record.apply(op, tuple(tensors(operands, where)), attrs)
    found = found if isinstance(found, tuple) else (found,)
    assert all(t.device == jitgrad.device(where) for t in found)
    return [t.cpu()._data for t in found]


#: the host has native code for them, which sums in another order than columns are multiplied in
NATIVE = {"conv", "conv_transpose", "conv_weight"}


def same(name: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype.kind == "V":
        a, b = a.astype(np.float32), b.astype(np.float32)
    if name in NATIVE and a.dtype in (np.float32, np.float64):
        tolerance = 1e-4 if a.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", OPS)
def test_values(cuda: Any, name: str) -> None:
    """In every dtype the CPU's values, to the bit but for `NATIVE`."""
    op = OPS[name]
    for d in DTYPES[op.dtypes]:
        for operands, attrs in cases(op):
            operands = convert(operands, d, op)
            for a, b in zip(results(name, operands, attrs, "cuda:0"), results(name, operands, attrs, "cpu"),
                            strict=True):
                if d is dtypes.bfloat16 and name in ("index_put", "scatter_add"):  # summed in float32 on a GPU
                    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2 ** -6, atol=2 ** -6)
                else:
                    same(name, a, b)


def gradients(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], where: str) -> list[Any]:
    """Of a sum of cosines of the results: first order, and second order of what is linear in it."""
    xs = tensors(operands, where, True)
    found = record.apply(OPS[name], tuple(xs), attrs)
    outs = [y for y in (found if isinstance(found, tuple) else (found,)) if y.dtype.is_floating_point]
    targets = [x for x in xs if x.requires_grad]
    if not targets or not any(y.requires_grad for y in outs):
        return []
    weights = [jitgrad.as_tensor(np.cos(np.arange(y.numel())).reshape(y.shape)).to(where, y.dtype) for y in outs]
    total = sum((y * w).sum() for y, w in zip(outs, weights, strict=True))
    plain = jitgrad.autograd.grad(total, targets, allow_unused=True, retain_graph=True)
    first = jitgrad.autograd.grad(total, targets, create_graph=True, allow_unused=True)
    assert all(g is None or g.device == jitgrad.device(where) for g in first)
    again = [g for g in first if g is not None and g.requires_grad]
    second: tuple[Any, ...] = ()
    if again:
        second = jitgrad.autograd.grad(sum((g * g).sum() for g in again), targets, allow_unused=True)
    return [*first, *second, *plain]


@pytest.mark.parametrize("name", differentiable())
def test_gradients(cuda: Any, name: str) -> None:
    """First order (recorded and not) and second order: the CPU's values, to the bit."""
    for operands, attrs in cases(OPS[name]):
        if OPS[name].arity == 0 or attrs.get("dtype") is dtypes.float32:
            continue
        with np.errstate(all="ignore"):
            pairs = zip(gradients(name, operands, attrs, "cuda:0"), gradients(name, operands, attrs, "cpu"),
                        strict=True)
            for a, b in pairs:
                assert (a is None) == (b is None)
                if a is not None:
                    same(name, a.cpu()._data, b._data)


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPS)
def test_values_on_a_gpu(gpu: None, name: str) -> None:
    op = OPS[name]
    for d in DTYPES[op.dtypes]:
        tolerance = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11,
                     "complex128": 1e-11}.get(d.name, 0)
        for operands, attrs in cases(op):
            operands = convert(operands, d, op)
            for a, b in zip(results(name, operands, attrs, "cuda:0"), results(name, operands, attrs, "cpu"),
                            strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                if a.dtype.kind == "c":
                    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
                elif OPS[name].kind is OPAQUE or a.dtype.kind in "fV":
                    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance)
                else:
                    np.testing.assert_array_equal(a, b)


@pytest.mark.gpu
@pytest.mark.parametrize("name", differentiable())
def test_gradients_on_a_gpu(gpu: None, name: str) -> None:
    for operands, attrs in cases(OPS[name]):
        if OPS[name].arity == 0 or attrs.get("dtype") is dtypes.float32:
            continue
        for a, b in zip(gradients(name, operands, attrs, "cuda:0"), gradients(name, operands, attrs, "cpu"),
                        strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
