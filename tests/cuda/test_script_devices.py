"""What a script on a GPU says of devices, where its results are, when the host waits, what is raised and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.errors import ScriptError
from tests.codegen.cuda import host
from tests.cuda import standin
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.needs_compiler
F = torch.nn.functional


@pytest.fixture(autouse=True)
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache=""):
        yield driver


def randn(*shape: int, **kwargs: Any) -> Any:
    return torch.randn(*shape, **kwargs).cuda()


def test_a_tensor_has_the_device_that_eager_gives() -> None:
    @torch.script
    def f(x: Any, y: Any) -> Any:
        a = torch.zeros(3)
        b = torch.zeros(3, device=x.device)
        c = a.to(x.device) + x
        return [t.device for t in (x, y, a, b, c, x.cpu(), torch.zeros_like(x), y.cuda(), x.new_ones(2))], c.is_cuda

    x, y = randn(3), torch.randn(3)
    assert f(x, y) == f.eager(x, y)
    assert f(y, x) == f.eager(y, x)


def test_results_are_where_eager_has_them() -> None:
    @torch.script
    def f(x: Any, w: Any) -> Any:
        y = (x @ w).relu()
        return y, y.cpu(), torch.arange(3), y.sum().cpu() * 2

    x, w = randn(2, 3), randn(3, 4)
    for a, b in zip(f(x, w), f.eager(x, w), strict=True):
        assert a.device == b.device
        assert torch.allclose(a.cpu(), b.cpu())


def test_gradients_of_what_was_moved_are_where_it_was() -> None:
    @torch.script
    def f(x: Any, w: Any) -> Any:
        return (x * w.cuda()).sum()

    x = randn(3)
    mine, theirs = (torch.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(2))
    f(x, mine).backward()
    f.eager(x, theirs).backward()
    assert mine.grad.device == torch.device("cpu")
    assert torch.equal(mine.grad, theirs.grad)
    f(x, mine).cpu().backward()
    assert torch.allclose(mine.grad, 2 * theirs.grad)


def test_tensors_of_the_cpu_are_written_too() -> None:
    @torch.script
    def f(x: Any, count: Any, total: Any) -> Any:
        count += 1
        total.add_(x.cpu())
        return x * count

    x, count, total = randn(3), torch.zeros(()), torch.zeros(3)
    before = total.clone()
    for k in range(3):
        assert torch.allclose(f(x, count, total), x * (k + 1))
    assert count.item() == 3
    assert torch.allclose(total, before + 3 * x.cpu())


def test_operands_on_two_devices() -> None:
    @torch.script
    def f(x: Any, y: Any) -> Any:
        return x + y

    x = randn(3)
    assert torch.allclose(f(x, torch.tensor(2.0)), x + 2)  # of no dimensions: torch moves it
    with pytest.raises((RuntimeError, ScriptError), match="same device, but found at least two devices, cuda:0"):
        f(x, torch.ones(3))


def test_a_branch_decides_the_device() -> None:
    @torch.script
    def f(x: Any) -> Any:
        y = torch.zeros(3)
        if x.sum() > 0:
            y = x
        return y, y * 2

    for x in (torch.ones(3).cuda(), -torch.ones(3).cuda()):
        y, twice = f(x)
        on = "cuda" if x.sum() > 0 else "cpu"
        assert (y is x) is (on == "cuda")
        assert y.device.type == twice.device.type == on
        assert twice.tolist() == [2.0 * (on == "cuda")] * 3


def test_other_devices_are_other_programs() -> None:
    @torch.script
    def f(x: Any) -> Any:
        return x.exp() + torch.ones(()).sum()

    x = torch.randn(3)
    f(x)
    f(x.cuda())
    f(x)
    f(x.cuda())
    assert f.cache_info().compilations == 2
    assert f.recompilations == ["`x` was on cpu, is on cuda:0"]
    with torch.device("cuda"):
        assert f(x.cuda()).is_cuda
    assert f.cache_info().compilations == 3


def test_a_training_step_never_waits(driver: StandinDriver) -> None:
    @torch.script
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Dropout(0.2),
                                torch.nn.Linear(16, 3)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = randn(8, 6), torch.randint(0, 3, (8,)).cuda()
    losses = [step(model, opt, x, y) for _ in range(6)]
    before = driver.waits()
    for k in range(3):
        opt.param_groups[0]["lr"] = 0.01 * k
        losses.append(step(model, opt, x, y))
    assert driver.waits() == before
    assert step.cache_info().compilations <= 2
    assert losses[-1].item() < losses[0].item()


def test_an_index_out_of_range_is_raised_when_a_number_is_read(driver: StandinDriver) -> None:
    @torch.script
    def f(w: Any, i: Any) -> Any:
        return F.embedding(i, w) * 2, w[i]

    w = randn(5, 3)
    good = torch.tensor([0, 4, 2]).cuda()
    for _ in range(2):
        a, b = f(w, good)
        assert torch.equal(a, w[good] * 2)
        assert torch.equal(b, w[good])
    before = driver.waits()
    a, _ = f(w, torch.tensor([0, 9, 2]).cuda())
    assert driver.waits() == before
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        a.sum().item()
    assert torch.equal(f(w, good)[1], w[good])


def test_checks_of_indices_that_wait_are_read_together() -> None:
    """However many there are, the host waits for them once; the first that fails is raised."""
    @torch.script
    def f(w: Any, i: Any) -> Any:
        return w[i].sum()

    w = randn(5, 3)
    indices = [torch.tensor([k]).cuda() for k in (0, 1, 7, 2, 9, 3)]
    float(f(w, indices[0]))
    torch.cuda.synchronize()
    results = [f(w, i) for i in indices]
    before = sum(standin.waits.values())
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        results[0].item()
    assert sum(standin.waits.values()) - before == 1
    assert torch.equal(results[1], w[1].sum())


def test_an_index_in_a_loop_is_checked_at_once() -> None:
    @torch.script
    def f(w: Any, i: Any, n: int) -> Any:
        total = w.new_zeros(3)
        for _ in range(n):
            total = total + w[i].sum(0)
        return total

    w = randn(5, 3)
    assert torch.allclose(f(w, torch.tensor([1, 2]).cuda(), 3), 3 * (w[1] + w[2]))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        f(w, torch.tensor([1, 7]).cuda(), 3)


def test_random_numbers_are_the_cpus() -> None:
    @torch.script
    def f(x: Any) -> Any:
        return torch.rand_like(x), torch.randn(4, device=x.device), F.dropout(x, 0.5)

    x = torch.ones(7)
    torch.manual_seed(3)
    mine = f(x.cuda())
    torch.manual_seed(3)
    for a, b in zip(mine, f(x), strict=True):
        assert torch.allclose(a.cpu(), b, rtol=1e-6)


def test_views_that_are_not_contiguous_and_nothing_at_all() -> None:
    @torch.script
    def f(x: Any, y: Any) -> Any:
        y.mul_(2)
        return x.softmax(-1), (x @ x.t()).sum(), y.sum()

    for n in (4, 0, 1):
        x, y = randn(3, n).t(), randn(3, 6)[:, ::2]
        z = y.clone()
        want = f.eager(x, z)
        for a, b in zip(f(x, y), want, strict=True):
            assert torch.allclose(a, b)
        assert torch.allclose(y, z)


def test_an_error_of_the_driver_is_an_exception(driver: StandinDriver) -> None:
    @torch.script
    def f(x: Any) -> Any:
        return x.exp()

    f(randn(3))
    driver.c.fake_fail(0)
    try:
        with pytest.raises(RuntimeError, match="719"):
            f(randn(3))
    finally:
        driver.c.fake_fail(-1)
    assert f(randn(3)).shape == (3,)


def test_a_stored_program_is_loaded_for_its_device(tmp_path: Path) -> None:
    def g(x: Any, w: Any) -> Any:
        return (x @ w).relu().sum()

    x, w = randn(2, 4), randn(4, 3)
    with config.override(cache=str(tmp_path)):
        for hits in (0, 1):
            f = torch.script(g)
            assert torch.allclose(f(x, w), g(x, w))
            assert f.cache_info().disk_hits == hits
            assert f(x.cpu(), w.cpu()).device.type == "cpu"


def test_an_array_that_comes_back_after_a_copied_one() -> None:
    """Where an array is, is told again after a call with one that had to be copied."""
    @torch.script
    def f(x: Any) -> Any:
        return x * 2

    a, b = randn(3, 4), randn(4, 3).t()
    for x in (a, a, b, a, b, b, a):
        assert torch.equal(f(x), x * 2)


@torch.jit.ignore
def outside(x: torch.Tensor, k: int) -> torch.Tensor:
    assert x.is_cuda
    return (x * k).sin()


@torch.jit.ignore
def told(x: torch.Tensor) -> None:
    print(x.device, tuple(x.shape))


@torch.jit.ignore
def forgetful(x: torch.Tensor) -> torch.Tensor:
    return x.cpu() * 2


@torch.jit.ignore(returns=lambda x, y: (torch.zeros(x.shape), y, x))
def mixed(x: Any, y: Any) -> Any:
    return x.cpu() * 2, y + 1, (x.cpu() + y).to(x.device)


@pytest.mark.parametrize("interpret", [False, True])
def test_ignored_functions_return_tensors_where_they_say(interpret: bool) -> None:
    @torch.script
    def f(x: Any, y: Any) -> Any:
        a, b, c = mixed(x * 2, y + torch.ones(3))
        return a, b, c, c * 2, a + b

    @torch.script
    def g(x: Any) -> Any:
        return forgetful(x + 1)

    with config.override(interpret=interpret):
        x, y = randn(3).requires_grad_(), torch.randn(3)
        found, wanted = f(x, y), f.eager(x, y)
        for a, b in zip(found, wanted, strict=True):
            assert a.device == b.device
            assert torch.allclose(a.cpu(), b.cpu())
        gradients = []
        for results in (found, wanted):
            (results[0].sum() + results[3].cpu().sum()).backward()
            gradients.append(x.grad)
            x.grad = None
        assert torch.allclose(*gradients)
        with pytest.raises(RuntimeError, match=r"`forgetful` returned a tensor on cpu, where .* expects one on cuda:0"):
            g(x)
        assert torch.allclose(g(x.cpu()), forgetful(x + 1))


@pytest.mark.parametrize("interpret", [False, True])
def test_ignored_functions_are_given_tensors_of_the_device(interpret: bool, capsys: pytest.CaptureFixture[str]) -> None:
    @torch.script
    def f(x: Any, w: Any) -> Any:
        y = outside(x @ w, 2)
        told(y)
        return y.sum(), y

    x, w = randn(3, 4), randn(4, 2).requires_grad_()
    with config.override(interpret=interpret):
        total, y = f(x, w)
        total.backward()
    mine, w.grad = w.grad, None
    assert y.is_cuda
    f.eager(x, w)[0].backward()
    assert torch.allclose(mine, w.grad)
    assert capsys.readouterr().out == "cuda:0 (3, 2)\n" * 2


@pytest.mark.parametrize("interpret", [False, True])
def test_what_an_exception_leaves_is_where_eager_has_it(interpret: bool) -> None:
    class Box(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("total", torch.ones(3))
            self.last: Any = None
            self.told: Any = None

    def f(x: Any, box: Any, optimizer: Any) -> Any:
        box.total = box.total * 0.5
        box.last = box.p * 2
        box.told = torch.ones(2) * 3
        (x * box.p).sum().backward()
        optimizer.step()
        if x.sum() > 0:
            raise ValueError("too large")
        return x

    found = []
    for function in (torch.script(f), f):
        box = Box().cuda()
        optimizer = torch.optim.Adam([box.p], lr=0.1)
        with config.override(interpret=interpret), pytest.raises(ValueError, match="too large"):
            function(torch.ones(3).cuda(), box, optimizer)
        (state,) = optimizer.state.values()
        tensors = [box.p, box.p.grad, box.total, box.last, box.told, *[state[k] for k in sorted(state)]]
        found.append([(t.device, t.requires_grad, t.tolist()) for t in tensors])
    assert found[0] == found[1]
    assert {str(where) for where, *_ in found[0]} == {"cpu", "cuda:0"}


def test_an_argument_that_the_backward_reads_again_is_not_written() -> None:
    """Eager keeps `x + b`; a script on a GPU keeps x, which its caller has anyway."""
    def wave(x: Any, b: Any) -> Any:
        return (x + b).sin()

    script = torch.script(wave)
    x, b = torch.ones(5, 4, device="cuda"), torch.ones(4, device="cuda", requires_grad=True)
    y = script(x, b)
    y.sum().backward()
    expected = b.grad.tolist()
    b.grad = None
    y, z = wave(x, b), script(x, b)
    x.add_(1)
    y.sum().backward()
    assert b.grad.tolist() == pytest.approx(expected, rel=1e-6)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
