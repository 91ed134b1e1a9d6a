"""Templates of plain objects and numbers, and of their unions with others."""

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.classes import dataclass, replace
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TEXT, ListType, OptionalType, TensorType, Type, map_dims
from jitgrad.script.frontend.state.context import TYPES_APART, Context, current
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.texts import Str
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.protocol import type_word
from jitgrad.script.frontend.values.values import SymTensor, Union, is_held
from jitgrad.script.graph.ir import Block, Value

PYTHON_KINDS = (bool, int, float)
_LEAF: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT, object: NUMBER}
_MOST = 64


@dataclass(frozen=True, slots=True)
class Same(Template):
    """An object that is the same on all sides."""

    value: Any

    def __str__(self) -> str:
        return type_word(self.value)

    def as_element(self, elements: Elements) -> Template:
        raise Clash("a list of run-time length that holds an object")

    def alike(self, other: Template) -> bool:
        return isinstance(other, (Same, Static)) and same_static(self.value, other.value)

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Num(Template):
    """A number; `kind` is bool, int, float or object."""

    kind: type
    low: int | None = None

    def __str__(self) -> str:
        return {bool: "a bool", int: "an int", float: "a float"}.get(self.kind, "a number")

    @property
    def number_kind(self) -> type | None:
        return self.kind

    def joined(self, other: Template, widen: Sizer) -> Template:
        return _join_numbers(self, other)

    def as_element(self, elements: Elements) -> Template:
        return Num(self.kind)

    def alike(self, other: Template) -> bool:
        return isinstance(other, Num) and self.kind is other.kind

    def types(self) -> list[Type]:
        return [_LEAF[self.kind]]

    def histories(self) -> list[bool]:
        return [False]

    def lower(self, context: Context, value: Any) -> list[Value]:
        return [numbers.convert(context, numbers.value_of(context, value), _LEAF[self.kind])]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        number = numbers.wrap(context, next(leaves))
        number.low = self.low
        return number


@dataclass(frozen=True, slots=True)
class Static(Template):
    """A plain Python object."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and same_static(self.value, other.value)

    def __hash__(self) -> int:
        return hash(Static)

    def __str__(self) -> str:
        return type_word(self.value)

    @property
    def alternative(self) -> bool:
        return type(self.value) not in PYTHON_KINDS

    @property
    def number_kind(self) -> type | None:
        return None if self.alternative else type(self.value)

    @property
    def low(self) -> int | None:
        return self.value if type(self.value) is int else None

    def join(self, other: Template, widen: Sizer) -> Template:
        if isinstance(other, Static) and same_static(self.value, other.value):
            return self
        if self.alternative:
            return _union(self, other, widen)
        return other.beside(self, widen) if other.alternative else _join_numbers(self, other)

    def beside(self, first: Template, widen: Sizer) -> Template:
        return _union(first, self, widen)

    def as_element(self, elements: Elements) -> Template:
        return Either((self.value,), None) if self.alternative else Num(type(self.value))

    def alike(self, other: Template) -> bool:
        return isinstance(other, (Same, Static)) and same_static(self.value, other.value)

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        return self.value


def _join_numbers(a: Template, b: Template) -> Num:
    kinds = a.number_kind, b.number_kind
    if kinds[0] is None or kinds[1] is None:
        raise Clash(f"{a} and {b}")
    if kinds[0] is not kinds[1] and TYPES_APART in current().decisions:
        raise Clash(f"{a} and {b}")
    low = min(a.low, b.low) if a.low is not None and b.low is not None else None
    return Num(kinds[0] if kinds[0] is kinds[1] else object, low)


@dataclass(frozen=True, slots=True)
class Either(Template):
    """Static alternatives, in order, and perhaps a run-time one; `copied`: that is a copy of an object (see Union)."""

    statics: tuple[Any, ...]
    inner: Template | None
    copied: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Either) and self.inner == other.inner and self.copied is other.copied and (
            _same(self.statics, other.statics))

    def __hash__(self) -> int:
        return hash(Either)

    def __str__(self) -> str:
        return " or ".join([*map(type_word, self.statics), *map(str, self.parts)])

    @property
    def parts(self) -> tuple[Template, ...]:
        return () if self.inner is None else (self.inner,)

    def map(self, change: Callable[[Template], Template]) -> Template:
        return self if self.inner is None else replace(self, inner=change(self.inner))

    @property
    def alternative(self) -> bool:
        return True

    def join(self, other: Template, widen: Sizer) -> Template:
        return _union(self, other, widen)

    def beside(self, first: Template, widen: Sizer) -> Template:
        return _union(first, self, widen)

    def as_element(self, elements: Elements) -> Template:
        if any(is_held(s) for s in self.statics):
            raise Clash(f"a list of run-time length that holds {self}")
        return self.map(lambda t: t.as_optional().as_element(elements))

    def alike(self, other: Template) -> bool:
        if not isinstance(other, Either):
            return False
        inner = self.inner is other.inner or (
            self.inner is not None and other.inner is not None and self.inner.alike(other.inner))
        return inner and _same(self.statics, other.statics)

    def tags(self) -> list[Any]:
        return [self.statics, *(t for part in self.parts for t in part.tags())]

    @property
    def tagged(self) -> bool:
        """Whether the union needs a tag besides its leaves."""
        inner = self.inner.types() if self.inner is not None else []
        return len(self.statics) != 1 or not inner or isinstance(inner[0], OptionalType)

    def types(self) -> list[Type]:
        tag: list[Type] = [INT] if self.tagged else []
        return tag + [_optional(x) for t in self.parts for x in t.types()]

    def histories(self) -> list[bool]:
        return [False] * self.tagged + [x for t in self.parts for x in t.histories()]

    def lower(self, context: Context, value: Any) -> list[Value]:
        if isinstance(value, Union) and value.inner == self.inner and _same(value.statics, self.statics):
            return ([value.tag] if value.tag is not None else []) + list(value.leaves)
        if isinstance(value, Union):
            return self._retag(context, value)
        index = next((i for i, s in enumerate(self.statics) if same_static(s, value)), len(self.statics))
        tag = [context.constant(index)] if self.tagged else []
        if self.inner is None:
            return tag
        if index < len(self.statics):
            return tag + [_absent(context, _elem(x)) for x in self.inner.types()]
        return tag + _present(context, self.inner.lower(context, value))

    def _retag(self, context: Context, value: Union) -> list[Value]:
        """A union as this wider one: its tag translated, its leaves kept or absent."""
        n = len(self.statics)
        numbering = [next((i for i, s in enumerate(self.statics) if same_static(s, v)), n) for v in value.statics]
        if value.inner is not None:
            numbering.append(n)
        old = tag_of(context, value)
        new = context.constant(numbering[-1])
        for k in range(len(numbering) - 2, -1, -1):
            condition = context.one("num.eq", old, context.constant(k))
            new = context.one("num.select", condition, context.constant(numbering[k]), new)
        result = [new] if self.tagged else []
        if self.inner is None:
            return result
        if value.inner is None:
            leaves = [_absent(context, _elem(x)) for x in self.inner.types()]
        elif value.inner.alike(self.inner):
            leaves = list(value.leaves)
        else:
            present = context.one("num.eq", old, context.constant(len(value.statics)))
            leaves = _converted(context, self.inner, value, present)
        for k, ending in enumerate(value.statics):
            if numbering[k] == n:
                leaves = self._or_content(context, context.one("num.eq", old, context.constant(k)), ending, leaves)
        return result + leaves

    def _or_content(self, context: Context, chosen: Value, ending: Any, leaves: list[Value]) -> list[Value]:
        """The leaves, or what an alternative holds that is none of this union's, where it is the one."""
        inner = self.inner
        assert inner is not None
        return select(context, chosen, lambda: _present(context, inner.lower(context, ending)), lambda: leaves)

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        tag = next(leaves) if self.tagged else None
        return Union(self.statics, self.inner, tag, tuple([next(leaves) for t in self.parts for _ in t.types()]),
                     self.copied)


def _union(a: Template, b: Template, widen: Sizer) -> Template:
    """The union of two templates, at least one of them an alternative. Beside a string of the run, all strings are."""
    statics: list[Any] = []
    inners: list[Template] = []
    for t in (a, b):
        parts: tuple[Any, ...] = ()
        inner: Template | None = t
        if isinstance(t, Either):
            parts, inner = t.statics, t.inner
        elif isinstance(t, Static) and t.alternative:
            parts, inner = (t.value,), None
        statics += [p for p in parts if not any(same_static(p, s) for s in statics)]
        if inner is not None:
            inners.append(inner)
    inner = inners[0] if inners else None
    if len(inners) == 2:
        inner = inners[0].join(inners[1], widen)
    elif inner is not None:
        inner = inner.renamed(widen.alone)
    if isinstance(inner, Static):
        inner = Num(type(inner.value))
    if inner is not None and inner.text is not None and str in map(type, statics):
        inner, statics = inner.text, [s for s in statics if type(s) is not str]
        if not statics:
            return inner
    joined: Template = Either(tuple(statics), inner, any(isinstance(t, Either) and t.copied for t in (a, b)))
    if len(statics) > _MOST:
        joined = of_the_run(joined)
    if isinstance(joined, Either) and len(joined.statics) > _MOST:
        raise Clash(f"more than {_MOST} different objects")
    return joined


def of_the_run(t: Template) -> Template:
    """A template with any string in place of one of several that are known."""
    if not isinstance(t, Either) or str not in map(type, t.statics):
        return t.map(of_the_run)
    rest = tuple([s for s in t.statics if type(s) is not str])
    inner = Str() if t.inner is None else t.inner
    if inner.text is None:
        return t
    return Either(rest, inner.text, t.copied) if rest else inner.text


def same_static(a: Any, b: Any) -> bool:
    """Whether two static objects are interchangeable."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (int, str, bytes)):
        return bool(a == b)
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, SymTensor):
        return heap.same_tensor(a, b) and a.copied is b.copied
    return isinstance(a, (slice, range)) and repr(a) == repr(b)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(map(same_static, a, b))


# --- leaves of unions ----------------------------------------------------------------------------------------------


def _optional(t: Type) -> OptionalType:
    return t if isinstance(t, OptionalType) else OptionalType(t)


def _elem(t: Type) -> Type:
    return t.elem if isinstance(t, OptionalType) else t


def _present(context: Context, values: list[Value]) -> list[Value]:
    """Values as Optionals that hold them."""
    return [v if isinstance(v.type, OptionalType) else context.one("opt.some", v) for v in values]


def _absent(context: Context, elem: Type) -> Value:
    """Nothing, where an `elem` might be. It has no sizes; those that the merge binds are not known here."""
    return context.one("opt.none", type=map_dims(elem, lambda d: d if isinstance(d, int) else 0))


def placeholders(context: Context, types: list[Type]) -> list[Value]:
    """Values that nothing reads, where what they are part of is missing."""
    return [_placeholder(context, t) for t in types]


def _placeholder(context: Context, type_: Type) -> Value:
    if isinstance(type_, OptionalType):
        return _absent(context, type_.elem)
    if isinstance(type_, ListType):
        return context.one("list.new", type=type_)
    if type_ == TEXT:
        return context.one("text", fn="format", args=(("text",),))
    if isinstance(type_, TensorType):
        shape = tuple([d if isinstance(d, int) else 0 for d in type_.dims])
        return context.one("fill", context.constant(0), shape=shape, dtype=type_.dtype)
    return numbers.convert(context, context.constant(0), type_)


def _converted(context: Context, t: Template, value: Union, present: Value) -> list[Value]:
    """The run-time value of a union, where it is there, as Optionals of another template."""
    return select(context, present, lambda: _present(context, t.lower(context, payload(context, value, known=True))),
                  lambda: [_absent(context, _elem(x)) for x in t.types()])


def select(context: Context, condition: Value, then: Callable[[], list[Value]],
           other: Callable[[], list[Value]]) -> list[Value]:
    """The leaves that one of two sides makes, by a branch."""
    before, context.grad = context.grad, True  # `no_grad` knows nothing of it
    blocks, sides = (Block(), Block()), []
    for block, make in zip(blocks, (then, other), strict=True):
        with context.block(block):
            sides.append(make())
            block.results = tuple(sides[-1])
    context.grad = before
    outputs = context.builder.emit("if", (condition,), blocks=blocks, types=tuple([v.type for v in sides[0]]))
    context.mark_history(outputs, [any(map(context.has_history, pair)) for pair in zip(*sides, strict=True)])
    return list(outputs)


def tag_of(context: Context, value: Union) -> Value:
    """The tag of a union, computed from presence where it has none."""
    if value.tag is not None:
        return value.tag
    has = context.one("opt.has", value.leaves[0])
    return context.one("num.cast", has, to="int")


def payload(context: Context, value: Union, known: bool = False) -> Any:
    """The run-time value of a union that is known to hold it.

    `known`: an exit flag or a tag says so, not `opt.has` itself. In a `try` that may be of the same, computed before.
    """
    known = known or bool(context.tries) or Either(value.statics, value.inner).tagged or len(value.leaves) > 1
    flags = {"known": True} if known else {}
    assert value.inner is not None
    leaves = [v if isinstance(w, OptionalType) else context.one("opt.get", v, **flags)
              for v, w in zip(value.leaves, value.inner.types(), strict=True)]
    return value.inner.rebuild(context, iter(leaves))
