"""Convolutions of bfloat16 both ways: columns gathered by the kernel that multiplies, and columns in memory."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import numpy as np

import jitgrad
from jitgrad import config
from jitgrad.codegen.lower.device import tiled
from tools.devcheck import benchmarks
from tools.devcheck.checks import Facts, check, so_far
from tools.devcheck.workloads import BANDWIDTH, FLOPS, wave

#: the bounds of `lower/device/tiled.py` for which no convolution has columns in memory, and for which all have
WAYS: dict[str, dict[str, Any]] = {"gathered": {"SHALLOW": 1 << 62}, "columns": {"SHALLOW": 0, "CACHE": 1 << 62}}
#: images, weight, stride
LAYERS = {"ResNet's stem": ((64, 3, 224, 224), (64, 3, 7, 7), 2),
          "VGG's first": ((64, 3, 224, 224), (64, 3, 3, 3), 1),
          "VGG's second": ((16, 64, 224, 224), (64, 64, 3, 3), 1),
          "ResNet's 56 x 56": ((64, 64, 56, 56), (64, 64, 3, 3), 1),
          "ResNet's 28 x 28": ((64, 128, 28, 28), (128, 128, 3, 3), 1),
          "ResNet's 7 x 7": ((64, 512, 7, 7), (512, 512, 3, 3), 1)}


def results(net: Any, x: Any, g: Any) -> Any:
    """The layer, forward."""
    with jitgrad.no_grad():
        return net(x)


def weight(net: Any, x: Any, g: Any) -> Any:
    """The gradient of the weight."""
    return jitgrad.autograd.grad(net(x), (net.weight,), g)[0]


def images(net: Any, x: Any, g: Any) -> Any:
    """The gradient of the images."""
    return jitgrad.autograd.grad(net(x), (x,), g)[0]


MADE = {"forward": results, "gradient of the weight": weight, "gradient of images": images}


def timed(way: str, made: Any, *given: Any) -> tuple[float, Any]:
    """Microseconds of one way, and the results."""
    script = jitgrad.script(made)
    with mock.patch.multiple(tiled, **WAYS[way]), config.override(cache=""):
        us = benchmarks.measured(lambda: script(*given), jitgrad.cuda.synchronize)
        return us, benchmarks.numbers(jitgrad, script(*given))


def row(name: str, of: str) -> dict[str, Any]:
    """A row of what a layer makes: gathered columns, beside columns in memory."""
    image, weight, stride = LAYERS[name]
    result = *image[:1], *weight[:1], *[(n + 2 * (weight[-1] // 2) - weight[-1]) // stride + 1 for n in image[2:]]
    x, w, g = (wave(jitgrad, "cuda", *shape, by=by, dtype=jitgrad.bfloat16)
               for shape, by in ((image, 0.37), (weight, 0.21), (result, 0.29)))
    net = jitgrad.nn.Conv2d(weight[1], weight[0], weight[2:], stride, weight[-1] // 2, bias=False)
    net.weight = jitgrad.nn.Parameter(w)
    (us, mine), (other, theirs) = (timed(way, MADE[of], net, x.requires_grad_(), g) for way in WAYS)
    numbers = [int(np.prod(shape)) for shape in (image, weight, result)]
    flops, moved = 2 * numbers[2] * np.prod(weight[1:]), 2 * sum(numbers)
    return {"name": f"{name}, {of}, bfloat16, columns gathered", "us": us, "peers": {"columns": other},
            "floor_us": 1e6 * max(flops / FLOPS, moved / BANDWIDTH),
            "error": float(np.abs(mine - theirs).max() / np.abs(theirs).max())}


@check(cap=300.0, alone=True, shares=True)
def both_ways() -> Facts:
    """Layers of nets, and their gradients: where columns in memory take longer than gathering them."""
    rows: list[dict[str, Any]] = []
    for name, of in itertools.product(LAYERS, MADE):
        rows.append(row(name, of))
        so_far({"rows": rows})
    return {"rows": rows}
