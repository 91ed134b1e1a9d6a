"""What is written on a box: the op, its constants and static attributes, the type of what it makes."""

import re
import string
from typing import Any

from jitgrad.dims import Dim
from jitgrad.dtypes import dtype
from jitgrad.ops import OPS
from jitgrad.script.graph.ir import Node, Value

#: nodes that are written into the boxes that read them
INLINE = frozenset({"num.const", "dim.value", "dim.bind", "opt.none"})
MARKS = frozenset({"region.begin", "region.end", "pending"})
_SYMBOL = re.compile(r"\bs\d+\b")
_HIDDEN = frozenset({"checked", "known", "n_carries", "type", "template", "error", "target", "to", "fn"})
_LONGEST = 44


class Labels:
    """Names of values and sizes, the same in every box of a drawing."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}
        self.texts: dict[Value, str] = {}  # constants, and what is named where it is read from outside
        self.sizes: dict[str, str] = {}    # symbols that are numbers

    def sized(self, text: str) -> str:
        """A text with letters for the symbols of sizes: A, B, ..., then A1, B1..."""
        return _SYMBOL.sub(lambda m: self.sizes.get(m[0]) or self._letter(m[0]), text)

    def _letter(self, symbol: str) -> str:
        number = len(self.letters)
        letters = string.ascii_uppercase
        return self.letters.setdefault(symbol, letters[number % 26] + (str(number // 26) if number > 25 else ""))

    def type(self, value: Value) -> str:
        """The type of a value."""
        return self.sized(str(value.type))

    def inline(self, node: Node) -> bool:
        """Note the text of a node that gets no box; False for one that does."""
        if node.op == "num.const" or (node.op == "full" and node.attrs["shape"] == ()):
            self.texts[node.outputs[0]] = f"{node.attrs['value']:.6g}" if isinstance(
                node.attrs["value"], float) else str(node.attrs["value"])
        elif node.op == "dim.value":
            self.texts[node.outputs[0]] = self.sized(str(node.attrs["dim"]))
        elif node.op == "opt.none":
            self.texts[node.outputs[0]] = "None"
        elif node.op == "dim.bind":
            self.sizes[str(node.attrs["symbol"])] = self.texts.get(node.inputs[0]) or node.inputs[0].name or "n"
            self.texts[node.outputs[0]] = self.sizes[str(node.attrs["symbol"])]
        elif node.op not in MARKS:
            return False
        return True

    def title(self, node: Node, outside: dict[Value, str]) -> str:
        """`matmul`, or with operands that have no edge here: `· * 0.5`, `matmul(·, w)`."""
        name = node.attrs["fn"] if node.op == "num.math" else node.attrs["to"] if node.op == "num.cast" else node.op
        name = name.removeprefix("num.")
        given = [self.texts.get(v) or outside.get(v) for v in node.inputs]
        if not any(given) or node.blocks:
            return _cut(name)
        texts = [g or "·" for g in given]
        symbol = OPS[name].infix if name in OPS else ""
        return _cut(f"{texts[0]} {symbol} {texts[1]}" if symbol and len(texts) == 2 else f"{name}({', '.join(texts)})")

    def attributes(self, node: Node) -> str:
        parts = []
        for key, value in node.attrs.items():
            if key in _HIDDEN or value is False or (key == "shape" and node.op != "full"):
                continue
            parts.append(f"{key}={self._attribute(value)}")
        return _cut(" ".join(parts))

    def _attribute(self, value: Any) -> str:
        if isinstance(value, tuple):
            return "(" + ", ".join(map(self._attribute, value)) + ")"
        if isinstance(value, Dim):
            return self.sized(str(value))
        if isinstance(value, dtype):
            return value.name
        return getattr(value, "__name__", None) or repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"
