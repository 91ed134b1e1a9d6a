"""The library under symbolic sizes: every expression, scripted and interpreted, gives what eager gives.

Interpreted, the question is whether the library's own code holds where sizes and numbers are known only at run time;
compiled (slow), whether native values and gradients are eager's too.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from tests.ops.library.expressions import GROUPS, expressions

torch = pytest.importorskip("torch")

from tests.ops.library.arrays import arrays, flat  # noqa: E402
from tests.ops.library.test_values import FLOAT_NAMES  # noqa: E402

#: what a script refuses: questions about memory, lists of Python numbers
REFUSED = re.compile(r"stride|is_contiguous|tolist")
CASES = [(g, k, e) for g in GROUPS for k, e in enumerate(expressions(g)) if not REFUSED.search(e)]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module with one function per expression: scripts need source in a file."""
    path: Path = tmp_path_factory.mktemp("scripted") / "library_expressions.py"
    lines = ["import jitgrad as t", "import jitgrad.nn.functional as F"]
    for group, k, e in CASES:
        lines += [f"def {group}_{k}({', '.join(arguments(e))}):", f"    return {e}"]
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("library_expressions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["library_expressions"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["library_expressions"]


def arguments(expression: str) -> list[str]:
    """The tensors that an expression reads."""
    return [n for n in arrays() if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"(=])", expression)]


@pytest.mark.parametrize(("group", "number", "expression"), CASES, ids=[e for _, _, e in CASES])
def test_scripted(group: str, number: int, expression: str, functions: Any) -> None:
    function = getattr(functions, f"{group}_{number}")
    inputs = arrays()

    def tensors() -> list[Any]:
        return [jitgrad.from_numpy(inputs[name].copy()) for name in arguments(expression)]

    eager = function(*tensors())
    with config.override(interpret=True, cache=""):
        scripted = jitgrad.script(function)(*tensors())
    assert len(flat(eager)) == len(flat(scripted))
    for a, b in zip(flat(scripted), flat(eager), strict=True):
        if isinstance(b, jitgrad.Tensor):
            assert a.dtype is b.dtype
            assert tuple(a.shape) == tuple(b.shape)
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert a == b


@pytest.mark.slow
@pytest.mark.parametrize(("group", "number", "expression"), CASES, ids=[e for _, _, e in CASES])
def test_native_gradient(group: str, number: int, expression: str, functions: Any) -> None:
    """Native values and gradients with a weighted sum of the float results as loss."""
    function = getattr(functions, f"{group}_{number}")
    inputs = arrays()

    def run(fn: Any) -> tuple[list[Any], list[Any]]:
        tensors = [jitgrad.from_numpy(inputs[name].copy()) for name in arguments(expression)]
        for name, t in zip(arguments(expression), tensors, strict=True):
            t.requires_grad_(name in FLOAT_NAMES)
        results = [v for v in flat(fn(*tensors)) if isinstance(v, jitgrad.Tensor)]
        rng, total = np.random.default_rng(3), jitgrad.zeros((), dtype=jitgrad.float64)
        for v in results:
            if v.requires_grad:
                total = total + (v.double() * jitgrad.from_numpy(rng.standard_normal(tuple(v.shape)))).sum()
        if total.requires_grad:
            total.backward()
        return results, [t.grad for t in tensors]

    eager, expected = run(function)
    with config.override(cache=""):
        native, gradients = run(jitgrad.script(function))
    for a, b in zip(native, eager, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(gradients, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_two_softmaxes_that_both_leave_the_kernel() -> None:
    """The exponentials of the second were once kept where the first was stored."""
    def both(x: Any, y: Any) -> Any:
        p, q = jitgrad.softmax(x, 1), jitgrad.softmax(y, 1)
        return p, q, p * q

    inputs = arrays()
    x, y = jitgrad.from_numpy(inputs["x"]), jitgrad.from_numpy(inputs["y"])
    with config.override(cache=""):
        results = jitgrad.script(both)(x, y)
    for a, b in zip(results, both(x, y), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_sizes_to_which_nothing_sums() -> None:
    def f(x: Any) -> Any:
        return x.sum_to_size([3, 4])

    script = jitgrad.script(f)
    assert script(jitgrad.ones(2, 3, 4)).tolist() == [[2.0] * 4] * 3
    for run in (f, script):
        with pytest.raises(RuntimeError, match="is not expandable to size"):
            run(jitgrad.ones(3, 3, 2, 4))
