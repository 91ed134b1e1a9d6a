"""Our dataclasses are the standard library's: what one of these does, the other does too."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from dataclasses import field, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from jitgrad import classes


def made(dataclass: Any) -> list[type]:
    """The same classes by one decorator."""
    @dataclass(frozen=True, slots=True)
    class Point:
        x: float
        y: float = 1.0
        names: list[str] = field(default_factory=list, hash=False)
        note: Any = field(default=None, compare=False, repr=False)
        KINDS: ClassVar[tuple[str, ...]] = ("a", "b")

        @property
        def norm(self) -> float:
            return (self.x ** 2 + self.y ** 2) ** 0.5

    @dataclass(frozen=True, slots=True)
    class Deep(Point):
        z: float = 3.0

    @dataclass(slots=True)
    class Counted:
        items: list[int]
        count: int = field(init=False)
        limit: int = field(default=7, init=False)
        seen: set[int] = field(default_factory=set, init=False)

        def __post_init__(self) -> None:
            self.count = len(self.items)

    @dataclass(eq=False, repr=False)
    class Plain:
        name: str
        tags: dict[str, int] = field(default_factory=dict)
        size: int = 4

    @dataclass(slots=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    return [Point, Deep, Counted, Plain, Own]


OURS, THEIRS = made(classes.dataclass), made(dataclasses.dataclass)
CALLS: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (1.0,), {}), (0, (float("nan"), 2.0, ["n"]), {"note": 3}), (1, (1.0,), {"z": 2.0}),
    (1, (1.0, 2.0, [], None, 4), {}),
    (2, ([1, 2],), {}), (3, ("n",), {"size": 2}), (3, ("n", {"k": 1}), {}), (4, (3,), {})]


def outcome(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(("k", "args", "kwargs"), CALLS)
def test_instances(k: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    seen = []
    for cls in (OURS[k], THEIRS[k]):
        one, other = cls(*args, **kwargs), cls(*args, **kwargs)
        names = [f.name for f in dataclasses.fields(THEIRS[k])]
        same = copy.copy(one)
        seen.append([[getattr(one, n) for n in names], [getattr(same, n) for n in names], one == other, one != other,
                     one == same, one == 3, outcome(partial(hash, one)) == outcome(partial(hash, other)),
                     hasattr(one, "__dict__"),
                     k == 3 or repr(one), cls.__match_args__])
    assert repr(seen[0]) == repr(seen[1])
    assert [(f.name, f.init, f.default) for f in fields(OURS[k])] == [
        (f.name, f.init, f.default) for f in fields(THEIRS[k])]


def test_hashes_are_those_of_the_fields() -> None:
    assert hash(OURS[0](1.0, 2.0)) == hash(THEIRS[0](1.0, 2.0)) != hash(OURS[0](1.0, 3.0))
    assert OURS[0](1.0) != OURS[1](1.0)


@pytest.mark.parametrize(("k", "args"), [(0, ()), (0, (1, 2, 3, 4, 5)), (2, ([], 1)), (3, ())])
def test_wrong_arguments_are_type_errors(k: int, args: tuple[Any, ...]) -> None:
    ours, theirs = outcome(lambda: OURS[k](*args)), outcome(lambda: THEIRS[k](*args))
    assert ours == theirs
    assert ours[0] is TypeError


def test_a_field_without_a_default_after_one_that_has() -> None:
    for dataclass in (classes.dataclass, dataclasses.dataclass):
        with pytest.raises(TypeError, match="default"):
            @dataclass
            class Wrong:
                a: int = 1
                b: int


def test_replace() -> None:
    point = OURS[1](1.0, names=["n"])
    assert is_dataclass(point)
    assert replace(point, z=5.0) == OURS[1](1.0, names=["n"], z=5.0)
    with pytest.raises(TypeError, match="w"):
        replace(point, w=1)


@classes.dataclass(frozen=True, slots=True)
class Stored:
    """One that has a name to be found by."""

    a: int
    b: tuple[int, ...] = ()


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Stored(1, (2, 3)))) == Stored(1, (2, 3))


class Counted:
    """One that counts how often it is asked."""

    count = 0

    @classes.cached_property
    def value(self) -> int:
        """What is kept."""
        self.count += 1
        return self.count


def test_a_cached_property_is_made_once_for_each_instance() -> None:
    first, second = Counted(), Counted()
    assert (first.value, first.value, second.value, first.count) == (1, 1, 1, 1)
    assert Counted.value.__doc__ == "What is kept."
    del first.value
    assert first.value == 2


def test_a_cached_property_waits_for_no_other_instance() -> None:
    class Waiting:
        def __init__(self, other: Any = None):
            self.other = other

        @classes.cached_property
        def value(self) -> int:
            if self.other is None:
                return 1
            thread = threading.Thread(target=lambda: self.other.value, daemon=True)
            thread.start()
            thread.join(10)
            return 1 if thread.is_alive() else 2

    assert Waiting(Waiting()).value == 2
