"""Oracles: a tape of fifty lines that runs the rows' rules to any order, and finite differences to judge it by.

Only the op table is used, none of eager, so that this can judge eager too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.ops import OPS, OpDef
from jitgrad.ops.namespaces import ArrayNamespace, Handle, Namespace, unbroadcast
from jitgrad.ops.rules import has_derivative, partial_vjp, transposed

ARRAYS = ArrayNamespace(np)


class Traced(Handle):
    """An array that remembers how it was computed."""

    __slots__ = ("F", "attrs", "data", "op", "outputs", "parents")

    def __init__(self, data: Any, F: Tape, op: OpDef | None = None, parents: tuple[Any, ...] = (),
                 attrs: dict[str, Any] | None = None):
        self.data, self.F, self.op, self.parents, self.attrs = np.asarray(data), F, op, parents, attrs or {}
        self.outputs: tuple[Traced, ...] = (self,)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self.data.dtype)


class Tape(Namespace):
    """Rules on traced arrays. A composite with a vjp is one step, one without is expanded. `vjps` replaces rules."""

    def __init__(self, vjps: dict[str, Callable[..., Any]] | None = None):
        self.vjps = vjps or {}

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.vjp is None:
            return self.expand_composite(op, xs, attrs)
        result = ARRAYS.apply(op, tuple(x.data if isinstance(x, Traced) else x for x in xs), attrs)
        if not isinstance(result, tuple):
            return Traced(result, self, op, xs, attrs)
        outputs = tuple(Traced(r, self, op, xs, attrs) for r in result)
        for o in outputs:
            o.outputs = outputs
        return outputs

    def constant(self, data: Any) -> Traced:
        return Traced(data, self)


def gradients(output: Traced, inputs: Sequence[Traced], cotangent: Traced) -> list[Traced | None]:
    """Cotangents of `inputs`, themselves traced; None for one that nothing reaches."""
    F = output.F
    order: list[tuple[Traced, ...]] = []
    seen: set[int] = set()

    def visit(t: Traced) -> None:
        if id(t.outputs) in seen or t.op is None:
            return
        seen.add(id(t.outputs))
        for p in t.parents:
            if isinstance(p, Traced):
                visit(p)
        order.append(t.outputs)

    visit(output)
    found: dict[int, Traced] = {id(output): cotangent}
    for outputs in reversed(order):
        node = outputs[0]
        gs = tuple(found.get(id(o)) for o in outputs)
        if all(g is None for g in gs) or node.op is None or not callable(rule := F.vjps.get(node.op.name, node.op.vjp)):
            continue
        single = len(outputs) == 1
        needs = [isinstance(p, Traced) and p.dtype.is_floating_point and known for p, known in zip(
            node.parents, has_derivative(node.op, len(node.parents)), strict=True)]
        cotangents = partial_vjp(replace(node.op, vjp=rule), needs, F, gs[0] if single else gs,
                                 node if single else outputs, node.parents, node.attrs)
        for p, c in zip(node.parents, cotangents, strict=True):
            if c is not None:
                c = F.sum_to(c, shape=p.shape)
                assert c.dtype == p.dtype, f"{node.op.name}: cotangent {c.dtype} of a {p.dtype} operand"
                before = found.get(id(p))
                found[id(p)] = c if before is None else before + c
    return [found.get(id(i)) for i in inputs]


def numeric_gradient(f: Callable[..., float], xs: Sequence[np.ndarray], which: int, step: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function in its operand number `which`, float64."""
    result = np.zeros(xs[which].shape)
    for i in np.ndindex(xs[which].shape):
        values = []
        for h in (-step, step):
            moved = [x.copy() for x in xs]
            moved[which][i] += h
            values.append(f(*moved))
        result[i] = (values[1] - values[0]) / (2 * step)
    return result


#: rows that take one triangle of a matrix for both; their gradients are those for symmetric matrices
SYMMETRIC = {"cholesky", "eigh"}


def of_symmetric(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the symmetric part of a matrix."""
    return lambda F, x: f(F, (x + transposed(F, x)) * 0.5)


def gradcheck(f: Callable[..., Any], xs: Sequence[Any], *, order: int = 2, seed: int = 0, tolerance: float = 1e-6,
              vjps: dict[str, Callable[..., Any]] | None = None, constant: Sequence[int] = ()) -> None:
    """Compare the rules' gradients of `f(F, *operands)` with finite differences, to second order if `order` is 2.

    Args:
        f: one of several tensors (a tuple) or one, from handles of any namespace.
        xs: operands; those that are not float64 arrays are constants.
        vjps: rules to use in place of the table's.
        constant: the numbers of further operands that are constants.

    Raises:
        AssertionError: a gradient is wrong.
    """
    rng = np.random.default_rng(seed)
    F = Tape(vjps)
    active = [i for i, x in enumerate(xs)
              if isinstance(x, np.ndarray) and x.dtype == np.float64 and i not in constant]

    def run(*arrays: Any) -> tuple[list[Traced], list[Traced]]:
        handles = [F.constant(a) if isinstance(a, np.ndarray) else a for a in arrays]
        result = f(F, *handles)
        outputs = result if isinstance(result, tuple) else (result,)
        return [handles[i] for i in active], [o for o in outputs if o.dtype.is_floating_point]

    with np.errstate(all="ignore"):
        _, outputs = run(*xs)
    weights = [rng.normal(size=o.shape) for o in outputs]

    def loss(*arrays: Any) -> float:
        return float(sum((o.data * w).sum() for o, w in zip(run(*arrays)[1], weights, strict=True)))

    def first(*arrays: Any) -> tuple[list[Traced], list[Traced | None]]:
        ins, outs = run(*arrays)
        total: list[Traced | None] = [None] * len(ins)
        for o, w in zip(outs, weights, strict=True):
            for i, g in enumerate(gradients(o, ins, F.constant(w))):
                total[i] = g if total[i] is None else total[i] if g is None else total[i] + g
        return ins, total

    with np.errstate(all="ignore"):
        _, grads = first(*xs)
        for i, g in zip(active, grads, strict=True):
            expected = numeric_gradient(loss, xs, i)
            actual = np.zeros(xs[i].shape) if g is None else g.data
            assert actual.shape == xs[i].shape
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=f"operand {i}")
        if order < 2:
            return
        directions = [rng.normal(size=xs[i].shape) for i in active]

        def slope(*arrays: Any) -> float:
            return float(sum((g.data * d).sum() for g, d in zip(first(*arrays)[1], directions, strict=True)
                             if g is not None))

        ins, grads = first(*xs)
        second: list[Any] = [0.0] * len(active)
        for g, d in zip(grads, directions, strict=True):
            if g is not None:
                for i, gg in enumerate(gradients(g, ins, F.constant(d))):
                    second[i] = second[i] + (0.0 if gg is None else gg.data)
        for position, i in enumerate(active):
            expected = numeric_gradient(slope, xs, i)
            actual = np.broadcast_to(second[position], xs[i].shape)
            np.testing.assert_allclose(actual, expected, rtol=10 * tolerance, atol=10 * tolerance,
                                       err_msg=f"second order, operand {i}")


def call(op: OpDef, attrs: dict[str, Any]) -> Callable[..., Any]:
    """The row as a function for `gradcheck`."""
    return lambda F, *xs: getattr(F, op.name)(*xs, **attrs)


__all__ = ["ARRAYS", "OPS", "Tape", "Traced", "call", "gradcheck", "gradients", "numeric_gradient", "unbroadcast"]
