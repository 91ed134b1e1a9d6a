"""What is concluded from sizes that are equal at the first call."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from jitgrad.dims import Assumed, Size, call, floordiv
from jitgrad.script.frontend.state.sizes import Sizes
from jitgrad.script.graph.ir import walk


def sizes(*hints: int) -> tuple[Sizes, list[Size]]:
    known = Sizes(Assumed.EQUAL)
    return known, [known.argument(h) for h in hints]


def test_parts_of_equal_length_determine_the_whole() -> None:
    """Four gates in one matrix: the state's size says how many rows it has."""
    known, (rows, state) = sizes(32, 8)
    part = floordiv(rows + 3, 4)
    assert known.assume_equal(part, state)
    assert known.canonical(rows) == rows  # 31 rows would do as well
    assert known.assume_equal(rows - 3 * part, state)  # type: ignore[operator]
    assert known.canonical(rows) == 4 * state  # type: ignore[operator]
    assert known.canonical(part) == state == known.canonical(rows - 3 * part)  # type: ignore[operator]
    assert known.needed_guards() == [(part, state), (rows, 4 * part)]  # type: ignore[operator]


def test_a_part_of_constant_length() -> None:
    known, (rows,) = sizes(24)
    assert known.assume_equal(floordiv(rows + 2, 3), 8)
    assert known.canonical(rows) == 24
    assert known.needed_guards() == [(rows, 24)]


def test_equal_quotients_of_equal_sizes() -> None:
    known, (a, b) = sizes(9, 9)
    assert known.assume_equal(floordiv(a + 1, 2), floordiv(b + 1, 2))
    assert known.equal(a, b)


def test_quotients_that_are_equal_by_chance_stay_different() -> None:
    known, (a, b, c) = sizes(9, 10, 3)
    assert known.assume_equal(floordiv(a, 2) + 1, floordiv(b, 2))
    assert not known.equal(a, b)
    assert known.assume_equal(floordiv(b, 3), c)  # 10 // 3, but 10 is not 3 * 3
    assert known.canonical(b) == b


def test_parts_of_equal_length_before_their_size_has_a_name() -> None:
    known, (rows, state) = sizes(32, 8)
    part = floordiv(rows + 3, 4)
    last = rows - 3 * part  # type: ignore[operator]
    assert known.assume_equal(last, part)
    assert known.assume_equal(call("bcast", part, last), state)
    assert known.canonical(last) == state


def test_all_that_a_broadcast_size_may_be() -> None:
    known, (a, b, n) = sizes(6, 6, 2)
    x, y = floordiv(a + 2, 3), floordiv(b + 2, 3)
    assert known.assume_equal(call("bcast", x, y), n)
    assert known.canonical(a) == known.canonical(b)
    assert known.canonical(x) == known.canonical(n)


def test_one_symbol_of_a_sum_is_found() -> None:
    known, (a, b, c) = sizes(7, 4, 3)
    assert known.assume_equal(a + 1, b + c + 1)  # type: ignore[operator]
    assert known.equal(a, b + c)  # type: ignore[operator]


def test_what_a_symbol_stands_for_may_be_replaced_later() -> None:
    known, (a, b, c) = sizes(5, 5, 5)
    assert known.assume_equal(b, a)
    assert known.assume_equal(c, a)
    known.fix(b, 5)
    assert [known.canonical(s) for s in (a, b, c)] == [5, 5, 5]


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    for t in range(x.shape[0]):
        i, f, g, o = (x[t] @ w + h @ u).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h.sum()


def gru(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    for t in range(x.shape[0]):
        rx, zx, nx = (x[t] @ w).chunk(3, 1)
        rh, zh, nh = (h @ u).chunk(3, 1)
        z = (zx + zh).sigmoid()
        h = (h - (nx + (rx + rh).sigmoid() * nh).tanh()) * z + c
    return h.sum()


@pytest.mark.parametrize(("cell", "gates"), [(lstm, 4), (gru, 3)])
def test_gates_of_user_written_cells(cell: Any, gates: int) -> None:
    """No size of the gradient is left open, and calls with another relation between the sizes are right too."""
    f = jitgrad.script(cell)
    for hidden, state in ((5, 5), (6, 6), (5, 1) if cell is lstm else (4, 4)):
        jitgrad.manual_seed(0)
        shapes = ((3, 2, 4), (2, hidden), (2, state), (4, gates * hidden), (hidden, gates * hidden))
        args = [jitgrad.randn(*s, dtype=jitgrad.float64, requires_grad=True) for s in shapes]
        wanted = jitgrad.autograd.grad(cell(*args), args)
        got = jitgrad.autograd.grad(f(*args), args)
        for a, b in zip(got, wanted, strict=True):
            jitgrad.testing.assert_close(a, b)
        if state == hidden:
            assert "sum_to" not in {n.op for n in walk(f.grad_graph.block)}


def test_the_numbers_of_all_rows_are_no_indices_to_check():
    @jitgrad.script
    def picked(x, i):
        return x[jitgrad.arange(x.shape[0]), i]

    x, i = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), jitgrad.tensor([1, -2, 0])
    assert picked(x, i).tolist() == [2.0, 3.0, 5.0]
    assert sum(n.op == "check" for n in walk(picked.graph.block)) == 2  # the least and the largest place
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 1 with size 2"):
        picked(x, jitgrad.tensor([1, 2, 0]))


def test_numbers_that_were_written_are_checked():
    @jitgrad.script
    def picked(x, k: int):
        i = jitgrad.arange(x.shape[0])
        i[0] = k
        return x[i]

    x = jitgrad.tensor([1.0, 2.0, 3.0])
    assert picked(x, 2).tolist() == [3.0, 2.0, 3.0]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        picked(x, 3)


def test_what_a_later_guard_says_of_earlier_ones() -> None:
    """Products of sizes are equal, of which one is a constant then: so is the other one's factor."""
    known, (n, width, rows) = sizes(5, 64, 192)
    assert known.assume_equal(n * 2 * floordiv(width, 2), n * floordiv(rows + 2, 3))
    assert known.assume_equal(width, 64)
    assert known.canonical(rows) == rows
    known.sharpen()
    assert known.canonical(rows) == 192


def test_a_size_of_several_symbols_is_a_constant_where_it_is_met() -> None:
    """And the guard that says so stays: nothing else proves it."""
    known, (a, b, c) = sizes(4, 5, 3)
    assert known.take_equal([(16 * a * b, 320)])
    assert known.canonical(a * b * 16) == 320
    assert known.canonical(a * b) == a * b
    assert known.needed_guards() == [(16 * a * b, 320)]
    assert known.take_equal([(c, 3)])
    assert known.canonical(16 * a * b) == 320
    assert known.take_equal([(7, b + 2 * a * b - 38)])
    assert len(known.needed_guards()) == 3


class Flat(jitgrad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        jitgrad.manual_seed(0)
        self.conv, self.out = jitgrad.nn.Conv2d(1, 4, 3), jitgrad.nn.Linear(4 * 3 * 4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.conv(x).flatten(1))


def test_what_a_layer_takes_is_what_it_was_made_for() -> None:
    """Images of another size of which as many numbers come are taken; of others, eager's error is raised."""
    net = Flat()
    fast = jitgrad.script(net)
    x = jitgrad.randn(2, 1, 5, 6)
    assert jitgrad.allclose(fast(x), net(x))
    assert "reshape" in str(fast.graph)
    assert "48" in str(fast.graph)
    for shape in ((3, 1, 6, 5), (2, 1, 4, 8), (2, 1, 5, 6)):
        x = jitgrad.randn(*shape)
        assert jitgrad.allclose(fast(x), net(x)), shape
    for wrong in ((2, 1, 5, 7), (2, 1, 6, 6)):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            fast(jitgrad.randn(*wrong))
