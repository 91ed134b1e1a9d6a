"""Every rewrite row fires on its example, and both sides compute the same bits."""

# ruff: noqa: E501  (a table)

from collections import Counter

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.text import to_text
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.canonicalize import canonicalize
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.rules.rules import RULES

HEAD = "graph f(%x: f32[N, 4], %y: f32[N, 4], %i: i32[N, 4], %c: b8[N, 4], %b: bool, %n: int, %a: float, %row: f32[4], " \
       "%s: seq<f32[4]>, %o: optional<f32[4]>)"


def full(name, value, shape="", dtype="f32"):
    """A constant: `shape` as in a type."""
    return f"  %{name}: {dtype}[{shape}] = full(){{value={value}, shape=({shape}{',' if shape else ''}), dtype={dtype}}}\n"


def const(name, value, kind="int"):
    return f"  %{name}: {kind} = num.const(){{value={value}}}\n"


T = "f32[N, 4]"
CASES = {
    "mul_one": [(full("k", 1) + f"  %r: {T} = mul(%x, %k)", "x"), (full("k", 1.0) + f"  %r: {T} = mul(%k, %x)", "x")],
    "mul_minus_one": [(full("k", -1) + f"  %r: {T} = mul(%x, %k)", "neg"), (full("k", -1.0) + f"  %r: {T} = div(%x, %k)", "neg")],
    "right_one": [(full("k", 1) + f"  %r: {T} = div(%x, %k)", "x"), (full("k", 1) + f"  %r: {T} = pow(%x, %k)", "x")],
    "div_power_of_two": [(full("k", 8) + f"  %r: {T} = div(%x, %k)", "full mul"),
                         (full("k", -0.25) + f"  %r: {T} = div(%x, %k)", "full mul")],
    "add_zero": [(full("k", 0, "", "i32") + "  %r: i32[N, 4] = add(%k, %i)", "i"), (full("k", -0.0) + f"  %r: {T} = add(%x, %k)", "x"),
                 (full("k", 0.0) + f"  %r: {T} = sub(%x, %k)", "x"), (full("k", 0, "", "i32") + "  %r: i32[N, 4] = sub(%i, %k)", "i")],
    "small_power": [(full("k", 2) + f"  %r: {T} = pow(%x, %k)", "mul"), (full("k", -1) + f"  %r: {T} = pow(%x, %k)", "full div"),
                    (full("k", 2, "", "i32") + "  %r: i32[N, 4] = pow(%i, %k)", "mul")],
    "twice": [(f"  %1: {T} = neg(%x)\n  %r: {T} = neg(%1)", "x"), (f"  %1: {T} = relu(%x)\n  %r: {T} = relu(%1)", "relu"),
              (f"  %1: {T} = flip(%x){{axes=(0,)}}\n  %r: {T} = flip(%1){{axes=(0,)}}", "x")],
    "exp_of_log_softmax": [(
        f"  %0: f32[N, 1] = amax(%x){{axes=(1,), keepdim=True}}\n  %z: {T} = sub(%x, %0)\n  %e: {T} = exp(%z)\n"
        "  %t: f32[N, 1] = sum(%e){axes=(1,), keepdim=True}\n  %l: f32[N, 1] = log(%t)\n"
        f"  %1: {T} = sub(%z, %l)\n  %r: {T} = exp(%1)", "amax sub exp sum full div mul")],
    "abs_of_neg": [(f"  %1: {T} = neg(%x)\n  %r: {T} = abs(%1)", "abs")],
    "add_neg": [(f"  %1: {T} = neg(%x)\n  %r: {T} = add(%1, %y)", "sub"), (f"  %1: {T} = neg(%x)\n  %r: {T} = add(%y, %1)", "sub")],
    "sub_neg": [(f"  %1: {T} = neg(%x)\n  %r: {T} = sub(%y, %1)", "add")],
    "neg_times_neg": [(f"  %1: {T} = neg(%x)\n  %2: {T} = neg(%y)\n  %r: {T} = mul(%1, %2)", "mul"),
                      (f"  %1: {T} = neg(%x)\n  %2: {T} = neg(%y)\n  %r: {T} = div(%1, %2)", "div")],
    "where_constant": [(full("k", "True", "", "b8") + f"  %r: {T} = where(%k, %x, %y)", "x"),
                       (full("k", "False", "N, 4", "b8") + f"  %r: {T} = where(%k, %x, %y)", "y")],
    "where_same": [(f"  %r: {T} = where(%c, %x, %x)", "x")],
    "where_not": [(f"  %1: b8[N, 4] = logical_not(%c)\n  %r: {T} = where(%1, %x, %y)", "where")],
    "not_of": [("  %1: b8[N, 4] = logical_not(%c)\n  %r: b8[N, 4] = logical_not(%1)", "c"),
               ("  %1: b8[N, 4] = eq(%x, %y)\n  %r: b8[N, 4] = logical_not(%1)", "ne")],
    "with_constant": [(full("k", "True", "", "b8") + "  %r: b8[N, 4] = logical_and(%c, %k)", "c"),
                      (full("k", "False", "", "b8") + "  %r: b8[N, 4] = logical_or(%k, %c)", "c")],
    "cast_same": [(f"  %r: {T} = cast(%x){{dtype=f32}}", "x")],
    "cast_of_cast": [(f"  %1: f64[N, 4] = cast(%x){{dtype=f64}}\n  %r: {T} = cast(%1){{dtype=f32}}", "x"),
                     ("  %1: f64[N, 4] = cast(%i){dtype=f64}\n  %r: i64[N, 4] = cast(%1){dtype=i64}", "cast"),
                     ("  %1: i32[N, 4] = cast(%c){dtype=i32}\n  %r: f32[N, 4] = cast(%1){dtype=f32}", "cast")],
    "repeated_operand": [(f"  %1: {T} = expand(%row){{shape=(N, 4)}}\n  %r: {T} = add(%x, %1)", "add"),
                         (full("k", 3, "N, 4") + f"  %r: {T} = maximum(%x, %k)", "full maximum")],
    "view_of_constant": [(full("k", 3, "N, 4") + "  %r: f32[4, N] = permute(%k){axes=(1, 0)}", "full"),
                         (full("k", 3, "N, 4") + "  %r: f32[4] = select(%k){axis=0, index=0}", "full")],
    "to_same_shape": [(f"  %r: {T} = reshape(%x){{shape=(N, 4)}}", "x"), (f"  %r: {T} = expand(%x){{shape=(N, 4)}}", "x"),
                      (f"  %r: {T} = sum_to(%x){{shape=(N, 4)}}", "x")],
    "merge_same": [("  %1: f32[4*N] = reshape(%x){shape=(4*N,)}\n  %r: f32[N, 2, 2] = reshape(%1){shape=(N, 2, 2)}", "reshape"),
                   (f"  %1: {T} = expand(%row){{shape=(N, 4)}}\n  %r: f32[2, N, 4] = expand(%1){{shape=(2, N, 4)}}", "expand")],
    "reshape_of_axis": [("  %1: f32[N, 1, 4] = unsqueeze(%x){axis=1}\n  %r: f32[4*N] = reshape(%1){shape=(4*N,)}", "reshape")],
    "permute_identity": [(f"  %r: {T} = permute(%x){{axes=(0, 1)}}", "x")],
    "permute_of_permute": [(f"  %1: f32[4, N] = permute(%x){{axes=(1, 0)}}\n  %r: {T} = permute(%1){{axes=(1, 0)}}", "x")],
    "squeeze_of_unsqueeze": [(f"  %1: f32[N, 1, 4] = unsqueeze(%x){{axis=1}}\n  %r: {T} = squeeze(%1){{axis=1}}", "x")],
    "whole_slice": [(f"  %r: {T} = slice(%x){{axis=0, start=0, length=N, step=1}}", "x"),
                    (f"  %r: {T} = slice_scatter(%x, %y){{axis=0, start=0, length=N, step=1}}", "overwrite")],
    "read_after_write": [(f"  %1: {T} = select_scatter(%x, %row){{axis=0, index=1}}\n  %r: f32[4] = select(%1){{axis=0, index=1}}", "row"),
                         (f"  %p: f32[1, 4] = slice(%y){{axis=0, start=0, length=1, step=1}}\n"
                          f"  %1: {T} = slice_scatter(%x, %p){{axis=0, start=1, length=1, step=1}}\n"
                          f"  %r: f32[1, 4] = slice(%1){{axis=0, start=1, length=1, step=1}}", "slice")],
    "accumulate_in_place": [
        (full("k", 0, "N, 4") + f"  %1: {T} = select_add(%k, %row){{axis=0, index=1}}\n  %r: {T} = add(%x, %1)", "select_add"),
        (full("k", 0.0, "N, 4") + f"  %p: f32[N, 1] = slice(%y){{axis=1, start=0, length=1, step=1}}\n"
         f"  %1: {T} = slice_add(%k, %p){{axis=1, start=2, length=1, step=1}}\n  %r: {T} = add(%1, %x)", "slice slice_add"),
        (full("k", 0.0, "N, 4") + "  %j: i64[2] = arange(){length=2, dtype=i64}\n"
         "  %p: f32[2, 4] = slice(%y){axis=0, start=0, length=2, step=1}\n"
         f"  %1: {T} = index_put(%k, %p, %j){{axes=(0,), accumulate=True}}\n  %r: {T} = add(%x, %1)", "arange slice index_put")],
    "reduce_nothing": [(f"  %r: {T} = sum(%x){{axes=(), keepdim=False}}", "x"),
                       (f"  %1: f32[N, 1, 4] = unsqueeze(%x){{axis=1}}\n  %r: {T} = amax(%1){{axes=(1,), keepdim=False}}", "x")],
    "sum_to_sum": [("  %r: f32[4] = sum_to(%x){shape=(4,)}", "sum"), ("  %r: f32[N, 1] = sum_to(%x){shape=(N, 1)}", "sum reshape")],
    "fill_constant": [(const("k", 2.5, "float") + f"  %r: {T} = fill(%k){{shape=(N, 4), dtype=f32}}", "full")],
    "item_of_constant": [(full("k", 0.1) + "  %r: float = item(%k)", "num.const")],
    "item_of_fill": [("  %1: f64[] = fill(%a){shape=(), dtype=f64}\n  %r: float = item(%1)", "a")],
    "item_of_shape": [("  %0: f32[] = sum(%x){axes=(0, 1), keepdim=False}\n  %1: f32[1, 1] = reshape(%0){shape=(1, 1)}\n"
                       "  %r: float = item(%1)", "sum item")],
    "int_identity": [(const("k", 0) + "  %r: int = num.add(%k, %n){checked=True}", "n"), (const("k", 1) + "  %r: int = num.floordiv(%n, %k)", "n")],
    "float_one": [(const("k", 1) + "  %r: float = num.mul(%a, %k)", "a"), (const("k", 1.0, "float") + "  %r: float = num.truediv(%a, %k)", "a")],
    "num_not": [("  %1: bool = num.not(%b)\n  %r: bool = num.not(%1)", "b")],
    "num_logic": [(const("k", "True", "bool") + "  %r: bool = num.and(%b, %k)", "b"),
                  (const("k", "True", "bool") + "  %r: bool = num.or(%b, %k)", "num.const"), ("  %r: bool = num.and(%b, %b)", "b")],
    "num_cast": [("  %r: int = num.cast(%n){to='int'}", "n")],
    "num_select": [(const("k", "True", "bool") + "  %r: int = num.select(%k, %n, %n)", "n"),
                   (const("k", "True", "bool") + const("l", "False", "bool") + "  %r: bool = num.select(%b, %k, %l)", "b")],
    "known_size": [("  %r: int = dim.value(){dim=7}", "num.const")],
    "bind_known": [("  %1: int = dim.value(){dim=2*N}\n  %2: int = dim.bind(%1){symbol=@M} binds M\n"
                    "  %r: f32[M, 2] = reshape(%x){shape=(M, 2)}", "reshape")],
    "size_arithmetic": [("  %1: int = dim.value(){dim=2*N}\n" + const("k", 3) + "  %r: int = num.sub(%k, %1){checked=True}", "dim.value"),
                        ("  %1: int = dim.value(){dim=2*N}\n  %2: int = dim.value(){dim=N}\n  %r: int = num.mul(%1, %2)", "dim.value")],
    "compare_sizes": [("  %1: int = dim.value(){dim=2*N}\n  %2: int = dim.value(){dim=2*N + 1}\n  %r: bool = num.lt(%1, %2)", "num.const"),
                      ("  %1: int = dim.value(){dim=N}\n" + const("k", 0) + "  %r: bool = num.ge(%1, %k)", "num.const")],
    "has_known": [("  %1: optional<int> = opt.some(%n)\n  %r: bool = opt.has(%1)", "num.const"),
                  ("  %1: optional<int> = opt.none(){type=int}\n  %r: bool = opt.has(%1)", "num.const")],
    "has_merged": [("""  %1: optional<int> = if(%b):
    then:
      %2: optional<int> = opt.none(){type=int}
      yield %2
    else:
      %3: optional<int> = opt.some(%n)
      yield %3
  %r: bool = opt.has(%1)""", "num.not")],
    "get_some": [("  %1: optional<int> = opt.some(%n)\n  %r: int = opt.get(%1)", "n")],
    "some_get": [("  %h: bool = opt.has(%o)\n  check(%h){error=$ValueError, template=None}\n  %1: f32[4] = opt.get(%o)\n"
                  "  %r: optional<f32[4]> = opt.some(%1)", "opt.has check o")],
    "length_of_loop": [("  %1: seq<int> = scan(%n){n_carries=0}:\n    body(%k: int):\n      yield %k\n  %r: int = seq.len(%1)",
                        "num.const num.max")],
    "max_of_size": [("  %1: int = dim.value(){dim=N}\n" + const("k", 0) + "  %r: int = num.max(%k, %1)", "dim.value")],
    "check_holds": [(const("k", "True", "bool") + "  check(%k){error=$ValueError, template=None}\n  %r: int = num.neg(%n)", "num.neg")],
}


def inputs(rng):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3.0, -2.5], np.float32)
    x = rng.standard_normal((5, 4)).astype(np.float32)
    x.flat[: special.size] = special
    return [x, rng.permuted(x), rng.integers(-9, 9, (5, 4)).astype(np.int32), rng.random((5, 4)) < 0.5,
            bool(rng.random() < 0.5), int(rng.integers(0, 9)), float(rng.standard_normal()),
            rng.standard_normal(4).astype(np.float32), [rng.standard_normal(4).astype(np.float32)],
            rng.standard_normal(4).astype(np.float32)]


#: rules on a sum that starts from +0.0, after which -0.0 is 0.0
SUMS = ("accumulate_in_place", "reduce_nothing")
#: rules that round otherwise
ROUNDED = ("exp_of_log_softmax",)


def same(a, b, signed_zeros=True):
    """Equal types, shapes and bits, but for the sign of a NaN."""
    if not isinstance(a, np.ndarray):
        return repr(a) == repr(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    equal = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return equal and (a.dtype.kind != "f" or not signed_zeros or bool(((np.signbit(a) == np.signbit(b)) | np.isnan(a)).all()))


@pytest.mark.parametrize(("name", "text", "left"), [(n, t, e) for n, cases in CASES.items() for t, e in cases])
def test_rule(name, text, left):
    last = text.rsplit("%r: ", 1)[1].split(" = ")[0]
    graph = verify(parse(f"{HEAD} -> {last}:\n{text}\n  return %r"))
    fired = Counter()
    simple = dce(canonicalize(graph, fired))
    verify(simple)
    assert fired[name]
    remaining = [n.op for n in simple.block.nodes]
    if simple.outputs[0] in simple.inputs:
        remaining.append(simple.outputs[0].name)
    assert remaining == left.split(), to_text(simple)
    rng = np.random.default_rng(0)
    for _ in range(4):
        values = inputs(rng)
        before, after = interpret(graph, values), interpret(simple, values)
        if name in ROUNDED:
            np.testing.assert_allclose(after[0], before[0], rtol=1e-6)
        else:
            assert same(before[0], after[0], name not in SUMS)


def test_every_rule_has_an_example():
    assert {name for rules in RULES.values() for name, _ in rules} == set(CASES)


@pytest.mark.parametrize("text", [
    full("k", 0) + f"  %r: {T} = mul(%x, %k)",
    full("k", 0.0) + f"  %r: {T} = add(%x, %k)",
    full("k", -0.0) + f"  %r: {T} = sub(%x, %k)",
    full("k", 3) + f"  %r: {T} = div(%x, %k)",
    full("k", 0.5) + f"  %r: {T} = pow(%x, %k)",
    f"  %r: {T} = sub(%x, %x)",
    f"  %e: {T} = exp(%x)\n  %t: f32[N, 1] = sum(%e){{axes=(1,), keepdim=True}}\n  %l: f32[N, 1] = log(%t)\n"
    f"  %1: {T} = sub(%x, %l)\n  %r: {T} = exp(%1)",  # may overflow
    f"  %r: {T} = div(%x, %x)",
    "  %1: b8[N, 4] = lt(%x, %y)\n  %r: b8[N, 4] = logical_not(%1)",
    "  %1: i32[N, 4] = cast(%x){dtype=i32}\n  %r: f32[N, 4] = cast(%1){dtype=f32}",
    "  %1: f16[N, 4] = cast(%x){dtype=f16}\n  %r: f32[N, 4] = cast(%1){dtype=f32}",
    "  %1: f32[N, 4] = cast(%i){dtype=f32}\n  %r: i32[N, 4] = cast(%1){dtype=i32}",
    "  %1: i32[N, 4] = logical_not(%i)\n  %r: i32[N, 4] = logical_not(%1)".replace("i32[N, 4] =", "b8[N, 4] =", 2),
    "  %1: f32[] = fill(%a){shape=(), dtype=f32}\n  %r: float = item(%1)",
    "  %0: f32[] = sum(%x){axes=(0, 1), keepdim=False}\n  %1: float = item(%0)\n  %r: f32[] = fill(%1){shape=(), dtype=f32}",
    "  %r: float = num.add(%a, %z)".replace("%z", "%a"),
])
def test_what_no_rule_may_touch(text):
    """Identities that are wrong for NaN, infinities, signed zeros or lost digits, or that would bridge an `item`."""
    last = text.rsplit("%r: ", 1)[1].split(" = ")[0]
    graph = parse(f"{HEAD} -> {last}:\n{text}\n  return %r")
    simple = dce(canonicalize(graph))
    assert [n.op for n in simple.block.nodes] == [n.op for n in graph.block.nodes]
