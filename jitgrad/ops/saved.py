"""Which values an op's derivative reads: found by running the rule once on probes, never declared.

A probe knows its type (so that rules may look at shapes, ranks and dtypes) and which of y, x0, x1, ... its value
depends on. What reaches a cotangent has to be saved; of the rest the rule sees only the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.classes import dataclass
from jitgrad.dtypes import dtype, float64, from_numpy
from jitgrad.ops.namespaces import Handle, Namespace, Number
from jitgrad.ops.opdef import OpDef
from jitgrad.ops.rules import has_derivative, partial_vjp
from jitgrad.ops.types import FLOAT, INT, TensorType

Y = -1  # the result, among operands numbered from 0


@dataclass(frozen=True, slots=True)
class Saved:
    """`y`: whether a result's value is read (by position: `ys`); `xs`: the operands whose values are read.

    For an op with any number of operands `xs` holds those of the sample: see `saved`.
    """

    y: bool
    xs: tuple[bool, ...]
    ys: tuple[bool, ...] = ()


class _Probe(Handle):
    __slots__ = ("F", "reads", "type")

    def __init__(self, F: _Probing, type_: TensorType, reads: frozenset[int]):
        self.F, self.type, self.reads = F, type_, reads

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.dims

    @property
    def ndim(self) -> int:
        return len(self.type.dims)

    @property
    def dtype(self) -> dtype:
        return self.type.dtype


class _Probing(Namespace):
    """Handles are probes."""

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        reads: frozenset[int] = frozenset().union(*(x.reads for x in xs if isinstance(x, _Probe)))
        assert op.spec is not None
        result = op.spec(*(x.type if isinstance(x, _Probe) else x for x in xs), **attrs)
        if isinstance(result, tuple):
            return tuple(_Probe(self, t, reads) for t in result)
        return _Probe(self, result, reads)

    def lift(self, value: Number, d: dtype) -> _Probe:
        return _Probe(self, TensorType(d, ()), frozenset())


class _Counting(_Probing):
    """Counts what is applied."""

    applied = 0

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        self.applied += length(op)
        return super().apply(op, xs, attrs)


def length(op: OpDef) -> int:
    """How many operations a composite stands for, those of its parts counted; 1 for any other row."""
    if op.compose is None:
        return 1
    found: int | None = op.cache.get("length")
    if found is None:
        F = _Counting()
        types, attrs = sample_types(op)
        op.compose(F, *[_Probe(F, t, frozenset()) if isinstance(t, TensorType) else t for t in types], **attrs)
        found = op.cache["length"] = F.applied
    return found


def saved(op: OpDef, needs: Sequence[bool] | None = None, *, types: Sequence[Any] | None = None,
          attrs: dict[str, Any] | None = None) -> Saved:
    """What the vjp of `op` reads; for a composite without a vjp, what its decomposition as a whole reads: the operands.

    Args:
        op: a row with a derivative.
        needs: which operands' cotangents will be asked for; all by default.
        types, attrs: the operands' types and the attrs; a sample's by default. An executor gives them for an op with
            any number of operands.
    """
    table: dict[Any, Saved] = op.cache.setdefault("saved", {})
    flags = () if attrs is None else tuple(filter(_chooses, attrs.values()))
    key = (needs if needs is None else tuple(needs), None if types is None else len(types), flags)
    found = table.get(key)
    if found is None:
        found = table[key] = _run(op, needs, types, attrs)
    return found


def _chooses(attr: Any) -> bool:
    """Whether a rule may depend on an attr: it is a bool, or says of each operand whether it is a pair of reals."""
    return isinstance(attr, bool) or (isinstance(attr, tuple) and bool(attr) and isinstance(attr[0], bool))


def _run(op: OpDef, needs: Sequence[bool] | None, types: Sequence[Any] | None, attrs: dict[str, Any] | None) -> Saved:
    if types is None:
        types, attrs = sample_types(op)
    attrs = attrs or {}
    F = _Probing()
    xs = [_Probe(F, t, frozenset({i})) for i, t in enumerate(types)]
    if op.vjp is None:
        return Saved(False, (True,) * len(xs))
    if not callable(op.vjp):
        return Saved(False, (False,) * len(xs))
    assert op.spec is not None
    results = op.spec(*types, **attrs)
    several = isinstance(results, tuple)
    outputs = results if several else (results,)
    ys = tuple(_Probe(F, t, frozenset({Y - i})) for i, t in enumerate(outputs))
    gs = tuple(_Probe(F, t, frozenset()) for t in outputs)
    wanted = [known and (needs is None or needs[i]) for i, known in enumerate(has_derivative(op, len(xs)))]
    cotangents = partial_vjp(op, wanted, F, gs if several else gs[0], ys if several else ys[0], xs, attrs)
    reads: frozenset[int] = frozenset().union(*(c.reads for c in cotangents if c is not None))
    read_ys = tuple(Y - i in reads for i in range(len(ys)))
    return Saved(any(read_ys), tuple(i in reads for i in range(len(xs))), read_ys)


def sample_types(op: OpDef) -> tuple[list[Any], dict[str, Any]]:
    """Operand types and attrs with which the row's rules can be run."""
    if op.samples is None:
        return [TensorType(float64, (3, 4))] * (op.arity or 0), {}
    arrays, attrs = op.samples(np.random.default_rng(0))[0]
    return [TensorType(from_numpy(a.dtype), a.shape) if isinstance(a, np.ndarray) else
            FLOAT if isinstance(a, float) else INT for a in arrays], attrs
