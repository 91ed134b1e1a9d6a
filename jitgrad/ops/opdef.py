"""The op table: one row says everything about an op.

Rules (`vjp`, `compose`, `check`) are written once against a namespace `F` and run under several: arrays (fast
first-order backward), the eager tape (double backward), the graph (symbolic derivative and decomposition), and kernel
bodies. See docs/internals/ops.md.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.dtypes import BAREBONES_CHARS, COMPLEX_CHARS
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
#: kinds of rows that move elements from place to place, whatever they are
MOVING = frozenset({VIEW, JOIN, GATHER})
#: kinds of rows that compute (all but those that move values) ...
COMPUTING = frozenset({POINTWISE, REDUCE, SCAN, CONTRACT, SORT, OPAQUE})
#: ... and those whose derivative rules compute in float32 where operands are of a half type (products widen inside)
WIDE_RULES = frozenset({POINTWISE, REDUCE, SCAN, OPAQUE})


class _NonDiff:
    """Says aloud that an op has no gradient (a forgotten rule is an error instead)."""

    def __repr__(self) -> str:
        return "NONDIFF"


class _Dynamic:
    """Says aloud that an op cannot be applied to a batch: its items would have results of several shapes."""

    def __repr__(self) -> str:
        return "DYNAMIC"


class _OnPairs:
    """How a row is computed of complex operands that are pairs of reals, where it needs no rule of its own."""

    def __init__(self, how: str):
        self.how = how

    def __repr__(self) -> str:
        return self.how


NONDIFF = _NonDiff()
DYNAMIC = _Dynamic()
#: the op of the real parts and of the imaginary parts ...
PARTS = _OnPairs("PARTS")
#: ... or its expression in other ops
EXPRESSION = _OnPairs("EXPRESSION")
Rule = Callable[..., Any]

#: facts that a row may claim: what each promises, and where it is read
TRAITS: Mapping[str, str] = {
    # algebra
    "commutative": "operands may be swapped, bit for bit (passes, codegen/lower)",
    "involution": "f(f(x)) is x (passes)",
    "idempotent": "f(f(x)) is f(x) (passes)",
    "total": "has a value for all operands of its types, with no check before it (passes)",
    # half types
    "exact": "the result is an operand's value or needs no rounding in its dtype (codegen/lower, codegen/llvm)",
    "copies": "the values are the operand's: only where they are differs (codegen/lower, cuda)",
    "passes": "the vjp hands cotangents on, negated at most: nothing to widen (ops)",
    "converts": "the impl chooses the dtype of its result, so it must see half types as they are (ops)",
    # complex numbers
    "complex": "computes complex numbers too; any other row refuses them (eager)",
    "wirtinger": "the vjp knows of complex numbers and conjugates what it must (ops)",
    # unsigned integers
    "barebones": "computes uint16, uint32 and uint64 too; any other row that computes refuses them (ops)",
    # costs
    "cheap": "computing it again costs no more than reading it (autodiff, codegen/lower)",
    "expensive": "computing it again costs more than a trip to the cache (codegen/program)",
    "whole": "a composite of each element that stays one node: its kernel has the expression (passes, codegen/lower)",
    "elementary": "each target's math library has it by this name (codegen/llvm, codegen/cuda)",
    "in_library": "has no native form, or one that compares all pairs: compiled code for the CPU calls back and NumPy "
                  "runs the impl (passes, codegen/lower)",
    # memory
    "view": "the result shares the operand's memory (frontend, stored)",
    "affine": "an index map of its operand, reshape where shapes allow (codegen/lower)",
    "in_order": "a view of all elements in their order (frontend, passes)",
    "in_rows": "pointwise, its result in row order wherever its operands lie (frontend)",
    "keeps_order": "no view, its result's axes lie in memory as its first operand's (eager, frontend)",
    "lossless": "the operand is no larger than the result and replaces it where one is saved (autodiff, frontend)",
    "stored": "the result is in memory in any case: no kernel takes it up (autodiff)",
    "reads_memory": "its step reads operands from memory, so that they are not repeated (codegen/lower)",
    "updates": "the result is the first operand but for a part (codegen/lower)",
    "accumulates": "an update that adds to the part; index_put: where its attr says so (passes)",
}


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
        compose: `(F, *xs, **attrs)` -> the op as an expression in other ops; no backend ever hears of such a row, but
            of those that are "whole" the lowering does.
        spec: `(*types, **attrs)` -> TensorType or tuple of them; works on symbolic sizes.
        check: `(C, *specs, **attrs)`, the preconditions on sizes: calls `C.equal(a, b, message)` and kin.
        batch: how it is applied to a batch of operands, where its kind does not say it (`batching/rules.py`); DYNAMIC
            where it cannot be.
        traits: the facts of `TRAITS` that hold; `has_trait` asks for one.
        infix: the Python operator that means this row on tensors, or "".
        pair: how it is computed of complex operands in a script, where they are pairs of reals (`ops/complex/`): a rule
            `(F, *xs, **attrs)`, PARTS or EXPRESSION; None: a script refuses.
        fold: of a reduction that kernels do themselves: how they join two parts (`Stmt.fn`), or "".
        adds_back: of a row that takes a part of its first operand: the row that adds to that part, and its further
            attrs; the cotangent of the part goes that way.
        first_index: the number of the first operand that is an index: indices may lie on the CPU whatever the device.
        dtypes: dtypes that the op accepts: "float", "int", "integral" (ints, bool), "number" (ints, floats), "any",
            "wide" (float32, float64), "complex"; that others take complex numbers too their trait says.
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
    batch: Rule | _Dynamic | None = None
    pair: Rule | _OnPairs | None = None
    traits: frozenset[str] = frozenset()
    infix: str = ""
    fold: str = ""
    adds_back: tuple[str, Mapping[str, Any]] | None = None
    first_index: int | None = None
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
    if kind in MOVING and fields.get("dtypes") == "any":
        fields.setdefault("pair", PARTS)
    traits = frozenset(fields.get("traits", ())) | ({"complex"} if fields.get("pair") is not None else set())
    fields["traits"] = traits
    if not traits <= TRAITS.keys():
        raise ValueError(f"op `{name}` has traits that nobody reads: {', '.join(sorted(traits - TRAITS.keys()))}")
    impl = fields.get("impl")
    if impl is not None and kind in COMPUTING and "converts" not in traits and not hasattr(impl, "function"):
        fields["impl"] = in_float32(impl)
    op = OPS[name] = OpDef(name, arity, kind, doc, **fields)
    return op


def has_trait(name: str, trait: str) -> bool:
    """Whether the op `name` is a row with that trait."""
    op = OPS.get(name)
    return op is not None and trait in op.traits


def is_kind(name: str, kind: Kind) -> bool:
    """Whether the op `name` is a row of that kind."""
    op = OPS.get(name)
    return op is not None and op.kind is kind


def is_scalar(name: str) -> bool:
    """Whether the op `name` is a scalar primitive: what the bodies of kernels are made of."""
    op = OPS.get(name)
    return op is not None and op.kind is POINTWISE and op.compose is None and has_kernels(op)


def is_elementwise(name: str) -> bool:
    """Whether kernels compute the op `name` of each element: a scalar primitive, or what stands for several."""
    return is_scalar(name) or has_trait(name, "whole")


def lacks(op: OpDef) -> str:
    """`char` of the NumPy dtypes that a row refuses: what moves elements takes them all but for complex numbers."""
    barebones = op.kind not in COMPUTING or "barebones" in op.traits
    return ("" if "complex" in op.traits else COMPLEX_CHARS) + ("" if barebones else BAREBONES_CHARS)


def has_kernels(op: OpDef) -> bool:
    """Whether kernels may know of a row: of those that complex numbers alone have they do not."""
    return op.dtypes not in ("wide", "complex")


def fold_of(name: str) -> str:
    """How kernels join the parts of reduction `name`; "" for any other op."""
    op = OPS.get(name)
    return op.fold if op is not None else ""


def backward_name(op: OpDef) -> str:
    """What `grad_fn` shows of a result of `op`; "" where its parts are recorded in its place, or nothing is."""
    if op.vjp is NONDIFF or (op.vjp is None and op.compose is not None):
        return ""
    return "".join(part.capitalize() for part in op.name.replace(".", "_").split("_")) + "Backward"
