"""Lists, dicts and objects in lists and dicts of run-time length, changed: tables, graphs, groups, trees, aliases."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from jitgrad.script.stored.values import NotSavable
from tests.script.frontend.agree import suite, t
from tests.script.frontend.containers.pool_programs import PROGRAMS, Leaf

test_programs = suite(PROGRAMS)


def test_second_order():
    def f(x, n: int):
        rows = [[x] for _ in range(n)]
        for i in range(1, n):
            rows[i].append(torch.tanh(rows[i - 1][-1] * (i + 1)))
            rows[i // 2].append(x * rows[i][-1])
        out = torch.zeros(())
        for row in rows:
            for v in row:
                out = out + (v * v * x).sum()
        return out

    found = []
    for g in (f, torch.script(f)):
        x = t(3).requires_grad_()
        (first,) = torch.autograd.grad(g(x, 4), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        found.append((first.detach().numpy(), second.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)


def test_an_exception_finds_the_changes_and_their_sharing():
    def f(out, n: int):
        rows = []
        for i in range(n):
            row = [i]
            rows.append(row)
            out.append(row)
        rows[0].append(7)
        out.append(rows[0])
        if n > 2:
            raise ValueError("too many")
        return rows

    for n in (2, 3):
        outs = []
        for g in (f, torch.script(f)):
            out: list[list[int]] = []
            try:
                g(out, n)
            except ValueError:
                assert n > 2
            assert out[0] is out[-1]
            outs.append(out)
        assert outs[0] == outs[1]


def test_stored_in_attributes():
    class Box:
        rows, first = None, None

    @torch.script
    def f(box, n: int):
        rows = []
        for i in range(n):
            rows.append([i])
        rows[0].append(7)
        box.rows, box.first = rows, rows[0]

    box = Box()
    f(box, 3)
    assert box.rows == [[0, 7], [1], [2]]
    assert box.first is box.rows[0]


def test_a_long_linked_list_comes_back():
    @torch.script
    def f(n: int):
        nodes = [Leaf(0, 0)]
        for i in range(1, n):
            nodes.append(Leaf(i, i))
            nodes[i - 1].next = nodes[i]
        nodes[-1].next = nodes[0]
        return nodes

    nodes = f(5000)
    assert all(a.next is b for a, b in zip(nodes, nodes[1:] + nodes[:1], strict=True))


def test_a_list_that_was_given_is_not_returned_in_a_new_one():
    def f(xs, n: int):
        rows = []
        for _ in range(n):
            rows.append(xs)
        return rows

    with pytest.raises(ScriptError, match="a script cannot return a list of items that are a list"):
        torch.script(f)([1], 99)


def test_files_and_caches_refuse_by_name(tmp_path):
    @torch.script
    def f(n: int):
        rows = []
        for i in range(n):
            rows.append([i])
        rows[0].append(5)
        return rows

    f(3)
    with pytest.raises(NotSavable, match="lists, dicts or objects that it changes"):
        torch.jit.save(f, tmp_path / "f")
