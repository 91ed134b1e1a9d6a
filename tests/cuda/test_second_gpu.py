"""Two GPUs: what runs, is made and is said on the one that is not current."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config, nn
from jitgrad.eager.arrays.arrays import several
from jitgrad.eager.autograd.node import Node
from jitgrad.errors import ScriptError
from tests.codegen.cuda import host
from tests.cuda import standin
from tests.cuda.hosted import StandinDriver, gpu

F = nn.functional
ONE = torch.device("cuda:1")


def test_eager_runs_where_its_tensors_are(cuda: Any) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    losses = []
    for where in ("cpu", "cuda:1"):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 3)).to(where)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x.to(where)), y.to(where))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        assert loss.device == torch.device(where)
        assert {p.grad.device for p in net.parameters()} == {torch.device(where)}
        losses.append(loss.item())
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert torch.cuda.current_device() == 0


def test_a_fresh_gradient_is_taken_over_with_two_gpus(cuda: Any) -> None:
    addresses = []

    def backward(cotangents: Any) -> list[Any]:
        result = np.full(4, 2.0, np.float32)
        addresses.append(result.ctypes.data)
        return [result]

    torch.ones(1, device=ONE)
    assert several()
    x = torch.ones(4).requires_grad_()
    Node("Fresh", [x], backward).attach(torch.ones(4)).sum().backward()
    assert x.grad.data_ptr() == addresses[0]


def test_rows_and_indices_of_the_second_gpu(cuda: Any) -> None:
    host = torch.arange(12.0).reshape(3, 4) / 7
    x = host.to(ONE)

    def programs(t: Any) -> list[Any]:
        i = torch.tensor([2, 0], device=t.device)
        z = t.clone()
        z[i] = 0.5
        z[1:, ::2] += 1
        z.index_add_(0, i, t[:2])
        return [z, t[i], t[t > 0.6], t.sort(descending=True)[1], t.cumsum(1), t.max(1)[1], t @ t.T, t.std(0),
                torch.where(t > 1, t, -t), torch.cat([t, t * 2]), torch.stack([t, t]).flip(0), F.pad(t, (1, 2)),
                torch.linspace(0, 1, 5, device=t.device), torch.full((2,), 3.0, device=t.device), t.double(),
                t.T.contiguous(), t.nonzero(),
                torch.rand(3, device=t.device).shape.numel() * t, F.one_hot(i), F.conv1d(t[None], t[None, :, :2]),
                F.max_pool1d(t[None], 2), torch.linalg.inv(t[:, :3] + 2 * torch.eye(3, device=t.device)), t.tril(),
                t.median(), torch.topk(t, 2)[0], torch.nan_to_num(t), t.logsumexp(0), t.prod()]

    for a, b in zip(programs(host), programs(x), strict=True):
        assert b.device == ONE
        np.testing.assert_allclose(a.numpy(), b.cpu().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        x[torch.tensor([5], device=ONE)].tolist()


def test_the_current_gpu(cuda: Any) -> None:
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert torch.ones(2, device="cuda").device == ONE
        assert (torch.ones(2).cuda() + 1).device == ONE
        assert (torch.ones(2, device="cuda:0") * 2).device == torch.device("cuda:0")
        with torch.cuda.device("cuda:0"):
            assert torch.cuda.current_device() == 0
    with torch.cuda.device_of(torch.ones(1, device=ONE)):
        assert torch.cuda.current_device() == 1
    with torch.cuda.device_of(torch.ones(1)), torch.cuda.device(None):
        assert torch.cuda.current_device() == 0
    torch.cuda.set_device("cuda:1")
    assert torch.zeros(1, device="cuda").device == ONE
    torch.cuda.set_device(0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(2)


def test_streams_and_events_of_the_second_gpu(cuda: Any) -> None:
    s = torch.cuda.Stream(device=ONE)
    assert s.device == ONE
    assert torch.cuda.current_stream(ONE) == torch.cuda.default_stream(ONE)
    assert torch.cuda.current_stream(ONE).device == ONE
    with torch.cuda.stream(s):
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == s
        assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)
        assert torch.ones(1, device="cuda").device == ONE
    assert torch.cuda.current_device() == 0
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    assert start.query()
    start.record(s)
    s.record_event(end)
    torch.cuda.default_stream(0).wait_stream(s)
    end.wait(torch.cuda.Stream())
    end.synchronize()
    assert start.elapsed_time(end) > 0
    torch.cuda.set_stream(s)
    assert torch.cuda.current_device() == 1
    assert torch.cuda.current_stream() == s
    torch.cuda.set_stream(torch.cuda.default_stream(ONE))
    torch.cuda.set_device(0)


# --- scripts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache="", debug_arena=True):
        torch.manual_seed(0)
        yield driver


@torch.script
def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss


def trained(where: str, call: Any, current: int = 0) -> tuple[Any, list[float]]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 3)).to(where)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(8, 6).to(where), torch.randint(0, 3, (8,)).to(where)
    losses = []
    with standin.Device(current):
        for _ in range(3):
            losses.append(call(model, opt, x, y))
            assert losses[-1].device == torch.device(where)
    return model, [float(loss) for loss in losses]


@host.needs_compiler
@pytest.mark.parametrize("interpret", [False, True])
def test_a_step_runs_on_the_second_gpu_whichever_is_current(driver: StandinDriver, interpret: bool) -> None:
    f = torch.script(step.eager)
    _, wanted = trained("cpu", step.eager)
    with config.override(interpret=interpret):
        for where, current in (("cuda:1", 0), ("cuda:0", 1), ("cuda:1", 1), ("cuda:0", 0)):
            model, losses = trained(where, f, current)
            np.testing.assert_allclose(losses, wanted, rtol=1e-4)
            assert {p.device for p in model.parameters()} == {torch.device(where)}
    assert f.cache_info().compilations == 4  # a first step without and later ones with an optimizer's state, on each
    assert standin.current() == 0


@host.needs_compiler
def test_gradients_loops_lists_and_rows_on_the_second_gpu(driver: StandinDriver) -> None:
    @torch.script
    def f(x: Any, i: Any, n: int) -> Any:
        h = x
        kept = []
        while h.norm() < 50:
            h = h * 2 @ torch.ones(3, 3, device=x.device)
            kept.append(h.sum())
        order = torch.sort(h, 1)[1]
        return h[i], torch.stack(kept), order, h.cumsum(0) + n, torch.rand(4, device=x.device), x.sum().cpu()

    found = []
    for where in ("cpu", "cuda:1"):
        torch.manual_seed(1)
        x = torch.randn(4, 3).to(where).requires_grad_()
        i = torch.tensor([0, 3]).to(where)
        results = f(x, i, 2)
        g, = torch.autograd.grad(results[0].sum() + results[1].sum() + results[3].mean(), x, create_graph=True)
        g.pow(2).sum().backward() if g.requires_grad else None
        found.append([*results, g, *([] if x.grad is None else [x.grad])])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().cpu().numpy(), rtol=1e-4, atol=1e-5)
    assert [r.device.type for r in found[1][:6]] == ["cuda"] * 5 + ["cpu"]
    assert {r.device for r in found[1][:5]} == {ONE}
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        f(torch.randn(4, 3, device=ONE), torch.tensor([9], device=ONE), 1)[0].tolist()


@host.needs_compiler
def test_two_gpus_do_not_mix(driver: StandinDriver) -> None:
    @torch.script
    def add(x: Any, y: Any) -> Any:
        return x + y

    @torch.script
    def apart(x: Any, y: Any) -> Any:
        return x + 1, y + 1

    x = torch.ones(3)
    for f in (add, add.eager):
        with pytest.raises((RuntimeError, ScriptError), match="at least two devices, cuda:0 and cuda:1"):
            f(x.cuda(), x.to(ONE))
    with pytest.raises(ScriptError, match="tensors on two GPUs, cuda:0 and cuda:1"):
        apart(x.cuda(), x.to(ONE))


@host.needs_compiler
def test_what_a_script_calls_cuda_is_the_current_gpu(driver: StandinDriver) -> None:
    @torch.script
    def f(x: Any) -> Any:
        return x.cuda() + torch.ones(3, device="cuda"), torch.cuda.current_device(), torch.cuda.device_count()

    x = torch.ones(3)
    for current in (0, 1, 0, 1):
        with torch.cuda.device(current):
            y, number, count = f(x)
        assert (y.device.index, number, count) == (current, current, 2)
    assert f.cache_info().compilations == 2


@host.needs_compiler
def test_the_stand_in_sees_work_on_the_wrong_gpu(driver: StandinDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    from jitgrad.codegen.cuda.driver.launcher import DeviceLauncher, Launcher

    monkeypatch.setattr(DeviceLauncher, "build", Launcher.build)

    @torch.script
    def f(x: Any) -> Any:
        return x.exp().sum()

    x = torch.ones(3, device=ONE)
    with pytest.raises((RuntimeError, ValueError), match=r"CUDA error 400|an array of device 0 for"):
        f(x)
    with torch.cuda.device(1):
        assert torch.allclose(f(x), x.exp().sum())
