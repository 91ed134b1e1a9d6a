"""Calls of marked functions: `@ignore` becomes a `callback` node, `@unused` a raise. Python is called back for warnings
and its clocks, too.
"""

import inspect
import sys
import time
import types
import typing
import warnings
from typing import Any

from jitgrad.device import device
from jitgrad.dims import Size, Symbol, dim
from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.ops import autocast
from jitgrad.ops.backend import AnyTensor
from jitgrad.ops.types import BOOL, FLOAT, INT, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.callback import ARGUMENTS, NUMBERS, Callback, TensorResult, TupleResult
from jitgrad.script.frontend.batches.items import check_none
from jitgrad.script.frontend.boundary import deferred_stores, placement
from jitgrad.script.frontend.boundary.results import Results
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import RANDOM, Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler, handles
from jitgrad.script.frontend.templates import locations, unions
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import call, type_word
from jitgrad.script.frontend.values.values import (ExceptionValue, Function, Method, Number, Storage, SymTensor,
                                                   size_number)
from jitgrad.script.graph.ir import Value
from jitgrad.script.graph.marks import BY_ANNOTATION, Mark

_TYPES: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}
_RETURNS = "say what it returns: `@jitgrad.ignore(returns=lambda ...: a tensor like it)`"


def marked(context: Context, fn: Any, mark: Mark, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call of a function with a mark, other than `export`; of one of Python's as if it had that."""
    if mark.kind == "unused":
        raise effects.raise_now(context, RuntimeError, (
            f"`{fn.__qualname__}` is marked `@jit.unused`: a script cannot call it",))
    return unions.each(context, args, lambda given: _Emission(context, fn, given, kwargs).emit(mark), unions.optional)


class _Arguments(Results):
    """The trees of what a call-back is given; `outputs` are the node's inputs."""

    numbered = False

    def __init__(self, context: Context, recorded: bool):
        super().__init__(context)
        self.recorded = recorded
        self.storing = False
        self.places: dict[int, device] = {}

    def tensor(self, value: Value, storage: Storage) -> int:
        index = super().tensor(value, storage)
        if storage.device is not None:
            self.places[index] = storage.device
        return index

    def stores(self) -> tuple[tuple[sig.Place, sig.Result], ...]:
        """What the script has assigned or changed so far, and not stored."""
        context, inputs = self.context, self.context.inputs
        numbers = [(inputs.sources[inputs.target(key)], locations.fetch(context, context.state, key))
                   for key in inputs.written if not isinstance(key, Storage)]
        self.storing = True
        found = [*((path, self.tree(value)) for path, value in numbers),
                 *((change.place, change.recipe(self)) for change in deferred_stores.changes(context))]
        self.storing = False
        deferred_stores.stored(context)
        return tuple(found)

    def tree(self, value: Any) -> Any:
        if self.storing:
            return super().tree(value)
        if isinstance(value, (Function, Method)):
            raise UnsupportedCall(f"{type_word(value)} made by the script as an argument of an ignored function",
                                  self.context.span(), hint="define the function outside the script")
        made = super().tree(value)
        if not isinstance(made, ARGUMENTS):
            raise UnsupportedCall(f"{type_word(value)} as an argument of an ignored function", self.context.span(),
                                  hint="pass tensors, numbers, and tuples, lists and dicts of them")
        return made

    def of_tensor(self, value: SymTensor) -> Any:
        """With history a copy: the tape of the call-back begins there."""
        check_none(self.context, [value], "a call of an ignored function")
        if self.recorded and value.requires_grad:
            return sig.Output(self.tensor(heap.read(self.context, value), value.storage))
        return super().of_tensor(value)


class _Emission:
    """One call of an ignored function."""

    def __init__(self, context: Context, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.context, self.fn, self.args, self.kwargs = context, fn, args, kwargs
        self.name = fn.__qualname__
        self.types: list[Type] = []
        self.binds: list[Symbol] = []
        self.sizes: list[Value] = []  # values of sizes that results must have

    def emit(self, mark: Mark) -> Any:
        context = self.context
        result = self.declared(mark)
        recorded = context.grad and any(isinstance(t, TensorType) and t.dtype.is_floating_point for t in self.types)
        arguments = _Arguments(context, recorded)
        tree = arguments.tree((self.args, contents.new_dict(context, self.kwargs)))
        stores = arguments.stores()
        first = len(arguments.outputs)
        inputs = [*arguments.outputs, *self.sizes]
        result = _renumbered(result, first)
        through = tuple(i for i, v in enumerate(arguments.outputs) if context.has_history(v)) if recorded else ()
        random = RANDOM in context.decisions or ("rng",) in context.state.values
        call = Callback(self.fn, tree, stores, result, through, context.grad, autocast.mode.low, random,
                        arguments.places)
        types_ = [*self.types, *[INT, INT] * random, *[INT] * bool(through)]
        found = effects.emit(context, "callback", *inputs, types=types_, binds=tuple(self.binds), call=call)
        if through:
            context.builder.history.update(v.id for v in found if isinstance(v.type, TensorType)
                                           and v.type.dtype.is_floating_point)
        if random:
            for part, value in zip(("offset", "seed"), found[len(self.types):], strict=False):
                context.inputs.write_random_state(part, numbers.wrap(context, value))
        context.called_back = True
        leaves = iter(found)
        return self.rebuilt(result, leaves)

    def rebuilt(self, result: Any, leaves: Any) -> Any:
        """The value that the script sees."""
        if result is None:
            return None
        if isinstance(result, TupleResult):
            items = [self.rebuilt(r, leaves) for r in result.items]
            return result.type(*items) if hasattr(result.type, "_fields") else tuple(items)
        value = next(leaves)
        if isinstance(result, TensorResult):
            return placement.put(self.context, heap.new_tensor(self.context, value), result.device)
        return numbers.wrap(self.context, value)

    # --- what is returned ---

    def declared(self, mark: Mark) -> Any:
        returns = mark.returns
        if returns is BY_ANNOTATION:
            return self.annotated(_return_annotation(self.fn))
        if returns is None or isinstance(returns, type) or typing.get_origin(returns) is not None:
            return self.annotated(returns)
        context = self.context
        before, context.grad = context.grad, False
        try:
            example = call(context, returns, *self.args, **self.kwargs)
        finally:
            context.grad = before
        return self.like(example)

    def annotated(self, annotation: Any) -> Any:
        """The result that an annotation stands for."""
        if annotation is None or annotation is type(None):
            return None
        if annotation in NUMBERS:
            self.types.append(_TYPES[annotation])
            return annotation
        if isinstance(annotation, type) and issubclass(annotation, AnyTensor):
            return self.like_first()
        if typing.get_origin(annotation) is tuple and Ellipsis not in typing.get_args(annotation):
            return TupleResult(tuple, tuple(self.annotated(a) for a in typing.get_args(annotation)))
        if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
            hints = typing.get_type_hints(annotation)
            return TupleResult(annotation, tuple(self.annotated(hints.get(f)) for f in annotation._fields))
        word = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        raise UnsupportedCall(f"the ignored function `{self.name}` returns `{word}`, which a script cannot hold",
                              self.context.span(), hint="return None, tensors, numbers, or a tuple of these")

    def like_first(self) -> Any:
        """A tensor of the first tensor argument's dtype and rank, of any size."""
        first = next((v for v in contents.leaves(self.context, (*self.args, *self.kwargs.values()))
                      if isinstance(v, SymTensor)), None)
        if first is None:
            raise NotStatic(f"the dtype and rank of what the ignored function `{self.name}` returns are not known",
                            self.context.span(), hint=_RETURNS)
        symbols = [Symbol("n") for _ in first.type_.dims]
        self.binds += symbols
        self.types.append(TensorType(first.dtype, tuple(dim(s) for s in symbols)))
        return TensorResult(first.dtype, (None,) * len(symbols), first.device)

    def like(self, example: Any) -> Any:
        """A result like an example, a value of the script."""
        if example is None:
            return None
        if isinstance(example, SymTensor):
            self.types.append(example.type_)
            return TensorResult(example.dtype, tuple(self.size(d) for d in example.type_.dims), example.device)
        if isinstance(example, (*NUMBERS, Number)):
            kind = example.number_type if isinstance(example, Number) else type(example)
            if kind in _TYPES:
                self.types.append(_TYPES[kind])
                return kind
        if isinstance(example, tuple):
            return TupleResult(type(example), tuple(self.like(e) for e in example))
        raise UnsupportedCall(f"`returns` of the ignored function `{self.name}` gives {type_word(example)}",
                              self.context.span(), hint="return None, tensors, numbers, or a tuple of these")

    def size(self, size: Size) -> Any:
        if isinstance(size, int):
            return size
        value = numbers.value_of(self.context, size_number(size))
        if value not in self.sizes:
            self.sizes.append(value)
        return (self.sizes.index(value),)


def _renumbered(result: Any, first: int) -> Any:
    """`result` with its sizes counted after the `first` inputs that are arguments."""
    if isinstance(result, TupleResult):
        return TupleResult(result.type, tuple(_renumbered(r, first) for r in result.items))
    if isinstance(result, TensorResult):
        shape = tuple((s[0] + first,) if isinstance(s, tuple) else s for s in result.shape)
        return TensorResult(result.dtype, shape, result.device)
    return result


def _return_annotation(fn: types.FunctionType) -> Any:
    annotation = inspect.signature(fn).return_annotation
    if annotation is inspect.Signature.empty:
        return None
    if isinstance(annotation, str):
        try:
            annotation = typing.get_type_hints(fn).get("return")
        except (NameError, AttributeError, TypeError):  # another annotation that only a type checker can read
            annotation = {"None": None, "bool": bool, "int": int, "float": float}.get(annotation, annotation)
    return annotation


# --- what Python is asked for and told by its own functions -----------------------------------------------------------


def warn_at(message: str, category: type[Warning], file: str, line: int, module: str) -> None:
    """`warnings.warn` where a script says so: each filter knows of the line."""
    registry = getattr(sys.modules.get(module), "__dict__", {}).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module, registry)


def asked(function: Any, kind: Any) -> Handler:
    """The handler of a function of Python's that gives a number of that kind, or None."""
    return lambda context, args, kwargs: marked(context, function, Mark("ignore", kind), args, kwargs)


@handles(warnings.warn)
def _warn(context: Context, args: Args, kwargs: dict[str, Any]) -> None:
    """Attributed to a line of the script: the one that called it Python alone knows."""
    given = {**dict(zip(("message", "category", "stacklevel", "source"), args, strict=False)), **kwargs}
    message, category = given["message"], static(context, given.get("category"), "the category of a warning")
    if isinstance(message, ExceptionValue):
        category, message = message.cls, call(context, str, message)
    span = context.span()
    assert span is not None
    for _ in range(1, static(context, given.get("stacklevel", 1), "the `stacklevel`")):
        span = span.caller or span
    asked(warn_at, None)(context, (message, category or UserWarning, span.file, span.line,
                                   context.frame.real_function.__module__), {})


for _name in ("time", "monotonic", "perf_counter", "process_time"):
    HANDLERS[getattr(time, _name)] = asked(getattr(time, _name), float)
    HANDLERS[getattr(time, f"{_name}_ns")] = asked(getattr(time, f"{_name}_ns"), int)
