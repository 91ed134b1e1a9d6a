"""Unions, opened: which alternative a value is, and what it is then."""

from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.errors import TypeMismatch
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.batches.items import batches
from jitgrad.script.frontend.state import copies, dispatch, effects, versions
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.templates.alternatives import Either, Num, payload, same_static, tag_of
from jitgrad.script.frontend.templates.references import CHOSEN, copied
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.templates.texts import Str
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import UNBOUND, Boxed, SymTensor, Union, refers
from jitgrad.script.graph.ir import Value


def maybe(type_: TensorType, value: Value) -> Union:
    """None or a tensor: an Optional of the graph."""
    return Union((None,), Tensor(type_.dtype, type_.dims, False), None, (value,))


def one_of(statics: tuple[Any, ...], tag: Value) -> Union:
    """One of several objects, by its number."""
    return Union(statics, None, tag, ())


def undecided(value: Any) -> bool:
    """Whether a value is one of several, known only at run time."""
    return isinstance(value, Union)


def is_choice(value: Any, *classes: type) -> bool:
    """Whether a value is one of several objects of such classes."""
    return isinstance(value, Union) and value.inner is None and all(isinstance(s, classes) for s in value.statics)


def may_be(value: Any, which: Any) -> bool:
    """Whether a value is the object `which`, or may be."""
    if not isinstance(value, Union):
        return same_static(value, which)
    return any(same_static(s, which) for s in value.statics)


def untagged(value: Any, absent: Any) -> bool:
    """Whether a value is `absent` or one of the run, whose presence says which."""
    return isinstance(value, Union) and value.tag is None and value.statics == (absent,)


def optional(value: Any) -> Value | None:
    """None or a value of one leaf: the graph's Optional that says so."""
    if not untagged(value, None) or not isinstance(value.inner, (Tensor, Num, Str)) or len(value.leaves) != 1:
        return None
    leaf: Value = value.leaves[0]
    return leaf


def is_static(context: Context, value: Union, which: Any) -> Any:
    """Whether a union is its static alternative `which`: a bool, or a run-time bool."""
    index = next((i for i, s in enumerate(value.statics) if same_static(s, which)), None)
    if index is None:
        return False
    if value.tag is None:
        has = numbers.wrap(context, context.one("opt.has", value.leaves[0]))
        return numbers.negate(context, has)
    return numbers.wrap(context, context.one("num.eq", value.tag, context.constant(index)))


def is_inner(context: Context, value: Union) -> Any:
    """Whether a union is its value of the run: a run-time bool."""
    return numbers.wrap(context, context.one("num.eq", tag_of(context, value), context.constant(len(value.statics))))


def settle(context: Context, value: Union, known: bool = False) -> Any:
    """`payload` from here on: every name of a tensor that may be None is one reference now, and all see a write; so of
    a list, a dict or an object. Whoever asks again, by a union that no name holds any more, gets the same one."""
    values = context.state.values
    key = ("settled", value.leaves, value.tag)
    before = context.recall(key)
    if before is not None and (before.storage if isinstance(before, SymTensor) else before) in values:
        return before
    made: Any = payload(context, value, known)
    if value.copied:
        assert value.inner is not None
        cells = set(copied(context.state, value.inner, made))
        copies.share(context, CHOSEN, *cells)
        copies.of(context).chosen |= cells
    if not refers(made):
        return made
    context.remember(key, made)
    for place, held in values.items():
        if isinstance(held, tuple):
            if any(_same_union(v, value) for v in held):
                content: list[Any] = [made if _same_union(v, value) else v for v in held]
                values[place] = type(held)(*content) if hasattr(held, "_fields") else type(held)(content)
        elif isinstance(held, dict):
            if any(_same_union(v, value) for v in held.values()):
                values[place] = {k: made if _same_union(v, value) else v for k, v in held.items()}
        elif _same_union(held, value):
            values[place] = made
            if isinstance(place, tuple) and place[0] == "grad" and isinstance(made, SymTensor) and place[1].input >= 0:
                heap.of(context).optional_grads[made.storage] = place
    return made


def _same_union(a: Any, b: Union) -> bool:
    return isinstance(a, Union) and a.leaves == b.leaves and a.inner == b.inner


def without(context: Context, value: Any, which: Any, known: bool = False) -> Any:
    """A value known not to be its static alternative `which`; `known` as for `payload`."""
    if not isinstance(value, Union) or not may_be(value, which):
        return value
    rest = tuple(s for s in value.statics if not same_static(s, which))
    if not rest:
        return settle(context, value, known)
    if len(rest) == 1 and value.inner is None:
        return opened(context, rest[0])
    narrowed = Either(rest, value.inner)
    removed = next(i for i, s in enumerate(value.statics) if same_static(s, which))
    tag = None
    if narrowed.tagged:
        old = tag_of(context, value)
        above = context.one("num.gt", old, context.constant(removed))
        tag = context.one("num.sub", old, context.one("num.cast", above, to="int"))
    return Union(rest, value.inner, tag, value.leaves, value.copied)


def present(context: Context, value: Union) -> Any:
    """The tensor that a union is, which is known not to be None."""
    return switch(context, without(context, value, None), lambda v: v)


def bound(context: Context, value: Any, error: type[Exception], text: str) -> Any:
    """A value that may be unbound, read: a check, or a raise where it certainly is unbound."""
    if value is UNBOUND:
        raise effects.raise_now(context, error, (text,))
    if not may_be(value, UNBOUND):
        return value
    missing = is_static(context, value, UNBOUND)
    effects.emit(context, "check", numbers.negate(context, missing).value, error=error, template=(text,))
    return without(context, value, UNBOUND)


def certain(context: Context, value: Any, what: str, error: type[Exception] = TypeError, absent: tuple[type, ...] = ()
            ) -> Any:
    """A value known to be none of its static alternatives that are no references, or of those whose class is one of
    `absent`; `error` at run time where it is one.

    `what` is the message; `{}` in it is the name of the type of what is there instead.
    """
    if not isinstance(value, Union):
        return value
    missing = [s for s in value.statics if not refers(s) and (
        type(s) in absent if absent else type(s) is not complex)]  # which has all operators
    if value.inner is None and not any(isinstance(s, SymTensor) for s in value.statics):
        return value
    wrong: Any = False
    for s in missing:
        wrong = numbers.either(context, wrong, is_static(context, value, s))
    if missing:
        effects.emit(context, "check", numbers.negate(context, wrong).value, error=error,
                     template=(what.replace("{}", type(missing[0]).__name__),))
    for s in missing:
        value = without(context, value, s)
    return value


def force(context: Context, value: Any, what: str, several: bool = False, absent: tuple[type, ...] = ()) -> Any:
    """The run-time value of a union that an operation needs, or what the tensor holds that it is; else `certain`.

    `several`: the caller goes on with each of several tensors of other types.
    """
    value = certain(context, value, what, absent=absent)
    if not isinstance(value, Union) or not any(isinstance(s, SymTensor) for s in value.statics):
        return value
    if _of_one_type(value):
        return read(context, value)
    if not several:
        raise TypeMismatch("a value of one type is needed here, not what a branch or a loop chose among several",
                           context.span(), hint="write the `if` around it")
    return value


def _of_one_type(value: Union) -> bool:
    """Whether a union is a tensor of one dtype, rank and device: what it holds is read, which is one value."""
    types = {(s.dtype, len(s.type_.dims), s.device, batches(s)) if isinstance(s, SymTensor) else None
             for s in value.statics}
    if isinstance(value.inner, Tensor):
        inner = value.inner
        types.add((inner.dtype, len(inner.dims), inner.device or current().device, inner.batches))
    elif value.inner is not None:
        types.add(None)
    return len(types) == 1 and None not in types


def read(context: Context, value: Union) -> Any:
    """What the tensor holds that a union refers to: a tensor that nothing else refers to."""
    held = context.state.values
    key = ("read", value.leaves, value.tag, context.grad, *(held.get(s.storage) for s in value.statics))
    found = context.recall(key)
    if found is None or found.storage not in held:
        found = switch(context, value, lambda v: heap.copy(context, v) if isinstance(v, SymTensor) else v)
        context.remember(key, found)
        tensors = [s for s in value.statics if isinstance(s, SymTensor)]
        found.storage.made = versions.made_alike(tensors)
        versions.of(context).alternatives[found.storage] = [
            (s, partial(is_static, context, value, s)) for s in tensors]
    return found


def opened(context: Context, value: Any) -> Any:
    """An alternative of a union: what is in it, if that is a box."""
    return context.state.values[value]["value"] if isinstance(value, Boxed) else value


def switch(context: Context, value: Any, operation: Callable[[Any], Any], live: frozenset[str] | None = None
           ) -> Any:
    """`operation` of whichever alternative a union is, or of what is none; `live` as of `branch`."""
    if not isinstance(value, Union):
        return operation(value)
    alternatives: list[Any] = list(value.statics)

    def run(index: int) -> Any:
        if index == len(alternatives):
            return operation(settle(context, value))
        last = index == len(alternatives) - 1 and value.inner is None
        one = alternatives[index]
        if last:
            return operation(opened(context, one))
        condition = is_static(context, value, one)
        return dispatch.branch(context, condition, lambda: operation(opened(context, one)), lambda: run(index + 1),
                               live)

    return run(0)


def each(context: Context, values: tuple[Any, ...], operation: Callable[[tuple[Any, ...]], Any],
         whole: Callable[[Any], Any] = lambda value: False) -> Any:
    """`operation` of values of which none is one of several, those apart that may stay so."""
    for k, value in enumerate(values):
        def again(v: Any, k: int = k) -> Any:
            return each(context, (*values[:k], v, *values[k + 1:]), operation, whole)

        if isinstance(value, Union) and not whole(value):
            return switch(context, value, again)
        if type(value) in (list, tuple) and any(isinstance(v, Union) and not whole(v) for v in value):
            return each(context, tuple(value), lambda items: again(type(value)(items)), whole)  # noqa: B023
    return operation(values)
