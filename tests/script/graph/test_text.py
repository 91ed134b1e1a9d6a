"""The text form: what is printed parses back to an equal graph."""

import pytest

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.errors import Span
from jitgrad.ops.types import FLOAT, INT, OptionalType, SeqType, TensorType
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value
from jitgrad.script.graph.parse import ParseError, parse
from jitgrad.script.graph.text import describe, equal, to_text

EXAMPLE = """\
graph f[N!, K](%x: f32[N, 4], %w: f32[4, K], %4: int, %c: bool, %o: optional<f32[3]>) -> (f32[N, K], int):
  %0: f32[N, K] = matmul(%x, %w)
  %1: f32[N, K] = if(%c):
    then:
      %2: f32[N, K] = relu(%0)
      yield %2
    else:
      yield %0
  check(%c, %x){error=$ValueError, template=('a # \\n', (0, 'r', ''))}
  %3: int = dim.bind(%4){symbol=@M} binds M
  %h: f32[N, K], %s: seq<f32[E]> = scan(%4, %1){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[N, K]):
      %5: int, %6: f32[N, K] = while(%c, %p):
        body[G](%q: f32[G, K]):
          yield %c, %q
      yield %p, %x
  %n: optional<f32[]> = opt.none(){type=f32[2*N + -3, floordiv(N, 2)]}
  return %h, %4
"""


def test_round_trip_keeps_everything_and_the_text_is_stable():
    graph = parse(EXAMPLE)
    text = to_text(graph)
    again = parse(text)
    assert equal(graph, again)
    assert to_text(again) == text
    scan = graph.block.nodes[-2]
    assert scan.attrs == {"n_carries": 1, "reverse": False}
    assert isinstance(scan.outputs[1].type, SeqType)
    assert [s.not_one for s in graph.block.binds] == [True, False]


@pytest.mark.parametrize("value", [
    None, True, False, 0, -7, 1 << 70, 0.1, -0.0, 1e-300, 3e38, float("inf"), float("-inf"), "it's # \"quoted\" \n", (),
    (1,), (1, (2.0, "x"), ()), dtypes.float16, dtypes.bool_, TensorType(dtypes.int64, ()), INT, OptionalType(FLOAT),
    SeqType(TensorType(dtypes.float32, (3, 4))),
], ids=repr)
def test_attributes(value):
    graph = Graph(Block(nodes=[Node("op", (), {"a": value, "b": (value, 1)}, ())]))
    read = parse(to_text(graph)).block.nodes[0].attrs
    assert repr(read) == repr({"a": value, "b": (value, 1)})


def test_nan_and_sizes_in_attributes():
    n = Symbol("N")
    size = dim(n) * dim(n) * 2 - 3
    x = Value(TensorType(dtypes.float32, (dim(n),)))
    graph = Graph(Block((x,), [Node("op", (), {"a": float("nan"), "d": dim(n), "e": size, "s": n}, ())], (x,), (n,)))
    again = parse(to_text(graph))
    assert equal(graph, again)
    (symbol,) = again.block.binds
    assert again.block.nodes[0].attrs["e"] == dim(symbol) * dim(symbol) * 2 - 3
    assert again.block.nodes[0].attrs["s"] is symbol


def test_objects_that_text_cannot_say():
    class Custom(Exception):
        pass

    def hook():
        pass

    attrs = {"error": Custom, "other": KeyError, "fn": hook, "again": hook}
    graph = Graph(Block(nodes=[Node("callback", (), attrs, ())]))
    objects = {}
    text = to_text(graph, objects=objects)
    assert parse(text, objects).block.nodes[0].attrs == attrs
    with pytest.raises(ParseError, match=r"unknown object `\$Custom`; pass `objects`"):
        parse(text)


def test_names_are_made_unique_and_readable():
    t = TensorType(dtypes.float32, ())
    a, b, c = Value(t, "self.w"), Value(t, "self.w"), Value(t, "3 bad")
    text = to_text(Graph(Block((a, b, c), [], (c, b, a)), "<lambda>"))
    assert text == "graph '<lambda>'(%self.w: f32[], %self.w.1: f32[], %3_bad: f32[]) -> (f32[], f32[], f32[]):\n" \
                   "  return %3_bad, %self.w.1, %self.w\n"
    assert parse(text).name == "<lambda>"


def test_symbols_with_one_name_or_a_reserved_one():
    a, b, c = Symbol("N"), Symbol("N"), Symbol("f32")
    x = Value(TensorType(dtypes.float32, (dim(a), dim(b), dim(c))))
    graph = Graph(Block((x,), [], (x,), (a, b, c)))
    assert "f32[N, N_1, s_f32]" in to_text(graph)
    assert equal(graph, parse(to_text(graph)))


def test_equality_is_up_to_names_and_nothing_else():
    one = parse("graph f(%x: f32[N, M]) -> f32[N, M]:\n  return %x")
    other = parse("graph g(%y: f32[A, B]) -> f32[A, B]:\n  return %y")
    assert equal(one, other)
    for head in ("f(%x: f32[N, N])", "f(%x: f64[N, M])", "f[N!, M](%x: f32[N, M])", "f(%x: f32[N, 3])"):
        assert not equal(one, parse(f"graph {head} -> f32[]:\n  return %x"))
    assert not equal(one, parse("graph f(%x: f32[N, M]) -> ():\n  return"))


def test_equality_does_not_depend_on_the_order_in_which_symbols_were_made():
    late = Symbol("late")
    early = Symbol("early")
    graphs = []
    for a, b in ((late, early), (early, late)):
        x = Value(TensorType(dtypes.float32, (dim(a), dim(b))))
        graphs.append(Graph(Block((x,), [Node("op", (), {"d": dim(a) * 2 + dim(b)}, ())], (x,), (a, b))))
    assert equal(*graphs)


def test_spans_are_trailing_comments():
    builder = Builder()
    builder.span = Span("model.py", 7, 15, 7, 20)
    builder.emit("num.const", value=1)
    graph = Graph(builder.block)
    assert to_text(graph).splitlines()[1].endswith("  # model.py:7:15")
    assert "#" not in to_text(graph, spans=False)
    assert equal(graph, parse(to_text(graph)))


def test_deep_nesting_needs_no_deep_stack():
    depth = 2000
    lines = ["graph f(%c: bool) -> ():"]
    for i in range(depth):
        pad = "  " * (2 * i + 1)
        lines += [f"{pad}if(%c):", f"{pad}  then:"]
    for i in reversed(range(depth)):
        pad = "  " * (2 * i + 3)
        lines += [f"{pad}yield", f"{pad[2:]}else:", f"{pad}yield"]
    text = "\n".join([*lines, "  return"]) + "\n"
    graph = parse(text)
    assert equal(graph, parse(to_text(graph)))


@pytest.mark.parametrize(("text", "message"), [
    ("", "line 0: the graph has no end"),
    ("hello", "line 1: a graph starts with `graph name("),
    ("graph f() -> ():\n  %x: f32[] = neg(%y)\n  return", "line 2: `%y` is not defined"),
    ("graph f(%x: f32[]) -> ():\n  %x: f32[] = neg(%x)\n  return", "line 2: `%x` is defined twice"),
    ("graph f(%x: f33[]) -> ():\n  return", "line 1: `f33` is not a type"),
    ("graph f(%x: f32[]) -> ():\n  yield", "line 2: a graph ends in `return`, a block in `yield`"),
    ("graph f(%x: f32[]) -> ():\n  neg(%x", "line 2: expected `)`, found ``"),
    ("graph f(%x: f32[]) -> ():\n  neg(%x) what\n  return", "line 2: unexpected `what`"),
    ("graph f(%x: f32[]) -> ():\n  neg(%x) ?\n  return", "line 2: cannot read ` ?`"),
    ("graph f(%x: f32[]) -> ():\n  return\n  neg(%x)", "line 3: nothing may follow"),
])
def test_errors_name_the_line(text, message):
    with pytest.raises(ParseError) as error:
        parse(text)
    assert str(error.value).startswith(message)


def test_describe_names_the_line_of_a_node():
    graph = parse("graph f(%x: f32[]) -> ():\n  %y: f32[] = neg(%x)\n  return")
    assert describe(graph, graph.block.nodes[0], graph.inputs) == ("%y: f32[] = neg(%x)", ["%x"])


def test_places_and_the_calls_that_led_there_are_read_back():
    from jitgrad.errors import Span
    from jitgrad.ops.types import FLOAT
    from jitgrad.script.graph.ir import Block, Builder, Graph, Value

    builder = Builder(Block((Value(FLOAT, "x"),)))
    builder.span = Span("a b.py", 3, 5, 3, 9, "inner", Span("<cell 1>", 7, 1, 7, 4, "outer"))
    builder.block.results = (builder.one("num.neg", builder.block.params[0]),)
    (node,) = parse(to_text(Graph(builder.block), "chain")).block.nodes
    assert str(node.span) == "a b.py:3:5"
    assert str(node.span.caller) == "<cell 1>:7:1"
    assert parse(to_text(Graph(builder.block))).block.nodes[0].span.caller is None
    assert parse(to_text(Graph(builder.block), spans=False)).block.nodes[0].span is None
