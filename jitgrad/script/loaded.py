"""`jitgrad.jit.load`: a module whose call runs saved programs.

A call takes the first specialisation that fits, as any scripted function does; a saved program becomes one when the
first call that it takes comes. There is no Python source to fall back on: a call that no program takes is an error,
which says why for each.
"""

import inspect
import io
import os
from collections.abc import Callable
from typing import IO, Any

from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations, MapLocation
from jitgrad.errors import JitgradError
from jitgrad.script.call.sources import describe
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.graph.checker import InvalidGraph
from jitgrad.script.graph.ir import Graph
from jitgrad.script.graph.parse import ParseError
from jitgrad.script.inspect.face import ScriptFunction
from jitgrad.script.inspect.pycode import to_python
from jitgrad.script.stored.file import archive
from jitgrad.script.stored.file.choice import adapted, distance, refusal
from jitgrad.script.stored.file.objects import LoadedModule
from jitgrad.script.stored.file.placed import following, labels, moved
from jitgrad.script.stored.file.read import read_programs
from jitgrad.script.stored.file.tree import places_of
from jitgrad.script.stored.records import Program
from jitgrad.serialization import undamaged

#: what reading a damaged program may raise besides what zipfile, json and NumPy do
_DAMAGE = (ParseError, InvalidGraph, SyntaxError, AssertionError, MemoryError)


class NoProgram(JitgradError, TypeError):
    """A call of a loaded function that none of its saved programs takes."""


class LoadedFunction(ScriptFunction):
    """The compiled call of a loaded module; its first parameter is that module."""

    def __init__(self, name: str, signature: inspect.Signature, root_parameter: str, programs: list[Program]):
        super().__init__(_stub(name, signature, root_parameter))
        self._programs = programs
        self.call_signature = signature

    @property
    def programs(self) -> list[Program]:
        """What the file had."""
        return self._programs

    @staticmethod
    def from_bytes(data: bytes) -> Any:
        """A loaded module from the bytes of its file: how it is unpickled and copied."""
        return load(io.BytesIO(data))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        params = self._bind(*args, **kwargs)
        for specialisation in self.specialisations:
            entered = specialisation.enter(params)
            if entered is not None:
                self._hits += 1
                return specialisation.run(params, entered)
        specialisation, entered = self._first(params)
        return specialisation.run(params, entered)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        """The specialisation of the first program that takes the call. Raises NoProgram."""
        values = self.values_of(params)
        self._misses += 1
        reasons = []
        for saved in sorted(self._programs, key=lambda p: distance(p, values)):
            program = following(saved, values)
            reason = refusal(program, values)
            if not reason:
                break
            reasons.append(reason)
        else:
            listed = "\n".join(f"  {r}" for r in dict.fromkeys(reasons))
            raise NoProgram(f"`{self.__name__}` was saved without a program for this call; the saved programs say:\n"
                            f"{listed}\nhint: save it again after a call of this kind, or with `example_inputs`")
        specialisation = Specialisation(adapted(program, values), self.parameters, values, self.__name__)
        specialisation.function.finish()
        self.specialisations.insert(0, specialisation)
        self._compilations += 1
        return specialisation

    @property
    def graph(self) -> Graph:
        return self.specialisations[0].function.graph if self.specialisations else self._programs[0].script.graph

    @property
    def code(self) -> str:
        script = self.specialisations[0].script if self.specialisations else self._programs[0].script
        return to_python(self.graph, [describe(s) for s in script.inputs])


def _stub(name: str, signature: inspect.Signature, root_parameter: str) -> Callable[..., Any]:
    """A function with the signature of the saved one; its code is in the programs."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"`{name}` was loaded from a file, without its Python code")

    first = inspect.Parameter(root_parameter, inspect.Parameter.POSITIONAL_ONLY)
    parameters = list(signature.parameters.values())
    whole = inspect.Signature([first, *parameters])
    made: Any = stub
    made.__name__ = made.__qualname__ = name
    made.__signature__ = whole
    made.__defaults__ = tuple(p.default for p in parameters
                              if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY) or None
    made.__kwdefaults__ = {p.name: p.default for p in parameters
                           if p.default is not p.empty and p.kind is p.KEYWORD_ONLY} or None
    return stub


# --- the file ---


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
    with undamaged("saved jitgrad program", *_DAMAGE):
        contents = archive.read(file)
        places = places_of(contents)
    tensors = {(number, where): locations.tensor(from_numpy(contents.arrays[number]), where)
               for number, where in sorted(places)}
    with undamaged("saved jitgrad program", *_DAMAGE):
        signature, names, programs = read_programs(contents, root, tensors, locations.attribute)
    there = {where: locations.device(str(where)) for p in programs for where in labels(p)}
    programs = [moved(p, there) for p in programs]
    root.__dict__["_loaded_function"] = LoadedFunction(root._get_name(), signature, names[0], programs)
    return root
