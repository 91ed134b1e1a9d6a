"""Convolution layers: geometry, text and messages; eager and scripted alike, whichever the padding."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

LAYERS = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9), (2, 6, 5)),
    "Conv1d_same": (lambda: nn.Conv1d(2, 3, 4, padding="same", dilation=2), (2, 9), (3, 9)),
    "Conv2d_valid": (lambda: nn.Conv2d(2, 3, (2, 3), padding="valid", bias=False), (1, 2, 5, 6), (1, 3, 4, 4)),
    "Conv2d_reflect": (lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"), (1, 2, 5, 6), (1, 3, 5, 8)),
    "Conv2d_circular_same": (lambda: nn.Conv2d(1, 1, 2, padding="same", padding_mode="circular"), (1, 4, 4), (1, 4, 4)),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2, padding_mode="replicate", padding=1), (1, 1, 2, 3, 2), (1, 2, 3, 4, 3)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 4, 3, stride=2, output_padding=1), (1, 2, 4), (1, 4, 10)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, groups=2), (2, 3, 3), (4, 5, 5)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(1, 1, 2, dilation=2), (1, 1, 2, 2, 2), (1, 1, 4, 4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("interpret", [False, True])
def test_shapes_values_and_gradients(name: str, interpret: bool) -> None:
    make, size, expected = LAYERS[name]
    layer = make()
    twin = copy.deepcopy(layer)
    x = jitgrad.randn(size)
    result = layer(x)
    assert tuple(result.shape) == expected
    result.square().sum().backward()
    with jitgrad.config.override(interpret=interpret):
        scripted = jitgrad.script(twin)(x)
        scripted.square().sum().backward()
    np.testing.assert_allclose(scripted.detach().numpy(), result.detach().numpy(), rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(layer.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(theirs.grad.numpy(), ours.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_output_size_of_a_transposed_convolution() -> None:
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2)
    x = jitgrad.ones(1, 1, 3, 3)
    assert tuple(layer(x, output_size=(8, 7)).shape) == (1, 1, 8, 7)
    assert tuple(layer(x, output_size=(1, 1, 7, 8)).shape) == (1, 1, 7, 8)
    with pytest.raises(ValueError, match=r"valid sizes range from \[7, 7\] to \[8, 8\]"):
        layer(x, output_size=(9, 7))
    with pytest.raises(ValueError, match="must have 2 or 4 elements"):
        layer(x, output_size=(7,))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nn.Conv1d(2, 2, 1, groups=0), "groups must be a positive"),
    (lambda: nn.Conv1d(3, 2, 1, groups=2), "in_channels must be divisible"),
    (lambda: nn.Conv1d(2, 3, 1, groups=2), "out_channels must be divisible"),
    (lambda: nn.Conv1d(2, 2, 3, stride=2, padding="same"), "not supported for strided"),
    (lambda: nn.Conv1d(2, 2, 3, padding="full"), "Invalid padding string 'full'"),
    (lambda: nn.Conv1d(2, 2, 3, padding_mode="mirror"), "padding_mode must be one of"),
    (lambda: nn.ConvTranspose1d(2, 2, 3, padding_mode="reflect"), 'Only "zeros" padding mode'),
])
def test_refused_geometry(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_text_names_what_is_not_the_default() -> None:
    assert repr(nn.Conv2d(1, 2, 3)) == "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))"
    assert repr(nn.Conv1d(2, 2, 3, padding="same", dilation=2, groups=2, bias=False, padding_mode="circular")) == (
        "Conv1d(2, 2, kernel_size=(3,), stride=(1,), padding=same, dilation=(2,), groups=2, bias=False, "
        "padding_mode=circular)")
