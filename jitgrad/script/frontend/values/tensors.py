"""Tensors as values: attributes, items, truth. What the library computes on them is in `library/backend.py`."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from jitgrad.device import CPU
from jitgrad.dims import product
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import NonDifferentiable, NotStatic, TypeMismatch, UnsupportedCall
from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.library.creation import TensorType, arange
from jitgrad.ops.numbers import NUMBERS, operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents, list_methods
from jitgrad.script.frontend.containers.ranges import range_length
from jitgrad.script.frontend.state import copies, dispatch, effects, versions
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.effects import guarded, mistake
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.checks import emit_check
from jitgrad.script.frontend.values.objects import similar
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import (SEQUENCES, SYMBOLS, Kind, argument, binary, call, class_of,
                                                     get_item, kind_of, register, type_name)
from jitgrad.script.frontend.values.values import Iterable, Number, Range, SymTensor, size_number

F = TypeVar("F", bound=Callable[..., Any])

#: what of the tape a script does not have: the refusal, and what to do instead
_NO_TAPE = {"register_post_accumulate_grad_hook": ("a hook on a leaf, registered inside a script",
                                                    "register it before the call")}
#: how long a list `tolist` makes
TO_LIST = 64
#: attributes, and assignments to them, that what lies above knows about: it enters them with `getter` and `setter`
_GETTERS: dict[str, Callable[..., Any]] = {}
_SETTERS: dict[str, Callable[..., Any]] = {}
_METHODS: dict[str, Callable[..., Any]] = {}


def _enters(table: dict[str, Callable[..., Any]], name: str) -> Callable[[F], F]:
    def enter(function: F) -> F:
        table[name] = function
        return function
    return enter


#: what makes the function that follows give the attribute of a name, assign it, or the method of a name
getter, setter, method = (partial(_enters, table) for table in (_GETTERS, _SETTERS, _METHODS))


def made(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    """Refuse a tensor that is made by calling a class."""
    raise UnsupportedCall(f"`{cls.__name__}(...)` inside a script", context.span(),
                          hint="use `torch.tensor`, `torch.zeros` and kin")


CONSTRUCTORS[AnyTensor] = made


def parameter_class() -> type:
    """`nn.Parameter`, for a script that makes one: others do not load what models are made of."""
    from jitgrad.nn import Parameter

    return Parameter


@register(SymTensor)
class TensorKind(Kind):
    """A tensor."""

    dynamic = True
    rank = 3
    methods = _METHODS

    def class_of(self, obj: SymTensor) -> type:
        return parameter_class() if obj.storage.parameter and not obj.path else Tensor

    def type_word(self, obj: SymTensor) -> str:
        return f"a tensor {current().sizes.word(obj.type_)}"

    def method(self, obj: SymTensor, name: str) -> Any:
        return None

    def get_attribute(self, context: Context, obj: SymTensor, name: str) -> Any:
        if name in self.methods:
            return super().get_attribute(context, obj, name)
        if name in ("requires_grad", "is_leaf", "grad_fn"):
            context.gradient_state = True
        if name in ("is_cuda", "is_cpu", "get_device"):
            context.device_state = True
        if name in _GETTERS:
            return _GETTERS[name](context, obj)
        if name in _NO_TAPE:
            what, instead = _NO_TAPE[name]
            raise NonDifferentiable(what, context.span(), hint=instead)
        if hasattr(Tensor, name) and not hasattr(type(obj), name):
            raise UnsupportedCall(f"`{name}` of a tensor, which is about its memory", context.span(),
                                  hint="ask for it outside the script")
        if not hasattr(type(obj), name):
            raise effects.no_attribute(context, "Tensor", name, hint=similar(name, dir(type(obj))))
        return guarded(context, lambda: getattr(obj, name))

    def has_attribute(self, context: Context, obj: SymTensor, name: str) -> Any:
        return hasattr(Tensor, name)

    def set_attribute(self, context: Context, obj: SymTensor, name: str, value: Any) -> None:
        if name not in _SETTERS:
            raise UnsupportedCall(f"assignment to `{name}` of a tensor", context.span(),
                                  hint="do it outside the script, or write in place with `copy_`")
        _SETTERS[name](context, obj, value)

    def get_item(self, context: Context, obj: SymTensor, index: Any) -> Any:
        return unions.each(context, (_key(context, index),), lambda given: guarded(
            context, lambda: operator.getitem(cast("Any", obj), *given)))

    def set_item(self, context: Context, obj: SymTensor, index: Any, value: Any) -> None:
        unions.each(context, (_key(context, index), argument(context, value)), lambda given: guarded(
            context, lambda: operator.setitem(cast("Any", obj), *given)))

    def length(self, context: Context, obj: SymTensor) -> Any:
        if not obj.ndim:
            raise TypeError("len() of a 0-d tensor")
        return obj.shape[0]

    def iterate(self, context: Context, obj: SymTensor) -> Iterable:
        if not obj.ndim:
            raise mistake(context, "iteration over a 0-d tensor", TypeMismatch(
                "iteration over a 0-d tensor", context.span(),
                hint="a 0-d tensor has no elements to loop over; for a count write `range(int(n))`"))
        return Iterable(obj.shape[0], lambda cx, k: self.get_item(cx, obj, k), False)

    def is_open(self, context: Context, obj: SymTensor) -> bool:
        return obj.ndim > 0 and not isinstance(obj.shape[0], int)

    def contains(self, context: Context, obj: SymTensor, item: Any) -> Any:
        return call(context, list_methods.in_tensor, obj, item)

    def truth(self, context: Context, obj: SymTensor) -> Any:
        return guarded(context, lambda: _truth(context, obj))

    def is_instance(self, context: Context, obj: SymTensor, classes: tuple[type, ...]) -> Any:
        typed = tuple([c for c in classes if isinstance(c, TensorType)])
        if typed:
            context.device_state = True
            rest = tuple([c for c in classes if c not in typed])
            return isinstance(obj, typed) or (bool(rest) and self.is_instance(context, obj, rest))
        if obj.storage.parameter is not False and not obj.path:
            if obj.storage.parameter is None and not issubclass(Tensor, classes):
                raise NotStatic("whether a tensor that a branch, a loop or a list brings here is a parameter is known "
                                "only at run time", context.span(), hint="ask where it is made, by its own name")
            return issubclass(parameter_class(), classes)
        given = context.inputs.tensors.get(obj.storage.input) if not obj.path else None
        return isinstance(given, classes) if given is not None else super().is_instance(context, obj, classes)

    def result(self, results: Leaving, obj: SymTensor) -> sig.Result:
        return results.of_tensor(obj)

    def text(self, context: Context, obj: SymTensor, conversion: str, spec: str) -> list[Any]:
        if not conversion and not obj.ndim:  # a 0-d tensor is formatted as the number that it holds
            if spec or not _is_parameter(context, obj):
                return [(guarded(context, lambda: backend().item(obj)), "", spec)]
            conversion = "s"
        about = dispatch.history_word(context, obj) if conversion or not spec else ""
        shown = heap.read(context, obj)
        if context.has_history(shown):  # a text that the script returns has none
            shown = context.one("detach", shown)
        return [(heap.new_tensor(context, shown), (conversion or "s") + about if about else conversion, spec)]

    def in_place(self, context: Context, op: str, obj: SymTensor, value: Any) -> Any:
        method = getattr(type(obj), f"__i{op}__", None)
        if method is None:
            return super().in_place(context, op, obj, value)
        value = unions.force(context, value, f"unsupported operand type(s) for {SYMBOLS[op]}=: 'Tensor' and '{{}}'",
                             several=True)

        def updated(given: tuple[Any, ...]) -> Any:
            made = guarded(context, lambda: method(obj, *given))
            return Kind.in_place(self, context, op, obj, *given) if made is NotImplemented else made

        return unions.each(context, (argument(context, value),), updated)

    def unary(self, context: Context, op: str, obj: SymTensor) -> Any:
        return guarded(context, lambda: operator_of(op)(obj))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if _of_a_class(a, f"__{op}__") or _of_a_class(b, f"__r{op}__"):
            return NotImplemented
        if op == "mul" and any(class_of(v) in SEQUENCES for v in (a, b)):
            times = [_index(context, v) if isinstance(v, SymTensor) else v for v in (a, b)]
            return binary(context, op, *times)
        return guarded(context, lambda: _operated(op, a, b))

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if _of_a_class(b, f"__{NUMBERS[f'num.{op}'].swapped}__"):
            return NotImplemented
        return op == "ne" if a is None or b is None else self.binary(context, op, a, b)

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        if not (isinstance(a, SymTensor) and isinstance(b, SymTensor)):
            return False
        copies.are_one(context, a.storage, b.storage)
        for one in (a, b):
            copies.identify(context, one)
            if a.storage is not b.storage and one.storage.alias:
                raise NotStatic("whether these are the same tensor: a branch or a loop chose one of them",
                                context.span(), hint="keep a bool that says which one was chosen")
        if a.path or b.path:
            return a is b  # each view is an object of its own
        if a.storage is not b.storage and min(a.storage.input, b.storage.input) >= 0:
            return context.inputs.one_object(a.storage, b.storage)
        return a.storage is b.storage


def _index(context: Context, tensor: SymTensor) -> Any:
    """`tensor.__index__()`."""
    if tensor.dtype.is_inexact or product(tensor.type_.dims) != 1:
        says = "only integer tensors of a single element can be converted to an index"
        raise effects.raise_now(context, TypeError, (says,))
    return numbers.unary(context, "pos", guarded(context, lambda: backend().item(tensor)))


def _operated(op: str, a: Any, b: Any) -> Any:
    """`a op b`; where Python has no such operator, it speaks of the classes that the values stand for."""
    try:
        return operator_of(op)(a, b)
    except TypeError as error:
        text = str(error)
        for operand in (a, b):
            text = text.replace(f"'{type(operand).__name__}'", f"'{type_name(operand)}'")
        raise TypeError(text) from error


def _of_a_class(operand: Any, name: str) -> bool:
    """Whether an operand is no tensor, and its class defines an operator in Python."""
    return not isinstance(operand, SymTensor) and kind_of(operand).method(operand, name) is not None


def _key(context: Context, index: Any) -> Any:
    """What is in the brackets behind a tensor as the library takes it: a `range` as a tensor of its numbers."""
    if type(index) is tuple:
        return tuple([_key(context, item) for item in index])
    if not isinstance(index, Range):
        return argument(context, index)

    def numbers_of() -> Any:
        found: Any = arange(range_length(context, index), device=CPU)
        found = found * index.step if index.step != 1 else found
        return found + index.start if isinstance(index.start, Number) or index.start else found

    return guarded(context, numbers_of)


def _is_parameter(context: Context, tensor: SymTensor) -> bool:
    """Whether a tensor is an input of a class of its own: only plain tensors are formatted as numbers."""
    index = tensor.storage.input
    if tensor.path or index < 0:
        return tensor.storage.parameter is True and not tensor.path
    return type(context.inputs.tensors[index]) is not Tensor


def _truth(context: Context, tensor: SymTensor) -> Any:
    n = product(tensor.type_.dims)
    none, several = [f"Boolean value of Tensor with {words} is ambiguous" for words in ("no values",
                                                                                         "more than one value")]
    if isinstance(n, int):
        if n != 1:
            raise RuntimeError(several if n else none)
    else:
        emit_check(context, numbers.compare(context, "ne", size_number(n), 0), RuntimeError, (none,))
        backend().checker.equal(n, 1, lambda: several)  # type: ignore[attr-defined]
    return numbers.truth(context, backend().item(tensor))


@getter("retains_grad")
def _retains_grad(context: Context, tensor: SymTensor) -> bool:
    return tensor.storage.retains_grad


@getter("data")
def _data(context: Context, tensor: SymTensor) -> SymTensor:
    return heap.detached(context, tensor, versions.Data())


@setter("requires_grad")
def _set_requires_grad(context: Context, tensor: SymTensor, value: Any) -> None:
    wanted = bool(static(context, value, "`requires_grad`"))
    guarded(context, lambda: tensor.requires_grad_(wanted))


@method("tolist")
def _to_list(context: Context, tensor: SymTensor) -> Any:
    """`x.tolist()`: numbers in lists; small sizes that are known at entry are guarded."""
    if not tensor.ndim:
        return guarded(context, lambda: backend().item(tensor))
    size = tensor.shape[0]
    hint = context.sizes.hint(size.size) if isinstance(size, Number) and size.size is not None else size
    if not isinstance(hint, int) or hint > TO_LIST:
        return call(context, list_methods.of_rows, tensor)
    n = operator.index(size)
    return contents.new_list(context, [_to_list(context, get_item(context, tensor, k)) for k in range(n)])
