"""Where values are found: paths from a script's arguments to objects, read and told; what is assumed, kept or broken.

`entering.py` makes of sources and guards the function that reads them at every call.
"""

import collections
import inspect
import operator
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes, random
from jitgrad.device import FACTS, device
from jitgrad.ops import OPS
from jitgrad.ops.backend import default
from jitgrad.ops.types import ListType
from jitgrad.script.call import list_kinds, signature as sig

#: What reading a path may raise when the user changed the object: the assumption failed, nothing else.
MISSES = (AttributeError, KeyError, IndexError, TypeError, ValueError)

#: facts about the machine, for people
TITLES = {"default": "the default device", "current": "the current GPU", "gpu": "whether there is a GPU",
          "named": "whether there is a GPU", "count": "the number of GPUs",
          "deterministic": "whether algorithms must be deterministic"}

#: the dicts in which a module, and any object, has its attributes: other names of the same
REGISTRIES = ("_parameters", "_buffers", "_modules")
HOLDERS = (*REGISTRIES, "__dict__")


def holder_of(obj: Any, name: str) -> str:
    """Which dict of an object's has its attribute `name`."""
    held = getattr(obj, "__dict__", {})
    return next((r for r in REGISTRIES if name in held.get(r, ())), "__dict__")


def is_inherited(obj: Any, name: str) -> bool:
    """Whether it is the class that answers for an attribute of an object's, which has none of its own."""
    held = getattr(obj, "__dict__", None)
    found = [vars(c)[name] for c in type(obj).__mro__ if name in vars(c)]
    return held is not None and name not in held and bool(found) and not hasattr(type(found[0]), "__set__")


class Unreadable(Exception):
    """A path that was readable when the function was compiled is not any more."""


def resolve(source: sig.Source, params: dict[str, Any]) -> Any:
    """The object at `source` now. `params` maps parameter names to values. Raises Unreadable."""
    try:
        return _FOUND[type(source)](source, params)
    except MISSES as error:
        raise Unreadable(f"{describe(source)}: {error}") from error


#: how the object at a path of a kind is found
_FOUND: dict[type, Callable[[Any, dict[str, Any]], Any]] = {
    sig.Arg: lambda s, params: params[s.name],
    sig.Global: lambda s, params: s.function.__globals__[s.name],
    sig.Cell: lambda s, params: s.function.__closure__[s.index].cell_contents,
    sig.Attr: lambda s, params: getattr(resolve(s.base, params), s.name),
    sig.Item: lambda s, params: item(resolve(s.base, params), s.key),
    sig.At: lambda s, params: item(resolve(s.base, params), resolve(s.key, params)),
    sig.Constant: lambda s, params: s.value,
    sig.RngState: lambda s, params: getattr(random.default_generator, s.attribute),
    sig.Machine: lambda s, params: FACTS[s.fact](),
    sig.Column: lambda s, params: list_kinds.column(resolve(s.base, params), s.path),
    sig.Length: lambda s, params: len(resolve(s.base, params)),
    sig.Extent: lambda s, params: resolve(s.base, params)[0].shape[s.axis],
    sig.Parts: lambda s, params: as_parts(resolve(s.base, params)),
}


def item(container: Any, key: Any) -> Any:
    """`container[key]`; a dict that makes its items on demand makes none. KeyError for an item that is not there."""
    if isinstance(container, dict) and key not in container:
        raise KeyError(key)
    return container[key]


def as_parts(tensor: Any) -> Any:
    """The memory of a complex tensor as a real one, a view that is recorded. TypeError for anything else."""
    if not isinstance(tensor, type_of_tensor()) or not tensor.dtype.is_complex:
        raise TypeError("no complex tensor")
    return default().apply(OPS["view_as_real"], (tensor,), {})


def as_complex(parts: Any) -> Any:
    """The inverse of `as_parts`; None of None."""
    return parts if parts is None else default().apply(OPS["view_as_complex"], (parts,), {})


def describe(source: sig.Source) -> str:
    """The path as the user would write it: `self.fc.weight`, `opt.param_groups[0]['lr']`."""
    return _TOLD[type(source)](source)


def column_text(base: str, path: Sequence[int]) -> str:
    """What is found on a path of every item of `base`, as Python."""
    return f"[i{''.join(f'[{k}]' for k in path)} for i in {base}]"


_TOLD: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((sig.Arg, sig.Global), lambda s: s.name),
    sig.Cell: lambda s: str(s.function.__code__.co_freevars[s.index]),
    sig.Attr: lambda s: f"{describe(s.base)}.{s.name}",
    sig.Item: lambda s: f"{describe(s.base)}[{s.key!r}]",
    sig.At: lambda s: f"{describe(s.base)}[{describe(s.key)}]",
    sig.Constant: lambda s: f"<{type(s.value).__name__}>",
    sig.RngState: lambda s: f"<random {s.part}>",
    sig.Machine: lambda s: TITLES[s.fact],
    sig.Column: lambda s: column_text(describe(s.base), s.path) if s.path else describe(s.base),
    sig.Length: lambda s: f"len({describe(s.base)})",
    sig.Extent: lambda s: f"{describe(s.base)}[0].shape[{s.axis}]",
    sig.Parts: lambda s: f"torch.view_as_real({describe(s.base)})",
}


def type_of_tensor() -> Any:
    """The eager Tensor class (late: the graph side of the house does not import the eager side)."""
    from jitgrad.eager.tensor import Tensor

    return Tensor


def elem_of(type_: Any) -> Any:
    """The type of a list's elements; others as they are."""
    return type_.elem if isinstance(type_, ListType) else type_


NUMBERS = (int, float, bool)


def is_numpy_number(value: Any) -> bool:
    """Whether a value is one of NumPy's ints and floats that are Python numbers to a script."""
    return isinstance(value, np.number) and type(value.item()) in NUMBERS


#: objects of which a call's key says what their items are; more of them are kinds of the frontend (`Kind.given`)
SEQUENCES = (tuple, list, collections.deque)


def is_itself(container: Any) -> bool:
    """Whether a container of a class of its own is taken as the object that it is, not by its items."""
    kind = type(container)
    if isinstance(container, dict):
        missing = getattr(kind, "__missing__", None)
        return missing is not None and not hasattr(missing, "__code__")
    return not isinstance(container, tuple) and kind not in SEQUENCES


def argument_guards(source: sig.Source, value: Any, unread: frozenset[sig.Source] = frozenset(),
                    lists: Mapping[sig.Source, list_kinds.Kind] = list_kinds.NOTHING) -> list[sig.Guard]:
    """The part of the key that one argument contributes: types and structure, never a size or a number's value.

    `unread`: lists whose content does not matter. `lists`: those of any length, and the kind of their items.
    """
    if isinstance(value, type_of_tensor()):
        return [sig.Guard(source, "tensor", tensor_key(value))]
    kind = type(value)
    if kind in NUMBERS or is_numpy_number(value):
        return [sig.Guard(source, "type", kind)]
    if value is None or isinstance(value, (str, bytes, device, np.bool_)):
        return [sig.Guard(source, "equal", value)]
    if isinstance(value, dtypes.dtype):
        return [sig.Guard(source, "is", value)]
    if source in unread or kind is types.MethodType:  # made anew when it is asked for: what it is made of is read
        return [sig.Guard(source, "type", kind)]
    if source in lists:
        items = [] if lists[source] == list_kinds.BY_CLASS else [sig.Guard(source, "items", lists[source])]
        return [sig.Guard(source, "type", kind), *items]
    if isinstance(value, (*SEQUENCES, dict)) and is_itself(value):
        return [sig.Guard(source, "is", value)]
    if isinstance(value, SEQUENCES):
        guards = [sig.Guard(source, "type", kind), sig.Guard(source, "len", len(value))]
        for i, item in enumerate(value):
            guards += argument_guards(sig.Item(source, i), item, unread, lists)
        return guards
    if isinstance(value, dict):
        guards = [sig.Guard(source, "type", kind), sig.Guard(source, "keys", tuple(value))]
        for key, item in value.items():
            guards += argument_guards(sig.Item(source, key), item, unread, lists)
        return guards
    return [sig.Guard(source, "is", value)]


#: where the elements along an axis are: behind those of the axes inside, with gaps between, overlapping, in one place
BEHIND, APART, OVERLAPPING, REPEATED = "behind", "apart", "overlapping", "repeated"


def memory_order(tensor: Any) -> tuple[tuple[int, str], ...]:
    """A tensor's axes of sizes other than 1, from the outermost in memory to the innermost, and how each lies there."""
    array = tensor._data
    axes = sorted([a for a, n in enumerate(array.shape) if n != 1], key=lambda a: -abs(array.strides[a]))
    found, step = [], array.itemsize
    for a in reversed(axes):
        stride = array.strides[a]
        found.append((a, REPEATED if stride == 0 else BEHIND if stride == step else APART if stride > step
                      else OVERLAPPING))
        if stride:
            step = abs(stride) * array.shape[a]
    return tuple(reversed(found))


def tensor_key(t: Any) -> sig.TensorKey:
    """What a specialisation assumes of tensor `t`."""
    return sig.TensorKey(t.dtype, t.ndim, tuple(s == 1 for s in t._data.shape), bool(t.requires_grad), t.device)


def parameter_reader(function: Any) -> Callable[..., tuple[Any, ...]]:
    """`read(*args, **kwargs)`: the values of the function's parameters, in order; Python's TypeError for a bad call."""
    signature = inspect.signature(function, follow_wrapped=False)
    parameters = [p.replace(annotation=p.empty, default=None if p.default is not p.empty else p.empty)
                  for p in signature.parameters.values()]
    header = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    names = "".join(f"{name}, " for name in signature.parameters)
    scope: dict[str, Any] = {}
    exec(f"def read{header}:\n    return ({names})\n", scope)  # the text is ours: parameter names only
    read = scope["read"]
    read.__defaults__, read.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    read.__name__, read.__qualname__ = function.__name__, function.__qualname__
    result: Callable[..., tuple[Any, ...]] = read
    return result


# --- guards in words ------------------------------------------------------------------------------------------------


def problem(guard: sig.Guard, values: dict[str, Any], broken: Callable[[sig.Guard, Any], str]) -> str:
    """How a call breaks a guard, in words; "" where it keeps it."""
    try:
        found = resolve(guard.source, values)
        other = resolve(guard.value, values) if guard.kind in _RELATIONS else None
    except Unreadable as missing:
        return "" if guard.kind == "absent" else f"{missing}"
    if guard.kind in _RELATIONS:
        holds, says = _RELATIONS[guard.kind]
        words = "" if holds(found, other) else f"{says} `{describe(guard.value)}`"
    else:
        words = broken(guard, found)
    if not words:
        return ""
    named = describe(guard.source)
    return f"{named if isinstance(guard.source, sig.Machine) else f'`{named}`'} {words}"


def first_broken(guards: Iterable[sig.Guard], values: dict[str, Any],
                 broken: Callable[[sig.Guard, Any], str]) -> str:
    """How a call breaks the first of `guards` that it breaks, in words; "" where it keeps them all."""
    return next((words for guard in guards if (words := problem(guard, values, broken))), "")


def broken(guard: sig.Guard, found: Any) -> str:
    """How `found` breaks `guard`, in words; "" where it does not."""
    return _BROKEN[guard.kind](guard.value, found)


def _other_value(value: Any, found: Any) -> str:
    if type(found) is type(value) and found == value:
        return ""
    was, now = (str(v) if isinstance(v, device) else repr(v) for v in (value, found))
    return f"was {was}, is {'a tensor' if isinstance(found, type_of_tensor()) else now}"


def _other_tensor(key: sig.TensorKey, found: Any) -> str:
    if not isinstance(found, type_of_tensor()):
        return f"was a tensor, is {type(found).__name__}"
    now = tensor_key(found)
    if now.dtype != key.dtype:
        return f"had dtype {key.dtype}, has {now.dtype}"
    if now.device != key.device:
        return f"was on {key.device}, is on {now.device}"
    if now.ndim != key.ndim:
        return f"had rank {key.ndim}, has {now.ndim}"
    if now.requires_grad is not key.requires_grad:
        return "did not require grad, does now" if now.requires_grad else "required grad, does not now"
    for axis, (was, one) in enumerate(zip(key.ones, now.ones, strict=True)):
        if was is not one:
            return f"had {'' if was else 'not '}size 1 along axis {axis}, has {found.shape[axis]}"
    return ""


def _alike(tensor: Any, other: Any) -> bool:
    return all(isinstance(x, type_of_tensor()) for x in (tensor, other)) and bool(tensor.item() == other.item())


#: how a call breaks a guard that two tensors hold one number
OTHER_NUMBER = "holds another number than"
#: what a guard of two objects asks of them, and how that is broken
_RELATIONS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "same": (operator.is_, "is another object than"), "other": (operator.is_not, "is the same object as"),
    "alike": (_alike, OTHER_NUMBER)}
#: how an object breaks a guard of a kind, by what that assumes
_BROKEN: dict[str, Callable[[Any, Any], str]] = {
    "is": lambda value, found: "" if found is value else "is another object",
    "equal": _other_value,
    "type": lambda value, found: "" if type(found) is value else f"was {value.__name__}, is {type(found).__name__}",
    "len": lambda value, found: "" if len(found) == value else f"had length {value}, has {len(found)}",
    "keys": lambda value, found: "" if found is not None and tuple(found) == value else "has other keys",
    "absent": lambda value, found: "was absent, is there",
    "inherited": lambda value, found: "" if value not in found.__dict__ else f"has a `{value}` of its own",
    "unhooked": lambda value, found: ("has hooks" if found._hooks or found._after_hooks else
                                      "has a grad_dtype of its own" if found._grad_dtype else ""),
    "contiguous": lambda value, found: (
        "" if found._data.flags.c_contiguous is value else "has another order of memory"),
    "order": lambda value, found: "" if memory_order(found) == value else "has another order of memory",
    "tensor": _other_tensor,
    "items": lambda value, found: "" if list_kinds.fit(found, value) else "has items of another kind",
    "optional": lambda value, found: (
        "" if found is None or (found.dtype is value and not found.requires_grad) else "is another tensor"),
}
