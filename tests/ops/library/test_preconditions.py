"""What torch refuses is refused, eagerly and in scripts: numbers that do not fit, memory written where it is read."""

from __future__ import annotations

import math
from typing import Any

import pytest

import jitgrad as torch


def item(x: Any, n: Any) -> Any:
    x[:] = n
    return x


def at_indices(x: Any, n: Any) -> Any:
    x[torch.tensor([0, 1, 2])] = n
    return x


def where_true(x: Any, n: Any) -> Any:
    x[x == 0] = n
    return x


def fill(x: Any, n: Any) -> Any:
    return x.fill_(n)


def masked(x: Any, n: Any) -> Any:
    return x.masked_fill(x == 0, n)


def at_index(x: Any, n: Any) -> Any:
    return x.index_fill(0, torch.tensor([0, 1, 2]), n)


#: what is written, where, what is there then; None: it raises
NUMBERS = [(torch.uint8, 255, 255), (torch.uint8, 256, None), (torch.uint8, -1, 255), (torch.uint8, -256, None),
           (torch.uint8, 2.5, 2), (torch.int8, 127, 127), (torch.int8, 128, None), (torch.int8, -129, None),
           (torch.int8, -0.0, 0), (torch.int8, 0.5, 0), (torch.int16, 40000, None), (torch.int32, 1 << 31, None),
           (torch.int64, 2.5, 2), (torch.int64, 1e30, None), (torch.int64, math.nan, None),
           (torch.int64, -math.inf, None), (torch.bool, 3, True), (torch.bool, 0.5, True)]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize("write", [item, at_indices, where_true, fill, masked, at_index], ids=lambda f: f.__name__)
def test_numbers_that_an_integer_type_cannot_hold(write: Any, script: bool) -> None:
    for dtype, number, expected in NUMBERS:
        run = torch.script(write) if script else write
        x = torch.zeros(3, dtype=dtype)
        if expected is None:
            with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
                run(x, number)
            assert x.tolist() == [0] * 3
        else:
            assert run(x, number).tolist() == [expected] * 3


def test_numbers_that_a_floating_type_cannot_hold() -> None:
    for dtype, number in ((torch.float16, 65505), (torch.float16, -1e10), (torch.bfloat16, 1e39),
                          (torch.float32, 1e39)):
        x = torch.zeros(2, dtype=dtype)
        for write in (item, fill, torch.full_like) if dtype is torch.float32 else (fill, torch.full_like):
            with pytest.raises(RuntimeError, match="without overflow"):
                write(x, number)
        assert fill(x, math.inf).tolist() == [math.inf] * 2
        assert math.isnan(fill(x, math.nan)[0])
    assert item(torch.zeros(2, dtype=torch.float16), -1e10).tolist() == [-math.inf] * 2  # by way of float32
    with pytest.raises(OverflowError):
        torch.zeros(2).fill_(1 << 70)
    assert (torch.zeros(2, dtype=torch.uint8) + 300).tolist() == [44, 44]  # arithmetic wraps


def scattered(x: Any, i: Any) -> Any:
    return x.scatter_(0, i, x)


def added(x: Any, i: Any) -> Any:
    return x.index_add_(0, i, x)


def put(x: Any, i: Any) -> Any:
    return x.put_(i, x)


def between_rows(x: Any, i: Any) -> Any:
    x[0].scatter_(0, i, x[1])
    return x


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize("write", [scattered, added, put], ids=lambda f: f.__name__)
def test_memory_written_where_it_is_read(write: Any, script: bool) -> None:
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a"):
        (torch.script(write) if script else write)(torch.arange(3.0), torch.tensor([1, 2, 0]))


@pytest.mark.parametrize("run", [between_rows, torch.script(between_rows)], ids=["eager", "scripted"])
def test_rows_are_apart(run: Any) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert run(x, torch.tensor([1, 0])).tolist() == [[4.0, 3.0], [3.0, 4.0]]


@pytest.mark.parametrize("text", ["add_(1)", "copy_(y)", "scatter_(0, i, 1.0)", "index_add_(0, r, y[:1])", "normal_()",
                                  "cumsum_(0)", "put_(r, y[0, :1])"])
def test_expanded_targets(text: str) -> None:
    y, i, r = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        eval(f"torch.zeros(3).expand(2, 3).{text}", {"torch": torch, "y": y, "i": i, "r": r})


# --- order ---------------------------------------------------------------------------------------------------------


def medians(x: Any) -> Any:
    return x.median(), x.median(1), x.median(0, True)


@pytest.mark.parametrize("run", [medians, torch.script(medians)], ids=["eager", "scripted"])
def test_medians_with_nan(run: Any) -> None:
    x = torch.tensor([[2.0, math.nan, 1.0, math.nan], [4.0, 3.0, 7.0, 5.0]])
    of_all, rows, columns = run(x)
    assert math.isnan(of_all)
    assert math.isnan(rows.values[0])
    assert rows.values[1] == 4
    assert rows.indices.tolist() == [1, 0]
    assert columns.indices.tolist() == [[0, 0, 0, 0]]
    assert run(torch.tensor([[1, 3], [2, 5]]))[0] == 2


def places(line: Any, x: Any, sorter: Any) -> Any:
    return (torch.searchsorted(line, x), torch.searchsorted(line, x, right=True), torch.bucketize(x, line),
            torch.searchsorted(line.flip(0), x, sorter=sorter))


@pytest.mark.parametrize("run", [places, torch.script(places)], ids=["eager", "scripted"])
def test_places_of_nan(run: Any) -> None:
    found = run(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([math.nan, 2.0, -1.0]), torch.tensor([2, 1, 0]))
    assert [p.tolist() for p in found] == [[3, 1, 0], [3, 2, 0], [3, 1, 0], [3, 1, 0]]


def test_covariances_with_weights() -> None:
    x = torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, -1.0]], dtype=torch.float64)
    often, weights = torch.tensor([1, 2, 1]), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    repeated = torch.repeat_interleave(x, often, 1)
    assert torch.allclose(torch.cov(x, fweights=often), torch.cov(repeated))
    twice = torch.repeat_interleave(weights, often)
    assert torch.allclose(torch.cov(x, fweights=often, aweights=weights), torch.cov(repeated, aweights=twice))
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        torch.cov(x, fweights=-often)
    with pytest.raises(RuntimeError, match="expected fweights to have integral dtype"):
        torch.cov(x, fweights=weights)


def drawn(p: Any) -> Any:
    return torch.multinomial(p, 1)


@pytest.mark.parametrize("run", [drawn, torch.script(drawn)], ids=["eager", "scripted"])
@pytest.mark.parametrize(("weights", "message"), [([1.0, -1.0], "inf"), ([math.nan, 1.0], "nan"),
                                                  ([0.0, 0.0], "sum of")])
def test_weights_that_are_no_chances(run: Any, weights: list[float], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        run(torch.tensor(weights))


@pytest.mark.parametrize(("text", "error"), [
    ("torch.linspace(0, 1, -1)", RuntimeError), ("x.unfold(0, 4, 1)", RuntimeError), ("x.cummax(5)", IndexError),
    ("torch.tensor(1.0).cummax(1)", IndexError), ("x[:0].argmax()", IndexError), ("x[:0].amax()", RuntimeError),
    ("x[:0].amax(0)", IndexError), ("torch.abs(x > 0)", NotImplementedError), ("x.long().frac()", NotImplementedError),
    ("(x > 0).median()", NotImplementedError), ("x // 0", None), ("x.long() // 0", RuntimeError),
    ("x.long() % 0", RuntimeError), ("torch.nn.functional.cross_entropy(x, torch.tensor([0, 9, 1]))", IndexError),
    ("x.put_(torch.tensor([0]), torch.tensor([1]))", RuntimeError), ("x.diagonal_scatter(x[0, :1])", RuntimeError),
    ("torch.bernoulli(x, 1.5)", RuntimeError), ("torch.randint(0, 300, (2,), dtype=torch.uint8)", RuntimeError),
    ("torch.zeros()", TypeError), ("x.reshape()", TypeError), ("torch.quantile(x, 1.5)", RuntimeError),
    ("torch.linalg.cross(x, x.double())", RuntimeError), ("torch.nn.functional.glu(x)", RuntimeError)])
def test_wrong_calls(text: str, error: type[Exception] | None) -> None:
    scope = {"torch": torch, "x": torch.ones(3, 3)}
    if error is None:
        eval(text, scope)
        return
    with pytest.raises(error):
        eval(text, scope)


def wrapped(x: Any, before: int, after: int) -> Any:
    return torch.nn.functional.pad(x, (before, after), mode="circular")


@pytest.mark.parametrize("run", [wrapped, torch.script(wrapped)], ids=["eager", "scripted"])
def test_circular_padding_takes_off_first(run: Any) -> None:
    x = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    for before, after, expected in ((-1, 2, [1, 2, 3, 1, 2]), (1, -1, [2, 0, 1, 2]), (0, -2, [0, 1]),
                                    (2, 1, [2, 3, 0, 1, 2, 3, 0])):
        assert run(x, before, after)[0, 0].tolist() == expected


def test_running_extremes_of_nothing() -> None:
    for run in (torch.cummax, torch.cummin):
        values, places = run(torch.zeros(0, 3), 0)
        assert (tuple(values.shape), tuple(places.shape), places.dtype) == ((0, 3), (0, 3), torch.int64)
