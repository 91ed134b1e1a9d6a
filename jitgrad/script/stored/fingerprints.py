"""A specialisation as bytes for the disk cache, and back: data only, nothing in it is executed but the native code.

Objects are stored by what they are, not by value: a function by module, qualified name and a hash of its code, a module
instance by its class. A hit resolves every path again in this process and compares; so an entry whose source changed
in any inlined function is not used. What cannot be named this way (a tensor literal, an anonymous object) makes
the specialisation "not storable", and it is compiled in every process.
"""

import hashlib
import importlib
import json
import marshal
import operator
import types
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from jitgrad.amp.autocast_mode import autocast
from jitgrad.device import FACTS
from jitgrad.dims import Symbol
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.sources import Unreadable, argument_guards, describe, resolve
from jitgrad.script.stored.decoder import Decoder
from jitgrad.script.stored.encoder import Encoder
from jitgrad.script.stored.values import Json, NotSavable, from_plain, integer, is_plain, string, to_plain
from jitgrad.serialization import LoadError

# --- naming objects ------------------------------------------------------------------------------------------------


def code_hash(function: Any) -> str:
    """A hash of a function's code: instructions, constants, names, file and line numbers."""
    # in later versions of the format the bytes say which constants somebody else refers to, too
    return hashlib.sha256(marshal.dumps(function.__code__, 2)).hexdigest()[:24]


def fingerprint(value: Any) -> Json:
    """What `value` is, comparable across processes. Raises NotSavable."""
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, types.FunctionType):
        return ["function", value.__module__, value.__qualname__, code_hash(value)]
    if isinstance(value, (types.BuiltinFunctionType, types.BuiltinMethodType)):
        return ["builtin", value.__module__ or "", value.__qualname__]
    if isinstance(value, type):
        made_by = value.__new__, value.__init__  # type: ignore[misc]  # they say what fields there are
        return ["class", value.__module__, value.__qualname__, [
            [code_hash(f), _stated(f.__defaults__)] for f in made_by if isinstance(f, types.FunctionType)]]
    if is_plain(value):
        return to_plain(value)
    if isinstance(value, tuple):
        return ["tuple", [fingerprint(v) for v in value]]
    if isinstance(value, types.MethodType):
        return ["method", fingerprint(value.__func__), fingerprint(value.__self__)]
    wrapped = getattr(value, "eager", None)
    if isinstance(wrapped, types.FunctionType):  # another scripted function
        return ["scripted", fingerprint(wrapped)]
    if isinstance(value, autocast):
        return ["autocast", type(value).__qualname__, *[repr(v) for v in value.__reduce__()[1][1:]]]
    if _is_module_instance(value):
        return ["instance", type(value).__module__, type(value).__qualname__]
    raise NotSavable(f"an object of type `{type(value).__name__}`")


def _is_module_instance(value: Any) -> bool:
    from jitgrad.nn import Module  # programs without modules or optimizers do not load them

    if isinstance(value, Module):
        return True
    from jitgrad.optim import Optimizer

    return isinstance(value, Optimizer)


def import_by_name(module: str, qualname: str) -> Any:
    """The object `qualname` of a module that this process has imported (or can). Raises NotSavable."""
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise NotSavable(f"`{module}.{qualname}`: {error}") from error
    return found


# --- parts of a ScriptGraph ----------------------------------------------------------------------------------------


#: what paths are called; their fields follow
_WORDS: dict[type, str] = {
    sig.Arg: "arg", sig.Global: "global", sig.Cell: "cell", sig.Attr: "attr", sig.Item: "item", sig.At: "at",
    sig.RngState: "rng", sig.Machine: "machine", sig.Column: "column", sig.Length: "length", sig.Extent: "extent",
    sig.Parts: "parts",
    sig.Constant: "constant"}
_SOURCES: dict[str, Any] = {word: cls for cls, word in _WORDS.items()}
_FIELDS = {cls: [f.name for f in fields(cls)] for cls in _WORDS}


class Writer(Encoder):
    """Turns the parts of a ScriptGraph into JSON. `root` is the scripted function.

    A function that no module has (one made by another function) is named by the path on which `guards` found it, a
    method of a class that a function made by the path to an instance.
    """

    def __init__(self, root: Any, guards: Sequence[sig.Guard] = ()):
        super().__init__()
        self.root = root
        self.sources: list[Json] = []  # each path once; those that it begins with stand before it
        self._numbers: dict[str, int] = {}
        self._met: dict[int, tuple[sig.Source, int]] = {}
        self._paths: dict[int, sig.Source] = {}
        for guard in guards:
            if guard.kind == "is" and isinstance(guard.value, types.FunctionType):
                self._paths.setdefault(id(guard.value), guard.source)
            elif guard.kind == "is" and "<locals>" in type(guard.value).__qualname__:
                self._add_methods(type(guard.value), sig.Attr(guard.source, "__class__"))

    def _add_methods(self, class_: type, source: sig.Source) -> None:
        self._paths.setdefault(id(class_), source)
        for name in dir(class_):
            method = getattr(class_, name, None)
            if isinstance(method, types.FunctionType):
                self._paths.setdefault(id(method), sig.Attr(source, name))

    def source(self, source: sig.Source) -> Json:
        """The number of a path."""
        if id(source) not in self._met:
            if isinstance(source, sig.Item) and type(source.key) not in (int, str):
                raise NotSavable(f"a key of type `{type(source.key).__name__}`")
            row = [_WORDS[type(source)], *[self._part(name, getattr(source, name)) for name in _FIELDS[type(source)]]]
            number = self._numbers.setdefault(repr(row), len(self.sources))
            if number == len(self.sources):
                self.sources.append(row)
            self._met[id(source)] = source, number
        return self._met[id(source)][1]

    def _part(self, name: str, part: Any) -> Json:
        """A field of a path."""
        if isinstance(part, sig.Source):
            return self.source(part)
        if name == "function":
            return self.function(part)
        return to_plain(part) if name == "value" else list(part) if name == "path" else part

    def function(self, function: Any) -> Json:
        """A function whose globals or closure are read: the root, one to be imported, one that such a one wraps, or one
        found on a path."""
        if function is self.root:
            return ["root"]
        try:
            name = function.__module__, function.__qualname__
            named = import_by_name(*name)
            for word, found in (("import", named), ("wrapped", getattr(named, "__wrapped__", None))):
                if found is function:
                    return [word, *name]
        except NotSavable:
            pass  # made by another function
        path = self._paths.pop(id(function), None)
        if path is None:
            raise NotSavable(f"the function `{function.__qualname__}`")
        stored = ["path", self.source(path)]
        self._paths[id(function)] = path
        return stored

    def class_name(self, cls: Any) -> Json:
        if import_by_name(cls.__module__, cls.__qualname__) is not cls:
            raise NotSavable(f"the class `{cls.__qualname__}`")
        return [cls.__module__, cls.__qualname__]

    def guard(self, guard: sig.Guard) -> Json:
        value = guard.value
        if guard.kind in ("is", "type"):
            stored = fingerprint(value)
        elif guard.kind == "items":
            stored = list_kinds.to_plain(value)
        elif guard.kind in ("inherited", "keys"):
            stored = to_plain(value)
        else:
            stored = self.assumed(guard)
        return [self.source(guard.source), guard.kind, stored]


class Changed(Exception):
    """Something that an entry's compilation read is not what it was."""


class Reader(Decoder):
    """The inverse of `Writer` in a process where the root function is `root` and was called with `values`."""

    def __init__(self, root: Any, values: dict[str, Any], sources: Json, not_one: Sequence[bool]):
        super().__init__()
        self.root, self.values = root, values
        self.symbols = [Symbol(not_one=flag) for flag in not_one]
        self.sources: list[sig.Source] = []
        for word, *parts in sources:
            cls = _SOURCES[word]
            self.sources.append(cls(*[self._part(cls, *part) for part in zip(_FIELDS[cls], parts, strict=True)]))

    def source(self, stored: Json, target: bool = False) -> sig.Source:
        return self.sources[integer(stored, 0, len(self.sources))]

    def _part(self, cls: type, name: str, part: Json) -> Any:
        if name == "base" or cls is sig.At:
            return self.source(part)
        if name == "function":
            return self.function(part)
        return from_plain(part) if name == "value" else tuple(part) if name == "path" else part

    def function(self, stored: Json) -> Any:
        if stored[0] == "root":
            return self.root
        if stored[0] == "import":
            return import_by_name(stored[1], stored[2])
        if stored[0] == "wrapped":
            found: Any = getattr(import_by_name(stored[1], stored[2]), "__wrapped__", None)
        else:
            found = self._found(self.source(stored[1]))
        if not isinstance(found, (types.FunctionType, type)):
            raise Changed("another object is where a function was")
        return found

    def _found(self, source: sig.Source) -> Any:
        try:
            return resolve(source, self.values)
        except Unreadable as missing:
            raise Changed(str(missing)) from missing

    def class_of(self, stored: Json) -> Any:
        return import_by_name(*stored)

    def view(self, op: Json) -> str:
        return string(op)

    def guard(self, stored: Json) -> sig.Guard:
        """The guard for this process. Raises Changed where its object is not what it was."""
        path, kind, value = stored
        source = self.source(path)
        if isinstance(source, sig.Machine) and FACTS[source.fact]() != from_plain(value):
            raise Changed(source.fact)
        if kind in ("is", "type"):
            found = self._found(source)
            found = type(found) if kind == "type" else found
            if fingerprint(found) != value:
                raise Changed(describe(source))
            return sig.Guard(source, kind, found)
        if kind == "items":
            return sig.Guard(source, kind, list_kinds.from_plain(value))
        assumed = from_plain(value) if kind in ("inherited", "keys") else self.assumed(kind, value)
        return sig.Guard(source, kind, assumed)


# --- the whole -----------------------------------------------------------------------------------------------------


def _sharing(values: dict[str, Any], guards: Sequence[sig.Guard]) -> list[int]:
    """Which of the objects that are known by identity are the same: for each the number of the first that it is.

    A module found on two paths is compiled as one; another instance must have it in the same places. Likewise their
    classes: what the methods of a class read is checked once.
    """
    given = [g for name, value in values.items() for g in argument_guards(sig.Arg(name), value)]
    known = [g.value for g in (*given, *guards) if g.kind == "is"]
    objects = [id(v) for v in known] + [id(type(v)) for v in known]
    first: dict[int, int] = {}
    return [first.setdefault(o, i) for i, o in enumerate(objects)]


def _stated(found: Any) -> Json:
    """What is kept of a definition: defaults as far as they are plain; functions have hashes elsewhere."""
    if isinstance(found, (tuple, dict)):
        values = found.values() if isinstance(found, dict) else found
        return [to_plain(v) if is_plain(v) else type(v).__qualname__ for v in values]
    return "absent" if found is sig.ABSENT else "there" if found is not None else None


def dump(root: Any, script: sig.ScriptGraph, values: dict[str, Any]) -> bytes:
    """`script`, compiled for parameters `values`, without its graph. Raises NotSavable."""
    writer = Writer(root, script.guards)
    data = writer.script(script) | {
        "sharing": _sharing(values, script.guards),
        "functions": [[*writer.function(f), code_hash(f)] for f in script.functions],
        "lists": [[writer.source(s), list_kinds.to_plain(k)] for s, k in script.lists.items()],
        "definitions": [[*writer.function(owner), name, _stated(found)]
                        for (owner, name), found in script.definitions.items()],
    }
    data |= {"sources": writer.sources, "not_one": [s.not_one for s in writer.symbols]}
    return json.dumps(data).encode()


def load(root: Any, values: dict[str, Any], data: bytes) -> sig.ScriptGraph | None:
    """The inverse of `dump` for a call with parameters `values`; None where something that was read has changed.

    The ScriptGraph's graph is empty: the `GraphFunction` beside it has the real one.
    """
    stored = json.loads(data)
    try:
        reader = Reader(root, values, stored["sources"], stored["not_one"])
        for named in stored["functions"]:
            function = reader.function(named[:-1])
            if code_hash(getattr(function, "eager", function)) != named[-1]:
                return None
        script = reader.script(stored)
        if _sharing(values, script.guards) != stored["sharing"]:
            return None
        for *named, name, stated in stored["definitions"]:
            owner = reader.function(named)
            absent = stated == _stated(sig.ABSENT)
            found = owner.__globals__.get(name, sig.ABSENT) if absent else operator.attrgetter(name)(owner)
            if _stated(found) != stated:
                return None
            script.definitions[owner, name] = found
        script.lists = {reader.source(s): list_kinds.from_plain(k) for s, k in stored["lists"]}
    except (Changed, NotSavable, LoadError):
        return None
    return script
