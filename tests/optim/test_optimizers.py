"""The optimizers' steps against torch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import optim

torch = pytest.importorskip("torch")

SGD = [
    {"lr": 0.1}, {"lr": 0.0}, {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    {"lr": 0.05, "weight_decay": 0.1}, {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    {"lr": 0.05, "momentum": 0.9, "maximize": True}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
]
ADAM = [
    {}, {"lr": 0.1}, {"lr": 0.0}, {"lr": 0.05, "betas": (0.5, 0.9)}, {"lr": 0.05, "eps": 1e-2},
    {"lr": 0.05, "weight_decay": 0.1}, {"lr": 0.05, "amsgrad": True}, {"lr": 0.05, "betas": (0.0, 0.0)},
    {"lr": 0.05, "maximize": True, "amsgrad": True, "weight_decay": 0.2},
]
SETTINGS = ([("SGD", s) for s in SGD] + [("Adam", s) for s in ADAM] + [("AdamW", s) for s in ADAM]
            + [("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True})])
SHAPES = [(4, 3), (3,), ()]


def parameters(lib: Any, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(0)
    return [lib.tensor(rng.standard_normal(s).tolist(), dtype=getattr(lib, dtype), requires_grad=True) for s in SHAPES]


def loss_of(params: list[Any], k: int) -> Any:
    """Reaches the second parameter in every third step only, so that its state must stand still."""
    w, b, c = params
    loss = ((w * (k % 5 - 1.5)).sin() * c).sum() + (w * w).sum() * 0.1
    return loss + (w.sum(0) * b).sum() + b.cos().sum() if k % 3 == 0 else loss


def train(lib: Any, optimizer: Any, params: list[Any], steps: range) -> list[Any]:
    seen = []
    for k in steps:
        optimizer.zero_grad()
        loss = loss_of(params, k)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def assert_same(ours: list[Any], theirs: list[Any], rtol: float = 2e-4, atol: float = 2e-6) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=str)
def test_twenty_steps_as_torch(name: str, options: dict[str, Any]) -> None:
    ours, theirs = parameters(jitgrad), parameters(torch)
    train(jitgrad, getattr(optim, name)(ours, **options), ours, range(20))
    train(torch, getattr(torch.optim, name)(theirs, **options), theirs, range(20))
    assert_same(ours, theirs)


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=str)
def test_exactly_as_torch_in_float64(name: str, options: dict[str, Any]) -> None:
    ours, theirs = parameters(jitgrad, "float64"), parameters(torch, "float64")
    train(jitgrad, getattr(optim, name)(ours, **options), ours, range(20))
    train(torch, getattr(torch.optim, name)(theirs, **options), theirs, range(20))
    assert_same(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=str)
def test_state_dict_has_torchs_form_and_goes_on_where_it_was(name: str, options: dict[str, Any]) -> None:
    ours, theirs = parameters(jitgrad), parameters(torch)
    first, reference = getattr(optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **options)
    train(jitgrad, first, ours, range(4))
    train(torch, reference, theirs, range(4))
    saved, expected = first.state_dict(), reference.state_dict()
    assert saved["param_groups"] == expected["param_groups"]
    assert {k: list(v) for k, v in saved["state"].items()} == {k: list(v) for k, v in expected["state"].items()}
    for k, state in expected["state"].items():
        for key, value in state.items():
            got = saved["state"][k][key]
            assert got.dtype.name == str(value.dtype).removeprefix("torch.")
            np.testing.assert_allclose(got.numpy(), value.numpy(), rtol=1e-4, atol=1e-6)

    copies = [p.detach().clone().requires_grad_() for p in ours]
    second = getattr(optim, name)(copies, lr=123.0)
    second.load_state_dict(saved)
    train(jitgrad, first, ours, range(4, 8))
    train(jitgrad, second, copies, range(4, 8))
    assert_same(ours, copies, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_representation(name: str) -> None:
    texts = []
    for lib in (jitgrad, torch):
        first, *others = parameters(lib)
        texts.append(repr(getattr(lib.optim, name)([{"params": first}, {"params": others, "lr": 0.5}])))
    assert texts[0] == texts[1]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": -0.1}), ("SGD", {"lr": float("nan")}), ("SGD", {"momentum": -1}), ("SGD", {"weight_decay": -1.0}),
    ("SGD", {"nesterov": True}), ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
    ("Adam", {"lr": -1.0}), ("Adam", {"eps": -1e-3}), ("Adam", {"betas": (1.0, 0.9)}), ("Adam", {"betas": (0.9, -0.1)}),
    ("Adam", {"weight_decay": -0.1}), ("Adam", {"betas": (0, 0.9)}), ("AdamW", {"lr": -1.0}),
    ("SGD", {"fused": True, "foreach": True}), ("SGD", {"fused": True, "differentiable": True}),
]


@pytest.mark.parametrize(("name", "options"), BAD, ids=str)
def test_bad_options_raise_as_in_torch(name: str, options: dict[str, Any]) -> None:
    if options == {"lr": float("nan")} or options.get("lr") != options.get("lr"):
        with pytest.raises(ValueError, match="Invalid learning rate: nan"):  # torch lets SGD's pass
            getattr(optim, name)(parameters(jitgrad), **options)
        return
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        getattr(torch.optim, name)(parameters(torch), **options)
    with pytest.raises(theirs.type) as ours:
        getattr(optim, name)(parameters(jitgrad), **options)
    assert str(ours.value) == str(theirs.value)


def _bad_parameters(lib: Any) -> list[Any]:
    w, b, c = parameters(lib)
    return [w, [], [w * 2], [1.5], {w}, [{"params": [w]}, {"params": [b, w]}], [("a", w), b],
            [{"params": {w, b}}], [w, {"params": [b]}],
            [{"params": [("a", w)]}, {"params": [b, c]}]]


@pytest.mark.parametrize("case", range(10))
def test_bad_parameters_raise_as_in_torch(case: int) -> None:
    if case == 4:  # a set given alone is iterated
        return
    with pytest.raises((TypeError, ValueError)) as theirs:
        torch.optim.SGD(_bad_parameters(torch)[case], lr=0.1)
    with pytest.raises(theirs.type) as ours:
        optim.SGD(_bad_parameters(jitgrad)[case], lr=0.1)
    assert str(ours.value).replace("jitgrad.", "torch.") == str(theirs.value)


def one(value: float = 1.0) -> Any:
    return jitgrad.tensor([value], requires_grad=True)


def test_the_state_of_two_optimizers_is_not_shared() -> None:
    p, q = one(), one()
    first, second = optim.Adam([p]), optim.Adam([q])
    p.grad = q.grad = jitgrad.ones(1)
    first.step()
    second.load_state_dict(first.state_dict())
    second.step()
    assert (first.state[p]["step"].item(), second.state[q]["step"].item()) == (1, 2)
    assert first.state[p]["exp_avg"].item() != second.state[q]["exp_avg"].item()


def test_loaded_state_has_the_dtype_of_its_parameter_and_old_step_counts_become_tensors() -> None:
    p, q = one(), jitgrad.ones(1, dtype=jitgrad.float64, requires_grad=True)
    first, second = optim.Adam([p]), optim.Adam([q])
    p.grad = jitgrad.ones(1)
    first.step()
    saved = first.state_dict()
    saved["state"][0]["step"] = 7
    second.load_state_dict(saved)
    state = second.state[q]
    assert (state["exp_avg"].dtype, state["step"].dtype, state["step"].item()) == (jitgrad.float64, jitgrad.float32, 7)
    assert second.param_groups[0]["params"][0] is q


def test_a_rate_may_be_a_tensor_that_is_changed_in_place() -> None:
    for name in ("SGD", "Adam", "AdamW"):
        ours, theirs = parameters(jitgrad), parameters(torch)
        rates = jitgrad.tensor(0.1), torch.tensor(0.1)
        pairs = ((jitgrad, getattr(optim, name)(ours, lr=rates[0]), ours),
                 (torch, getattr(torch.optim, name)(theirs, lr=rates[1]), theirs))
        for lib, optimizer, params in pairs:
            train(lib, optimizer, params, range(3))
        for rate in rates:
            rate.fill_(0.01)
        for lib, optimizer, params in pairs:
            train(lib, optimizer, params, range(3))
        assert_same(ours, theirs)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optim.SGD(parameters(jitgrad), lr=jitgrad.ones(2))


def test_duplicate_parameters_warn() -> None:
    p = one()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


def test_a_required_option() -> None:
    class Plain(optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            return closure and closure()

    options = {"speed": jitgrad.optim.optimizer.required}
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter speed"):
        Plain([one()], options)
    assert Plain([{"params": [one()], "speed": 1}], options).step(lambda: 3) == 3
    with pytest.raises(NotImplementedError):
        optim.Optimizer([one()], {}).step()


def test_step_that_is_differentiated_is_refused() -> None:
    for make in (optim.SGD, optim.Adam, optim.AdamW):
        with pytest.raises(NotImplementedError, match="differentiable=True is not available"):
            make([one()], differentiable=True)


def test_hooks_around_steps() -> None:
    p = one()
    optimizer, seen = optim.SGD([p], lr=0.5), []
    p.grad = jitgrad.ones(1)
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", args, p.item())))
    after = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", args, p.item())))
    optimizer.step()
    before.remove()
    after.remove()
    optimizer.step()
    assert seen == [("before", (), 1.0), ("after", (), 0.5)]
    assert p.item() == 0
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_hooks_around_saving_and_loading() -> None:
    optimizer, seen = optim.SGD([one()], lr=0.5), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("extra")))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("last"))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("first"), prepend=True)
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert seen == ["saving", 1, "first", "last"]
    assert saved["extra"] == 1


def test_copies_and_pickles_step_on_their_own() -> None:
    p = one()
    optimizer = optim.SGD([p], lr=0.5, momentum=0.9)
    p.grad = jitgrad.ones(1)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        q = other.param_groups[0]["params"][0]
        assert other.state[q]["momentum_buffer"].item() == 1
        q.grad = jitgrad.ones(1)
        other.step()
        assert (q.item(), p.item()) == (pytest.approx(0.5 - 0.5 * 1.9), 0.5)


def test_recorded_gradients_are_zeroed_without_their_history() -> None:
    p = one(2.0)
    (p ** 3).sum().backward(create_graph=True)
    gradient = p.grad
    optim.SGD([p], lr=0.1).zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0]
    assert not p.grad.requires_grad
    assert gradient is not p.grad
