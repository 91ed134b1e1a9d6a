"""Methods, functions and builtins that are assigned after a script was compiled: the next call finds the new ones."""

from __future__ import annotations

import types
from typing import Any

import pytest

import jitgrad as torch


def _five(x: Any) -> Any:
    return x * 5


class Scale:
    def __init__(self, k: float) -> None:
        self.k = k

    def go(self, x: Any) -> Any:
        return x * self.k

    @staticmethod
    def add(x: Any) -> Any:
        return x + 1

    @classmethod
    def named(cls, x: Any) -> Any:
        return x + len(cls.__name__)


class Smaller(Scale):
    pass


class Net(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1


def helper(x: Any, k: float = 1.0, *, j: float = 2.0) -> Any:
    return x * k + j


def _made() -> Any:
    class Local:
        def go(self, x: Any) -> Any:
            return x - 1

    return Local


def _agree(f: Any, *args: Any) -> str:
    """Compare with eager; why there was a compilation."""
    assert f(*args).tolist() == f.eager(*args).tolist()
    return str(f.recompilations[-1]) if f.recompilations else ""


@pytest.mark.parametrize(("method", "new", "name"), [
    ("go", lambda self, x: x * 50, "Scale.go"),
    ("add", staticmethod(_five), "Smaller.add"),
    ("named", classmethod(lambda cls, x: x - 3), "Smaller.named"),
])
def test_methods(method: str, new: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    o = Scale(2.0) if method == "go" else Smaller(2.0)
    x = torch.ones(2)

    @torch.script
    def f(x: Any) -> Any:
        return getattr(o, method)(x)

    _agree(f, x)
    monkeypatch.setattr(Scale, method, new)
    assert f"`{name}" in _agree(f, x)
    assert f.cache_info().compilations == 2


def test_a_subclass_gets_a_method_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    o, x = Smaller(2.0), torch.ones(2)
    f = torch.script(lambda x: o.go(x))
    _agree(f, x)
    monkeypatch.setattr(Smaller, "go", lambda self, x: x * 7, raising=False)
    _agree(f, x)


def test_the_forward_of_a_module_inside_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = torch.nn.Sequential(Net()), torch.ones(2)
    scripted = torch.script(net)
    assert scripted(x).tolist() == net(x).tolist()
    monkeypatch.setattr(Net, "forward", lambda self, x: x * 100)
    assert scripted(x).tolist() == net(x).tolist() == [100.0, 100.0]


def test_a_class_and_an_object_that_functions_make() -> None:
    cls, x = _made(), torch.ones(2)
    o = cls()
    outside, inside = torch.script(lambda x: o.go(x)), torch.script(lambda x: cls().go(x))
    _agree(outside, x)
    _agree(inside, x)
    cls.go = lambda self, x: x * 3
    _agree(outside, x)
    _agree(inside, x)


@pytest.mark.parametrize(("part", "new"), [
    ("__defaults__", (5.0,)), ("__kwdefaults__", {"j": 7.0}), ("__code__", (lambda x, k, *, j: x - k - j).__code__)])
def test_parts_of_functions(part: str, new: Any) -> None:
    own = types.FunctionType(helper.__code__, globals(), "own", helper.__defaults__)
    own.__kwdefaults__ = {"j": 2.0}
    x = torch.ones(2)
    f = torch.script(lambda x: own(x))
    _agree(f, x)
    setattr(own, part, new)
    assert f"own.{part}` was assigned" in _agree(f, x) or "helper" in str(f.recompilations)


def test_a_variable_that_hides_a_builtin() -> None:
    scope: dict[str, Any] = {"__name__": __name__}
    f = torch.script(types.FunctionType(_length.__code__, scope, "f"))
    x = torch.ones(3)
    _agree(f, x)
    scope["len"] = lambda v: 50
    assert "`len` was the builtin" in _agree(f, x)
    del scope["len"]
    _agree(f, x)


def _length(x: Any) -> Any:
    return x * len([1, 2])
