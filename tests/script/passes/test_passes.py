"""Each pass on the example of its docstring, and on random graphs: what a graph computes and prints stays the same."""

import importlib
import inspect
import re
import textwrap

import numpy as np
import pytest

from jitgrad import config
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.text import equal, to_text
from jitgrad.script.graph.verify import InvalidGraph, verify
from jitgrad.script.passes import pipeline
from jitgrad.script.passes.canonicalize import canonicalize
from jitgrad.script.passes.cse import cse
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.decompose import decompose
from jitgrad.script.passes.fold import fold_node
from jitgrad.script.passes.loops.invariant import invariant
from jitgrad.script.passes.loops.licm import licm
from jitgrad.script.passes.products import transpose_products
from jitgrad.script.passes.rewrite import Rewriter
from tests.script.passes.random_graphs import Generator


class _Fold(Rewriter):
    def visit(self, node):
        value = fold_node(self, node)
        return None if value is None else (value,)


def fold(graph):
    """Folding alone, without the rules."""
    return _Fold(graph).run()


fold.__module__ = fold_node.__module__  # whose docstring has the example
PASSES = [decompose, canonicalize, fold, cse, transpose_products, invariant, licm, dce, pipeline.prepare, pipeline.run]


def examples(module, head, *returns):
    """The before and after of a pass's docstring, completed to graphs."""
    blocks = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", inspect.getdoc(module) + "\n", re.M)
    graphs = []
    for block, result in zip(blocks, returns, strict=True):
        body = textwrap.indent(textwrap.dedent(block), "  ").rstrip()
        if "return" not in body:
            body += f"\n  return {result}"
        graphs.append(parse(f"{head} -> ():\n{body}\n"))
    return graphs


@pytest.mark.parametrize(("function", "head", "returns"), [
    (cse, "graph f(%x: f32[N])", ("%2", "%2")),
    (licm, "graph f(%x: f32[N], %w: f32[N], %n: int)", ("%2", "%2")),
    (invariant, "graph f(%x: f32[N], %w: f32[N], %n: int)", ("%1, %2", "%1, %w")),
    (dce, "graph f(%x: f32[N], %n: int)", ("%1", "%1")),
    (fold, "graph f()", ("%1, %3", "%1, %3")),
    (transpose_products, "graph f(%x: f32[K, B], %g: f32[B, N], %v: f32[N, K], %y: f16[B, K])",
     ("%w", "%w", "%p", "%p")),
])
def test_docstring_examples(function, head, returns):
    found = examples(inspect.getmodule(function), head, *returns)
    for before, after in zip(found[::2], found[1::2], strict=True):
        result = function(before)
        verify(result)
        if function in (fold, transpose_products):
            result = dce(result)
        if function is fold:
            for graph in (result, after):  # the last digit of exp is NumPy's
                value = graph.block.nodes[-1].attrs
                graph.block.nodes[-1].attrs.update(value=round(value["value"], 5))
        assert equal(result, after), to_text(result)


def test_products_stay_where_their_transpose_is_not_all_that_is_read():
    """Read elsewhere, transposed in an inner block, or batch axes moved: nothing changes. Batch axes may broadcast."""
    graph = parse("""graph f(%x: f32[3, 4], %g: f32[4, 5], %b: f32[2, 3, 4], %n: int) -> ():
  %p: f32[3, 5] = matmul(%x, %g)
  %w: f32[5, 3] = permute(%p){axes=(1, 0)}
  %q: f32[3, 5] = matmul(%x, %g)
  %zero: f32[5, 3] = full(){value=0.0, shape=(5, 3), dtype=f32}
  %s: f32[5, 3] = scan(%n, %zero){n_carries=1, reverse=False}:
    body(%k: int, %h: f32[5, 3]):
      %0: f32[5, 3] = permute(%q){axes=(1, 0)}
      %1: f32[5, 3] = add(%h, %0)
      yield %1
  %r: f32[2, 3, 5] = matmul(%b, %g)
  %t: f32[3, 2, 5] = permute(%r){axes=(1, 0, 2)}
  return %p, %w, %s, %t""")
    assert transpose_products(graph) is graph
    batched = parse("""graph f(%b: f32[2, 3, 4], %g: f32[4, 5]) -> f32[2, 5, 3]:
  %p: f32[2, 3, 5] = matmul(%b, %g)
  %w: f32[2, 5, 3] = permute(%p){axes=(0, 2, 1)}
  return %w""")
    result = transpose_products(batched)
    verify(result)
    assert [n.op for n in result.block.nodes] == ["permute", "permute", "matmul"]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=s).astype(np.float32) for s in ((2, 3, 4), (4, 5))]
    np.testing.assert_allclose(interpret(result, inputs)[0], interpret(batched, inputs)[0], rtol=1e-5)


def test_products_are_transposed_through_casts():
    """By several casts, one of which loses digits; not where somebody else reads a cast, nor out of another block."""
    graph = parse("""graph f(%x: f16[3, 4], %g: f16[4, 5]) -> (f32[5, 3], f32[5, 3], f32[3, 5]):
  %p: f16[3, 5] = matmul(%x, %g)
  %a: f32[3, 5] = cast(%p){dtype=f32}
  %b: bf16[3, 5] = cast(%a){dtype=bf16}
  %c: f32[3, 5] = cast(%b){dtype=f32}
  %w: f32[5, 3] = permute(%c){axes=(1, 0)}
  %q: f16[3, 5] = matmul(%x, %g)
  %d: f32[3, 5] = cast(%q){dtype=f32}
  %v: f32[5, 3] = permute(%d){axes=(1, 0)}
  return %w, %v, %d""")
    result = dce(transpose_products(graph))
    verify(result)
    assert [n.op for n in result.block.nodes] == [
        "permute", "permute", "matmul", "cast", "cast", "cast", "matmul", "cast", "permute"]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=s).astype(np.float16) for s in ((3, 4), (4, 5))]
    for a, b in zip(interpret(result, inputs), interpret(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2)


def test_casts_of_transposes_stay_where_not_only_products_read_them():
    graph = parse("""graph f(%x: f32[4, 3], %g: f16[4, 5], %n: int) -> (f16[3, 5], f16[3, 4], f16[3, 5]):
  %t: f32[3, 4] = permute(%x){axes=(1, 0)}
  %h: f16[3, 4] = cast(%t){dtype=f16}
  %p: f16[3, 5] = matmul(%h, %g)
  %zero: f16[3, 5] = full(){value=0.0, shape=(3, 5), dtype=f16}
  %k: bf16[3, 4] = cast(%t){dtype=bf16}
  %l: f16[3, 4] = cast(%k){dtype=f16}
  %q: f16[3, 5] = matmul(%l, %g)
  return %p, %h, %q""")
    assert transpose_products(graph) is graph
    both = parse("""graph f(%x: f32[4, 3], %g: f16[4, 5], %y: f16[6, 3]) -> (f16[3, 5], f16[6, 4]):
  %t: f32[3, 4] = permute(%x){axes=(1, 0)}
  %h: f16[3, 4] = cast(%t){dtype=f16}
  %p: f16[3, 5] = matmul(%h, %g)
  %q: f16[6, 4] = matmul(%y, %h)
  return %p, %q""")
    result = dce(transpose_products(both))
    verify(result)
    assert [n.op for n in result.block.nodes] == ["cast", "permute", "matmul", "matmul"]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(4, 3)).astype(np.float32), *[rng.normal(size=s).astype(np.float16)
                                                            for s in ((4, 5), (6, 3))]]
    for a, b in zip(interpret(result, inputs), interpret(both, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_canonicalize_docstring_example():
    (before,) = examples(inspect.getmodule(canonicalize), "graph f(%x: f32[N], %true: bool, %one: f32[])", "%2")
    text = to_text(before).replace("(%x: f32[N], %true: bool, %one: f32[])", "(%x: f32[N])").replace(
        "\n", "\n  %true: bool = num.const(){value=True}\n  %one: f32[] = full(){value=1, shape=(), dtype=f32}\n", 1)
    graph = dce(canonicalize(parse(text)))
    assert equal(graph, parse("graph f(%x: f32[N]) -> f32[N]:\n  return %x"))


def test_decompose_leaves_what_has_its_own_derivative():
    text = "graph f(%x: f32[N, K]) -> (f32[N, K], f32[N, K]):\n" \
           "  %0: f32[N, K] = softmax(%x){axis=1}\n  %1: f32[N, K] = relu6(%0)\n  return %0, %1"
    kept = [n.op for n in decompose(parse(text), keep_vjp=True).block.nodes]
    assert "softmax" in kept
    assert "relu6" not in kept
    gone = [n.op for n in decompose(parse(text)).block.nodes]
    assert "softmax" not in gone
    assert "relu6" not in gone


def observe(graph, values, capsys):
    outputs = interpret(graph, values)
    return outputs, capsys.readouterr().out


def close(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed, capsys):
    graph = Generator(seed).graph()
    verify(graph)
    assert equal(parse(to_text(graph)), graph)
    rng = np.random.default_rng(seed)
    x, y, r = rng.standard_normal((3, 3)), rng.standard_normal((3, 3)), rng.standard_normal(3)
    inputs = [[x, y, r, np.array(0.5), c, n, -1.5] for c, n in ((True, 3), (False, -2))]
    before = [observe(graph, values, capsys) for values in inputs]
    text = to_text(graph)
    for function in PASSES:
        result = function(graph)
        try:
            verify(result)
        except InvalidGraph as error:
            raise AssertionError(f"after {function.__name__}: {error}\n{text}\n{to_text(result)}") from error
        assert to_text(graph) == text, f"{function.__name__} changed its argument"
        for values, (outputs, printed) in zip(inputs, before, strict=True):
            again, out = observe(result, values, capsys)
            assert out == printed, function.__name__
            assert all(map(close, outputs, again)), f"{function.__name__}\n{text}\n{to_text(result)}"


@pytest.mark.parametrize("seed", range(10))
def test_the_pipeline_leaves_little_to_do(seed):
    graph = pipeline.run(pipeline.run(Generator(seed).graph()))
    again = pipeline.run(graph)
    assert sum(1 for _ in again.block.nodes) == sum(1 for _ in graph.block.nodes)


def test_verification_and_dumps(capsys):
    graph = parse("graph f(%x: f32[N]) -> f32[N]:\n  %0: f32[N] = silu(%x)\n  return %0")
    with config.override(verify=2, debug=5):
        pipeline.run(graph)
    err = capsys.readouterr().err
    assert "jitgrad: graph before passes\ngraph f" in err
    assert "jitgrad: graph after decompose_for_cpu\ngraph f" in err
    assert "jitgrad: graph after dce" not in err
    bad = parse("graph f(%x: f32[N]) -> f32[N]:\n  %0: f64[N] = exp(%x)\n  return %0")
    with pytest.raises(InvalidGraph) as error:
        pipeline.run(bad, verify=1)
    assert error.value.__notes__ == ["found after building"]


LOOP = """graph f(%x: f32[N], %n: int) -> f32[N]:
  %1: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[N]):
      %0: f32[N] = exp(%p)
      yield %0
  return %1"""


@pytest.mark.parametrize("function", [canonicalize, cse, decompose, invariant, licm, transpose_products])
def test_a_graph_in_which_nothing_changes_is_returned_itself(function):
    graph = parse(LOOP)
    assert function(graph) is graph


def test_what_a_pass_left_alone_is_neither_verified_nor_passed_over_again(monkeypatch):
    ran, verified = [], []

    def same(graph):
        ran.append(graph)
        return graph

    known = importlib.import_module("jitgrad.script.graph.verify")
    monkeypatch.setattr(known, "verify", lambda graph, **more: verified.append(graph))
    graph = parse(LOOP)
    for verify_ in (0, 1):
        assert pipeline.apply((same, cse, same), graph, verify_) is graph
    assert len(ran) == 2
    assert verified == [graph]


def test_licm_keeps_what_a_check_in_the_loop_guards():
    text = """graph f(%x: f32[N], %w: f32[M], %n: int, %c: bool) -> f32[N]:
  %h: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[N]):
      check(%c){error=$ValueError, template=None}
      %0: f32[] = select(%w){axis=0, index=3}
      %1: f32[N] = exp(%x)
      %2: f32[N] = add(%p, %0)
      %3: f32[N] = add(%2, %1)
      yield %3
  return %h"""
    graph = licm(parse(text))
    assert [n.op for n in graph.block.nodes] == ["exp", "scan"]
    assert [n.op for n in graph.block.nodes[1].blocks[0].nodes] == ["check", "select", "add", "add"]


def test_licm_leaves_several_loops_at_once():
    text = """graph f(%x: f32[N, N], %n: int) -> f32[N, N]:
  %h: f32[N, N] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[N, N]):
      %i: f32[N, N] = scan(%n, %p){n_carries=1, reverse=False}:
        body(%l: int, %q: f32[N, N]):
          %two: f32[] = full(){value=2, shape=(), dtype=f32}
          %0: f32[N, N] = mul(%x, %two)
          %1: f32[N, N] = matmul(%0, %x)
          %2: f32[N, N] = mul(%p, %two)
          %3: f32[N, N] = add(%q, %1)
          %4: f32[N, N] = add(%3, %2)
          yield %4
      yield %i
  return %h"""
    graph = licm(parse(text))
    verify(graph)
    assert [n.op for n in graph.block.nodes] == ["full", "mul", "matmul", "scan"]
    assert [n.op for n in graph.block.nodes[3].blocks[0].nodes] == ["mul", "scan"]


def test_dce_keeps_the_binder_of_a_size():
    text = """graph f(%x: f32[N]) -> f32[Q]:
  %i: i64[Q, 1] = nonzero(%x) binds Q
  %z: f32[Q] = full(){value=0, shape=(Q,), dtype=f32}
  return %z"""
    assert equal(dce(parse(text)), parse(text))


def test_dce_keeps_effects_and_what_they_need():
    text = """graph f(%x: f32[N], %c: bool, %n: int) -> ():
  %t: int, %p: int = while(%c, %n):
    body(%q: int):
      %d: bool = num.const(){value=False}
      %u: int = num.neg(%q)
      if(%c):
        then:
          print(%q){template=((0, '', ''),)}
          %v: int = num.neg(%q)
          yield
        else:
          yield
      yield %d, %u
  return"""
    graph = dce(parse(text))
    (loop,) = graph.block.nodes
    assert len(loop.inputs) == 2
    assert [n.op for n in loop.blocks[0].nodes] == ["num.const", "num.neg", "if"]
    assert [n.op for n in loop.blocks[0].nodes[2].blocks[0].nodes] == ["print"]


def test_invariant_carry_gives_its_size():
    text = """graph f(%x: f32[N], %w: f32[3], %n: int) -> (f32[Q], int):
  %h: f32[N], %g: f32[Q] = scan(%n, %x, %w){n_carries=2, reverse=False} binds Q:
    body[P](%k: int, %p: f32[N], %v: f32[P]):
      %m: int = dim.value(){dim=P}
      %a: f32[] = fill(%m){shape=(), dtype=f32}
      %0: f32[N] = mul(%p, %a)
      yield %0, %v
  %q: int = dim.value(){dim=2*Q}
  return %g, %q"""
    graph = invariant(parse(text))
    verify(graph)
    assert graph.outputs[0] is graph.inputs[1]
    assert graph.block.nodes[-1].attrs == {"dim": 6}
    assert graph.block.nodes[0].blocks[0].nodes[0].attrs == {"dim": 3}


def test_deep_nesting_needs_no_deep_stack():
    depth = 1500
    lines = ["graph f(%c: bool, %x: f32[N]) -> f32[N]:"]
    for i in range(depth):
        pad = "  " * (2 * i + 1)
        lines += [f"{pad}%v{i}: f32[N] = if(%c):", f"{pad}  then:"]
    for i in reversed(range(depth)):
        pad = "  " * (2 * i + 3)
        inner = f"%v{i + 1}" if i + 1 < depth else "%x"
        lines += [f"{pad}%w{i}: f32[N] = neg({inner})", f"{pad}yield %w{i}", f"{pad[2:]}else:", f"{pad}yield %x"]
    graph = parse("\n".join([*lines, "  return %v0"]))
    verify(pipeline.run(graph))


def test_what_rules_write_is_composed_too() -> None:
    """A write that turns out to be one of everything, when gradients are taken: for them there was a row of its own."""
    graph = parse("graph f(%x: f32[4], %y: f32[4]) -> (f32[4]):\n"
                  "  %r: f32[4] = slice_scatter(%x, %y){axis=0, start=0, length=4, step=1}\n"
                  "  return %r")
    assert [node.op for node in pipeline.run(graph).block.nodes] == []
    assert [node.op for node in pipeline.prepare(graph).block.nodes] == ["overwrite"]
