"""The interpreter: control flow, sizes, Python's numbers, effects."""

import math
import sys

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.errors import Span
from jitgrad.ops.types import BOOL, FLOAT, INT
from jitgrad.script.graph import numbers
from jitgrad.script.graph.interpret import InterpretError, interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value
from jitgrad.script.graph.parse import parse


def run(text, *inputs, **kwargs):
    return interpret(parse(text), inputs, **kwargs)


def f32(*values):
    return np.array(values, np.float32)


def test_branches_and_composites():
    text = """graph f(%x: f32[N], %c: bool) -> f32[N]:
  %r: f32[N] = if(%c):
    then:
      %0: f32[N] = silu(%x)
      yield %0
    else:
      yield %x
  return %r"""
    x = f32(1, -2)
    np.testing.assert_allclose(run(text, x, True)[0], x / (1 + np.exp(-x)), rtol=1e-6)
    (same,) = run(text, x, False)
    assert (same == x).all()
    assert not np.may_share_memory(same, x)


def test_while_counts_trips_and_collects():
    text = """graph f(%x: f32[]) -> (int, f32[], seq<f32[]>):
  %hundred: f32[] = full(){value=100, shape=(), dtype=f32}
  %a: bool[] = lt(%x, %hundred)
  %c0: bool = item(%a)
  %t: int, %r: f32[], %ys: seq<f32[]> = while(%c0, %x):
    body(%p: f32[]):
      %q: f32[] = mul(%p, %p)
      %b: bool[] = lt(%q, %hundred)
      %c: bool = item(%b)
      yield %c, %q, %p
  return %t, %r, %ys""".replace("bool[]", "b8[]")
    trips, result, ys = run(text, np.array(3, np.float32))
    assert (trips, result, [float(y) for y in ys]) == (3, 6561, [3, 9, 81])
    trips, result, ys = run(text, np.array(300, np.float32))
    assert (trips, result, ys) == (0, 300, [])


SCAN = """graph f(%n: int, %x: f32[K], %s: seq<f32[K]>) -> (f32[K], seq<int>):
  %r: f32[K], %ys: seq<int> = scan(%n, %x, %s){n_carries=1, reverse=REVERSE}:
    body(%k: int, %p: f32[K], %e: f32[K]):
      %q: f32[K] = sub(%e, %p)
      yield %q, %k
  return %r, %ys"""


def test_scan_forwards_and_backwards():
    elements = [f32(1), f32(10), f32(100)]
    result, ys = run(SCAN.replace("REVERSE", "False"), 3, f32(5), elements)
    assert (result.tolist(), ys) == ([100 - (10 - (1 - 5))], [0, 1, 2])
    result, ys = run(SCAN.replace("REVERSE", "True"), 3, f32(5), elements)
    assert (result.tolist(), ys) == ([1 - (10 - (100 - 5))], [0, 1, 2])
    result, ys = run(SCAN.replace("REVERSE", "True"), 0, f32(5), [])
    assert (result.tolist(), ys) == ([5], [])
    with pytest.raises(InterpretError, match="has 1 elements in a scan of 3"):
        run(SCAN.replace("REVERSE", "True"), 3, f32(5), elements[:1])


def test_sizes_that_change_in_a_loop_are_bound_anew():
    text = """graph f(%x: f32[N], %n: int) -> (f32[M], int, seq<f32[E]>):
  %h: f32[M], %ys: seq<f32[E]> = scan(%n, %x){n_carries=1, reverse=False} binds M:
    body[P](%k: int, %p: f32[P]):
      %q: f32[2*P] = cat(%p, %p){axis=0}
      yield %q, %p
  %m: int = dim.value(){dim=3*M + N}
  return %h, %m, %ys"""
    h, m, ys = run(text, f32(1, 2, 3), 2)
    assert h.shape == (12,)
    assert m == 39
    assert [y.shape for y in ys] == [(3,), (6,)]


def test_symbols_bound_by_nodes():
    text = """graph f(%x: f32[N], %k: int) -> (i64[Q, 1], f32[2*M]):
  %i: i64[Q, 1] = nonzero(%x) binds Q
  %m: int = dim.bind(%k){symbol=@M} binds M
  %number: float = num.const(){value=2.5}
  %z: f32[2*M] = fill(%number){shape=(2*M,), dtype=f32}
  return %i, %z"""
    i, z = run(text, f32(0, 1, 0, 2), 2)
    assert i.tolist() == [[1], [3]]
    assert z.tolist() == [2.5] * 4


def test_optionals_nest():
    t = "optional<optional<f32[]>>"
    text = f"""graph f(%x: f32[], %c: bool, %d: bool) -> (bool, bool):
  %o: {t} = if(%c):
    then:
      %i: optional<f32[]> = if(%d):
        then:
          %a: optional<f32[]> = opt.some(%x)
          yield %a
        else:
          %b: optional<f32[]> = opt.none(){{type=f32[]}}
          yield %b
      %s: {t} = opt.some(%i)
      yield %s
    else:
      %z: {t} = opt.none(){{type=optional<f32[]>}}
      yield %z
  %h: bool = opt.has(%o)
  %g: bool = if(%h):
    then:
      %p: optional<f32[]> = opt.get(%o)
      %q: bool = opt.has(%p)
      yield %q
    else:
      yield %h
  return %h, %g"""
    x = np.zeros((), np.float32)
    assert run(text, x, False, True) == [False, False]
    assert run(text, x, True, False) == [True, False]
    assert run(text, x, True, True) == [True, True]


def test_optionals_at_the_border():
    text = "graph f(%o: optional<f32[N]>) -> (optional<f32[N]>, bool):\n  %h: bool = opt.has(%o)\n  return %o, %h"
    assert run(text, None) == [None, False]
    value, there = run(text, f32(1, 2))
    assert value.tolist() == [1, 2]
    assert there
    with pytest.raises(InterpretError, match=r"`opt.get` of `%o: optional<f32\[N\]>`, which is absent"):
        run("graph f(%o: optional<f32[N]>) -> f32[]:\n  %h: f32[N] = opt.get(%o)\n  return %h", None)


def test_wrong_values_are_found():
    text = "graph f(%x: f32[N], %y: f32[N]) -> f32[N]:\n  %0: f32[N] = add(%x, %y)\n  return %0"
    for bad in (np.zeros(2), f32(1), f32(1, 2).reshape(2, 1), [1.0, 2.0]):
        with pytest.raises(InterpretError, match="`%y: f32"):
            run(text, f32(1, 2), bad)
    with pytest.raises(InterpretError, match="the graph has 2 inputs, 1 were given"):
        run(text, f32(1))
    text = "graph f(%x: f32[N], %y: f32[M]) -> f32[N]:\n  %0: f32[N] = add(%x, %y)\n  return %0"
    with pytest.raises(InterpretError, match=r": f32\[N\]` is float32\[2\]") as error:
        run(text, f32(1), f32(1, 2))
    assert error.value.__notes__ == ["in: %0: f32[N] = add(%x, %y)"]


# --- effects -------------------------------------------------------------------------------------------------------


def test_check_raises_with_the_line(tmp_path):
    source = tmp_path / "model.py"
    source.write_text("first\n  raise here\n")
    builder = Builder(Block((Value(BOOL, "c"), Value(INT, "n"))))
    caller = Span(str(source), 1, 1, 1, 6, "main")
    builder.span = Span(str(source), 2, 3, 2, 8, "f", caller)
    builder.emit("check", builder.block.params, error=KeyError, template=("n is ", (0, "r", ">3"), "!"))
    graph = Graph(builder.block)
    assert interpret(graph, [True, 1]) == []
    with pytest.raises(KeyError, match="n is   7!") as error:
        interpret(graph, [False, 7])
    assert error.value.span.line == 2
    (note,) = error.value.__notes__
    assert note.splitlines()[0] == f"{source}:2:3"
    assert note.splitlines()[2:4] == ["    2 |   raise here", "      |   ^^^^^"]
    assert note.splitlines()[4] == f"called from {source}:1:1 in `main`"


def test_check_without_a_text():
    with pytest.raises(StopIteration) as error:
        run("graph f(%c: bool) -> ():\n  check(%c){error=$StopIteration, template=None}\n  return", False)
    assert error.value.args == ()


def test_a_view_may_stand_ahead_of_the_check_of_its_place(capsys):
    text = """graph f(%x: f32[N, 2], %c: bool) -> f32[2]:
  %0: f32[2] = select(%x){axis=0, index=-1}
  print(){template=('before',)}
  check(%c){error=$IndexError, template='no place'}
  return %0"""
    with pytest.raises(IndexError, match="no place"):
        run(text, np.zeros((0, 2), np.float32), False)
    assert capsys.readouterr().out == "before"
    assert run(text, np.ones((3, 2), np.float32), True)[0].tolist() == [1, 1]


def test_prints_keep_their_order(capsys):
    text = """graph f(%n: int) -> ():
  scan(%n){n_carries=0}:
    body(%k: int):
      print(%k){template=((0, '', '02d'), '\\n')}
      yield
  print(){template=('done\\n',)}
  return"""
    run(text, 3)
    assert capsys.readouterr().out == "00\n01\n02\ndone\n"


def test_commits_write_memory_and_values_keep_theirs():
    text = """graph f(%x: f32[N], %v: f32[N], %n: int) -> f32[N]:
  %0: f32[N] = flip(%v){axes=(0,)}
  commit(%0){target=0}
  commit(%n){target=2}
  %1: f32[N] = add(%x, %v)
  return %1"""
    x, committed = f32(1, 2, 3), []
    view = x[::-1]
    (result,) = run(text, x, view, 5, on_commit=lambda target, value: committed.append((target, value)))
    assert x.tolist() == [1, 2, 3]  # the flip of the flipped view
    assert result.tolist() == [4, 4, 4]
    assert committed == [(2, 5)]
    text = "graph f(%x: f32[N]) -> f32[N]:\n  %0: f32[N] = neg(%x)\n  commit(%0){target=0}\n  return %x"
    (old,) = run(text, x)
    assert (x.tolist(), old.tolist()) == ([-1, -2, -3], [1, 2, 3])
    with pytest.raises(InterpretError, match="a commit to input 0, and no `on_commit`"):
        run("graph f(%n: int) -> ():\n  commit(%n){target=0}\n  return", 1)


def test_outputs_are_fresh():
    text = "graph f(%x: f32[N, M]) -> (f32[N, M], f32[M, N], f32[M, N]):\n" \
           "  %0: f32[M, N] = permute(%x){axes=(1, 0)}\n  return %x, %0, %0"
    x = np.ones((2, 3), np.float32)
    arrays = [x, *run(text, x)]
    for i, a in enumerate(arrays):
        assert not any(np.may_share_memory(a, b) for b in arrays[:i])


def test_random_words_come_from_the_generator():
    from jitgrad import random

    text = """graph f(%seed: int, %offset: int) -> (f32[5], i64[3]):
  %u: f32[5] = random.uniform(%seed, %offset){shape=(5,), dtype=f32}
  %b: i64[3] = random.bits(%seed, %offset){shape=(3,)}
  return %u, %b"""
    u, b = run(text, 7, 1)
    assert (u == random.uniform(7, 1, (5,), dtypes.float32)).all()
    assert (b == random.bits(7, 1, (3,))).all()


def test_nesting_is_not_bounded_by_pythons_stack():
    c = Value(BOOL, "c")
    block = Block()
    for _ in range(2 * sys.getrecursionlimit()):
        block = Block((), [Node("if", (c,), {}, (), (block, Block()))])
    assert interpret(Graph(Block((c,), block.nodes)), [True]) == []


# --- numbers -------------------------------------------------------------------------------------------------------

BIG, SMALL = (1 << 63) - 1, -(1 << 63)
_ARITHMETIC = ["add", "sub", "mul", "floordiv", "mod", "truediv", "pow"]
_VALUES = [0, 1, -1, 7, -7, 3, BIG, SMALL, True, False, 2.5, -2.5, 0.0, -0.0, math.inf, -math.inf, 1e308]
_PYTHON = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "pow": "**"}


def _type(value):
    return {bool: BOOL, int: INT, float: FLOAT}[type(value)]


@pytest.mark.parametrize("op", _ARITHMETIC)
def test_checked_arithmetic_is_pythons(op):
    for a in _VALUES:
        for b in _VALUES:
            if op == "pow" and (abs(a) > 1e6 or abs(b) > 60 or (isinstance(b, int) and b < 0)):
                continue
            try:
                expected = eval(f"a {_PYTHON[op]} b")
            except ArithmeticError as error:
                expected = error
            if isinstance(expected, complex):
                continue
            type_ = FLOAT if isinstance(expected, float) else INT
            if not isinstance(expected, ArithmeticError) and type_ == INT and not SMALL <= expected <= BIG:
                expected = OverflowError(numbers.OVERFLOW)
            arguments = f"num.{op}", (a, b), {"checked": True}, type_
            if isinstance(expected, ArithmeticError):
                with pytest.raises(type(expected)) as error:
                    numbers.compute(*arguments)
                assert error.value.args == expected.args
            else:
                result = numbers.compute(*arguments)
                assert repr(result) == repr(int(expected) if isinstance(expected, bool) else expected), (op, a, b)


@pytest.mark.parametrize("op", [*_ARITHMETIC, "lshift", "rshift", "neg", "abs", "min", "max"])
def test_unchecked_arithmetic_is_total(op):
    for a in _VALUES:
        for b in _VALUES:
            if "shift" in op and (isinstance(a, float) or isinstance(b, float)):
                continue
            type_ = FLOAT if op == "truediv" or isinstance(a, float) or isinstance(b, float) else INT
            if op in ("neg", "abs"):
                result = numbers.compute(f"num.{op}", (a,), {}, FLOAT if isinstance(a, float) else INT)
            else:
                result = numbers.compute(f"num.{op}", (a, b), {}, type_)
                assert type(result) is (float if type_ == FLOAT else int)
            assert isinstance(result, float) or SMALL <= result <= BIG


def test_unchecked_cases():
    def compute(op, *args, type=INT, **attrs):
        return numbers.compute(op, args, attrs, type)

    assert compute("num.add", BIG, 1) == SMALL
    assert compute("num.mul", BIG, 2) == -2
    assert compute("num.neg", SMALL) == SMALL
    assert compute("num.pow", 3, 41) == numbers.wrap(3**41)
    assert compute("num.pow", 3, 40) == numbers.wrap(3**40)
    assert compute("num.floordiv", 5, 0) == 0
    assert compute("num.mod", 5, 0) == 0
    assert compute("num.lshift", 1, 64) == 0
    assert compute("num.truediv", 1, 0, type=FLOAT) == math.inf
    assert compute("num.truediv", 1.0, -0.0, type=FLOAT) == -math.inf
    assert compute("num.cast", math.inf, to="int") == BIG
    assert compute("num.cast", math.nan, to="int") == 0
    assert compute("num.math", -1.0, fn="sqrt", type=FLOAT) != compute("num.math", -1.0, fn="sqrt", type=FLOAT)
    assert compute("num.math", 0.0, fn="log", type=FLOAT) == -math.inf
    assert compute("num.math", 1e9, fn="exp", type=FLOAT) == math.inf
    assert compute("num.math", 2.5, fn="round") == 2
    assert compute("num.math", 3.5, fn="round") == 4
    assert compute("num.and", True, False, type=BOOL) is False
    assert compute("num.and", 6, True) == 0
    assert compute("num.invert", True) == -2
    assert compute("num.not", 0, type=BOOL) is True
    assert compute("num.eq", 2**53 + 1, float(2**53), type=BOOL) is False


def test_checked_cases():
    def compute(op, *args, type=INT, **attrs):
        return numbers.compute(op, args, {"checked": True, **attrs}, type)

    with pytest.raises(ValueError, match=r"math domain error|expected a"):
        compute("num.math", -1.0, fn="sqrt", type=FLOAT)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        compute("num.cast", math.nan, to="int")
    with pytest.raises(OverflowError, match="cannot convert float infinity to integer"):
        compute("num.cast", math.inf, to="int")
    with pytest.raises(OverflowError, match=numbers.OVERFLOW):
        compute("num.cast", 1e30, to="int")
    with pytest.raises(OverflowError, match=numbers.OVERFLOW):
        compute("num.abs", SMALL)
    with pytest.raises(ValueError, match="negative shift count"):
        compute("num.lshift", 1, -1)


def test_numbers_of_a_kind_known_at_run_time():
    text = """graph f(%c: bool, %i: int, %x: float) -> number:
  %a: number = num.cast(%i){to='number'}
  %b: number = num.cast(%x){to='number'}
  %n: number = num.select(%c, %a, %b)
  %two: int = num.const(){value=2}
  %r: number = num.floordiv(%n, %two){checked=True}
  return %r"""
    assert repr(run(text, True, 1, 2.5)) == "[0]"
    assert repr(run(text, False, 1, 2.5)) == "[1.0]"



def test_tensors_in_messages_are_formatted_as_eager_formats_them():
    pytest.importorskip("jitgrad.eager.tensor")
    import jitgrad

    x = f32(1, 2)
    with pytest.raises(ValueError, match="bad") as error:
        run("graph f(%c: bool, %x: f32[N]) -> ():\n  check(%c, %x){error=$ValueError, template=('bad ', (0, '', ''))}\n"
            "  return", False, x)
    assert str(error.value) == f"bad {jitgrad.from_numpy(x)}"


def test_float16_composites_compute_in_float32():
    text = "graph f(%x: f16[N]) -> f16[N]:\n  %0: f16[N] = sigmoid(%x)\n  return %0"
    x = np.linspace(-5, 5, 11).astype(np.float16)
    expected = (1 / (1 + np.exp(-x.astype(np.float32)))).astype(np.float16)
    assert (run(text, x)[0] == expected).all()
