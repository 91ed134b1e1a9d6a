"""`interpolate` of bytes, and of images that become smaller: PyTorch's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

F = nn.functional

#: arguments, and what PyTorch makes of `image`: of bytes; of float64, where it is antialiased
RECORDED: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"size": (3, 3), "mode": "bilinear"}, [[31, 81, 95], [103, 153, 97], [174, 119, 64]], []),
    ({"size": (2, 5), "mode": "bicubic"}, [[83, 107, 153, 130, 42], [107, 146, 100, 65, 121]], []),
    ({"size": (2, 5), "mode": "bicubic", "align_corners": True}, [[0, 25, 56, 86, 111], [193, 244, 123, 2, 53]], []),
    ({"size": (3, 2), "mode": "bilinear", "antialias": True}, [[70, 97], [123, 128], [150, 82]],
     [[70.82857142857142, 96.7], [122.92857142857142, 127.28571428571428], [149.9285714285714, 82.57142857142857]]),
    ({"size": (2, 3), "mode": "bicubic", "antialias": True}, [[73, 130, 93], [140, 126, 87]],
     [[72.59261115418802, 130.3191703476774, 93.26505853206498],
      [140.51456209694197, 125.89557506887053, 86.51407038977247]]),
]


def image() -> Any:
    return ((jitgrad.arange(16) * 37) % 251).to(jitgrad.uint8).reshape(1, 1, 4, 4)


def resized(x: Any, size: tuple[int, int], mode: str, corners: bool, antialias: bool) -> Any:
    return F.interpolate(x, size=size, mode=mode, align_corners=corners, antialias=antialias)


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(("how", "of_bytes", "of_floats"), RECORDED)
def test_recorded(how: dict[str, Any], of_bytes: list[Any], of_floats: list[Any], scripted: bool) -> None:
    function = jitgrad.script(resized) if scripted else resized
    arguments = how["size"], how["mode"], how.get("align_corners", False), how.get("antialias", False)
    found = function(image(), *arguments)
    assert found.dtype is jitgrad.uint8
    assert found[0, 0].tolist() == of_bytes
    if of_floats:
        np.testing.assert_allclose(function(image().double(), *arguments)[0, 0].numpy(), of_floats, 1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_has_a_gradient(mode: str) -> None:
    x = jitgrad.randn(1, 2, 7, 6, dtype=jitgrad.float64).requires_grad_()
    assert jitgrad.autograd.gradcheck(lambda x: resized(x, (3, 8), mode, False, True), (x,))


@pytest.mark.parametrize("corners", [False, True])
def test_a_constant_stays(corners: bool) -> None:
    for mode in ("bilinear", "bicubic"):
        for value in (0, 1, 200, 255):
            x = jitgrad.full((1, 1, 5, 9), value, dtype=jitgrad.uint8)
            for antialias in (False, True):
                assert (resized(x, (7, 4), mode, corners, antialias) == value).all()


def test_antialias_is_for_images() -> None:
    for x, mode in ((jitgrad.ones(1, 1, 4), "linear"), (jitgrad.ones(1, 1, 4, 4), "nearest")):
        with pytest.raises(ValueError, match="Anti-alias option is restricted to bilinear and bicubic"):
            F.interpolate(x, size=2, mode=mode, antialias=True)
