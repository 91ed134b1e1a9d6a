"""Attributes that are not there: of None an exception of the run, with what was done before it; else a refusal, unless
a `try` handles it."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
NS = tuple((t(2), n) for n in (0, 1, 2, 4))


class Box:
    """Something with attributes."""


@program((t(2), []), (t(0), []))
def changes_before_it_are_kept(x, out):
    y = x * 2
    out.append(y)
    print("before")
    x.grad.add_(1)
    return y


@program((t(2),), (t(0),), (t(3),), grad=False)
def written_memory_is_kept(x):
    x.mul_(2)
    x.grad.zero_()
    return x


@program(*NS)
def gradient_of_some_runs(x, n):
    w = (x * 1).detach().requires_grad_()
    if n > 1:
        (w * x.detach()).sum().backward()
    w.grad.add_(n)
    return w.grad * x


@program(*NS)
def handled(x, n):
    w = (x * 1).detach().requires_grad_()
    if n > 1:
        (w * x.detach()).sum().backward()
    y = x + 1
    try:
        y = y * 2
        w.grad.add_(1)
        y = y * w.grad
    except AttributeError as error:
        print(error)
    return y


@program(*NS)
def handled_in_a_loop(x, n):
    kept = []
    for k in range(n):
        kept.append(x)
        try:
            g = x.sum() if k > 1 else None
            x = x + g.exp()
        except AttributeError as error:
            x = x - 1
            print(k, error)
    return x, kept


@program(*NS)
def arguments_are_not_evaluated(x, n):
    g = x if n > 1 else None
    g.add(print("not for None") or 1)
    return x


@program(*NS)
def assigned_to(x, n):
    box = None if n > 1 else Box()
    x = x * 2
    box.value = x
    print("assigned")
    return box.value + n


@program((t(2), 1))
def what_handlers_read(x, n):
    box, nothing = Box(), None
    def function():
        pass

    for find in (lambda: x.foo, lambda: (x,).foo, lambda: (1).foo, lambda: torch.foo, lambda: Box.foo,
                 lambda: box.foo, lambda: function.foo, lambda: nothing.foo):
        try:
            find()
        except AttributeError as error:
            print(error)
    try:
        nothing.x = 1
    except AttributeError as error:
        print(error)
    try:
        del nothing.x
    except AttributeError as error:
        print(error)
    return x * n


test_programs = suite(PROGRAMS)


@pytest.mark.parametrize("interpret", [False, True])
def test_type_and_text_are_pythons(interpret: bool) -> None:
    def step(w: Any, out: list[Any]) -> None:
        out.append(w * 2)
        w.grad.add_(1)

    scripted = torch.script(step)
    with config.override(interpret=interpret):
        w = torch.ones(2, requires_grad=True)
        for _ in range(2):
            out: list[Any] = []
            with pytest.raises(AttributeError) as found:
                scripted(w, out)
            assert type(found.value) is AttributeError
            assert str(found.value) == "'NoneType' object has no attribute 'add_'"
            assert len(out) == 1
        w.grad = torch.ones(2)
        scripted(w, [])
        assert w.grad.tolist() == [2.0, 2.0]
        assert scripted.cache_info().compilations == 2


def test_loaded(tmp_path: Any) -> None:
    def step(x: Any, n: int) -> Any:
        g = x if n > 1 else None
        x.mul_(2)
        return g.add(1)

    scripted = torch.script(step)
    scripted(torch.ones(2), 2)
    torch.jit.save(scripted, tmp_path / "step.jg")
    loaded = torch.jit.load(tmp_path / "step.jg")
    x = torch.ones(2)
    with pytest.raises(AttributeError, match=r"^'NoneType' object has no attribute 'add'$"):
        loaded(x, 1)
    assert x.tolist() == [2.0, 2.0]
