"""The end of a call: its result, and writing back what the program changed besides memory (attributes, items...).

One generated Python function per specialisation, as for reading (`entry.py`): a training step may store the `.grad`
of a hundred parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.device import CPU, device
from jitgrad.eager.arrays import arrays
from jitgrad.eager.autograd.node import Node
from jitgrad.eager.construct import wrap
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter, function
from jitgrad.script.call.returning import NOTHING, ResultWriter
from jitgrad.script.graph.effects import Pending

#: what the gradient of a tensor that an exception left behind is
ENDED = ("this tensor was left behind by a compiled function that raised: its history ended with the exception. Take "
         "the gradient inside the function, or run it by `.eager`")

Leave = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]
Commit = Callable[[Sequence[Any], int, Any], None]


def leave_writer(params: Sequence[str], values: dict[str, Any], inputs: Sequence[sig.Source], result: sig.Result,
                 stores: Sequence[tuple[sig.Place, sig.Result]], guards: Sequence[sig.Guard] = (),
                 parts: Sequence[tuple[int, int]] = ()) -> Leave:
    """`leave(p, i, o)`: assign what is stored, return the result; of parameters `p`, objects `i` and outputs `o`.

    All paths are read, and all that is stored and returned is made, before the first assignment: two attributes may
    change places, and one object may go to several. `guards`: what is known of the objects. `parts`: of each store,
    `first` and `part` (see `ResultWriter`).
    """
    reader = EntryWriter(params, values, {source: f"i[{k}]" for k, source in enumerate(inputs)})
    writer = ResultWriter(reader)
    plain = {guard.source for guard in guards if guard.kind == "unhooked"}  # tensors with no `grad_dtype`
    made = writer.expression(writer.within_pools(result))
    assignments: list[str] = []
    for k, (place, what) in enumerate(stores):
        if parts:
            writer.first, writer.part = parts[k]
        what = writer.within_pools(what)
        value = writer.expression(what)
        if not isinstance(what, (sig.Output, sig.Given, sig.Same)):
            writer.lines.append(f"x{k} = {value}")
            value = f"x{k}"
        if isinstance(place, (sig.Content, sig.Tail)):
            store = writer.constant(list.extend if isinstance(place, sig.Tail) else _replace)
            assignments.append(f"{store}({reader.read(place.base)}, {value})")
        else:
            if isinstance(place, sig.Attr) and place.name == "grad" and place.base in plain:  # checked when compiled
                place = sig.Attr(place.base, "_grad")
            assignment = reader.assignment(place, value)
            if isinstance(what, sig.OneOf) and sig.Nothing() in what.results:
                assignment = f"if {value} is not {writer.constant(NOTHING)}: {assignment}"
            assignments.append(assignment)
    if assignments:
        writer.lines.append(f"y = {made}")
        made = "y"
    leave: Leave = writer.finish("leave", "p, i, o", [*assignments, f"return {made}"])
    return leave


def _replace(container: Any, content: Any) -> None:
    """Give a list, dict or the like new content; it stays the object that others hold."""
    container.clear()
    (container.update if isinstance(container, dict) else container.extend)(content)


def commit_writer(params: Sequence[str], values: dict[str, Any], commits: Mapping[int, sig.Source]) -> Commit:
    """`commit(p, target, value)`: store the number that the program wrote to graph input `target`."""
    lines: list[str] = []
    constants: dict[str, Any] = {}
    for target, place in commits.items():
        writer = EntryWriter(params, values)
        writer.constants = constants  # one namespace for all of them
        assignment = writer.assignment(place, "value")
        lines.append(f"if target == {target}:")
        lines += [f"    {line}" for line in [*writer.lines, assignment, "return"]]
    commit: Commit = function("commit", "p, target, value", lines, constants)
    return commit


# --- after an exception ---


def gather(pending: Pending, recipes: Sequence[Sequence[tuple[sig.Place, sig.Result]]], name: str, where: device
           ) -> tuple[tuple[int, ...], dict[sig.Place, tuple[sig.Result, tuple[int, int]]], list[Any]]:
    """Which recipes are followed, what is stored of which part, and the objects that this is made of: its outputs.

    where: the device of the program.
    """
    stores: dict[sig.Place, tuple[sig.Result, tuple[int, int]]] = {}
    outputs: list[Any] = []
    parts = pending.chain()
    for number, part in enumerate(parts):
        for place, result in recipes[part.recipe]:
            stores[place] = result, (len(outputs), number)
        outputs += [_object(v, k in part.carried, name, CPU if k in part.hosted else where)
                    for k, v in enumerate(part.values)]
    return tuple([part.recipe for part in parts]), stores, outputs


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
