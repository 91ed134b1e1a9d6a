"""Plain Python objects: numbers, strings and others that never change, and containers of them. Python computes."""

import types
from typing import Any

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.errors import NotStatic, TypeMismatch, UnsupportedCall
from jitgrad.ops.numbers import operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded, mistake
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.values.protocol import (Kind, argument, class_of, is_dynamic, register, truth, type_name,
                                                     type_word)
from jitgrad.script.frontend.values.values import UNBOUND, Iterable, Number, Union, sequence

PLAIN = (bool, int, float, complex, str, bytes, type(None), dtypes.dtype, slice, range, type(Ellipsis), device)
#: objects whose operators are Python's own
_OPERANDS = (*PLAIN, set, frozenset, type, types.UnionType, types.GenericAlias)


def static(context: Context, value: Any, what: str) -> Any:
    """`value`, which must be known now; a number that is known at entry is assumed from then on. Raises NotStatic."""
    if isinstance(value, Number) and (found := context.inputs.assumed(value)) is not None:
        return found
    if "key" in what and class_of(value) in (list, dict, set):
        said = f"unhashable type: '{type_name(value)}'"
        raise mistake(context, said, TypeMismatch(said, context.span()))
    if is_dynamic(value):
        raise NotStatic(f"{what} must be known while compiling, but this is {type_word(value)}", context.span(),
                        hint="" if "key" not in what else "use a list or a tensor, which a run-time int can index")
    return value


def python_binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` where that is Python's own; NotImplemented elsewhere."""
    if isinstance(a, _OPERANDS) and isinstance(b, _OPERANDS):
        return guarded(context, lambda: operator_of(op)(a, b))
    return NotImplemented


class SizedKind(Kind):
    """Run-time values with a length, of which none is false."""

    dynamic = True

    def truth(self, context: Context, obj: Any) -> Any:
        return truth(context, self.length(context, obj))


@register(*PLAIN)
class PlainKind(Kind):
    """A number, a string, None, and other objects that never change."""

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        context.look(obj)
        if name in self.methods:
            return super().get_attribute(context, obj, name)
        return guarded(context, lambda: getattr(obj, name))

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        if is_dynamic(index) and hasattr(type(obj), "__getitem__"):
            raise UnsupportedCall(f"a run-time index into {type_word(obj)}", context.span())
        return guarded(context, lambda: obj[index])

    def length(self, context: Context, obj: Any) -> Any:
        return guarded(context, lambda: len(obj))

    def iterate(self, context: Context, obj: Any) -> Iterable:
        if not hasattr(obj, "__iter__"):
            raise self.not_iterable(context, obj)
        return sequence(list(obj))

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        if is_dynamic(item):
            return super().contains(context, obj, item)
        return guarded(context, lambda: item in obj)

    def truth(self, context: Context, obj: Any) -> Any:
        return bool(obj)

    def unary(self, context: Context, op: str, obj: Any) -> Any:
        return guarded(context, lambda: operator_of(op)(obj))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return python_binary(context, op, a, b)


@register(type(None))
class NoneKind(PlainKind):
    """None."""

    def type_word(self, obj: Any) -> str:
        return "None"

    def not_iterable(self, context: Context, obj: Any) -> Exception:
        return mistake(context, "'NoneType' object is not iterable",
                       TypeMismatch("iteration over None", context.span()))

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        guarded(context, lambda: setattr(obj, name, value))

    def delete_attribute(self, context: Context, obj: Any, name: str) -> None:
        guarded(context, lambda: delattr(obj, name))


@register(type(UNBOUND))
class UnboundKind(Kind):
    """The content of a variable that was not assigned."""

    def result(self, results: Leaving, obj: Any) -> sig.Result:
        return sig.Nothing()

    def type_word(self, obj: Any) -> str:
        return "unbound"


@register(slice)
class SliceKind(PlainKind):
    """A slice, whose ends may be run-time values."""

    def is_dynamic(self, obj: slice) -> bool:
        return any(is_dynamic(part) for part in (obj.start, obj.stop, obj.step))

    def argument(self, context: Context, obj: slice) -> Any:
        ends = tuple([argument(context, end) for end in (obj.start, obj.stop, obj.step)])
        if any(isinstance(end, Union) for end in ends):
            raise NotStatic("a slice of which an end is of one of several types", context.span(),
                            hint="write the `if` around it")
        return slice(*ends)
