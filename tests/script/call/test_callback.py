"""Ignored functions: called back from compiled code as eager would call them, with values, gradients and effects."""

from __future__ import annotations

import contextlib
import io
import traceback
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor, config, nn
from jitgrad.errors import ScriptError

SEEN: list[Any] = []


def leaf(*values):
    return jitgrad.tensor(list(values), requires_grad=True)


def outcome(run):
    """Result or exception, what was printed, what was seen."""
    SEEN.clear()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = run()
        except Exception as error:  # compared, whatever it is
            result = type(error), str(error)
    return repr(result), out.getvalue(), repr(SEEN)


def everywhere(function, make):
    """Eager, interpreted and native give the same; that outcome. `make()`: fresh arguments."""
    expected = outcome(lambda: function(*make()))
    for interpret in (True, False):
        with config.override(interpret=interpret, verify=2):
            scripted = jitgrad.script(function)
            assert outcome(lambda s=scripted: s(*make())) == expected, interpret
            assert outcome(lambda s=scripted: s(*make())) == expected, interpret
            assert scripted.cache_info().compilations == 1
    return expected


@jitgrad.ignore
def note(*args, **kwargs) -> None:
    SEEN.append((args, kwargs))
    print("noted", len(args))


@jitgrad.ignore
def cube(x: Tensor) -> Tensor:
    return x ** 3


@jitgrad.ignore
def count(x) -> int:
    return int((x > 0).sum())


# --- arguments and order ---------------------------------------------------------------------------------------------


def test_order_with_prints_branches_and_loops():
    def f(x, n: int):
        for i in range(n):
            x = x * 2
            print("before", i)
            if bool(x.sum() > 10):
                note(i, x, None, text=f"sum {x.sum().item():.1f}", where="then")
            else:
                note(-i, tag=(x[0], [i, 2.5]))
        while bool(x.max() > 3):
            x = x / 3
            note(x.max().item())
        return x

    text = everywhere(f, lambda: (jitgrad.tensor([1.0, 2.0]), 4))[1]
    assert text.count("noted") >= 5


class Pair(NamedTuple):
    a: Any
    b: Any


def test_every_kind_of_argument():
    def f(x, i: int, flag: bool, table, names):
        note(x, i, 0.5, flag, "text", None, [x * 2, [i]], {"a": (x, 1)}, Pair(x + 1, i), jitgrad.float32, names)
        y = x + 1 if flag else None
        note(y)
        note(table["k"], table)
        return x

    def arguments():
        return jitgrad.tensor([1.0]), 3, True, {"k": jitgrad.tensor([2.0])}, ["a", "b"]

    everywhere(f, arguments)
    everywhere(f, lambda: (jitgrad.ones(2, 2), -3, False, {"k": 1.5}, []))


def test_unchanged_arguments_are_the_very_objects():
    def f(x, w):
        note(x, w, x[0])
        return x * w

    x, w = jitgrad.tensor([1.0, 2.0]), leaf(3.0, 4.0)
    SEEN.clear()
    jitgrad.script(f)(x, w)
    (a, b, c), _ = SEEN[0]
    assert a is x
    assert b is w
    assert np.shares_memory(c._data, x._data)


def test_memory_and_attributes_are_current():
    class Counter:
        steps = 0
        rate = 0.5
        last = None

    def f(x, counter):
        counter.steps += 1
        counter.rate *= 2.0
        counter.last = "set"
        x.add_(1)
        show(x, counter)
        x.add_(1)
        counter.steps += 1
        return counter.steps

    @jitgrad.ignore
    def show(x, counter) -> None:
        SEEN.append((x.tolist(), counter.steps, counter.rate, counter.last))

    counter = Counter()

    def arguments():
        counter.steps, counter.rate, counter.last = 0, 0.5, None
        return jitgrad.zeros(2), counter

    everywhere(f, arguments)


def test_numpy_in_the_middle():
    @jitgrad.ignore(returns=lambda x: x)
    def sine(x):
        return jitgrad.from_numpy(np.sin(x.detach().numpy()))

    def f(x, n: int):
        for _ in range(n):
            x = sine(x) + 1
        return x.sum()

    everywhere(f, lambda: (jitgrad.ones(3), 3))
    everywhere(f, lambda: (jitgrad.ones(1, 4, dtype=jitgrad.float64), 0))


# --- results ---------------------------------------------------------------------------------------------------------


def test_numbers_steer_the_script():
    def f(x):
        n = 0
        while count(x) > 0:
            x = x - 1
            n += count(x)
        return x, n

    everywhere(f, lambda: (jitgrad.tensor([1.0, 2.5, -1.0]),))


def test_sizes_that_only_the_call_knows():
    @jitgrad.ignore
    def positive(x: Tensor) -> Tensor:
        return x[x > 0]

    def f(x):
        total = x.sum() * 0
        for i in range(x.shape[0]):
            p = positive(x - i)
            total = total + (p * p).sum() + p.shape[0]
        return positive(x) * 2, total

    everywhere(f, lambda: (jitgrad.tensor([1.0, -2.0, 3.0]),))
    everywhere(f, lambda: (jitgrad.tensor([-1.0, -2.0]),))
    everywhere(f, lambda: (jitgrad.tensor([-1.0, 0.5]),))


def test_tuples():
    @jitgrad.ignore
    def stats(x) -> tuple[float, int, bool]:
        return float(x.sum()), x.shape[0], bool(x[0] > 0)

    @jitgrad.ignore(returns=lambda x, k: Pair(jitgrad.zeros(k, x.shape[0]), x.long()))
    def table(x, k: int):
        return Pair(jitgrad.arange(k * 2.0).reshape(k, 2), x.long())

    def f(x, k: int):
        a, b, c = stats(x)
        t = table(x, k)
        return t.a * a + b, t.b, c

    everywhere(f, lambda: (jitgrad.tensor([1.5, 2.0]), 3))


@pytest.mark.parametrize(("annotation", "value", "words"), [
    (int, 2.5, "returned float, but its annotation (or `returns=`) says an int"),
    (None, 1, "returned int, but its annotation (or `returns=`) says None"),
    (Tensor, 1.0, "returned float"),
    (Tensor, jitgrad.ones(2, 2), "returned a torch.float32 tensor of shape (2, 2)"),
    (Tensor, jitgrad.ones(2, dtype=jitgrad.int64), "a torch.int64 tensor"),
    (tuple[int, int], (1,), "a tuple of 2"),
])
def test_something_else_than_declared(annotation, value, words):
    @jitgrad.ignore(returns=annotation)
    def wrong(x):
        return value

    for interpret in (True, False):
        with config.override(interpret=interpret), pytest.raises(TypeError) as caught:
            jitgrad.script(lambda x: wrong(x))(jitgrad.ones(2))
        assert words in str(caught.value).replace("jitgrad.", "torch."), str(caught.value)


def test_another_shape_than_declared():
    @jitgrad.ignore(returns=lambda x: jitgrad.zeros(x.shape[0], 2))
    def wrong(x):
        return jitgrad.zeros(x.shape[0], 3)

    with pytest.raises(TypeError, match=r"says a .*float32 tensor of shape \(4, 2\)"):
        jitgrad.script(lambda x: wrong(x))(jitgrad.ones(4))


# --- gradients -------------------------------------------------------------------------------------------------------


def gradients(function, make):
    """Gradients of the sum of the result, eager, interpreted and native."""
    found = []
    for variant in (None, True, False):
        args = make()
        with config.override(interpret=bool(variant), verify=2):
            result = (function if variant is None else jitgrad.script(function))(*args)
        result.sum().backward()
        found.append([a.grad for a in args if isinstance(a, Tensor)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert (a is None) == (b is None)
            assert a is None or jitgrad.allclose(a, b, rtol=1e-6)
    return found[0]


def test_gradient_through_a_call():
    def f(x, w):
        return cube(x * w) + cube(w)

    gradients(f, lambda: (leaf(1.0, 2.0), leaf(3.0, -1.0)))


def test_gradient_in_loops_and_branches():
    def f(x, w, n: int):
        for i in range(n):
            x = cube(x) * w if i % 2 == 0 else x + cube(w)
            if bool(x.sum() > 100):
                break
        return x

    for n in (0, 1, 4):
        gradients(f, lambda n=n: (leaf(0.5, 1.2), leaf(0.7, 1.1), n))


def test_hooks_on_tensors_inside():
    @jitgrad.ignore
    def tripled(x: Tensor) -> Tensor:
        y = x * 1
        y.register_hook(lambda g: g * 3)
        return y

    assert gradients(lambda x: tripled(x * 2), lambda: (leaf(1.0, 2.0),))[0].tolist() == [6.0, 6.0]


def test_what_is_not_reached_stays_none():
    @jitgrad.ignore
    def first(x: Tensor, y: Tensor) -> Tensor:
        return x * 2

    @jitgrad.ignore
    def cut(x: Tensor) -> Tensor:
        return x.detach() * 2

    assert gradients(lambda x, y: first(x, y), lambda: (leaf(1.0), leaf(2.0)))[1] is None
    assert gradients(lambda x, y: cut(x) * y, lambda: (leaf(1.0), leaf(2.0)))[0] is None


def test_several_results_and_data_dependent_sizes():
    @jitgrad.ignore(returns=lambda x: (x, x.sum(), 0))
    def parts(x):
        return x.sin(), (x * x).sum(), 3

    @jitgrad.ignore
    def positive(x: Tensor) -> Tensor:
        return x[x > 0]

    def f(x, y):
        a, b, n = parts(x)
        total = b * n
        for _ in range(2):
            total = total + (positive(y * b) * 2).sum()
        return a * total

    gradients(f, lambda: (leaf(1.0, 2.0), leaf(-1.0, 3.0)))
    gradients(lambda x: parts(x)[1], lambda: (leaf(1.0, 2.0),))


def test_calls_outstanding_and_backward_twice():
    f = jitgrad.script(lambda x: cube(x).sum())
    x, y = leaf(1.0, 2.0), leaf(3.0)
    a, b = f(x), f(y)
    b.backward()
    a.backward(retain_graph=True)
    a.backward()
    assert x.grad.tolist() == [6.0, 24.0]
    assert y.grad.tolist() == [27.0]
    with pytest.raises(RuntimeError, match="second time"):
        a.backward()


def test_no_grad_inside_and_outside():
    @jitgrad.ignore
    def mode(x: Tensor) -> Tensor:
        SEEN.append(jitgrad.is_grad_enabled())
        return x * 2

    def f(x):
        with jitgrad.no_grad():
            y = mode(x)
        return mode(x) + y

    gradients(f, lambda: (leaf(1.0),))
    SEEN.clear()
    jitgrad.script(f)(leaf(1.0))
    assert SEEN == [False, True]
    with jitgrad.no_grad():
        assert not jitgrad.script(f)(leaf(1.0)).requires_grad


def test_a_result_that_depends_on_another_leaf_is_refused():
    w = leaf(2.0)

    @jitgrad.ignore
    def hidden(x: Tensor) -> Tensor:
        return x * w

    with pytest.raises(RuntimeError, match="depends on a tensor that requires a gradient and is no argument"):
        jitgrad.script(lambda x: hidden(x))(leaf(1.0))


def test_second_order_is_refused():
    x = leaf(2.0)
    y = jitgrad.script(lambda x: cube(x).sum())(x)
    with pytest.raises(ScriptError, match="gradient of a gradient"):
        jitgrad.autograd.grad(y, x, create_graph=True)


# --- effects ---------------------------------------------------------------------------------------------------------


@jitgrad.ignore
def refuse(i: int) -> None:
    if i == 2:
        raise KeyError("two")


def test_exceptions_go_through_and_effects_before_stay():
    def f(x, n: int):
        for i in range(n):
            x.add_(1)
            print("turn", i)
            refuse(i)
        x.add_(100)
        return x

    everywhere(f, lambda: (jitgrad.zeros(2), 4))
    x = jitgrad.zeros(2)
    with pytest.raises(KeyError) as caught, contextlib.redirect_stdout(io.StringIO()):
        jitgrad.script(f)(x, 4)
    assert x.tolist() == [3.0, 3.0]
    text = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError("two")' in text
    assert "refuse(i)" in text


def test_random_numbers_keep_their_order():
    @jitgrad.ignore
    def draw() -> float:
        return jitgrad.rand(3).sum().item()

    def f(x, n: int):
        before = jitgrad.rand(2)
        total = 0.0
        for i in range(n):
            total = total + draw()
            if i % 2:
                x = x + jitgrad.rand(2)
        return before, x, total, jitgrad.rand(1)

    def late(x, n: int):
        total = draw()
        return jitgrad.rand(2) + total

    for function in (f, late):
        found = []
        for variant in (None, True, False):
            jitgrad.manual_seed(3)
            with config.override(interpret=bool(variant)):
                result = (function if variant is None else jitgrad.script(function))(jitgrad.zeros(2), 3)
            found.append((repr(result), jitgrad.rand(1).item()))
        assert found[0] == found[1] == found[2]


def test_what_the_script_has_read_must_stay():
    class Settings:
        scale = 2.0

    settings, w = Settings(), jitgrad.ones(2)

    @jitgrad.ignore
    def change(what: str) -> None:
        if what == "float":
            settings.scale += 1
        elif what == "tensor":
            w.add_(1)
        elif what == "object":
            settings.name = "x"

    def f(x, what: str):
        y = x * settings.scale * w
        change(what)
        return y * settings.scale

    scripted = jitgrad.script(f)
    for what, words in (("float", "changed `settings.scale`"), ("tensor", "changed `w`")):
        with pytest.raises(RuntimeError, match=words):
            scripted(jitgrad.ones(2), what)
    assert scripted(jitgrad.ones(2), "object").tolist() == [18.0] * 2
    assert scripted(jitgrad.ones(2), "none").tolist() == [18.0] * 2


def test_methods_and_scripts_inside():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.seen = []

        @jitgrad.ignore
        def log(self, x) -> None:
            self.seen.append(x.sum().item())
            assert inner(x).sum() is not None

        @jitgrad.jit.unused
        def debug(self, x):
            raise AssertionError

        def forward(self, x, debug: bool):
            if debug:
                self.debug(x)
            h = self.fc(x)
            self.log(h)
            return h.tanh()

    @jitgrad.script
    def inner(x):
        note(x)
        return x * 2

    net = Net()
    fast = jitgrad.script(net)
    with contextlib.redirect_stdout(io.StringIO()):
        fast(jitgrad.ones(3, 2), False)
        fast(jitgrad.ones(5, 2), False)
    assert len(net.seen) == 2
    assert fast.cache_info().compilations == 1
    with pytest.raises(RuntimeError, match=r"is marked `@jit\.unused`"):
        fast(jitgrad.ones(3, 2), True)


# --- refusals --------------------------------------------------------------------------------------------------------


@jitgrad.ignore
def nothing_known() -> Tensor:
    return jitgrad.ones(2)


@jitgrad.ignore
def words(x) -> str:
    return "a"


def test_refusals():
    with pytest.raises(ScriptError, match="dtype and rank of what the ignored function `nothing_known` returns"):
        jitgrad.script(lambda: nothing_known())()
    with pytest.raises(ScriptError, match="returns `str`, which a script cannot hold"):
        jitgrad.script(lambda x: words(x))(1)
    with pytest.raises(ScriptError, match="made by the script as an argument of an ignored function"):
        jitgrad.script(lambda x: note(lambda y: y + x))(1)
    with pytest.raises(TypeError, match="is for functions and methods"):
        jitgrad.ignore(nn.Linear)


def test_built_in_functions_and_objects():
    save = jitgrad.ignore(SEEN.append)

    def f(x):
        save(x.sum().item())
        return x

    everywhere(f, lambda: (jitgrad.ones(2),))


def test_items_by_parameter_are_stored_before_the_call():
    w = jitgrad.ones(2, requires_grad=True)
    state = {w: jitgrad.zeros(2)}
    seen = []

    @jitgrad.ignore
    def look() -> None:
        seen.append(state[w].tolist())

    @jitgrad.script
    def f(x):
        state[w] = x * (w.detach() + 1)
        look()

    f(jitgrad.tensor([1.0, 2.0]))
    assert seen == [[2.0, 4.0]]
    assert state[w].tolist() == [2.0, 4.0]


def test_the_call_sees_changed_lists_and_dicts():
    log, table, grown, seen = [], {}, [], []

    @jitgrad.ignore
    def look() -> None:
        seen.append(([x.tolist() for x in log], {k: v.tolist() for k, v in table.items()},
                     [x.tolist() for x in grown]))

    def f(x, n: int):
        log.append(x.sum())
        table["a"] = x * 2
        look()
        log.append(x * 3)
        for i in range(n):
            grown.append(x + i)
            if i == 1:
                look()
        table["a"] = x * 4
        table["b"] = x
        look()
        assert n < 3

    def run(g, n):
        for held in (log, table, grown, seen):
            held.clear()
        with contextlib.suppress(AssertionError):
            g(jitgrad.tensor([1.0, 2.0]), n)
        look()
        return list(seen)

    for interpret in (True, False):
        with config.override(interpret=interpret):
            g = jitgrad.script(f)
            for n in (0, 1, 3, 2):
                assert run(g, n) == run(f, n), (n, interpret)


def test_what_the_call_appends_stays_in_order():
    log = []

    @jitgrad.ignore
    def note(k: int) -> None:
        log.append(k)

    def f(x, n: int):
        log.extend([x.sum()])
        note(n)
        log.extend([x * 2, x])
        note(n + 1)
        assert n != 1
        log.extend([x * 3])

    def run(g, n):
        log.clear()
        with contextlib.suppress(AssertionError):
            g(jitgrad.tensor([1.0, 2.0]), n)
        return [x if isinstance(x, int) else x.tolist() for x in log]

    for interpret in (True, False):
        with config.override(interpret=interpret):
            g = jitgrad.script(f)
            for n in (0, 1, 2):
                assert run(g, n) == run(f, n), (n, interpret)


def test_the_call_may_not_change_what_the_script_has_changed():
    items, table, box = [jitgrad.ones(2)], {"a": jitgrad.ones(2)}, Box()

    class Holder:
        how = ""

    @jitgrad.ignore
    def spoil() -> None:
        if Holder.how == "list":
            items.append(jitgrad.ones(2))
        elif Holder.how == "dict":
            table["c"] = jitgrad.ones(2)
        elif Holder.how == "attribute":
            box.late = jitgrad.zeros(3)

    @jitgrad.script
    def f(x):
        items[0] = items[0] + x
        items.append(x)
        table["b"] = table["a"] + x
        box.late = x * 2
        spoil()
        items[0] = items[0] * 2

    for Holder.how, name in (("", ""), ("list", "items"), ("dict", "table"), ("attribute", "late")):
        items[:], box.late = [jitgrad.ones(2)], None
        table.clear()
        table["a"] = jitgrad.ones(2)
        if name:
            with pytest.raises(RuntimeError, match=f"changed .*{name}"):
                f(jitgrad.ones(2))
        else:
            f(jitgrad.ones(2))
            assert [x.tolist() for x in items] == [[4.0, 4.0], [1.0, 1.0]]


class Box:
    """An object with an attribute."""

    def __init__(self) -> None:
        self.late = None


def test_a_gradient_in_the_script_goes_through_calls():
    @jitgrad.jit.ignore(returns=lambda x: x)
    def outside(x):
        return x * 2

    def f(w):
        outside(w).pow(2).sum().backward()
        loss = outside(w).sum()
        loss.backward()
        return loss

    for run in (f, jitgrad.script(f)):
        w = jitgrad.ones(3).requires_grad_()
        assert run(w).item() == 6.0
        assert w.grad.tolist() == [10.0] * 3
