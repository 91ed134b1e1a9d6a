"""What `verify` knows at a node, and what the conventions of ops ask of it: operands, attributes, types."""

from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad import dims
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.errors import JitgradError
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Graph, Node, Value, type_symbols
from jitgrad.script.graph.text import describe


class InvalidGraph(JitgradError):
    """A graph that breaks an invariant: a bug in whatever made it."""


class Checker:
    """What is known at a node of a graph under verification, and the questions that conventions are put in."""

    def __init__(self, graph: Graph, pure: bool):
        self.graph, self.pure = graph, pure
        self.node: Node | None = None
        self.visible: set[Value] = set()
        self.symbols: set[Symbol] = set()
        self.facts: set[tuple[Value, bool]] = set()  # bools whose value is known here
        self.defined: dict[Value, Node | None] = {}

    def fail(self, message: str, *values: Value) -> None:
        """Raise; `{}` in the message stand for the names of `values`."""
        line, names = describe(self.graph, self.node, values)
        raise InvalidGraph(f"{message.format(*(f'`{n}`' for n in names))}\n  in: {line}")

    def count(self, node: Node, n: int) -> None:
        """As many operands as that."""
        if len(node.inputs) != n:
            self.fail(f"`{node.op}` takes {n} operand{'s' * (n != 1)}, not {len(node.inputs)}")

    def operand(self, node: Node, i: int, *allowed: Type | type) -> None:
        """Operand i must have one of the types (a class: any of that class)."""
        if i >= len(node.inputs):
            self.fail(f"`{node.op}` lacks operand {i}")
        t = node.inputs[i].type
        if not any(isinstance(t, a) if isinstance(a, type) else t == a for a in allowed):
            names = " or ".join(a.__name__ if isinstance(a, type) else str(a) for a in allowed)
            self.fail(f"operand {i} of `{node.op}`, {{}}, is a `{t}`, not {names}", node.inputs[i])

    def attr(self, node: Node, name: str) -> Any:
        if name not in node.attrs:
            self.fail(f"`{node.op}` lacks the attribute `{name}`")
        return node.attrs[name]

    def blocks_of(self, node: Node, n: int) -> None:
        """As many blocks as that."""
        if len(node.blocks) != n:
            self.fail(f"`{node.op}` has {n} block{'s' * (n != 1)}, not {len(node.blocks)}")

    def flows(self, sources: Sequence[Type], targets: Sequence[Type], binds: Sequence[Symbol], what: str) -> None:
        """Values of the types `sources` become values of the types `targets`, which may bind symbols."""
        if len(sources) != len(targets):
            self.fail(f"{what}: {len(sources)} values for {len(targets)}")
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if not compatible(source, target, binds):
                self.fail(f"{what}: value {i} is a `{source}`, not a `{target}`")

    def is_present(self, optional: Value) -> bool:
        """Whether the facts that hold here, or the value's own definition, say that an Optional is present."""
        for v, truth in self.facts:
            if (v, not truth) in self.facts:
                return True  # no program gets here
            source = self.defined.get(v)
            if truth and source is not None and source.op == "opt.has" and source.inputs[0] is optional:
                return True
        node = self.defined.get(optional)
        if node is None:
            return False
        if node.op == "opt.some":
            return True
        if node.op == "if":
            i, taken = node.outputs.index(optional), self.truth(node.inputs[0])
            results = [b.results[i] for b in node.blocks]
            return all(self.is_present(r) for r, side in zip(results, (True, False), strict=True)
                       if taken is None or taken is side)
        return False

    def truth(self, value: Value) -> bool | None:
        """What a bool is known to be here."""
        negated = False
        while True:
            for t in (True, False):
                if (value, t) in self.facts:
                    return t is not negated
            node = self.defined.get(value)
            if node is None or node.op != "num.not":
                return None
            value, negated = node.inputs[0], not negated


# --- types ------------------------------------------------------------------------------------------------------------


def compatible(source: Type, target: Type, binds: Sequence[Symbol] = ()) -> bool:
    """Whether a `source` may be where a `target` is said to be: equal but for sizes that may be equal.

    Sizes over symbols in `binds`, or in a sequence's element, are taken as they come; so is an Optional's size of
    zero: nothing is typed so where a size was not known yet.
    """
    if isinstance(source, TensorType) and isinstance(target, TensorType):
        return (source.dtype is target.dtype and len(source.dims) == len(target.dims)
                and (source.dims == target.dims
                     or all(_may_equal(s, t, binds) for s, t in zip(source.dims, target.dims, strict=True))))
    if isinstance(source, SeqType) and type(source) is type(target):
        return compatible(source.elem, target.elem, (*binds, *type_symbols(target.elem)))
    if isinstance(source, OptionalType) and isinstance(target, OptionalType):
        elem, wanted = source.elem, target.elem
        if isinstance(elem, TensorType) and isinstance(wanted, TensorType) and len(elem.dims) == len(wanted.dims):
            elem = TensorType(elem.dtype, tuple([s or t for s, t in zip(elem.dims, wanted.dims, strict=True)]))
        return compatible(elem, wanted, binds)
    return source == target


def _may_equal(a: Size, b: Size, binds: Sequence[Symbol]) -> bool:
    if a == b or (isinstance(b, Dim) and binds and not dims.symbols(b).isdisjoint(binds)):
        return True
    return isinstance(a - b, Dim)


def types_of(values: Iterable[Value]) -> list[Type]:
    """The types of values."""
    return [v.type for v in values]


def free_symbols(type_: Type) -> frozenset[Symbol]:
    """The symbols of a type that must be in scope: not those in a sequence's element, which may be existential."""
    if isinstance(type_, SeqType):
        return frozenset()
    return free_symbols(type_.elem) if isinstance(type_, OptionalType) else type_symbols(type_)
