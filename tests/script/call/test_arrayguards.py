"""Entries that let native code look at arrays take the calls that entries in Python take, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.script.call import arrayguards
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

NEVER = 1 << 30


def training(fewest, monkeypatch):
    """A training step with parameters, moments and counts; its entry asks native code from `fewest` tensors on."""
    monkeypatch.setattr(arrayguards, "FEWEST", fewest)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @torch.script
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def batch():
    return torch.linspace(0, 1, 15).reshape(5, 3), torch.ones(5, 1)


def a_subclass(model, optimizer):
    class Kind(torch.Tensor):
        pass

    state = optimizer.state[model[0].weight]
    state["exp_avg"] = torch.Tensor._make_subclass(Kind, state["exp_avg"])


def moment(change):
    def apply(model, optimizer):
        state = optimizer.state[model[0].weight]
        state["exp_avg"] = change(state["exp_avg"], state["exp_avg_sq"])

    return apply


def data(change):
    def apply(model, optimizer):
        model[0].weight.data = change(model[0].weight.data)

    return apply


def shared(model, optimizer):
    memory = torch.zeros(6, 4, 3)
    optimizer.state[model[0].weight].update(exp_avg=memory[0], exp_avg_sq=memory[1])


def overlapping(model, optimizer):
    memory = torch.zeros(5, 3)
    optimizer.state[model[0].weight].update(exp_avg=memory[:4], exp_avg_sq=memory[1:])


def foreign(model, optimizer):
    state = optimizer.state[model[0].weight]
    state["exp_avg"] = torch.from_numpy(np.frombuffer(bytearray(48), "float32").reshape(4, 3))


def other_dtype_object(model, optimizer):
    state = optimizer.state[model[0].weight]
    odd = np.zeros((4, 3), np.dtype("float32", metadata={"of": "somebody"}))
    state["exp_avg"] = torch.from_numpy(odd)


CHANGES = {
    "nothing": lambda model, optimizer: None,
    "float64": moment(lambda m, v: m.double()),
    "another rank": moment(lambda m, v: m[0]),
    "another size": moment(lambda m, v: torch.zeros(5, 3)),
    "a size of one": moment(lambda m, v: torch.zeros(4, 1)),
    "another memory": moment(lambda m, v: m.clone()),
    "the same tensor": moment(lambda m, v: v),
    "the same memory": moment(lambda m, v: v.detach()),
    "a gradient": moment(lambda m, v: m.clone().requires_grad_()),
    "no tensor": moment(lambda m, v: 2.0),
    "transposed": moment(lambda m, v: torch.zeros(3, 4).T),
    "subclass": a_subclass,
    "views of one memory": shared,
    "overlapping views": overlapping,
    "memory of something else": foreign,
    "an equal dtype": other_dtype_object,
    "a larger weight": data(lambda w: torch.zeros(6, 3)),
    "another weight": data(lambda w: torch.zeros(4, 3)),
    "frozen": lambda model, optimizer: model[2].bias.requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_native_and_python_guards_agree(change, monkeypatch):
    taken = []
    for fewest in (1, NEVER):
        model, optimizer, step = training(fewest, monkeypatch)
        for _ in range(3):  # the first two calls are compiled for: then the optimizer has its state
            step(*batch())
        compiled = step.cache_info().compilations
        CHANGES[change](model, optimizer)
        arguments = batch()
        taken.append(step.specialisations[0].enter(arguments) is not None)
        assert step.cache_info().compilations == compiled
    assert taken[0] == taken[1]
    accepted = ("nothing", "another memory", "transposed", "another weight", "views of one memory", "subclass",
                "memory of something else", "an equal dtype")
    assert taken[0] == (change in accepted)


@pytest.mark.parametrize("fewest", [1, NEVER])
def test_a_batch_of_overlapping_slices_is_no_reason_to_compile_again(fewest, monkeypatch):
    model, _, step = training(fewest, monkeypatch)
    rows = torch.linspace(0, 1, 60).reshape(20, 3)
    for k in range(5):
        step(rows[k:k + 5], rows[k + 1:k + 6, :1])
    before = step.cache_info().compilations
    weight = model[0].weight.detach().clone()
    step(rows[3:9], rows[4:10, :1])
    assert step.cache_info().compilations == before
    assert not torch.equal(weight, model[0].weight)


def test_native_code_is_asked_where_there_are_many_arrays_only(monkeypatch):
    made = []
    plan = arrayguards.plan
    monkeypatch.setattr(arrayguards, "plan", lambda *args: made.append(plan(*args)) or made[-1])
    _model, _, step = training(arrayguards.FEWEST, monkeypatch)
    for _ in range(3):
        step(*batch())
    assert made[-1] is not None
    assert made[-1].separates
    assert len(made[-1].sizes) > 0
    torch.script(lambda x: x + 1)(torch.ones(3))
    assert made[-1] is None


def test_a_tensor_that_is_guarded_but_no_input(monkeypatch):
    monkeypatch.setattr(arrayguards, "FEWEST", 1)

    @torch.script
    def f(x, unread, y):
        return x * y.shape[0]

    assert f(torch.ones(3), torch.ones(2, 2), torch.ones(5)).tolist() == [5, 5, 5]
    f(torch.ones(3), torch.ones(7, 2), torch.ones(4))
    assert f.cache_info().compilations == 1
    f(torch.ones(3), torch.ones(7), torch.ones(4))
    assert f.cache_info().compilations == 2


def test_sizes_that_were_taken_to_be_equal(monkeypatch):
    monkeypatch.setattr(arrayguards, "FEWEST", 1)

    @torch.script
    def f(x, y, z):
        return (x + y) @ z

    for n in (2, 5, 9):
        f(torch.ones(n, 3), torch.ones(n, 3), torch.ones(3, n))
    assert f.cache_info().compilations == 1
    with pytest.raises(RuntimeError):
        f(torch.ones(2, 3), torch.ones(4, 3), torch.ones(3, 2))
    assert f(torch.ones(2, 3), torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)


@host.needs_compiler
@pytest.mark.parametrize("change", CHANGES)
def test_on_a_device_what_was_asked_before_is_asked_again_where_it_changes(change, monkeypatch):
    taken = []
    for few in (1, NEVER):
        monkeypatch.setattr(arrayguards, "FEW", few)
        with gpu(), torch.device("cuda"):
            model, optimizer, step = training(NEVER, monkeypatch)
            for _ in range(4):
                step(*batch())
            CHANGES[change](model, optimizer)
            taken += [step.specialisations[0].enter(batch()) is not None for _ in range(2)]
    assert taken == taken[:1] * 4
    assert taken[0] == (change in ("nothing", "another memory", "transposed", "another weight", "views of one memory",
                                   "subclass"))


@host.needs_compiler
def test_a_batch_on_a_device_may_be_what_a_step_writes(monkeypatch):
    with gpu(), torch.device("cuda"):
        model, _, step = training(NEVER, monkeypatch)
        for _ in range(4):
            step(*batch())
        enter, (x, y) = step.specialisations[0].enter, batch()
        assert enter((x, y)) is not None
        assert enter((model[0].weight.detach(), torch.ones(4, 1))) is None
        assert enter((model[0].weight.detach()[1:], torch.ones(3, 1))) is None
        assert enter((model[0].weight.detach().clone(), torch.ones(4, 1))) is not None
