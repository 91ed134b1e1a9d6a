"""A specialisation as bytes for the disk cache, and back: data only, nothing in it is executed but the native code.

Objects are stored by what they are, not by value: a function by module, qualified name and a hash of its code, an
object whose state is in its attributes by its class; what was read of them (cells, attributes, items) has paths and
guards of its own. A hit resolves every path again in this process and compares; so an entry whose source changed in any
inlined function is not used. What cannot be named this way (a tensor literal, a set) makes the specialisation "not
storable", and it is compiled in every process.
"""

import enum
import hashlib
import importlib
import inspect
import json
import marshal
import operator
import sys
import types
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from jitgrad.amp.autocast_mode import autocast
from jitgrad.device import FACTS
from jitgrad.dims import Symbol
from jitgrad.eager.autograd.grad_mode import Scope
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.sources import Unreadable, argument_guards, describe, resolve
from jitgrad.script.stored.decoder import Decoder
from jitgrad.script.stored.encoder import Encoder
from jitgrad.script.stored.values import Json, NotSavable, from_plain, integer, is_plain, string, to_plain
from jitgrad.serialization import LoadError

#: packages of the library whose objects are found by paths as a user's are
OPEN = ("jitgrad.nn.", "jitgrad.optim.", "abc", "typing")
#: whose classes have state elsewhere, or other rules
_OWN, _STANDARD = ("jitgrad.", "builtins."), sys.stdlib_module_names - {"__main__"}
_HOLDERS = ("types.SimpleNamespace", "argparse.Namespace")
#: to whom functions written in C belong that have a name
_NAMED = (types.ModuleType, type, type(None))
#: what a function is to the object that a name stands for
_MEMBERS = ("__wrapped__", "__func__", "fget", "fset", "fdel")

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
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, _NAMED):
        return ["builtin", value.__module__ or "", value.__qualname__]
    if isinstance(value, enum.Enum):
        return ["member", fingerprint(type(value)), value.name, to_plain(value.value)]
    if isinstance(value, enum.EnumMeta):
        members: dict[str, enum.Enum] = dict(value.__members__)
        return ["enum", *_lineage(value), [[name, to_plain(m.value)] for name, m in members.items()]]
    if isinstance(value, type):
        made_by = value.__new__, value.__init__  # type: ignore[misc]  # they say what fields there are
        return ["class", *_lineage(value), [
            [code_hash(f), _shown(f.__defaults__)] for f in made_by if isinstance(f, types.FunctionType)]]
    if is_plain(value):
        return to_plain(value)
    if isinstance(value, tuple):
        return ["tuple", [fingerprint(v) for v in value]]
    if isinstance(value, types.MethodType):
        return ["method", fingerprint(value.__func__), fingerprint(value.__self__)]
    wrapped = _eager(value)
    if wrapped is not None:
        return ["scripted", fingerprint(wrapped)]
    if isinstance(value, autocast):
        return ["autocast", type(value).__qualname__, *[repr(v) for v in value.__reduce__()[1][1:]]]
    if isinstance(value, Scope):
        return ["scope", type(value).__qualname__, *map(repr, value.modes)]
    if _is_its_attributes(value):
        return ["instance", *_lineage(type(value))]
    raise NotSavable(f"an object of type `{type(value).__name__}`")


def _lineage(cls: type) -> list[str]:
    """The names of a class and its bases."""
    return [f"{c.__module__}.{c.__qualname__}" for c in cls.__mro__]


def _eager(value: Any) -> Any:
    """The plain function of a scripted one; None of anything else."""
    found = inspect.getattr_static(value, "eager", None)
    return found if isinstance(found, types.FunctionType) else None


def _is_its_attributes(value: Any) -> bool:
    """Whether all that an object's methods can tell of it is in its attributes: its classes are written in Python."""
    if f"{type(value).__module__}.{type(value).__qualname__}" in _HOLDERS:
        return True
    classes = [c for c in type(value).__mro__ if c is not object and not c.__module__.startswith(OPEN)]
    return not any(
        f"{c.__module__}.".startswith(_OWN) or c.__module__.partition(".")[0] in _STANDARD
        or not isinstance(vars(c).get("__new__", staticmethod(fingerprint)), (types.FunctionType, staticmethod))
        or "__getattr__" in vars(c) or "__getattribute__" in vars(c) for c in classes)


def import_by_name(module: str, qualname: str, raw: bool = False) -> Any:
    """The object `qualname` of a module that this process has imported (or can); `raw`: as a class defines it. Raises
    NotSavable."""
    try:
        found: Any = importlib.import_module(module)
        *owners, last = qualname.split(".")
        for part in owners:
            found = getattr(found, part)
        return inspect.getattr_static(found, last) if raw else getattr(found, last)
    except (ImportError, AttributeError) as error:
        raise NotSavable(f"`{module}.{qualname}`: {error}") from error


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
            if guard.kind == "is":
                self._meet(guard.value, guard.source)

    def _meet(self, value: Any, source: sig.Source) -> None:
        """Name the functions that are found through an object, and those in its class where a function made that."""
        if isinstance(value, types.FunctionType):
            self._paths.setdefault(id(value), source)
        elif isinstance(value, type):
            self._meet_class(value, source)
        elif "<locals>" in type(value).__qualname__:
            self._meet_class(type(value), sig.Attr(source, "__class__"))
        elif (wrapped := _eager(value)) is not None:
            self._paths.setdefault(id(wrapped), sig.Attr(source, "eager"))

    def _meet_class(self, class_: type, source: sig.Source) -> None:
        for number, base in enumerate(class_.__mro__):
            if "<locals>" in base.__qualname__ and id(base) not in self._paths:
                path = sig.Item(sig.Attr(source, "__mro__"), number)
                self._paths[id(base)] = path
                for name in vars(base):
                    self._meet_member(getattr(base, name, None), sig.Attr(path, name))

    def _meet_member(self, attribute: Any, path: sig.Source) -> None:
        for found, source in ((attribute, path), *[(getattr(attribute, m, None), sig.Attr(path, m)) for m in _MEMBERS]):
            if isinstance(found, types.FunctionType):
                self._paths.setdefault(id(found), source)

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
        name = function.__module__, function.__qualname__
        for word, raw in (("import", False), ("raw", True)):
            with suppress(NotSavable):  # made by another function
                named = import_by_name(*name, raw)
                if named is function:
                    return [word, *name]
                for member in _MEMBERS:
                    if getattr(named, member, None) is function:
                        return [word, *name, member]
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
        if stored[0] in ("import", "raw"):
            found: Any = import_by_name(stored[1], stored[2], stored[0] == "raw")
            found = getattr(found, stored[3], None) if len(stored) > 3 else found
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

    def module(self, source: Json, name: str) -> types.ModuleType:
        """The module at a path. Raises Changed where another object is there."""
        found = self._found(self.source(source))
        if not isinstance(found, types.ModuleType) or found.__name__ != name:
            raise Changed(name)
        return found

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
    classes = [v if isinstance(v, type) else type(v) for v in known] + [g.value for g in guards if g.kind == "type"]
    objects = [id(v) for v in known] + [id(base) for cls in classes for base in cls.__mro__]
    first: dict[int, int] = {}
    return [first.setdefault(o, i) for i, o in enumerate(objects)]


def _stated(found: Any, read: Container[Any] = ()) -> Json:
    """What is kept of a definition. `read`: places of the defaults of which guards say what they are."""
    if found is sig.ABSENT or found is None:
        return None if found is None else "absent"
    if isinstance(found, (tuple, dict)):
        named = found.items() if isinstance(found, dict) else enumerate(found)
        return [[k, type(v).__qualname__ if k in read else _constant(v)] for k, v in named]
    return fingerprint(found) if isinstance(found, types.FunctionType) else "there"


def _shown(values: Sequence[Any] | None) -> Json:
    """What is said of defaults of which what a script reads has guards."""
    return values and [to_plain(v) if is_plain(v) else type(v).__qualname__ for v in values]


def _constant(value: Any) -> Json:
    """A default that the script takes as it is. Raises NotSavable where its name does not say all of it."""
    if is_plain(value):
        return to_plain(value)
    if isinstance(value, (tuple, list)):
        return [type(value).__qualname__, [_constant(v) for v in value]]
    if isinstance(value, dict):
        return [type(value).__qualname__, [[to_plain(k), _constant(v)] for k, v in value.items()]]
    if isinstance(value, enum.Enum):
        return fingerprint(value)
    if not hasattr(value, "__qualname__") or import_by_name(value.__module__, value.__qualname__) is not value:
        raise NotSavable(f"a default of type `{type(value).__name__}`")
    return fingerprint(value)


class _Defaults:
    """Which defaults of functions were read by path, so that guards say what they are."""

    def __init__(self, values: dict[str, Any], guards: Sequence[sig.Guard]):
        self._read: dict[tuple[int, str], set[Any]] = {}
        for guard in guards:
            match guard.source:
                case sig.Item(sig.Attr(owner, "__defaults__" | "__kwdefaults__" as name), key):
                    self._read.setdefault((id(resolve(owner, values)), name), set()).add(key)

    def stated(self, owner: Any, name: str, found: Any) -> Json:
        return _stated(found, self._read.get((id(owner), name), ()))


def dump(root: Any, script: sig.ScriptGraph, values: dict[str, Any]) -> bytes:
    """`script`, compiled for parameters `values`, without its graph. Raises NotSavable."""
    if script.asked:
        raise NotSavable(f"what Python makes of objects of type {', '.join(f'`{name}`' for name in script.asked)}")
    given = [g for name, value in values.items() for g in argument_guards(sig.Arg(name), value)]
    writer = Writer(root, [*given, *script.guards])
    defaults = _Defaults(values, script.guards)
    data = writer.script(script) | {
        "sharing": _sharing(values, script.guards),
        "functions": [[*writer.function(f), code_hash(f)] for f in script.functions],
        "modules": [[writer.source(s), m.__name__] for s, m in script.modules.items()],
        "lists": [[writer.source(s), list_kinds.to_plain(k)] for s, k in script.lists.items()],
        "definitions": [[*writer.function(owner), name, defaults.stated(owner, name, found)]
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
        script.modules = {reader.source(s): reader.module(s, name) for s, name in stored["modules"]}
        if _sharing(values, script.guards) != stored["sharing"]:
            return None
        defaults = _Defaults(values, script.guards)
        for *named, name, stated in stored["definitions"]:
            owner = reader.function(named)
            absent = stated == _stated(sig.ABSENT)
            found = owner.__globals__.get(name, sig.ABSENT) if absent else operator.attrgetter(name)(owner)
            if defaults.stated(owner, name, found) != stated:
                return None
            script.definitions[owner, name] = found
        script.lists = {reader.source(s): list_kinds.from_plain(k) for s, k in stored["lists"]}
    except (Changed, NotSavable, LoadError):
        return None
    return script
