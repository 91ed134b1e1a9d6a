"""Layers that learn their sizes from their first input, and buffers by assignment."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

LAYERS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("Linear", (3,), (2, 5)), ("Conv1d", (3, 2), (2, 4, 6)), ("Conv2d", (3, 2), (4, 5, 6)),
    ("Conv3d", (3, 2), (1, 2, 3, 3, 3)), ("ConvTranspose1d", (3, 2), (2, 4, 6)),
    ("ConvTranspose2d", (3, 2), (2, 4, 3, 3)),
    ("ConvTranspose3d", (3, 2), (1, 2, 3, 3, 3)), ("BatchNorm1d", (), (4, 3)), ("BatchNorm2d", (), (2, 3, 2, 2)),
    ("BatchNorm3d", (), (2, 3, 2, 2, 2)), ("InstanceNorm1d", (), (2, 3, 4)), ("InstanceNorm2d", (), (2, 3, 2, 2)),
    ("InstanceNorm3d", (), (2, 3, 2, 2, 2))]


@pytest.mark.parametrize(("name", "args", "shape"), LAYERS, ids=[layer[0] for layer in LAYERS])
def test_layers(name: str, args: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    how = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
    lazy = getattr(nn, f"Lazy{name}")(*args, **how).double()
    whole = getattr(nn, name)
    x = jitgrad.rand(shape, dtype=jitgrad.float64)
    assert lazy.has_uninitialized_params()
    assert repr(lazy).startswith(f"Lazy{name}(")
    copied = copy.deepcopy(lazy)
    y = lazy(x)
    assert type(lazy) is whole
    assert all(p.dtype is jitgrad.float64 for p in lazy.parameters())
    channels = shape[1] if len(shape) > len(lazy.weight.shape) - 1 and name != "Linear" else shape[-1]
    plain = whole(channels if len(shape) != 3 or name != "Conv2d" else shape[0], *args, **how).double()
    plain.load_state_dict(lazy.state_dict())
    if "Norm" not in name:
        np.testing.assert_allclose(plain(x).detach().numpy(), y.detach().numpy())
    assert repr(plain) == repr(lazy)
    copied.load_state_dict(plain.state_dict())
    assert not copied.has_uninitialized_params()
    np.testing.assert_allclose(copied.eval()(x).detach().numpy(), plain.eval()(x).detach().numpy())
    y.sum().backward()
    assert all(p.grad is not None for p in lazy.parameters())


def test_training_and_scripts() -> None:
    net = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    optimizer = jitgrad.optim.SGD(net.parameters(), lr=0.1)
    x = jitgrad.rand(2, 4, 5, 5)
    net(x).sum().backward()
    before = [p.detach().clone() for p in net.parameters()]
    optimizer.step()
    assert any(bool((p != b).any()) for p, b in zip(net.parameters(), before, strict=True)), "the optimizer has them"
    np.testing.assert_allclose(jitgrad.script(net.eval())(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-5)


def test_states_without_shapes() -> None:
    lazy = nn.LazyLinear(3)
    state = lazy.state_dict()
    assert repr(state["weight"]) == "<UninitializedParameter>"
    nn.LazyLinear(3).load_state_dict(state)
    again = pickle.loads(pickle.dumps(lazy))
    assert again(jitgrad.ones(1, 4)).shape == (1, 3)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        nn.Linear(2, 3).load_state_dict(state)


def test_nothing_can_be_computed_with_them() -> None:
    p = nn.UninitializedParameter(dtype=jitgrad.float64)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        p + 1
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        _ = p.shape
    assert p.requires_grad
    assert p.dtype is jitgrad.float64
    p.materialize((2, 3))
    assert type(p) is nn.Parameter
    assert (p.shape, p.dtype, p.requires_grad) == ((2, 3), jitgrad.float64, True)
    b = nn.UninitializedBuffer()
    b.materialize((2,))
    assert type(b) is jitgrad.Tensor


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        nn.LazyConv2d(3, 2)(jitgrad.ones(2, 2))
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.LazyBatchNorm2d()(jitgrad.ones(2, 3))
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.LazyConv1d(4, 2, groups=2)(jitgrad.ones(1, 3, 5))

    class Unfinished(nn.lazy.LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Unfinished"):
        Unfinished()(jitgrad.ones(1))

    class Idle(Unfinished):
        def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
            pass

    with pytest.raises(RuntimeError, match="module Idle has not been fully initialized"):
        Idle()(jitgrad.ones(1))


def test_buffers_by_assignment() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = nn.Buffer(jitgrad.ones(2))
            self.passing = nn.Buffer(jitgrad.zeros(2), persistent=False)

    counter = Counter()
    assert isinstance(counter.kept, nn.Buffer)
    assert not isinstance(jitgrad.ones(2), nn.Buffer)
    assert [name for name, _ in counter.named_buffers()] == ["kept", "passing"]
    assert list(counter.state_dict()) == ["kept"]
    counter.kept = jitgrad.zeros(2)
    assert counter.get_buffer("kept").sum() == 0
    assert counter.double().kept.dtype is jitgrad.float64


def test_instance_norms_are_affine_by_default() -> None:
    """Unlike the plain ones, as in torch."""
    assert sorted(nn.LazyInstanceNorm2d().state_dict()) == sorted(nn.LazyBatchNorm2d().state_dict())
