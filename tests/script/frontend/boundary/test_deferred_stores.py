"""An exception leaves a script: what was changed before it is changed, what comes after it is not."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad import Tensor, config, nn


class Inner:
    """An object inside the module."""

    def __init__(self) -> None:
        self.t = jitgrad.zeros(2)


class World(nn.Module):
    """Everything that the programs below change."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(jitgrad.zeros(2))
        self.v = nn.Parameter(jitgrad.zeros(2))
        self.inner = Inner()
        self.table: dict[str, Any] = {}
        self.items: list[Any] = []
        self.log: list[Any] = []
        self.optimizer = jitgrad.optim.Adam([self.w, self.v], lr=0.1)

    def reset(self) -> None:
        """As at the beginning, and the same objects."""
        with jitgrad.no_grad():
            self.w.copy_(jitgrad.tensor([1.0, -2.0]))
            self.v.copy_(jitgrad.tensor([0.5, 3.0]))
        self.w.grad, self.v.grad = None, jitgrad.tensor([10.0, 20.0])
        self.h: Any = jitgrad.zeros(2)
        self.inner.t = jitgrad.zeros(2)
        self.n = 0
        self.table.clear()
        self.table.update({"a": jitgrad.zeros(2), "k": 1.5})
        self.items[:] = [jitgrad.zeros(2), jitgrad.ones(2)]
        self.log.clear()
        self.optimizer.state.clear()


def describe(value: Any, names: dict[int, int]) -> Any:
    """What can be seen of an object; tensors are numbered, so that one object in two places is seen."""
    if isinstance(value, Tensor):
        return ("tensor", names.setdefault(id(value), len(names)), value.tolist(), value.requires_grad, value.is_leaf,
                describe(value.grad, names) if value.is_leaf else None)
    if isinstance(value, dict):
        return [(describe(k, names), describe(v, names)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [describe(v, names) for v in value]
    return value


def state(world: World) -> Any:
    """All that is outside the scripts."""
    names: dict[int, int] = {}
    seen = [world.w, world.v, world.h, world.n, world.inner.t, world.table, world.items, world.log,
            dict(world.optimizer.state)]
    return [describe(v, names) for v in seen]


#: what a program changes, with `i` the number of the iteration or 0
CHANGES = {
    "attribute": "world.h = x * (i + 1)",
    "twice": "world.h = x * (i + 1)\nworld.h = world.h + x",
    "history": "world.h = x * world.w",
    "same": "world.h = x + i\nworld.inner.t = world.h",
    "argument": "world.h = x",
    "view": "world.h = x[0:1]",
    "none": "world.h = None",
    "nested": "world.inner.t = x - i",
    "exchange": "world.h, world.inner.t = world.inner.t, world.h",
    "item": "world.table['a'] = x * i",
    "new item": "world.table[f'b'] = x + 1",
    "number item": "world.table['k'] = world.table['k'] * 2",
    "removed": "world.table.pop('a', None)",
    "append": "world.log.append(x.sum() + i)",
    "append twice": "world.log.append(x * 2)\nworld.log.append(world.log[-1] + 1)",
    "list item": "world.items[1] = x - i",
    "list in place": "world.items[0] += x",
    "grad none": "world.v.grad = None",
    "backward": "(x * world.w).sum().backward()",
    "accumulated": "(x * world.v).sum().backward()",
    "grad twice": "(x * world.w).sum().backward()\n(x * world.w).sum().backward()",
    "zero grad": "world.optimizer.zero_grad()",
    "whole step": "(x * world.w * world.v).sum().backward()\nworld.optimizer.step()\nworld.optimizer.zero_grad()",
    "number": "world.n += 1",
    "in place": "world.items[0].add_(x)\nworld.h = world.items[0] * 2",
}

#: where it raises, or not: `k` decides
PLACES = {
    "straight": """
        i = 0
        CHANGE
        assert k != 0, f"at {k}"
        world.n += 10
    """,
    "before": """
        i = 0
        assert k != 0
        CHANGE
        assert k != 1, x.sum()
    """,
    "division": """
        i = 0
        CHANGE
        j = 10 // k
        world.n += j
    """,
    "branch": """
        i = 1
        if k > 0:
            CHANGE
            if k > 1:
                raise ValueError("two", k)
        assert k != 0
    """,
    "call": """
        i = 1
        CHANGE
        fail_if(world, x, k)
        world.inner.t = x * 7
    """,
    "finally": """
        i = 2
        try:
            CHANGE
            if k == 1:
                raise KeyError("in try")
        finally:
            world.inner.t = x * 3
        assert k != 2
    """,
    "caught": """
        i = 2
        try:
            CHANGE
            if k == 1:
                raise KeyError("in try")
        except KeyError:
            world.n += 5
        assert k == 0
    """,
    "index": """
        i = 0
        CHANGE
        y = x[k]
        world.n += 1
    """,
}

#: changes that a loop may make again and again
LOOPED = ("attribute", "twice", "same", "nested", "item", "append", "list item", "number", "in place", "backward",
          "accumulated", "zero grad", "whole step", "number item", "append twice")
LOOPS = {
    "loop": """
        for i in range(4):
            assert i != k, f"iteration {i}"
            CHANGE
    """,
    "loop after": """
        for i in range(4):
            CHANGE
            if i == k:
                raise ValueError(i)
        world.n += 100
    """,
    "while": """
        i = 0
        while i < 4:
            if x.sum() > 0:
                CHANGE
            i += 1
            j = 1 / (i - k)
    """,
    "behind": """
        for i in range(k):
            CHANGE
        assert k > 2
    """,
}


def fail_if(world: World, x: Tensor, k: int) -> None:
    """Changes more, and may raise."""
    world.h = x * 9
    if k == 2:
        raise RuntimeError("called")


def program(text: str, name: str) -> Callable[..., Any]:
    """`f(world, x, k)` with a body."""
    body = textwrap.indent(textwrap.dedent(text).strip("\n"), "    ")
    source = f"def f(world, x, k: int):\n{body}\n    return x\n"
    file = f"<leaving {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    scope: dict[str, Any] = {"fail_if": fail_if}
    exec(compile(ast.parse(source), file, "exec"), scope)
    f: Callable[..., Any] = scope["f"]
    return f


def filled(place: str, change: str) -> str:
    """A place with a change in it."""
    lines = []
    for line in textwrap.dedent(place).strip("\n").split("\n"):
        stripped = line.lstrip()
        lines += [line] if stripped != "CHANGE" else [line[:len(line) - len(stripped)] + c for c in change.split("\n")]
    return "\n".join(lines)


def outcome(f: Callable[..., Any], world: World, k: int) -> Any:
    """What a call leaves behind."""
    world.reset()
    x = jitgrad.tensor([2.0, -3.0]) if k != 3 else jitgrad.tensor([2.0, 3.0])
    try:
        f(world, x, k)
        raised = None
    except Exception as error:
        raised = type(error), error.args if type(error) is not AssertionError else describe(error.args, {})
    return raised, state(world)


#: refused (a dict with other keys on one side of a branch, arithmetic that may raise in a `try`, a gradient added to
#: what a branch may have put there)
REFUSED = {("branch", "new item"), ("branch", "removed"), ("finally", "whole step"), ("while", "whole step")}
#: one new object in two places: a branch or loop makes two of it
DOUBLED = {("branch", "same"), ("loop", "same"), ("while", "same"), ("behind", "same")}


def cases() -> Iterator[Any]:
    for place, text in PLACES.items():
        for change, code in CHANGES.items():
            if (place, change) not in REFUSED | DOUBLED:
                yield pytest.param(filled(text, code), id=f"{place}-{change}")
    for place, text in LOOPS.items():
        for change in LOOPED:
            if (place, change) not in REFUSED | DOUBLED:
                yield pytest.param(filled(text, CHANGES[change]), id=f"{place}-{change}")


@pytest.mark.parametrize("text", list(cases()))
def test_what_is_left_behind(text, request):
    f, world = program(text, request.node.callspec.id), World()
    for interpret in (True, False):
        with config.override(interpret=interpret, verify=2 if interpret else 0, cache=None):
            g = jitgrad.script(f)
            for k in (0, 1, 2, 3, 1, 0):
                assert outcome(g, world, k) == outcome(f, world, k), (k, interpret)


# --- what else runs programs -----------------------------------------------------------------------------------------


class Recorder(nn.Module):
    """Keeps what it made."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(jitgrad.tensor([1.0, -2.0]))
        self.h = jitgrad.zeros(2)
        self.last: Any = None

    def forward(self, x: Tensor, k: int) -> Tensor:
        self.h = x * 2
        self.last = x * self.w
        j = 10 // k
        self.h = self.h + 1
        if k > 5:
            raise ValueError(j)
        return self.last


def left_by(module: Any, k: int) -> Any:
    """What a call that raises leaves in a `Recorder`."""
    module.h = jitgrad.zeros(2)
    with pytest.raises((ZeroDivisionError, ValueError)):
        module(jitgrad.tensor([3.0, 4.0]), k)
    return module.h.tolist(), module.last.tolist(), module.last.requires_grad


@pytest.mark.parametrize("interpret", [True, False])
def test_history_ends_with_the_exception(interpret):
    module = Recorder()
    with config.override(interpret=interpret):
        fast = jitgrad.script(module)
        assert left_by(fast, 0) == left_by(module, 0) == ([6.0, 8.0], [3.0, -8.0], True)
    assert not fast.last.detach().requires_grad
    left_by(fast, 0)
    with pytest.raises(RuntimeError, match="its history ended with the exception"):
        fast.last.sum().backward()
    with jitgrad.no_grad(), config.override(interpret=interpret):
        assert left_by(fast, 0) == ([6.0, 8.0], [3.0, -8.0], False)


def test_a_program_from_the_disk_stores_too(tmp_path):
    with config.override(cache=str(tmp_path)):
        for hits in (0, 1):
            module = Recorder()
            fast = jitgrad.script(module)
            assert [left_by(fast, k) for k in (0, 6)] == [left_by(module, k) for k in (0, 6)]
            assert fast.cache_info().disk_hits == hits


def test_a_saved_program_stores_too(tmp_path):
    module = Recorder()
    fast = jitgrad.script(module)
    expected = [left_by(fast, k) for k in (0, 6)]
    fast(jitgrad.ones(2), 1)
    jitgrad.jit.save(fast, tmp_path / "recorder.jit")
    again = jitgrad.jit.load(tmp_path / "recorder.jit")
    assert [left_by(again, k) for k in (0, 6)] == expected
    again.w.requires_grad_(False)
    assert left_by(again, 0)[2] is False


def test_checked_calls_agree():
    module = Recorder()
    fast = jitgrad.script(module)
    with config.override(check=True):
        assert left_by(fast, 0) == left_by(Recorder(), 0)


def test_many_changes_are_said_piece_by_piece():
    """Items with a raise behind each: every one stores all that came before."""
    def run(f, k):
        table: dict[str, Any] = {}
        with pytest.raises(KeyError):
            f(table, jitgrad.ones(2), k)
        return {name: v.tolist() for name, v in table.items()}

    g = jitgrad.script(unrolled)
    for k in (0, 41, 59):
        assert run(g, k) == run(unrolled, k)


def unrolled(table, x, k: int):
    """Fills a dict."""
    for i, name in enumerate(NAMES):
        table[name] = x + i
        if i == k:
            raise KeyError(i)
    return x


NAMES = tuple(f"k{i}" for i in range(60))
