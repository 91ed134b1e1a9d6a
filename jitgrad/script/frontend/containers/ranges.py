"""`range`, of bounds that are known or not."""

from typing import Any

from jitgrad.errors import TypeMismatch
from jitgrad.script.frontend.containers import list_methods
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.checks import emit_check
from jitgrad.script.frontend.values.plain import PlainKind, SizedKind
from jitgrad.script.frontend.values.protocol import call, class_of, register, truth, type_word
from jitgrad.script.frontend.values.values import Iterable, Number, Range


def range_length(context: Context, r: Range) -> Any:
    """`len(range(start, stop, step))`."""
    start, stop, step = r.start, r.stop, r.step
    if isinstance(step, Number):
        return call(context, list_methods.range_length, start, stop, step)
    span = numbers.binary(context, "sub", stop, start) if isinstance(start, Number) or start else stop
    if step < 0:
        span = numbers.unary(context, "neg", span)
    if abs(step) != 1:
        span = numbers.binary(context, "add", span, abs(step) - 1)
        span = numbers.binary(context, "floordiv", span, abs(step))
    if isinstance(span, Number) and not (span.low is not None and span.low >= 0):
        length = numbers.minimum(context, 0, span, largest=True)
        length.span = span
        return length
    return max(span, 0) if isinstance(span, int) else span


def _iterable(context: Context, r: range | Range) -> Iterable:
    length = len(r) if isinstance(r, range) else range_length(context, r)
    start, step = r.start, r.step

    def item(cx: Context, k: Any) -> Any:
        if isinstance(step, Number):
            return numbers.binary(cx, "add", start, numbers.binary(cx, "mul", k, step, checked=False), checked=False)
        if not isinstance(k, Number) and not isinstance(start, Number):
            return start + k * step
        if step == 1 and not isinstance(start, Number) and start == 0:
            return k
        value = numbers.value_of(cx, k)
        if step != 1:
            value = cx.one("num.mul", value, cx.constant(step))
        result = numbers.wrap(cx, cx.one("num.add", numbers.value_of(cx, start), value))
        if step > 0:
            numbers.bounded(result, numbers.low_of(start), r.stop)
        elif isinstance(start, int) and isinstance(r.stop, int):
            result.low = r.stop + 1
        return result

    return Iterable(length, item, False)


@register(range)
class StaticRangeKind(PlainKind):
    """A range of known bounds."""

    def get_item(self, context: Context, obj: range, index: Any) -> Any:
        return pick(context, obj, index)

    def iterate(self, context: Context, obj: range) -> Iterable:
        return _iterable(context, obj)

    def items(self, context: Context, obj: range) -> list[Any]:
        return list(obj)

    def contains(self, context: Context, obj: range, item: Any) -> Any:
        return _contains(context, obj, item) if isinstance(item, Number) else super().contains(context, obj, item)


@register(Range)
class RangeKind(SizedKind):
    """A range of a bound known at run time."""

    def class_of(self, obj: Range) -> type:
        return range

    def get_item(self, context: Context, obj: Range, index: Any) -> Any:
        if class_of(index) not in (int, bool):
            raise TypeMismatch(f"{type_word(index)} as an index of a run-time `range`", context.span(),
                               hint="make a list of the range, or compute the bounds")
        length = self.length(context, obj)
        end = numbers.compare(context, "lt", index, 0)
        at = numbers.select(context, end, numbers.binary(context, "add", index, length), index)
        for there in (numbers.compare(context, "ge", at, 0), numbers.compare(context, "lt", at, length)):
            if there is not True:
                emit_check(context, there, IndexError, ("range object index out of range",))
        return self.iterate(context, obj).item(context, at)

    def length(self, context: Context, obj: Range) -> Any:
        return range_length(context, obj)

    def iterate(self, context: Context, obj: Range) -> Iterable:
        return _iterable(context, obj)

    def is_open(self, context: Context, obj: Range) -> bool:
        return not isinstance(self.length(context, obj), int)

    def contains(self, context: Context, obj: Range, item: Any) -> Any:
        return _contains(context, obj, item)


def _contains(context: Context, obj: Range | range, item: Any) -> Any:
    return truth(context, call(context, list_methods.in_range, item, obj.start, obj.stop, obj.step))
