"""Loops and whole models on a real GPU: as on the CPU, and how often the host waits for what."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.codegen.cuda.host import device_regions
from jitgrad.codegen.lower.device import tiled
from tests.codegen.cuda.test_attention import reference
from tests.cuda import test_loops, test_models, test_repeated_loops
from tests.cuda.test_loops import gradients, randn, same
from tests.cuda.test_repeated_loops import equal_depth, moved
from tests.test_models_steps import MODELS

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


@pytest.mark.parametrize("case", test_loops.PROGRAMS, ids=str)
def test_loops_and_branches(case: test_loops.Case) -> None:
    scripted = torch.script(case.function)
    for n in (1, 257, 9000):
        arguments = case.arguments(n)
        for _ in range(3):  # launched, recorded, replayed
            same(scripted(*moved(arguments)), case.function(*arguments), case.tolerance)


@pytest.mark.parametrize("case", [c for c in test_loops.PROGRAMS if c.backward is not None], ids=str)
def test_gradients_of_loops(case: test_loops.Case) -> None:
    scripted = torch.script(case.function)
    arguments = case.arguments(257)
    for _ in range(3):
        same(tuple(gradients(scripted, "cuda", arguments)), tuple(gradients(case.function, "cpu", arguments)),
             10 * case.tolerance)


def never(x: Any) -> Any:
    while x.sum() > 0:
        x = x * 0.5 + 0.5
    return x


def counting(x: Any) -> int:
    n = 0
    while x.sum() > 0:
        x = x * 0.5 + 0.5
        n = n + 1
    return n


def number(script: Any, x: Any) -> float:
    """A script's result as a number, for which Python waits if the script did not."""
    found = script(x)
    return float(found if isinstance(found, int) else found.sum())


@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("function", [never, counting])
def test_an_interrupt_ends_a_loop_that_never_would(function: Any, first: bool) -> None:
    """While Python waits for a number, while native code does, and at a script's first call."""
    script = torch.script(function)
    if not first:
        number(script, torch.zeros(10000, device="cuda"))
        torch.cuda.synchronize()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        number(script, torch.ones(10000, device="cuda"))
    assert time.monotonic() - started < 3
    timer.join()
    assert float((torch.ones(3, device="cuda") * 2).sum()) == 6.0
    script(torch.zeros(10000, device="cuda"))
    torch.cuda.synchronize()


@pytest.mark.parametrize(("function", "arguments", "tolerance"), test_repeated_loops.PROGRAMS,
                         ids=lambda p: getattr(p, "__name__", ""))
def test_repeated(function: Any, arguments: Any, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every product were large."""
    monkeypatch.setattr(device_regions, "MOST_WORK", -1)
    scripted = torch.script(function)
    for n in (7, 7, 7, 40, 7):
        given = arguments(n)
        same(scripted(*moved(given)), function(*given), tolerance)


def test_a_loop_with_large_products() -> None:
    scripted = torch.script(equal_depth)
    given = randn(512, 512), 0.02 * randn(512, 512), 1e-4, 50
    for _ in range(4):
        same(scripted(*moved(given)), equal_depth(*given), 1e-3)


@pytest.mark.parametrize("scripted", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_step(name: str, scripted: bool) -> None:
    test_models.whole_step(name, scripted)


@pytest.mark.parametrize("d", [torch.bfloat16, torch.float32, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(70, 131), (257, 64), (1000, 999)], ids=str)
def test_tiles(shape: tuple[int, int], d: Any) -> None:
    x = (torch.arange(shape[0] * shape[1]) % 113).to(d).reshape(shape)
    scripted = torch.script(lambda x: (x.t().contiguous(), x.t() + x.t()))
    for got, expected in zip(scripted(x.to("cuda")), (x.t().contiguous(), x.t() + x.t()), strict=True):
        assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("d", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(1000,), (33, 77), (7, 3, 130), (64, 4096)], ids=str)
def test_masks_are_those_of_the_cpu(shape: tuple[int, ...], d: Any) -> None:
    masks = []
    for where in ("cpu", "cuda"):
        torch.manual_seed(3)
        masks.append(torch.script(lambda x: torch.nn.functional.dropout(x, 0.3))(
            torch.ones(*shape, dtype=d, device=where)).cpu())
    assert torch.equal(*masks)


@pytest.mark.parametrize("d", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("n_q", "n_k", "width", "causal"), [
    (1, 1, 64, True), (200, 200, 64, True), (77, 333, 64, False), (300, 100, 32, True), (257, 257, 128, True),
    (63, 190, 128, False)])
def test_attention(d: torch.dtype, n_q: int, n_k: int, width: int, causal: bool) -> None:
    """One kernel and two for the gradient, next to float64; equal bits in each run."""
    @torch.script
    def f(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    shapes = ((2, 3, n_q, width), (2, 3, n_k, width), (2, 3, n_k, width), (2, 3, n_q, width))
    q, k, v, g = (torch.randn(*shape).to(d).cuda() for shape in shapes)
    found = []
    for _ in range(3):  # launched, recorded, replayed
        given = [x.detach().requires_grad_() for x in (q, k, v)]
        y = f(*given)
        found.append([y.detach(), *torch.autograd.grad(y, given, g)])
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], again, strict=True))
    expected = reference(*[x.cpu().double().numpy() for x in (q, k, v, g)], causal, width ** -0.5)
    expected = [*expected[:1], *expected[2:]]
    unit = 2.0 ** -7 if d is torch.bfloat16 else 2.0 ** -10
    size = max(np.abs(other).max() for other in expected)
    for one, other in zip(found[0], expected, strict=True):
        np.testing.assert_allclose(one.cpu().double().numpy(), other, rtol=4 * unit, atol=2 * unit * size)


@pytest.mark.parametrize("d", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("image", "weight", "options"), [
    ((5, 3, 61, 64), (64, 3, 7, 7), {"stride": 2, "padding": 3}), ((2, 24, 33, 40), (40, 24, 3, 3), {"padding": 1}),
    ((3, 64, 17, 19), (130, 32, 3, 2), {"groups": 2, "dilation": 2}), ((2, 40, 9, 9), (16, 40, 1, 1), {"padding": 1}),
    ((2, 8, 9, 10, 11), (20, 8, 3, 2, 3), {"stride": (1, 2, 1)}), ((4, 16, 500), (32, 16, 5), {"padding": 2})],
    ids=["stem", "3 x 3", "groups", "1 x 1", "volume", "line"])
def test_convolutions_without_columns(image: Any, weight: Any, options: Any, d: Any,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """As float32's on the CPU, rounded once, and equal bits in each run; both gradients besides."""
    monkeypatch.setattr(tiled, "SHALLOW", 1 << 62)
    of = getattr(torch.nn.functional, f"conv{len(image) - 2}d")
    script = torch.script(lambda x, w: of(x, w, **options))
    torch.manual_seed(0)
    x, w = (torch.randn(*shape).to(d) for shape in (image, weight))
    exact = of(x.float(), w.float(), **options)
    g = torch.randn(*exact.shape).to(d)
    found = []
    with config.override(cache=""):
        for _ in range(3):  # launched, recorded, replayed
            given = [t.cuda().detach().requires_grad_() for t in (x, w)]
            y = script(*given)
            y.backward(g.cuda())
            found.append([y.detach(), *[t.grad for t in given]])
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], again, strict=True))
    given = [t.float().requires_grad_() for t in (x, w)]
    of(*given, **options).backward(g.float())
    unit = 2.0 ** -8 if d is torch.bfloat16 else 2.0 ** -11
    for a, b in zip(found[0], [exact, *[t.grad for t in given]], strict=True):
        size = float(b.abs().max())
        np.testing.assert_allclose(a.cpu().float().numpy(), b.numpy(), rtol=2 * unit, atol=1e-4 * size)


@pytest.mark.parametrize("d", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("left", "right", "by"), [
    ((5, 33, 64), (5, 64, 17), (0, 1, 2)), ((33, 64), (5, 64, 17), (0, 1)), ((4, 1, 8, 7), (3, 7, 9), (0, 1, 2, 3)),
    ((2, 65, 6, 32), (2, 6, 32, 65), (0, 2, 1, 3)), ((6, 32, 65), (6, 32, 40), (0, 2, 1))], ids=str)
def test_eager_batches_of_half_products(left: Any, right: Any, by: Any, d: Any) -> None:
    """Added up in float32 and rounded once, with both gradients."""
    torch.manual_seed(0)
    given = [torch.randn(*shape).to(d) for shape in (left, right)]
    found = [t.cuda().detach().requires_grad_() for t in given]
    exact = [t.float().detach().requires_grad_() for t in given]
    made = [x.permute(*by) @ w for x, w in (found, exact)]
    for y in made:
        y.sum().backward()
    unit = 2.0 ** -8 if d is torch.bfloat16 else 2.0 ** -11
    for a, b in zip([made[0], *[t.grad for t in found]], [made[1], *[t.grad for t in exact]], strict=True):
        assert a.dtype is d
        size = float(b.detach().abs().max())
        np.testing.assert_allclose(a.detach().cpu().float().numpy(), b.detach().numpy(), rtol=4 * unit,
                                   atol=4 * unit * size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_norm_of_few_channels(dtype: Any) -> None:
    """Blocks share the rows, a launch for each stage."""
    def f(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.batch_norm(x, None, None, w, b, training=True)

    torch.manual_seed(0)
    given = [torch.randn(*shape).to(dtype) for shape in ((8, 6, 60, 61), (6,), (6,), (8, 6, 60, 61))]
    found = []
    for function, where in ((torch.script(f), "cuda"), (f, "cpu")):
        for _ in range(3):
            *own, g = (t.detach().to(where).requires_grad_() for t in given)
            y = function(*own)
            y.backward(g.detach())
        found.append([t.detach().cpu().float() for t in (y, *[t.grad for t in own])])
    same(tuple(found[0]), tuple(found[1]), 1e-4 if dtype is torch.float32 else 2e-2)
