"""Numbers of the run as values; what is computed with them is in `numbers.py`."""

from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.errors import TypeMismatch, UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded, mistake, no_attribute
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import Kind, Methods, register
from jitgrad.script.frontend.values.values import Number

_NUMBERS = (bool, int, float, Number)


@register(Number)
class NumberKind(Kind):
    """A number of the run."""

    dynamic = True
    rank = 2
    methods: ClassVar[Methods] = {
        "is_integer": lambda cx, obj: numbers.compare(cx, "eq", numbers.binary(cx, "mod", obj, 1.0), 0.0),
        "conjugate": lambda cx, obj: numbers.unary(cx, "pos", obj),
        "bit_length": lambda cx, obj: numbers.exact(cx, "bit_length", numbers.cast(cx, obj, int)),
        "bit_count": lambda cx, obj: numbers.exact(cx, "bit_count", numbers.cast(cx, obj, int))}

    def class_of(self, obj: Number) -> type:
        return obj.number_type

    def type_word(self, obj: Number) -> str:
        return {bool: "a bool", int: "an int", float: "a float"}.get(obj.number_type, "a number")

    def not_iterable(self, context: Context, obj: Any) -> Exception:
        return mistake(context, f"'{self.type_name(obj)}' object is not iterable", TypeMismatch(
            f"iteration over {self.type_word(obj)}", context.span(), hint="write `range(n)`"))

    def truth(self, context: Context, obj: Number) -> Any:
        return numbers.truth(context, obj)

    def is_instance(self, context: Context, obj: Number, classes: tuple[type, ...]) -> Any:
        answers = {issubclass(kind, classes) for kind in _classes(obj)}
        if len(answers) > 1:
            raise numbers.type_unknown(context)
        return answers.pop()

    def result(self, results: Leaving, obj: Number) -> sig.Result:
        return sig.Output(results.output(obj.value))

    def text(self, context: Context, obj: Number, conversion: str, spec: str) -> list[Any]:
        if spec and obj.number_type is not object:  # which values of a type take, or none does
            guarded(context, lambda: format("1" if conversion else obj.number_type(1), spec))
        return [(obj, conversion, spec)]

    def unary(self, context: Context, op: str, obj: Number) -> Any:
        return guarded(context, lambda: numbers.unary(context, op, obj))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS) and op != "matmul":
            return guarded(context, lambda: numbers.binary(context, op, a, b))
        return NotImplemented

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
            return numbers.compare(context, op, a, b)
        return NotImplemented

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        number, other = (a, b) if isinstance(a, Number) else (b, a)
        if number.number_type is bool and isinstance(other, bool):
            return number if other else numbers.negate(context, number)
        if bool in _classes(number) and isinstance(other, bool):
            raise numbers.type_unknown(context)
        return a is b

    def get_attribute(self, context: Context, obj: Number, name: str) -> Any:
        kinds = _classes(obj)
        if name in _PARTS and all(hasattr(kind, name) for kind in kinds):
            if len(kinds) > 1:
                raise numbers.type_unknown(context)
            return _PARTS[name](context, obj)
        if name in self.methods and not all(hasattr(kind, name) for kind in kinds):
            raise self.no_attribute(context, obj, name)
        return super().get_attribute(context, obj, name)

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        if any(hasattr(kind, name) for kind in _classes(obj)):
            return UnsupportedCall(f"attribute `{name}` of {self.type_word(obj)}", context.span())
        return no_attribute(context, self.type_name(obj), name)


#: attributes of numbers -> how they come about
_PARTS: dict[str, Callable[[Context, Number], Any]] = {
    "real": lambda cx, obj: numbers.unary(cx, "pos", obj), "numerator": lambda cx, obj: numbers.unary(cx, "pos", obj),
    "denominator": lambda cx, obj: 1, "imag": lambda cx, obj: 0.0 if obj.number_type is float else 0,
    "__class__": lambda cx, obj: obj.number_type}


def _classes(number: Number) -> tuple[type, ...]:
    """What it may be."""
    return (bool, int, float) if number.number_type is object else (number.number_type,)
