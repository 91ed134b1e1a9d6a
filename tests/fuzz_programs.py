"""Writes random Python programs for `tests.fuzz`: one function `f(x, y, w, b, n, s)`, with helpers before it.

Every program ends (loop counters are never assigned by anything else), has at least one data-dependent loop and one
data-dependent branch, keeps its values small, and branches on nothing that rounding could decide.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields

UNARY = ("tanh", "sin", "sigmoid", "relu", "cos", "exp_", "abs", "square", "softplus", "elementwise")
BINARY = ("+", "-", "*")
NN = "jitgrad.nn.functional"


@dataclass
class Scope:
    """What may be read here: names by kind. Branch bodies get a copy, so that names may be bound on one side only."""

    matrices: list[str] = field(default_factory=list)  # [N, D]
    vectors: list[str] = field(default_factory=list)  # [D]
    scalars: list[str] = field(default_factory=list)  # []
    ints: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)  # of which rounding differs
    exact: list[str] = field(default_factory=list)  # floats made of arguments and literals
    maybes: list[str] = field(default_factory=list)  # a matrix or None
    functions: list[str] = field(default_factory=list)  # matrix -> matrix

    def copy(self) -> Scope:
        return Scope(*(list(getattr(self, f.name)) for f in fields(self)))

    def meet(self, other: Scope) -> None:
        """Keep the names that both have."""
        for f in fields(self):
            names = getattr(self, f.name)
            names[:] = [n for n in names if n in getattr(other, f.name)]

    def own(self) -> list[str]:
        """Matrices that may be assigned."""
        return [n for n in self.matrices if n[0] == "m"]

    def known(self) -> list[str]:
        """Ints that may be assigned."""
        return [n for n in self.ints if n[0] == "i"]


@dataclass(frozen=True)
class Frame:
    """The function being written: the argument that has the sizes, loop bounds, what it returns."""

    base: str
    bounds: tuple[str, ...]
    returns: str  # "scalar", "matrix" or "pair"


class Expressions:
    """Expressions of each kind over a scope."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.frame = Frame("x", ("n", "x.shape[0]", "3", "(n + 1)", "2"), "scalar")
        self.helpers: list[tuple[str, str]] = []  # name, what it returns

    def pick(self, options: list[str] | tuple[str, ...]) -> str:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def matrix(self, scope: Scope, depth: int = 0) -> str:
        """An expression of shape [N, D], its values kept small."""
        kind = self.random.randrange(16 if depth < 2 else 2)

        def m() -> str:
            return self.matrix(scope, depth + 1)

        if kind <= 1:
            return self.pick(scope.matrices)
        if kind <= 4:
            return self.unary(m())
        if kind <= 6:
            return f"({m()} {self.pick(BINARY)} {m()} * 0.5)"
        if kind == 7:
            return f"({m()} * {self.vector(scope, depth + 1)})"
        if kind == 8:
            return self.pick([f"{m()}.mm(w).tanh()", f"({m()} @ w).sin()", f"jitgrad.matmul({m()}, w.t()).tanh()"])
        if kind == 9:
            return f"jitgrad.where({m()} > 0.1, {m()}, {m()})"
        if kind == 10 and scope.functions:
            return f"{self.pick(scope.functions)}({m()})"
        if kind == 11:
            return self.normalised(m())
        if kind == 12:
            return self.indexed(m())
        if kind == 13 and self.chance(0.4):
            return self.pick([f"({m()}.detach() * 0.5)", f"{NN}.dropout({m()}, 0.3, True)",
                              f"({m()} * jitgrad.rand({self.frame.base}.shape, dtype=jitgrad.float64))"])
        if kind == 14 and depth < 1:
            return self.called(m(), m())
        return f"({m()} * {self.number(scope)})"

    def normalised(self, operand: str) -> str:
        return self.pick([
            f"{NN}.layer_norm({operand}, (w.shape[{self.random.randrange(2)}],))",
            f"{NN}.log_softmax({operand}, dim=1).tanh()", f"{NN}.softmax({operand}, dim=-1)",
            f"{NN}.linear({operand}, w).tanh()",
        ])

    def indexed(self, operand: str) -> str:
        """Rows or columns by integer tensors, in another order."""
        base = self.frame.base
        return self.pick([
            f"({operand})[(jitgrad.arange({base}.shape[0]) * 2 + 1) % {base}.shape[0]]",
            f"({operand})[:, jitgrad.arange(w.shape[0] - 1, -1, -1)]",
            f"({operand}).index_select(1, jitgrad.arange(w.shape[0]))",
            f"({operand}).flip(0)",
        ])

    def called(self, first: str, second: str) -> str:
        found = [name for name, kind in self.helpers if kind == "matrix"]
        if not found or self.frame.returns != "scalar":
            return f"({first} - {second}).tanh()"
        return f"{self.pick(found)}({first}, {second}, w, {self.random.randrange(4)}, s)"

    def unary(self, operand: str) -> str:
        name = self.pick(UNARY)
        if name == "exp_":
            return f"(-({operand}).abs()).exp()"
        if name == "square":
            return f"(({operand}).tanh() ** 2)"
        if name == "softplus":
            return f"{NN}.softplus({operand})"
        if name == "elementwise":
            return self.pick([f"({operand}).clamp(-0.8, 0.9)", f"(({operand}) ** 2 + 0.5).sqrt().tanh()",
                              f"jitgrad.maximum({operand}, {operand} * 0.3)", f"(1.0 / (2.0 + ({operand}).cos()))",
                              f"{NN}.gelu({operand})"])
        return f"({operand}).{name}()"

    def vector(self, scope: Scope, depth: int = 0) -> str:
        kind = self.random.randrange(7 if depth < 2 else 1)
        if kind == 0 and scope.vectors:
            return self.pick(scope.vectors)
        if kind <= 2:
            return f"{self.matrix(scope, depth + 1)}.{self.pick(['mean', 'sum'])}(dim=0).tanh()"
        if kind == 3:
            return f"{self.matrix(scope, depth + 1)}[{self.pick(['0', '-1'])}]"
        if kind == 4:
            return f"{self.matrix(scope, depth + 1)}.softmax(dim=1).amax(dim=0)"
        if kind == 5:
            return f"(({self.matrix(scope, depth + 1)} > 0.05).sum(dim=0).double() * 0.1)"
        return self.unary(self.vector(scope, depth + 1))

    def scalar(self, scope: Scope) -> str:
        kind = self.random.randrange(5)
        if kind == 0 and scope.scalars:
            return self.pick(scope.scalars)
        if kind == 1:
            return f"{self.vector(scope)}.sum().tanh()"
        if kind == 2:
            return f"({self.matrix(scope, 1)} * {self.matrix(scope, 1)}).mean()"
        if kind == 3:
            base = self.frame.base
            return f"{NN}.cross_entropy({self.matrix(scope, 1)}, jitgrad.arange({base}.shape[0]) % {base}.shape[1])"
        return f"{self.matrix(scope, 1)}.mean()"

    def exact(self, scope: Scope, depth: int = 0) -> str:
        """A float that is the same however it is computed."""
        kind = self.random.randrange(6 if depth < 2 else 2)
        if kind <= 1:
            return self.pick([*scope.exact, "s", f"{self.random.uniform(-2, 2):.2f}"])
        first = self.exact(scope, depth + 1)
        if kind == 2:
            return f"({first} {self.pick(BINARY)} {self.exact(scope, depth + 1)})"
        if kind == 3:
            return f"({first} {self.pick(['//', '%'])} {self.pick(['0.5', '-0.75', '2', '1.25'])})"
        if kind == 4:
            return f"({self.pick(scope.ints)} {self.pick(['/', '%', '//'])} {self.pick(['4', '-3', '2.5'])})"
        return f"({first} ** 2)"

    def number(self, scope: Scope) -> str:
        kind = self.random.randrange(5)
        if kind == 0 and scope.floats:
            return self.pick(scope.floats)
        if kind == 1:
            return f"({self.pick(scope.ints)} % 3)"
        if kind == 2:
            return "s"
        if kind == 3:
            return f"({self.exact(scope, 1)} % 1.5)"
        return f"{self.random.uniform(-1.2, 1.2):.3f}"

    def integer(self, scope: Scope) -> str:
        kind = self.random.randrange(6)
        if kind == 0:
            return str(self.random.randrange(-3, 6))
        if kind == 1:
            return f"({self.pick(scope.ints)} {self.pick(BINARY)} {self.random.randrange(1, 4)})"
        if kind == 2:
            return f"({self.pick(scope.ints)} {self.pick(['//', '%'])} {self.pick(['2', '3', '4', '-3'])})"
        if kind == 3:
            return f"(({self.pick(scope.ints)} % 5) ** 2 - {self.pick(scope.ints)})"
        if kind == 4:
            return self.pick([f"min({self.pick(scope.ints)}, 4)", f"abs({self.pick(scope.ints)})",
                              f"max({self.pick(scope.ints)}, {self.pick(scope.ints)})", f"len({self.frame.base})",
                              f"-{self.pick(scope.ints)}"])
        return self.pick(scope.ints)

    def condition(self, scope: Scope, depth: int = 0) -> str:
        """Data-dependent."""
        kind = self.random.randrange(8 if depth < 2 else 4)
        threshold = f"{self.random.uniform(-0.3, 0.3):.3f}"
        if kind <= 2:
            return f"{self.scalar(scope)} {self.pick(['>', '<'])} {threshold}"
        if kind == 3:
            return f"{self.integer(scope)} {self.pick(['>', '<', '==', '!='])} {self.integer(scope)}"
        if kind == 4:
            return f"({self.condition(scope, depth + 1)}) {self.pick(['and', 'or'])} " \
                   f"not ({self.condition(scope, depth + 1)})"
        if kind == 5:
            return f"{threshold} < {self.number(scope)} <= 0.9"
        if kind == 6:
            return f"{self.integer(scope)} <= {self.pick(scope.ints)} < {self.integer(scope)} + 3"
        return f"({self.matrix(scope, 1)} > 0.9).any()"


Statement = Callable[[Scope, int, bool], None]


class Generator(Expressions):
    """Writes `f(x, y, w, b, n, s)`: x, y f64[N, D], w f64[D, D], b f64[D], an int and a float."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.lines: list[str] = []
        self.counter = 0
        self.loops = self.branches = 0

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, scope: Scope, depth: int, count: int, in_loop: bool) -> None:
        for _ in range(count):
            self.statement(scope, depth, in_loop)

    def statement(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kinds: list[Statement] = [*[self.assign] * 4, self.update, self.write, self.view, self.output, self.ternary,
                                                     self.pack, self.silent, self.closure, self.call, self.give]
        if depth < 4:
            kinds += [self.branch, self.branch, self.count_loop, self.while_loop, self.row_loop, self.static_loop,
                      self.optional, self.collect]
        if in_loop:
            kinds += [self.leave_loop]
        self.random.choice(kinds)(scope, depth, in_loop)

    # --- values ----------------------------------------------------------------------------------------------------

    def assign(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kind = self.random.randrange(7)
        new = self.chance(0.5)
        if kind <= 1:
            name = self.fresh("m") if new else self.pick(scope.own())
            text, names = self.matrix(scope), scope.matrices
        elif kind == 2:
            name, text, names = self.fresh("v"), self.vector(scope), scope.vectors
        elif kind == 3:
            name, text, names = self.fresh("t"), self.scalar(scope), scope.scalars
        elif kind == 4:
            name = self.fresh("i") if new else self.pick(scope.known())
            text, names = self.integer(scope), scope.ints
        elif kind == 5:
            name, text, names = self.fresh("e"), self.exact(scope), scope.exact
        else:
            name, names = self.fresh("a"), scope.floats
            text = self.pick([f"{self.scalar(scope)}.item()", f"{self.number(scope)} * 0.5",
                              f"float({self.scalar(scope)})"])
        self.line(depth, f"{name} = {text}")
        if name not in names:
            names.append(name)

    def update(self, scope: Scope, depth: int, in_loop: bool) -> None:
        if self.chance(0.3):
            self.line(depth, f"{self.pick(scope.known())} {self.pick(['+=', '-='])} {self.random.randrange(1, 3)}")
            return
        name = self.pick(scope.own())
        self.line(depth, f"{name} = {name} * 0.5 + {self.matrix(scope, 1)}.tanh()")

    def pack(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Tuples: made, taken apart, swapped."""
        if self.chance(0.3) and len(scope.own()) > 1:
            a, b = self.random.sample(scope.own(), 2)
            self.line(depth, f"{a}, {b} = {b}, {a}")
            return
        pair, m, i = self.fresh("p"), self.fresh("m"), self.fresh("i")
        self.line(depth, f"{pair} = ({self.matrix(scope, 1)}, ({self.integer(scope)}, {self.scalar(scope)}))")
        t = self.fresh("t")
        if self.chance(0.5):
            self.line(depth, f"{m}, ({i}, {t}) = {pair}")
        else:
            self.line(depth, f"{m}, {i}, {t} = {pair}[0], {pair}[1][0], {pair}[-1][1]")
        scope.matrices.append(m)
        scope.ints.append(i)
        scope.scalars.append(t)

    def silent(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Without a gradient."""
        name = self.fresh("m")
        self.line(depth, "with jitgrad.no_grad():")
        self.line(depth + 1, f"{name} = {self.matrix(scope, 1)}.tanh()")
        scope.matrices.append(name)

    def closure(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A lambda over variables that may change later."""
        name = self.fresh("g")
        inner = scope.copy()
        inner.matrices += ["z", "z"]
        inner.functions = []
        self.line(depth, f"{name} = lambda z: ({self.matrix(inner, 1)} + z * {self.number(scope)}).tanh()")
        scope.functions.append(name)

    def call(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A helper's two results."""
        found = [name for name, kind in self.helpers if kind == "pair"]
        if not found or self.frame.returns != "scalar":
            return self.update(scope, depth, in_loop)
        m, t = self.fresh("m"), self.fresh("t")
        self.line(depth, f"{m}, {t} = {self.pick(found)}({self.matrix(scope, 1)}, {self.matrix(scope, 1)}, w, "
                         f"{self.integer(scope)} % 4, s)")
        scope.matrices.append(m)
        scope.scalars.append(t)

    def ternary(self, scope: Scope, depth: int, in_loop: bool) -> None:
        name = self.fresh("m")
        first, condition, second = self.pick(scope.matrices), self.condition(scope), self.matrix(scope, 1)
        self.line(depth, f"{name} = {first} if {condition} else {second}")
        scope.matrices.append(name)

    # --- memory ----------------------------------------------------------------------------------------------------

    def write(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """In-place, on a fresh copy and through a view of it."""
        name = self.fresh("m")
        self.line(depth, f"{name} = ({self.matrix(scope, 1)}).clone() * 1.0")
        kind = self.random.randrange(6)
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
        elif kind == 4:
            self.line(depth, f"{name}.clamp_(-0.9, 0.9)")
        else:
            self.line(depth, f"{name}[{name} > 0.2] = {self.random.uniform(-1, 1):.2f}")
        scope.matrices.append(name)

    def view(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A view of a fresh copy, written, perhaps under a condition; then both are read."""
        name, view = self.fresh("m"), self.fresh("u")
        self.line(depth, f"{name} = ({self.matrix(scope, 1)}).clone() * 1.0")
        path = self.pick(["t()", "transpose(0, 1)", "reshape(-1)", "view(-1)", "unsqueeze(0)", "[:, ::2]", "[1:]",
                          "[::2]", "[:, 1:]", "t()[1:]", "reshape(-1)[::3]", "[:-1]", "T[0]"])
        self.line(depth, f"{view} = {name}{path if path[0] == '[' else '.' + path}")
        if self.chance(0.4):
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            depth += 1
        change = self.pick(["*= 0.5", f"+= {self.number(scope)}", f"*= {self.scalar(scope)}"])
        self.line(depth, f"{view} {change}" if self.chance(0.7) else f"{view}[...] = {view} * 0.3 + 0.1")
        scope.matrices.append(name)

    # --- control ---------------------------------------------------------------------------------------------------

    def result(self, scope: Scope) -> str:
        """What the function returns here."""
        if self.frame.returns == "matrix":
            return self.matrix(scope)
        if self.frame.returns == "pair":
            return f"{self.matrix(scope)}, {self.scalar(scope)}"
        return f"{self.scalar(scope)} + {self.matrix(scope)}.sum() * 0.1"

    def branch(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.branches += 1
        self.line(depth, f"if {self.condition(scope)}:")
        then, other = scope.copy(), scope.copy()
        self.block(then, depth + 1, self.random.randrange(1, 3), in_loop)
        if self.chance(0.15):
            self.line(depth + 1, f"return {self.result(then)}")
        if self.chance(0.6):
            self.line(depth, "else:")
            self.block(other, depth + 1, self.random.randrange(1, 3), in_loop)
        scope.meet(then)
        scope.meet(other)
        for f in fields(scope):
            both = [n for n in getattr(then, f.name) if n in getattr(other, f.name)]
            getattr(scope, f.name).extend(n for n in both if n not in getattr(scope, f.name))

    def optional(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A variable that is None until something happens, then asked."""
        name = self.fresh("o")
        self.branches += 1
        self.line(depth, f"{name} = None")
        inner = scope.copy()
        if self.chance(0.5):
            self.loops += 1
            index = self.fresh("k")
            inner.ints.append(index)
            self.line(depth, f"for {index} in range({self.pick(self.frame.bounds)}):")
            depth += 1
            if self.chance(0.5):
                self.line(depth, f"if {name} is not None and {self.condition(inner)}:")
                self.line(depth + 1, f"m0 = (m0 + {name} * 0.5).tanh()")
        self.line(depth, f"if {self.condition(inner)}:")
        self.line(depth + 1, f"{name} = {self.matrix(inner, 1)}")
        depth -= inner.ints != scope.ints
        if self.chance(0.5):
            self.line(depth, f"m0 = m0 if {name} is None else m0 * 0.5 + {name}.tanh()")
        else:
            self.line(depth, f"if {name} is None:")
            self.line(depth + 1, f"m0 = {self.matrix(scope, 1)}")
            self.line(depth, "else:")
            self.line(depth + 1, f"m0 = m0 + ({name} * 0.5).sin()")

    def body(self, inner: Scope, scope: Scope, depth: int) -> None:
        """A loop's body; it carries a matrix along."""
        carried = self.pick(scope.own())
        self.block(inner, depth + 1, self.random.randrange(1, 3), True)
        if self.chance(0.1):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, f"return {self.result(inner)}")
        self.line(depth + 1, f"{carried} = ({carried} * 0.7 + {self.matrix(inner, 1)} * 0.3).tanh()")

    def count_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.loops += 1
        index, bound = self.fresh("k"), self.pick(self.frame.bounds)
        self.line(depth, f"for {index} in range({bound}):")
        inner = scope.copy()
        inner.ints.append(index)
        if "shape" in bound and self.chance(0.7):
            row = self.fresh("v")
            self.line(depth + 1, f"{row} = {self.frame.base}[{index}]")
            inner.vectors.append(row)
        self.body(inner, scope, depth)

    def row_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Over the rows of a tensor."""
        self.loops += 1
        row, inner = self.fresh("v"), scope.copy()
        whole = self.pick(scope.matrices)
        if self.chance(0.4):
            index = self.fresh("k")
            inner.ints.append(index)
            self.line(depth, f"for {index}, {row} in enumerate({whole}):")
        else:
            self.line(depth, f"for {row} in {whole}:")
        inner.vectors.append(row)
        self.body(inner, scope, depth)

    def static_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Over tuples of known length."""
        index, item, factor = self.fresh("k"), self.fresh("z"), self.fresh("e")
        items = f"({self.matrix(scope, 1)}, {self.pick(scope.matrices)})"
        factors = f"({self.exact(scope, 1)}, {self.random.uniform(-1, 1):.2f})"
        self.line(depth, f"for {index}, ({item}, {factor}) in enumerate(zip({items}, {factors})):")
        inner = scope.copy()
        inner.ints.append(index)
        inner.matrices.append(item)
        inner.exact.append(factor)
        self.body(inner, scope, depth)

    def while_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.loops += 1
        count = self.fresh("c")
        self.line(depth, f"{count} = 0")
        carried = self.pick(scope.own())
        self.line(depth, f"while {count} < {self.random.randrange(2, 6)} and {carried}.abs().mean() "
                         f"{self.pick(['>', '<'])} {self.random.uniform(0.05, 0.9):.3f}:")
        inner = scope.copy()
        inner.ints.append(count)
        self.line(depth + 1, f"{count} += 1")
        self.block(inner, depth + 1, self.random.randrange(1, 3), True)
        self.line(depth + 1, f"{carried} = {carried} * 0.8 + {self.matrix(inner, 1)}.tanh() * 0.3")

    def collect(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A tensor that grows in a loop."""
        self.loops += 1
        rows, row, name = self.fresh("r"), self.fresh("v"), self.fresh("v")
        self.line(depth, f"{rows} = {self.vector(scope)}.unsqueeze(0)")
        self.line(depth, f"for {row} in {self.pick(scope.matrices)}:")
        inner = scope.copy()
        inner.vectors.append(row)
        if self.chance(0.3):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, "continue")
        added = f"({row} * {self.vector(inner, 1)}).unsqueeze(0)"
        self.line(depth + 1, f"{rows} = jitgrad.cat([{self.pick([f'{rows}, {added}', f'{added}, {rows} * 0.5'])}])")
        self.line(depth, f"{name} = {rows}.{self.pick(['mean', 'sum'])}(dim=0).tanh()")
        scope.vectors.append(name)

    def leave_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.branches += 1
        self.line(depth, f"if {self.condition(scope)}:")
        self.line(depth + 1, self.pick(["break", "continue", "break"]))

    # --- effects ---------------------------------------------------------------------------------------------------

    def output(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kind = self.random.randrange(6)
        number = self.pick(scope.ints)
        if kind == 0:
            self.line(depth, f"print('{self.counter}', {number})")
        elif kind == 1:
            self.line(depth, f"print({self.exact(scope)}, {number} / 4, f'{{{self.scalar(scope)}.item():.3f}}', "
                             f"{number} > 2, sep='|')")
        elif kind == 2:
            self.line(depth, f"assert {number} < {self.random.randrange(4, 40)}, f'too large: {{{number}}}'")
        elif kind == 3:
            name = self.fresh("i")
            self.line(depth, f"{name} = {number} // ({self.pick(scope.ints)} - 7)")
            scope.ints.append(name)
        else:
            self.branches += 1
            self.line(depth, f"if {self.scalar(scope)} > {self.random.uniform(0.5, 1.5):.3f}:")
            self.line(depth + 1, f"raise {self.pick(['ValueError', 'RuntimeError', 'IndexError'])}"
                                 f"(f'{self.counter}: {{{number}}} {{{self.exact(scope)}:.3f}} {{{number}:3d}}')")

    def give(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Numbers in an f-string with conversions and widths."""
        self.line(depth, f"print(f'{{{self.pick(scope.ints)}:>4}} {{{self.exact(scope)}:+.2e}} "
                         f"{{{self.pick(scope.ints)}!r}}', end=';\\n')")

    # --- functions -------------------------------------------------------------------------------------------------

    def helper(self) -> None:
        """A function that `f` calls."""
        name, returns = self.fresh("helper"), self.pick(["matrix", "pair"])
        outer, self.frame = self.frame, Frame("p", ("k", "p.shape[0]", "2"), returns)
        self.line(0, f"def {name}(p, q, w, k: int = 2, s: float = 0.5):")
        self.line(1, "m0 = p * 0.5 + q")
        self.line(1, "b = q.mean(dim=0)")
        self.line(1, "i0 = k")
        scope = Scope(["p", "q", "m0"], ["b"], [], ["k", "i0"])
        self.block(scope, 1, self.random.randrange(1, 3), False)
        self.line(1, f"return {self.result(scope)}")
        self.line(0, "")
        self.line(0, "")
        self.frame = outer
        self.helpers.append((name, returns))

    def program(self) -> str:
        """The source of `f` and of its helpers."""
        for _ in range(self.random.randrange(3)):
            self.helper()
        self.loops = self.branches = 0
        self.line(0, "def f(x, y, w, b, n: int, s: float):")
        self.line(1, "m0 = x * 0.5 + b")
        self.line(1, "i0 = 1")
        scope = Scope(["x", "y", "m0"], ["b"], [], ["n", "i0"])
        self.block(scope, 1, self.random.randrange(2, 6), False)
        if not self.loops:
            self.while_loop(scope, 1, False)
        if not self.branches:
            self.branch(scope, 1, False)
        terms = [f"{m}.tanh().sum()" for m in self.random.sample(scope.matrices, min(3, len(scope.matrices)))]
        terms += self.random.sample(scope.scalars, min(1, len(scope.scalars)))
        self.line(1, f"return {' + '.join(terms)} + m0.sum()")
        return "\n".join(self.lines) + "\n"
