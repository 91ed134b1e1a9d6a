"""Optimizers and schedules against torch in float64, and their own rules."""

# ruff: noqa: E501  (tables)

import copy

import numpy as np
import pytest

import jitgrad
from jitgrad import nn, optim

torch = pytest.importorskip("torch")

OPTIMIZERS = [
    ("SGD", {"lr": 0.02}), ("SGD", {"lr": 0.01, "momentum": 0.9}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.001, "maximize": True}),
    ("Adam", {"lr": 0.05}), ("Adam", {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3}), ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}), ("Adam", {"maximize": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.05}), ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    ("AdamW", {"maximize": True}),
    ("Adagrad", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adagrad", {"lr": 0.01, "maximize": True}), ("Adadelta", {}), ("Adadelta", {"lr": 0.5, "rho": 0.7, "weight_decay": 0.1}),
    ("Adadelta", {"maximize": True}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("RMSprop", {"weight_decay": 0.1, "maximize": True}), ("RMSprop", {"centered": True, "alpha": 0.8}),
    ("Rprop", {}), ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2)}), ("Rprop", {"maximize": True}),
    ("Adamax", {"lr": 0.02}), ("Adamax", {"weight_decay": 0.1, "maximize": True}), ("NAdam", {"lr": 0.02}),
    ("NAdam", {"weight_decay": 0.1}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"lr": 0.02}), ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.9)}), ("ASGD", {"lr": 0.02}),
    ("ASGD", {"lr": 0.02, "t0": 5, "lambd": 0.01, "weight_decay": 0.1}), ("ASGD", {"maximize": True, "lr": 0.001}),
]


#: these keep numbers in float32 tensors
LOOSE = {"NAdam": 1e-6, "ASGD": 1e-6, "RAdam": 1e-10, "Rprop": 1e-10}


def problem(library):
    rng = np.random.default_rng(0)
    params = [library.tensor(rng.standard_normal(s), requires_grad=True) for s in ((3, 4), (4,), ())]
    x = library.tensor(rng.standard_normal((5, 3)))

    def loss():
        w, b, s = params
        return ((library.tanh(x @ w + b) * s - 0.3) ** 2).sum()

    return params, loss


def train(library, name, kwargs, steps=20):
    params, loss = problem(library)
    optimizer = getattr(library.optim, name)(params, **kwargs)
    values = []
    for i in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if i % 5 == 2:
            params[1].grad = None  # a parameter that this step does not reach
        optimizer.step()
        values.append(value.item())
    return params, optimizer, values


@pytest.mark.parametrize(("name", "kwargs"), OPTIMIZERS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(OPTIMIZERS)])
def test_twenty_steps(name, kwargs):
    ours, optimizer, losses = train(jitgrad, name, kwargs)
    theirs, reference, expected = train(torch, name, kwargs)
    np.testing.assert_allclose(losses, expected, rtol=LOOSE.get(name, 1e-12))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=LOOSE.get(name, 1e-11))
    saved, wanted = optimizer.state_dict(), reference.state_dict()
    assert saved["param_groups"] == wanted["param_groups"]
    assert {k: set(v) for k, v in saved["state"].items()} == {k: {n for n, t in v.items() if t is not None}
                                                              for k, v in wanted["state"].items()}
    for number, values in saved["state"].items():
        for key, value in values.items():
            np.testing.assert_allclose(value.numpy(), wanted["state"][number][key].numpy(), rtol=LOOSE.get(name, 1e-11))
    assert repr(optimizer) == repr(reference)


@pytest.mark.parametrize(("name", "kwargs"), [("SGD", {"lr": 0.01, "momentum": 0.9}), ("Adam", {"lr": 0.05, "amsgrad": True})])
def test_state_dict_resumes(name, kwargs):
    whole, _, _ = train(jitgrad, name, kwargs, 20)
    params, optimizer, _ = train(jitgrad, name, kwargs, 10)
    saved = copy.deepcopy(optimizer.state_dict())
    again, loss = problem(jitgrad)
    with jitgrad.no_grad():
        for p, q in zip(again, params, strict=True):
            p.copy_(q)
    other = getattr(optim, name)(again, lr=7.0)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == kwargs["lr"]
    for i in range(10, 20):
        other.zero_grad()
        loss().backward()
        if i % 5 == 2:
            again[1].grad = None
        other.step()
    for a, b in zip(whole, again, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_torchs_state_loads():
    _, reference, _ = train(torch, "Adam", {"lr": 0.05}, 5)
    state = reference.state_dict()
    state["state"] = {k: {n: jitgrad.tensor(t.numpy()) for n, t in v.items()} for k, v in state["state"].items()}
    params, optimizer, _ = train(jitgrad, "Adam", {"lr": 0.05}, 1)
    optimizer.load_state_dict(state)
    assert float(optimizer.state[params[0]]["step"]) == 5
    np.testing.assert_allclose(optimizer.state[params[0]]["exp_avg"].numpy(), state["state"][0]["exp_avg"].numpy())


def test_groups():
    a, b, c = (jitgrad.ones(2, requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 1.0}], lr=0.1)
    optimizer.add_param_group({"params": [c], "momentum": 0.5})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 1.0, 0.1]
    assert optimizer.state_dict()["param_groups"][2]["params"] == [2]
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert (a.tolist(), b.tolist(), c.tolist()) == ([pytest.approx(0.9)] * 2, [0, 0], [1, 1])
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert a.tolist() == [pytest.approx(0.4)] * 2
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert a.grad is None


def test_parameters_may_come_from_a_module_by_name():
    layer = nn.Linear(2, 1)
    optimizer = optim.Adam(layer.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    layer(jitgrad.ones(1, 2)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert (layer.weight != before).all().item()


def test_closure():
    x = jitgrad.tensor([3.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with jitgrad.no_grad():
        assert optimizer.step(closure).item() == 9
    assert x.item() == 0


def test_steps_leave_no_history():
    x = jitgrad.tensor([3.0], requires_grad=True)
    for optimizer in (optim.SGD([x], lr=0.1, momentum=0.9), optim.Adam([x])):
        (x * x).sum().backward()
        optimizer.step()
        assert x.is_leaf
        assert not any(v.requires_grad for v in optimizer.state[x].values() if isinstance(v, jitgrad.Tensor))


@pytest.mark.parametrize(("make", "kind", "message"), [
    (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
    (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda p: optim.Adam([]), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.Adam([3]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda p: optim.Adam([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.Adam([{"params": [p]}, {"params": [p]}]), ValueError,
     "some parameters appear in more than one parameter group"),
    (lambda p: optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}), ValueError,
     "loaded state dict has a different number of parameter groups"),
    (lambda p: optim.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": []}]}), ValueError,
     "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"),
])
def test_errors(make, kind, message):
    with pytest.raises(kind) as error:
        make(jitgrad.ones(2, requires_grad=True))
    assert str(error.value) == message


# --- schedules -----------------------------------------------------------------------------------------------------

SCHEDULES = [
    ("StepLR", (3,), {"gamma": 0.5}), ("MultiStepLR", ([2, 5],), {}), ("ExponentialLR", (0.9,), {}),
    ("LinearLR", (), {"start_factor": 0.1, "total_iters": 4}),
    ("CosineAnnealingLR", (6,), {"eta_min": 0.01}), ("LambdaLR", (lambda step: 1 / (1 + step),), {}),
    ("LambdaLR", ([lambda step: 0.5**step, lambda step: 1.0],), {}),
]


@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
@pytest.mark.parametrize(("name", "args", "kwargs"), SCHEDULES)
def test_schedules(name, args, kwargs):
    rates = []
    for library in (jitgrad, torch):
        p, q = library.ones(1, requires_grad=True), library.ones(1, requires_grad=True)
        optimizer = library.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.3}], lr=0.1)
        schedule = getattr(library.optim.lr_scheduler, name)(optimizer, *args, **kwargs)
        seen = []
        for _ in range(9):
            seen.append([g["lr"] for g in optimizer.param_groups])
            assert schedule.get_last_lr() == seen[-1]
            optimizer.step()
            schedule.step()
        rates.append(seen)
    np.testing.assert_allclose(*rates, rtol=1e-12)


@pytest.mark.parametrize("kwargs", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.01},
                                    {"patience": 1, "cooldown": 2, "min_lr": 1e-3}])
def test_plateau(kwargs):
    metrics = [1.0, 0.9, 0.91, 0.9, 0.90001, 0.95, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    rates = []
    for library in (jitgrad, torch):
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=0.1)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 2, **kwargs})
        rates.append([(schedule.step(m), optimizer.param_groups[0]["lr"])[1] for m in metrics])
    np.testing.assert_allclose(*rates, rtol=1e-12)


@pytest.mark.parametrize("kwargs", [{"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.5, "history_size": 2, "max_iter": 7},
                                    {"line_search_fn": "strong_wolfe", "max_iter": 3, "max_eval": 5}])
def test_lbfgs(kwargs):
    found = []
    for library in (jitgrad, torch):
        params, loss = problem(library)
        optimizer = library.optim.LBFGS(params, **kwargs)

        def closure(optimizer=optimizer, loss=loss):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        values = [optimizer.step(closure).item() for _ in range(3)]
        state = optimizer.state_dict()["state"][0]
        found.append((values, [p.detach().numpy() for p in params], state["func_evals"], state["n_iter"], set(state)))
    (a, ps, *rest), (b, qs, *wanted) = found
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
    for p, q in zip(ps, qs, strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-6)
    assert rest == wanted


BAD = [("Adagrad", {"lr_decay": -1}), ("Adagrad", {"initial_accumulator_value": -1}), ("Adadelta", {"rho": 2}), ("RMSprop", {"alpha": -1}),
       ("RMSprop", {"momentum": -1}), ("Rprop", {"etas": (2, 3)}), ("Adamax", {"betas": (1, 0.5)}), ("NAdam", {"momentum_decay": -1}),
       ("RAdam", {"eps": -1}), ("ASGD", {"weight_decay": -1}), ("LBFGS", {"lr": -1})]


@pytest.mark.parametrize(("name", "kwargs"), BAD)
def test_options_that_are_refused(name, kwargs):
    messages = []
    for library in (jitgrad, torch):
        with pytest.raises(ValueError, match=r"LBFGS|Invalid") as error:
            getattr(library.optim, name)([library.zeros(2, requires_grad=True)], **kwargs)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("average", ["mean", "ema", "many", "many_ema"])
def test_averaged_model(average):
    results = []
    for library in (jitgrad, torch):
        model = library.nn.BatchNorm1d(2)
        swa = library.optim.swa_utils
        how = {"mean": {}, "ema": {"avg_fn": swa.get_ema_avg_fn(0.8)},
               "many": {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
               "many_ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)}}[average]
        averaged = swa.AveragedModel(model, **how)
        for k in range(4):
            with library.no_grad():
                model.weight.fill_(float(k))
                model.running_mean.fill_(float(k))
            averaged.update_parameters(model)
        swa.update_bn([library.tensor([[1.0, 2.0], [3.0, 5.0]])], averaged)
        results.append({k: v.tolist() for k, v in averaged.state_dict().items()})
    assert list(results[0]) == list(results[1])
    for key, value in results[1].items():
        assert results[0][key] == pytest.approx(value), key


@pytest.mark.parametrize("how", [{}, {"anneal_strategy": "linear", "anneal_epochs": 3}, {"anneal_epochs": 0}])
def test_rates_of_stochastic_weight_averaging(how):
    results = []
    for library in (jitgrad, torch):
        parts = [{"params": [library.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.5, 0.01)]
        optimizer = library.optim.SGD(parts)
        schedule = library.optim.swa_utils.SWALR(optimizer, [0.05, 0.1], **how)
        found = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            found += schedule.get_last_lr()
        results.append(found)
        with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear'"):
            library.optim.swa_utils.SWALR(optimizer, 0.05, anneal_strategy="cubic")
    assert results[0] == pytest.approx(results[1])
