"""What a specialisation assumes, what was decided while it was compiled, and why others exist: in words."""

from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.dims import Atom, Size, Symbol, render, render_call
from jitgrad.ops.types import ListType, TensorType
from jitgrad.script.call import signature as sig
from jitgrad.script.call.list_kinds import Tensors
from jitgrad.script.call.sources import describe, elem_of
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.graph.ir import symbol_axes


def guards(specialisation: Specialisation) -> list[str]:
    """Every assumption of a specialisation, one line each."""
    script = specialisation.script
    lines = [f"grad mode is {'on' if specialisation.grad_mode else 'off'}",
             f"the default dtype is {_dtype(specialisation.default_dtype)}"]
    if specialisation.autocast is not None:
        lines.append(f"autocast is on with {specialisation.autocast}")
    lines += dict.fromkeys(_WORDS[g.kind](f"`{describe(g.source)}`", g.value) for g in specialisation.assumptions)
    names = _names(script)
    for a, b in script.size_guards:
        a, b = (b, a) if isinstance(a, int) else (a, b)
        lines.append(f"{size(a, names)} == {size(b, names)} (as at the first call)")
    lines += [f"{size(a, names)} == {size(b, names)} (whether a loop runs, or a view is a copy)"
              for a, b in script.trip_guards]
    if specialisation.may_share:
        lines.append("what is written shares no memory with other tensors")
    if script.distinct:
        lines.append("no tensor is found on two paths")
    return lines


def run_time_values(specialisation: Specialisation) -> list[str]:
    """What is read at every entry and may change freely: the inputs of the graph."""
    script = specialisation.script
    return [f"`{describe(source)}`: {_type(t)}" for source, t in zip(script.inputs, script.input_types, strict=True)]


def _type(type_: Any) -> str:
    if isinstance(type_, TensorType):
        return f"{_dtype(type_.dtype)}[{', '.join('1' if d == 1 else '*' for d in type_.dims)}]"
    return str(type_)


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("jitgrad.")


#: what a guard of a kind says of its object
_WORDS: dict[str, Callable[[str, Any], str]] = {
    "is": lambda name, value: f"{name} is the same object ({type(value).__name__})",
    "equal": lambda name, value: f"{name} == {value!r}",
    "type": lambda name, value: f"{name} is of type {value.__name__}",
    "len": lambda name, value: f"{name} has length {value}",
    "items": lambda name, value: f"{name} has items of one kind: {_kind(value)}",
    "keys": lambda name, value: f"{name} has the keys {', '.join(map(repr, value))}" if value else f"{name} is empty",
    "absent": lambda name, value: f"{name} is absent",
    "inherited": lambda name, value: f"{name} has no `{value}` of its own",
    "unhooked": lambda name, value: f"{name} has no hooks, and no grad_dtype of its own",
    "contiguous": lambda name, value: f"the memory of {name} is {'in' if value else 'not in'} row order",
    "order": lambda name, value: f"the memory of {name} is in the order of its axes "
                                 f"{', '.join(str(axis) for axis, _ in value)}",
    "same": lambda name, value: f"{name} is the very object `{describe(value)}`",
    "other": lambda name, value: f"{name} is another object than `{describe(value)}`",
    "alike": lambda name, value: f"{name} holds the number that `{describe(value)}` holds",
    "optional": lambda name, value: f"{name} is None, or {_dtype(value)} without history",
    "tensor": lambda name, value: f"{name} is {_tensor(value)}",
}


def _tensor(key: sig.TensorKey) -> str:
    ones = ", ".join(f"shape[{axis}] == 1" for axis, one in enumerate(key.ones) if one)
    shape = f", {ones}, no other size of 1" if ones else ", no size of 1" if key.ndim else ""
    return f"{_dtype(key.dtype)} of rank {key.ndim}{shape}{', requires grad' if key.requires_grad else ''}"


def _kind(kind: Any) -> str:
    if isinstance(kind, tuple):
        return f"({', '.join(map(_kind, kind))})"
    if not isinstance(kind, Tensors):
        return str(kind.__name__)
    sizes = ("1" if one else "n" if same else "*" for one, same in zip(kind.ones, kind.same, strict=True))
    return f"{_dtype(kind.dtype)}[{', '.join(sizes)}]{', requires grad' if kind.requires_grad else ''}"


def _names(script: sig.ScriptGraph) -> dict[Symbol, str]:
    """How the symbols of a specialisation's sizes can be written."""
    names: dict[Symbol, str] = {}
    for source, type_ in zip(script.inputs, script.input_types, strict=True):
        first = "[0]" if isinstance(type_, ListType) else ""
        for axis, symbol in symbol_axes(elem_of(type_)):
            names.setdefault(symbol, f"{describe(source)}{first}.shape[{axis}]")
    for symbol, index in script.int_symbols.items():
        names[symbol] = describe(script.inputs[index])
    return names


def size(value: Size, names: Mapping[Symbol, str]) -> str:
    """A size in terms of the arguments' shapes."""
    def atom(a: Atom) -> str:
        return names.get(a, a.name) if isinstance(a, Symbol) else render_call(a.fn, [size(s, names) for s in a.args])

    return render(value, atom)
