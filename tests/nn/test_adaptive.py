"""The softmax of classes in clusters, neighbours' norms, and the older names of initialisations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

RNG = np.random.default_rng(0)
X, TARGET = RNG.standard_normal((7, 8)), np.array([0, 1, 2, 5, 9, 4, 3])


@pytest.mark.parametrize("scripted", [False, True])
def test_log_softmax_of_clusters(scripted: bool) -> None:
    """The probabilities of all classes add up to one, and the output has those of the targets."""
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], 2.0, dtype=jitgrad.float64)
    run: Any = jitgrad.script(layer) if scripted else layer
    every = layer.log_prob(jitgrad.tensor(X))
    np.testing.assert_allclose(every.exp().sum(1).detach().numpy(), np.ones(7))
    for target in (TARGET, np.zeros(7, np.int64), np.full(7, 9)):  # also where clusters are empty
        x = jitgrad.tensor(X, requires_grad=True)
        output, loss = run(x, jitgrad.tensor(target))
        expected = every.gather(1, jitgrad.tensor(target)[:, None])[:, 0]
        np.testing.assert_allclose(output.detach().numpy(), expected.detach().numpy())
        np.testing.assert_allclose(float(loss.detach()), -float(expected.detach().mean()))
        loss.backward()
        other = jitgrad.tensor(X, requires_grad=True)
        (-layer.log_prob(other).gather(1, jitgrad.tensor(target)[:, None]).mean()).backward()
        np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), atol=1e-12)
    assert bool((layer.predict(jitgrad.tensor(X)) == every.argmax(1)).all())
    one = layer(jitgrad.tensor(X[0]), jitgrad.tensor(3))
    assert one.output.shape == ()
    np.testing.assert_allclose(float(one.loss.detach()), -float(every[0, 3].detach()))


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    layers = [library.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], 2.0, head_bias=True) for library in (jitgrad, torch)]
    layers[0].load_state_dict({k: v.numpy() for k, v in layers[1].state_dict().items()})
    assert repr(layers[0]) == repr(layers[1])
    found = []
    for library, layer in zip((jitgrad, torch), layers, strict=True):
        output, loss = layer(library.tensor(X.astype(np.float32)), library.tensor(TARGET))
        loss.backward()
        found.append([output.detach().numpy(), *[p.grad.numpy() for p in layer.parameters()]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for size in (3, 4, 5):
        x = RNG.standard_normal((2, 6, 3, 3))
        ours, theirs = [library.nn.CrossMapLRN2d(size, 0.3)(library.tensor(x)).numpy() for library in (jitgrad, torch)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_neighbours() -> None:
    """Up to the channel that the first one still counts for, a norm over neighbours as the paper has it."""
    x = jitgrad.tensor(RNG.standard_normal((2, 6, 3, 3)))
    near, all_ = nn.CrossMapLRN2d(5, 0.3)(x), nn.LocalResponseNorm(5, 0.3)(x)
    np.testing.assert_allclose(near[:, :3].numpy(), all_[:, :3].numpy())
    with pytest.raises(ValueError, match="to be 4D, got 3D"):
        nn.CrossMapLRN2d(3)(x[0])


@pytest.mark.parametrize("cutoffs", [[], [5, 4], [10], [2, 2], [0]])
def test_cutoffs(cutoffs: list[int]) -> None:
    with pytest.raises(ValueError, match="cutoffs should be a sequence of"):
        nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs)


def test_targets() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2])
    with pytest.raises(RuntimeError, match=r"should be in \[0, 9\], but values in range \[1, 10\]"):
        layer(jitgrad.ones(2, 4), jitgrad.tensor([1, 10]))
    for x, target in (((2, 4), (3,)), ((1, 2, 4), (1,)), ((2, 4), ()), ((2, 4), (2, 1))):
        with pytest.raises(RuntimeError, match="target"):
            layer(jitgrad.ones(x), jitgrad.zeros(target, dtype=jitgrad.int64))


@pytest.mark.parametrize("name", ["uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal",
                                  "kaiming_uniform", "kaiming_normal", "orthogonal", "sparse"])
def test_older_names_of_initialisations(name: str) -> None:
    args = {"constant": (0.5,), "sparse": (0.5,)}.get(name, ())
    x = jitgrad.empty(3, 4, 2) if name == "dirac" else jitgrad.empty(3, 4)
    jitgrad.manual_seed(0)
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
        found = getattr(nn.init, name)(x, *args)
    assert found is x
    jitgrad.manual_seed(0)
    assert bool((getattr(nn.init, name + "_")(jitgrad.empty_like(x), *args) == x).all())
