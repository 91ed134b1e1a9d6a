"""What a library answers to a program, and whether two answers are the same."""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jitgrad.errors import ScriptError
from tests.against.drafts import Case, Made, numbers

#: relative and absolute differences of numbers that rounding explains
CLOSE = {"float16": (4e-3, 4e-3), "bfloat16": (2e-2, 2e-2), "float32": (2e-4, 2e-5), "complex64": (2e-4, 2e-5),
         "float64": (1e-8, 1e-9), "complex128": (1e-8, 1e-9)}


class Seen(NamedTuple):
    """What is seen of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    history: bool
    strides: Any  # of a view of an argument, and where it begins
    values: Any


class Answer(NamedTuple):
    """A program's results and gradients, or the type of its exception."""

    results: Any = None
    gradients: Any = None
    error: str = ""
    text: str = ""
    refused: bool = False


def word(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def make(module: Any, made: Made) -> Any:
    """A tensor in a library."""
    found = module.from_numpy(np.array(numbers(made), order="C")).to(getattr(module, made.dtype)).clone(
        memory_format=module.contiguous_format)  # NumPy has no strides where there is nothing
    return found.requires_grad_() if made.grad else found


def values(module: Any, x: Any) -> Any:
    x = x.detach().clone()  # also of PyTorch's zeros that have no memory
    if x.is_complex():
        x = module.view_as_real(x.resolve_conj() if hasattr(x, "resolve_conj") else x)
    if word(x.dtype) in ("bfloat16", "float16"):
        x = x.to(module.float32)
    return x.tolist()


def memory(x: Any, arguments: dict[str, Any]) -> Any:
    """Which argument a tensor is a view of, with its strides and its offset; None for one with its own numbers."""
    if not x.numel() or x.is_sparse:
        return None
    for name, base in arguments.items():
        first = x.data_ptr() - base.data_ptr()
        if 0 <= first < max(base.numel(), 1) * base.element_size():
            return name, first, tuple(s if n > 1 else 0 for n, s in zip(x.shape, x.stride(), strict=True))
    return None


def seen(module: Any, x: Any, arguments: dict[str, Any]) -> Any:
    """What is compared of a value."""
    if isinstance(x, module.Tensor):
        where = memory(x, arguments)
        return Seen(word(x.dtype), tuple(x.shape), bool(x.requires_grad), where, values(module, x))
    if isinstance(x, module.Size):
        return ("Size", *x)
    if isinstance(x, (tuple, list)):
        return [seen(module, y, arguments) for y in x]
    if isinstance(x, module.dtype):
        return word(x)
    return x


def leaves(module: Any, x: Any) -> list[Any]:
    if isinstance(x, module.Tensor):
        return [x]
    return [t for y in x for t in leaves(module, y)] if isinstance(x, (tuple, list)) else []


def compiled(case: Case, module: Any) -> Callable[..., Any]:
    """The program as a function of a library, whose source `inspect` finds."""
    filename = f"<against {hash(case.source)}>"
    linecache.cache[filename] = (len(case.source), None, case.source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"t": module, "F": module.nn.functional, "__name__": "against"}
    exec(compile(case.source, filename, "exec"), scope)
    return scope["program"]  # type: ignore[no-any-return]


def _error(error: BaseException, where: str = "") -> Answer:
    if isinstance(error, ScriptError) or "in a script `out` must have" in str(error):
        return Answer(text=str(error), refused=True)
    name = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    return Answer(error=where + name, text=str(error))


def answer(case: Case, module: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Answer:
    """What a library answers; `wrap` is what is done to the function first."""
    arguments = {name: make(module, m) for name, m in case.arguments.items()}
    function = wrap(compiled(case, module))
    module.manual_seed(0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = function(*arguments.values())
            found = seen(module, results, arguments)
        except Exception as error:
            return _error(error)
        try:
            # PyTorch looks for the history of one of several views here, and may find that it was written to
            outputs = [x for x in leaves(module, results) if x.requires_grad and x.grad_fn is not None]
            wanted = [a for a in (*arguments.values(), *leaves(module, results)) if a.requires_grad and a.is_leaf]
            if not outputs or not wanted:
                return Answer(found)
            cotangents = [make(module, Made(word(x.dtype), tuple(x.shape), "positive", 3, False)) for x in outputs]
            gradients = module.autograd.grad(outputs, wanted, cotangents, allow_unused=True)
            return Answer(found, [None if g is None else (word(g.dtype), tuple(g.shape), values(module, g))
                                  for g in gradients])
        except Exception as error:
            return _error(error, "backward: ")._replace(results=found)


def loosest(case: Case) -> tuple[float, float]:
    """What rounding explains in a program: of its results in float64 too, if they were float32 on the way."""
    dtypes = {m.dtype for m in case.arguments.values()} | {d for d in CLOSE if d in case.source}
    float32 = dtypes - set(CLOSE) or "out=" in case.source or re.search(r"t\.tensor\(\[[^]]*\.[^]]*\]\)", case.source)
    dtypes |= {"float32"} if float32 else set()
    return max((CLOSE[d] for d in dtypes if d in CLOSE), default=CLOSE["float64"])


def close(a: Any, b: Any, tolerance: tuple[float, float]) -> bool:
    """Whether lists of numbers are equal, floats but for rounding."""
    p, q = np.asarray(a), np.asarray(b)
    if p.shape != q.shape or (p.dtype.kind != q.dtype.kind and p.size):
        return False
    if p.dtype.kind != "f":
        return bool((p == q).all())
    with np.errstate(all="ignore"):
        return bool(np.isclose(p, q, *tolerance, equal_nan=True).all())


def numbers_of(found: Any) -> Iterator[Any]:
    """The numbers of each tensor, of results or of gradients."""
    if isinstance(found, Seen):
        yield found.values
    elif isinstance(found, list):
        for x in found:
            yield from numbers_of(x)
    elif isinstance(found, tuple) and len(found) == 3:
        yield found[2]


def difference(ours: Any, theirs: Any, tolerance: tuple[float, float], scripted: bool = False) -> str:
    """The first thing in which two values differ, or nothing."""
    if type(ours) is not type(theirs):
        return f"type: {ours!r:.80} {theirs!r:.80}"
    if isinstance(ours, Seen):
        for name in ("dtype", "shape", "history", "strides"):
            a, b = getattr(ours, name), getattr(theirs, name)
            if a != b and not (scripted and name == "strides"):
                return f"{name}: {a} {b}"
        near = max(tolerance, CLOSE.get(ours.dtype, (0.0, 0.0)))
        return "" if close(ours.values, theirs.values, near) else f"values: {ours.values} {theirs.values}"
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"length: {len(ours)} {len(theirs)}"
        pairs = zip(ours, theirs, strict=True)
        return next((d for a, b in pairs if (d := difference(a, b, tolerance, scripted))), "")
    if isinstance(ours, float):
        return "" if close(ours, theirs, tolerance) else f"number: {ours} {theirs}"
    return "" if ours == theirs else f"value: {ours!r:.80} {theirs!r:.80}"


def compare(case: Case, ours: Answer, theirs: Answer, scripted: bool = False) -> str:
    """In what an answer differs from the one that is right, or nothing."""
    if ours.error != theirs.error:
        return f"error: {ours.error or 'none'} ({ours.text:.150}), not {theirs.error or 'none'} ({theirs.text:.150})"
    if ours.error and not ours.error.startswith("backward"):
        return ""
    tolerance = loosest(case)
    if found := difference(ours.results, theirs.results, tolerance, scripted):
        return found
    if ours.error:
        return ""
    if (ours.gradients is None) != (theirs.gradients is None):
        return f"gradients: {ours.gradients} {theirs.gradients}"
    for a, b in zip(ours.gradients or (), theirs.gradients or (), strict=True):
        if (a is None) != (b is None) or (a is not None and (
                a[:2] != b[:2] or not close(a[2], b[2], max(tolerance, CLOSE[a[0]])))):
            return f"gradient: {a} {b}"
    return ""
