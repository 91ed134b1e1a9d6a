"""Gradients of graphs against central differences: straight line, control flow, second order, absence, NaN."""

import dataclasses
import itertools

import numpy as np
import pytest

from jitgrad.errors import NonDifferentiable, Span
from jitgrad.ops import OPS
from jitgrad.script.autodiff import differentiate, gradient_function
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Graph, Node, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes import pipeline
from tests.script.gradients import check, cotangents_for, differences, gradients
from tests.script.graphs import random_graph

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.uniform(-1.2, 1.2, shape)


# --- random programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_straight_line(seed):
    case = random_graph(seed, control=False, size=8)
    check(case.graph, case.inputs, case.floats, case.outputs, order=2)


@pytest.mark.parametrize("seed", range(60))
def test_control_flow(seed):
    case = random_graph(seed, size=4, depth=2)
    check(case.graph, case.inputs, case.floats, case.outputs)


@pytest.mark.parametrize("seed", range(60, 80))
def test_control_flow_twice(seed):
    case = random_graph(seed, size=3, depth=2)
    check(case.graph, case.inputs, case.floats, case.outputs, order=2)


@pytest.mark.parametrize("seed", range(80, 120))
def test_some_cotangents_absent_and_some_inputs_without_gradient(seed):
    case = random_graph(seed, size=4, depth=2)
    rng = np.random.default_rng(seed)
    cotangents = [c if rng.random() < 0.5 else None for c in cotangents_for(case.graph, case.inputs, case.outputs)]
    check(case.graph, case.inputs, [i for i in case.floats if rng.random() < 0.6], case.outputs, cotangents=cotangents)


@pytest.mark.parametrize("seed", range(120, 140))
def test_gradients_survive_the_passes(seed):
    case = random_graph(seed, size=4, depth=2)
    cotangents = cotangents_for(case.graph, case.inputs, case.outputs)
    expected = gradients(case.graph, case.inputs, case.floats, case.outputs, cotangents)
    everything = (True,) * len(case.outputs)
    d = differentiate(pipeline.run(case.graph), case.floats, case.outputs)
    saved = interpret(verify(pipeline.run(d.forward)), case.inputs)[len(case.graph.outputs):]
    found = interpret(verify(pipeline.run(d.backward(everything)), pure=True), [*saved, *cotangents])
    whole = verify(pipeline.run(gradient_function(case.graph, case.floats, case.outputs, everything)), pure=True)
    again = interpret(whole, [*case.inputs, *cotangents])
    for results in (found, again):
        for (value, reached), value2, reached2 in zip(expected, results[::2], results[1::2], strict=True):
            assert reached == reached2
            np.testing.assert_allclose(value, value2, rtol=1e-9, atol=1e-12)


def test_third_order():
    graph = parse("""graph f(%x: f64[3]) -> f64[3]:
  %0: f64[3] = tanh(%x)
  %1: f64[3] = mul(%0, %x)
  return %1""")
    check(graph, [array(3)], (0,), order=3, tolerance=1e-5)


# --- a wrong rule fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "mul", "select_add"])
def test_a_wrong_rule_is_found(monkeypatch, name):
    def wrong(F, g, y, *xs, **attrs):
        return tuple(None if c is None else c * 1.01 for c in OPS_RULE(F, g, y, *xs, **attrs))

    OPS_RULE = OPS[name].vjp
    monkeypatch.setitem(OPS, name, dataclasses.replace(OPS[name], vjp=wrong))
    graph = parse("""graph f(%x: f64[3, 2], %y: f64[2]) -> f64[3, 2]:
  %0: f64[3, 2] = tanh(%x)
  %1: f64[3, 2] = mul(%0, %x)
  %2: f64[3, 2] = select_add(%1, %y){axis=0, index=1}
  return %2""")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(graph, [array(3, 2), array(2)], (0, 1))


# --- loops ---------------------------------------------------------------------------------------------------------

COUNTED = """graph f(%x: f64[3], %w: f64[3, 3], %n: int) -> f64[3]:
  %zero: int = num.const(){value=0}
  %one: int = num.const(){value=1}
  %c0: bool = num.gt(%n, %zero)
  %trips: int, %i: int, %h: f64[3] = while(%c0, %n, %x):
    body(%j: int, %p: f64[3]):
      %0: f64[1, 3] = unsqueeze(%p){axis=0}
      %1: f64[1, 3] = matmul(%0, %w)
      %2: f64[3] = squeeze(%1){axis=0}
      %3: f64[3] = tanh(%2)
      %k: int = num.sub(%j, %one)
      %c: bool = num.gt(%k, %zero)
      yield %c, %k, %3
  return %h"""


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_trips_known_only_at_run_time(trips):
    reached = check(parse(COUNTED), [array(3), array(3, 3), trips], (0, 1), order=2)
    assert reached == [True, trips > 0]


NEWTON = """graph sqrt(%a: f64[4]) -> f64[4]:
  %true: bool = num.const(){value=True}
  %zero: int = num.const(){value=0}
  %trips: int, %steps: int, %left: bool, %r: f64[4] = while(%true, %zero, %false0, %a):
    body(%s: int, %gone: bool, %x: f64[4]):
      %0: f64[4] = div(%a, %x)
      %1: f64[4] = add(%x, %0)
      %half: f64[] = full(){value=0.5, shape=(), dtype=f64}
      %nxt: f64[4] = mul(%1, %half)
      %2: f64[4] = sub(%nxt, %x)
      %3: f64[4] = abs(%2)
      %4: f64[] = amax(%3){axes=(0,), keepdim=False}
      %eps: f64[] = full(){value=1e-09, shape=(), dtype=f64}
      %5: b8[] = lt(%4, %eps)
      %leave: bool = item(%5)
      %one: int = num.const(){value=1}
      %s1: int = num.add(%s, %one)
      %fifty: int = num.const(){value=50}
      %more: bool = num.lt(%s1, %fifty)
      %stay: bool = num.not(%leave)
      %go: bool = num.and(%more, %stay)
      yield %go, %s1, %leave, %nxt
  return %r"""


def test_newton_with_break():
    graph = parse(NEWTON.replace("%zero: int = num", "%false0: bool = num.const(){value=False}\n  %zero: int = num", 1))
    a = np.array([2.0, 9.0, 0.01, 40.0])
    ((gradient, reached),) = gradients(graph, [a], (0,), (0,), [np.ones(4)])
    assert reached
    np.testing.assert_allclose(gradient, 0.5 / np.sqrt(a), rtol=1e-6)


def test_nested_loops_save_sequences_of_sequences():
    graph = parse("""graph f(%x: f64[2], %w: f64[2], %n: int) -> f64[2]:
  %h: f64[2] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[2]):
      %q: f64[2] = scan(%k, %p){n_carries=1, reverse=False}:
        body(%j: int, %r: f64[2]):
          %0: f64[2] = mul(%r, %w)
          %1: f64[2] = sin(%0)
          yield %1
      %2: f64[2] = add(%q, %x)
      %3: f64[2] = tanh(%2)
      yield %3
  return %h""")
    for n in (0, 1, 4):
        assert check(graph, [array(2), array(2), n], (0, 1), order=2) == [True, n > 1]
    forward = differentiate(graph, (0, 1), (0,)).forward
    assert any("seq<seq<" in str(v.type) for v in forward.outputs)


def test_a_carry_that_becomes_another():
    graph = parse("""graph f(%x: f64[2], %y: f64[2], %n: int) -> f64[2]:
  %a: f64[2], %b: f64[2], %c: f64[2] = scan(%n, %x, %y, %y){n_carries=3, reverse=False}:
    body(%k: int, %p: f64[2], %q: f64[2], %r: f64[2]):
      %0: f64[2] = mul(%p, %q)
      %1: f64[2] = sin(%0)
      yield %q, %1, %p
  return %c""")
    # c is what a was one iteration ago, a what b was: y reaches c late
    assert [check(graph, [array(2), array(2), n], (0, 1)) for n in (0, 1, 2, 3)] == [
        [False, True], [True, False], [False, True], [True, True]]


def test_a_carry_that_the_body_overwrites():
    graph = parse("""graph f(%x: f64[2], %y: f64[2], %n: int) -> f64[2]:
  %0: f64[2] = sin(%y)
  %a: f64[2] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[2]):
      yield %0
  %1: f64[2] = mul(%a, %y)
  return %1""")
    assert [check(graph, [array(2), array(2), n], (0, 1), order=2) for n in (0, 1, 3)] == [
        [True, True], [False, True], [False, True]]


def test_a_carry_that_grows():
    graph = parse("""graph f(%x: f64[A, 2], %n: int) -> f64[B, 2]:
  %h: f64[B, 2] = scan(%n, %x){n_carries=1, reverse=False} binds B:
    body[g](%k: int, %p: f64[g, 2]):
      %0: f64[1, 2] = sum(%p){axes=(0,), keepdim=True}
      %1: f64[g, 2] = sin(%p)
      %2: f64[g + 1, 2] = cat(%1, %0){axis=0}
      %3: f64[g + 1, 2] = tanh(%2)
      yield %3
  return %h""")
    for n in (0, 1, 3):
        check(graph, [array(2, 2), n], (0,), order=2)


def test_an_optional_carry():
    graph = parse("""graph f(%x: f64[2], %n: int) -> f64[2]:
  %none: optional<f64[2]> = opt.none(){type=f64[2]}
  %last: optional<f64[2]>, %h: f64[2] = scan(%n, %none, %x){n_carries=2, reverse=False}:
    body(%k: int, %o: optional<f64[2]>, %p: f64[2]):
      %has: bool = opt.has(%o)
      %q: f64[2] = if(%has):
        then:
          %0: f64[2] = opt.get(%o)
          %1: f64[2] = mul(%0, %p)
          yield %1
        else:
          yield %p
      %2: f64[2] = sin(%q)
      %3: optional<f64[2]> = opt.some(%2)
      yield %3, %q
  %has2: bool = opt.has(%last)
  %r: f64[2] = if(%has2):
    then:
      %4: f64[2] = opt.get(%last)
      %5: f64[2] = add(%4, %h)
      yield %5
    else:
      yield %h
  return %r""")
    for n in (0, 1, 2, 3):
        assert check(graph, [array(2), n], (0,), order=2) == [True]


# --- what is reached -----------------------------------------------------------------------------------------------

CHOICE = """graph f(%x: f64[2], %a: f64[2], %b: f64[2], %c: bool) -> f64[2]:
  %r: f64[2] = if(%c):
    then:
      %0: f64[2] = mul(%x, %a)
      yield %0
    else:
      %1: f64[2] = sub(%x, %b)
      yield %1
  %2: f64[2] = tanh(%r)
  return %2"""


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_not_taken_is_not_reached(taken):
    assert check(parse(CHOICE), [array(2), array(2), array(2), taken], (0, 1, 2), order=2) == [True, taken, not taken]


def test_a_number_cuts_the_gradient():
    graph = parse("""graph f(%x: f64[2], %s: f64[]) -> f64[2]:
  %0: float = item(%s)
  %1: f64[] = fill(%0){shape=(), dtype=f64}
  %2: f64[2] = mul(%x, %1)
  return %2""")
    (gx, reached), (gs, reached_s) = gradients(graph, [array(2), np.array(3.0)], (0, 1), (0,), [np.ones(2)])
    assert (reached, reached_s) == (True, False)
    np.testing.assert_array_equal(gx, [3.0, 3.0])
    assert not gs.any()


def test_a_step_function_gives_a_zero_gradient_as_in_torch():
    graph = parse("graph f(%x: f64[2]) -> f64[2]:\n  %0: f64[2] = floor(%x)\n  return %0")
    ((gradient, reached),) = gradients(graph, [array(2)], (0,), (0,), [np.ones(2)])
    assert reached
    assert not gradient.any()


def test_garbage_of_a_branch_not_taken_does_not_spread():
    graph = parse("""graph f(%x: f64[2], %c: bool, %n: int) -> f64[2]:
  %l: f64[2] = log(%x)
  %r: f64[2] = if(%c):
    then:
      yield %l
    else:
      %0: f64[2] = full(){value=1.0, shape=(2,), dtype=f64}
      yield %0
  %s: f64[2] = sqrt(%x)
  %h: f64[2] = scan(%n, %r){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[2]):
      %1: f64[2] = mul(%p, %s)
      yield %1
  %2: f64[2] = mul(%h, %x)
  return %2""")
    x = np.zeros(2)  # log and sqrt have infinite slopes here, and nobody asks for them
    ((gradient, reached),) = gradients(graph, [x, False, 0], (0,), (0,), [np.ones(2)])
    assert reached
    np.testing.assert_array_equal(gradient, [1.0, 1.0])


def test_outputs_that_are_inputs_or_twice_the_same():
    graph = parse("""graph f(%x: f64[2], %y: f64[2]) -> (f64[2], f64[2], f64[2], f64[2]):
  %0: f64[2] = mul(%x, %y)
  return %x, %0, %0, %x""")
    check(graph, [array(2), array(2)], (0, 1), (0, 1, 2, 3), order=2)


def test_every_set_of_cotangents_has_its_backward():
    graph = parse("""graph f(%x: f64[N, 2], %y: f64[2*N, 2], %n: int, %c: bool) -> (f64[N, 2], f64[2*N, 2], f64[2]):
  %a: f64[N, 2], %b: f64[2*N, 2] = scan(%n, %x, %y){n_carries=2, reverse=False}:
    body(%k: int, %p: f64[N, 2], %q: f64[2*N, 2]):
      %0: f64[2*N, 2] = cat(%p, %p){axis=0}
      %1: f64[2*N, 2] = mul(%0, %q)
      %2: f64[2*N, 2] = sin(%1)
      %3: f64[N, 2] = tanh(%p)
      yield %3, %2
  %4: f64[2] = if(%c):
    then:
      %5: f64[2] = sum(%a){axes=(0,), keepdim=False}
      yield %5
    else:
      %6: f64[2] = sum(%b){axes=(0,), keepdim=False}
      yield %6
  return %a, %b, %4""")
    for n, c in ((0, True), (2, False)):
        inputs = [array(3, 2), array(6, 2), n, c]
        given = cotangents_for(graph, inputs, (0, 1, 2))
        for present in itertools.product((True, False), repeat=3):
            cotangents = [g if p else None for g, p in zip(given, present, strict=True)]
            check(graph, inputs, (0, 1), (0, 1, 2), cotangents=cotangents)


# --- sizes ---------------------------------------------------------------------------------------------------------


def test_sizes_that_may_be_one_broadcast_at_run_time():
    graph = parse("""graph f(%x: f64[N], %y: f64[M]) -> f64[bcast(N, M)]:
  %0: f64[bcast(N, M)] = mul(%x, %y)
  %1: f64[bcast(N, M)] = sin(%0)
  return %1""")
    for n, m in ((3, 3), (3, 1), (1, 3), (1, 1)):
        check(graph, [array(n), array(m)], (0, 1), order=2)


def test_a_size_that_only_the_data_knows():
    graph = parse("""graph f(%x: f64[N]) -> f64[K]:
  %zero: f64[] = full(){value=0.0, shape=(), dtype=f64}
  %0: b8[N] = gt(%x, %zero)
  %1: i64[K, 1] = nonzero(%0) binds K
  %2: i64[K] = squeeze(%1){axis=1}
  %3: f64[K] = index(%x, %2){axes=(0,)}
  %4: f64[K] = exp(%3)
  return %4""")
    check(graph, [np.array([1.0, -1.0, 0.5, 2.0])], (0,), order=2)
    check(graph, [-np.ones(2)], (0,))


def test_empty_tensors():
    graph = parse("""graph f(%x: f64[N, 2]) -> f64[2]:
  %0: f64[N, 2] = sin(%x)
  %1: f64[2] = sum(%0){axes=(0,), keepdim=False}
  return %1""")
    assert check(graph, [array(0, 2)], (0,)) == [True]


# --- effects and refusals ------------------------------------------------------------------------------------------


def test_effects_happen_once(capsys):
    graph = parse("""graph f(%x: f64[2], %n: int) -> f64[2]:
  %one: int = num.const(){value=1}
  %h: f64[2] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[2]):
      %k1: int = num.add(%k, %one){checked=True}
      print(%k1){template=('step ', (0, '', ''), '\\n')}
      %f: float = num.cast(%k1){to='float'}
      %t: f64[] = fill(%f){shape=(), dtype=f64}
      %0: f64[2] = mul(%p, %t)
      %1: f64[2] = sin(%0)
      yield %1
  return %h""")
    d = differentiate(graph, (0,), (0,))
    x = array(2)
    results = interpret(d.forward, [x, 2])
    assert capsys.readouterr().out == "step 1\nstep 2\n"
    gradient, _ = interpret(verify(d.backward((True,)), pure=True), [*results[1:], np.ones(2)])
    whole = verify(gradient_function(graph, (0,), (0,), (True,)), pure=True)
    np.testing.assert_allclose(interpret(whole, [x, 2, np.ones(2)])[0], gradient)
    assert capsys.readouterr().out == ""
    (expected,) = differences(graph, [x, 2], (0,), (0,), [np.ones(2)])
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_what_has_no_derivative_is_refused_with_its_place():
    graph = parse("graph f(%x: f64[2]) -> f64[2]:\n  %0: f64[2] = sin(%x)\n  return %0")
    span = Span("model.py", 3, 5, 3, 9)
    old = graph.block.nodes[0]
    node = Node("callback", old.inputs, {}, old.outputs, (), span)
    graph = Graph(Block(graph.block.params, [node], graph.block.results))
    with pytest.raises(NonDifferentiable, match=r"model.py:3:5: no gradient: `callback` has effects"):
        gradient_function(graph, (0,), (0,), (True,))


def test_backward_nodes_have_the_spans_of_their_forward_nodes():
    graph = parse("graph f(%x: f64[2]) -> f64[2]:\n  %0: f64[2] = tanh(%x)\n  return %0")
    (old,) = graph.block.nodes
    span = Span("model.py", 3, 5, 3, 9)
    graph = Graph(Block(graph.block.params, [Node(old.op, old.inputs, {}, old.outputs, (), span)], graph.block.results))
    backward = differentiate(graph, (0,), (0,)).backward((True,))
    assert {n.span for n in walk(backward.block) if n.op in ("mul", "sub")} == {span}
