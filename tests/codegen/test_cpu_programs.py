"""Native programs against the interpreter: control flow, numbers, effects, exceptions, memory, threads, storage."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.run.compile import Compiled, compile
from jitgrad.errors import Span
from jitgrad.ops.opdef import OPS
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Value
from jitgrad.script.graph.parse import parse
from jitgrad.script.passes import pipeline
from tests.codegen.programs import agree, agree_in_gradients, assert_same, duplicate, graph, sizes, tensor
from tests.script.graphs import random_graph

f32, f64 = dtypes.float32, dtypes.float64


def numbers_graph(types, body):
    """A graph over numbers; `body(builder, *values)` gives the results."""
    builder = Builder()
    builder.block.params = tuple(Value(t, f"n{i}") for i, t in enumerate(types))
    results = body(builder, *builder.block.params)
    builder.block.results = results if isinstance(results, tuple) else (results,)
    return Graph(builder.block, "f")


def outcome(run):
    """A result, or the exception's type and text."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


# --- random programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed):
    case = random_graph(seed)
    agree(case.graph, case.inputs, 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_float32(seed):
    case = random_graph(seed, dtype=f32)
    agree(case.graph, case.inputs, 2e-4)


@pytest.mark.parametrize("seed", range(100, 115))
def test_random_gradients(seed):
    """Residuals, sequences among them, go from one native function to the other."""
    agree_in_gradients(random_graph(seed), compile, 2)


# --- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 17, 33, 130])
@pytest.mark.parametrize("m", [0, 3, 16, 19])
def test_one_program_for_all_sizes(n, m):
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s).astype("f") for s in ((n, m), (m, 5), (5,))]
    N, M, K = sizes("N M K")
    if "linear" not in _shared:
        _shared["linear"] = compile({"f": pipeline.run(graph(
            lambda F, x, w, b: (F.tanh(F.add(F.matmul(x, w), b)), F.sum(x, axes=(0,), keepdim=False),
                                F.sum(x, axes=(1,), keepdim=True), F.sum(x, axes=(0, 1), keepdim=False)),
            tensor(N, M), tensor(M, K), tensor(K)))})
    x, w, b = given
    expected = [np.tanh(x @ w + b), x.sum(0), x.sum(1, keepdims=True), x.sum()]
    for a, e in zip(_shared["linear"]["f"](given), expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)
        assert a.shape == np.shape(e)


_shared: dict = {}


def test_strided_inputs_and_outputs_do_not_alias():
    N, M = sizes("N M")
    c = agree(graph(lambda F, x: (F.permute(x, axes=(1, 0)), x, F.mul(x, 2.0)), tensor(N, M)),
              [np.arange(12, dtype="f").reshape(3, 4)])
    strided = np.arange(24, dtype="f").reshape(4, 6)[:, ::2].T
    transposed, same, twice = c["f"]([strided])
    np.testing.assert_array_equal(transposed, strided.T)
    np.testing.assert_array_equal(twice, 2 * strided)
    same[...] = -1
    assert strided[0, 0] == 0


@pytest.mark.parametrize("d", dtypes.REALS, ids=lambda d: d.name)
def test_every_dtype_travels(d):
    N, = sizes("N")
    x = np.array([0, 1, 3, 100, 0], d.np)
    g = graph(lambda F, x: (F.cast(x, dtype=f64), F.cast(F.cast(x, dtype=f64), dtype=d), F.ne(x, x),
                            F.amax(F.cast(x, dtype=f32), axes=(0,), keepdim=False)), tensor(N, dtype=d))
    agree(g, [x], 0)


@pytest.mark.parametrize("d", [dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, f64], ids=lambda d: d.name)
def test_matrix_products_of_every_dtype(d):
    N, M, B = sizes("N M B")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 3, 4)).astype(d.np), rng.integers(-3, 4, (4, 3)).astype(d.np)
    g = graph(lambda F, x, y: (F.matmul(x, y), F.matmul(F.permute(x, axes=(0, 2, 1)), F.permute(y, axes=(1, 0)))),
              tensor(B, N, M, dtype=d), tensor(M, N, dtype=d))
    assert agree(g, [a, b], 0)


# --- numbers -------------------------------------------------------------------------------------------------------

BINARY = ["num.add", "num.sub", "num.mul", "num.floordiv", "num.mod", "num.pow", "num.truediv", "num.min", "num.max",
          "num.eq", "num.lt", "num.ge"]
VALUES = [0, 1, -1, 7, -3, 2**62, -(2**63), 0.0, -0.0, 2.5, -1.5, float("inf"), float("nan"), True]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("op", BINARY)
def test_number_ops(op, checked):
    """Every pair of kinds, statically typed and as Numbers, with exceptions."""
    attrs = {"checked": True} if checked and op[4:] in ("add", "sub", "mul", "floordiv", "mod", "pow") else {}
    kind = {bool: BOOL, int: INT, float: FLOAT}
    programs = {}
    for a in VALUES:
        for b in VALUES:
            for types in ((kind[type(a)], kind[type(b)]), (NUMBER, NUMBER)):
                if types not in programs:
                    g = numbers_graph(types, lambda bld, x, y: bld.one(op, x, y, **attrs))
                    programs[types] = g, compile({"f": g})["f"]
                g, native = programs[types]
                if op == "num.pow" and (b < 0 or b > 9 or (a < 0 and isinstance(b, float))):
                    continue  # a float or complex in Python
                expected = outcome(lambda g=g, a=a, b=b: interpret(g, [a, b]))
                actual = outcome(lambda native=native, a=a, b=b: native([a, b]))
                if op == "num.pow" and isinstance(actual, list) and isinstance(actual[0], float):
                    np.testing.assert_allclose(actual, expected, rtol=1e-15)  # Python's `**` is C's, not NumPy's
                else:
                    assert repr(actual) == repr(expected), (a, b, types)


@pytest.mark.parametrize("fn", ["floor", "ceil", "trunc", "round", "isnan", "sqrt", "exp", "log", "sin", "erf"])
def test_math_functions(fn):
    for checked in (False, True):
        attrs = {"checked": True} if checked else {}
        g = numbers_graph([FLOAT], lambda b, x, attrs=attrs: b.one("num.math", x, fn=fn, **attrs))
        native = compile({"f": g})["f"]
        for x in (0.0, 0.5, 2.5, -1.5, 1e300, float("inf"), float("nan")):
            if not checked and abs(x) > 1e299:
                continue  # out of range: total, but not specified
            expected = outcome(lambda g=g, x=x: interpret(g, [x]))
            assert repr(outcome(lambda native=native, x=x: native([x]))) == repr(expected), (x, checked)


def test_bits_casts_and_selection():
    def body(b, i, x, flag):
        two = b.one("num.const", value=2)
        return (b.one("num.lshift", i, two), b.one("num.rshift", i, two), b.one("num.xor", i, two),
                b.one("num.invert", i), b.one("num.cast", x, to="int"), b.one("num.cast", i, to="bool"),
                b.one("num.cast", x, to="number"), b.one("num.select", flag, i, two), b.one("num.not", x),
                b.one("num.neg", i), b.one("num.abs", x), b.one("num.and", flag, flag))
    g = numbers_graph([INT, FLOAT, BOOL], body)
    for inputs in ([5, 2.7, True], [-9, float("nan"), False], [0, -1e30, True]):
        agree(g, inputs, passes=False)


# --- effects -------------------------------------------------------------------------------------------------------


def test_check_raises_with_values_and_line():
    N, = sizes("N")
    span = Span(__file__, 10, 1, 10, 5)

    def body(F, x, i):
        with_span = F.builder
        with_span.span = span
        total = F.sum(x, axes=(0,), keepdim=False)
        good = with_span.one("num.lt", with_span.one("item", total.value), with_span.one("num.const", value=10.0))
        with_span.emit("check", (good, i), types=(), error=ValueError, template=("too large at ", (0, "", "03d")))
        return F.mul(x, 2.0)

    compiled = agree(graph(body, tensor(N), INT), [np.ones(4, "f"), 7])
    for program in (compiled, Compiled.from_bytes(compiled.to_bytes())):
        with pytest.raises(ValueError, match="too large at 007") as raised:
            program["f"]([np.full(4, 5, "f"), 7])
        assert str(raised.value) == "too large at 007"
        assert raised.value.span == span
        assert str(span) in raised.value.__notes__[0]
        np.testing.assert_array_equal(program["f"]([np.ones(4, "f"), 7])[0], np.full(4, 2, "f"))


def test_a_local_exception_class_is_not_storable():
    class Local(Exception):
        pass

    def body(b, c):
        b.emit("check", (c,), types=(), error=Local, template=None)
        return c

    compiled = compile({"f": numbers_graph([BOOL], body)})
    assert not compiled.storable
    with pytest.raises(Local):
        compiled["f"]([False])


def test_prints_keep_their_order(capsys):
    def body(b, n):
        one = b.one("num.const", value=1)
        k = Value(INT, "k")
        inner = Block((k,))
        with b.into(inner):
            b.emit("print", (k,), types=(), template=("step ", (0, "", ""), "\n"))
        b.emit("print", (n, one), types=(), template=("n = ", (0, "r", ">4"), "\n"))
        b.emit("scan", (n,), blocks=(inner,), types=(), n_carries=0, reverse=True)
        return n

    compile({"f": numbers_graph([INT], body)})["f"]([3])
    assert capsys.readouterr().out == "n =    3\nstep 2\nstep 1\nstep 0\n"


def test_commits_write_memory_and_slots():
    N, M = sizes("N M")

    def body(F, p, q, count):
        b = F.builder
        new = F.sub(p, F.mul(F.permute(q, axes=(1, 0)), 0.5))
        b.emit("commit", (new.value,), types=(), target=0)
        b.emit("commit", (b.one("num.add", count, b.one("num.const", value=1)),), types=(), target=2)
        return F.sum(p, axes=(0, 1), keepdim=False), F.mul(p, 3.0)

    g = graph(body, tensor(N, M), tensor(M, N), INT)
    native = compile({"f": pipeline.run(g)})["f"]
    for order in ("C", "F"):
        p, q = np.arange(6, dtype="f").reshape(2, 3), np.ones((3, 2), "f")
        given = [np.asarray(p.copy(), order=order), q, 41]
        commits = []
        total, three = native(given, lambda k, v, commits=commits: commits.append((k, v)))
        np.testing.assert_array_equal(given[0], p - 0.5)
        np.testing.assert_array_equal(three, 3 * p)
        assert total == 15
        assert commits == [(2, 42)]


def test_a_commit_of_an_own_view_and_reads_after_it():
    N, = sizes("N")

    def body(F, x):
        before = F.mul(x, 2.0)
        F.builder.emit("commit", (F.permute(x, axes=(1, 0)).value,), types=(), target=0)
        return before, F.add(x, 1.0)

    agree(graph(body, tensor(N, N)), [np.arange(9, dtype="f").reshape(3, 3)])


def test_commits_before_an_exception_are_done():
    def body(b, count, good):
        b.emit("commit", (b.one("num.const", value=5),), types=(), target=0)
        b.emit("check", (good,), types=(), error=RuntimeError, template=("stop",))
        b.emit("commit", (b.one("num.const", value=6),), types=(), target=0)
        return count

    native = compile({"f": numbers_graph([INT, BOOL], body)})["f"]
    seen = []
    with pytest.raises(RuntimeError, match="stop"):
        native([0, False], lambda k, v: seen.append((k, v)))
    assert seen == [(0, 5)]
    native([0, True], lambda k, v: seen.append((k, v)))
    assert seen == [(0, 5), (0, 6)]


def test_optionals_in_and_out():
    N, = sizes("N")
    optional = OptionalType(tensor(N))

    def body(b, o, n):
        (has,) = b.emit("opt.has", (o,))
        then, otherwise = Block(), Block()
        with b.into(then):
            (x,) = b.emit("opt.get", (o,))
            (y,) = b.emit("mul", (x, x))
            then.results = b.emit("opt.some", (y,))
        with b.into(otherwise):
            otherwise.results = b.emit("opt.none", (), type=optional.elem, types=(optional,))
        (r,) = b.emit("if", (has,), blocks=(then, otherwise), types=(optional,))
        (s,) = b.emit("opt.some", (n,))
        return r, s, o

    g = numbers_graph([optional, NUMBER], body)
    g.block.binds = (optional.elem.dims[0].symbol,)
    native = compile({"f": g})["f"]
    r, s, o = native([np.array([2, 3], "f"), 2.5])
    np.testing.assert_array_equal(r, [4, 9])
    np.testing.assert_array_equal(o, [2, 3])
    assert s == 2.5
    assert native([None, 3]) == [None, 3, None]


def test_an_optional_result_is_computed_in_an_array_of_its_own():
    """What it holds where it holds something is a tensor of known size: nothing is copied out of the workspace."""
    N, = sizes("N")
    optional = OptionalType(tensor(N, N))

    def body(b, x, flag):
        (y,) = b.emit("matmul", (x, x))
        (zero,) = b.emit("full", (), value=0, shape=(), dtype=tensor(N).dtype)
        (z,) = b.emit("add", (y, zero))
        then, otherwise = Block(), Block()
        with b.into(then):
            then.results = b.emit("opt.some", (z,))
        with b.into(otherwise):
            otherwise.results = b.emit("opt.none", (), type=optional.elem, types=(optional,))
        (r,) = b.emit("if", (flag,), blocks=(then, otherwise), types=(optional,))
        return r, z, r, flag

    compiled = compile({"f": numbers_graph([tensor(N, N), BOOL], body)})
    assert [o.shape is not None for o in compiled.faces[0].outputs] == [True, True, True, False]
    x = np.arange(9, dtype="f").reshape(3, 3)
    for there in (True, False, True):
        r, z, again, flag = compiled["f"]([x, there])
        np.testing.assert_array_equal(z, x @ x)
        assert flag is there
        assert (r is None, again is None) == (not there, not there)
        if there:
            np.testing.assert_array_equal(r, z)
            np.testing.assert_array_equal(again, z)
            assert not any(np.shares_memory(a, b) for a, b in ((r, z), (r, again), (z, again)))


def test_sequences_from_lists_and_back():
    N, = sizes("N")
    types = [SeqType(tensor(N, dtype=f64)), SeqType(OptionalType(FLOAT)), SeqType(SeqType(INT))]
    g = numbers_graph(types, lambda b, *s: s)
    inputs = [[np.arange(3.0), np.zeros(0)], [1.5, None], [[1, 2], []]]
    outputs = compile({"f": g})["f"](inputs)
    for a, e in zip(outputs, inputs, strict=True):
        assert_same(a, e, 0)
    assert [len(s) for s in outputs] == [2, 2, 2]


# --- the run ---------------------------------------------------------------------------------------------------------


def spin_graph():
    """`while True`."""
    def body(b, going):
        k = Value(INT, "k")
        inner = Block((k,))
        with b.into(inner):
            inner.results = (going, b.one("num.add", k, b.one("num.const", value=1)))
        b.emit("while", (going, b.one("num.const", value=0)), blocks=(inner,), types=(INT, INT))
        return going
    return numbers_graph([BOOL], body)


def test_interrupt_leaves_a_native_loop():
    native = compile({"f": spin_graph()})["f"]
    assert native([False]) == [False]
    before = signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(KeyboardInterrupt("from the handler")))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt, match="from the handler"):
            native([True])
        assert time.perf_counter() - start < 5  # a hang, not a timing
    finally:
        signal.signal(signal.SIGALRM, before)
    assert native([False]) == [False]


def test_failed_allocation_is_memory_error():
    N, = sizes("N")
    g = graph(lambda F, x: F.sum(F.matmul(F.expand(F.reshape(x, shape=(N, 1)), shape=(N, N * N * N)),
                                          F.expand(F.reshape(x, shape=(1, N)), shape=(N * N * N, N))),
                                 axes=(0, 1), keepdim=False), tensor(N))
    native = compile({"f": g})["f"]
    with pytest.raises(MemoryError):
        native([np.ones(20000, "f")])
    np.testing.assert_allclose(native([np.ones(3, "f")])[0], 3 * 27 * 3, rtol=1e-6)


def test_threads_share_a_program():
    N, = sizes("N")
    native = compile({"f": pipeline.run(graph(lambda F, x: F.matmul(F.tanh(x), F.exp(x)), tensor(N, N)))})["f"]
    failures = []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=(seed + 3, seed + 3)).astype("f")
        expected = np.tanh(x) @ np.exp(x)
        for _ in range(200):
            if not np.allclose(native([x])[0], expected, rtol=1e-4, atol=1e-4):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_stored_programs_run_again():
    case = random_graph(3)
    g = pipeline.run(case.graph)
    compiled = compile({"f": g})
    again = Compiled.from_bytes(compiled.to_bytes())
    for a, e in zip(again["f"](duplicate(case.inputs)), interpret(g, duplicate(case.inputs)), strict=True):
        assert_same(a, e, 1e-9)
    assert again.kernels == compiled.kernels


def test_a_module_that_allocates_for_sequences_only():
    """Everything has one element, so nothing else reserves memory."""
    scan = parse("""graph f(%x: f32[1], %n: int) -> f32[1]:
  %h: f32[1] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[1]):
      %0: f32[1] = mul(%p, %p)
      yield %0
  return %h""")
    d = differentiate(scan, (0,), (0,))
    programs = compile({"forward": pipeline.run(d.forward), "backward": pipeline.run(d.backward((True,)))})
    _, *residuals = programs["forward"]([np.array([1.5], np.float32), 3])
    gradient = programs["backward"]([*residuals, np.ones(1, np.float32)])[0]
    np.testing.assert_allclose(gradient, 8 * 1.5 ** 7)


# --- sizes that may be one --------------------------------------------------------------------------------------------


def test_sum_to_of_undecidable_sizes(monkeypatch):
    """NumPy is asked only where something was really repeated."""
    g = parse("""graph f(%x: f64[N, bcast(M, K)], %y: f64[M], %z: f64[K]) -> (f64[N, M], f64[N, K], f64[M]):
  %0: f64[N, bcast(M, K)] = exp(%x)
  %1: f64[N, M] = sum_to(%0){shape=(N, M)}
  %2: f64[N, K] = sum_to(%x){shape=(N, K)}
  %3: f64[M] = sum_to(%x){shape=(M)}
  return %1, %2, %3""")
    asked = []
    row = OPS["sum_to"]
    monkeypatch.setitem(OPS, "sum_to", replace(row, impl=lambda *a, **k: asked.append(0) or row.impl(*a, **k)))
    compiled = compile({"f": g})["f"]
    for m, k, calls in ((4, 4, 1), (4, 1, 2), (1, 4, 2), (1, 1, 1)):
        inputs = [np.random.default_rng(0).normal(size=s) for s in ((3, max(m, k)), (m,), (k,))]
        expected = interpret(g, inputs)
        asked.clear()
        got = compiled(inputs)
        assert len(asked) == calls
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
