"""The programs of `examples/`, as modules: with jitgrad, or with PyTorch in its place."""

from __future__ import annotations

import importlib
import linecache
import math
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent.parent.parent / "examples"


def text_of(path: Path, library: str) -> str:
    """A program's text, with its imports from `library`."""
    return re.sub(r"^(import|from) jitgrad\b", rf"\1 {library}", path.read_text(), flags=re.MULTILINE)


def program(name: str, library: str = "jitgrad") -> Any:
    """The module of `examples/<name>.py`."""
    path = FOLDER / f"{name}.py"
    text, filename = text_of(path, library), f"<{path.stem} with {library}>"
    module = types.ModuleType(f"examples_{path.stem}_{library}")
    module.__file__ = str(path)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    sys.modules[module.__name__] = module
    importlib.import_module(library)
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


PROGRAMS = sorted(path.stem for path in (FOLDER / "programs").glob("*.py"))
#: training steps that are compared
STEPS = 6


def start(torch: Any, source: Any) -> tuple[Any, ...]:
    """A program's models and optimizers, the weights by a formula: jitgrad and PyTorch draw other random numbers."""
    state: tuple[Any, ...] = source.make()
    with torch.no_grad():
        for module in [part for part in state if isinstance(part, torch.nn.Module)]:
            for number, (name, p) in enumerate(module.named_parameters()):
                bound = math.prod(p.shape[1:]) ** -0.5 if p.ndim > 1 else 0.1
                if p.requires_grad and (p.ndim > 1 or "bias" in name):
                    p.copy_(torch.from_numpy(np.random.default_rng(number).uniform(-bound, bound, tuple(p.shape))))
    return state


def losses(source: Any, state: tuple[Any, ...], step: Any) -> list[list[float]]:
    """What the first steps give: one number each, or several."""
    found = []
    for number in range(STEPS):
        result = step(*state, *source.batch(number))
        found.append([float(r) for r in (result if isinstance(result, tuple) else (result,))])
    return found
