"""Random networks on a GPU agree with eager: on the CPU in float32 and float64, on the GPU under autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu
from tests.cuda.nets import CLASSES, Net, Nets
from tests.fuzz.session import compile_source

pytestmark = host.emulated

Observed = dict[str, tuple[str, Any] | None]
#: how far values may be apart, relative to the largest of a tensor
NEAR = {"float64": 1e-9, "float32": 2e-3, "bfloat16": 4e-2}


@pytest.fixture
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache="", debug_arena=True):
        yield driver


def observed(function: Callable[..., Any], seed: int, where: str, dtype: str) -> Observed:
    """Results, gradients, parameters and statistics after one call and its backward pass."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.choice([2, 5, 8, 33])), int(rng.choice([3, 8, 16]))
    wanted = jitgrad.float64 if dtype == "float64" else jitgrad.float32
    net = Net(columns, seed).to(where, wanted).with_optimizer(("SGD", "AdamW")[seed % 2])
    x = jitgrad.from_numpy(rng.standard_normal((rows, columns))).to(where, wanted).requires_grad_()
    ids, targets = (jitgrad.from_numpy(rng.integers(0, CLASSES, rows)).to(where) for _ in range(2))
    jitgrad.manual_seed(seed)
    with jitgrad.autocast(where, dtype=jitgrad.bfloat16) if dtype == "bfloat16" else nullcontext():
        loss, h = function(x, ids, targets, net, 0.7)
    loss.backward()
    found = {"loss": loss, "h": h, "x.grad": x.grad, "mean": net.mean, "var": net.var}
    for name, p in net.named_parameters():
        found |= {name: p, f"{name}.grad": p.grad}
    return {k: None if t is None else (str(t.dtype), t.detach().cpu().double().numpy()) for k, t in found.items()}


def agree(seed: int, dtype: str, decided: bool) -> None:
    """Eager and compiled observe the same; twice, of one program."""
    source = Nets(seed, decided).program()
    function = compile_source(source, f"net {seed}")
    scripted = jitgrad.script(function)
    for case in (seed, seed + 1):
        expected = observed(function, case, "cuda" if dtype == "bfloat16" else "cpu", dtype)
        got = observed(scripted, case, "cuda", dtype)
        for name, wanted in expected.items():
            found = got[name]
            assert (wanted is None) == (found is None), f"{name} in\n{source}"
            if wanted is not None and found is not None:
                assert wanted[0] == found[0], f"{name} in\n{source}"
                atol = NEAR[dtype] * max(1.0, float(np.abs(wanted[1]).max(initial=0)))
                np.testing.assert_allclose(found[1], wanted[1], NEAR[dtype], atol, err_msg=f"{name} in\n{source}")


@pytest.mark.parametrize("seed", range(6))
def test_networks(seed: int, driver: StandinDriver) -> None:
    with driver.reversed(seed % 2 == 1):
        agree(seed, "float32", True)


@pytest.mark.parametrize("seed", [20])
def test_networks_exactly(seed: int, driver: StandinDriver) -> None:
    agree(seed, "float64", True)


@pytest.mark.parametrize("seed", [30, 31])
def test_networks_under_autocast(seed: int, driver: StandinDriver) -> None:
    """Without branches that a rounded number decides."""
    agree(seed, "bfloat16", False)


def test_networks_are_reproducible() -> None:
    assert Nets(5).program() == Nets(5).program()
    for seed in range(100):
        compile(Nets(seed).program(), str(seed), "exec")
