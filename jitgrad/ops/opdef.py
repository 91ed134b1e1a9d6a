"""The op table: one row says everything about an op.

Rules (`vjp`, `compose`, `check`) are written once against a namespace `F` and run under several: arrays (fast
first-order backward), the eager tape (double backward), the graph (symbolic derivative and decomposition), and kernel
bodies. See docs/internals.md, "Ops".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.ops.halves import in_float32


class Kind(enum.Enum):
    """What an op does to the iteration space; decides its default spec and how it is lowered."""

    POINTWISE = "pointwise"
    REDUCE = "reduce"
    SCAN = "scan"
    VIEW = "view"
    JOIN = "join"
    GATHER = "gather"
    CONTRACT = "contract"
    SORT = "sort"
    RANDOM = "random"
    CREATE = "create"
    OPAQUE = "opaque"


POINTWISE, REDUCE, SCAN, VIEW, JOIN, GATHER, CONTRACT, SORT, RANDOM, CREATE, OPAQUE = Kind
#: kinds of rows that compute (all but those that move values) ...
COMPUTING = frozenset({POINTWISE, REDUCE, SCAN, CONTRACT, SORT, OPAQUE})
#: ... and those whose derivative rules compute in float32 where operands are of a half type (products widen inside)
WIDE_RULES = frozenset({POINTWISE, REDUCE, SCAN, OPAQUE})


class _NonDiff:
    """Says aloud that an op has no gradient (a forgotten rule is an error instead)."""

    def __repr__(self) -> str:
        return "NONDIFF"


NONDIFF = _NonDiff()
Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row of the op table.

    Attributes:
        name: the op's name, torch's where torch has one.
        arity: number of tensor operands; None for a variadic op (cat).
        kind: see `Kind`.
        doc: one line.
        vjp: `(F, g, y, *xs, **attrs)` -> one cotangent or None per operand; None on a row with `compose` (decompose,
            then differentiate); NONDIFF.
        impl: `(xp, *arrays, **attrs)` -> array or tuple of arrays; never chooses a dtype (operands are already cast).
            Half types it sees as float32 (`halves.py`), if it is of a kind in `COMPUTING`.
        compose: `(F, *xs, **attrs)` -> the op as an expression in other ops; no backend ever hears of such a row.
        spec: `(*types, **attrs)` -> TensorType or tuple of them; works on symbolic sizes.
        check: `(C, *specs, **attrs)`, the preconditions on sizes: calls `C.equal(a, b, message)` and kin.
        traits: facts that passes may use: "commutative", "involution", "zero_preserving", "idempotent", "cheap"; and
            for half types: "exact" (computes nothing), "passes" (the vjp hands cotangents on, negated at most).
        dtypes: dtypes that the op accepts: "float", "int", "integral" (ints, bool), "number" (ints, floats), "any".
        domain: (low, high) from which tests sample float operands.
        ref: dotted NumPy/SciPy name that tests compare with, or "".
        samples: argument tuples for generated tests of ops that are not pointwise: `(rng) -> [(arrays, attrs), ...]`.
    """

    name: str
    arity: int | None
    kind: Kind
    doc: str
    vjp: Rule | _NonDiff | None = None
    impl: Callable[..., Any] | None = None
    compose: Rule | None = None
    spec: Callable[..., Any] | None = None
    check: Rule | None = None
    traits: frozenset[str] = frozenset()
    dtypes: str = "float"
    domain: tuple[float, float] = (-3.0, 3.0)
    ref: str = ""
    samples: Callable[..., Sequence[Any]] | None = None
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # derived facts: the saved set


OPS: dict[str, OpDef] = {}


def register(name: str, arity: int | None, kind: Kind, doc: str, **fields: Any) -> OpDef:
    """Add a row. Raises ValueError for a second row of that name or one without a derivative decision."""
    if name in OPS:
        raise ValueError(f"op `{name}` is registered twice")
    if fields.get("vjp") is None and fields.get("compose") is None:
        raise ValueError(f"op `{name}` needs a vjp, a compose rule to differentiate, or NONDIFF")
    if fields.get("impl") is None and fields.get("compose") is None:
        raise ValueError(f"op `{name}` needs an impl or a compose rule")
    fields["traits"] = traits = frozenset(fields.get("traits", ()))
    impl = fields.get("impl")
    if impl is not None and kind in COMPUTING and "exact" not in traits and not hasattr(impl, "function"):
        fields["impl"] = in_float32(impl)
    op = OPS[name] = OpDef(name, arity, kind, doc, **fields)
    return op


def backward_name(op: OpDef) -> str:
    """What `grad_fn` shows of a result of `op`; "" where its parts are recorded in its place, or nothing is."""
    if op.vjp is NONDIFF or (op.vjp is None and op.compose is not None):
        return ""
    return "".join(part.capitalize() for part in op.name.replace(".", "_").split("_")) + "Backward"
