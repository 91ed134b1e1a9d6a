"""Recurrent layers, chunks and joins on a GPU: few kernels, each of one size, and eager's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache="", debug_arena=True):
        yield driver


def lstm(x: Any, wx: Any, wh: Any, bias: Any) -> Any:
    hidden = x.new_zeros(x.shape[1], x.shape[2])
    cell = x.new_zeros(x.shape[1], x.shape[2])
    for k in range(x.shape[0]):
        i, f, g, o = (x[k] @ wx + hidden @ wh + bias).chunk(4, -1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
    return hidden


def rows(a: Any, b: Any, c: Any) -> Any:
    """Each state is a row of the result; what is written over is read by nobody."""
    out = a.new_zeros(c.shape[0], 4, 6)
    h = b
    for k in range(c.shape[0]):
        h = torch.tanh(h * a + c[k])
        out[k] = h
    return out.sum(0) + h


def rows_that_are_read(a: Any, b: Any, c: Any) -> Any:
    out = a.new_zeros(5, 4, 6)
    h = b
    for k in range(c.shape[0]):
        h = torch.tanh(h * a + out[k])
        out[k + 1] = h
    return out.sum(0) * c


def joined(a: Any, b: Any, c: Any) -> Any:
    x = a * b
    return torch.cat((x.tanh(), x, (a + c) * x), 1).cumsum(1)


def same_twice(a: Any, b: Any, c: Any) -> Any:
    x = a * b
    return torch.cat((x, x, c), 0).flip(0)


def halves(a: Any, b: Any, c: Any) -> Any:
    one, other = (a @ b.t()).chunk(2, 1)
    return one * torch.sigmoid(other)


def in_a_loop(a: Any, b: Any, c: Any) -> Any:
    for _ in range(3):
        left, right = (a * 0.5 + b).chunk(2, 0)
        a = torch.cat((right.tanh(), left * c[:2]), 0)
    return a


def views_of_results(a: Any, b: Any, c: Any) -> Any:
    """Results with the memory of what makes them, but for the one whose neighbours would be apart."""
    x = (a * b).reshape(2, 2, 6).transpose(0, 1).tanh()
    others = (a + c)[1:3], (a * c).expand(2, 4, 6)
    return x.transpose(0, 1), (c * 2).unsqueeze(1), (a - c).exp().t(), (b + c).reshape(-1), *others


def joined_views(a: Any, b: Any, c: Any) -> Any:
    """Parts behind views: written in place, but for `x`, which is read twice, and for what is turned."""
    x = (a * b).sum(1)
    turned = (a + b).exp().reshape(2, 2, 6).transpose(0, 1).reshape(4, 6)
    rows = torch.cat((turned, x.unsqueeze(1), c * x[:, None]), 1)
    return torch.cat((rows.t(), (a[:, :4] - c[:, 2:]).t(), torch.stack((a.sum(), b.prod(), x.max(), c.min()))[None]), 0)


def randn(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


PROGRAMS = [
    (lstm, [(5, 2, 6), (6, 24), (6, 24), (24,)]), *[(f, [(4, 6)] * 3) for f in (
        joined_views, joined, same_twice, halves, in_a_loop, rows, rows_that_are_read)]]


@pytest.mark.parametrize(("function", "shapes"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
@pytest.mark.parametrize("order", [False, True], ids=["ascending", "descending"])
def test_values_and_gradients(function: Any, shapes: Any, order: bool, driver: StandinDriver) -> None:
    torch.manual_seed(0)
    given = [randn(*shape) for shape in shapes]
    found = []
    with driver.reversed(order):
        for f, where in ((torch.script(function), "cuda"), (function, "cpu")):
            for _ in range(2):
                own = [t.detach().to(where).requires_grad_() for t in given]
                y = f(*own)
                (y * y).sum().backward()
            found.append([t.detach().cpu().numpy() for t in (y, *[t.grad for t in own if t.grad is not None])])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", [False, True], ids=["ascending", "descending"])
def test_results_that_are_views(order: bool, driver: StandinDriver) -> None:
    given = [randn(4, 6) for _ in range(3)]
    with driver.reversed(order), torch.no_grad():
        for _ in range(2):
            found = torch.script(views_of_results)(*[t.cuda() for t in given])
            for y, expected in zip(found, views_of_results(*given), strict=True):
                np.testing.assert_allclose(y.cpu().numpy(), expected.numpy(), rtol=1e-12)


def launches(function: Any, *shapes: tuple[int, ...], backward: bool = False, loop: bool = False) -> list[str]:
    """What a script launches, of a loop in each iteration."""
    given = [randn(*shape).requires_grad_(backward) for shape in shapes]
    rows = [line.split() for line in str(torch.script(function).traffic(*given, backward=backward)).splitlines()]
    return [r[-1] for r in rows if r[:1] in (["forward"], ["backward"]) and ("loop" in r) == loop]


def test_an_lstm_is_two_kernels_an_iteration() -> None:
    found = launches(lstm, (5, 2, 6), (6, 24), (6, 24), (24,), loop=True)
    assert len(found) == 2
    assert found.count("matmul") == 1


def test_a_row_is_written_by_the_kernel_that_makes_it() -> None:
    assert len(launches(rows, (4, 6), (4, 6), (4, 6), loop=True)) == 1
    assert len(launches(rows_that_are_read, (4, 6), (4, 6), (4, 6), loop=True)) > 1


def test_parts_are_written_where_they_belong() -> None:
    found = launches(lambda a, b: torch.cat(((a * b).tanh(), a - b), 1).sum(0), (4, 6), (4, 6))
    assert len(found) == 2


def test_results_are_written_where_they_belong() -> None:
    for function, names in ((lambda a: (a.reshape(2, 2, 6).transpose(0, 1) + 1).transpose(0, 1), 1),
                            (lambda a: (a.sum(0) * 2).unsqueeze(1), 1), (lambda a: (a + 1).t(), 2)):
        assert len(launches(function, (4, 6))) == names


def test_the_gradient_of_chunk_is_one_kernel() -> None:
    found = launches(lstm, (5, 2, 6), (6, 24), (6, 24), (24,), backward=True, loop=True)
    assert not [name for name in found if "slice_add" in name]
