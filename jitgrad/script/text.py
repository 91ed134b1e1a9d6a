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
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NoReturn

from jitgrad import dtypes
from jitgrad.dims import FUNCTIONS, Call, Dim, Size, Symbol, call, dim
from jitgrad.errors import JitgradError, Span
from jitgrad.ops.types import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    ListType,
    OptionalType,
    SeqType,
    TensorType,
    Type,
    long_name,
    short_name,
)
from jitgrad.script.ir import Block, Graph, Node, Value

_SCALARS: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "number": NUMBER}
_DTYPES = {short_name(d): d for d in dtypes.ALL}
_HOLDERS: dict[str, Callable[[Type], Type]] = {"seq": SeqType, "list": ListType, "optional": OptionalType}
_RESERVED = frozenset({*_SCALARS, *_DTYPES, *FUNCTIONS, *_HOLDERS, "None", "True", "False", "inf", "nan"})
_LABELS: dict[str, tuple[str, ...]] = {"if": ("then", "else")}
_COMMENT_COLUMN = 60


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


class ParseError(JitgradError):
    """Text that is not a graph; the message names the line."""


def parse(text: str, objects: Mapping[str, Any] | None = None) -> Graph:
    """The graph that `text` says. Raises ParseError. `objects` are what `$name` means besides builtin exceptions."""
    return _Parser(objects or {}).graph(text)


# --- printing ------------------------------------------------------------------------------------------------------


class _Printer:
    """Assigns names while it prints; blocks are visited with an explicit stack."""

    def __init__(self, spans: bool | Literal["chain"], names: bool, objects: dict[str, Any]):
        self.spans, self.names, self.objects = spans, names, objects
        self.values: dict[Value, str] = {}
        self.symbols: dict[Symbol, str] = {}
        self.used: dict[str, int] = {}
        self.object_names: dict[int, str] = {id(v): k for k, v in objects.items()}
        self.counter = 0
        self.wanted: Node | None = None  # the node whose line `describe` is after
        self.found = ""

    def graph(self, graph: Graph) -> str:
        """The whole text, ending in a newline."""
        name = graph.name if graph.name.replace(".", "_").isidentifier() else repr(graph.name)
        head = f"graph {name if self.names else 'f'}{self.params(graph.block, always=True)}"
        results = ", ".join([self.type(v.type) for v in graph.outputs])
        lines = [f"{head} -> {results if len(graph.outputs) == 1 else f'({results})'}:"]
        todo: list[tuple[str, Block, int]] = [("return", graph.block, 0)]  # what is due: a block from a node on
        pads = ["  "]
        while todo:
            label, block, start = todo.pop()
            pad = pads.pop()
            if start < 0:
                lines.append(f"{pad}{label}{self.params(block, always=False)}:")
                label, pad, start = "yield", pad + "  ", 0
            nodes = block.nodes
            for i in range(start, len(nodes)):
                node = nodes[i]
                lines.append(self.node(node, pad))
                if node is self.wanted:
                    self.found = lines[-1].strip()
                if node.blocks:
                    labels = _LABELS.get(node.op, ())
                    if len(labels) != len(node.blocks):
                        labels = ("body",) * len(node.blocks)
                    todo.append((label, block, i + 1))
                    todo.extend((name, inner, -1) for name, inner in zip(labels[::-1], node.blocks[::-1], strict=True))
                    pads.append(pad)
                    pads.extend([pad + "  "] * len(labels))
                    break
            else:
                lines.append(f"{pad}{label} {', '.join([self.value(v) for v in block.results])}".rstrip())
        return "\n".join(lines) + "\n"

    def params(self, block: Block, *, always: bool) -> str:
        """`[binders](parameters)`; nothing for a block that has neither, unless `always`."""
        if not block.params and not block.binds and not always:
            return ""
        text = ""
        if block.binds or any(s not in self.symbols for s in _alone(block.params)):
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
        if a is None or isinstance(a, (bool, int, str)):
            return repr(a)
        if isinstance(a, float):
            return repr(a)
        if isinstance(a, tuple):
            return f"({', '.join([self.attr(v) for v in a])}{',' if len(a) == 1 else ''})"
        if isinstance(a, Dim):
            return self.size(a)
        if isinstance(a, dtypes.dtype):
            return short_name(a)
        if isinstance(a, Symbol):
            return "@" + self.symbol(a)
        if isinstance(a, (TensorType, SeqType, OptionalType)) or a in (INT, FLOAT, BOOL, NUMBER):
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


def _alone(params: Iterable[Value]) -> list[Symbol]:
    """The symbols that stand alone in the parameters' types (sequences' elements apart), in order."""
    found: dict[Symbol, None] = {}
    for p in params:
        type_ = p.type.elem if isinstance(p.type, OptionalType) else p.type
        if isinstance(type_, TensorType):
            for size in type_.dims:
                if isinstance(size, Dim) and size.symbol is not None:
                    found[size.symbol] = None
    return list(found)


def _chain(span: Span) -> str:
    places = []
    place: Span | None = span
    while place is not None:
        places.append(str(place))
        place = place.caller
    return " <- ".join(places)


# --- parsing -------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"""[ ]*(?:
    (?P<value>%[\w.]+)
  | (?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+(?:e[+-]?\d+)?|inf\b|nan\b))
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<name>[^\W\d][\w.]*!?)
  | (?P<object>\$[\w.]+)
  | (?P<comment>\#.*)
  | (?P<punctuation>->|[@()\[\]{}<>,:=*+])
)""", re.VERBOSE)

Token = tuple[str, str]
_END: Token = ("end", "")


class _Pending:
    """A node whose blocks are being read; it becomes a `Node` when the next line of its own block comes."""

    __slots__ = ("blocks", "indent", "parts")

    def __init__(self, parts: tuple[Any, ...], indent: int):
        self.parts, self.indent = parts, indent
        self.blocks: list[Block] = []


class _Open:
    """A block whose lines are being read."""

    __slots__ = ("block", "pending")

    def __init__(self, block: Block):
        self.block = block
        self.pending: _Pending | None = None

    def flush(self) -> None:
        """Append the pending node, now that all its blocks are known."""
        if self.pending is not None:
            op, inputs, attrs, outputs, span, binds = self.pending.parts
            self.block.nodes.append(Node(op, inputs, attrs, outputs, tuple(self.pending.blocks), span, binds))
            self.pending = None


def _read_chain(comment: str) -> Span | None:
    """The span that a comment tells, if it does."""
    span: Span | None = None
    for place in reversed(comment.removeprefix("#").strip().split(" <- ")):
        file, *numbers = place.rsplit(":", 2)
        if len(numbers) < 2 or not (numbers[0].isdecimal() and numbers[1].isdecimal()):
            return None
        line, column = map(int, numbers)
        span = Span(file, line, column, line, column + 1, "", span)
    return span


class _Parser:
    """Recursive descent over one line's tokens; blocks by indentation, with an explicit stack."""

    def __init__(self, objects: Mapping[str, Any]):
        self.objects = objects
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, Symbol] = {}
        self.tokens: list[Token] = []
        self.at = 0
        self.line = 0
        self.span: Span | None = None  # of the line

    def graph(self, text: str) -> Graph:
        graph: Graph | None = None
        stack: list[_Open] = []
        for number, line in enumerate(text.splitlines(), 1):
            self.line = number
            stripped = line.lstrip(" ")
            if not stripped or stripped.startswith("#"):
                continue
            self.tokenize(stripped)
            if graph is None:
                graph = self.header()
                stack.append(_Open(graph.block))
            else:
                self.statement(len(line) - len(stripped), stack)
        if graph is None or stack:
            raise ParseError(f"line {self.line}: the graph has no end (a `return` line)")
        return graph

    def statement(self, indent: int, stack: list[_Open]) -> None:
        """One line of a body: a node, the heading of a block, or the end of one."""
        if not stack:
            self.fail("nothing may follow the graph's `return`")
        top = stack[-1]
        if top.pending is not None and indent > top.pending.indent:
            self.take("name")  # the label is for people
            block = self.block_header()
            self.expect(":")
            top.pending.blocks.append(block)
            stack.append(_Open(block))
            return
        top.flush()
        word = self.peek()[1]
        if word in ("yield", "return") and self.tokens[self.at + 1][1] != "(":
            if (word == "return") != (len(stack) == 1):
                self.fail("a graph ends in `return`, a block in `yield`")
            self.take()
            top.block.results = tuple(self.listed(self.use, _END[1]))
            stack.pop()
            return
        self.node(top, indent)

    def header(self) -> Graph:
        if self.take()[1] != "graph":
            self.fail("a graph starts with `graph name(`")
        kind, name = self.take()
        block = self.block_header()
        self.expect("->")
        if self.accept("("):
            self.listed(self.type, ")")
        else:
            self.type()
        self.expect(":")
        return Graph(block, ast.literal_eval(name) if kind == "string" else name)

    def block_header(self) -> Block:
        """`[binders](params)`, both optional."""
        binds = tuple(self.listed(self.symbol, "]")) if self.accept("[") else None
        known = set(self.symbols.values())
        params = tuple(self.listed(self.define, ")")) if self.accept("(") else ()
        if binds is None:
            binds = tuple(s for s in _alone(params) if s not in known)
        return Block(params=params, binds=binds)

    def node(self, top: _Open, indent: int) -> None:
        declared: list[tuple[str, Type]] = self.listed(self.declare, "=") if self.peek()[0] == "value" else []
        op = self.take("name")[1]
        self.expect("(")
        inputs = tuple(self.listed(self.use, ")"))
        attrs = dict(self.listed(self.keyword, "}")) if self.accept("{") else {}
        binds: list[Symbol] = []
        if self.accept("binds"):
            binds.append(self.symbol())
            while self.accept(","):
                binds.append(self.symbol())
        outputs = tuple(self.new(name, type_) for name, type_ in declared)
        if self.accept(":"):
            top.pending = _Pending((op, inputs, attrs, outputs, self.span, tuple(binds)), indent)
        else:
            top.block.nodes.append(Node(op, inputs, attrs, outputs, (), self.span, tuple(binds)))
        if self.peek() != _END:
            self.fail(f"unexpected `{self.peek()[1]}`")

    # --- pieces of a line ---

    def declare(self) -> tuple[str, Type]:
        name = self.take("value")[1]
        self.expect(":")
        return name, self.type()

    def define(self) -> Value:
        return self.new(*self.declare())

    def new(self, name: str, type_: Type) -> Value:
        if name in self.values:
            self.fail(f"`{name}` is defined twice")
        value = self.values[name] = Value(type_, "" if name[1:].isdigit() else name[1:])
        return value

    def use(self) -> Value:
        name = self.take("value")[1]
        value = self.values.get(name)
        if value is None:
            self.fail(f"`{name}` is not defined")
        return value

    def keyword(self) -> tuple[str, Any]:
        key = self.take("name")[1]
        self.expect("=")
        return key, self.attr()

    def attr(self) -> Any:
        kind, text = self.peek()
        if kind == "string":
            self.take()
            return ast.literal_eval(text)
        if kind == "number":
            if not text.lstrip("-").isdigit():
                self.take()
                return float(text)
            return self.size()
        if kind == "object":
            self.take()
            name = text[1:]
            if name in self.objects:
                return self.objects[name]
            found = getattr(builtins, name, None)
            if not (isinstance(found, type) and issubclass(found, BaseException)):
                self.fail(f"unknown object `{text}`; pass `objects`")
            return found
        if self.accept("("):
            return tuple(self.listed(self.attr, ")"))
        if self.accept("@"):
            return self.symbol()
        if text in ("None", "True", "False"):
            self.take()
            return {"None": None, "True": True, "False": False}[text]
        if text in _DTYPES and self.tokens[self.at + 1][1] != "[":
            self.take()
            return _DTYPES[text]
        if text in _DTYPES or text in _SCALARS or text in _HOLDERS:
            return self.type()
        return self.size()

    def type(self) -> Type:
        text = self.take("name")[1]
        if text in _SCALARS:
            return _SCALARS[text]
        if text in _HOLDERS:
            self.expect("<")
            elem = self.type()
            self.expect(">")
            return _HOLDERS[text](elem)
        if text not in _DTYPES:
            self.fail(f"`{text}` is not a type")
        self.expect("[")
        return TensorType(dtypes.by_name(long_name(text)), tuple(self.listed(self.size, "]")))

    def size(self) -> Size:
        """A sum of products of ints, symbols and calls."""
        total: Size = 0
        while True:
            term = self.factor()
            while self.accept("*"):
                factor = self.factor()
                term = factor * term if isinstance(term, int) else term * factor
            total = term + total if isinstance(total, int) else total + term
            if not self.accept("+"):
                return total

    def factor(self) -> Size:
        kind, text = self.peek()
        if kind == "number":
            self.take()
            return int(text)
        if text in FUNCTIONS:
            self.take()
            self.expect("(")
            return call(text, *self.listed(self.size, ")"))
        return dim(self.symbol())

    def symbol(self) -> Symbol:
        name = self.take("name")[1]
        bare = name.rstrip("!")
        symbol = self.symbols.get(bare)
        if symbol is None:
            symbol = self.symbols[bare] = Symbol(bare, not_one=bare != name)
        return symbol

    def listed(self, item: Any, end: str) -> list[Any]:
        """Items separated by commas up to and with `end`; a comma may trail."""
        found: list[Any] = []
        while not self.accept(end):
            found.append(item())
            if not self.accept(","):
                self.expect(end)
                break
        return found

    # --- tokens ---

    def tokenize(self, line: str) -> None:
        tokens: list[Token] = []
        self.span = None
        position, end = 0, len(line.rstrip())
        while position < end:
            match = _TOKEN.match(line, position)
            if match is None:
                self.tokens, self.at = [_END], 0
                self.fail(f"cannot read `{line[position:]}`")
            kind = match.lastgroup or ""
            if kind == "comment":
                self.span = _read_chain(match[kind])
                break
            tokens.append((kind, match[kind]))
            position = match.end()
        tokens.append(_END)
        tokens.append(_END)
        self.tokens, self.at = tokens, 0

    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self, kind: str = "") -> Token:
        token = self.tokens[self.at]
        if kind and token[0] != kind:
            self.fail(f"expected a {kind}, found `{token[1]}`")
        if token[0] != "end":
            self.at += 1
        return token

    def accept(self, text: str) -> bool:
        token = self.tokens[self.at]
        if token[1] != text or token[0] == "string":
            return False
        if token[0] != "end":
            self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected `{text}`, found `{self.peek()[1]}`")

    def fail(self, message: str) -> NoReturn:
        raise ParseError(f"line {self.line}: {message}")
