"""Random expressions by kind, over the names that may be read at a place."""

from __future__ import annotations

import random
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
    bools: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)  # of vectors, any length
    numbers: list[str] = field(default_factory=list)  # lists of ints, any length

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
    weight: str = "w"  # [D, D]

    @property
    def main(self) -> bool:
        """Whether this is `f`, which knows the box and the other arguments."""
        return self.returns == "scalar"


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
        kind = self.random.randrange(17 if depth < 2 and not self.chance(0.15 * depth) else 2)

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
            w = self.frame.weight
            return self.pick([f"{m()}.mm({w}).tanh()", f"({m()} @ {w}).sin()",
                              f"jitgrad.matmul({m()}, {w}.t()).tanh()"])
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
        if kind == 15 and scope.lists:
            return f"({m()} + {self.element(scope)})"
        if kind == 16 and self.chance(0.5):
            return f"({m()} if {self.condition(scope, 2)} else {m()})"
        return f"({m()} * {self.number(scope)})"

    def element(self, scope: Scope) -> str:
        """A vector out of a list that may be too short."""
        name, k = self.pick(scope.lists), self.pick(scope.ints)
        fallback = self.pick(scope.vectors) if scope.vectors else "0.5"
        return self.pick([f"({name}[-1] if {name} else {fallback})",
                          f"({name}[{k} % len({name})] if len({name}) > 0 else {fallback})",
                          f"({name}[{k}] if 0 <= {k} < len({name}) else {fallback})",
                          f"(sum({name}) if len({name}) > 1 else {fallback})",
                          f"({name}[-2:][0] if len({name}) >= 2 else {fallback})"])

    def normalised(self, operand: str) -> str:
        return self.pick([
            f"{NN}.layer_norm({operand}, (w.shape[{self.random.randrange(2)}],))",
            f"{NN}.log_softmax({operand}, dim=1).tanh()", f"{NN}.softmax({operand}, dim=-1)",
            f"{NN}.linear({operand}, w).tanh()",
        ])

    def indexed(self, operand: str) -> str:
        """Rows or columns by integer tensors, in another order."""
        base = self.frame.base
        if self.chance(0.3):
            rows = f"max({base}.shape[0], 1)"
            return self.pick([f"({operand})[jitgrad.randperm({base}.shape[0])]",
                              f"({operand}).gather(0, jitgrad.randint(0, {rows}, {base}.shape))",
                              f"jitgrad.cat([({operand})[1:], ({operand})[:1]])",
                              f"jitgrad.stack([({operand})[k] for k in range({base}.shape[0] - 1, -1, -1)])"
                              if self.chance(0.3) else f"({operand}).roll(1, 0)"])
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
        kind = self.random.randrange(8 if depth < 2 else 1)
        if kind == 7 and scope.lists:
            return self.element(scope)
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
        kind = self.random.randrange(8)
        if kind == 6 and scope.bools:
            return self.pick([f"({self.pick(scope.ints)} + {self.pick(scope.bools)})", f"int({self.pick(scope.bools)})",
                              f"({self.pick(scope.ints)} if {self.pick(scope.bools)} else {self.random.randrange(5)})"])
        if kind == 7:
            return self.counted(scope)
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

    def counted(self, scope: Scope) -> str:
        """Ints out of lists, rounding and division."""
        i = self.pick(scope.ints)
        options = [f"round({self.exact(scope, 1)})", f"int({self.exact(scope, 1)})", f"divmod({i}, 3)[{i} % 2]",
                   f"({i} or 2)", f"({i} and 3)", f"(({i} % 4) << 2 >> 1)", f"({i} & 3 | 4)", f"({i} ^ 5)"]
        if scope.lists:
            options += [f"len({self.pick(scope.lists)})"] * 2
        if scope.numbers:
            name = self.pick(scope.numbers)
            options += [f"sum({name})", f"len({name})", f"({name}[-1] if {name} else -1)",
                        f"max([0] + {name})", f"({name}[{i} % len({name})] if {name} else {i})"]
        return self.pick(options)

    def condition(self, scope: Scope, depth: int = 0) -> str:
        """Data-dependent."""
        kind = self.random.randrange(11 if depth < 2 else 4)
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
        if kind == 7:
            return f"({self.matrix(scope, 1)} > 0.9).any()"
        return self.truth(scope)

    def truth(self, scope: Scope) -> str:
        """A bool that is the same however it is computed: of bools, lists, None, numbers."""
        kind = self.random.randrange(7)
        if kind == 0 and scope.bools:
            return self.pick(["", "not "]) + self.pick(scope.bools)
        if kind == 1 and scope.maybes:
            return f"{self.pick(scope.maybes)} is {self.pick(['', 'not '])}None"
        if kind == 2 and scope.lists:
            return f"len({self.pick(scope.lists)}) {self.pick(['>', '==', '<='])} {self.random.randrange(3)}"
        if kind == 3 and scope.numbers:
            name = self.pick(scope.numbers)
            return self.pick([f"{self.pick(scope.ints)} in {name}", name, f"not {name}", f"len({name}) > 1"])
        if kind == 4:
            return f"bool({self.integer(scope)} % 2)"
        if kind == 5:
            return f"{self.exact(scope, 1)} {self.pick(['>', '<=', '!='])} {self.exact(scope, 1)}"
        return f"{self.integer(scope)} % 3 == {self.random.randrange(3)}"
