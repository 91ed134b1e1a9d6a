"""Rows that a library computes of complex numbers too: in a script, of parts that are tensors of their own.

`joined` adds such a row and, as `<name>_parts`, the same of both parts of each complex operand, which gives both parts
of each complex result. Impl, types, samples and derivative of the second are made of the first's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import dtype, from_numpy
from jitgrad.ops.complex.pairs import Pair, PairNamespace
from jitgrad.ops.opdef import Kind, OpDef, register
from jitgrad.ops.rules import Each, conjugate, conjugates, each
from jitgrad.ops.types import TensorType


def joined(name: str, arity: int, kind: Kind, doc: str, *, traits: Iterable[str] = (), takes: Sequence[bool] = (),
           **fields: Any) -> None:
    """Add a row and the one of its parts. `takes`: which operands of a sample are tried with complex numbers."""
    def pair(F: PairNamespace, *xs: Any, **attrs: Any) -> Any:
        pairs = tuple([isinstance(x, Pair) for x in xs])
        flat = [part for x in xs for part in ((x.re, x.im) if isinstance(x, Pair) else (x,))]
        found = getattr(F.reals, f"{name}_parts")(*flat, pairs=pairs, **attrs)
        several, marks = _results(op, xs, attrs)
        results = _paired(F, found if isinstance(found, tuple) else (found,), marks)
        return tuple(results) if several else results[0]

    op = register(name, arity, kind, doc, traits={"in_library", *traits}, pair=pair, **fields)
    taken = tuple(takes) or (True,) * arity

    def samples(rng: np.random.Generator) -> Any:
        assert op.samples is not None
        return [(tuple([v for x, t in zip(xs, taken, strict=True) for v in (
                    (x, rng.normal(size=x.shape) * 0.1) if t else (x,))]), attrs | {"pairs": taken})
                for xs, attrs in op.samples(rng)]

    register(f"{name}_parts", None, kind, f"`{name}` of parts of complex numbers, in parts.", dtypes="wide",
             traits={"in_library"}, samples=samples, impl=_impl(op), spec=_spec(op),
             vjp=_vjp(op, taken))


def _paired(F: PairNamespace, xs: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    """The handles with those that belong together as pairs; None for a pair of nothing, zeros for one part of it."""
    rest, found = iter(xs), []
    for mark in marks:
        if not mark:
            found.append(next(rest))
            continue
        re, im = next(rest), next(rest)
        if re is None and im is None:
            found.append(None)
        else:
            zeros = F.reals.zeros_like
            found.append(Pair(F, zeros(im) if re is None else re, zeros(re) if im is None else im))
    return found


def _dtype(x: Any) -> dtype:
    return x.dtype if isinstance(x.dtype, dtype) else from_numpy(x.dtype)


def _results(op: OpDef, xs: Sequence[Any], attrs: dict[str, Any]) -> tuple[bool, list[bool]]:
    """Whether there are several results, and which are complex: sizes do not matter for it."""
    assert op.spec is not None
    types = op.spec(*[TensorType(_dtype(x), (2,) * x.ndim) for x in xs], **attrs)
    several = isinstance(types, tuple)
    return several, [t.dtype.is_complex for t in (types if several else (types,))]


def _impl(op: OpDef) -> Any:
    def join(xp: Any, re: Any, im: Any) -> Any:
        z = xp.empty(re.shape, np.result_type(re.dtype, np.complex64))
        z.real, z.imag = re, im
        return z

    def impl(xp: Any, *xs: Any, pairs: Sequence[bool], **attrs: Any) -> Any:
        assert op.impl is not None
        rest = iter(xs)
        found = op.impl(xp, *[join(xp, next(rest), next(rest)) if mark else next(rest) for mark in pairs], **attrs)
        several = isinstance(found, tuple)
        parts = [v for y in (found if several else (found,)) for v in (
            (y.real.copy(), y.imag.copy()) if y.dtype.kind == "c" else (y,))]
        return tuple(parts) if several or len(parts) > 1 else parts[0]

    return impl


def _spec(op: OpDef) -> Any:
    def spec(*types: TensorType, pairs: Sequence[bool], **attrs: Any) -> Any:
        assert op.spec is not None
        rest, whole = iter(types), []
        for mark in pairs:
            t = next(rest)
            if mark:
                next(rest)
            whole.append(TensorType(t.dtype.to_complex(), t.dims) if mark else t)
        found = op.spec(*whole, **attrs)
        several = isinstance(found, tuple)
        parts = [part for t in (found if several else (found,)) for part in (
            (TensorType(t.dtype.to_real(), t.dims),) * 2 if t.dtype.is_complex else (t,))]
        return tuple(parts) if several or len(parts) > 1 else parts[0]

    return spec


def _vjp(op: OpDef, taken: Sequence[bool]) -> Any:
    if not callable(op.vjp):
        return op.vjp
    if isinstance(op.vjp, Each):  # what is missing of an operand is missing of both parts
        return each(*[part for part, t in zip(op.vjp.of(len(taken)), taken, strict=True) for _ in range(1 + t)])

    rule = op.vjp

    def vjp(F: Any, g: Any, y: Any, *xs: Any, pairs: Sequence[bool], **attrs: Any) -> tuple[Any, ...]:
        P = PairNamespace(F)
        operands = _paired(P, xs, pairs)
        several, marks = _results(op, operands, attrs)
        gs, ys = [tuple(_paired(P, v if isinstance(v, tuple) else (v,), marks)) for v in (g, y)]
        one: Any = conjugate if conjugates(op) else lambda F, x: x
        found = one(P, rule(P, one(P, gs if several else gs[0]), ys if several else ys[0], *operands, **attrs))
        return tuple([part for c, mark in zip(found, pairs, strict=True) for part in (
            ((None, None) if c is None else (c.re, c.im)) if mark else (c,))])

    return vjp


