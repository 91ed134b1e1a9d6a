"""Every invariant of a graph is refused with its message where it is broken."""

import pytest

from jitgrad import dtypes
from jitgrad.ops.types import BOOL, TensorType
from jitgrad.script.graph.ir import Block, Graph, Node, Value
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import InvalidGraph, verify

MAYBE = """graph f(%c: bool, %x: f32[]) -> f32[]:
  %o: optional<f32[]> = if(%c):
    then:
      %s: optional<f32[]> = opt.some(%x)
      yield %s
    else:
      %z: optional<f32[]> = opt.none(){type=f32[]}
      yield %z
"""
GOOD = [
    "graph f(%x: f32[N, 4], %w: f32[4, K]) -> f32[N, K]:\n  %0: f32[N, K] = matmul(%x, %w)\n  return %0",
    """graph f(%x: f32[N], %c: bool, %n: int) -> (f32[N], seq<f32[N]>):
  %1: f32[N] = if(%c):
    then:
      %2: f32[N] = exp(%x)
      yield %2
    else:
      yield %x
  %t: int, %w: f32[N], %ys: seq<f32[N]> = while(%c, %1):
    body(%p: f32[N]):
      %d: bool = num.const(){value=False}
      yield %d, %p, %p
  %h: f32[N], %zs: seq<f32[N]> = scan(%t, %w, %ys){n_carries=1, reverse=True}:
    body(%k: int, %p2: f32[N], %y: f32[N]):
      %3: f32[N] = add(%p2, %y)
      yield %3, %p2
  return %h, %zs""",
    """graph f(%x: f32[N], %n: int) -> f32[M]:
  %h: f32[M] = scan(%n, %x){n_carries=1, reverse=False} binds M:
    body[P](%k: int, %p: f32[P]):
      %q: f32[2*P] = cat(%p, %p){axis=0}
      yield %q
  return %h""",
    """graph f(%o: optional<f32[N]>, %c: bool) -> f32[N]:
  %h: bool = opt.has(%o)
  %b: bool = num.and(%c, %h)
  check(%b){error=$ValueError, template=None}
  %v: f32[N] = opt.get(%o)
  return %v""",
    """graph f(%o: optional<f32[N]>, %c: bool) -> f32[N]:
  %h: bool = opt.has(%o)
  if(%h):
    then:
      yield
    else:
      if(%c):
        then:
          %d: bool = num.const(){value=False}
          check(%d){error=$TypeError, template=None}
          yield
        else:
          %e: bool = num.const(){value=False}
          check(%e){error=$ValueError, template=None}
          yield
      yield
  %v: f32[N] = opt.get(%o)
  return %v""",
    """graph f(%o: optional<f32[N]>) -> f32[N]:
  %d: bool = num.const(){value=False}
  check(%d){error=$TypeError, template=None}
  %v: f32[N] = opt.get(%o)
  return %v""",
    MAYBE + """  %r: f32[] = if(%c):
    then:
      %g: f32[] = opt.get(%o)
      yield %g
    else:
      yield %x
  return %r""",
    MAYBE + """  %fine: bool = if(%c):
    then:
      %t: bool = num.const(){value=True}
      yield %t
    else:
      %u: bool = num.const(){value=False}
      yield %u
  %r: f32[] = if(%fine):
    then:
      %g: f32[] = opt.get(%o)
      yield %g
    else:
      yield %x
  return %r""",
    """graph f(%s: seq<f32[E]>, %k: int) -> f32[G]:
  %e: f32[G] = seq.get(%s, %k) binds G
  return %e""",
    """graph f(%k: int) -> f32[M]:
  %m: int = dim.bind(%k){symbol=@M} binds M
  %z: f32[M] = full(){value=0, shape=(M,), dtype=f32}
  return %z""",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_graphs_pass(text):
    graph = parse(text)
    assert verify(graph) is graph


X = "graph f(%x: f32[N, 4], %c: bool, %n: int, %o: optional<f32[3]>, %s: seq<f32[3]>) -> ():\n"
BAD = {
    "scope": (X + """  if(%c):
    then:
      %0: f32[N, 4] = exp(%x)
      yield
    else:
      yield
  %1: f32[N, 4] = exp(%0)
  return""", "`%0` is used where it is not in scope\n  in: %1: f32[N, 4] = exp(%0)"),
    "result scope": (X + """  %r: f32[N, 4] = if(%c):
    then:
      %0: f32[N, 4] = exp(%x)
      yield %0
    else:
      yield %0
  return""", "result `%0` is not in scope\n  in: %r: f32[N, 4] = if(%c):"),
    "dtype": (X + "  %0: f64[N, 4] = exp(%x)\n  return", "`%0` is a `f64[N, 4]`, but `exp` makes a `f32[N, 4]`"),
    "rank": (X + "  %0: f32[N] = exp(%x)\n  return", "`%0` is a `f32[N]`, but `exp` makes a `f32[N, 4]`"),
    "size": (X + "  %0: f32[N, 5] = exp(%x)\n  return", "`%0` is a `f32[N, 5]`, but `exp` makes a `f32[N, 4]`"),
    "symbolic size": (X + "  %0: f32[N + 1, 4] = exp(%x)\n  return", "is a `f32[1 + N, 4]`, but `exp` makes"),
    "unknown op": (X + "  %0: f32[N, 4] = frobnicate(%x)\n  return", "`frobnicate` is not an op"),
    "unknown number op": (X + "  %0: int = num.frob(%n)\n  return", "`num.frob` is not an op"),
    "arity": (X + "  %0: f32[N, 4] = exp(%x, %x)\n  return", "`exp` takes 1 operand, not 2"),
    "outputs": (X + "  %0: f32[N, 4], %1: f32[N, 4] = exp(%x)\n  return", "`exp` has 1 outputs, not 2"),
    "operand kind": (X + "  %0: f32[N, 4] = add(%x, %n)\n  return",
        "operand 1 of `add`, `%n`, is a `int`, not TensorType"),
    "mixed dtypes": (X + "  %i: i64[N, 4] = cast(%x){dtype=i64}\n  %0: f32[N, 4] = add(%x, %i)\n  return",
                     "the operands of `add` have the dtypes float32, int64"),
    "missing attr": (X + "  %0: f32[N] = sum(%x){axes=(1,)}\n  return", "its types cannot be inferred: TypeError"),
    "unbound symbol in a type": (X + "  %0: f32[Q, 4] = reshape(%x){shape=(N, 4)}\n  return",
                                 "the type of `%0` has the symbol `Q`, which is not in scope"),
    "unbound symbol in an attribute": (X + "  %0: f32[N, 4] = reshape(%x){shape=(Q, 4)}\n  return",
                                       "attribute `shape` has the symbol `Q`, which is not in scope"),
    "symbol bound twice": ("graph f[N, N](%x: f32[N]) -> ():\n  return", "symbol `N` is bound twice"),
    "binder without a place": ("graph f[N](%x: f32[2*N]) -> ():\n  return",
                               "symbol `N` is bound here, but no parameter's type has it as a size of its own"),
    "node binder without a place": (X + "  %0: f32[N, 4] = exp(%x) binds Q\n  return",
                                    "symbol `Q` is bound here, but no output's type has it as a size of its own"),
    "symbol of a branch outside": (X + """  if(%c):
    then:
      %i: i64[Q, 2] = nonzero(%x) binds Q
      yield
    else:
      yield
  %z: f32[Q] = full(){value=0, shape=(Q,), dtype=f32}
  return""", "attribute `shape` has the symbol `Q`, which is not in scope"),
    "dim.bind of another": (X + "  %0: int = dim.bind(%n){symbol=@Q} binds N2\n  return",
        "`dim.bind` binds its `symbol`"),
    "if condition": (X + "  if(%n):\n    then:\n      yield\n    else:\n      yield\n  return",
                     "operand 0 of `if`, `%n`, is a `int`, not bool"),
    "if without else": (X + "  if(%c):\n    then:\n      yield\n  return", "`if` has 2 blocks, not 1"),
    "if parameters": (X + "  if(%c):\n    then(%p: int):\n      yield\n    else:\n      yield\n  return",
                      "a block of an `if` has no parameters and binds nothing"),
    "if results": (X + "  %r: int = if(%c):\n    then:\n      yield %n\n    else:\n      yield\n  return",
                   "results of `else`: 0 values for 1"),
    "if result types": (X + "  %r: int = if(%c):\n    then:\n      yield %n\n    else:\n      yield %c\n  return",
                        "results of `else`: value 0 is a `bool`, not a `int`"),
    "while condition": (X + "  %t: int = while(%c):\n    body:\n      yield %n\n  return",
                        "the first result of a `while` body is the condition, a bool"),
    "while trips": (X + "  %t: bool = while(%c):\n    body:\n      yield %c\n  return",
                    "the first output of a `while` is the number of trips, an int"),
    "while carries": (X + "  %t: int, %u: int = while(%c, %n):\n    body:\n      yield %c\n  return",
                      "carries of a `while`: 1 values for 0"),
    "while outputs": (X + "  %t: int = while(%c, %n):\n    body(%p: int):\n      yield %c, %p\n  return",
                      "a `while` of 1 carries has at least 2 outputs"),
    "while result": (X + "  %t: int, %u: int = while(%c, %n):\n    body(%p: int):\n      yield %c, %c\n  return",
                     "results of a `while` body: value 0 is a `bool`, not a `int`"),
    "while ys": (X + "  %t: int, %u: int = while(%c):\n    body:\n      yield %c, %n\n  return",
                 "a `while` whose body gives 1 ys has as many sequences for outputs"),
    "growing carry": (X + """  %h: f32[N, 4] = scan(%n, %x){n_carries=1}:
    body(%k: int, %p: f32[N, 4]):
      %q: f32[2*N, 4] = cat(%p, %p){axis=0}
      %q1: f32[N + 1, 4] = slice(%q){axis=0, start=0, length=N + 1, step=1}
      yield %q1
  return""", "results of a `scan` body: value 0 is a `f32[1 + N, 4]`, not a `f32[N, 4]`"),
    "scan trips": (X + "  scan(%c){n_carries=0}:\n    body(%k: int):\n      yield\n  return",
                   "operand 0 of `scan`, `%c`, is a `bool`, not int"),
    "scan carries": (X + "  scan(%n){n_carries=2}:\n    body(%k: int):\n      yield\n  return",
                     "`n_carries` is not a number of operands"),
    "scan index": (X + "  scan(%n){n_carries=0}:\n    body(%k: bool):\n      yield\n  return",
                   "carries of a `scan`: value 0 is a `int`, not a `bool`"),
    "scan element": (X + "  scan(%n, %s){n_carries=0}:\n    body(%k: int, %e: f32[4]):\n      yield\n  return",
                     "elements of a `scan`: value 0 is a `f32[3]`, not a `f32[4]`"),
    "scan of no sequence": (X + "  scan(%n, %x){n_carries=0}:\n    body(%k: int, %e: f32[4]):\n      yield\n  return",
                            "operand 1 of `scan`, `%x`, is a `f32[N, 4]`, not SeqType"),
    "scan y": (X + "  %y: seq<int> = scan(%n){n_carries=0}:\n    body(%k: int):\n      yield %x\n  return",
               "`%x` is a `f32[N, 4]`, an element of its sequence a `int`"),
    "unguarded get": (X + "  %v: f32[3] = opt.get(%o)\n  return",
                      "`opt.get` of `%o`, of which nothing here says that it is present"),
    "get in the wrong branch": (X + """  %h: bool = opt.has(%o)
  if(%h):
    then:
      yield
    else:
      %v: f32[3] = opt.get(%o)
      yield
  return""", "`opt.get` of `%o`, of which nothing here says that it is present"),
    "get after the branch": (X + """  %h: bool = opt.has(%o)
  if(%h):
    then:
      yield
    else:
      yield
  %v: f32[3] = opt.get(%o)
  return""", "of which nothing here says that it is present"),
    "get after the other side raises": (X + """  %h: bool = opt.has(%o)
  if(%h):
    then:
      %f: bool = num.const(){value=False}
      check(%f){error=$ValueError, template=None}
      yield
    else:
      yield
  %v: f32[3] = opt.get(%o)
  return""", "of which nothing here says that it is present"),
    "has of a number": (X + "  %h: bool = opt.has(%n)\n  return",
        "operand 0 of `opt.has`, `%n`, is a `int`, not OptionalType"),
    "seq index": (X + "  %v: f32[3] = seq.get(%s, %c)\n  return", "operand 1 of `seq.get`, `%c`, is a `bool`, not int"),
    "item of many": (X + "  %v: float = item(%x)\n  return", "`item` takes a tensor of one element, not a `f32[N, 4]`"),
    "check error": (X + "  check(%c){error=1, template=None}\n  return", "`error` is not an exception type"),
    "check template": (X + "  check(%c){error=$ValueError, template=('a', (0, '', ''))}\n  return",
                       "`template` names value 0 of 0"),
    "print template": (X + "  print(%c){template='a'}\n  return",
                       "`template` is not a tuple of strings and (index, conversion, format) tuples"),
    "commit target": (X + "  commit(%x){target=7}\n  return",
        "`target` is not the number of one of the graph's 5 inputs"),
    "commit type": (X + "  commit(%n){target=0}\n  return", "a `int` cannot be written to input 0, a `f32[N, 4]`"),
    "select types": (X + "  %v: int = num.select(%c, %n, %c)\n  return", "`%n` and `%c` have different types"),
    "select condition": (X + "  %v: int = num.select(%n, %n, %n)\n  return",
        "operand 0 of `num.select`, `%n`, is a `int`"),
    "cast kind": (X + "  %v: int = num.cast(%n){to='complex'}\n  return",
        "`to` is not `bool`, `int`, `float` or `number`"),
    "math function": (X + "  %v: float = num.math(%n){fn='sinus'}\n  return",
                      "`fn` is not a function of Python's math module"),
    "wide constant": (X + "  %v: int = num.const(){value=9223372036854775808}\n  return",
        "`value` is not a number of at most 64 bits"),
    "number operand": (X + "  %v: int = num.add(%n, %x)\n  return", "operand 1 of `num.add`, `%x`, is a `f32[N, 4]`"),
    "blocks": (X + "  %0: f32[N, 4] = exp(%x):\n    body:\n      yield\n  return", "`exp` has no blocks"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_graphs_are_refused(name):
    text, message = BAD[name]
    with pytest.raises(InvalidGraph) as error:
        verify(parse(text))
    assert message in str(error.value)


def test_what_text_cannot_say():
    x = Value(TensorType(dtypes.float32, ()), "x")
    y = Value(TensorType(dtypes.float32, ()), "y")
    exp = Node("exp", (x,), {}, (y,))
    with pytest.raises(InvalidGraph, match="`%y` is not defined"):
        verify(Graph(Block((x,), [Node("exp", (y,), {}, (Value(x.type),))])))
    with pytest.raises(InvalidGraph, match="is defined twice"):
        verify(Graph(Block((x,), [exp, exp])))
    with pytest.raises(InvalidGraph, match="result `%y` is not in scope\n  in: graph f"):
        verify(Graph(Block((x,), [], (y,))))
    with pytest.raises(InvalidGraph, match="attribute `a` is a `list`, which is not static"):
        verify(Graph(Block((x,), [Node("exp", (x,), {"a": []}, (y,))])))
    with pytest.raises(InvalidGraph, match="attribute `a` is a part of a graph; only blocks nest"):
        verify(Graph(Block((x,), [Node("exp", (x,), {"a": (x,)}, (y,))])))
    c = Value(BOOL, "c")
    block = Block()
    with pytest.raises(InvalidGraph, match="a block belongs to two nodes"):
        verify(Graph(Block((c,), [Node("if", (c,), {}, (), (block, block))])))



def test_nodes_that_are_known_may_still_stand_in_the_wrong_place():
    graph = parse("graph f(%x: f32[N]) -> f32[N]:\n  %0: f32[N] = exp(%x)\n  %1: f32[N] = tanh(%0)\n  return %1")
    known: set[Node] = set()
    verify(graph, known=known)
    assert known == set(graph.block.nodes)
    block = graph.block
    with pytest.raises(InvalidGraph, match="is not defined"):
        verify(Graph(Block(block.params, block.nodes[::-1], block.results, block.binds)), known=known)


def test_a_pure_graph_has_no_effects():
    text = X + "  print(%c){template=('hello',)}\n  return"
    verify(parse(text))
    with pytest.raises(InvalidGraph, match="`print` is an effect, in a graph that has none"):
        verify(parse(text), pure=True)


def test_deep_nesting_needs_no_deep_stack():
    c = Value(BOOL, "c")
    block = Block()
    for _ in range(3000):
        block = Block((), [Node("if", (c,), {}, (), (block, Block()))])
    verify(Graph(Block((c,), block.nodes)))
