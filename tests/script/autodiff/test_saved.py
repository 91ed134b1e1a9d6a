"""What a forward saves for its backward, and the form in which gradients are accumulated."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.ops.types import BOOL, TensorType
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Value, walk
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from tests.script.gradients import check

RNN = """graph rnn(%xs: f64[T, B, 8], %h0: f64[B, 16], %wx: f64[8, 16], %wh: f64[16, 16]) -> f64[B, 16]:
  %n: int = dim.value(){dim=T}
  %h: f64[B, 16] = scan(%n, %h0){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[B, 16]):
      %k2: int = dim.bind(%k){symbol=@t} binds t
      %x: f64[B, 8] = select(%xs){axis=0, index=t}
      %1: f64[B, 16] = matmul(%x, %wx)
      %2: f64[B, 16] = matmul(%p, %wh)
      %3: f64[B, 16] = add(%1, %2)
      %4: f64[B, 16] = tanh(%3)
      yield %4
  return %h"""


def saved(text, wrt, outputs=(0,)):
    """The saved values, as text, of a graph's derivative."""
    d = differentiate(parse(text), wrt, outputs)
    verify(d.forward)
    return [(v.name, str(v.type)) for v in d.residuals], d


@pytest.mark.parametrize(("body", "expected"), [
    ("%0: f64[3, 2] = add(%x, %y)", []),
    ("%0: f64[3, 2] = sub(%x, %y)", []),
    ("%0: f64[3, 2] = neg(%x)", []),
    ("%0: f64[3, 2] = mul(%x, %y)", ["x", "y"]),
    ("%0: f64[3, 2] = exp(%x)", ["0"]),
    ("%0: f64[3, 2] = tanh(%x)", ["0"]),
    ("%0: f64[3, 2] = sin(%x)", ["x"]),
    ("%0: f64[2] = sum(%x){axes=(0,), keepdim=False}", []),
    ("%0: f64[2] = mean(%x){axes=(0,), keepdim=False}", []),
    ("%0: f64[2, 3] = permute(%x){axes=(1, 0)}", []),
    ("%0: f64[2] = select(%x){axis=0, index=1}", []),
    ("%0: f64[6, 2] = cat(%x, %y){axis=0}", []),
])
def test_only_what_the_rule_reads(body, expected):
    result = body.split(":")[1].split("=")[0].strip()
    graph = parse(f"graph f(%x: f64[3, 2], %y: f64[3, 2]) -> {result}:\n  {body}\n  return %0")
    d = differentiate(graph, (0, 1), (0,))
    names = ["0" if v is graph.outputs[0] else v.name for v in d.residuals]
    assert names == expected
    rng = np.random.default_rng(0)
    check(graph, [rng.normal(size=(3, 2)), rng.normal(size=(3, 2))], (0, 1))


def test_an_exponent_without_gradient_saves_no_logarithm():
    names, d = saved("""graph f(%x: f64[3]) -> f64[3]:
  %two: f64[] = full(){value=2.0, shape=(), dtype=f64}
  %0: f64[3] = pow(%x, %two)
  return %0""", (0,))
    assert [n for n, _ in names] == ["x"]
    assert not any(n.op == "log" for n in walk(d.backward((True,)).block))


def test_views_and_masks_are_recomputed():
    names, _ = saved("""graph f(%x: f64[3, 2], %w: f64[3, 2]) -> f64[2]:
  %row: f64[2] = select(%x){axis=0, index=1}
  %other: f64[2] = select(%w){axis=0, index=2}
  %0: f64[2] = mul(%row, %other)
  %zero: f64[] = full(){value=0.0, shape=(), dtype=f64}
  %mask: b8[2] = gt(%other, %zero)
  %1: f64[2] = where(%mask, %0, %row)
  return %1""", (0,))
    assert [t for _, t in names] == ["f64[2]"]  # the row of w; the mask is made from it


def test_a_recurrent_step_saves_its_state_once():
    residuals, d = saved(RNN, (1, 2, 3))
    assert [t for _, t in residuals if t.startswith("seq")] == ["seq<f64[B, 16]>"]
    assert {n for n, t in residuals if not t.startswith("seq")} == {"h", "wh", "xs"}
    (scan,) = [n for n in d.backward((True,)).block.nodes if n.op == "scan"]
    (body,) = scan.blocks
    assert [n.op for n in body.nodes].count("matmul") == 3
    assert not any(n.op in ("num.or", "fill") for n in body.nodes)  # reached in every iteration: nothing is masked


def test_recurrent_gradients():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=s) * 0.3 for s in ((2, 16), (8, 16), (16, 16))]
    for length in (0, 1, 3):
        xs = rng.normal(size=(length, 2, 8))
        some = length > 0
        assert check(parse(RNN), [xs, *weights], (0, 1, 2, 3)) == [some, True, some, some]


def test_the_gradient_of_an_element_is_added_in_place():
    _, d = saved(RNN, (0,))
    (scan,) = [n for n in d.backward((True,)).block.nodes if n.op == "scan"]
    ops = [n.op for n in scan.blocks[0].nodes]
    assert ops.count("select_add") == 1
    assert "add" not in ops


def test_invariants_are_not_stored_per_iteration():
    residuals, _ = saved("""graph f(%x: f64[3], %w: f64[3], %n: int) -> f64[3]:
  %s: f64[3] = sin(%w)
  %h: f64[3] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[3]):
      %0: f64[3] = mul(%p, %s)
      yield %0
  return %h""", (0,))
    assert [t for _, t in residuals if t.startswith("seq")] == []


def test_a_counter_is_recomputed():
    residuals, _ = saved("""graph f(%x: f64[3], %n: int) -> f64[3]:
  %h: f64[3] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[3]):
      %one: int = num.const(){value=1}
      %k1: int = num.add(%k, %one)
      %f: float = num.cast(%k1){to='float'}
      %t: f64[] = fill(%f){shape=(), dtype=f64}
      %0: f64[3] = mul(%p, %t)
      yield %0
  return %h""", (0,))
    assert [t for _, t in residuals] == ["int"]  # the number of iterations


def test_a_branch_saves_its_own_values_only():
    residuals, d = saved("""graph f(%x: f64[3], %c: bool) -> f64[3]:
  %h: f64[3] = if(%c):
    then:
      %0: f64[3] = sin(%x)
      %1: f64[3] = exp(%0)
      %2: f64[3] = sin(%1)
      yield %2
    else:
      %3: f64[3] = tanh(%x)
      yield %3
  return %h""", (0,))
    # exp's result is read twice and saved once; tanh reads its result, which is the output of the `if`
    assert sorted(t for _, t in residuals) == ["bool", "f64[3]", "f64[3]", "optional<f64[3]>"]
    for c in (True, False):
        check(parse("""graph f(%x: f64[3], %c: bool) -> f64[3]:
  %h: f64[3] = if(%c):
    then:
      %0: f64[3] = sin(%x)
      %1: f64[3] = exp(%0)
      yield %1
    else:
      %3: f64[3] = tanh(%x)
      yield %3
  return %h"""), [np.array([0.1, 0.2, 0.3]), c], (0,), order=2)
    assert len(d.forward.outputs) == 1 + len(residuals)


def test_residuals_may_be_inputs():
    _, d = saved(RNN, (1, 2, 3))
    assert [v.name for v in d.residuals] == ["wh", "xs", "h", "p"]
    assert [v in d.forward.inputs for v in d.residuals] == [True, True, False, False]


def test_an_input_that_is_written_is_saved_as_it_was():
    graph = parse("""graph f(%x: f64[2]) -> f64[2]:
  %0: f64[2] = sin(%x)
  commit(%0){target=0}
  return %0""")
    d = differentiate(graph, (0,), (0,))
    x = np.array([0.3, -0.7])
    before = x.copy()
    results = interpret(d.forward, [x])
    np.testing.assert_array_equal(x, np.sin(before))
    np.testing.assert_allclose(interpret(d.backward((True,)), [*results[1:], np.ones(2)])[0], np.cos(before))


def test_residuals_do_not_depend_on_chance():
    texts = {tuple(saved(RNN, (0, 1, 2, 3))[0]) for _ in range(3)}
    assert len(texts) == 1


def nested(depth):
    """`if` in `if` in ..., each level computing something."""
    x_type = TensorType(dtypes.float64, (2,))
    x, c = Value(x_type, "x"), Value(BOOL, "c")
    block = Block((x, c))
    builder = Builder(block)
    F = GraphNamespace(builder)
    blocks, current = [block], F.wrap(x)
    for _ in range(depth):
        current = F.sin(current)
        blocks.append(Block())
        builder.block = blocks[-1]
    result = F.sin(current).value
    for outer, inner in zip(blocks[-2::-1], blocks[:0:-1], strict=True):
        inner.results = (result,)
        builder.block = outer
        (result,) = builder.emit("if", [c], blocks=[inner, Block(results=(x,))], types=[x_type])
    block.results = (result,)
    return Graph(block)


def test_deep_nesting():
    graph = nested(200)
    d = differentiate(graph, (0,), (0,))
    x = np.array([0.3, -0.7])
    for c in (True, False):
        results = interpret(d.forward, [x, c])
        gradient, reached = interpret(d.backward((True,)), [*results[1:], np.ones(2)])
        expected, y = np.ones(2), x
        for _ in range(201 if c else 0):
            expected, y = expected * np.cos(y), np.sin(y)
        assert reached
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)
