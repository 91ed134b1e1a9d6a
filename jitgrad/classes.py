"""What `dataclasses.dataclass` makes, without compiling source for each class; a `cached_property` without a lock.

The compiler has 160 such classes, and every process that compiles makes them all: the standard decorator compiles up to
seven functions for each. Here the functions of all classes whose fields are of the same kinds have the same code, with
other names in it. That a record is frozen is mypy's to check: it sees the standard decorator. What it means when
running is that the record is hashed by its fields, as there; setting a field costs an assignment, not a call.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field as field, fields as fields, make_dataclass, replace as replace
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

#: what tells a field from other annotations, for `dataclasses.fields`
_KIND: Any = vars(make_dataclass("_Sample", ["x"]))["__dataclass_fields__"]["x"]._field_type
#: of a parameter that was not given and whose default is made for each instance
_ABSENT = object()


class HashedOnce:
    """A base of frozen records that are hashed again and again, such as paths, each of which has another one in it."""

    __slots__ = ("_hash",)


@functools.cache
def _code(source: str) -> CodeType:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    found: CodeType = namespace["f"].__code__
    return found


def _function(cls: type, name: str, source: str, names: Mapping[str, str], values: Mapping[str, Any],
              defaults: tuple[Any, ...] = ()) -> FunctionType:
    """The function `f` of a source, with other names in it, and values of its globals."""
    code = _code(source)
    code = code.replace(co_names=tuple([names.get(n, n) for n in code.co_names]), co_name=name,
                        co_varnames=tuple([names.get(n, n) for n in code.co_varnames]),
                        co_qualname=f"{cls.__qualname__}.{name}")
    made = FunctionType(code, dict(values), name, defaults or None)
    made.__module__ = cls.__module__
    return made


def _init(cls: type, fields: Mapping[str, Field[Any]]) -> FunctionType:
    """What assigns the parameters, and then runs `__post_init__`."""
    names, values, parameters, body, defaults = {}, {"_ABSENT": _ABSENT}, [], [], []
    for k, (name, f) in enumerate(fields.items()):
        names[f"a{k}"] = name
        value = f"a{k}"
        if f.default_factory is not MISSING:
            values[f"m{k}"] = f.default_factory
            value = f"m{k}() if a{k} is _ABSENT else a{k}" if f.init else f"m{k}()"
        elif not f.init and f.default is MISSING:
            continue
        elif not f.init:
            values[f"m{k}"] = f.default
            value = f"m{k}"
        if f.init:
            parameters.append(f"a{k}")
            default = f.default if f.default_factory is MISSING else _ABSENT
            if default is not MISSING:
                defaults.append(default)
            elif defaults:
                raise TypeError(f"the field '{name}' of {cls.__qualname__} has no default and comes after one that has")
        body.append(f" self.a{k} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    source = f"def f(self, {', '.join(parameters)}):\n" + "\n".join(body or [" pass"])
    return _function(cls, "__init__", source, names, values, tuple(defaults))


def _of_values(cls: type, name: str, compared: list[str]) -> FunctionType:
    """`__eq__` or `__hash__`, by the tuple of some fields."""
    of = {x: "(" + "".join([f"{x}.a{k}, " for k in range(len(compared))]) + ")" for x in ("self", "other")}
    source = (f"def f(self):\n return hash({of['self']})" if name == "__hash__" and not issubclass(cls, HashedOnce) else
              f"def f(self):\n try:\n  return self._hash\n except AttributeError:\n  self._hash = hash({of['self']})\n"
              "  return self._hash" if name == "__hash__" else
              f"def f(self, other):\n return {of['self']} == {of['other']} if other.__class__ is self.__class__ else "
              "NotImplemented")
    return _function(cls, name, source, {f"a{k}": f for k, f in enumerate(compared)}, {})


def _repr(fields: Mapping[str, Field[Any]]) -> Callable[[Any], str]:
    shown = [name for name, f in fields.items() if f.repr]

    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

    return __repr__


def _made(cls: type, frozen: bool, eq: bool, repr: bool, slots: bool) -> type:
    own: dict[str, Any] = {}
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" not in str(annotation):
            default = vars(cls).get(name, MISSING)
            f: Any = default if isinstance(default, Field) else field(default=default)
            f.name, f.type, f._field_type = name, annotation, _KIND
            own[name] = f
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= vars(base).get("__dataclass_fields__", {})
    every = inherited | own
    added: dict[str, Any] = {"__dataclass_fields__": every,
                             "__match_args__": tuple([n for n, f in every.items() if f.init])}
    added["__init__"] = _init(cls, every)
    if repr:
        added["__repr__"] = _repr(every)
    if eq:
        compared = [name for name, f in every.items() if f.compare]
        added["__eq__"] = _of_values(cls, "__eq__", compared)
        hashed = [name for name in compared if every[name].hash is not False]
        added["__hash__"] = _of_values(cls, "__hash__", hashed) if frozen else None
    defined = dict(vars(cls))
    if defined.get("__hash__", cls) is None:  # because it has an `__eq__` of its own
        del defined["__hash__"]
    if not slots:
        for name in [*own, *added]:
            if name in own and isinstance(defined.get(name), Field):
                if own[name].default is MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, own[name].default)
            elif name in added and name not in defined:
                setattr(cls, name, added[name])
        return cls
    for name in (*own, "__dict__", "__weakref__"):
        defined.pop(name, None)
    made = type(cls)(cls.__name__, cls.__bases__,
                     added | defined | {"__slots__": tuple([name for name in own if name not in inherited])})
    made.__qualname__ = cls.__qualname__
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_property
else:
    def dataclass(cls=None, *, frozen=False, eq=True, repr=True, slots=False):
        """The class with `__init__`, `__repr__`, `__eq__` and `__hash__` by its annotations; what it defines stays.
        """
        return functools.partial(_made, frozen=frozen, eq=eq, repr=repr, slots=slots) if cls is None else _made(
            cls, frozen, eq, repr, slots)

    class cached_property:
        """A method whose value each instance keeps. Python 3.11's has one lock for all instances, which a fork may
        leave locked, and for which threads that compile different programs wait.
        """

        def __init__(self, make):
            self.make, self.__doc__ = make, make.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.make(instance)
            return value
