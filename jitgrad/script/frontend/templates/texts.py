"""Templates of strings: those that are made alike of other values, and any.

A string known while compiling is one of several objects until it meets one that is not: then it is a graph value too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.ops.types import TEXT, Type
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.frontend.templates.template import Clash, Compound, Template
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import Number, RunText, Text, Union
from jitgrad.script.graph.ir import Value


def templated(context: Context, parts: Sequence[Any], values: list[Value]) -> tuple[Any, ...]:
    """The parts of a Text as the template of a node; the graph values that it names are added to `values`."""
    template: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            template.append(part)
            continue
        value, conversion, spec = part
        template.append((len(values), conversion, spec))
        values.append(value.value if isinstance(value, (Number, RunText)) else heap.read(context, value))
    return tuple(template)


def value_of(context: Context, text: str | Text | RunText | Union) -> Value:
    """A string, perhaps one of several, as a graph value."""
    if isinstance(text, RunText):
        return text.value
    if isinstance(text, Union):
        assert text.tag is not None
        return context.one("text", text.tag, fn="format", args=(("text", (0, text.statics, "")),))
    values: list[Value] = []
    template = templated(context, [text] if isinstance(text, str) else text.parts, values)
    return context.one("text", *values, fn="format", args=(("text", *template),))


@dataclass(frozen=True, slots=True)
class Str(Template):
    """Any string."""

    def __str__(self) -> str:
        return "a string"

    @property
    def text(self) -> Template:
        return self

    def joined(self, other: Template, widen: Sizer) -> Template:
        if other.text is None:
            raise Clash(f"{self} and {other}")
        return self

    def as_element(self, elements: Elements) -> Template:
        return self

    def alike(self, other: Template) -> bool:
        return isinstance(other, Str)

    def types(self) -> list[Type]:
        return [TEXT]

    def histories(self) -> list[bool]:
        return [False]

    def lower(self, context: Context, value: Any) -> list[Value]:
        return [value_of(context, value)]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> RunText:
        return RunText(next(leaves))


@dataclass(frozen=True, slots=True)
class Words(Compound):
    """A string: strings and (conversion, format), and the templates of what the latter show."""

    frame: tuple[Any, ...]
    items: tuple[Template, ...]

    def __str__(self) -> str:
        return "a string"

    @property
    def text(self) -> Template:
        return Str()

    def joined(self, other: Template, widen: Sizer) -> Template:
        if isinstance(other, Words) and self.frame == other.frame:
            try:
                return self.of(tuple([x.join(y, widen) for x, y in zip(self.items, other.items, strict=True)]))
            except Clash:
                return Str()
        return Str().joined(other, widen)

    def as_element(self, elements: Elements) -> Template:
        return Str()

    def lower(self, context: Context, value: Any) -> list[Value]:
        shown = [p[0] for p in value.parts if not isinstance(p, str)]
        return [x for t, v in zip(self.items, shown, strict=True) for x in t.lower(context, v)]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Text:
        shown = iter([t.rebuild(context, leaves) for t in self.items])
        return Text([p if isinstance(p, str) else (next(shown), *p) for p in self.frame])
