"""Convolutions and pooling on a device: against the interpreter, and in how many launches."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes, nn
from jitgrad.codegen.cuda.driver import blaslt
from jitgrad.codegen.cuda.host.gpu import compile
from jitgrad.codegen.cuda.kernels import text
from jitgrad.codegen.cuda.kernels.tiled import convolution
from jitgrad.codegen.cuda.kernels.tiled.library import library
from jitgrad.codegen.lower.device import conv
from jitgrad.codegen.lower.rules import taps
from jitgrad.nn import functional as F
from jitgrad.script.graph.ir import Graph
from tests.codegen import programs
from tests.codegen.cuda import host, machinecode
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.programs import graph, sizes, tensor
from tests.cuda.hosted import gpu

pytestmark = host.emulated


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Programs are compiled for the device, where dead memory is NaN."""
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver()))
    with config.override(debug_arena=True):
        yield


def three(w: tuple[int, ...], d: Any = dtypes.float32, **how: Any) -> Graph:
    """A convolution and both of its gradients, for any image."""
    rank = len(w) - 2
    N, C, *spatial = sizes("N C H W D"[:2 * rank + 3])

    def body(F: Any, x: Any, w: Any, g: Any) -> Any:
        y = F.conv(x, w, **how)
        return (y, F.conv_transpose(F.add(y, y), w, shape=x.shape, **how),
                F.conv_weight(F.add(y, y), x, shape=w.shape, **how), g)

    return graph(body, tensor(N, C, *spatial, dtype=d), tensor(*w, dtype=d), tensor(N, dtype=d))


def attrs(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int = 1) -> dict[str, Any]:
    return {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}


#: the weight's shape, stride, padding, dilation, groups; images
CASES: list[Any] = [
    ((4, 3, 3, 2), ((2, 1), (1, 0), (1, 2)), [(7, 3, 7, 6), (0, 3, 5, 5), (33, 3, 3, 4)]),
    ((4, 2, 3, 3), ((1, 1), (1, 1), (1, 1), 2), [(2, 4, 5, 7)]),
    ((6, 1, 3, 3), ((2, 1), (1, 2), (1, 2), 6), [(2, 6, 7, 8), (0, 6, 7, 7)]),
    ((6, 1, 2, 3), ((1, 2), (0, 1), (2, 1), 3), [(3, 3, 6, 5)]),
    ((5, 3, 1, 1), ((1, 1), (0, 0), (1, 1)), [(3, 3, 4, 5)]),
    ((5, 3, 1, 1), ((2, 2), (0, 0), (1, 1)), [(3, 3, 4, 5)]),
    ((3, 2, 3), ((3,), (1,), (2,)), [(4, 2, 33)]),
    ((2, 2, 2, 2, 3), ((1, 2, 1), (0, 1, 1), (1, 1, 1)), [(2, 2, 3, 4, 3)]),
    ((2, 2, 9, 9), ((1, 1), (4, 4), (1, 1)), [(2, 2, 7, 6)]),
    ((1, 2, 7, 1), ((1, 1), (3, 0), (1, 1)), [(7, 2, 1, 7)]),
]


@pytest.mark.parametrize(("w", "how", "images"), CASES, ids=lambda v: None)
def test_values_and_both_gradients(w: Any, how: Any, images: Any) -> None:
    rng = np.random.default_rng(0)
    g = three(w, **attrs(*how))
    for x in images:
        inputs = [rng.standard_normal(s).astype(np.float32) for s in (x, w, x[:1])]
        programs.agree(g, inputs, 1e-3)


def test_columns_of_some_images_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for bytes_ in (1, 4 * 9 * 2 * 25 * 2):  # one image, two images
        monkeypatch.setattr(conv, "COLUMNS", bytes_)
        g = three((4, 2, 3, 3), **attrs((1, 1), (1, 1), (1, 1)))
        for n in (0, 1, 2, 5):
            inputs = [rng.standard_normal(s).astype(np.float32) for s in ((n, 2, 5, 5), (4, 2, 3, 3), (n,))]
            programs.agree(g, inputs, 1e-3)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("d", [dtypes.int64, dtypes.int32, dtypes.float64], ids=lambda d: d.name)
def test_numbers_without_a_product_of_the_library(d: Any, groups: int) -> None:
    if d is dtypes.float64 and groups != 4:
        pytest.skip("has one")
    rng = np.random.default_rng(0)
    w = (8, 4 // groups, 2, 3)
    inputs = [rng.integers(-9, 9, s).astype(d.np) for s in ((3, 4, 5, 6), w, (3,))]
    programs.agree(three(w, d, **attrs((2, 1), (1, 1), (1, 2), groups)), inputs, 1e-12)


@pytest.mark.parametrize("padding", [(0, 0), (1, 1)])
def test_images_with_odd_strides(padding: Any) -> None:
    N, C, H, W = sizes("N C H W")
    how = attrs((1, 1), padding, (1, 1))

    def body(F: Any, x: Any, w: Any, _: Any) -> Any:
        t = F.permute(F.slice(x, axis=3, start=0, length=W, step=2), axes=(0, 2, 1, 3))
        y = F.conv(t, w, **how)
        return y, F.conv_transpose(F.permute(F.flip(y, axes=(2,)), axes=(0, 1, 2, 3)), w, shape=t.shape, **how)

    g = graph(body, tensor(N, H, C, 2 * W), tensor(5, C, 3, 2), tensor(W))
    rng = np.random.default_rng(0)
    programs.agree(g, [rng.standard_normal(s).astype(np.float32) for s in ((2, 6, 3, 14), (5, 3, 3, 2), (7,))], 1e-3)


@pytest.mark.parametrize("how", [
    {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)},
    {"kernel": (2, 3), "stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)},
    {"kernel": (6, 6), "stride": (1, 1), "padding": (0, 3), "dilation": (1, 1)}], ids=["3", "2x3", "6"])
@pytest.mark.parametrize("d", [dtypes.float32, dtypes.int64, dtypes.bfloat16], ids=lambda d: d.name)
def test_maxima(how: Any, d: Any) -> None:
    N, C = sizes("N C")
    ceil = tuple(-(-(n + 2 * p - e * (k - 1) - 1) // s) + 1
                 for n, k, s, p, e in zip((9, 10), *how.values(), strict=True))

    def body(F: Any, x: Any) -> Any:
        return F.max_pool(x, **how, shape=ceil)

    rng = np.random.default_rng(0)
    for n in (0, 1, 7):
        x = rng.integers(-50, 50, (n, 2, 9, 10)).astype(d.np)
        if d is dtypes.float32 and n:
            x[0, 0, 2, 3], x[0, 1] = np.nan, -np.inf
        programs.agree(graph(body, tensor(N, C, 9, 10, dtype=d)), [x], 0)


@pytest.mark.parametrize("size", [3, taps.SUMMED + 2])
def test_sums_of_windows(size: int) -> None:
    N, M = sizes("N M")

    def body(F: Any, x: Any, src: Any) -> Any:
        return (F.windows_add(F.zeros_like(x), src, axis=1, size=size, step=2, dilation=1),
                F.windows_add(x, F.mul(src, src), axis=1, size=size, step=2, dilation=1))

    rng = np.random.default_rng(0)
    g = graph(body, tensor(N, 2 * M + size - 2, 4), tensor(N, M, 4, size))
    for n in (0, 1, 7):
        inputs = [rng.standard_normal(s).astype(np.float32) for s in ((n, 12 + size - 2, 4), (n, 6, 4, size))]
        programs.agree(g, inputs, 1e-4)


# --- whole models --------------------------------------------------------------------------------------------------


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.avg_pool2d(F.relu(self.c2(x)), 2).flatten(1)
        return self.f3(F.relu(self.f2(F.relu(self.f1(x)))))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.b2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c3, self.b3 = nn.Conv2d(4, 8, 1, stride=2, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.b3(self.c3(x)))


class Separable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grouped, self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.mix, self.up = nn.Conv2d(8, 4, 1), nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1)

    def forward(self, x: Any) -> Any:
        return F.max_pool2d(self.up(self.mix(self.deep(self.grouped(x)))), 3, stride=2, padding=1)


#: modules and images
MODULES: list[tuple[Any, tuple[int, ...]]] = [
    (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 7, 5)),
    (lambda: nn.Conv2d(3, 4, 3, padding=2, padding_mode="circular", bias=False), (3, 3, 7, 5)),
    (lambda: nn.Conv1d(4, 6, 4, padding="same", groups=2), (2, 4, 33)),
    (lambda: nn.Conv1d(1, 1, 1), (1, 1, 1)),
    (lambda: nn.Conv3d(2, 3, 2, stride=2, padding=1), (2, 2, 5, 4, 3)),
    (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5, 3)),
    (lambda: nn.ConvTranspose1d(6, 6, 5, dilation=2, groups=6), (2, 6, 7)),
    (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True)), (2, 3, 8, 7)),
    (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d((2, 3))), (2, 3, 8, 7)),
    (lambda: nn.Sequential(nn.Conv2d(3, 4, 2), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten()), (2, 3, 8, 8)),
]


@pytest.mark.parametrize(("make", "shape"), MODULES, ids=range(len(MODULES)))
def test_modules(make: Any, shape: tuple[int, ...]) -> None:
    """Values and all gradients are eager's on the CPU; an empty batch gives zeros."""
    jitgrad.manual_seed(0)
    net, script = make(), jitgrad.script(step)
    with gpu(), config.override(cache=""):
        for n in (shape[0], 0):
            x = jitgrad.randn(n, *shape[1:], requires_grad=True)
            net.zero_grad()
            expected = step(net, x)
            there, other = copy.deepcopy(net).cuda(), x.detach().cuda().requires_grad_()
            there.zero_grad()
            found = script(there, other)
            pairs = zip([found, other.grad, *[p.grad for p in there.parameters()]],
                        [expected, x.grad, *[p.grad for p in net.parameters()]], strict=True)
            for a, b in pairs:
                np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4)


def step(net: Any, x: Any) -> Any:
    y = net(x)
    (y * y).sum().backward()
    return y


@pytest.mark.parametrize(("make", "shape", "launches", "products"), [
    (LeNet, (1, 28, 28), 23, 14), (Residual, (4, 8, 8), 16, 7), (Separable, (8, 6, 6), 24, 11)])
def test_launches_do_not_grow_with_the_batch(make: Any, shape: Any, launches: int, products: int) -> None:
    with gpu() as device, jitgrad.device("cuda"), config.override(cache="", debug_arena=False):
        jitgrad.manual_seed(0)
        net, script, counts = make(), jitgrad.script(step), set()
        for n in (2, 7):
            x = jitgrad.randn(n, *shape)
            net.zero_grad()
            expected = step(net, x)
            grads = [p.grad.clone() for p in net.parameters()]
            net.zero_grad()
            device.forget()
            device.products.clear()
            found = script(net, x)
            counts.add((len(device.launches()), len(device.products)))
            for a, b in zip([found, *[p.grad for p in net.parameters()]], [expected, *grads], strict=True):
                np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-3, atol=1e-3)
    (found_launches, found_products), = counts
    assert found_launches <= launches
    assert found_products <= products


@machinecode.needs_cuda
@pytest.mark.sampled("machine code")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("d", [jitgrad.float32, jitgrad.bfloat16], ids=str)
@pytest.mark.parametrize(("make", "shape"), [(LeNet, (1, 28, 28)), (Residual, (4, 8, 8)), (Separable, (8, 6, 6))])
def test_kernels_compile_without_spills(make: Any, shape: tuple[int, ...], d: Any, arch: str) -> None:
    with config.override(interpret=True, cache=""):
        x = jitgrad.randn(2, *shape, dtype=d)
        found = dict.fromkeys(jitgrad.script(step).kernels(make().to(d), x, device="cuda"))
    renamed = [re.sub(r"\bjg_(pw|row|col|all|convolution)_", rf"k{i}_\1_", k) for i, k in enumerate(found)]
    used = machinecode.compiled("\n".join([text.prelude(), library(convolution.LIBRARY), *renamed]), arch)
    assert max(facts.stack for facts in used.values()) <= machinecode.BARRIER
    assert max(facts.registers for name, facts in used.items() if "convolution" not in name) < 128


def test_second_order() -> None:
    def second(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w, stride=2, padding=1).tanh()
        (g,) = jitgrad.autograd.grad((y * y).sum(), (w,), create_graph=True)
        return jitgrad.autograd.grad((g * g).sum(), (x, w))

    with gpu(), config.override(cache=""):
        jitgrad.manual_seed(0)
        x, w = jitgrad.randn(2, 3, 6, 5), jitgrad.randn(4, 3, 3, 3)
        expected = second(x.requires_grad_(), w.requires_grad_())
        found = jitgrad.script(second)(x.detach().cuda().requires_grad_(), w.detach().cuda().requires_grad_())
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [jitgrad.bfloat16, jitgrad.float16], ids=str)
@pytest.mark.parametrize("make", [lambda: nn.Conv2d(4, 6, 3, padding=1, stride=2), lambda: nn.Conv2d(4, 6, 1),
                                  lambda: nn.Conv2d(4, 4, 3, groups=4)], ids=["3x3", "1x1", "deep"])
def test_half_types_are_multiplied_as_they_are(make: Any, dtype: Any) -> None:
    jitgrad.manual_seed(0)
    net, script = make().to(dtype), jitgrad.script(step)
    x = jitgrad.randn(3, 4, 6, 5).to(dtype).requires_grad_()
    expected = step(net, x)
    with gpu() as device, config.override(cache="", debug_arena=True):
        there, other = copy.deepcopy(net).cuda(), x.detach().cuda().requires_grad_()
        there.zero_grad()
        device.products.clear()
        found = script(there, other)
        assert all(blaslt.DTYPES[words[0]].is_half for words in device.products)
        pairs = zip([found, other.grad, *[p.grad for p in there.parameters()]],
                    [expected, x.grad, *[p.grad for p in net.parameters()]], strict=True)
        for a, b in pairs:
            assert a.dtype is dtype
            np.testing.assert_allclose(a.detach().cpu().float().numpy(), b.detach().float().numpy(), rtol=2e-2,
                                       atol=2e-2)


@pytest.mark.parametrize("f", [F.conv2d, F.conv_transpose2d], ids=lambda f: f.__name__)
def test_half_types_are_rounded_once_for_windows_of_any_size(f: Any) -> None:
    """A window of 81 elements is summed by nine launches, which do not round to bfloat16 in between."""
    def deep(x: Any, w: Any) -> Any:
        return f(x, w, groups=3)

    rng = np.random.default_rng(0)
    x, w = (jitgrad.tensor(rng.standard_normal(s).astype(np.float32)).bfloat16()
            for s in ((2, 3, 14, 13), (3, 1, 9, 9)))
    exact = f(x.double(), w.double(), groups=3).numpy()
    with gpu(), config.override(cache="", debug_arena=True):
        found = jitgrad.script(deep)(x.cuda(), w.cuda())
    assert found.dtype is jitgrad.bfloat16
    np.testing.assert_allclose(found.cpu().double().numpy(), exact, rtol=2 ** -8, atol=1e-4)
