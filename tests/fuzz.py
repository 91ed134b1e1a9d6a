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
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config

UNARY = ("tanh", "sin", "sigmoid", "relu", "cos", "exp_", "abs", "square", "softplus")
BINARY = ("+", "-", "*")


@dataclass
class Scope:
    """What may be read here: names by kind. Branch bodies get a copy, so that names may be bound on one side only."""

    matrices: list[str] = field(default_factory=list)  # [N, D]
    vectors: list[str] = field(default_factory=list)  # [D]
    scalars: list[str] = field(default_factory=list)  # []
    ints: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)

    def copy(self) -> Scope:
        return Scope(list(self.matrices), list(self.vectors), list(self.scalars), list(self.ints), list(self.floats))

    def meet(self, other: Scope) -> Scope:
        """The names that both have."""
        def both(a: list[str], b: list[str]) -> list[str]:
            return [n for n in a if n in b]

        return Scope(both(self.matrices, other.matrices), both(self.vectors, other.vectors),
                     both(self.scalars, other.scalars), both(self.ints, other.ints), both(self.floats, other.floats))


class Generator:
    """Writes one function `f(x, y, w, b, n, s)`: x, y f64[N, D], w f64[D, D], b f64[D], an int and a float."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counter = 0
        self.loops = self.branches = 0

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    # --- expressions -----------------------------------------------------------------------------------------------

    def matrix(self, scope: Scope, depth: int = 0) -> str:
        """An expression of shape [N, D], its values kept small."""
        kind = self.random.randrange(11 if depth < 2 else 2)
        if kind <= 1:
            return self.pick(scope.matrices)
        if kind <= 4:
            return self.unary(self.matrix(scope, depth + 1))
        if kind <= 6:
            return f"({self.matrix(scope, depth + 1)} {self.pick(list(BINARY))} {self.matrix(scope, depth + 1)} * 0.5)"
        if kind == 7:
            return f"({self.matrix(scope, depth + 1)} * {self.vector(scope, depth + 1)})"
        if kind == 8:
            return f"{self.matrix(scope, depth + 1)}.mm(w).tanh()"
        if kind == 9:
            return f"jitgrad.where({self.matrix(scope, depth + 1)} > 0.1, {self.matrix(scope, depth + 1)}, " \
                   f"{self.matrix(scope, depth + 1)})"
        return f"({self.matrix(scope, depth + 1)} * {self.number(scope)})"

    def unary(self, operand: str) -> str:
        name = self.pick(list(UNARY))
        if name == "exp_":
            return f"(-({operand}).abs()).exp()"
        if name == "square":
            return f"(({operand}).tanh() ** 2)"
        if name == "softplus":
            return f"jitgrad.nn.functional.softplus({operand})"
        return f"({operand}).{name}()"

    def vector(self, scope: Scope, depth: int = 0) -> str:
        kind = self.random.randrange(6 if depth < 2 else 1)
        if kind == 0 and scope.vectors:
            return self.pick(scope.vectors)
        if kind <= 2:
            return f"{self.matrix(scope, depth + 1)}.{self.pick(['mean', 'sum'])}(dim=0).tanh()"
        if kind == 3:
            return f"{self.matrix(scope, depth + 1)}[{self.pick(['0', '-1'])}]"
        if kind == 4:
            return f"{self.matrix(scope, depth + 1)}.softmax(dim=1).amax(dim=0)"
        return self.unary(self.vector(scope, depth + 1))

    def scalar(self, scope: Scope) -> str:
        kind = self.random.randrange(4)
        if kind == 0 and scope.scalars:
            return self.pick(scope.scalars)
        if kind == 1:
            return f"{self.vector(scope)}.sum().tanh()"
        if kind == 2:
            return f"({self.matrix(scope, 1)} * {self.matrix(scope, 1)}).mean()"
        return f"{self.matrix(scope, 1)}.mean()"

    def number(self, scope: Scope) -> str:
        kind = self.random.randrange(4)
        if kind == 0 and scope.floats:
            return self.pick(scope.floats)
        if kind == 1 and scope.ints:
            return f"({self.pick(scope.ints)} % 3)"
        if kind == 2:
            return "s"
        return f"{self.random.uniform(-1.2, 1.2):.3f}"

    def integer(self, scope: Scope) -> str:
        kind = self.random.randrange(4)
        if kind == 0:
            return str(self.random.randrange(-3, 6))
        if kind == 1:
            return f"({self.pick(scope.ints)} {self.pick(['+', '-', '*'])} {self.random.randrange(1, 4)})"
        if kind == 2:
            return f"({self.pick(scope.ints)} {self.pick(['//', '%'])} {self.random.randrange(2, 5)})"
        return self.pick(scope.ints)

    def condition(self, scope: Scope) -> str:
        """Data-dependent."""
        kind = self.random.randrange(6)
        threshold = f"{self.random.uniform(-0.3, 0.3):.3f}"
        if kind <= 2:
            return f"{self.scalar(scope)} {self.pick(['>', '<'])} {threshold}"
        if kind == 3:
            return f"{self.integer(scope)} {self.pick(['>', '<', '==', '!='])} {self.integer(scope)}"
        if kind == 4:
            return f"({self.condition(scope)}) {self.pick(['and', 'or'])} not ({self.condition(scope)})"
        return f"{threshold} < {self.number(scope)} <= 0.9"

    # --- statements ------------------------------------------------------------------------------------------------

    def block(self, scope: Scope, depth: int, count: int, in_loop: bool) -> None:
        for _ in range(count):
            self.statement(scope, depth, in_loop)

    def statement(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kinds: list[Callable[[Scope, int, bool], None]] = [self.assign] * 3 + [self.update, self.write]
        if depth < 4:
            kinds += [self.branch, self.branch, self.count_loop, self.while_loop]
        if in_loop:
            kinds += [self.leave_loop]
        kinds += [self.output, self.ternary]
        self.random.choice(kinds)(scope, depth, in_loop)

    def assign(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kind = self.random.randrange(6)
        new = self.random.random() < 0.5
        if kind <= 1:
            name = self.fresh("m") if new else self.pick([n for n in scope.matrices if n != "x" and n != "y"] or ["m0"])
            self.line(depth, f"{name} = {self.matrix(scope)}")
            names = scope.matrices
        elif kind == 2:
            name = self.fresh("v")
            self.line(depth, f"{name} = {self.vector(scope)}")
            names = scope.vectors
        elif kind == 3:
            name = self.fresh("t")
            self.line(depth, f"{name} = {self.scalar(scope)}")
            names = scope.scalars
        elif kind == 4:
            name = self.fresh("i") if new or len(scope.ints) < 2 else self.pick([n for n in scope.ints if n[0] == "i"])
            self.line(depth, f"{name} = {self.integer(scope)}")
            names = scope.ints
        else:
            name = self.fresh("a")
            self.line(depth, f"{name} = {self.pick([f'{self.scalar(scope)}.item()', self.number(scope) + ' * 0.5'])}")
            names = scope.floats
        if name not in names:
            names.append(name)

    def update(self, scope: Scope, depth: int, in_loop: bool) -> None:
        if self.random.random() < 0.3 and "i0" in scope.ints:
            name = self.pick([n for n in scope.ints if n[0] == "i"])
            self.line(depth, f"{name} {self.pick(['+=', '-='])} {self.random.randrange(1, 3)}")
            return
        name = self.pick([n for n in scope.matrices if n not in ("x", "y")] or ["m0"])
        self.line(depth, f"{name} = {name} * 0.5 + {self.matrix(scope, 1)}.tanh()")

    def write(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """In-place, on a fresh copy and through a view of it."""
        name = self.fresh("m")
        self.line(depth, f"{name} = ({self.matrix(scope, 1)}).clone() * 1.0")
        kind = self.random.randrange(5)
        if kind == 0:
            self.line(depth, f"{name} += {self.matrix(scope, 1)}")
        elif kind == 1:
            self.line(depth, f"{name}[0] = {self.vector(scope, 1)}")
        elif kind == 2:
            self.line(depth, f"{name}[:, 0] *= {self.number(scope)}")
        elif kind == 3:
            view = self.fresh("u")
            self.line(depth, f"{view} = {name}[-1]")
            self.line(depth, f"{name} *= 0.5")
            self.line(depth, f"{view} += {self.vector(scope, 1)}")
        else:
            self.line(depth, f"{name}[{name} > 0.2] = {self.random.uniform(-1, 1):.2f}")
        scope.matrices.append(name)

    def branch(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.branches += 1
        self.line(depth, f"if {self.condition(scope)}:")
        then, other = scope.copy(), scope.copy()
        self.block(then, depth + 1, self.random.randrange(1, 3), in_loop)
        if self.random.random() < 0.12 and depth > 1:
            self.line(depth + 1, f"return {self.scalar(then)} + {self.matrix(then)}.sum() * 0.1")
        if self.random.random() < 0.6:
            self.line(depth, "else:")
            self.block(other, depth + 1, self.random.randrange(1, 3), in_loop)
        met = then.meet(other)
        scope.__dict__.update(met.__dict__)

    def count_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.loops += 1
        index = self.fresh("k")
        bound = self.pick(["n", "x.shape[0]", "3", "(n + 1)", "2"])
        self.line(depth, f"for {index} in range({bound}):")
        inner = scope.copy()
        inner.ints.append(index)
        if bound == "x.shape[0]" and self.random.random() < 0.7:
            row = self.fresh("v")
            self.line(depth + 1, f"{row} = x[{index}]")
            inner.vectors.append(row)
        carried = self.pick([m for m in scope.matrices if m not in ("x", "y")] or ["m0"])
        self.block(inner, depth + 1, self.random.randrange(1, 3), True)
        self.line(depth + 1, f"{carried} = ({carried} * 0.7 + {self.matrix(inner, 1)} * 0.3).tanh()")

    def while_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.loops += 1
        count = self.fresh("c")
        self.line(depth, f"{count} = 0")
        carried = self.pick([m for m in scope.matrices if m not in ("x", "y")] or ["m0"])
        self.line(depth, f"while {count} < {self.random.randrange(2, 6)} and {carried}.abs().mean() "
                         f"{self.pick(['>', '<'])} {self.random.uniform(0.05, 0.9):.3f}:")
        inner = scope.copy()
        inner.ints.append(count)
        self.line(depth + 1, f"{count} += 1")
        self.block(inner, depth + 1, self.random.randrange(1, 3), True)
        self.line(depth + 1, f"{carried} = {carried} * 0.8 + {self.matrix(inner, 1)}.tanh() * 0.3")

    def leave_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.branches += 1
        self.line(depth, f"if {self.condition(scope)}:")
        self.line(depth + 1, self.pick(["break", "continue", "break"]))

    def ternary(self, scope: Scope, depth: int, in_loop: bool) -> None:
        name = self.fresh("m")
        first, condition, second = self.pick(scope.matrices), self.condition(scope), self.matrix(scope, 1)
        self.line(depth, f"{name} = {first} if {condition} else {second}")
        scope.matrices.append(name)

    def output(self, scope: Scope, depth: int, in_loop: bool) -> None:
        if self.random.random() < 0.5:
            self.line(depth, f"print('{self.counter}', {self.pick(scope.ints)})")
        elif self.random.random() < 0.5:
            self.line(depth, f"assert {self.pick(scope.ints)} < {self.random.randrange(4, 40)}, "
                             f"f'too large: {{{self.pick(scope.ints)}}}'")
        else:
            name = self.fresh("i")
            self.line(depth, f"{name} = {self.pick(scope.ints)} // ({self.pick(scope.ints)} - 7)")
            scope.ints.append(name)

    def program(self) -> str:
        """The source of `f`."""
        self.line(0, "def f(x, y, w, b, n: int, s: float):")
        self.line(1, "m0 = x * 0.5 + b")
        self.line(1, "i0 = 1")
        scope = Scope(["x", "y", "m0"], ["b"], [], ["n", "i0"], [])
        self.block(scope, 1, self.random.randrange(2, 5), False)
        if not self.loops:
            self.while_loop(scope, 1, False)
        if not self.branches:
            self.branch(scope, 1, False)
        terms = [f"{m}.tanh().sum()" for m in self.random.sample(scope.matrices, min(3, len(scope.matrices)))]
        terms += self.random.sample(scope.scalars, min(1, len(scope.scalars)))
        self.line(1, f"return {' + '.join(terms)} + m0.sum()")
        return "\n".join(self.lines) + "\n"


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
    """Two or three sets of arguments: other sizes (one and odd), other numbers."""
    rng = np.random.default_rng(seed)
    for rows, columns, n in ((3, 4, 2), (5, 2, 0), (1, 3, 4)):
        arrays = [rng.standard_normal(s) for s in ((rows, columns), (rows, columns), (columns, columns), (columns,))]
        yield arrays, n, float(rng.uniform(-1, 1))


def run(function: Callable[..., Any], arrays: list[np.ndarray], n: int, s: float, second_order: bool) -> Outcome:
    """Call, differentiate, catch."""
    outcome = Outcome()
    tensors = [jitgrad.from_numpy(a.copy()).requires_grad_() for a in arrays]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            value = function(*tensors, n, s)
        outcome.value = value.detach().numpy()
        if second_order:
            first = jitgrad.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
            outcome.gradients = [None if g is None else g.detach().numpy() for g in first]
            total = sum(((g * g).sum() for g in first if g is not None), jitgrad.zeros((), dtype=jitgrad.float64))
            if total.requires_grad:
                second = jitgrad.autograd.grad(total, tensors, allow_unused=True)
                outcome.second = [None if g is None else g.numpy() for g in second]
        else:
            value.backward()
            outcome.gradients = [None if t.grad is None else t.grad.numpy() for t in tensors]
    except (ArithmeticError, AssertionError, LookupError, NameError, RuntimeError, TypeError, ValueError) as error:
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
