"""Loops and whole models on a real GPU: as on the CPU, and how often the host waits for what."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad.codegen.cuda.host import device_regions
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
