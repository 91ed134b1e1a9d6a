"""Prints, assertions, exceptions."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Effects(Writer):
    """Prints, assertions, exceptions."""

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
        elif kind == 3 and not self.guarded:
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

    def text(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Text made in other ways."""
        i, e = self.pick(scope.ints), self.exact(scope, 1)
        truth = self.truth(scope)
        self.line(depth, self.pick([
            f"print('%d|%5.2f|%s' % ({i}, {e}, {truth}))",
            f"print('{{}} {{:>6}} {{!r}}'.format({truth}, {i}, {e}))",
            f"print(str({i}) + '/' + str({truth}), {e})",
            f"print({i} if {truth} else {e}, None if {truth} else {i})",
            f"print(({i}, {truth}), [{i}, {e}], {i} / 2, {i} // 2.0, -{i} % 3)",
            f"print(f'{{{self.scalar(scope)}.item():8.3f}}', f'{{{truth}}} {{{i}:04d}}', sep='', end='.\\n')",
            f"print({self.pick(scope.matrices)}.shape, tuple({self.pick(scope.matrices)}.shape))",
            *([f"print(len({self.pick(scope.lists)}))"] if scope.lists else []),
            *([f"print(len({self.pick(scope.numbers)}), {i})"] if scope.numbers else []),
        ]))

    def handled(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """An exception raised under a condition and handled around it."""
        self.branches += 1
        error = self.pick(["ValueError", "NotImplementedError", "KeyError"])
        tag = self.counter
        self.line(depth, "try:")
        inner = scope.copy()
        self.guarded += 1
        self.block(inner, depth + 1, 1, in_loop)
        self.line(depth + 1, f"if {self.condition(inner)}:")
        self.line(depth + 2, f"raise {error}('{tag}')")
        self.block(inner, depth + 1, 1, in_loop)
        self.guarded -= 1
        if self.chance(0.8):
            caught = self.pick([error, error, f"(NotImplementedError, {error})", "Exception"])
            self.line(depth, f"except {caught}:")
            self.line(depth + 1, f"print('caught {tag}')")
            self.line(depth + 1, f"m0 = {self.matrix(scope, 1)}")
            if self.chance(0.3):
                self.line(depth, "else:")
                self.block(inner, depth + 1, 1, in_loop)
            last = self.chance(0.3)
        else:
            last = True
        if last:
            self.line(depth, "finally:")
            self.line(depth + 1, f"print('finally {tag}', {self.pick(scope.ints)})")

    def attribute(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """The object is read and written."""
        if not self.frame.main:
            return self.text(scope, depth, in_loop)
        kind = self.random.randrange(8)
        if kind == 0:
            self.line(depth, self.pick([f"box.count += {self.integer(scope)} % 4", "box.count -= 1",
                                        f"box.count = {self.integer(scope)}"]))
        elif kind == 1:
            self.line(depth, self.pick(["box.scale *= 0.5", f"box.scale = {self.exact(scope)}", "box.scale += s"]))
        elif kind == 2:
            self.line(depth, f"box.total = (box.total * 0.5 + {self.vector(scope, 1)}.detach()).clone()")
        elif kind == 3:
            self.line(depth, "with jitgrad.no_grad():")
            self.line(depth + 1, self.pick([f"box.total.add_({self.vector(scope, 1)})",
                                            f"box.total *= {self.exact(scope, 1)} % 1",
                                            f"box.total[0] = {self.exact(scope, 1)}", "box.total.mul_(0.9)"]))
        elif kind == 4:
            self.branches += 1
            self.line(depth, "if box.last is not None:")
            self.line(depth + 1, "m0 = (m0 + box.last * 0.3).tanh()")
            made = f"{self.matrix(scope, 1)}.detach()"
            self.line(depth, f"box.last = {self.pick([made, made, 'None'])}")
        elif kind == 5:
            name = self.fresh("i")
            self.line(depth, f"{name} = box.bump({self.integer(scope)} % 4)")
            scope.ints.append(name)
        elif kind == 6:
            name = self.fresh("e")
            self.line(depth, f"{name} = box.scale if {self.truth(scope)} else {self.exact(scope, 1)}")
            scope.exact.append(name)
        else:
            self.line(depth, "print(box.count, f'{box.scale:.3f}', box.last is None)")
