"""Programs that we would not write: random Python functions run eagerly, interpreted and natively must agree.

    make fuzz N=500 SEED=0       # or: python -m tests.fuzz --count 500 --seed 0 [--show 17]

Every program has at least one data-dependent loop and one data-dependent branch. Compared are values, gradients
(None stays None), printed text and exceptions (type and message); on every tenth program second-order gradients too.
A failing program is printed with its seed; `--show SEED` prints one without running it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config
from tests.fuzz_programs import Generator


def compile_source(source: str, name: str) -> Callable[..., Any]:
    """Execute the source so that `inspect` can find it again."""
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"jitgrad": jitgrad, "__name__": "fuzz"}
    exec(compile(source, filename, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


@dataclass
class Outcome:
    """What one run of a program did."""

    value: Any = None
    gradients: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)
    error: str = ""
    printed: str = ""


def arguments(seed: int) -> Iterator[tuple[list[np.ndarray], int, float]]:
    """Some sets of arguments: other sizes (one, none, odd), other numbers."""
    rng = np.random.default_rng(seed)
    for rows, columns, n in ((3, 4, 2), (5, 2, 0), (1, 3, 4), (0, 2, 1)):
        arrays = [rng.standard_normal(s) for s in ((rows, columns), (rows, columns), (columns, columns), (columns,))]
        yield arrays, n, float(rng.uniform(-1, 1))


def run(function: Callable[..., Any], arrays: list[np.ndarray], n: int, s: float, second_order: bool) -> Outcome:
    """Call, differentiate, catch."""
    outcome = Outcome()
    tensors = [jitgrad.from_numpy(a.copy()).requires_grad_() for a in arrays]
    printed = io.StringIO()
    jitgrad.manual_seed(n)
    try:
        with contextlib.redirect_stdout(printed):
            value = function(*tensors, n, s)
        outcome.value = value.detach().numpy()
        if second_order:
            first = jitgrad.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
            outcome.gradients = [None if g is None else g.detach().numpy() for g in first]
            total = sum(((g * g).sum() for g in first if g is not None), jitgrad.zeros((), dtype=jitgrad.float64))
            outcome.second = [None] * len(tensors)
            if total.requires_grad:
                second = jitgrad.autograd.grad(total, tensors, allow_unused=True)
                outcome.second = [None if g is None else g.numpy() for g in second]
        else:
            value.backward()
            outcome.gradients = [None if t.grad is None else t.grad.numpy() for t in tensors]
    except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError,
            ValueError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    outcome.printed = printed.getvalue()
    return outcome


def difference(expected: Outcome, got: Outcome) -> str:
    """What differs, or nothing."""
    if expected.error != got.error:
        return f"exception: expected {expected.error or 'none'!r}, got {got.error or 'none'!r}"
    if expected.printed != got.printed:
        return f"printed: expected {expected.printed!r}, got {got.printed!r}"
    if expected.error:
        return ""
    groups = (("value", [expected.value], [got.value]), ("gradient", expected.gradients, got.gradients),
              ("second-order gradient", expected.second, got.second))
    for what, wanted, found in groups:
        for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
            if (a is None) != (b is None):
                if what == "second-order gradient" and not np.any(a if b is None else b):
                    continue  # eager's None is zero here where a branch made a first gradient vanish
                return f"{what} {i}: expected {a if a is None else 'a tensor'}, got {b if b is None else 'a tensor'}"
            if a is not None and not np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True):
                return f"{what} {i}: expected {a}, got {b}"
    return ""


def check_program(seed: int, modes: tuple[str, ...] = ("interpreted", "native")) -> str:
    """Generate and compare one program; the difference, or nothing."""
    source = Generator(seed).program()
    function = compile_source(source, str(seed))
    second_order = seed % 10 == 0
    cases = list(arguments(seed))
    expected = [run(function, *case, second_order) for case in cases]
    for mode in modes:
        with config.override(interpret=mode == "interpreted"):
            scripted = jitgrad.script(function)
            for case, wanted in zip(cases, expected, strict=True):
                found = difference(wanted, run(scripted, *case, second_order))
                if found:
                    shapes = [a.shape for a in case[0]]
                    return f"{mode}, arguments {shapes}, n={case[1]}, s={case[2]:.3f}: {found}"
    return ""


def main() -> int:
    """Run a range of seeds; exit status 1 where any program differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, help="print the program of this seed and stop")
    parser.add_argument("--modes", default="interpreted,native")
    args = parser.parse_args()
    if args.show is not None:
        print(Generator(args.show).program())
        return 0
    failures = 0
    for seed in range(args.seed, args.seed + args.count):
        try:
            problem = check_program(seed, tuple(args.modes.split(",")))
        except Exception as error:  # a crash of the compiler is a finding like any other; the loop goes on
            problem = f"{type(error).__name__}: {error}"
        if problem:
            failures += 1
            print(f"--- seed {seed}: {problem}\n{Generator(seed).program()}", flush=True)
        elif (seed + 1 - args.seed) % 50 == 0:
            print(f"{seed + 1 - args.seed} programs, {failures} differ", file=sys.stderr, flush=True)
    print(f"{args.count - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
