"""Objects that hold tensors and lists, functions made by loops, exceptions of own classes, views of views."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Objects(Writer):
    """Objects that hold tensors and lists, functions made by loops, exceptions of own classes, views of views."""

    def record(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Dataclasses, changed by a loop, perhaps known by two names, replaced and compared."""
        one, other = self.fresh("r"), self.fresh("r")
        self.line(depth, f"{one} = Record({self.matrix(scope, 1)}, {self.integer(scope)})")
        self.line(depth, f"{other} = {self.pick([one, f'Record({one}.h * 0.5)', f'replace({one}, n=2)'])}")
        self.loops += 1
        k = self.fresh("k")
        inner = scope.copy()
        inner.ints += [k, f"{one}.n"]
        inner.matrices += [f"{one}.h", f"{other}.h"]
        self.line(depth, f"for {k} in range({self.pick(self.frame.bounds)}):")
        if self.chance(0.4):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, self.pick(["continue", "break", f"{one}, {other} = {other}, {one}"]))
        self.line(depth + 1, self.pick([f"{one}.h = {self.matrix(inner, 1)}.tanh()", f"{one}.n += {k}",
                                        f"{other}.marks.append({self.integer(inner)} % 5)",
                                        f"{one}.marks = [{k}, *{other}.marks[:2]]"]))
        self.line(depth, f"print({one}.n, {other}.marks, {one} is {other}, {one}.marks == {other}.marks)")
        name = self.fresh("m")
        self.line(depth, f"{name} = ({one}.h + {other}.h * {other}.n).tanh()")
        scope.matrices.append(name)

    def made_by_loop(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Functions that a loop makes, with what it holds then and with what it holds last."""
        fs, k = self.fresh("fs"), self.fresh("k")
        self.line(depth, f"{fs} = []")
        self.line(depth, f"for {k} in (1, 2, {self.random.randrange(3, 6)}):")
        inner = scope.copy()
        inner.ints.append(k)
        self.line(depth + 1, f"{fs}.append(lambda z, j={k}: (z * j * 0.1 + {self.number(inner)} * {k}).tanh())")
        self.line(depth, f"m0 = sum([g({self.pick(scope.matrices)}) for g in {fs}]) * 0.3")

    def attempts(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """`try` in a loop, left by every way out, with exceptions of an own class."""
        k, tag = self.fresh("k"), self.counter
        self.loops += 1
        self.branches += 2
        inner = scope.copy()
        inner.ints.append(k)
        self.line(depth, f"for {k} in range({self.pick(self.frame.bounds)}):")
        self.line(depth + 1, "try:")
        self.line(depth + 2, f"if {self.condition(inner)}:")
        self.line(depth + 3, self.pick([f"raise Odd('{tag}')", f"raise Odd({k})", "continue", "break"]))
        self.line(depth + 2, f"if {self.integer(inner)} == {self.random.randrange(4)}:")
        self.line(depth + 3, self.pick([f"raise ValueError({k}, '{tag}')", f"raise Odder('{tag}')", "continue"]))
        self.line(depth + 2, f"m0 = m0 * 0.5 + {self.matrix(inner, 1)}.tanh()")
        self.line(depth + 1, f"except {self.pick(['Odd', 'ValueError', 'Odder'])} as error:")
        self.line(depth + 2, f"print('{tag}', type(error).__name__, error)")
        if self.chance(0.4):
            self.line(depth + 2, self.pick(["continue", "break"]))
        if self.chance(0.5):
            self.line(depth + 1, f"except {self.pick(['Exception', '(KeyError, ValueError)'])}:")
            self.line(depth + 2, f"i0 = (i0 + {k}) % 5")
        else:
            self.line(depth + 1, "except ValueError:")
            self.line(depth + 2, "pass")
        if self.chance(0.4):
            self.line(depth + 1, "else:")
            self.line(depth + 2, f"print('else', {k})")
        if self.chance(0.6):
            self.line(depth + 1, "finally:")
            self.line(depth + 2, self.pick([f"print('last', {k})", "i0 = (i0 + 1) % 6", "m0 = m0 * 0.9"]))

    def starred(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Arguments of every kind, taken apart on both sides."""
        name, a, rest = self.fresh("g"), self.fresh("i"), self.fresh("rest")
        self.line(depth, f"def {name}(z, *zs, k=1, **more):")
        self.line(depth + 1, "for j, q in enumerate(zs, k):")
        self.line(depth + 2, "z = (z + q * j).tanh()")
        self.line(depth + 1, "return z * len(more), sorted(more), k")
        ms = ", ".join(self.random.choices(scope.matrices, k=self.random.randrange(1, 4)))
        given = self.pick([f"*({ms},)", f"{self.matrix(scope, 1)}, *[{ms}], k={self.integer(scope)}",
                           f"*[{ms}], **{{'k': {self.integer(scope)}, 'a': 1}}", f"{ms}, b=2, **dict(c=3)"])
        self.line(depth, f"m0, *{rest}, {a} = {name}({given})")
        self.line(depth, f"print({rest}, {a})")
        scope.ints.append(a)

    def keys(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Comprehensions of dicts and sets, and what is taken out of them."""
        d, s = self.fresh("d"), self.fresh("s")
        self.loops += 1
        bound = self.pick(self.frame.bounds)
        inner = scope.copy()
        inner.ints += ["j", "j"]
        self.line(depth, f"{d} = {{j: {self.integer(inner)} for j in range({bound}) if {self.truth(inner)}}}")
        self.line(depth, f"{s} = {{{self.integer(inner)} % 4 for j in range({bound})}}")
        self.line(depth, self.pick([f"{d}.pop(1, None)", f"{d}[{self.integer(scope)} % 3] = 7", f"{s}.add(9)",
                                    f"{s}.discard(1)", f"{d}.update({{0: 5}})"]))
        self.line(depth, f"if {self.integer(scope)} % 3 in {d}:")
        self.line(depth + 1, f"del {d}[{self.pick(['list(' + d + ')[0]', 'next(iter(' + d + '))'])}]")
        self.line(depth, f"print({d}, sorted({s}), len({s}), 2 in {s}, sum({d}.values()), max({d}, default=-1))")

    def cut(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Parts of lists of numbers, read, set and deleted, with steps."""
        name, i, j = self.fresh("ns"), self.pick(scope.ints), self.random.randrange(-3, 4)
        start = self.pick([*scope.numbers, "[0, 1, 2, 3, 4]", f"range({self.pick(self.frame.bounds)})"])
        self.line(depth, f"{name} = list({start})")
        self.line(depth, self.pick([
            f"{name}[{j}:] = [8, {i}]", f"del {name}[::2]", f"{name}[{i} % 3:{i} % 3] = {name}[::-1]",
            f"{name} = {name}[::{j or 2}]", f"{name}[1:-1] = []", f"del {name}[{j}:{j + 2}]",
            f"{name} = {name}[{i} % 4::2] + {name}[:{i} % 4][::-1]", f"{name} += [{i}, *{name}[:2]]",
            f"{name} = {name} * ({i} % 3)", f"{name}.sort(reverse=True)"]))
        self.line(depth, f"print({name}, {name}[::2], {name}[-2:], {name}[:{i}] == {name}, {name} > [1, 2])")
        scope.numbers.append(name)

    def named_at_once(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Names bound by expressions."""
        self.loops += 1
        t, c = self.fresh("t"), self.fresh("c")
        self.line(depth, f"{c} = 0")
        self.line(depth, f"while ({t} := {self.scalar(scope)}) > {self.random.uniform(-0.3, 0.3):.3f} and "
                         f"({c} := {c} + 1) < {self.random.randrange(2, 5)}:")
        self.line(depth + 1, f"m0 = (m0 * 0.5 - {self.matrix(scope, 1)} * {t}).tanh()")
        self.line(depth, f"print({c}, [q for j in range({self.pick(self.frame.bounds)}) if (q := j * {c}) != 2])")
        scope.ints.append(c)

    def views_of_views(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Overlapping views of views of a fresh copy, written while nothing is recorded, or by turns."""
        m, one, two = self.fresh("m"), self.fresh("u"), self.fresh("u")
        k = self.pick(scope.ints)
        self.line(depth, f"{m} = ({self.matrix(scope, 1)}){self.pick(['.clone()', '.detach() * 1.0', ' * 1.0'])}")
        self.line(depth, "if True:" if self.chance(0.3) else "with jitgrad.no_grad():")
        paths = ["[1:]", "[:-1]", ".t()", "[::2]", f"[{k} % 2:]", f"[:{k} % 3]", ".view(-1)[1:]", "[:, 1:]", "[:, ::2]",
                 ".reshape(-1)[::3]", ".unsqueeze(0)"]
        self.line(depth + 1, f"{one} = {m}{self.pick(paths)}")
        self.line(depth + 1, f"{two} = {self.pick([one, m])}{self.pick(paths[:9])}")
        changes = ["*= 0.5", "+= 0.25", f"*= {self.number(scope)}", f"-= {k} % 3 * 0.1"]
        for _ in range(self.random.randrange(2, 4)):
            which = self.pick([one, two, m])
            self.line(depth + 1, self.pick([f"{which} {self.pick(changes)}", f"{which}[...] = {which} * 0.3 + 0.1",
                                            f"{which}.neg_()", f"{which}.copy_({which}.flip(0))"]))
        self.line(depth, f"m0 = (m0 + {m}).tanh() + {one}.sum().tanh() * 0.1 + {two}.mean().tanh().nan_to_num() * 0.1")
        scope.matrices.append(m)

    def large(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Ints that no float holds."""
        a, i = self.fresh("j"), self.pick(scope.ints)
        self.line(depth, f"{a} = {self.pick([f'2 ** 53 + {i} % 9', f'-2 ** 60 - {i} % 100', f'(1 << 57) - {i} % 7'])}")
        self.line(depth, f"print({a}, {a} % 7, {a} // -3, {a} & 255, {a} == float({a}), {a} < {a} + 1.0, {a} / 3)")
        self.line(depth, f"print(int(float({a})), max({a}, {a} + 0.5), jitgrad.tensor({a}), [1, {a}].index({a}))")
        self.line(depth, f"i0 = {a} % 5")

    def deep(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Recursion that the run bounds."""
        name, bound = self.fresh("rec"), self.pick(self.frame.bounds)
        self.branches += 1
        self.line(depth, f"def {name}(z, j):")
        self.line(depth + 1, "if j <= 0:")
        self.line(depth + 2, f"return z * {self.number(scope)}")
        factor = self.pick(["", " * 0.5"])
        self.line(depth + 1, f"return {name}((z + {self.matrix(scope, 2)} * j).tanh(), j - 1){factor}")
        self.line(depth, f"m0 = {name}({self.matrix(scope, 1)}, {bound})")

    def flags(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Whether tensors require a gradient, and how they were made."""
        m = self.pick(scope.matrices)
        options = [f"{m}.requires_grad", f"({m} * 2).is_leaf", f"({m} * 2).grad_fn is None", f"{m}.detach().is_leaf"]
        options += [f"[r.requires_grad for r in {name}]" for name in scope.lists]
        self.line(depth, f"print({self.pick(options)})")

    def beside(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """An endless generator beside what ends."""
        name, a, k = self.fresh("gen"), self.fresh("v"), self.fresh("k")
        self.loops += 1
        self.line(depth, f"def {name}(j):")
        self.line(depth + 1, "while True:")
        self.line(depth + 2, "yield j")
        self.line(depth + 2, f"j = (j + {self.random.randrange(1, 4)}) % 7")
        made = f"{name}({self.integer(scope)} % 5)"
        rows = self.pick(scope.matrices)
        self.line(depth, self.pick([f"for {a}, {k} in zip({rows}, {made}):", f"for {k}, {a} in zip({made}, {rows}):",
                                    f"for {k}, {a} in zip(itertools.count(2), {rows}):",
                                    f"for {a}, {k} in zip({rows}, itertools.cycle([1, {self.integer(scope)} % 3])):"]))
        self.line(depth + 1, f"m0 = (m0 + {a} * {k}).tanh()")
        self.line(depth, f"print(list(itertools.islice({made}, {self.pick(self.frame.bounds)})))")

    def same(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Containers with tensors in them, compared, where an item before the tensor decides, or it is the same one."""
        m, i = self.pick(scope.matrices), self.integer(scope)
        self.line(depth, f"print(({i}, {m}) == ({i}, {m}), [1, {m}] == [2, {m}], {m} in [{m}], 1 in (1, {m}))")
