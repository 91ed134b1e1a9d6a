"""Four steps of a program give what they give in PyTorch, where that is installed: eagerly, scripted, as one script."""

from __future__ import annotations

import importlib
import inspect
import linecache
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.programs.beside import sequences, structured, training

MODULES = (sequences, training, structured)
PROGRAMS = [p for module in MODULES for p in module.PROGRAMS]
STEPS = 4


def in_pytorch(program: type) -> Any:
    """The same class, with its module's imports from PyTorch."""
    module = inspect.getmodule(program)
    assert module is not None
    text = re.sub(r"^(import|from) jitgrad\b", r"\1 torch", inspect.getsource(module), flags=re.MULTILINE)
    filename = f"<{module.__name__} in PyTorch>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    made = types.ModuleType(f"{module.__name__}_in_pytorch")
    importlib.import_module("torch")
    exec(compile(text.replace("import torch as torch", "import torch"), filename, "exec"), made.__dict__)
    return getattr(made, program.__name__)


def run(library: Any, program: Any, how: str = "eager") -> list[Any]:
    """What the steps return, and the weights in the end."""
    made = program()
    modules = [part for part in vars(made).values() if isinstance(part, library.nn.Module)]
    with library.no_grad():
        for module in modules:
            rng = np.random.default_rng(7)
            for name, p in sorted(module.named_parameters()):
                values = rng.standard_normal(tuple(p.shape)) * (0.3 if p.dim() > 1 else 0.1)
                p.copy_(library.from_numpy(np.asarray(values + (1.0 if name.endswith("norm.weight") else 0.0))))
    if how == "model":
        made.model = jitgrad.script(made.model)
    step: Callable[..., Any] = jitgrad.script(made.step) if how == "step" else made.step
    rng, found = np.random.default_rng(3), []
    for _ in range(STEPS):
        out = step(*[library.from_numpy(np.asarray(a)) for a in made.batch(rng)])
        found += [float(v.detach() if isinstance(v, library.Tensor) else v)
                  for v in (out if isinstance(out, (tuple, list)) else [out])]
    return [found, *[p.detach().numpy() for module in modules for _, p in sorted(module.named_parameters())]]


def assert_same(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_scripts_train_as_eager_code(program: type) -> None:
    expected = run(jitgrad, program)
    for how in ("model", "step"):
        assert_same(run(jitgrad, program, how), expected, 1e-5)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_training_is_as_in_pytorch(program: type) -> None:
    torch = pytest.importorskip("torch")
    assert_same(run(jitgrad, program), run(torch, in_pytorch(program)), 1e-5)
