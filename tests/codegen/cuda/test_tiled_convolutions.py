"""The kernels of convolutions without columns, on the host, next to float32's on the CPU; registers of the machine
code; where they are chosen."""

from __future__ import annotations

import copy
import ctypes
import math
import re
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes, nn
from jitgrad.codegen.cuda.kernels import text
from jitgrad.codegen.cuda.kernels.tiled import convolution
from jitgrad.codegen.cuda.kernels.tiled.library import library
from jitgrad.codegen.lower.device import tiled
from jitgrad.nn import functional as F
from tests.codegen.cuda import host, machinecode
from tests.cuda.hosted import StandinDriver, gpu

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def run(role: str, d: dtypes.dtype, x: Any, w: Any, y: Any, how: Any, rows: int, parts: int = 1) -> None:
    """Run the kernel with the threads in order and in reverse order: both write the same bits, and all of what is made.

    how: stride, padding, dilation, groups. `parts`: those of the places, by which w has as many sums.
    """
    stride, padding, dilation, groups = how
    rank = x.ndim - 2
    loaded = host.library(f"{library(convolution.LIBRARY)}\n{convolution.source(role, d, rank, rows, 'test')}")
    steps = [s // a.itemsize for a in (x, y) for s in a.strides]
    outputs, channels, *kernel = w.shape[-x.ndim:]
    words = [x.shape[0], groups, channels, outputs // groups, *x.shape[2:], *kernel, *y.shape[2:], *stride, *padding,
             *dilation, *steps, *([parts] if role == "w" else [])]
    arguments = [*[ctypes.c_void_p(a.ctypes.data) for a in (x, w, y)], *map(ctypes.c_int64, words)]
    columns = x.shape[0] * math.prod(y.shape[2:]) if role == "y" else channels * math.prod(kernel)
    blocks = -(-columns // convolution.ACROSS[role]) * groups * -(-outputs // groups // rows) * parts
    made = y if role == "y" else w
    found = []
    for reverse in (1, 0):
        loaded.jg_set_reversed(reverse)
        made[...] = np.nan
        host.launch(loaded, convolution.form(role, rank, rows, "test"), blocks, 1, arguments)
        found.append(made.tobytes())
    assert found[0] == found[1], "the order of the threads matters"


#: x, w; stride, padding, dilation, groups; outputs of a block
CASES: list[Any] = [
    ((2, 3, 7, 6), (4, 3, 3, 2), ((2, 1), (1, 0), (1, 2), 1), 16),
    ((1, 4, 5, 7), (6, 2, 3, 3), ((1, 1), (1, 1), (1, 1), 2), 16),
    ((3, 8, 4, 5), (20, 8, 1, 1), ((1, 1), (0, 0), (1, 1), 1), 32),
    ((3, 5, 9, 8), (70, 5, 1, 1), ((2, 3), (1, 0), (1, 1), 1), 64),
    ((1, 3, 17, 16), (8, 3, 7, 7), ((2, 2), (3, 3), (1, 1), 1), 16),
    ((2, 2, 11, 9), (130, 2, 5, 4), ((1, 2), (4, 1), (2, 3), 1), 128),
    ((1, 16, 3, 3), (9, 16, 3, 3), ((1, 1), (2, 2), (1, 1), 1), 16),
    ((2, 16, 6, 6), (40, 16, 2, 2), ((1, 1), (0, 0), (1, 1), 1), 64),
    ((2, 6, 33), (6, 2, 4), ((3,), (2,), (2,), 3), 16),
    ((1, 2, 5, 4, 3), (3, 2, 2, 3, 2), ((1, 2, 1), (0, 1, 1), (2, 1, 1), 1), 16),
    ((5, 3, 3, 3), (3, 3, 1, 1), ((1, 1), (1, 2), (1, 1), 1), 16),
]


@pytest.mark.parametrize("d", [dtypes.bfloat16, dtypes.float16], ids=str)
@pytest.mark.parametrize(("image", "weight", "how", "rows"), CASES)
@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_values(image: Any, weight: Any, how: Any, rows: int, d: Any) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(image).astype(d.np), rng.standard_normal(weight).astype(d.np)
    exact = plain(x, w, how).numpy()
    y = np.empty(exact.shape, d.np)
    run("y", d, x, w, y, how, rows)
    unit = 2.0 ** -8 if d is dtypes.bfloat16 else 2.0 ** -11  # rounded once
    np.testing.assert_allclose(y.astype(np.float32), exact, rtol=unit * 1.01, atol=1e-4)


@pytest.mark.parametrize(("image", "weight", "how", "rows"), CASES)
@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_weights(image: Any, weight: Any, how: Any, rows: int) -> None:
    """The parts' sums are the float32 gradient: parts of several images, of one, and of none."""
    d, rng = dtypes.bfloat16, np.random.default_rng(3)
    x, w = rng.standard_normal(image).astype(d.np), jitgrad.zeros(*weight, requires_grad=True)
    y = plain(x, w, how)
    g = rng.standard_normal(y.shape).astype(d.np)
    (y * jitgrad.tensor(g.astype(np.float32))).sum().backward()
    for parts in (1, 3):
        found = np.empty((parts, *weight), np.float32)
        run("w", d, x, found, g, how, rows, parts)
        np.testing.assert_allclose(found.sum(0), w.grad.numpy(), rtol=1e-5, atol=1e-4)


def plain(x: Any, w: Any, how: Any) -> Any:
    """The CPU's float32 convolution."""
    stride, padding, dilation, groups = how
    given = [jitgrad.tensor(a.astype(np.float32)) if isinstance(a, np.ndarray) else a for a in (x, w)]
    return CONVOLUTIONS[x.ndim - 2](*given, stride=stride, padding=padding, dilation=dilation, groups=groups)


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_images_of_any_strides_and_what_is_not_finite() -> None:
    """Zeros of the padding and behind the end of the inner axis multiply nothing: no NaN where no infinity is."""
    d, rng = dtypes.bfloat16, np.random.default_rng(3)
    x = rng.standard_normal((2, 6, 7, 3)).astype(d.np).transpose(0, 3, 1, 2)[:, :, ::-1]
    x[0, 0, 0, 0] = np.inf
    w = rng.standard_normal((3, 3, 3, 3)).astype(d.np)
    y = np.empty((2, 3, 6, 7), d.np)
    how = (1, 1), (1, 1), (1, 1), 1
    run("y", d, x, w, y, how, 16)
    exact = plain(x, w, how).numpy()
    np.testing.assert_allclose(y.astype(np.float32), exact, rtol=2.0 ** -8 * 1.01, atol=1e-4)
    assert np.isinf(exact).sum() == 3 * 4


@machinecode.needs_cuda
@pytest.mark.sampled("machine code")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code(arch: str) -> None:
    """Nothing is on the stack, and as many blocks as are asked for have room on a multiprocessor."""
    names = {f"conv_{role}_{rank}_{rows}": (role, rank, rows)
             for role in "yw" for rank in (1, 2, 3) for rows in convolution.ROWS}
    whole = [text.prelude(), library(convolution.LIBRARY)]
    whole += [convolution.source(role, dtypes.bfloat16, *of, name) for name, (role, *of) in names.items()]
    used = machinecode.compiled("\n".join(whole), arch)
    for name, of in names.items():
        own = convolution.shape(*of)
        assert used[name].stack == 0, name
        assert used[name].registers <= 65536 // (own.threads * own.resident), name
        assert own.shared * own.resident <= 160 << 10, name


# --- where they are chosen ------------------------------------------------------------------------------------------


def step(net: Any, x: Any) -> Any:
    y = net(x)
    (y * y).sum().backward()
    return y


def agrees(net: Any, x: Any) -> tuple[int, str]:
    """Run a step on the stand-in and on the CPU; how many products were asked for, and the text of the kernels."""
    script = jitgrad.script(step)
    with gpu() as device, config.override(cache="", debug_arena=True):
        there, other = copy.deepcopy(net).cuda(), x.detach().cuda().requires_grad_()
        device.products.clear()
        found, expected = script(there, other), step(net, x)
        for a, b in zip([found, other.grad, *[p.grad for p in there.parameters()]],
                        [expected, x.grad, *[p.grad for p in net.parameters()]], strict=True):
            scale = b.detach().float().abs().max().item()
            np.testing.assert_allclose(a.detach().cpu().float().numpy(), b.detach().float().numpy(), rtol=2e-2,
                                       atol=1e-2 * scale)
        products = len(device.products)
        text = "".join(script.kernels(copy.deepcopy(net), x.detach().requires_grad_(), device="cuda"))
    net.zero_grad()
    x.grad = None
    return products, text


def made(*args: Any, d: Any = jitgrad.bfloat16, make: Any = nn.Conv2d, **options: Any) -> Any:
    jitgrad.manual_seed(0)
    return make(*args, **options).to(d)


def images(*shape: int, d: Any = jitgrad.bfloat16) -> Any:
    return jitgrad.randn(*shape).to(d).requires_grad_()


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize(("net", "x", "columns", "products"), [
    (made(4, 6, 3, padding=1), images(3, 4, 6, 5), 0, 0),
    (made(4, 6, 3, padding=1, stride=2), images(3, 4, 6, 5), 0, 0),
    (made(4, 6, 3, padding=1, stride=(3, 4)), images(3, 4, 6, 5), 0, 1),
    (made(4, 6, (2, 3), padding=(2, 0), dilation=(1, 2), groups=2), images(2, 4, 6, 7), 0, 0),
    (made(4, 6, 1, padding=1, d=jitgrad.float16), images(2, 4, 3, 3, d=jitgrad.float16), 0, 0),
    (made(3, 5, 4, make=nn.Conv1d), images(2, 3, 9), 0, 0),
    (made(4, 6, 3, make=nn.ConvTranspose2d), images(2, 4, 5, 4), 0, 0),
    (made(18, 18, 3), images(1, 18, 4, 4), 2, 3),  # more rows of columns, of a small image
], ids=range(8))
def test_few_rows_of_columns_are_not_made(net: Any, x: Any, columns: int, products: int) -> None:
    """float32's of images are, where they would be made by too many convolutions."""
    found, kernels = agrees(net, x)
    assert found == products
    assert "jg_convolution_" in kernels
    assert len(re.findall(r"^jg_pw_columns_", kernels, re.MULTILINE)) == columns


#: an image, a weight; stride, padding, dilation, groups
STRIDED: list[Any] = [
    ((2, 3, 7, 6), (4, 3, 3, 3), ((2, 2), (1, 1), (1, 1), 1)),
    ((2, 4, 8, 7), (6, 2, 1, 1), ((2, 2), (0, 0), (1, 1), 2)),
    ((1, 3, 15, 14), (5, 3, 7, 7), ((2, 2), (3, 3), (1, 1), 1)),
    ((2, 2, 9, 8), (3, 2, 2, 4), ((1, 3), (0, 1), (1, 1), 1)),
    ((2, 4, 11, 9), (4, 2, 3, 2), ((2, 2), (2, 1), (2, 3), 2)),
    ((1, 2, 9, 13), (3, 2, 3, 3), ((2, 4), (0, 3), (1, 2), 1)),
    ((2, 2, 1, 5), (3, 2, 1, 5), ((2, 2), (0, 0), (1, 1), 1)),
    ((3, 2, 21), (4, 2, 5), ((6,), (2,), (4,), 1)),
    ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), ((2, 2, 2), (0, 1, 1), (1, 1, 2), 1))]


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("known", [True, False], ids=["constants", "sizes"])
@pytest.mark.parametrize(("image", "weight", "how"), STRIDED)
def test_images_by_phases(image: Any, weight: Any, how: Any, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that are a stride apart are those of a convolution, rounded once; also where the weight has any size."""
    if not known:
        monkeypatch.setattr(tiled, "_chosen", lambda state, d, images, *_: images if d.is_half else 0)
    stride, padding, dilation, groups = how
    jitgrad.manual_seed(0)
    net = getattr(nn, f"Conv{len(image) - 2}d")(
        image[1], weight[0], weight[2:], stride, padding, dilation, groups, bias=False).bfloat16()
    x = jitgrad.randn(*image).bfloat16()
    y = net(x)
    g = jitgrad.randn(*y.shape).bfloat16()
    plainly = x.float().detach().requires_grad_()
    (exact,) = jitgrad.autograd.grad(plain(plainly, net.weight.detach().float(), how), (plainly,), g.float())
    convolve = CONVOLUTIONS[len(image) - 2]

    def of_net(net: Any, x: Any, g: Any) -> Any:
        return jitgrad.autograd.grad(net(x), (x,), g)[0]

    def of_weight(w: Any, x: Any, g: Any) -> Any:
        made = convolve(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return jitgrad.autograd.grad(made, (x,), g)[0]

    with gpu() as device, config.override(cache="", debug_arena=True):
        device.products.clear()
        script, first = (jitgrad.script(of_net), net.cuda()) if known else (
            jitgrad.script(of_weight), net.weight.detach().cuda())
        found = script(first, x.cuda().requires_grad_(), g.cuda())
        assert not device.products
        np.testing.assert_allclose(found.cpu().float().numpy(), exact.numpy(), rtol=2.0 ** -8 * 1.01, atol=1e-4)


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_images_too_large_for_the_cache_have_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's sizes decide; memory for columns is that of the images that have some."""
    monkeypatch.setattr(tiled, "SHALLOW", 0)
    monkeypatch.setattr(tiled, "CACHE", 2 * 36 * (6 * 5 + 6))
    net = made(4, 6, 3, padding=1)
    assert agrees(net, images(3, 4, 6, 5))[0] == 1  # float32's, of the gradient of images
    assert agrees(net, images(3, 4, 6, 4))[0] == 3
    assert agrees(net, images(3, 4, 9, 9))[0] == 1


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_parts_of_a_weights_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as blocks are wanted and places are enough for; each adds to one sum."""
    monkeypatch.setattr(tiled, "ENOUGH", 32)
    net = made(3, 20, (3, 2), stride=(2, 1), padding=1)
    for blocks, parts in ((528, 8), (5, 5), (1, 1)):
        monkeypatch.setattr(tiled, "BLOCKS", blocks)
        agrees(net, images(5, 3, 13, 7))
        with config.override(interpret=True, cache=""):
            found = jitgrad.script(step).traffic(net, images(5, 3, 13, 7)).steps
        assert 4 * parts * 20 * 3 * 6 in [m.written for m in found if m.name == "jg_convolution"]


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are zeros, with columns (of more than 40 rows) and without."""
    monkeypatch.setattr(tiled, "SHALLOW", 40)

    def gradients(x: Any, w: Any) -> Any:
        return jitgrad.autograd.grad(F.conv2d(x, w, padding=1).sum(), (x, w))

    script = jitgrad.script(gradients)
    with gpu(), config.override(cache="", debug_arena=True):
        for n, channels in ((0, 4), (2, 4), (0, 5)):
            x, w = jitgrad.ones(n, channels, 5, 4).bfloat16(), jitgrad.ones(6, channels, 3, 3).bfloat16()
            gx, gw = script(x.cuda().requires_grad_(), w.cuda().requires_grad_())
            assert gx.shape == x.shape
            assert gw.cpu().float().numpy().any() == (n != 0)


def test_traffic_is_of_the_images_that_have_no_columns() -> None:
    """x, w and y, each once; of the weight's gradient one sum for each part."""
    with config.override(interpret=True, cache=""):
        for net, shape in ((made(4, 6, 3, padding=1), (3, 4, 6, 5)), (made(32, 6, 3, padding=1), (2, 32, 5, 4))):
            found = jitgrad.script(lambda net, x: net(x)).traffic(net, jitgrad.randn(*shape).bfloat16())
            ours = [m for m in found.steps if m.name == "jg_convolution"]
            places, size = shape[0] * shape[2] * shape[3], 6 * 4 * 9
            assert [(m.read, m.written) for m in ours] == ([] if net.in_channels == 32 else [
                (2 * (places * 4 + size), 2 * places * 6), (2 * places * (4 + 6), 4 * size)])


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_gpus_before_ampere_multiply_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = made(4, 6, 3, padding=1, d=jitgrad.float16), images(3, 4, 6, 5, d=jitgrad.float16)
    assert agrees(net, x)[0] == 0
    monkeypatch.setattr(StandinDriver, "arch", "sm_75")
    assert agrees(net, x)[0] == 3


def test_float32_has_columns() -> None:
    net = made(4, 6, 3, padding=1, d=jitgrad.float32)
    assert "jg_convolution_" not in "".join(jitgrad.script(step).kernels(net, images(3, 4, 6, 5, d=jitgrad.float32),
                                                                         device="cuda"))


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
def test_weights_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of a plain argument are the run's, so the run says how many rows its columns have."""
    def f(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, groups=2)

    script, found = jitgrad.script(f), []
    monkeypatch.setattr(tiled, "SHALLOW", 40)
    with gpu() as device, config.override(cache="", debug_arena=True):
        for channels in (4, 5, 3):
            jitgrad.manual_seed(0)
            x, w = (jitgrad.randn(*s).bfloat16() for s in ((2, 2 * channels, 5, 4), (6, channels, 3, 3)))
            device.products.clear()
            y = script(x.cuda(), w.cuda()).cpu().float().numpy()
            found.append(len(device.products))
            np.testing.assert_allclose(y, f(x, w).float().numpy(), rtol=2.0 ** -7, atol=1e-3)
    assert found == [0, 2, 0]
