"""`jitgrad.jit.save`."""

import inspect
import os
from collections.abc import Iterable
from typing import Any

from jitgrad.script.call.sources import Unreadable
from jitgrad.script.executor import Scripted, scripted
from jitgrad.script.stored.file import archive
from jitgrad.script.stored.file.snapshot import Snapshot
from jitgrad.script.stored.file.write import ProgramWriter, parameters, still_holds
from jitgrad.script.stored.values import NotSavable


def save(f: Any, path: archive.File, example_inputs: Any = None) -> None:
    """Write a scripted function or module with everything that it has compiled.

    The file holds the graphs, the parameters, buffers and other values that they read, and the lines of source that
    messages show; no Python code. `load` runs it where the source is not installed.

    Args:
        f: what `jitgrad.script` returned, a bound scripted method, or what `load` returned.
        path: a path, or a file opened for writing bytes.
        example_inputs: the arguments of a call, as a tuple (or one argument), or a list of such tuples: programs for
            these calls are compiled first, without running them.

    Raises:
        NotSavable: (a TypeError) something that the programs read or return cannot be in a file.
        RuntimeError: nothing has been compiled, or all of it for objects that have been replaced since.
    """
    saved = scripted(f)
    if saved is None:
        raise TypeError(f"cannot save a `{type(f).__name__}`: script it first, with `jitgrad.script`; the values of a "
                        "module alone are saved by `jitgrad.save(module.state_dict(), path)`")
    for args in _calls(example_inputs):
        saved.function.specialise(*(() if saved.instance is None else (saved.instance,)), *args)
    program, graphs, arrays = _describe(saved)
    if not isinstance(path, (str, os.PathLike)):
        archive.write(path, program, graphs, arrays)
        return
    name = os.fspath(path)
    partial = f"{name}.{os.getpid()}.part"  # a crash must not leave half a file under the name
    try:
        with open(partial, "wb") as file:
            archive.write(file, program, graphs, arrays)
        os.replace(partial, name)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _calls(example_inputs: Any) -> Iterable[tuple[Any, ...]]:
    if example_inputs is None:
        return []
    if isinstance(example_inputs, list) and all(isinstance(call, tuple) for call in example_inputs):
        return example_inputs
    return [example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)]


def _describe(saved: Scripted) -> tuple[Any, list[str], list[Any]]:
    """The JSON, the graphs' texts and the arrays of the programs that can run still."""
    programs = saved.function.programs
    if not programs:
        raise RuntimeError(f"`{saved.name}` has not been called yet, so that nothing is compiled: call it, or save it "
                           "with `example_inputs=(...)`")
    function = saved.function
    names = list(inspect.signature(function.eager, follow_wrapped=False).parameters)
    bound = saved.instance is not None
    root_parameter = "self"
    while root_parameter in names[bound:]:
        root_parameter = "_" + root_parameter
    snapshot = Snapshot(saved.instance, names[0] if bound else None, saved.name, root_parameter)
    stored_parameters, defaults = parameters(function.eager, bound, snapshot)
    writer = ProgramWriter(snapshot, defaults)
    stored = []
    for program in programs:
        if not still_holds(snapshot, [*program.arguments, *program.script.guards]):
            continue
        try:
            stored.append(writer.program(program))
        except NotSavable as reason:
            raise NotSavable(f"cannot save `{saved.name}`: {reason}") from None
        except Unreadable:
            continue
    if not stored:
        raise RuntimeError(f"`{saved.name}` has compiled programs only for objects that have been replaced since: "
                           "call it once more, or save it with `example_inputs=(...)`")
    description = {"root_parameter": root_parameter, "parameters": stored_parameters, "objects": snapshot.nodes,
                   "programs": stored, "source": {"rows": writer.spans.rows, "lines": writer.spans.lines}}
    return description, writer.graphs, snapshot.arrays
