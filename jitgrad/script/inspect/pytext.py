"""Python expressions as text, with how strongly their weakest operator binds."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import dtype

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
