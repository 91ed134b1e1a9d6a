"""The table as a whole: nothing undocumented, undecided or untested; the names are those of docs/internals.md."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.opdef import POINTWISE, OpDef, register
from jitgrad.ops.saved import saved
from tests.ops.cases import DTYPES

NAMES = """
add sub mul div neg abs minimum maximum floor ceil round trunc fmod remainder floor_divide pow exp expm1 exp2 log log1p
log2 log10 sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma
polygamma sign fma eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
bitwise_not bitwise_left_shift bitwise_right_shift where cast
sigmoid relu silu gelu gelu_tanh softplus leaky_relu elu isnan isinf isfinite square reciprocal clamp
sum prod amax amin any all argmax argmin mean var logsumexp sum_to softmax log_softmax
reshape permute expand unsqueeze squeeze select slice flip diagonal select_scatter slice_scatter select_add slice_add
cat pad index index_put gather scatter scatter_add nonzero matmul full fill arange cumsum cumprod sort topk argsort
random.uniform random.bits
"""

TRAITS = {"commutative", "involution", "zero_preserving", "idempotent", "cheap", "exact", "passes"}


def test_canonical_names_are_there() -> None:
    assert set(NAMES.split()) <= set(OPS)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_row_is_complete(op: OpDef) -> None:
    assert re.fullmatch(r"\S.*[.)]", op.doc), "a doc is one sentence"
    assert op.spec is not None
    assert op.dtypes in DTYPES
    assert op.traits <= TRAITS
    assert op.vjp is not None or op.compose is not None
    assert op.samples is not None or op.kind is POINTWISE, "a row that is not pointwise needs samples"
    assert op.arity is None or op.arity < 2 or op.kind is not POINTWISE or op.check is not None


def test_a_row_needs_a_decision_and_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="needs a vjp"):
        register("test_undecided", 1, POINTWISE, "A row.", impl=lambda xp, x: x)
    with pytest.raises(ValueError, match="needs an impl"):
        register("test_undecided", 1, POINTWISE, "A row.", vjp=NONDIFF)
    with pytest.raises(ValueError, match="twice"):
        register("add", 2, POINTWISE, "A row.", impl=lambda xp, x: x, vjp=NONDIFF)


SAVED = {
    "add": "", "sub": "", "mul": "x0 x1", "div": "y x1", "neg": "", "exp": "y", "log": "x0", "sqrt": "y", "tanh": "y",
    "sigmoid": "y", "relu": "y", "gelu": "x0", "where": "x0", "minimum": "x0 x1", "sum": "", "mean": "", "amax": "y x0",
    "softmax": "y", "log_softmax": "y", "logsumexp": "y x0", "matmul": "x0 x1", "reshape": "", "select": "", "cat": "",
    "index": "x1", "gather": "x1", "cumsum": "", "sort": "y", "select_scatter": "", "cast": "", "floor": "", "eq": "",
    "softsign": "x0", "polygamma": "x0",
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_sets(name: str) -> None:
    s = saved(OPS[name])
    found = (["y"] if s.y else []) + [f"x{i}" for i, read in enumerate(s.xs) if read]
    assert " ".join(found) == SAVED[name]


def test_saved_for_needed_operands_only() -> None:
    assert saved(OPS["mul"], (True, False)).xs == (False, True)
    assert saved(OPS["matmul"], (False, True)).xs == (True, False)
    assert not saved(OPS["div"], (True, False)).y
    assert saved(OPS["sort"]).ys == (False, True), "the indices, not the values"


def test_importing_the_table_is_light() -> None:
    code = "import sys, jitgrad.ops; print([m for m in ('scipy', 'llvmlite', 'cupy', 'torch') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
