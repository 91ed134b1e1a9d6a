"""Writing back what a program changed besides memory: attributes, items, variables, the random offset.

One generated Python function per specialisation, as for reading (`sources.py`): a training step may store the `.grad`
of a hundred parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.script import signature as sig
from jitgrad.script.results import result_writer
from jitgrad.script.sources import EntryWriter

Store = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]
Commit = Callable[[Sequence[Any], int, Any], None]


def store_writer(params: Sequence[str], values: dict[str, Any], inputs: Sequence[sig.Source],
                 stores: Sequence[tuple[sig.Place, sig.Result]]) -> Store:
    """`store(p, i, o)`: assign each result, made of objects `i` and outputs `o`, to its place; p: the parameters."""
    writer = EntryWriter(params, values)
    known = {source: f"i[{k}]" for k, source in enumerate(inputs)}
    lines: list[str] = []
    for place, result in stores:
        if isinstance(place, (sig.Content, sig.Tail)):
            made = f"{writer.constant(result_writer(result))}(i, o)"
            store = writer.constant(_append if isinstance(place, sig.Tail) else _replace)
            lines.append(f"{store}({known.get(place.base) or writer.read(place.base)}, {made})")
            continue
        target = _target(writer, place, known)
        match result:
            case sig.Output(index):
                value = f"o[{index}]"
            case sig.Static(None):
                value = "None"
            case _:
                value = f"{writer.constant(result_writer(result))}(i, o)"
        lines.append(f"{target} = {value}")
    function: Store = _function("store", "p, i, o", [*writer.lines, *lines], writer.constants)
    return function


def _append(container: list[Any], items: list[Any]) -> None:
    container.extend(items)


def _replace(container: Any, content: Any) -> None:
    """Give a list or dict new content; it stays the object that others hold."""
    if isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container.update(content)


def commit_writer(params: Sequence[str], values: dict[str, Any], commits: Mapping[int, sig.Source]) -> Commit:
    """`commit(p, target, value)`: store the number that the program wrote to graph input `target`."""
    lines: list[str] = []
    constants: dict[str, Any] = {}
    for target, place in commits.items():
        writer = EntryWriter(params, values)
        writer.constants = constants  # one namespace for all of them
        assignment = f"{_target(writer, place, {})} = value"
        lines.append(f"if target == {target}:")
        lines += [f"    {line}" for line in [*writer.lines, assignment, "return"]]
    function: Commit = _function("commit", "p, target, value", lines, constants)
    return function


def _target(writer: EntryWriter, place: sig.Source, known: Mapping[sig.Source, str]) -> str:
    """The left side of an assignment to `place`."""
    match place:
        case sig.Attr(base, name):
            return f"{known.get(base) or writer.read(base)}.{name}"
        case sig.Item(base, key):
            text = repr(key) if type(key) in (int, str, bool) else writer.constant(key)
            return f"{writer.read(base)}[{text}]"
        case sig.At(base, key):
            return f"{writer.read(base)}[{known.get(key) or writer.read(key)}]"
        case sig.Cell(function, index):
            return f"{writer.constant(function.__closure__[index])}.cell_contents"
        case sig.Global(function, name):
            return f"{writer.constant(function.__globals__)}[{name!r}]"
        case sig.RngState(part):
            from jitgrad.random import default_generator

            return f"{writer.constant(default_generator)}.{part}"
    raise AssertionError(place)


def _function(name: str, parameters: str, lines: list[str], constants: dict[str, Any]) -> Any:
    header = ", ".join([parameters, *(f"{n}={n}" for n in constants)])
    body = "".join(f"    {line}\n" for line in lines) or "    pass\n"
    scope: dict[str, Any] = dict(constants)
    exec(compile(f"def {name}({header}):\n{body}", f"<jitgrad {name}>", "exec"), scope)  # the text is ours
    return scope[name]
