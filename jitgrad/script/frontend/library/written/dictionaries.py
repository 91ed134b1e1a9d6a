"""`collections.defaultdict`, `OrderedDict` and `Counter` made in a script: objects of classes in Python, which hold it.

So branches and loops merge them as any object. What leaves the script is `stands_for`, called with the `parts`.
"""

import collections
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args
from jitgrad.script.frontend.values.instances import instance


class _Held:
    """What is left to the dict."""

    held: dict[Any, Any]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.held[key]

    def __contains__(self, key: Any) -> bool:
        return key in self.held

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Any:
        return iter(self.held)

    def __eq__(self, other: Any) -> bool:
        return hasattr(other, "keys") and bool(self.held == dict(other))

    def keys(self) -> Any:
        return self.held.keys()

    def values(self) -> Any:
        return self.held.values()

    def items(self) -> Any:
        return self.held.items()

    def get(self, key: Any, default: Any = None) -> Any:
        return self.held.get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        return self.held.pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return self.held.setdefault(key, default)

    def clear(self) -> None:
        self.held.clear()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def update(self, *given: Any, **named: Any) -> None:
        self.held.update(*given, **named)


class DefaultDict(_Held):
    stands_for, parts = collections.defaultdict, ("default_factory", "held")

    def __init__(self, default_factory: Any = None, given: Any = (), **named: Any):
        self.default_factory, self.held = default_factory, {**dict(given), **named}

    def __getitem__(self, key: Any) -> Any:
        if key not in self.held:
            if self.default_factory is None:
                raise KeyError(key)
            self.held[key] = self.default_factory()
        return self.held[key]

    def __repr__(self) -> str:
        return f"defaultdict({self.default_factory!r}, {self.held!r})"


class Counter(_Held):
    stands_for, parts = collections.Counter, ("held",)

    def __init__(self, given: Any = (), **named: int):
        self.held: dict[Any, Any] = {}
        self.update(given, **named)

    def __getitem__(self, key: Any) -> Any:
        return self.held.get(key, 0)

    def __delitem__(self, key: Any) -> None:
        self.held.pop(key, None)

    def update(self, given: Any = (), **named: int) -> None:
        self._count(given, 1)
        self._count(named, 1)

    def subtract(self, given: Any = (), **named: int) -> None:
        self._count(given, -1)
        self._count(named, -1)

    def _count(self, given: Any, sign: int) -> None:
        if hasattr(given, "keys"):
            for key, n in given.items():
                self.held[key] = self.held.get(key, 0) + n * sign
        else:
            for key in given:
                self.held[key] = self.held.get(key, 0) + sign

    def total(self) -> Any:
        return sum(self.held.values())

    def most_common(self, n: Any = None) -> Any:
        return sorted(self.held.items(), key=lambda pair: pair[1], reverse=True)[:n]

    def elements(self) -> Any:
        return iter([key for key, n in self.held.items() for _ in range(n)])

    def copy(self) -> Any:
        return collections.Counter(self.held)

    def __repr__(self) -> str:
        return f"Counter({dict(self.most_common())!r})" if self.held else "Counter()"

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, collections.Counter):
            return _everywhere(self, other, lambda m, n: m == n)
        return super().__eq__(other)

    def __le__(self, other: Any) -> Any:
        if not isinstance(other, collections.Counter):
            return NotImplemented
        return _everywhere(self, other, lambda m, n: m <= n)

    def __lt__(self, other: Any) -> Any:
        return self <= other and self != other if isinstance(other, collections.Counter) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return other <= self if isinstance(other, collections.Counter) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return other < self if isinstance(other, collections.Counter) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return _positive(self, other, lambda m, n: m + n)

    def __sub__(self, other: Any) -> Any:
        return _positive(self, other, lambda m, n: m - n)

    def __or__(self, other: Any) -> Any:
        return _positive(self, other, max)

    def __and__(self, other: Any) -> Any:
        return _positive(self, other, min)

    def __pos__(self) -> Any:
        return self + collections.Counter()

    def __neg__(self) -> Any:
        return _positive(collections.Counter(), self, lambda m, n: m - n)

    def __iadd__(self, other: Any) -> Any:
        self.update(other)
        return self._kept()

    def __isub__(self, other: Any) -> Any:
        self.subtract(other)
        return self._kept()

    def __ior__(self, other: Any) -> Any:
        for key, n in other.items():
            self.held[key] = max(n, self[key])
        return self._kept()

    def __iand__(self, other: Any) -> Any:
        for key in list(self.held):
            self.held[key] = min(self[key], other[key])
        return self._kept()

    def _kept(self) -> Any:
        """Without what is not counted any more."""
        for key, n in list(self.held.items()):
            if not n > 0:
                del self.held[key]
        return self


def _everywhere(a: Any, b: Any, test: Any) -> bool:
    """Whether a test of two counts holds for all that either counts."""
    return all(test(a[key], b[key]) for key in [*a, *b])


def _positive(a: Any, b: Any, function: Any) -> Any:
    """A counter of what a function of two counts makes, where that is positive."""
    if not isinstance(b, collections.Counter):
        return NotImplemented
    found: Any = collections.Counter()
    for key in [*a, *[key for key in b if key not in a]]:
        n = function(a[key], b[key])
        if n > 0:
            found[key] = n
    return found


class OrderedDict(_Held):
    stands_for, parts = collections.OrderedDict, ("held",)

    def __init__(self, given: Any = (), **named: Any):
        self.held = {**dict(given), **named}

    def __getitem__(self, key: Any) -> Any:
        return self.held[key]

    def __reversed__(self) -> Any:
        return reversed(self.held)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, collections.OrderedDict):
            return list(self.held.items()) == list(other.items())
        return hasattr(other, "keys") and bool(self.held == dict(other))

    def copy(self) -> Any:
        return collections.OrderedDict(self.held)

    def move_to_end(self, key: Any, last: Any = True) -> None:
        value = self.held.pop(key)
        if last:
            self.held[key] = value
        else:
            self.held = {key: value, **self.held}

    def popitem(self, last: Any = True) -> Any:
        if len(self.held) == 0:
            raise KeyError("dictionary is empty")
        keys = list(self.held)
        key = keys[-1] if last else keys[0]
        return key, self.held.pop(key)


def _maker(stand_in: Any) -> Callable[[Context, type, Args, dict[str, Any]], Any]:
    def make(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
        if cls is not stand_in.stands_for:
            raise UnsupportedCall(f"making a `{cls.__name__}` inside a script", context.span(),
                                  hint="make the object outside and pass it, or keep it in a closure")
        return instance(context, stand_in, args, kwargs)
    return make


CONSTRUCTORS.update({c.stands_for: _maker(c) for c in (DefaultDict, OrderedDict, Counter)})
