"""What a printed graph calls its values, how it writes them as operands, and sizes as those of values with them.

An expression is text, with how strongly its weakest operator binds.
"""

import builtins
import keyword
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Atom, Size, Symbol, render, render_call
from jitgrad.dtypes import dtype
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, Value, payload, symbol_axes

_RESERVED = frozenset([*keyword.kwlist, *dir(builtins), "jitgrad", "math", "ops", "number", "commit", "stored",
                        "saved"])

Line = tuple[str, int]
Expression = tuple[str, int]  # text, and how strongly its weakest operator binds

#: how strongly operators bind; a name or a call is ATOM
TERNARY, NOT, COMPARE, UNARY, ATOM = 1, 3, 4, 11, 20
BINDS = {"==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
         "*": 10, "/": 10, "//": 10, "%": 10, "@": 10, "**": 12}


def wrap(expression: Expression, least: int) -> str:
    """The text, in parentheses where it binds less than `least`."""
    text, binds = expression
    return text if binds >= least else f"({text})"


def literal(value: Any) -> Expression:
    """A Python number."""
    if isinstance(value, float) and not math.isfinite(value):
        text = "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"
    else:
        text = repr(value)
    return text, UNARY if text[0] == "-" else ATOM


def tensor_of(text: str, d: dtype) -> str:
    """A number as a 0-dim tensor."""
    return f"jitgrad.tensor({text}, dtype=jitgrad.{d.name})"


class Operands:
    """The values of a graph under way as operands of what is written next: no name is given twice.

    Attributes:
        names: what values are called.
        taken: how often a name was asked for.
        sizes: what stands for a symbol.
        parameters: what the graph's inputs are called at the start.
        imports: lines that the text needs.
        pending: values used once, not yet written, and the user's lines that they come from.
        constants: values that are written out wherever they are used.
        weak: 0-dim tensors that are written as numbers.
        told: the user's lines of what is about to be written.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()
        self.sizes: dict[Any, str] = {}
        self.parameters: dict[Value, str] = {}
        self.imports: set[str] = set()
        self.pending: dict[Value, tuple[Expression, tuple[Line, ...]]] = {}
        self.constants: dict[Value, Expression] = {}
        self.weak: set[Value] = set()
        self.told: list[Line] = []

    def name(self, value: Value) -> str:
        """The value's own name, or a temporary one."""
        if value not in self.names:
            self.names[value] = self.fresh(identifier(value.name), plain=bool(value.name))
        return self.names[value]

    def fresh(self, base: str, plain: bool = True) -> str:
        """`base`, numbered if it is taken; temporaries always have a number."""
        while True:
            self.taken[base] += 1
            name = base if self.taken[base] == 1 and plain and base not in _RESERVED else f"{base}{self.taken[base]}"
            if name == base or name not in self.taken:
                self.taken[name] += name != base
                return name

    def bind_sizes(self, value: Value) -> None:
        """Let the symbols that stand alone in a value's type be written as its sizes."""
        for axis, symbol in symbol_axes(payload(value.type)):
            if symbol not in self.sizes:
                self.sizes[symbol] = f"{self.name(value)}.shape[{axis}]"

    def size(self, size: Size) -> Expression:
        """A size as Python."""
        single = isinstance(size, int) or size.symbol is not None
        text = render(size, self._atom, " * ").replace(" + -1 * ", " - ").replace(" + -", " - ")
        return text, ATOM if single else BINDS["+"]

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.sizes.get(atom, atom.name)
        args = [self.size(a) for a in atom.args]
        if atom.fn == "not_one":
            return f"int({wrap(args[0], 5)} != 1)"
        if atom.fn == "bcast":
            *first, text = [text for text, _ in args]
            for other in reversed(first):
                text = f"({text} if {other} == 1 else {other})"
            return text
        return render_call(atom.fn, [wrap(a, BINDS["//"]) if atom.fn in ("floordiv", "mod") else a[0] for a in args])

    def take(self, value: Value) -> Expression:
        """The expression for `value` at the place where it is used; a 0-dim constant may be a number."""
        if value in self.constants:
            return self.constants[value]
        found = self.pending.pop(value, None)
        if found is None:
            return self.name(value), ATOM
        self.told += found[1]
        return found[0]

    def strong(self, value: Value) -> Expression:
        """`take`, but a tensor is a tensor."""
        found = self.take(value)
        if value in self.weak:
            assert isinstance(value.type, TensorType)
            return tensor_of(found[0], value.type.dtype), ATOM
        return found

    def operands(self, values: Sequence[Value]) -> list[Expression]:
        """Operands of which one at least is a tensor."""
        weak = all(v in self.weak for v in values)
        return [self.strong(v) if weak and k == 0 else self.take(v) for k, v in enumerate(values)]

    def text(self, value: Value) -> str:
        return self.take(value)[0]


def identifier(name: str) -> str:
    """A value's name as Python takes it."""
    plain = re.sub(r"(\.\d+)+$", "", name)  # the text form numbers equal names
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in plain) or "t"
    return "t" + base if base[0].isdigit() else base
