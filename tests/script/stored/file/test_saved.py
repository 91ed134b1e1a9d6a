"""Saved programs run where the Python is gone: values, gradients, state, messages."""

from __future__ import annotations

import copy
import dataclasses
import io
import os
import pickle
import subprocess
import sys
import textwrap
from typing import NamedTuple

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.jit import load, save
from jitgrad.script.loaded import NoProgram
from jitgrad.script.stored.values import NotSavable


def round_trip(f, **how):
    file = io.BytesIO()
    save(f, file, **how)
    file.seek(0)
    return load(file)


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU())
        self.head = nn.Linear(5, 2)
        self.scale = 0.5
        self.register_buffer("seen", jitgrad.tensor(0), persistent=False)
        self.untouched = nn.Linear(2, 2)

    def forward(self, x):
        self.seen += 1
        return self.head(self.body(x)) * self.scale


@pytest.fixture
def net():
    jitgrad.manual_seed(0)
    return jitgrad.script(Net())


def test_a_module_runs_with_gradients_and_keeps_its_state(net):
    x = jitgrad.randn(4, 6)
    net(x)
    net.eval()
    net(x)
    net.train()
    loaded = round_trip(net)
    assert repr(loaded).startswith("Net(")
    for n in (3, 9):  # sizes are symbolic still
        x = jitgrad.randn(n, 6)
        a, b = net(x), loaded(x)
        same(a, b)
        a.pow(2).sum().backward()
        b.pow(2).sum().backward()
    for (name, p), (other, q) in zip(net.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other
        if p.grad is None:
            assert q.grad is None
        else:
            same(p.grad, q.grad)
    for p, q in zip(net.buffers(), loaded.buffers(), strict=True):
        same(p, q)
    assert loaded.seen.item() == 4
    net.eval()
    loaded.eval()
    same(net(x), loaded(x))
    assert loaded.cache_info().compilations == 2


def test_state_dicts_are_those_of_the_module(net):
    net(jitgrad.randn(4, 6))
    loaded = round_trip(net)
    assert list(loaded.state_dict()) == list(net.state_dict())
    other = jitgrad.script(Net())
    loaded.load_state_dict(other.state_dict())
    x = jitgrad.randn(4, 6)
    same(loaded(x), other(x))
    loaded.requires_grad_(False)
    assert not loaded(x).requires_grad
    assert all(p.is_leaf for p in loaded.parameters())


def test_floats_are_attributes_and_structure_is_guarded(net):
    x = jitgrad.randn(4, 6)
    net(x)
    loaded = round_trip(net)
    loaded.scale = net.scale = 3.0
    same(loaded(x), net(x))
    loaded.head = nn.Linear(5, 2)
    with pytest.raises(NoProgram, match=r"`self\.head` is another object"):
        loaded(x)


def test_a_training_loop_on_the_loaded_module_is_the_same(net):
    x, y = jitgrad.randn(8, 6), jitgrad.randint(0, 2, (8,))
    net(x)
    loaded = round_trip(net)
    for model in (net, loaded):
        optimizer = jitgrad.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(5):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    for p, q in zip(net.parameters(), loaded.parameters(), strict=True):
        same(p, q)


w = jitgrad.tensor(np.random.default_rng(0).standard_normal((3, 3)).astype("f4"), requires_grad=True)
rate = 0.25


@jitgrad.script
def recurrent(x, steps: int, power=2.0, *, flip=False):
    h = x
    for _ in range(steps):
        h = jitgrad.tanh(h @ w) + rate * x
        if bool(h.sum() > 100):
            break
    if flip:
        h = -h
    return {"h": h ** power, "steps": steps}, x, [h[0]]


def test_functions_with_loops_branches_and_globals():
    recurrent(jitgrad.ones(2, 3), 3)
    loaded = round_trip(recurrent)
    assert dict(loaded.named_parameters()).keys() == {"w"}
    assert loaded.rate == 0.25
    x = jitgrad.randn(5, 3)
    for args, kwargs in (((x, 4), {}), ((x,), {"steps": 0, "power": 3.0, "flip": True})):
        (found, given, tail), (wanted, _, others) = loaded(*args, **kwargs), recurrent(*args, **kwargs)
        same(found["h"], wanted["h"])
        same(tail[0], others[0])
        assert found["steps"] == wanted["steps"]
        assert given is x
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'steps'"):
        loaded(x)


def test_first_and_second_order_gradients():
    recurrent(jitgrad.ones(2, 3, requires_grad=True), 3)
    loaded = round_trip(recurrent)
    results = []
    for f, weight in ((recurrent, w), (loaded, loaded.w)):
        x = jitgrad.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        gx, gw = jitgrad.autograd.grad(f(x, 2)[0]["h"].sum(), (x, weight), create_graph=True)
        again = jitgrad.autograd.grad(gx.pow(2).sum() + gw.pow(2).sum(), (x, weight))
        results.append((gx, gw, *again))
    for a, b in zip(*results, strict=True):
        same(a, b)


def test_several_dtypes_and_ranks():
    @jitgrad.script
    def f(x):
        return x.sum(dim=-1) * 2

    inputs = [jitgrad.ones(3), jitgrad.ones(2, 3), jitgrad.ones(3, dtype=jitgrad.float64), jitgrad.ones(1, 3)]
    for x in inputs:
        f(x)
    loaded = round_trip(f)
    for x in inputs:
        assert loaded(x).dtype is f(x).dtype
        same(loaded(x), f(x))
    with pytest.raises(NoProgram, match=r"had dtype jitgrad\.float32, has jitgrad\.int64"):
        loaded(jitgrad.ones(3, dtype=jitgrad.int64))


def test_example_inputs_compile_without_running(capsys):
    @jitgrad.script
    def f(x, n: int):
        print("ran")
        return x * n

    with pytest.raises(RuntimeError, match="`f` has not been called yet"):
        save(f, io.BytesIO())
    loaded = round_trip(f, example_inputs=[(jitgrad.ones(2), 2), (jitgrad.ones(2, 2), 2)])
    assert capsys.readouterr().out == ""
    same(loaded(jitgrad.ones(4, 4), 3), jitgrad.full((4, 4), 3.0))
    assert capsys.readouterr().out == "ran\n"
    assert round_trip(jitgrad.script(nn.Linear(2, 2)), example_inputs=jitgrad.ones(3, 2))(jitgrad.ones(5, 2)).ndim == 2


def test_what_is_not_scripted_is_refused():
    with pytest.raises(TypeError, match="script it first"):
        save(nn.Linear(2, 2), io.BytesIO())


class Pair(NamedTuple):
    a: jitgrad.Tensor
    b: float


def test_named_tuples_are_known_by_their_fields():
    @jitgrad.script
    def f(pair, more):
        return Pair(pair.a * pair.b, pair.b), more["x"].max(dim=0), jitgrad.sort(more["x"])[1]

    f(Pair(jitgrad.ones(2), 3.0), {"x": jitgrad.ones(3, 2)})
    loaded = round_trip(f)
    given = {"x": jitgrad.randn(5, 4)}
    pair, (values, indices), order = loaded(Pair(jitgrad.ones(3), 2.0), given)
    assert pair._fields == ("a", "b")
    assert pair.b == 2.0
    same(values, given["x"].max(dim=0).values)
    same(indices, given["x"].max(dim=0).indices)
    same(order, jitgrad.sort(given["x"])[1])


def test_results_that_are_views_share_memory():
    @jitgrad.script
    def f(x, n: int):
        return x[1:], x

    f(jitgrad.ones(4), 2)
    x = jitgrad.zeros(6)
    view, again = round_trip(f)(x, 3)
    view += 1
    assert again is x
    assert x.tolist() == [0, 1, 1, 1, 1, 1]


def test_writes_to_arguments_and_closures():
    total = jitgrad.zeros(3)

    @jitgrad.script
    def f(x):
        x += 1
        total.add_(x)
        return total.sum()

    f(jitgrad.zeros(3))
    loaded = round_trip(f)
    x = jitgrad.zeros(3)
    assert loaded(x).item() == 6
    assert loaded(x).item() == 12
    assert x.tolist() == [2, 2, 2]
    assert loaded.total.tolist() == [4, 4, 4]
    assert total.tolist() == [1, 1, 1]
    assert [n for n, _ in loaded.named_buffers()] == ["total"]


def test_random_numbers_are_the_same():
    @jitgrad.script
    def f(x):
        return nn.functional.dropout(x, 0.5, True) + jitgrad.randn(3)

    f(jitgrad.ones(3))
    loaded = round_trip(f)
    jitgrad.manual_seed(3)
    a = f(jitgrad.ones(3)), f(jitgrad.ones(3))
    jitgrad.manual_seed(3)
    same(jitgrad.stack(a), jitgrad.stack((loaded(jitgrad.ones(3)), loaded(jitgrad.ones(3)))))


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    model = jitgrad.script(Tied())
    model(jitgrad.ones(2, 3))
    loaded = round_trip(model)
    assert loaded.first.weight is loaded.second.weight
    same(loaded(jitgrad.ones(2, 3)), model(jitgrad.ones(2, 3)))


def test_less_may_be_recorded_than_was_saved():
    @jitgrad.script
    def f(x, y):
        return x * w.sum(), y * 2

    f(jitgrad.ones(2, requires_grad=True), jitgrad.ones(2, requires_grad=True))
    loaded = round_trip(f)
    with jitgrad.no_grad():
        assert not loaded(jitgrad.ones(2, requires_grad=True), jitgrad.ones(2))[0].requires_grad
    a, b = loaded(jitgrad.ones(2), jitgrad.ones(2))
    assert a.requires_grad
    assert not b.requires_grad
    loaded.w.requires_grad_(False)
    assert [t.requires_grad for t in loaded(jitgrad.ones(2), jitgrad.ones(2, requires_grad=True))] == [False, True]


def test_more_may_not_be_recorded_than_was_saved():
    @jitgrad.script
    def f(x):
        return x * 2

    f(jitgrad.ones(2))
    loaded = round_trip(f)
    with pytest.raises(NoProgram, match="`x` did not require grad, does now"):
        loaded(jitgrad.ones(2, requires_grad=True))


def test_programs_that_look_at_the_grad_mode_run_in_theirs_alone():
    @jitgrad.script
    def f(x):
        return x * 2 if x.requires_grad else x * 3

    @jitgrad.script
    def g(x):
        return x * 2 if jitgrad.is_grad_enabled() else x * 3

    for script in (f, g):
        script(jitgrad.ones(2, requires_grad=True))
        loaded = round_trip(script)
        with jitgrad.no_grad(), pytest.raises(NoProgram, match="the grad mode was True, is False"):
            loaded(jitgrad.ones(2))


class Counter:
    """A plain object with a scripted method."""

    def __init__(self):
        self.steps, self.factor, self.parts = 0, 2.0, {"bias": jitgrad.ones(2)}

    @jitgrad.script
    def advance(self, x):
        self.steps += 1
        return x * self.factor + self.parts["bias"] * self.steps


def test_methods_of_plain_objects_keep_their_attributes():
    counter = Counter()
    counter.advance(jitgrad.ones(2))
    loaded = round_trip(counter.advance)
    assert loaded(jitgrad.ones(2)).tolist() == [4, 4]
    loaded.factor = 0.0
    assert loaded(jitgrad.ones(2)).tolist() == [3, 3]
    assert (loaded.steps, counter.steps) == (3, 1)


def test_objects_as_arguments_are_refused():
    @jitgrad.script
    def f(x, module):
        return module(x)

    layer = nn.Linear(2, 2)
    f(jitgrad.ones(1, 2), layer)
    with pytest.raises(NotSavable, match="the argument `module` is an object of class `Linear`"):
        save(f, io.BytesIO())


def test_defaults_that_are_functions_are_compiled_in():
    @jitgrad.script
    def f(x, act=jitgrad.tanh):
        return act(x)

    f(jitgrad.ones(2))
    loaded = round_trip(f)
    assert jitgrad.allclose(loaded(jitgrad.ones(3)), jitgrad.tanh(jitgrad.ones(3)), rtol=1e-6)
    with pytest.raises(NoProgram):
        loaded(jitgrad.ones(3), jitgrad.relu)


def test_programs_for_replaced_objects_are_left_out():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x)

    model = jitgrad.script(Holder())
    model(jitgrad.ones(1, 2))
    model.fc = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="replaced since"):
        save(model, io.BytesIO())
    same(round_trip(model, example_inputs=jitgrad.ones(1, 2))(jitgrad.ones(1, 2)), model(jitgrad.ones(1, 2)))


def test_loaded_modules_are_saved_pickled_and_copied(net, tmp_path):
    x = jitgrad.randn(4, 6)
    net(x)
    loaded = round_trip(net)
    loaded.scale = 2.0
    loaded.save(tmp_path / "again.jg")
    for other in (load(tmp_path / "again.jg"), pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        assert other.scale == 2.0
        same(copy.deepcopy(loaded)(x), other(x))


def test_a_scripted_class_may_have_a_save_of_its_own():
    class Own(nn.Module):
        def forward(self, x):
            return x

        def save(self):
            return "mine"

    assert jitgrad.script(Own()).save() == "mine"


def test_graph_and_code(net):
    net(jitgrad.randn(4, 6))
    loaded = round_trip(net)
    assert "matmul" in repr(loaded.graph)
    assert "def Net(" in loaded.code
    assert loaded.graph_for(jitgrad.randn(4, 6)).outputs


PROGRAM = """
import jitgrad

class Checked(Exception):
    pass

def norm(x):
    if bool((x < 0).any()):
        raise ValueError(f"negative: {x.min().item():.1f}")
    return x.sum().sqrt()

@jitgrad.script
def f(x, n: int):
    if n > 3:
        raise KeyError(n)
    return norm(x) * n
"""


def test_without_the_source_messages_show_the_saved_lines(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    make = "import jitgrad, program\nprogram.f(jitgrad.ones(3), 2)\nprogram.f.save('f.jg')"
    use = textwrap.dedent("""
        import sys, traceback, jitgrad
        f = jitgrad.jit.load('f.jg')
        print(f(jitgrad.ones(4), 3).item())
        for x, n in ((-jitgrad.ones(4), 2), (jitgrad.ones(4), 5)):
            try:
                f(x, n)
            except (ValueError, KeyError) as error:
                print(type(error).__name__, error)
                traceback.print_exc(file=sys.stdout)
    """)
    run = [sys.executable, "-c"]
    subprocess.run([*run, make], cwd=tmp_path, check=True)
    (tmp_path / "program.py").unlink()
    out = subprocess.run([*run, use], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert out.startswith("6.0\nValueError negative: -1.0\n")
    assert '    raise ValueError(f"negative: {x.min().item():.1f}")' in out
    assert '/program.py>", line 16, in f\n    return norm(x) * n' in out
    assert "    raise KeyError(n)" in out


def test_exceptions_of_users_become_their_built_in_base():
    class Odd(ArithmeticError):
        pass

    @jitgrad.script
    def f(x):
        if bool(x.sum() > 3):
            raise Odd("too much")
        return x

    f(jitgrad.ones(2))
    with pytest.raises(ArithmeticError, match="too much"):
        round_trip(f)(jitgrad.ones(4))


@jitgrad.jit.ignore
def outside(x: jitgrad.Tensor) -> jitgrad.Tensor:
    return x * 2


def test_calls_of_python_functions_are_refused():
    @jitgrad.script
    def f(x):
        return outside(x) + 1

    f(jitgrad.ones(2))
    with pytest.raises(NotSavable, match="a call of a Python function"):
        save(f, io.BytesIO())


@pytest.mark.parametrize("kind", [jitgrad.optim.SGD, jitgrad.optim.Adam])
def test_whole_training_steps_go_on_where_they_were(kind):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = kind(model.parameters(), lr=0.1)

    @jitgrad.script
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x, y = jitgrad.randn(6, 4), jitgrad.randint(0, 3, (6,))
    for _ in range(3):
        step(x, y)
    loaded = round_trip(step)
    for _ in range(3):
        same(step(x, y), loaded(x, y))
    for p, q in zip(model.parameters(), loaded.model.parameters(), strict=True):
        same(p, q)
    with jitgrad.no_grad(), pytest.raises(NoProgram, match="the grad mode was True"):
        loaded(x, y)


def test_a_loaded_step_whose_counts_were_set_apart_says_what_to_do():
    model = nn.Linear(4, 3)
    optimizer = jitgrad.optim.Adam(model.parameters(), lr=0.1)

    @jitgrad.script
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    def set_apart(optimizer):
        next(iter(optimizer.state.values()))["step"].fill_(40)

    x = jitgrad.randn(6, 4)
    for _ in range(2):
        step(x)
    loaded = round_trip(step)
    loaded(x)
    set_apart(loaded.optimizer)
    with pytest.raises(NoProgram, match=r"holds another number than(.|\n)*save it again after a call of this kind"):
        loaded(x)
    set_apart(optimizer)
    step(x)
    loaded = round_trip(step)
    for _ in range(2):
        step(x)
        loaded(x)
    for p, q in zip(model.parameters(), loaded.model.parameters(), strict=True):
        same(p, q)


def test_loaded_programs_run_interpreted():
    @jitgrad.script
    def f(x, i):
        return x[i] * 2

    f(jitgrad.ones(4), jitgrad.tensor([1, 2]))
    loaded = round_trip(f)
    with jitgrad.config.override(interpret=True):
        assert loaded(jitgrad.arange(4.0), jitgrad.tensor([3, 1])).tolist() == [6, 2]
        with pytest.raises(IndexError):
            loaded(jitgrad.ones(4), jitgrad.tensor([7, 1]))


def test_programs_from_the_disk_cache_are_saved_alike(tmp_path):
    (tmp_path / "half.py").write_text(textwrap.dedent("""
        import io, jitgrad
        w = jitgrad.ones(3, requires_grad=True)

        @jitgrad.script
        def f(x):
            return x * w, x * 2

        f(jitgrad.ones(3))
        f.save(io.BytesIO())
        f.save("f.jg")
        print(f.cache_info().disk_hits, [t.requires_grad for t in jitgrad.jit.load("f.jg")(jitgrad.ones(3))])
    """))
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for hits in (0, 1):
        out = subprocess.run([sys.executable, "half.py"], cwd=tmp_path, env=environment, check=True,
                             capture_output=True, text=True).stdout
        assert out == f"{hits} [True, False]\n"


@jitgrad.script
def told(x, n: int):
    return f"{n:>3} of {x.sum().item():.1f}, {n > 2}!"


@jitgrad.script
def collected(a, b, n: int):
    xs = [a[0]]
    for i in range(n):
        xs.append(b if i == 1 else a[i] * 2)
    return xs


def test_strings_and_items_that_are_arguments():
    a, b = jitgrad.ones(4, 3), jitgrad.zeros(3)
    told(a, 3)
    collected(a, b, 3)
    assert round_trip(told)(a, 12) == told.eager(a, 12)
    found = round_trip(collected)(a, b, 4)
    assert len(found) == 5
    assert found[2] is b
    assert np.shares_memory(found[0].numpy(), a.numpy())
    same(found[3], a[2] * 2)


@dataclasses.dataclass
class Scores:
    logits: jitgrad.Tensor


def test_an_object_of_a_class_of_the_program_is_no_result():
    f = jitgrad.script(lambda x: Scores(x * 2))
    f(jitgrad.ones(2))
    with pytest.raises(NotSavable, match=r"the class `Scores`: use tensors, .* and named tuples of them"):
        f.save(io.BytesIO())


def test_what_python_keeps_of_a_class_is_in_no_file():
    f = jitgrad.script(lambda x: dataclasses.replace(Scores(x * 2), logits=x).logits + 1)
    assert f(jitgrad.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(NotSavable, match="the attribute `__dataclass_fields__`"):
        f.save(io.BytesIO())
