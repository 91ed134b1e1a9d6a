"""Writes in place, through views and aliases."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Memory(Writer):
    """Writes in place, through views and aliases."""

    def write(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """In-place, on a fresh copy and through a view of it."""
        name = self.fresh("m")
        self.line(depth, f"{name} = ({self.matrix(scope, 1)}).clone() * 1.0")
        kind = self.random.randrange(9)
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
            self.line(depth, f"{name}.{self.pick(['clamp_(-0.9, 0.9)', 'tanh_()', 'neg_()', 'zero_()'])}")
        elif kind == 6:
            self.line(depth, f"{name}.{self.pick(['mul_', 'add_', 'copy_', 'sub_'])}({self.matrix(scope, 1)})")
        elif kind == 7:
            self.row_write(scope, depth, name)
        elif kind == 8:
            self.line(depth, f"{name}.masked_fill_({self.matrix(scope, 2)} > 0.1, {self.random.uniform(-1, 1):.2f})")
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

    def row_write(self, scope: Scope, depth: int, name: str) -> None:
        """Every row, one after another, perhaps from the one before."""
        self.loops += 1
        index = self.fresh("k")
        inner = scope.copy()
        inner.ints.append(index)
        self.line(depth, f"for {index} in range({name}.shape[0]):")
        if self.chance(0.3):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, self.pick(["continue", "break"]))
        self.line(depth + 1, self.pick([
            f"{name}[{index}, :] = {self.vector(inner, 1)}",
            f"{name}[{index}] += {name}[{index} - 1] * 0.5 + {self.vector(inner, 1)}",
            f"{name}[{index}, 0] = {self.number(inner)}",
            f"{name}[:{index}] *= 0.9",
            f"{name}[{index}:{index} + 2] += {self.vector(inner, 1)}",
        ]))

    def alias(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Another name, or one of two, for fresh memory that is then written."""
        first, second, other = self.fresh("m"), self.fresh("m"), self.fresh("u")
        self.line(depth, f"{first} = {self.matrix(scope, 1)} * 1.0")
        self.line(depth, f"{second} = {self.matrix(scope, 1)} + 0.0")
        kind = self.random.choice((0, 1, 2, 3, 4, 4, 4, 4))
        if kind == 4:
            self.line(depth, f"{other} = {first}")
            self.line(depth, f"if {self.condition(scope)}:")
            depth += 1
        elif kind == 0:
            self.line(depth, f"{other} = {first} if {self.condition(scope)} else {second}")
        elif kind == 1:
            self.branches += 1
            self.line(depth, f"{other} = {first}")
            self.line(depth, f"if {self.condition(scope)}:")
            self.line(depth + 1, f"{other} = {second}")
        elif kind == 2:
            self.line(depth, f"{other} = ({first}, {second})[{self.integer(scope)} % 2]")
        else:
            self.loops += 1
            self.line(depth, f"{other} = {first}")
            self.line(depth, f"for _ in range({self.pick(self.frame.bounds)}):")
            self.line(depth + 1, f"{other} = {other} + {self.number(scope)}")
            if self.chance(0.5):
                self.line(depth + 1, f"{other} *= 0.5")
        row = self.fresh("v")
        self.line(depth, self.pick([f"{other} *= 0.5", f"{other}[1:] = {self.vector(scope, 1)}",
                                    f"{other} += {self.matrix(scope, 1)}", f"{other}[:, 0] = {self.number(scope)}",
                                    f"{other}.t()[0] += 0.3", f"jitgrad.nn.functional.relu_({other})",
                                    f"jitgrad.transpose({other}, 0, 1)[0].neg_()",
                                    f"for {row} in {other}: {row}.mul_({self.number(scope)})",
                                    f"for {row}, {row}b in zip({other}, {first}): {row} += {row}b * 0.3",
                                    f"next(iter({other})).copy_({self.vector(scope, 1)})"]))
        if kind == 4 and self.chance(0.3):
            self.line(depth, f"print({first} is {other}, {second} is {other})")
        scope.matrices += [first, second, other]

    def data(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """The argument that needs no gradient is written; the caller sees it."""
        if not self.frame.main:
            return self.write(scope, depth, in_loop)
        i = self.pick(scope.ints)
        if self.chance(0.3):
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            depth += 1
        self.line(depth, self.pick([
            "c *= 0.5", f"c += {self.exact(scope, 1)}", f"c[0] = {self.vector(scope, 1)}.detach()",
            "c[:, 0] += b.detach()[0]",
            f"c.copy_({self.matrix(scope, 1)}.detach())", "c[c > 0.5] = 0.25",
            f"c[{i} % 2] *= {self.exact(scope, 1)} % 1",
            f"c[-1, {i} % w.shape[0]] = {self.exact(scope, 1)} % 2", "c.t()[0].neg_()", "c[1:] = c[:-1].clone()",
        ]))
