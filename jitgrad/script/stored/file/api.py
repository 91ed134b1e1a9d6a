"""`jitgrad.jit.save` and `jitgrad.jit.load`."""

from __future__ import annotations

import inspect
import os
import struct
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations, MapLocation
from jitgrad.script.call.sources import Unreadable
from jitgrad.script.executor import BoundScript, ScriptFunction
from jitgrad.script.graph.parse import ParseError
from jitgrad.script.graph.verify import InvalidGraph
from jitgrad.script.stored.file import archive
from jitgrad.script.stored.file.loaded import LoadedFunction, LoadedModule
from jitgrad.script.stored.file.placed import labels, moved
from jitgrad.script.stored.file.read import read_programs
from jitgrad.script.stored.file.records import Program, programs_of
from jitgrad.script.stored.file.snapshot import NotSavable, Snapshot
from jitgrad.script.stored.file.tree import places_of
from jitgrad.script.stored.file.write import ProgramWriter, parameters, still_holds
from jitgrad.serialization import LoadError

#: what reading a damaged file may raise on the way; all of it becomes LoadError
_DAMAGE = (zipfile.BadZipFile, ParseError, InvalidGraph, KeyError, ValueError, TypeError, IndexError, AttributeError,
           OverflowError, RecursionError, EOFError, NotImplementedError, struct.error, RuntimeError, SyntaxError,
           AssertionError, MemoryError)


class _Saved(NamedTuple):
    """What is to be saved: the compiled function, its instance if it has one, and what to call it."""

    function: ScriptFunction
    root: Any
    name: str


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
    saved = _what(f)
    for args in _calls(example_inputs):
        saved.function.specialise(*(() if saved.root is None else (saved.root,)), *args)
    programs = (saved.function.programs if isinstance(saved.function, LoadedFunction)
                else programs_of(saved.function))
    program, graphs, arrays = _describe(saved, programs)
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


def _what(f: Any) -> _Saved:
    if isinstance(f, LoadedModule):
        return _Saved(f._function(), f, f._get_name())
    if isinstance(f, BoundScript):
        return _Saved(f._script, f.__self__, f._script.__name__)
    if isinstance(f, ScriptFunction):
        return _Saved(f, None, f.__name__)
    script = getattr(type(f), "_script_call", None)
    if script is not None:
        return _Saved(script, f._unscripted, f._unscripted._get_name())
    raise TypeError(f"cannot save a `{type(f).__name__}`: script it first, with `jitgrad.script`; the values of a "
                    "module alone are saved by `jitgrad.save(module.state_dict(), path)`")


def _calls(example_inputs: Any) -> Iterable[tuple[Any, ...]]:
    if example_inputs is None:
        return []
    if isinstance(example_inputs, list) and all(isinstance(call, tuple) for call in example_inputs):
        return example_inputs
    return [example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)]


def _describe(saved: _Saved, programs: list[Program]) -> tuple[Any, list[str], list[Any]]:
    """The JSON, the graphs' texts and the arrays of the programs that can run still."""
    if not programs:
        raise RuntimeError(f"`{saved.name}` has not been called yet, so that nothing is compiled: call it, or save it "
                           "with `example_inputs=(...)`")
    function = saved.function
    names = list(inspect.signature(function.eager, follow_wrapped=False).parameters)
    bound = saved.root is not None
    root_parameter = "self"
    while root_parameter in names[bound:]:
        root_parameter = "_" + root_parameter
    snapshot = Snapshot(saved.root, names[0] if bound else None, saved.name, root_parameter)
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


def load(f: archive.File, map_location: MapLocation = None) -> Any:
    """Read what `save` wrote: a module that can be called, trained and saved again, without the Python source.

    Nothing in the file is executed: it holds numbers, names and graphs of known operations, all of which are checked.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors and programs go: a device, a dict from devices to devices, or a function of a
            tensor on the CPU and the name of the device that it was saved from; None: that device.

    Raises:
        LoadError: not such a file, damaged, or of a newer version.
        RuntimeError: a device that is not there.
        OSError: the file cannot be opened.
    """
    locations = Locations(map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, locations)
    return _load(f, locations)


def _load(file: IO[bytes], locations: Locations) -> Any:
    root = LoadedModule()
    with _undamaged():
        contents = archive.read(file)
        places = places_of(contents)
    tensors = {(number, where): locations.tensor(from_numpy(contents.arrays[number]), where)
               for number, where in sorted(places)}
    with _undamaged():
        signature, names, programs = read_programs(contents, root, tensors, locations.attribute)
    there = {where: locations.device(str(where)) for p in programs for where in labels(p)}
    programs = [moved(p, there) for p in programs]
    root.__dict__["_loaded_function"] = LoadedFunction(root._get_name(), signature, names[0], programs)
    return root


@contextmanager
def _undamaged() -> Iterator[None]:
    """What reading raises becomes LoadError."""
    try:
        yield
    except LoadError:
        raise
    except _DAMAGE as error:
        raise LoadError(f"not a saved jitgrad program, or damaged ({type(error).__name__}: {error})") from error


__all__ = ["load", "save"]
