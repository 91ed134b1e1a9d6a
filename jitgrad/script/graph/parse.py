"""Reads the text form of graphs; `text.py` describes it."""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from jitgrad import dtypes
from jitgrad.dims import FUNCTIONS, Size, Symbol, call, dim
from jitgrad.errors import JitgradError, Span
from jitgrad.ops.types import TensorType, Type, long_name
from jitgrad.script.graph.ir import Block, Graph, Nested, Node, Value, unnested
from jitgrad.script.graph.text import DTYPES, HOLDERS, SCALARS, alone

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


class ParseError(JitgradError):
    """Text that is not a graph; the message names the line."""


def parse(text: str, objects: Mapping[str, Any] | None = None) -> Graph:
    """The graph that `text` says. Raises ParseError. `objects` are what `$name` means besides builtin exceptions."""
    return _Parser(text, objects or {}).graph()


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
    """Recursive descent over one line's tokens; blocks by indentation."""

    def __init__(self, text: str, objects: Mapping[str, Any]):
        self.objects = objects
        self.lines = self.read(text)
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, Symbol] = {}
        self.tokens: list[Token] = []
        self.at = 0
        self.line = self.indent = 0
        self.span: Span | None = None  # of the line

    def read(self, text: str) -> Iterator[None]:
        """Go through the lines that say something."""
        for self.line, line in enumerate(text.splitlines(), 1):
            stripped = line.lstrip(" ")
            if stripped and not stripped.startswith("#"):
                self.indent = len(line) - len(stripped)
                self.tokenize(stripped)
                yield

    def advance(self) -> None:
        """Go on to the next line."""
        if next(self.lines, self) is self:
            raise ParseError(f"line {self.line}: the graph has no end (a `return` line)")

    def graph(self) -> Graph:
        self.advance()
        graph = self.header()
        self.advance()
        unnested(self.body(graph.block, "return"))
        for _ in self.lines:
            self.fail("nothing may follow the graph's `return`")
        return graph

    def body(self, block: Block, end: str) -> Nested[None]:
        while (word := self.peek()[1]) not in ("yield", "return") or self.tokens[self.at + 1][1] == "(":
            indent, span = self.indent, self.span
            op, inputs, attrs, outputs, binds, has_blocks = self.node()
            blocks: list[Block] = []
            self.advance()
            while has_blocks and self.indent > indent:
                self.take("name")  # the label is for people
                blocks.append(self.block_header())
                self.expect(":")
                self.advance()
                yield self.body(blocks[-1], "yield")
                self.advance()
            block.nodes.append(Node(op, inputs, attrs, outputs, tuple(blocks), span, binds))
        if word != end:
            self.fail("a graph ends in `return`, a block in `yield`")
        self.take()
        block.results = tuple(self.listed(self.use, _END[1]))

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
            binds = tuple(s for s in alone(params) if s not in known)
        return Block(params=params, binds=binds)

    def node(self) -> tuple[str, tuple[Value, ...], dict[str, Any], tuple[Value, ...], tuple[Symbol, ...], bool]:
        """Op, inputs, attributes, outputs and binders of a line; whether blocks follow."""
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
        has_blocks = self.accept(":")
        if self.peek() != _END:
            self.fail(f"unexpected `{self.peek()[1]}`")
        return op, inputs, attrs, outputs, tuple(binds), has_blocks

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
        if text in DTYPES and self.tokens[self.at + 1][1] != "[":
            self.take()
            return DTYPES[text]
        if text in DTYPES or text in SCALARS or text in HOLDERS:
            return self.type()
        return self.size()

    def type(self) -> Type:
        text = self.take("name")[1]
        if text in SCALARS:
            return SCALARS[text]
        if text in HOLDERS:
            self.expect("<")
            elem = self.type()
            self.expect(">")
            return HOLDERS[text](elem)
        if text not in DTYPES:
            self.fail(f"`{text}` is not a type")
        self.expect("[")
        return TensorType(dtypes.by_name(long_name(text)), tuple(self.listed(self.size, "]")))

    def size(self) -> Size:
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
