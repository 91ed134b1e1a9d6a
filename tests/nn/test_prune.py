"""Pruned tensors: masks as torch makes them, state dicts, gradients, scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn.utils import prune

WEIGHT = np.random.default_rng(0).standard_normal((6, 3, 2, 3))

#: calls on a convolution of which a draw decides nothing
WAYS: dict[str, Any] = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "l1": lambda p, m: p.l1_unstructured(m, "weight", 0.3),
    "l1 twice": lambda p, m: [p.l1_unstructured(m, "weight", amount=a) for a in (0.3, 7)],
    "l1 of scores": lambda p, m: p.l1_unstructured(m, "weight", 5, importance_scores=1 / m.weight),
    "ln": lambda p, m: p.ln_structured(m, "weight", 2, n=2, dim=0),
    "ln of nothing": lambda p, m: p.ln_structured(m, "weight", 0, n=2, dim=0),
    "largest": lambda p, m: p.ln_structured(m, "weight", 0.5, n=float("inf"), dim=-1),
    "smallest": lambda p, m: p.ln_structured(m, "weight", 1, 1, 1, importance_scores=m.weight ** 2),
    "ln twice": lambda p, m: [p.ln_structured(m, "weight", 1, n=n, dim=d) for n, d in ((2, 0), (1, 0), (2, -2))],
    "mixed": lambda p, m: (p.l1_unstructured(m, "weight", 0.3), p.ln_structured(m, "weight", 2, n=2, dim=0),
                           p.l1_unstructured(m, "bias", 2), p.identity(m, "weight")),
    "mask": lambda p, m: (p.custom_from_mask(m, "weight", m.weight > 0), p.custom_from_mask(m, "weight", m.weight < 1)),
    "global": lambda p, m: [p.global_unstructured([(m, "weight"), (m, "bias")], p.L1Unstructured, amount=a)
                            for a in (0.4, 20)],
    "global scores": lambda p, m: p.global_unstructured([(m, "weight"), (m, "bias")], p.L1Unstructured,
                                                        importance_scores={(m, "bias"): m.bias * 100}, amount=9),
    "all of it": lambda p, m: p.random_unstructured(m, "weight", 1.0),
    "removed": lambda p, m: (p.l1_unstructured(m, "weight", 0.3), p.ln_structured(m, "weight", 1, n=2, dim=0),
                             p.l1_unstructured(m, "bias", 1), p.remove(m, "weight")),
}


def convolution(library: Any) -> Any:
    module = library.nn.Conv2d(3, 6, (2, 3)).double()
    with library.no_grad():
        module.weight.copy_(library.tensor(WEIGHT))
        module.bias.copy_(library.tensor(WEIGHT[:, 0, 0, 0]))
    return module


def told(library: Any, module: Any) -> dict[str, Any]:
    """State, gradients, and the tensors that the layer has."""
    module(library.tensor(WEIGHT.reshape(2, 3, 6, 3))).square().sum().backward()
    found = dict(module.state_dict())
    found.update({f"{name}.grad": p.grad for name, p in module.named_parameters()})
    found.update(weight_now=module.weight, bias_now=module.bias)
    return {name: t.detach().numpy() for name, t in found.items()}


@pytest.mark.parametrize("name", WAYS)
def test_against_torch(name: str) -> None:
    theirs = pytest.importorskip("torch.nn.utils.prune")
    torch = pytest.importorskip("torch")
    results = []
    for library, p in ((jitgrad, prune), (torch, theirs)):
        module = convolution(library)
        WAYS[name](p, module)
        results.append(told(library, module))
        assert p.is_pruned(module)
    ours, expected = results
    assert list(ours) == list(expected)
    for key, value in expected.items():
        assert ours[key].dtype == value.dtype
        np.testing.assert_allclose(ours[key], value, rtol=1e-12, atol=1e-12, err_msg=key)


BAD: dict[str, Any] = {
    "share": lambda p, m: p.l1_unstructured(m, "weight", 1.5),
    "negative": lambda p, m: p.L1Unstructured(-1),
    "no number": lambda p, m: p.RandomStructured("a"),
    "too many": lambda p, m: p.l1_unstructured(m, "weight", 10000),
    "too many twice": lambda p, m: [p.l1_unstructured(m, "bias", n) for n in (2, 10000)],
    "vector": lambda p, m: p.ln_structured(m, "bias", 1, 2, 0),
    "dim": lambda p, m: p.random_structured(m, "weight", 1, 7),
    "no such name": lambda p, m: p.identity(m, "nothing"),
    "not pruned": lambda p, m: p.remove(m, "weight"),
    "shape of scores": lambda p, m: p.l1_unstructured(m, "weight", 1, importance_scores=m.bias),
    "shape of mask": lambda p, m: p.custom_from_mask(m, "weight", m.bias),
    "abstract": lambda p, m: p.BasePruningMethod(),
    "no pairs": lambda p, m: p.global_unstructured(3, p.L1Unstructured, amount=1),
    "no dict": lambda p, m: p.global_unstructured([(m, "weight")], p.L1Unstructured, importance_scores=3, amount=1),
    "structured globally": lambda p, m: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=2),
    "no method": lambda p, m: p.PruningContainer().add_pruning_method(3),
    "another name": lambda p, m: p.PruningContainer(p.L1Unstructured.apply(m, "weight", 1)).add_pruning_method(
        p.L1Unstructured.apply(m, "bias", 1)),
    "nothing applied": lambda p, m: p.Identity().apply_mask(m),
    "nothing to remove": lambda p, m: p.Identity().remove(m),
    "scores of another shape": lambda p, m: p.L1Unstructured(1).prune(m.weight, importance_scores=m.bias),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_against_torch(name: str) -> None:
    theirs = pytest.importorskip("torch.nn.utils.prune")
    with pytest.raises(Exception) as expected:  # noqa: PT011  # whatever torch raises
        BAD[name](theirs, pytest.importorskip("torch").nn.Conv2d(3, 6, (2, 3)))
    module = nn.Conv2d(3, 6, (2, 3))
    with pytest.raises(expected.type):
        BAD[name](prune, module)


def test_a_refused_method_changes_nothing() -> None:
    module = nn.Linear(3, 2)
    for kept in (["weight", "bias"], ["bias", "weight_orig", "weight_mask"]):
        with pytest.raises(ValueError, match="should be smaller"):
            prune.l1_unstructured(module, "weight", 100)
        assert list(module.state_dict()) == kept
        assert len(module._forward_pre_hooks) == ("weight_mask" in kept)
        if "weight_mask" not in kept:
            prune.l1_unstructured(module, "weight", 2)


def test_values() -> None:
    t = jitgrad.tensor([[1.0, -3.0, 2.0], [-0.5, 4.0, 0.25]])
    assert prune.L1Unstructured(2).prune(t).tolist() == [[1.0, -3.0, 2.0], [0.0, 4.0, 0.0]]
    assert prune.L1Unstructured(0.5).prune(t, importance_scores=1 / t).tolist() == [[1.0, 0, 0], [-0.5, 0, 0.25]]
    assert prune.LnStructured(1, n=1, dim=1).prune(t).tolist() == [[0.0, -3.0, 2.0], [0.0, 4.0, 0.25]]
    assert prune.LnStructured(0.5, n=2, dim=0).prune(t).tolist() == [[0.0, 0.0, 0.0], [-0.5, 4.0, 0.25]]
    mask = jitgrad.tensor([[1, 0, 1], [0, 1, 1]])
    assert prune.CustomFromMask(mask).prune(t).tolist() == [[1.0, 0.0, 2.0], [0.0, 4.0, 0.25]]
    assert prune.Identity().prune(t, default_mask=mask).tolist() == [[1.0, 0.0, 2.0], [0.0, 4.0, 0.25]]


def test_draws_prune_what_is_left() -> None:
    module = nn.Linear(10, 8)
    for left in (60, 40, 20, 0):
        prune.random_unstructured(module, "weight", 20)
        assert int(module.weight_mask.sum()) == left
    module = nn.Linear(10, 8)
    for rows in (6, 3):
        prune.random_structured(module, "weight", 8 - rows if rows == 6 else 0.5, dim=0)
        assert sorted(set(module.weight_mask.sum(1).tolist())) == [0, 10]
        assert int(module.weight_mask.sum()) == rows * 10
    hook, = [h for h, _ in module._forward_pre_hooks.values()]
    assert isinstance(hook, prune.PruningContainer)
    assert [type(h) for h in hook] == [prune.RandomStructured] * 2
    assert hook[1].dim == 0
    assert len(hook) == 2
    assert hook[0]._tensor_name == "weight"


class Halves(prune.BasePruningMethod):
    """A method of one's own."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_a_method_of_ones_own() -> None:
    module = nn.Linear(3, 2)
    Halves.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0, 1, 0], [1, 0, 1]]
    Halves.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0, 0, 0], [1, 0, 0]]
    Halves.PRUNING_TYPE = "other"
    with pytest.raises(ValueError, match="Unrecognized PRUNING_TYPE other"):
        Halves.apply(module, "weight")
    Halves.PRUNING_TYPE = "structured"
    with pytest.raises(AttributeError, match="`dim`"):
        Halves.apply(module, "weight")
    Halves.PRUNING_TYPE = "unstructured"


def test_training_and_scripts() -> None:
    """Scripts compute the weight as the hook does, from the tensors as they are; one program for all masks."""
    jitgrad.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    prune.l1_unstructured(model[0], "weight", 0.3)
    prune.ln_structured(model[0], "weight", 1, n=2, dim=0)
    prune.custom_from_mask(model[2], "bias", jitgrad.tensor([0.0, 1.0]))
    scripted, x = jitgrad.script(model), jitgrad.randn(5, 3)
    optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        results = []
        for call in (model, scripted):
            optimizer.zero_grad()
            y = call(x)
            y.square().sum().backward()
            results.append([t.numpy().copy() for t in (y.detach(), *[p.grad for p in model.parameters()])])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        optimizer.step()
        model[0].weight_mask.mul_(jitgrad.tensor([1.0, 1.0, 0.0]))
    assert scripted.cache_info().compilations == 1
    grad = model[0].weight_orig.grad
    assert bool((grad[:, 2] == 0).all())
    expected = model(x).detach()
    prune.remove(model[0], "weight")
    assert [n for n, _ in model.named_parameters()] == ["0.bias", "0.weight", "2.weight", "2.bias_orig"]
    np.testing.assert_allclose(scripted(x).detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert prune.is_pruned(model)
    assert not prune.is_pruned(model[0])


def test_state_dict_into_another_pruned_module() -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    prune.l1_unstructured(one, "weight", 3)
    prune.identity(other, "weight")
    other.load_state_dict(one.state_dict())
    x = jitgrad.randn(4, 3)
    assert bool((one(x) == other(x)).all())
