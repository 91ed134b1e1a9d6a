"""Branches, loops and the ways out of them."""

from __future__ import annotations

from dataclasses import fields

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Control(Writer):
    """Branches, loops and the ways out of them."""

    extra: list[str]  # what `f` returns besides its scalar, where it does

    def result(self, scope: Scope) -> str:
        """What the function returns here."""
        if self.frame.returns == "matrix":
            return self.matrix(scope)
        if self.frame.returns == "pair":
            return f"{self.matrix(scope)}, {self.scalar(scope)}"
        if self.extra:
            return f"{self.scalar(scope)} + {self.matrix(scope)}.sum() * 0.1, {self.integer(scope)}"
        return f"{self.scalar(scope)} + {self.matrix(scope)}.sum() * 0.1"

    def branch(self, scope: Scope, depth: int, in_loop: bool) -> None:
        self.branches += 1
        self.line(depth, f"if {self.condition(scope)}:")
        then, other = scope.copy(), scope.copy()
        self.block(then, depth + 1, self.random.randrange(1, 3), in_loop)
        if self.chance(0.15):
            self.line(depth + 1, f"return {self.result(then)}")
        elif self.chance(0.3):
            self.line(depth, f"elif {self.condition(scope)}:")
            self.block(scope.copy(), depth + 1, 1, in_loop)
        if self.chance(0.6):
            self.line(depth, "else:")
            self.block(other, depth + 1, self.random.randrange(1, 3), in_loop)
        if self.chance(0.02):  # names that may be unbound
            for f in fields(scope):
                names = getattr(scope, f.name)
                names.extend(n for n in getattr(then, f.name) if n not in names)
            return
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
        if self.chance(0.3):
            scope.maybes.append(name)
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
        self.otherwise(scope, depth)

    def otherwise(self, scope: Scope, depth: int) -> None:
        """The `else` of a loop."""
        if self.chance(0.2):
            self.line(depth, "else:")
            self.block(scope.copy(), depth + 1, 1, False)

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

    def other_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Over other ranges, lists, several tensors at once."""
        self.loops += 1
        inner, index = scope.copy(), self.fresh("k")
        kind = self.random.randrange(5)
        if kind == 0:
            i = self.pick(scope.ints)
            over = self.pick([f"range({i} % 5, -1, -2)", f"reversed(range({i} % 4))", f"range(1, {i} % 6, 2)"])
            self.line(depth, f"for {index} in {over}:")
            inner.ints.append(index)
        elif kind == 1 and scope.lists:
            row = self.fresh("v")
            name = self.pick(scope.lists)
            self.line(depth, self.pick([f"for {row} in {name}[:]:", f"for {row} in list({name}):"]))
            inner.vectors.append(row)
        elif kind == 2 and scope.numbers:
            self.line(depth, f"for {index} in {self.pick(scope.numbers)}[:]:")
            inner.ints.append(index)
        elif kind == 3:
            u, v = self.fresh("v"), self.fresh("v")
            both = f"{self.pick(scope.matrices)}, {self.matrix(scope, 1)}"
            self.line(depth, f"for {index}, ({u}, {v}) in enumerate(zip({both})):")
            inner.vectors += [u, v]
            inner.ints.append(index)
        else:
            name = self.fresh("f")
            self.line(depth, f"for {name} in (jitgrad.tanh, jitgrad.sin, lambda z: z * {self.number(scope)}):")
            inner.functions.append(name)
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
        self.otherwise(scope, depth)

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
