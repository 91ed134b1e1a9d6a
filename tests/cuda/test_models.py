"""Ten whole models on a GPU: eager and scripted, forward, backward and the optimizer's step, as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, optim
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tests.test_models_steps import MODELS, twins

pytestmark = host.emulated
#: of a GPU's float32 against the CPU's, for one step
TOLERANCE = 1e-5


def same(a: Any, b: Any, tolerance: float) -> None:
    x, y = (np.asarray(v.detach().cpu().numpy(), np.float64) for v in (a, b))
    scale = max(1.0, np.abs(y).max(initial=0.0))
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("scripted", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_step(name: str, scripted: bool) -> None:
    with gpu(), config.override(cache=""):
        whole_step(name, scripted)


def whole_step(name: str, scripted: bool) -> None:
    """Three steps, over batches of different sizes."""
    make, loss_of, batches = MODELS[name]
    plain, model = twins(make)
    model.cuda()

    def step(m: Any, optimizer: Any, *batch: Any) -> Any:
        loss = loss_of(m, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    fast = jitgrad.script(step) if scripted else step
    optimizers = [optim.SGD(m.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3) for m in (plain, model)]
    for k, batch in enumerate(batches[:3]):
        jitgrad.manual_seed(k)
        expected = step(plain, optimizers[0], *batch)
        moved = [x.cuda() if isinstance(x, jitgrad.Tensor) else x for x in batch]
        jitgrad.manual_seed(k)
        with jitgrad.device("cuda"):
            loss = fast(model, optimizers[1], *moved)
        assert loss.is_cuda
        same(loss, expected, TOLERANCE * (k + 1))
    for p, q in zip([*model.parameters(), *model.buffers()], [*plain.parameters(), *plain.buffers()], strict=True):
        same(p, q, 3 * TOLERANCE)
    if scripted:
        assert fast.cache_info().compilations == 1, fast.recompilations
