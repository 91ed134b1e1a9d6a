"""What a broken assumption is called; that calls are explained with it: test_executor.py."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import INT, OptionalType, TensorType
from jitgrad.script.call import signature as sig
from jitgrad.script.call.mismatch import SIZES, mismatch, other_grads, other_sizes
from jitgrad.script.call.sources import broken, problem, tensor_key

HERE = sig.Arg("x")
MATRIX = jitgrad.zeros(2, 3)


@pytest.mark.parametrize(("kind", "value", "kept", "changed", "words"), [
    ("is", MATRIX, MATRIX, jitgrad.zeros(2, 3), "is another object"),
    ("equal", 1, 1, True, "was 1, is True"),
    ("equal", 1, 1, MATRIX, "was 1, is a tensor"),
    ("type", int, 3, 3.0, "was int, is float"),
    ("len", 2, [1, 2], [1], "had length 2, has 1"),
    ("keys", ("a",), {"a": 1}, {"b": 1}, "has other keys"),
    ("contiguous", True, MATRIX, MATRIX.T, "has another order of memory"),
    ("optional", jitgrad.float32, None, jitgrad.zeros(2).long(), "is another tensor"),
    ("optional", jitgrad.float32, MATRIX, jitgrad.zeros(2, requires_grad=True), "is another tensor"),
    ("tensor", tensor_key(MATRIX), jitgrad.ones(4, 5), 1.0, "was a tensor, is float"),
    ("tensor", tensor_key(MATRIX), MATRIX, MATRIX.double(), "had dtype jitgrad.float32, has jitgrad.float64"),
    ("tensor", tensor_key(MATRIX), MATRIX, MATRIX[0], "had rank 2, has 1"),
    ("tensor", tensor_key(MATRIX), MATRIX, jitgrad.zeros(2, 3, requires_grad=True),
     "did not require grad, does now"),
    ("tensor", tensor_key(MATRIX), MATRIX, MATRIX[:, :1], "had not size 1 along axis 1, has 1"),
])
def test_every_kind_of_guard(kind, value, kept, changed, words):
    assert broken(sig.Guard(HERE, kind, value), kept) == ""
    assert broken(sig.Guard(HERE, kind, value), changed) == words


@pytest.mark.parametrize(("kind", "kept", "changed", "words"), [
    ("same", MATRIX, MATRIX.clone(), "`x` is another object than `y`"),
    ("other", MATRIX.clone(), MATRIX, "`x` is the same object as `y`"),
    ("alike", jitgrad.tensor(2.0), jitgrad.tensor(3.0), "`x` holds another number than `y`"),
    ("alike", jitgrad.tensor(2.0), 2.0, "`x` holds another number than `y`"),
])
def test_guards_of_two_objects(kind, kept, changed, words):
    guard, other = sig.Guard(HERE, kind, sig.Arg("y")), jitgrad.tensor(2.0) if kind == "alike" else MATRIX
    assert problem(guard, {"x": kept, "y": other}, broken) == ""
    assert problem(guard, {"x": changed, "y": other}, broken) == words


def test_what_should_be_absent():
    assert broken(sig.Guard(HERE, "absent", None), 1) == "was absent, is there"


def test_sizes_are_looked_at_last():
    @jitgrad.script
    def total(x, y):
        return (x + y).sum()

    first = total.specialise(jitgrad.ones(3), jitgrad.ones(3))
    assert mismatch(first, {"x": jitgrad.ones(3), "y": jitgrad.ones(4)}) == f"{SIZES} first call are 3 and 4"
    assert mismatch(first, {"x": jitgrad.ones(3), "y": 2}) == "`y` was a tensor, is int"


def test_gradients_found_on_other_parameters():
    @jitgrad.script
    def norm(a, b):
        total = 0.0
        for p in (a, b):
            if p.grad is not None:
                total = total + p.grad.sum()
        return total

    a, b = jitgrad.ones(2, requires_grad=True), jitgrad.ones(2, requires_grad=True)
    a.grad = jitgrad.ones(2)
    first = norm.specialise(a, b)
    assert not other_grads(first, {"a": a, "b": b})
    assert other_grads(first, {"a": b, "b": a})
    a.grad = None
    assert not other_grads(first, {"a": a, "b": b})  # on none at all: a program of its own


def test_sizes_of_a_call():
    n, m = Symbol("n"), Symbol("m")
    rows = TensorType(jitgrad.float32, (dim(n), 3))
    script = sig.ScriptGraph.__new__(sig.ScriptGraph)
    script.input_types = [rows, OptionalType(TensorType(jitgrad.float32, (dim(m),))), INT]
    script.size_guards, script.trip_guards, script.int_symbols = [(dim(n), 5)], [(dim(n) + 1, 6)], {}
    assert other_sizes(script, [jitgrad.ones(5, 3), jitgrad.ones(4), 2], "first") == ""
    assert other_sizes(script, [jitgrad.ones(6, 3), None, 2], "saved") == f"{SIZES} saved call are 6 and 5"
    script.size_guards = []
    assert "differs from the saved call" in other_sizes(script, [jitgrad.ones(6, 3), None, 2], "saved")
