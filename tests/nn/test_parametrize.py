"""Weights that are functions of other tensors, eager and in scripts, and layers folded into those before them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class Split(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a + b

    def right_inverse(self, x: Any) -> Any:
        return x / 2, x / 2


def test_properties() -> None:
    layer = nn.Linear(3, 3)
    before, parameter = layer.weight.detach().clone(), layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert parametrize.is_parametrized(layer, "weight")
    assert parametrize.is_parametrized(layer)
    assert not parametrize.is_parametrized(layer, "bias")
    assert layer.parametrizations.weight.original is parameter, "the optimizer's"
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert bool((layer.weight == layer.weight.mT).all())
    assert bool((layer.weight.triu() == before.triu()).all())
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    parametrize.register_parametrization(layer, "weight", Scaled())
    assert bool((layer.weight.triu() == 2 * before.triu()).all())
    with pytest.raises(RuntimeError, match="Scaled does not implement right_inverse"):
        layer.weight = before
    layer(jitgrad.ones(2, 3)).sum().backward()
    assert parameter.grad is not None
    assert bool((parameter.grad.tril(-1) == 0).all())
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is parameter
    assert bool((layer.weight == value).all())


def test_assignment_and_several_originals() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    new = jitgrad.arange(9.0).reshape(3, 3)
    layer.weight = new
    assert bool((layer.weight.triu() == new.triu()).all())
    layer = nn.Linear(2, 2)
    value = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Split())
    chain = layer.parametrizations.weight
    assert (chain.is_tensor, chain.ntensors) == (False, 2)
    assert bool((layer.weight == value).all())
    assert {n for n, _ in layer.named_parameters()} == {
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1"}
    layer.weight = value * 4
    assert bool((chain.original1 == value * 2).all())
    other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 2))
    assert other.parametrizations.weight.original0 is chain.original0
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert bool((layer.weight == value * 4).all())


def test_buffers_copies_and_regions() -> None:
    module = nn.BatchNorm1d(3)
    parametrize.register_parametrization(module, "running_mean", Scaled())
    assert "parametrizations.running_mean.original" in dict(module.named_buffers())
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    copied = copy.deepcopy(layer)
    copied.load_state_dict(layer.state_dict())
    assert bool((copied.weight == layer.weight).all())
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


class Narrow(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[:, :1]


class Wide(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.double()


class Nothing(nn.Module):
    def forward(self, x: Any) -> Any:
        return 3


@pytest.mark.parametrize(("function", "message"), [
    (Narrow, "may not change the shape of the tensor, unless (the )?`unsafe` flag"), (Wide, "may not change the dtype"),
    (Nothing, "A parametrization must return a tensor. Got int")])
@pytest.mark.parametrize("second", [False, True])
def test_what_changes_the_tensor_is_refused(function: Any, message: str, second: bool) -> None:
    layer = nn.Linear(3, 2)
    if second:
        parametrize.register_parametrization(layer, "weight", Scaled())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", function())


def test_names() -> None:
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element with name"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weights", Scaled())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'w'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "w")


# --- the three of the library --------------------------------------------------------------------------------------

WAYS = {
    "weight_norm": lambda u, layer: u.parametrizations.weight_norm(layer),
    "weight_norm whole": lambda u, layer: u.parametrizations.weight_norm(layer, dim=None),
    "weight_norm 1": lambda u, layer: u.parametrizations.weight_norm(layer, dim=1),
    "spectral_norm": lambda u, layer: u.parametrizations.spectral_norm(layer),
    "spectral_norm 1": lambda u, layer: u.parametrizations.spectral_norm(layer, n_power_iterations=3, dim=1),
    "matrix_exp": lambda u, layer: u.parametrizations.orthogonal(layer, orthogonal_map="matrix_exp"),
    "cayley": lambda u, layer: u.parametrizations.orthogonal(layer, orthogonal_map="cayley"),
    "householder": lambda u, layer: u.parametrizations.orthogonal(layer, orthogonal_map="householder"),
    "householder alone": lambda u, layer: u.parametrizations.orthogonal(
        layer, orthogonal_map="householder", use_trivialization=False),
    "older spectral_norm": lambda u, layer: u.spectral_norm(layer, n_power_iterations=2),
}
SHAPES = [(4, 3), (3, 4), (3, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", WAYS)
def test_steps_against_torch(name: str, shape: tuple[int, int]) -> None:
    """Losses of three steps of training from the same state."""
    torch = pytest.importorskip("torch")
    ours, theirs = [WAYS[name](library.nn.utils, library.nn.Linear(*shape).double()) for library in (jitgrad, torch)]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, shape[0]))
    losses = []
    for library, layer in ((jitgrad, ours), (torch, theirs)):
        optimizer, told = library.optim.SGD(layer.parameters(), lr=0.1), []
        for _ in range(3):
            loss = (layer(library.tensor(x)) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            told.append(float(loss.detach()))
        told.append(layer.eval()(library.tensor(x)).detach().numpy())
        losses.append(told)
    for a, b in zip(*losses, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", WAYS)
def test_steps_in_scripts(name: str) -> None:
    layer = WAYS[name](nn.utils, nn.Linear(4, 3).double())
    other = copy.deepcopy(layer)
    x = jitgrad.tensor(np.random.default_rng(0).standard_normal((5, 4)))

    def step(layer: Any, optimizer: Any, x: Any) -> Any:
        loss = (layer(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    scripted = jitgrad.script(step)
    found = []
    for run, module in ((step, layer), (scripted, other)):
        optimizer = jitgrad.optim.SGD(module.parameters(), lr=0.1)
        found.append([float(run(module, optimizer, x)) for _ in range(3)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    assert found[0][0] != found[0][-1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
def test_columns_stay_orthogonal(shape: tuple[int, int], way: str) -> None:
    layer = parametrizations.orthogonal(nn.Linear(*shape).double(), orthogonal_map=way)
    optimizer = jitgrad.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(3):
        layer(jitgrad.ones(2, shape[0], dtype=jitgrad.float64)).square().sum().backward()
        optimizer.step()
    w = layer.weight.detach()
    small = w @ w.mT if w.shape[0] < w.shape[1] else w.mT @ w
    np.testing.assert_allclose(small.numpy(), np.eye(min(shape)), atol=1e-12)
    target = jitgrad.tensor(np.linalg.qr(np.random.default_rng(1).standard_normal(tuple(w.shape)[::-1]))[0]).mT
    if w.shape[0] > w.shape[1]:
        target = jitgrad.tensor(np.linalg.qr(np.random.default_rng(1).standard_normal(tuple(w.shape)))[0])
    layer.weight = target
    np.testing.assert_allclose(layer.weight.detach().numpy(), target.numpy(), atol=1e-12)


def test_spectral_norm_is_the_largest_singular_value() -> None:
    for layer in (nn.Linear(6, 4), nn.Conv2d(3, 4, 2), nn.ConvTranspose1d(3, 5, 2)):
        parametrizations.spectral_norm(layer, n_power_iterations=50)
        w = layer.weight.detach()
        w = w.transpose(0, 1) if isinstance(layer, nn.ConvTranspose1d) else w
        np.testing.assert_allclose(float(jitgrad.linalg.matrix_norm(w.flatten(1), 2)), 1, rtol=1e-3)
    module = nn.Module()
    module.weight = nn.Parameter(jitgrad.tensor([3.0, 4.0]))
    np.testing.assert_allclose(parametrizations.spectral_norm(module).weight.tolist(), [0.6, 0.8], rtol=1e-6)


def test_errors() -> None:
    with pytest.raises(ValueError, match="n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    layer = parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        layer.weight = jitgrad.eye(2)


# --- the older ways ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, None])
def test_older_weight_norm(dim: int | None) -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match="deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`"):
        nn.utils.weight_norm(layer, dim=dim)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), rtol=1e-6)
    layer.weight_g.data = layer.weight_g.data * 2
    layer(jitgrad.ones(1, 3)).sum().backward()
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * before.numpy(), rtol=1e-6)
    assert layer.weight_g.grad is not None
    newer = parametrizations.weight_norm(nn.Linear(3, 2), dim=dim)
    newer.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(newer.weight.detach().numpy(), layer.weight.detach().numpy(), rtol=1e-6)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(layer)


def test_older_spectral_norm() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=30)
    layer(jitgrad.ones(1, 4))
    np.testing.assert_allclose(float(jitgrad.linalg.matrix_norm(layer.weight.detach(), 2)), 1, rtol=1e-3)
    value = layer.eval()(jitgrad.ones(1, 4)).detach()
    nn.utils.remove_spectral_norm(layer)
    assert {n for n, _ in layer.named_parameters()} == {"weight", "bias"}
    assert not list(layer.named_buffers())
    np.testing.assert_allclose(layer(jitgrad.ones(1, 4)).detach().numpy(), value.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        nn.utils.spectral_norm(nn.LazyLinear(2))


# --- fusion and the rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_fusion(bias: bool, affine: bool) -> None:
    for layer, bn, shape in ((nn.Conv2d(3, 4, 2, bias=bias), nn.BatchNorm2d(4, affine=affine), (2, 3, 5, 5)),
                             (nn.ConvTranspose1d(3, 4, 2, bias=bias), nn.BatchNorm1d(4, affine=affine), (2, 3, 5)),
                             (nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(4), (5, 3))):
        x = jitgrad.rand(shape)
        bn(layer(x))
        linear = isinstance(layer, nn.Linear)
        fuse = nn.utils.fuse_linear_bn_eval if linear else nn.utils.fuse_conv_bn_eval
        with pytest.raises(AssertionError, match="Fusion only for eval!"):
            fuse(layer, bn)
        layer.eval(), bn.eval()
        if isinstance(layer, nn.ConvTranspose1d):
            fused = nn.utils.fuse_conv_bn_eval(layer, bn, transpose=True)
        else:
            fused = fuse(layer, bn)
        assert type(fused) is type(layer)
        np.testing.assert_allclose(fused(x).detach().numpy(), bn(layer(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_modules_without_filling() -> None:
    jitgrad.manual_seed(3)
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert type(layer) is nn.Linear
    assert layer.weight.shape == (2, 3)
    drawn = jitgrad.rand(2)
    jitgrad.manual_seed(3)
    assert bool((jitgrad.rand(2) == drawn).all()), "nothing was drawn"
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(dict)


def test_clipping_with_a_norm() -> None:
    layer = nn.Linear(3, 2)
    layer(jitgrad.ones(2, 3)).square().sum().backward()
    total = nn.utils.get_total_norm([p.grad for p in layer.parameters()])
    nn.utils.clip_grads_with_norm_(layer.parameters(), 0.5, total)
    again = nn.utils.get_total_norm([p.grad for p in layer.parameters()])
    np.testing.assert_allclose(float(again), min(0.5, float(total)), rtol=1e-4)
    nn.utils.clip_grads_with_norm_([nn.Parameter(jitgrad.ones(1))], 1.0, total)
    with pytest.warns(FutureWarning, match="in favor of `torch.nn.utils.clip_grad_norm_`"):
        nn.utils.clip_grad_norm(layer.parameters(), 1.0)


def test_stateless_calls() -> None:
    layer = nn.Linear(3, 2)
    other = {"weight": jitgrad.ones(2, 3), "bias": jitgrad.zeros(2)}
    with pytest.warns(FutureWarning, match="torch.func.functional_call"):
        y = nn.utils.stateless.functional_call(layer, other, jitgrad.ones(1, 3))
    assert y.tolist() == [[3.0, 3.0]]
