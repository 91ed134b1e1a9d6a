"""Equal kernels launched together: the same bits as one by one and as the interpreter, fewer launches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes, nn, optim
from jitgrad.codegen.cuda.host import gpu
from jitgrad.codegen.cuda.kernels import each
from jitgrad.codegen.cuda.schedule import passes
from jitgrad.codegen.cuda.schedule.grouping import grouped
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.device_steps import EachPut, EachStep
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program.steps import KernelStep, LoopStep
from jitgrad.ops.types import BOOL, FLOAT, INT
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import host, hostgraphs
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.programs import duplicate, graph, sizes, tensor
from tests.cuda import hosted

pytestmark = host.emulated
f32 = dtypes.float32


# --- random programs ---

class Random:
    """Many small pointwise kernels on a few tensors, most of which write an input in place; checks between them."""

    def __init__(self, seed: int, steps: int = 24):
        self.rng = rng = np.random.default_rng(seed)
        self.steps = steps
        shapes = [rng.integers(0, 3) for _ in range(7)]
        self.extents = (3, 2 * each.CHUNK // 100 + 1, int(rng.integers(2, 90)))
        names = sizes("N M K")
        self.types = [tensor(names[s], dtype=f32) for s in shapes] + [tensor(dtype=f32)] * 2
        given = [rng.standard_normal(self.extents[s]).astype("f") for s in shapes]
        given += [np.array(rng.standard_normal(), "f") for _ in range(2)]
        self.inputs: list[Any] = [*given, *[float(x) for x in rng.standard_normal(2)], bool(rng.integers(0, 4)),
                                  int(rng.integers(0, 4))]
        self.graph = pipeline.run(graph(self.body, *self.types, FLOAT, FLOAT, BOOL, INT))

    def body(self, F: Any, *given: Any) -> list[Any]:
        rng, n, b = self.rng, len(self.types), F.builder
        current = list(given[:n])
        numbers, good, trips = list(given[n:n + 2]), given[n + 2], given[n + 3]
        results: list[Any] = []
        commits = set(rng.permutation(n)[:n - 2].tolist())
        for _ in range(self.steps):
            i = int(rng.integers(n))
            x = current[i]
            others = [c for c in current + results if c.shape == x.shape]
            y = others[rng.integers(len(others))]
            kind = rng.integers(7)
            if kind <= 1:
                number = b.one("fill", numbers[rng.integers(2)], shape=(), dtype=f32)
                new = F.add(x, F.mul(y, F.expand(F.wrap(number), shape=x.shape)))
            elif kind == 2:
                new = F.sub(F.mul(x, 0.5), y)
            elif kind == 3:
                new = F.maximum(y, F.neg(x))
            elif kind == 4:
                numbers[rng.integers(2)] = b.one("num.mul", numbers[0], b.one("item", current[-1].value))
                continue
            elif kind == 5 and rng.integers(3) == 0:
                b.emit("check", (good,), types=(), error=RuntimeError, template=("stop",))
                continue
            else:
                new = F.expand(F.wrap(b.one("fill", numbers[0], shape=(), dtype=f32)), shape=x.shape)
            if i in commits and rng.integers(3):
                b.emit("commit", (new.value,), types=(), target=i)
                commits.discard(i)
            elif rng.integers(2):
                results.append(new)
            current[i] = new
        del trips
        return [*results, *numbers, *current]


def ran(run: Any, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The results (or the exception's text), and what is in the inputs afterwards."""
    inputs = duplicate(inputs)
    try:
        with np.errstate(all="ignore"):
            return run(inputs), inputs
    except RuntimeError as error:
        return [str(error)], inputs


def equal(a: tuple[list[Any], list[Any]], b: tuple[list[Any], list[Any]]) -> None:
    for xs, ys in zip(a, b, strict=True):
        for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
            np.testing.assert_array_equal(x, y, err_msg=str(k))


def launches(run: Any, inputs: list[Any]) -> tuple[tuple[list[Any], list[Any]], int]:
    driver().forget()
    found = ran(run, inputs)
    return found, len(driver().launches())


def test_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grouped, one by one, and by the interpreter: the same bits; with all orders of threads the same launches."""
    few = many = stopped = 0
    for seed in range(14):
        case = Random(seed)
        expected = ran(lambda inputs, g=case.graph: interpret(g, inputs), case.inputs)
        stopped += expected[0] == ["stop"]
        together = gpu.compile({"f": case.graph}, driver())["f"]
        with monkeypatch.context() as patch:
            patch.setattr(passes, "grouped", lambda program: program)
            alone = gpu.compile({"f": case.graph}, driver())["f"]
        for _ in range(2):
            found, count = launches(together, case.inputs)
            equal(found, expected)
            few += count
        found, count = launches(alone, case.inputs)
        equal(found, expected)
        many += 2 * count
    assert few < 0.8 * many
    assert stopped >= 2


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_programs_as_graphs(seed: int) -> None:
    case = Random(seed)
    run = gpu.compile({"f": case.graph}, hostgraphs.driver())["f"]
    for k in range(4):
        inputs = [np.asarray(x * (1 - 0.25 * k), x.dtype) if isinstance(x, np.ndarray) else x for x in case.inputs]
        equal(ran(run, inputs), ran(lambda given, g=case.graph: interpret(g, given), inputs))


# --- what is grouped ---

def steps_of(body: Any, *types: Any) -> list[Any]:
    return grouped(lower("f", pipeline.run(graph(body, *types)), device=True)).steps


def classes(steps: list[Any]) -> list[type]:
    return [type(s) for s in steps if isinstance(s, (EachPut, EachStep, KernelStep))]


def test_numbers_that_differ_are_in_the_table() -> None:
    def body(F: Any, *given: Any) -> Any:
        *tensors, a, b, c = given
        made = {n: F.wrap(F.builder.one("fill", n, shape=(), dtype=f32)) for n in (a, b, c)}
        return [F.add(F.mul(x, F.expand(made[n], shape=x.shape)), F.expand(made[a], shape=x.shape))
                for x, n in zip(tensors, (b, c, b), strict=True)]

    steps = steps_of(body, *[tensor(n) for n in sizes("N M K")], FLOAT, FLOAT, FLOAT)
    (step,) = [s for s in steps if isinstance(s, EachStep)]
    assert len(step.parts) == 3
    assert step.shared == (False, True)


def test_what_reads_a_result_stays_behind_it() -> None:
    N, = sizes("N")

    def body(F: Any, x: Any, y: Any) -> Any:
        first = F.add(x, y)
        total = F.sum(first, axes=(0,), keepdim=True)
        second = F.add(y, F.expand(total, shape=x.shape))
        return first, second, F.add(second, x)

    steps = steps_of(body, tensor(N), tensor(N))
    assert EachStep not in classes(steps)


def test_a_table_is_as_large_as_a_launch_takes() -> None:
    """More tensors than fit: two launches."""
    count = each.MOST_WORDS // 5 + 40
    steps = steps_of(lambda F, *xs: [F.mul(x, 2.0) for x in xs], *[
        tensor(n) for n in sizes(" ".join(f"n{k}" for k in range(count)))])
    parts = [len(s.parts) for s in steps if isinstance(s, EachStep)]
    assert len(parts) == 2
    assert sum(parts) == count
    assert all(n * 4 <= each.MOST_WORDS for n in parts)


def test_kernels_in_a_loop_are_grouped_there() -> None:
    @jitgrad.script
    def train(p, q, n):
        for _ in range(n):
            p -= 0.5 * p
            q -= 0.5 * q
        return p, q

    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, hosted.gpu(), config.override(cache=""):
        patch.setattr(passes, "grouped", lambda p: seen.append(grouped(p)) or seen[-1])
        p, q = train(jitgrad.ones(3, device="cuda"), jitgrad.ones(5, device="cuda"), 3)
        np.testing.assert_array_equal([p[0].item(), q[4].item()], [0.125, 0.125])
    (loop,) = [s for s in seen[0].steps if isinstance(s, LoopStep)]
    assert classes(loop.body) == [EachPut, EachPut, EachStep]


def test_fits_leaves_room_for_parameters() -> None:
    out = Operand(f32, (1,), "out")
    body = (*[Stmt("scalar", number=k, dtype=f32) for k in range(25)], Stmt("store", (0,), operand=0))
    assert not each.fits(Kernel((1,), (), (out,), (f32,) * 25, body))
    assert each.fits(each.flat(Kernel((), (), (Operand(f32, (), "out"),), (f32,), (
        Stmt("scalar", number=0, dtype=f32), Stmt("store", (0,), operand=0)))))


def test_numbers_of_every_dtype() -> None:
    """Shared ones are parameters, others words of the table."""
    kinds = [dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float16,
             dtypes.bfloat16, dtypes.float32, dtypes.float64]
    values = [True, 200, -3, -300, -70000, -(1 << 40), 1.5, -2.5, 0.1, 0.1]

    def body(F: Any, *given: Any) -> Any:
        numbers = given[2:]
        results = []
        for d, value in zip(kinds, values, strict=True):
            for x, other in zip(given[:2], numbers, strict=True):
                kind = F.builder.one("num.const", value=value)
                if d not in (dtypes.bool_, dtypes.float16, dtypes.bfloat16):
                    kind = F.builder.one("num.add", kind, other)
                one = F.wrap(F.builder.one("fill", kind, shape=(), dtype=d))
                results.append(F.expand(one, shape=x.shape))
        return results

    N, M = sizes("N M")
    g = pipeline.run(graph(body, tensor(N), tensor(M), INT, INT))
    x, y = np.zeros(5, "f"), np.zeros(70, "f")
    equal(ran(gpu.compile({"f": g}, driver())["f"], [x, y, 3, 7]), ran(lambda i: interpret(g, i), [x, y, 3, 7]))


# --- optimizers ---

@jitgrad.script
def update(opt: Any) -> None:
    opt.step()


def counted(kind: Any, parameters: int, **options: Any) -> int:
    """Launches of one step over so many parameters."""
    with hosted.gpu() as device, config.override(cache=""):
        rng = np.random.default_rng(0)
        own = [nn.Parameter(jitgrad.tensor(rng.standard_normal((3 + k, 2)), dtype=f32).cuda())
               for k in range(parameters)]
        plain = [nn.Parameter(p.detach().cpu()) for p in own]
        there, here = kind(own, **options), kind(plain, **options)
        for _ in range(3):
            for p, q in zip(own, plain, strict=True):
                q.grad = jitgrad.tensor(rng.standard_normal(q.shape), dtype=f32)
                p.grad = q.grad.cuda()
            device.forget()
            update(there)
            count = len(device.launches())
            here.step()
        for p, q in zip(own, plain, strict=True):
            np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), 1e-5, 1e-6)
        return count


@pytest.mark.parametrize(("kind", "options", "most"), [
    (optim.Adam, {"lr": 0.1}, 2), (optim.AdamW, {"lr": 0.1}, 2), (optim.SGD, {"lr": 0.1}, 1),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1)])
def test_an_optimizer_launches_kinds_of_kernels(kind: Any, options: dict[str, Any], most: int) -> None:
    few = counted(kind, 3, **options)
    assert few <= most
    assert counted(kind, 8, **options) == few


@jitgrad.script
def training(x: Any, y: Any, model: Any, opt: Any) -> Any:
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    return loss


def test_a_training_step() -> None:
    """Adam on a network of four layers: 26 launches one by one."""
    def made() -> Any:
        jitgrad.manual_seed(1)
        widths = (6, 16, 12, 10, 3)
        layers = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1])

    with hosted.gpu() as device, config.override(cache=""):
        rng = np.random.default_rng(0)
        x, y = (jitgrad.tensor(rng.standard_normal((8, k)), dtype=f32) for k in (6, 3))
        here, there = made(), made().cuda()
        mine, theirs = optim.Adam(here.parameters(), lr=1e-2), optim.Adam(there.parameters(), lr=1e-2)
        for _ in range(3):
            expected = training(x, y, here, mine).item()
            device.forget()
            np.testing.assert_allclose(training(x.cuda(), y.cuda(), there, theirs).item(), expected, 1e-4)
        assert len(device.launches()) <= 13


# --- reductions ---

def clipped(where: str, shapes: Any, bad: int = -1) -> list[np.ndarray[Any, Any]]:
    """The norm of gradients, the gradients after clipping, and parameters after a step."""
    rng = np.random.default_rng(2)
    params = []
    for k, shape in enumerate(shapes):
        p = nn.Parameter(jitgrad.tensor(rng.standard_normal(shape).astype("f")).to(where))
        p.grad = jitgrad.tensor(rng.standard_normal(shape).astype("f")).to(where)
        if k == bad:
            p.grad.mul_(float("nan"))
        params.append(p)
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)

    def step(params: Any, optimizer: Any) -> Any:
        total = nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        return total

    run = jitgrad.script(step) if where == "cuda" else step
    totals = [run(params, optimizer) for _ in range(2)]
    return [t.detach().cpu().numpy() for t in (*totals, *params, *[p.grad for p in params])]


@pytest.mark.parametrize("bad", [-1, 3])
def test_clipping_the_norm_of_many_gradients(bad: int) -> None:
    """Each gradient's square is a part of one launch."""
    shapes = [(7, 5), (3,), (1,), (2, 3, 4), (1000,), (65, 64), (257,), (0, 4), (255, 1)] * 3
    with hosted.gpu():
        found = clipped("cuda", shapes, bad)
    for a, b in zip(found, clipped("cpu", shapes, bad), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


@pytest.mark.parametrize(("count", "most"), [(3, 5), (149, 11)])
def test_launches_of_clipping(count: int, most: int) -> None:
    @jitgrad.script
    def clip(grads: Any) -> Any:
        total = jitgrad.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
        for g in grads:
            g.mul_(1 / (total + 1e-6))
        return total

    grads = [jitgrad.ones(5 + k, 3) for k in range(count)]
    assert clip.traffic(grads).launches <= most


def test_launches_of_clipping_and_a_step() -> None:
    """Clipped gradients are written before numbers are computed that may overflow; moments and parameters after."""
    def step(params: Any, optimizer: Any) -> Any:
        total = nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        return total

    with hosted.gpu():
        params = [nn.Parameter(jitgrad.ones(5 + k, 3, device="cuda")) for k in range(9)]
        for p in params:
            p.grad = jitgrad.ones_like(p)
        optimizer = optim.AdamW(params, lr=0.1)
        run = jitgrad.script(step)
        run(params, optimizer)
        assert run.traffic(params, optimizer).launches <= 6
