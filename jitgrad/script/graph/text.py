"""The graph's text form: a small language, so that graphs can be read, compared and tested as text.

    graph f[N!, K](%x: f32[N, 4], %w: f32[4, K], %c: bool) -> f32[N, K]:
      %0: f32[N, K] = matmul(%x, %w)                     # model.py:7:9
      %1: f32[N, K] = if(%c):                            # model.py:8:5
        then:
          %2: f32[N, K] = relu(%0)
          yield %2
        else:
          yield %0
      %3: int, %h: f32[N, K] = while(%c, %1):
        body(%p: f32[N, K]):
          yield %c, %p
      return %h

- A block's binders stand in brackets before its parameters, a node's after `binds`. The first occurrence of a symbol
  that is known to differ from 1 carries `!`. Without brackets a block binds the new symbols that stand alone in its
  parameters' types.
- Attributes follow the operands in braces. A bare `f32` is a dtype, `f32[]` a type, `@N` a symbol (rather than the
  size N), `$name` an object that text cannot say: a builtin exception, or an entry of `objects`.
- Names of values and symbols are for people; `parse(to_text(g))` equals `g` but for them and the extent of spans.

`parse.py` reads it.
"""

import builtins
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

from jitgrad import dtypes
from jitgrad.dims import FUNCTIONS, Call, Dim, Size, Symbol
from jitgrad.errors import Span
from jitgrad.ops.types import (BOOL, FLOAT, INT, NUMBER, TEXT, ListType, OptionalType, SeqType, TensorType, Type,
                               short_name)
from jitgrad.script.graph.nodes import Block, Nested, Node, Value, payload, symbol_axes, unnested

SCALARS: dict[str, Type] = {t.name: t for t in (INT, FLOAT, BOOL, NUMBER, TEXT)}
DTYPES = {short_name(d): d for d in dtypes.ALL}
HOLDERS: dict[str, Callable[[Type], Type]] = {"seq": SeqType, "list": ListType, "optional": OptionalType}
_RESERVED = frozenset({*SCALARS, *DTYPES, *FUNCTIONS, *HOLDERS, "None", "True", "False", "inf", "nan"})
_LABELS: dict[str, tuple[str, ...]] = {"if": ("then", "else")}
_COMMENT_COLUMN = 60


class Graph(Protocol):
    """What is printed: an `ir.Graph`, which prints itself by this."""

    name: str
    block: Block


def to_text(graph: Graph, spans: bool | Literal["chain"] = True, *, names: bool = True,
            objects: dict[str, Any] | None = None) -> str:
    """The text form of `graph`.

    Args:
        graph: any graph, also one that `verify` would refuse.
        spans: end each line that has a source span with `# file:line:column`; "chain": and ` <- ` the places of the
            calls through which it was reached. `parse` reads them back, without the extent and the function's name.
        names: keep the values' and symbols' names; otherwise number them in order, so that graphs that are equal up to
            names have equal text.
        objects: filled with the `$name` objects of the text, for `parse`.
    """
    return _Printer(spans, names, {} if objects is None else objects).graph(graph)


def equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs are equal up to names and spans."""
    objects_a: dict[str, Any] = {}
    objects_b: dict[str, Any] = {}
    text_a = to_text(a, spans=False, names=False, objects=objects_a)
    text_b = to_text(b, spans=False, names=False, objects=objects_b)
    return text_a == text_b and all(objects_b[k] is v for k, v in objects_a.items())


def describe(graph: Graph, node: Node | None, values: Iterable[Value] = ()) -> tuple[str, list[str]]:
    """A node's line as `to_text` prints it (the graph's first line for None), and the names of `values` there."""
    printer = _Printer(False, True, {})
    printer.wanted = node
    text = printer.graph(graph)
    return printer.found or text.split("\n", 1)[0], [printer.value(v) for v in values]


class _Printer:
    """Assigns names while it prints."""

    def __init__(self, spans: bool | Literal["chain"], names: bool, objects: dict[str, Any]):
        self.spans, self.names, self.objects = spans, names, objects
        self.values: dict[Value, str] = {}
        self.symbols: dict[Symbol, str] = {}
        self.used: dict[str, int] = {}
        self.object_names: dict[int, str] = {id(v): k for k, v in objects.items()}
        self.counter = 0
        self.lines: list[str] = []
        self.wanted: Node | None = None  # the node whose line `describe` is after
        self.found = ""

    def graph(self, graph: Graph) -> str:
        name = graph.name if graph.name.replace(".", "_").isidentifier() else repr(graph.name)
        head = f"graph {name if self.names else 'f'}{self.params(graph.block, always=True)}"
        results = ", ".join([self.type(v.type) for v in graph.block.results])
        self.lines.append(f"{head} -> {results if len(graph.block.results) == 1 else f'({results})'}:")
        unnested(self.block(graph.block, "return", "  "))
        return "\n".join(self.lines) + "\n"

    def block(self, block: Block, end: str, pad: str) -> Nested[None]:
        for node in block.nodes:
            self.lines.append(self.node(node, pad))
            if node is self.wanted:
                self.found = self.lines[-1].strip()
            labels = _LABELS.get(node.op, ())
            if len(labels) != len(node.blocks):
                labels = ("body",) * len(node.blocks)
            for label, inner in zip(labels, node.blocks, strict=True):
                self.lines.append(f"{pad}  {label}{self.params(inner, always=False)}:")
                yield self.block(inner, "yield", pad + "    ")
        self.lines.append(f"{pad}{end} {', '.join([self.value(v) for v in block.results])}".rstrip())

    def params(self, block: Block, *, always: bool) -> str:
        """`[binders](parameters)`; nothing for a block that has neither, unless `always`."""
        if not block.params and not block.binds and not always:
            return ""
        text = ""
        if block.binds or any(s not in self.symbols for s in alone(block.params)):
            text = f"[{', '.join([self.symbol(s) for s in block.binds])}]"
        return f"{text}({', '.join([f'{self.define(p)}: {self.type(p.type)}' for p in block.params])})"

    def node(self, node: Node, pad: str) -> str:
        """One line, without its blocks."""
        # from left to right: a symbol's first occurrence is marked
        left = ", ".join([f"{self.define(v)}: {self.type(v.type)}" for v in node.outputs])
        text = f"{node.op}({', '.join([self.value(v) for v in node.inputs])})"
        if node.attrs:
            text += "{" + ", ".join([f"{k}={self.attr(a)}" for k, a in node.attrs.items()]) + "}"
        if node.outputs:
            text = f"{left} = {text}"
        binds = f" binds {', '.join([self.symbol(s) for s in node.binds])}" if node.binds else ""
        text = f"{pad}{text}{binds}{':' if node.blocks else ''}"
        if self.spans and node.span is not None:
            text = f"{text.ljust(_COMMENT_COLUMN)}  # {_chain(node.span) if self.spans == 'chain' else node.span}"
        return text

    def define(self, value: Value) -> str:
        """A fresh name for a value."""
        name = _clean(value.name) if self.names and value.name else ""
        if not name or name.isdigit():
            name = str(self.counter)
            self.counter += 1
        self.values[value] = text = "%" + self.unique(name)
        return text

    def value(self, value: Value) -> str:
        """A value's name; one that nothing defined gets one too (`verify` reports it)."""
        return self.values.get(value) or self.define(value)

    def unique(self, name: str) -> str:
        count = self.used.get(name)
        if count is None:
            self.used[name] = 0
            return name
        while True:
            count += 1
            candidate = f"{name}.{count}"
            if candidate not in self.used:
                self.used[name], self.used[candidate] = count, 0
                return candidate

    def symbol(self, symbol: Symbol) -> str:
        name = self.symbols.get(symbol)
        if name is not None:
            return name
        name = _clean(symbol.name).replace(".", "_") if self.names else f"s{len(self.symbols)}"
        if name in _RESERVED or not name[0].isalpha():
            name = "s_" + name
        base, count = name, 0
        while "$" + name in self.used:  # symbols share the table of values under a prefix that no value has
            count += 1
            name = f"{base}_{count}"
        self.used["$" + name] = 0
        self.symbols[symbol] = name
        return name + "!" if symbol.not_one else name

    def size(self, size: Size) -> str:
        if isinstance(size, int):
            return str(size)
        symbol = size.symbol
        if symbol is not None:
            return self.symbol(symbol)
        terms = []
        for monomial, coefficient in size.terms:
            factors = sorted([self.atom(a) for a in monomial])
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            terms.append((len(monomial), "*".join(factors)))
        if not self.names:  # numbers of symbols, and with them the order of terms, differ between equal graphs
            terms.sort()
        return " + ".join([t for _, t in terms])

    def atom(self, atom: Symbol | Call) -> str:
        if isinstance(atom, Symbol):
            return self.symbol(atom)
        return f"{atom.fn}({', '.join([self.size(a) for a in atom.args])})"

    def type(self, type_: Type) -> str:
        if isinstance(type_, TensorType):
            return f"{short_name(type_.dtype)}[{', '.join([self.size(d) for d in type_.dims])}]"
        if isinstance(type_, SeqType):
            return f"{'list' if isinstance(type_, ListType) else 'seq'}<{self.type(type_.elem)}>"
        if isinstance(type_, OptionalType):
            return f"optional<{self.type(type_.elem)}>"
        return str(type_)

    def attr(self, a: Any) -> str:
        if a is None or isinstance(a, (bool, int, float, str)):
            return repr(a)
        if isinstance(a, tuple):
            return f"({', '.join([self.attr(v) for v in a])}{',' if len(a) == 1 else ''})"
        if isinstance(a, Dim):
            return self.size(a)
        if isinstance(a, dtypes.dtype):
            return short_name(a)
        if isinstance(a, Symbol):
            return "@" + self.symbol(a)
        if isinstance(a, (TensorType, SeqType, OptionalType)) or a in SCALARS.values():
            return self.type(a)
        known = self.object_names.get(id(a))
        if known is None:
            base = known = _clean(getattr(a, "__name__", type(a).__name__))
            count = 0
            while known in self.objects or (getattr(builtins, known, a) is not a):
                count += 1
                known = f"{base}.{count}"
            self.objects[known] = a
            self.object_names[id(a)] = known
        return "$" + known


def _clean(name: str) -> str:
    if name.isidentifier():
        return name
    return re.sub(r"[^\w.]", "_", name) or "_"


def alone(params: Iterable[Value]) -> list[Symbol]:
    """The symbols that stand alone in the parameters' types (sequences' elements apart), in order."""
    return list(dict.fromkeys(symbol for p in params for _, symbol in symbol_axes(payload(p.type))))


def _chain(span: Span) -> str:
    places = []
    place: Span | None = span
    while place is not None:
        places.append(str(place))
        place = place.caller
    return " <- ".join(places)
