"""The table as a whole: nothing undocumented, undecided or untested; the names are those of docs/internals/ops.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import jitgrad
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.numbers import NUMBERS
from jitgrad.ops.opdef import POINTWISE, TRAITS, OpDef, register
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


def test_canonical_names_are_there() -> None:
    assert set(NAMES.split()) <= set(OPS)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_row_is_complete(op: OpDef) -> None:
    assert re.fullmatch(r"\S.*[.)]", op.doc), "a doc is one sentence"
    assert op.spec is not None
    assert op.dtypes in DTYPES
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
    with pytest.raises(ValueError, match="nobody reads: fast"):
        register("test_undecided", 1, POINTWISE, "A row.", impl=lambda xp, x: x, vjp=NONDIFF, traits={"fast"})


# --- facts about ops stand on their rows ---------------------------------------------------------------------------

PACKAGE = Path(jitgrad.__file__).parent
#: literals of three or more names of rows that are no facts about ops
NO_FACTS = {
    "onnx/table.py": "the names of ONNX's operators: a lowering to another vocabulary",
    "kernels/runtime.py": "functions of the run-time library that one routine makes",
    "script/inspect/pyexpr.py": "how calls of rows are written in Python: a table of texts",
}


@cache
def modules() -> dict[str, ast.Module]:
    return {p.relative_to(PACKAGE).as_posix(): ast.parse(p.read_text()) for p in PACKAGE.rglob("*.py")}


def names_in(node: ast.AST) -> list[str]:
    """The strings that a literal lists; those of a dict to code (functions, lambdas, calls) are a table of code."""
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
        parts = node.elts
    elif isinstance(node, ast.Dict) and any(_is_data(v) for v in node.values):
        parts = [k for k in node.keys if k is not None]
    else:
        return []
    return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]


def _is_data(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, (ast.Tuple, ast.List, ast.Dict)) and all(
        _is_data(n) for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)))


def lists_of_ops(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    exported = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    for node in ast.walk(tree):
        found = [name for name in names_in(node) if name in OPS or name in NUMBERS]
        if len(found) > 2 and node not in exported:
            yield node.lineno, found


def test_no_list_of_ops_outside_the_rows() -> None:
    found = {f"{path}:{line}": names for path, tree in modules().items()
             if not path.startswith("ops/") and path not in NO_FACTS for line, names in lists_of_ops(tree)}
    assert not found, "what is true of some ops is a trait or a field of their rows (jitgrad/ops/opdef.py)"


@pytest.mark.parametrize("source", ["OPS = {'add', 'sub', 'mul'}", "if op in ('add', 'sub', 'mul'): pass",
                                    "x = {'add': 1, 'sub': 2, 'mul': ('a', 3)}"])
def test_a_list_of_ops_is_found(source: str) -> None:
    assert [names for _, names in lists_of_ops(ast.parse(source))] == [["add", "sub", "mul"]]


@pytest.mark.parametrize("path", NO_FACTS)
def test_allowances_are_needed(path: str) -> None:
    assert list(lists_of_ops(modules()[path]))


def traits_asked_for(tree: ast.Module) -> Iterator[str]:
    """The traits in `has_trait(op, "...")`, `"..." in op.traits` and `op.traits & {"..."}`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "has_trait":
            asked = node.args[1:]
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]).split(".")[-1] == "traits":
            asked = [node.left]
        elif isinstance(node, ast.BinOp) and ast.unparse(node.left).split(".")[-1] == "traits":
            asked = [node.right]
        else:
            continue
        yield from (n.value for a in asked for n in ast.walk(a) if isinstance(n, ast.Constant))


def test_every_trait_has_a_reader_and_a_row() -> None:
    readers = {path: set(traits_asked_for(tree)) for path, tree in modules().items()}
    assert set().union(*readers.values()) == set(TRAITS)
    assert set().union(*(op.traits for op in OPS.values())) == set(TRAITS)
    for trait, doc in TRAITS.items():
        *_, named = re.findall(r"\(([^()]*)\)", doc)
        for room in named.split(", "):
            assert any(trait in asked and f"/{room}/" in f"/{path}" for path, asked in readers.items()), (trait, room)


def test_parts_are_added_back_to_by_rows_that_accumulate() -> None:
    named = {op.adds_back[0] for op in OPS.values() if op.adds_back is not None}
    assert named == {op.name for op in OPS.values() if "accumulates" in op.traits}


SAVED = {
    "add": "", "sub": "", "mul": "x0 x1", "div": "x0 x1", "neg": "", "exp": "y", "log": "x0", "sqrt": "y", "tanh": "y",
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
