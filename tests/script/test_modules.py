"""Scripted modules while their world changes: attributes, parameters, hooks, instances; who keeps whom alive."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import threading
import weakref

import pytest

import jitgrad
import jitgrad as torch
from jitgrad import config, distributions, nn

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.act = None
        self.k, self.flag, self.scale, self.names = 2, True, 1.5, ["a"]

    def forward(self, x):
        h = self.fc(x) * self.k * self.scale
        if self.flag:
            h = h + 1
        if self.act is not None:
            h = self.act(h)
        for name in self.names:
            h = h + len(name)
        return h


def gradients(call, model):
    model.zero_grad()
    out = call(X)
    if out.requires_grad:
        out.sum().backward()
    return out, [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def agree(net, fast):
    """Scripted and plain give the same values and gradients."""
    (a, of_a), (b, of_b) = gradients(net, net), gradients(fast, net)
    assert torch.allclose(a, b, atol=1e-5)
    assert a.requires_grad is b.requires_grad
    for u, v in zip(of_a, of_b, strict=True):
        assert (u is None) == (v is None)
        assert u is None or torch.allclose(u, v, atol=1e-5)


def tie(net):
    net.act = nn.Linear(3, 3)
    net.act.weight = net.fc.weight


CHANGES = [
    lambda net: setattr(net, "k", 3), lambda net: setattr(net, "scale", 0.1),
    lambda net: setattr(net, "flag", False), lambda net: setattr(net, "act", nn.ReLU()),
    lambda net: setattr(net, "act", None), lambda net: net.names.append("long"),
    lambda net: setattr(net.fc, "weight", nn.Parameter(torch.eye(3))),
    lambda net: net.fc.weight.requires_grad_(False), lambda net: net.fc.bias.requires_grad_(False),
    lambda net: net.fc.weight.requires_grad_(True), lambda net: setattr(net, "fc", nn.Linear(3, 3)),
    lambda net: setattr(net.fc, "bias", None), lambda net: setattr(net, "act", nn.Linear(3, 3)),
    lambda net: setattr(net, "act", net.fc), tie, lambda net: setattr(net, "k", 2.5),
    lambda net: setattr(net, "act", nn.Sequential(nn.Linear(3, 3), nn.Tanh())), lambda net: net.act.append(nn.ReLU()),
]


@pytest.mark.parametrize("cache", [True, False])
def test_what_changes_between_calls_is_seen(cache, tmp_path):
    with config.override(cache=str(tmp_path) if cache else ""):
        net = Net()
        fast = torch.jit.script(net)
        agree(net, fast)
        for change in CHANGES:
            change(net)
            agree(net, fast)
        before = fast.cache_info().compilations
        net.scale = 0.7
        agree(net, fast)
        assert fast.cache_info().compilations == before


def test_an_int_that_changes_is_read_at_run_time():
    net = Net()
    fast = torch.jit.script(net)
    for k in range(2, 12):
        net.k = k
        agree(net, fast)
    assert fast.cache_info().compilations == 2

    class Settings:
        axis, times = 0, 1

    settings = Settings()

    @jitgrad.script
    def f(x):
        return x.sum(dim=settings.axis) * settings.times

    for axis, times in ((0, 1), (1, 1), (1, 2), (1, 3), (0, 4), (1, 5)):
        settings.axis, settings.times = axis, times
        assert torch.allclose(f(X), X.sum(dim=axis) * times)


def test_a_stored_program_is_not_used_where_modules_are_shared_otherwise(tmp_path):
    with config.override(cache=str(tmp_path)):
        net = Net()
        net.act = net.fc
        agree(net, torch.jit.script(net))
        net = Net()
        net.act = nn.Linear(3, 3)
        fast = torch.jit.script(net)
        agree(net, fast)
        assert fast.cache_info().disk_hits == 0
        net = Net()
        net.act = nn.Linear(3, 3)
        fast = torch.jit.script(net)
        agree(net, fast)
        assert fast.cache_info().disk_hits == 1


def test_hooks_come_and_go():
    net = Net()
    fast = torch.jit.script(net)
    agree(net, fast)
    handles = [net.fc.register_forward_pre_hook(lambda m, args: (args[0] * 2,))]
    agree(net, fast)
    handles.append(net.fc.register_forward_hook(lambda m, args, out: out + args[0]))
    agree(net, fast)
    handles.append(net.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True))
    handles.append(net.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True))
    agree(net, fast)
    handles.append(net.fc.weight.register_hook(lambda g: g * 2))
    agree(net, fast)
    for handle in handles:
        handle.remove()
        agree(net, fast)


def test_modes_and_buffers():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    fast, plain = torch.jit.script(net), copy.deepcopy(net)
    for mode in (True, False, True, False):
        found = []
        for model, call in ((plain, plain), (net, fast)):
            model.train(mode)
            torch.manual_seed(0)
            found.append(call(X))
        assert torch.allclose(*found, atol=1e-5)
        for a, b in zip(plain.buffers(), net.buffers(), strict=True):
            assert torch.allclose(a.double(), b.double())
    assert fast.cache_info().compilations == 2


class Method(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.k = k

    def act(self, x):
        return x * 2

    @jitgrad.script
    def forward(self, x):
        return self.act(self.fc(x)) * self.k


class Override(Method):
    def act(self, x):
        return super().act(x) + 1


def test_instances_and_subclasses_of_a_class_with_a_scripted_method():
    for module in (Method(2), Method(2), Method(3), Override(2)):
        expected = module.fc(X) * 2
        assert torch.allclose(module(X), (expected + isinstance(module, Override)) * module.k, atol=1e-5)


def test_copies():
    fast = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    expected = fast(X)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert torch.allclose(other(X), expected)
        assert other.cache_info().compilations == 1
        other[0].weight.data.zero_()
        assert not torch.allclose(other(X), expected)
        assert torch.allclose(fast(X), expected)


def test_nothing_keeps_a_model_alive():
    @jitgrad.script
    def call(model, x):
        return model(x)

    net, method, other = Net(), Method(2), Net()
    fast = torch.jit.script(other)
    call(net, X).sum().backward()
    method(X).sum().backward()
    fast(X).sum().backward()
    entries = Method.__dict__["forward"].cache_info().entries
    dead = [weakref.ref(m) for m in (net, net.fc, method, method.fc, other, other.fc)]
    del net, method, other, fast
    gc.collect()  # the models
    gc.collect()  # what was compiled for them
    assert [d() for d in dead] == [None] * 6
    assert call.cache_info().entries == 0
    assert Method.__dict__["forward"].cache_info().entries == entries - 1
    assert call(Net(), X).shape == (4, 3)


def test_threads():
    @jitgrad.script
    def f(x, n: int):
        for i in range(n):
            x = x * 1.01 + i
        return x.sum()

    wrong = []

    def work(k):
        for n in range(20):
            x, y = (torch.ones(k + 2, requires_grad=True) for _ in range(2))
            f(x, n).backward()
            f.eager(y, n).backward()
            if not torch.allclose(x.grad, y.grad):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert f.cache_info().compilations == 1


# --- what can be scripted --------------------------------------------------------------------------------------------


def test_partials_objects_and_decorated_functions():
    def scaled(x, k, b=1):
        return x * k + b

    class Callable:
        k = 2.0

        def __call__(self, x):
            return x * self.k

    def twice(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs) * 2
        return inner

    x = torch.ones(2)
    assert jitgrad.script(functools.partial(scaled, k=3))(x).tolist() == [4.0, 4.0]
    obj = Callable()
    fast = jitgrad.script(obj)
    assert fast(x).tolist() == [2.0, 2.0]
    obj.k = 5.0
    assert fast(x).tolist() == [5.0, 5.0]
    assert fast.cache_info().compilations == 1
    assert jitgrad.script(twice(scaled))(x, k=3).tolist() == [8.0, 8.0]
    assert jitgrad.script(Net().forward)(X).shape == (4, 3)


def test_no_grad_on_either_side():
    @torch.no_grad()
    @jitgrad.script
    def outside(x):
        return x * 2

    @jitgrad.script
    @torch.no_grad()
    def inside(x):
        return x * 2

    x = torch.ones(1, requires_grad=True)
    assert not outside(x).requires_grad
    assert not inside(x).requires_grad


# --- plain Python ----------------------------------------------------------------------------------------------------


@jitgrad.script
def kind(x):
    return x * 2 if torch.jit.is_scripting() else x * 3


@jitgrad.script
def outer(x):
    return kind(x) + 1


class Around(nn.Module):
    def forward(self, x):
        return outer(x) * 10


def test_eager_modes_reach_everything_that_is_nested():
    fast, x = torch.jit.script(Around()), torch.ones(1)
    assert (outer(x).item(), fast(x).item()) == (3.0, 30.0)
    for scope in (jitgrad.eager_mode(), config.override(jit=False)):
        with scope:
            assert (kind(x).item(), outer(x).item(), fast(x).item()) == (3.0, 4.0, 40.0)
    assert (outer(x).item(), fast(x).item()) == (3.0, 30.0)
    assert kind.eager(x).item() == 3.0
    assert fast.eager(x).item() == 30.0  # this call is plain Python, scripts that it calls are not


def test_a_module_returns_distributions():
    class Policy(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return distributions.Categorical(logits=y), distributions.Normal(y, 1.0)

    model = Policy(3, 4)
    x, found = jitgrad.ones(2, 3), []
    for f in (model, jitgrad.script(model)):
        jitgrad.manual_seed(0)
        chosen, drawn = f(x)
        action = chosen.sample()
        (chosen.log_prob(action).sum() + drawn.rsample().sum()).backward()
        found.append((action.tolist(), repr(chosen), model.weight.grad.sum().item()))
        model.zero_grad()
    assert found[0][:2] == found[1][:2]
    assert found[0][2] == pytest.approx(found[1][2], abs=1e-5)


# --- containers ------------------------------------------------------------------------------------------------------


class Backwards(nn.ModuleList):
    """A loop over it is what `__iter__` says, not what indices find."""

    def __iter__(self):
        return reversed(list(self._modules.values()))


class InTurn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.layers = kind([nn.Linear(3, 3) for _ in range(3)])
        self.scales = nn.ParameterList([nn.Parameter(torch.tensor(float(k))) for k in range(3)])

    def forward(self, x):
        for k, (layer, scale) in enumerate(zip(self.layers, self.scales)):  # noqa: B905  (the second is a generator)
            x = torch.tanh(layer(x)) * scale + k
        return x, [type(m).__name__ for m in self.layers], len(self.layers)


@pytest.mark.parametrize("kind", [nn.ModuleList, Backwards, lambda layers: nn.Sequential(*layers)])
def test_a_loop_over_a_container_is_what_its_class_says(kind):
    net = InTurn(kind)
    expected = net(X)
    fast = torch.script(net)
    for _ in range(2):
        got = fast(X)
        assert torch.allclose(got[0], expected[0], atol=1e-6)
        assert got[1:] == expected[1:]
    net.layers.append(nn.Identity())
    assert torch.allclose(fast(X)[0], net(X)[0], atol=1e-6)
    net.layers[0] = nn.Linear(3, 3)
    assert torch.allclose(fast(X)[0], net(X)[0], atol=1e-6)


# --- sizes of parameters ---------------------------------------------------------------------------------------------


def test_sizes_of_parameters_are_constants_until_one_changes():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    fast = torch.script(net)
    agree(net, fast)
    assert "f32[4, 3]" in str(fast.graph)
    for width in (5, 6, 4, 7):
        net[0].weight, net[0].bias = nn.Parameter(torch.randn(width, 3)), nn.Parameter(torch.randn(width))
        net[2].weight = nn.Parameter(torch.randn(2, width))
        agree(net, fast)
    assert fast.recompilations == ["the size of a parameter that was 4 at the first call is 5"]
    net[2].weight = nn.Parameter(torch.randn(2, 9))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fast(X)


def test_a_parameter_given_as_an_argument_may_have_any_size():
    def f(x, w):
        return x @ w

    fast = torch.script(f)
    for width in (2, 3, 5):
        w = nn.Parameter(torch.randn(3, width))
        assert torch.allclose(fast(X, w), X @ w, atol=1e-6)
    assert fast.cache_info().compilations == 1


def test_a_step_goes_on_when_a_parameter_has_grown():
    net = nn.Linear(3, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    fast = torch.script(step)
    losses = [fast(X).item() for _ in range(3)]
    assert losses[2] < losses[0]
    net.weight, net.bias = nn.Parameter(torch.ones(6, 3)), nn.Parameter(torch.zeros(6))
    optimizer.param_groups.clear()
    optimizer.state.clear()
    optimizer.add_param_group({"params": [net.weight, net.bias]})
    plain = nn.Linear(3, 6)
    plain.load_state_dict(net.state_dict())
    other = torch.optim.Adam(plain.parameters(), lr=0.1)
    for _ in range(3):
        other.zero_grad()
        loss = (plain(X) ** 2).sum()
        loss.backward()
        other.step()
        assert torch.allclose(fast(X), loss, rtol=1e-5)
