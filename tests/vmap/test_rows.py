"""Every row of the op table, applied to a batch, against a loop over its items."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.eager.construct import wrap
from jitgrad.func import vmap
from jitgrad.ops import OPS, OpDef
from jitgrad.ops.backend import backend
from jitgrad.ops.batching.rules import rule_of
from jitgrad.ops.opdef import CREATE, DYNAMIC, OPAQUE, RANDOM
from tests.ops.cases import cases, convert

#: rows without a rule, and why
UNBATCHED = {
    "nonzero": "items would have results of several shapes",
    "full": "no operands", "fill": "no operands: a number", "arange": "no operands",
    "random.uniform": "no operands: numbers; `draw` says what a draw is for a batch",
    "random.bits": "no operands: numbers; `draw` says what a draw is for a batch",
}
#: rows whose results are equal only up to rounding: their work is cut in other pieces for a batch
ROUNDED = {"matmul", "conv", "conv_transpose", "conv_weight", "sum", "mean", "var", "prod", "logsumexp", "softmax",
           "log_softmax", "sum_to", *(name for name, op in OPS.items() if op.kind is OPAQUE)}


def test_rows_without_a_rule() -> None:
    without = {name for name, op in OPS.items() if op.kind in (CREATE, RANDOM) or rule_of(op) is None}
    assert without == set(UNBATCHED)
    assert OPS["nonzero"].batch is DYNAMIC


def tuple_of(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def samples(op: OpDef, d: jitgrad.dtype, items: int) -> list[tuple[list[tuple[np.ndarray, ...]], dict[str, Any]]]:
    """For each sample of the row: the operands of each item, and the attrs."""
    given = [cases(op, seed) for seed in range(max(items, 1))]
    return [([convert(g[k][0], d, op, seed) for seed, g in enumerate(given)], given[0][k][1])
            for k in range(len(given[0]))]


def run(op: OpDef, attrs: dict[str, Any]) -> Any:
    return lambda *xs: backend().apply(op, xs, attrs)


def masks(n: int) -> list[tuple[bool, ...]]:
    """Which operands have the batch: each alone, and all."""
    if n > 3:
        return [tuple(True for _ in range(n)), tuple(i % 2 == 0 for i in range(n))]
    return [m for m in itertools.product((False, True), repeat=n) if any(m)]


def expected(op: OpDef, attrs: dict[str, Any], operands: list[tuple[np.ndarray, ...]], mask: tuple[bool, ...]) -> Any:
    """Of each item, one after the other: the results, and the gradients of the operands."""
    results, gradients = [], []
    for item in operands:
        xs = [wrap((x if m else operands[0][i]).copy()) for i, (x, m) in enumerate(zip(item, mask, strict=True))]
        for x in xs:
            x.requires_grad_(x.dtype.is_floating_point)
        ys = tuple_of(run(op, attrs)(*xs))
        results.append(ys)
        tracked = [y for y in ys if y.requires_grad]
        if tracked:
            jitgrad.autograd.backward([weighted(y) for y in tracked])
        gradients.append([x.grad for x in xs])
    return results, gradients


def weighted(y: Any) -> Any:
    """A number whose gradient differs from element to element, of items alike."""
    return (y * weights(y.shape, y.dtype)).sum()


def weights(shape: Any, d: Any) -> Any:
    n = int(np.prod(shape))
    return wrap(np.asarray(np.cos(np.arange(n)).reshape(tuple(shape)) + 1.5).astype(d.np))


@pytest.mark.parametrize("place", ["leading", "middle"])
@pytest.mark.parametrize("name", [n for n in OPS if n not in UNBATCHED])
def test_batch_is_its_items(name: str, place: str) -> None:
    op = OPS[name]
    d = jitgrad.float64 if op.dtypes in ("float", "number", "any") else jitgrad.int64
    for operands, attrs in samples(op, d, 3):
        for mask in masks(len(operands[0])):
            check(op, attrs, operands, mask, place)


def check(op: OpDef, attrs: dict[str, Any], operands: list[tuple[np.ndarray, ...]], mask: tuple[bool, ...],
          place: str) -> None:
    results, gradients = expected(op, attrs, operands, mask)
    axes = [None if not m else 0 if place == "leading" else min(1, x.ndim) for m, x in zip(mask, operands[0],
                                                                                         strict=True)]
    xs = [wrap(operands[0][i].copy()) if a is None else wrap(np.stack([item[i] for item in operands], a))
          for i, a in enumerate(axes)]
    for x in xs:
        x.requires_grad_(x.dtype.is_floating_point)
    ys = tuple_of(vmap(run(op, attrs), in_dims=tuple(axes))(*xs))
    for k, y in enumerate(ys):
        loop = np.stack([item[k].detach().numpy() for item in results])
        assert y.dtype is results[0][k].dtype
        assert y.requires_grad == results[0][k].requires_grad
        compare(op, y.detach().numpy(), loop)
    tracked = [k for k, y in enumerate(ys) if y.requires_grad]
    if not tracked:
        return
    jitgrad.autograd.backward([(ys[k] * weights(results[0][k].shape, ys[k].dtype)).sum() for k in tracked])
    for i, (x, a) in enumerate(zip(xs, axes, strict=True)):
        parts = [g[i] for g in gradients]
        assert (x.grad is None) == (parts[0] is None)
        if x.grad is not None:
            loop = np.sum([p.numpy() for p in parts], 0) if a is None else np.stack([p.numpy() for p in parts], a)
            np.testing.assert_allclose(x.grad.numpy(), loop, rtol=1e-9, atol=1e-11)


def compare(op: OpDef, found: np.ndarray, loop: np.ndarray) -> None:
    assert found.shape == loop.shape
    if op.name in ROUNDED:
        np.testing.assert_allclose(found, loop, rtol=1e-9, atol=1e-11)
    else:
        np.testing.assert_array_equal(found, loop)


@pytest.mark.parametrize("items", [0, 1])
@pytest.mark.parametrize("name", [n for n in OPS if n not in UNBATCHED])
def test_batches_of_none_and_of_one(name: str, items: int) -> None:
    op = OPS[name]
    d = jitgrad.float32 if op.dtypes in ("float", "number", "any") else jitgrad.int64
    for operands, attrs in samples(op, d, items):
        one = tuple_of(run(op, attrs)(*[wrap(x) for x in operands[0]]))
        xs = [wrap(np.stack([x] * items) if items else np.zeros((0, *x.shape), x.dtype)) for x in operands[0]]
        ys = tuple_of(vmap(run(op, attrs))(*xs))
        for y, of_one in zip(ys, one, strict=True):
            assert y.dtype is of_one.dtype
            assert tuple(y.shape) == (items, *of_one.shape)
            if items:
                np.testing.assert_allclose(y[0].numpy(), of_one.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in OPS if n not in UNBATCHED])
def test_batches_of_batches(name: str) -> None:
    """An op on items of items is that op on items of a batch of one more axis."""
    op = OPS[name]
    d = jitgrad.float64 if op.dtypes in ("float", "number", "any") else jitgrad.int64
    for operands, attrs in samples(op, d, 6):
        single = [wrap(np.stack([item[i] for item in operands])) for i in range(len(operands[0]))]
        ys = tuple_of(vmap(run(op, attrs))(*single))
        nested = [x.reshape(2, 3, *x.shape[1:]) for x in single]
        for y, z in zip(ys, tuple_of(vmap(vmap(run(op, attrs)))(*nested)), strict=True):
            compare(op, z.reshape(*y.shape).numpy(), y.numpy())
