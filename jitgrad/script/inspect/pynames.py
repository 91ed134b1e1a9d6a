"""What a printed graph calls its values, and how it writes a size: as that of a value that has it."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from typing import Any

from jitgrad.dims import Call, Dim, Size, Symbol
from jitgrad.ops.types import OptionalType, TensorType
from jitgrad.script.graph.ir import Value
from jitgrad.script.inspect.pyexpr import ATOM, Expression, wrap

_RESERVED = frozenset([*keyword.kwlist, *dir(builtins), "jitgrad", "math", "ops", "number", "commit", "stored",
                        "saved"])


class Names:
    """Names of values, none given twice, and of sizes.

    Attributes:
        names: what values are called.
        taken: how often a name was asked for.
        sizes: what stands for a symbol.
    """

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()
        self.sizes: dict[Any, str] = {}

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
        type_ = payload(value.type)
        if isinstance(type_, TensorType):
            for axis, d in enumerate(type_.dims):
                if isinstance(d, Dim) and d.symbol is not None and d.symbol not in self.sizes:
                    self.sizes[d.symbol] = f"{self.name(value)}.shape[{axis}]"

    def size(self, size: Size) -> Expression:
        """A size as Python."""
        if isinstance(size, int):
            return str(size), ATOM
        if size.symbol is not None:
            return self._atom(size.symbol), ATOM
        terms = []
        for monomial, coefficient in size.terms:
            factors = [] if coefficient in (1, -1) and monomial else [str(abs(coefficient))]
            terms.append((" + " if coefficient > 0 else " - ", " * ".join([*factors, *map(self._atom, monomial)])))
        terms.sort(key=lambda term: term[0])  # what is added first
        text = "".join(sign + term for sign, term in terms)
        return (text[3:] if text[1] == "+" else "-" + text[3:]), 9

    def _atom(self, atom: Symbol | Call) -> str:
        if isinstance(atom, Symbol):
            return self.sizes.get(atom, atom.name)
        args = [self.size(a) for a in atom.args]
        operator = {"floordiv": "//", "mod": "%"}.get(atom.fn)
        if operator is not None:
            return f"({wrap(args[0], 10)} {operator} {wrap(args[1], 11)})"
        if atom.fn == "not_one":
            return f"int({wrap(args[0], 5)} != 1)"
        if atom.fn == "bcast":
            *first, text = [text for text, _ in args]
            for other in reversed(first):
                text = f"({text} if {other} == 1 else {other})"
            return text
        return f"{atom.fn}({', '.join(text for text, _ in args)})"


def identifier(name: str) -> str:
    """A value's name as Python takes it."""
    plain = re.sub(r"(\.\d+)+$", "", name)  # the text form numbers equal names
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in plain) or "t"
    return "t" + base if base[0].isdigit() else base


def payload(type_: Any) -> Any:
    """What an Optional may hold."""
    while isinstance(type_, OptionalType):
        type_ = type_.elem
    return type_
