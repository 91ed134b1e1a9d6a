"""Arguments that a program overwrites: computed in place only where nothing can tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config, script

PROGRAMS: list[Callable[[Any, Any], Any]] = []


def program(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS.append(function)
    return function


@program
def the_old_content_is_kept(p, q):
    old = p.clone()
    p.copy_(p * 2 + q)
    q.copy_(q + old)
    return (p * q).sum()


@program
def read_in_another_order(p, q):
    p.copy_(p.t() + q)
    return p.sum()


@program
def read_by_a_reduction(p, q):
    p.sub_(p.mean(1, keepdim=True))
    q.add_(p.sum())
    return q.mean()


@program
def written_twice(p, q):
    t = p * 1.0
    p.add_(1)
    q.mul_(t)
    p.mul_(2)
    return t.sum()


@program
def written_in_a_branch(p, q):
    p.mul_(2)
    if q.sum() > 0:
        q.add_(p)
    return p.sum()


@program
def one_value_for_two(p, q):
    u = p + q
    p.copy_(u)
    q.copy_(u * p)
    return u.sum() + p.sum()


@program
def sums_of_what_is_written(p, q):
    s = p.sum(0)
    p.add_(s)
    q.sub_(s[:, None])
    return s


@program
def parts_are_written(p, q):
    p[0].mul_(2)
    p[1:].add_(q[1:])
    q[:, 0] = p[:, 1]
    return p.sum()


@program
def seen_between_two_writes(p, q):
    p.add_(1)
    print(f"{p.sum().item():.3f}")
    p.mul_(3)
    return p


@program
def written_row_by_row(p, q):
    for k in range(p.shape[0]):
        p[k].add_(q.sum())
        q[k].sub_(p[0])
    return q


@program
def written_and_returned(p, q):
    r = p * 2
    p.copy_(r)
    return r


@program
def each_reads_the_other(p, q):
    p.add_(q.t())
    q.add_(p.t())


@program
def one_step_of_an_optimizer(p, q):
    p.lerp_(q, 0.5)
    q.mul_(0.9).addcmul_(p, p, value=0.1)
    d = q.abs().sqrt() + 1e-3
    p.addcdiv_(p, d, value=-0.1)
    return d


@program
def an_error_after_the_first_write(p, q):
    p.add_(1)
    if p.sum() > 1e6:
        raise ValueError("too large")
    q.add_(1)
    if q.sum() > -1e6:
        raise ValueError("stop")
    p.add_(1)


@program
def negated_and_back_with_checks_between(p, q):
    m = q * 0.5
    for _i in (m.size(1), 1):
        p.neg_()
        if q[0, 0] > 9:
            continue
    c = m[:, 0]
    p.neg_()
    print(p.sum().item() > 1e6)
    p.neg_()
    return m + c


def run(function: Any, mode: str, capsys: Any) -> list[Any]:
    torch.manual_seed(1)
    p, q = torch.randn(5, 5), torch.randn(5, 5)
    f = function if mode == "eager" else script(function)
    found: list[Any] = []
    with config.override(interpret=mode == "interpreted"):
        for _ in range(2):
            try:
                result = f(p, q)
            except ValueError as error:
                result = None
                found.append(str(error))
            found += [None if result is None else result.numpy().copy(), p.numpy().copy(), q.numpy().copy()]
    return [*found, capsys.readouterr().out]


@pytest.mark.parametrize("mode", ["interpreted", "native"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_agrees_with_eager(function, mode, capsys):
    expected = run(function, "eager", capsys)
    for a, b in zip(expected, run(function, mode, capsys), strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
        else:
            assert a == b


def test_a_parameter_is_updated_without_a_copy():
    def step(p, g, m):
        m.mul_(0.9).add_(g)
        p.sub_(m, alpha=0.1)

    f = script(step)
    f(torch.ones(4, 4), torch.ones(4, 4), torch.ones(4, 4))
    (kernel,) = f.kernels(torch.ones(4, 4), torch.ones(4, 4), torch.ones(4, 4))
    assert kernel.count("store") == 2


@pytest.mark.parametrize("write", [
    lambda r: r.copy_(r.flip(0)), lambda r: r.copy_(r.flip(0, 1)), lambda r: r.copy_(r.flip(0) + 1)])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 3)])
def test_a_reshape_of_what_an_input_shows_in_another_order_is_read_before_it_is_written(write, axes):
    def f(x):
        r = x.flatten(*axes)
        if r.dim() > 1:
            write(r)
        else:
            r.copy_(r.flip(0))
        return x + 0

    x = torch.arange(24.0).reshape(3, 2, 2, 2)
    expected, found = x.clone(), x.clone()
    assert script(f)(found).tolist() == f(expected).tolist()
    assert found.tolist() == expected.tolist()
