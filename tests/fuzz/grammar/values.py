"""Assignments, tuples, closures, calls."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Values(Writer):
    """Assignments, tuples, closures, calls."""

    def assign(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kind = self.random.randrange(8)
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
        elif kind == 6:
            name, text, names = self.fresh("q"), self.truth(scope), scope.bools
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

    def function(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A nested function with a default argument and several returns; it may count its calls."""
        name = self.fresh("g")
        inner = scope.copy()
        inner.matrices += ["z", "z"]
        inner.ints.append("j")
        inner.functions = []
        counted = self.chance(0.4)
        self.line(depth, f"def {name}(z, j={self.pick([str(self.random.randrange(3)), *scope.ints])}):")
        if counted:
            self.line(depth + 1, "nonlocal i0")
            self.line(depth + 1, f"i0 += {self.random.randrange(1, 3)}")
        self.branches += 1
        self.line(depth + 1, f"if {self.condition(inner)}:")
        self.line(depth + 2, f"return {self.matrix(inner, 1)}")
        if self.chance(0.4):
            self.line(depth + 1, "for _ in range(j):")
            self.line(depth + 2, f"z = (z * 0.5 + {self.matrix(inner, 1)}).tanh()")
        self.line(depth + 1, f"return {self.matrix(inner, 1)}")
        scope.functions.append(name)

    def select(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """`match` on a number."""
        self.branches += 1
        self.line(depth, f"match {self.integer(scope)} % 4:")
        cases = ["case 0:", self.pick(["case 1 | 2:", "case 1:"])]
        cases += self.pick([["case _:"], [], [f"case v if v > {self.random.randrange(4)}:", "case _:"]])  # type: ignore[arg-type,list-item]
        for text in cases:
            self.line(depth + 1, text)
            self.block(scope.copy(), depth + 2, 1, in_loop)

    def random_number(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Random draws; their values steer what follows."""
        base = self.frame.base
        kind = self.random.randrange(4)
        if kind == 0:
            name = self.fresh("m")
            self.line(depth, f"{name} = {self.pick(scope.matrices)} * "
                             f"(jitgrad.rand({base}.shape, dtype=jitgrad.float64) < 0.6)")
            scope.matrices.append(name)
        elif kind == 1:
            name = self.fresh("i")
            self.line(depth, f"{name} = int(jitgrad.randint(0, {self.random.randrange(2, 6)}, (1,)))")
            scope.ints.append(name)
        elif kind == 2:
            name = self.fresh("q")
            self.line(depth, f"{name} = jitgrad.rand(()).item() < {self.random.uniform(0.2, 0.8):.2f}")
            scope.bools.append(name)
        else:
            name = self.fresh("m")
            self.line(depth, f"{name} = {self.matrix(scope, 1)} + jitgrad.randn({base}.shape, "
                             f"dtype=jitgrad.float64) * 0.1")
            scope.matrices.append(name)
