"""Sizes that turn out to be negative, or nothing: scripts made for others raise as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as torch
import jitgrad.nn.functional as F


def transposed(x: Any) -> Any:
    return F.conv_transpose1d(x, torch.ones(1, 1, 2))


def transposed_and_cut(x: Any) -> Any:
    return F.conv_transpose2d(x.unsqueeze(2), torch.ones(1, 1, 1, 2), padding=(0, 2))


def convolved(x: Any) -> Any:
    return F.conv1d(x, torch.ones(1, 1, 2), dilation=2)


def narrowed(x: Any) -> Any:
    return x.narrow(2, 0, x.shape[2] - 2)


def windows(x: Any) -> Any:
    return x.unfold(2, 3, 2)


def columns(x: Any) -> Any:
    return F.unfold(x.unsqueeze(2), (1, 3), padding=(0, 1), dilation=2)


def pooled(x: Any) -> Any:
    return F.max_pool1d(x, 3), F.avg_pool1d(x, 2, ceil_mode=True)


def adaptive(x: Any) -> Any:
    return F.adaptive_avg_pool1d(x, x.shape[2] - 2)


def padded(x: Any) -> Any:
    return F.pad(x, (-3, 1))


def zeros(x: Any) -> Any:
    return torch.zeros(x.shape[2] - 2), x.new_ones(2, x.shape[2] - 2)


def counted(x: Any) -> Any:
    return torch.arange(2 * x.shape[2]), torch.eye(x.shape[2] - 2)


def spaced(x: Any) -> Any:
    return torch.linspace(0, 1, x.shape[2] - 2)


def drawn(x: Any) -> Any:
    return torch.randperm(x.shape[2] - 2).sort().values, torch.rand(x.shape[2] - 1) < 2


def expanded(x: Any) -> Any:
    return torch.ones(1).expand(2 * x.shape[2] - 4)


def repeated(x: Any) -> Any:
    return x.repeat(1, 1, x.shape[2] - 2)


def largest(x: Any) -> Any:
    return torch.topk(x, x.shape[2] - 2).values


def divided(x: Any) -> Any:
    return x.split(x.shape[2] - 2, 2)[0]


def reshaped(x: Any) -> Any:
    return x.reshape(1, x.shape[2] - 2, -1)


def resampled(x: Any) -> Any:
    return F.interpolate(x, size=x.shape[2] - 2)


def transformed(x: Any) -> Any:
    return torch.fft.irfft(torch.complex(x, x))


def weighted(x: Any) -> Any:
    n = x.shape[2] - 2
    return torch.hann_window(n), torch.bartlett_window(n), torch.blackman_window(n, periodic=False)


def histogram(x: Any) -> Any:
    return torch.histc(x, x.shape[2] - 2)


#: what torch gives for axes of 0, 1, ... 4 elements: "-" for an error
ANSWERS = {transposed: "-++++", transposed_and_cut: "----+", convolved: "---++", narrowed: "--+++", windows: "---++",
           columns: "---++", pooled: "---++", adaptive: "--+++", padded: "---++", zeros: "--+++", counted: "--+++",
           spaced: "--+++", drawn: "--+++", expanded: "--+++", repeated: "+-+++", largest: "--+++", divided: "---++",
           reshaped: "---++", resampled: "---++", transformed: "--+++", weighted: "--+++", histogram: "---++"}


def answer(f: Callable[[Any], Any], n: int) -> Any:
    """What a function gives for n elements, or the class of what it raises."""
    try:
        found = f(torch.arange(1.0, n + 1).reshape(1, 1, n))
    except Exception as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return [(tuple(y.shape), y.flatten().tolist()) for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("f", ANSWERS, ids=lambda f: f.__name__)
def test_sizes_that_are_negative(f: Callable[[Any], Any]) -> None:
    eager = [answer(f, n) for n in range(5)]
    assert "".join("-" if isinstance(a, type) else "+" for a in eager) == ANSWERS[f]
    assert {a for a in eager if isinstance(a, type)} <= {RuntimeError, IndexError}
    script = torch.script(f)
    answer(script, 7)
    for n in (0, 1, 2, 3, 4, 0):
        assert answer(script, n) == eager[n]
    for n in range(5):
        assert answer(torch.script(f), n) == eager[n]


def test_calls_that_torch_refuses() -> None:
    x = torch.ones(0, 3)
    assert tuple(x.repeat(-1, 2).shape) == (0, 6)
    assert torch.cov(torch.ones(2, 0)).isnan().all()
    assert F.adaptive_max_pool1d(torch.ones(1, 1, 3), 0).shape == (1, 1, 0)
    for call in (lambda: x.unflatten(1, (-2, -1)), lambda: x.expand(-2, 3), lambda: torch.fft.fft(x[0:1], n=-1),
                 lambda: F.one_hot(torch.zeros(0, dtype=torch.int64), 0), lambda: torch.vander(torch.ones(2), -1),
                 lambda: torch.bincount(torch.zeros(2, dtype=torch.int64), minlength=-1), lambda: torch.randn(2, -1),
                 lambda: torch.randperm(-2), lambda: F.adaptive_avg_pool1d(torch.ones(1, 1, 3), -1)):
        with pytest.raises(RuntimeError):
            call()


def totals(x: Any) -> Any:
    m = x.reshape(1, -1)
    return (torch.median(x), torch.nanmedian(x), torch.median(x.long()), torch.histc(x, 3), torch.fft.fftfreq(len(x)),
            torch.linalg.matrix_norm(m, 1), torch.linalg.matrix_norm(m.T, float("inf")),
            torch.histogramdd(m.T, [2]).hist)


def test_of_nothing() -> None:
    """What torch gives for tensors without elements, in scripts that were made for others."""
    script = torch.script(totals)
    script(torch.ones(3))
    for run in (totals, script):
        assert str([y.tolist() for y in run(torch.zeros(0))]) == str(
            [float("nan"), float("nan"), -2**63, [0.0] * 3, [], 0.0, 0.0, [0.0] * 2])


def numbered(times: Any) -> Any:
    return torch.repeat_interleave(times), torch.repeat_interleave(repeats=times, output_size=3)


@pytest.mark.parametrize("run", [numbered, torch.script(numbered)], ids=["eager", "scripted"])
def test_numbers_by_how_often(run: Any) -> None:
    assert [y.tolist() for y in run(torch.tensor([1, 0, 2]))] == [[0, 2, 2]] * 2
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        run(torch.tensor([3, -1]))
    with pytest.raises(NotImplementedError):
        torch.repeat_interleave(torch.ones(2))
    with pytest.raises(RuntimeError, match="allocated size"):
        run(torch.tensor([1, 1]))
