"""The end of a call: its result, and writing back what the program changed besides memory (attributes, items...).

One generated Python function per specialisation, as for reading (`entry.py`): a training step may store the `.grad`
of a hundred parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitgrad.device import CPU, device
from jitgrad.eager.arrays import arrays
from jitgrad.eager.autograd.node import Node
from jitgrad.eager.construct import wrap
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter
from jitgrad.script.call.returning import NOTHING, ResultWriter
from jitgrad.script.graph.effects import Pending

#: what the gradient of a tensor that an exception left behind is
ENDED = ("this tensor was left behind by a compiled function that raised: its history ended with the exception. Take "
         "the gradient inside the function, or run it by `.eager`")

Leave = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]
Commit = Callable[[Sequence[Any], int, Any], None]


def leave_writer(params: Sequence[str], values: dict[str, Any], inputs: Sequence[sig.Source], result: sig.Result,
                 stores: Sequence[tuple[sig.Place, sig.Result]]) -> Leave:
    """`leave(p, i, o)`: assign what is stored, return the result; of parameters `p`, objects `i` and outputs `o`.

    All paths are read, and all that is stored and returned is made, before the first assignment: two attributes may
    change places, and one object may go to several.
    """
    reader = EntryWriter(params, values)
    writer = ResultWriter(reader)
    known = {source: f"i[{k}]" for k, source in enumerate(inputs)}
    made = writer.expression(result)
    assignments: list[str] = []
    for k, (place, what) in enumerate(stores):
        value = writer.expression(what)
        if not isinstance(what, (sig.Output, sig.Given, sig.Same)):
            writer.lines.append(f"x{k} = {value}")
            value = f"x{k}"
        if isinstance(place, (sig.Content, sig.Tail)):
            store = writer.constant(_append if isinstance(place, sig.Tail) else _replace)
            assignments.append(f"{store}({known.get(place.base) or reader.read(place.base)}, {value})")
        else:
            assignment = f"{_target(reader, place, known)} = {value}"
            if isinstance(what, sig.OneOf) and sig.Nothing() in what.results:
                assignment = f"if {value} is not {writer.constant(NOTHING)}: {assignment}"
            assignments.append(assignment)
    if assignments:
        writer.lines.append(f"y = {made}")
        made = "y"
    leave: Leave = writer.finish("leave", "p, i, o", [*assignments, f"return {made}"])
    return leave


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
        case sig.RngState():
            from jitgrad.random import default_generator

            return f"{writer.constant(default_generator)}.{place.attribute}"
    raise AssertionError(place)


def _function(name: str, parameters: str, lines: list[str], constants: dict[str, Any]) -> Any:
    header = ", ".join([parameters, *(f"{n}={n}" for n in constants)])
    body = "".join(f"    {line}\n" for line in lines) or "    pass\n"
    scope: dict[str, Any] = dict(constants)
    exec(compile(f"def {name}({header}):\n{body}", f"<jitgrad {name}>", "exec"), scope)  # the text is ours
    return scope[name]


# --- after an exception ---


def gather(pending: Pending, recipes: Sequence[Sequence[tuple[sig.Place, sig.Result]]], name: str,
           where: device) -> tuple[tuple[int, ...], list[tuple[sig.Place, sig.Result]], list[Any]]:
    """Which recipes are followed, what is stored, and the objects that this is made of: its outputs.

    where: the device of the program.
    """
    stores: dict[sig.Place, sig.Result] = {}
    outputs: list[Any] = []
    identity = 0
    followed = []
    for part in pending.chain():
        followed.append(part.recipe)
        for place, result in recipes[part.recipe]:
            stores[place] = moved(result, len(outputs), identity)
        identity += 1 << 20
        outputs += [_object(v, k in part.carried, name, CPU if k in part.hosted else where)
                    for k, v in enumerate(part.values)]
    return tuple(followed), list(stores.items()), outputs


def _object(value: Any, carried: bool, name: str, where: device) -> Any:
    """A value as the script's caller sees it."""
    if isinstance(value, list):
        return [_object(v, carried, name, where) for v in value]
    if not isinstance(value, np.ndarray) and type(value) not in arrays.MET:
        return value
    tensor = wrap(arrays.transfer(arrays.copy(value), where))
    return Node(f"{name}Backward", (), _ended).attach(tensor) if carried else tensor


def _ended(cotangents: list[Any]) -> list[Any]:
    raise RuntimeError(ENDED)


def moved(result: sig.Result, by: int, identity: int) -> sig.Result:
    """`result` with its outputs counted from `by`, and its shared objects from `identity`."""

    def items(results: Sequence[sig.Result]) -> tuple[sig.Result, ...]:
        return tuple([moved(r, by, identity) for r in results])

    def shared(number: int) -> int:
        return number if number < 0 else number + identity

    match result:
        case sig.Output(index):
            return sig.Output(index + by)
        case sig.Leaf(index, grad):
            return sig.Leaf(index + by, moved(grad, by, identity))
        case sig.ViewOf(index, path, sizes, made):
            return sig.ViewOf(index + by * made, path, {s: i + by for s, i in sizes.items()}, made)
        case sig.Referred(index, origin, references, path, sizes):
            return sig.Referred(index + by, tuple(k + by for k in origin), references, path,
                                {s: i + by for s, i in sizes.items()})
        case sig.Container() | sig.Object():
            return replace(result, items=items(result.items), identity=shared(result.identity))
        case sig.Select(condition, if_true, if_false):
            return sig.Select(condition + by, moved(if_true, by, identity), moved(if_false, by, identity))
        case sig.Repeated(leaves, item, number):
            return sig.Repeated(tuple(k + by for k in leaves), item, shared(number))
        case sig.OneOf(tag, results):
            return sig.OneOf(tag + by, items(results))
        case sig.Text(parts):
            return sig.Text(tuple(p if isinstance(p, str) else (moved(p[0], by, identity), *p[1:]) for p in parts))
    return result
