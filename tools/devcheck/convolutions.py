"""Convolutions of bfloat16 both ways: columns gathered by the kernel that multiplies, and columns in memory."""

from __future__ import annotations

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


def timed(way: str, net: Any, x: Any) -> tuple[float, Any]:
    """Microseconds of one way, and the results."""
    script = jitgrad.script(lambda net, x: net(x))
    with mock.patch.multiple(tiled, **WAYS[way]), config.override(cache=""), jitgrad.no_grad():
        us = benchmarks.measured(lambda: script(net, x), jitgrad.cuda.synchronize)
        return us, benchmarks.numbers(jitgrad, script(net, x))


def row(name: str) -> dict[str, Any]:
    """A layer's row: gathered columns, beside columns in memory."""
    image, weight, stride = LAYERS[name]
    x, w = (wave(jitgrad, "cuda", *shape, by=by, dtype=jitgrad.bfloat16)
            for shape, by in ((image, 0.37), (weight, 0.21)))
    net = jitgrad.nn.Conv2d(weight[1], weight[0], weight[2:], stride, weight[-1] // 2, bias=False)
    net.weight = jitgrad.nn.Parameter(w)
    (us, mine), (other, theirs) = (timed(way, net, x) for way in WAYS)
    flops, moved = 2 * mine.size * np.prod(weight[1:]), 2 * (np.prod(image) + np.prod(weight) + mine.size)
    return {"name": f"{name}, bfloat16, columns gathered", "us": us, "peers": {"columns": other},
            "floor_us": 1e6 * max(flops / FLOPS, moved / BANDWIDTH),
            "error": float(np.abs(mine - theirs).max() / np.abs(theirs).max())}


@check(cap=150.0, alone=True, shares=True)
def both_ways() -> Facts:
    """Layers of nets, forward: where columns in memory take longer than gathering them."""
    rows: list[dict[str, Any]] = []
    for name in LAYERS:
        rows.append(row(name))
        so_far({"rows": rows})
    return {"rows": rows}
