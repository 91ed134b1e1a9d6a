"""Programs of a few lines about what refers to what: found faster, and made smaller, than what long ones find.

    python -m tests.fuzz.tiny --count 500 --seed 0

Each is run eagerly and by the graph interpreter (what may be wrong here is what the frontend makes of a program), on
four calls, and compared are results with the identities of tensors, lists and objects in them, printed text,
exceptions, what arguments hold afterwards, and gradients. Not compared: how often memory was written that a gradient
needed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jitgrad
from jitgrad import config
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import ScriptError
from tests.fuzz.beside import close
from tests.fuzz.session import ERRORS, compile_source
from tests.fuzz.shrink import shrink

#: n and flag of the calls
CALLS = ((2, True), (3, False), (0, True), (1, False))
SECONDS = 15.0  # of processor time, for a program


@dataclass
class Node:
    """What programs make objects of."""

    h: Any
    n: int = 1
    marks: list[int] = field(default_factory=list)
    kid: Node | None = None


@dataclass
class Ordinal:
    """A number to those who ask it."""

    v: int

    def __int__(self) -> int:
        return self.v * 10

    def __index__(self) -> int:
        return abs(self.v) % 3


class Scope:
    """A context manager that notes what happens to it."""

    def __init__(self, log: list[int]):
        self.log = log

    def __enter__(self) -> Scope:
        self.log.append(7)
        return self

    def __exit__(self, *raised: object) -> None:
        self.log.append(8)


#: what programs name
GIVEN = {"Node": Node, "Ordinal": Ordinal, "Scope": Scope}


# --- the grammar: `$t` is a variable of a kind, `@t` an expression of it, `#` a small number -------------------------

#: kind -> expressions. t: tensor, i: int, c: condition, l: list of ints, L: of lists, T: of tensors, r: object, R: list
#: of objects, d: dict of lists, D: of tensors, k: its key, u: tuple, o, p: object, tensor or None, s: string; m: a
#: tensor that is no leaf at first; v: a number or something else, w: tuple of ints, N: an `Ordinal`; f, g, y, Y: a
#: function of a tensor or an int, a generator function of one
EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "i": ("#", "#", "$i", "$i", "$i", "$i + #", "$i - #", "$i * #", "$i // 2", "$i % 3", "len($l)", "sum($l)", "$r.n",
          "$l[@i]", "$u[1]", "len($D)", "$g(@i)", "len($s)", "$w[@i]", "$w.count(@i)", "int($N)", "$l[$N]",
          "sum($Y(@i))", "max($l, default=0)", "next((q for q in $l if q > @i), #)", "divmod(@i, 2)[0]"),
    "c": ("@i < @i", "@i == @i", "@i != @i", "flag", "not flag", "$t.sum() > #", "3 < 2", "@i % 2", "@i and flag",
          "@i or flag", "$r is $r", "$t is $t", "$l == $l", "$l is $l", "$l", "@i in $l", "$o is None", "$p is None",
          "@k in $D", "$v is True", "$v == @i", "isinstance($v, int)", "any(q > @i for q in $l)",
          "all(q > @i for q in $Y(@i))", "@i < @i <= @i"),
    "t": ("$t", "$t", "$t", "$t * 0.5", "$t + $t", "$t * @i", "$t.tanh()", "$t.detach()", "$t.clone()", "$t.view(2)",
          "$t[:]", "$t.flip(0)", "$t.expand(2)", "jitgrad.where($t > 0, $t, $t)", "$r.h", "$T[0]", "$T[-1]", "$D[@k]",
          "$u[0]", "$f($t, @i)", "$f($t, @i)", "$p if @c else $t"),
    "l": ("[@i]", "[]", "[@i, @i]", "[0] * (n % 4)", "$l", "$l", "$l", "list($l)", "$l[:2]", "$l[:3] + [@i]",
          "$r.marks", "$L[0]", "$L[n % 2]", "$d[0]", "[q for q in range(@i)]", "[q * 2 for q in $l if q > @i]",
          "sorted([@i, @i])"),
    "r": ("Node(@t, @i, @l)", "Node(@t)", "$r", "$r", "$r", "replace($r, n=2)", "$R[0]", "$R[-1]"),
    "L": ("[@l, @l]",), "T": ("[@t, @t]", "([@t] if @c else [@t, @t])"), "R": ("[@r, @r]",), "d": ("{0: @l, 1: @l}",),
    "D": ("{'a': @t}", "({'a': @t} if @c else {'b': @t})", "{'a': @t, 'b': @t}", "{}", "$D", "dict($D)",
          "{**$D, 'c': @t}"),
    "u": ("(@t, @i)",), "k": ("'a'", "'b'", "'c'"),
    "o": ("@r if @c else None",), "p": ("@t if @c else None",),
    "v": ("@i if @c else 'ab'", "@c if @c else @i", "@i if @c else None", "@i if @c else 2.5", "$v", "$i"),
    "w": ("(@i, 2, @i)", "($i, @i, $i)", "$w", "tuple($l)[:2]"), "N": ("Ordinal(@i)", "$N"),
    "s": ("'a' if @c else 'b'", "f'{@i}'", "str(@i) + 'x'"),
}
STATEMENTS: tuple[str, ...] = (
    "$t = @t", "$t = @t", "$t, $t = $t, $t", "$m += @t", "$m *= 0.5", "$m[0] = #", "$m[@i] += 1", "$m.zero_()",
    "$m.copy_(@t)", "$t += 1", "print($t.sum().item())", "$i = @i", "$i += 1", "print(@i)", "if @c: assert flag, 'no'",
    "$l, $l = $l, $l", "$l = $l", "$l = @l", "$l.append(@i)", "$l.append(@i)", "$l += [@i]", "$l[0] = @i", "$l.pop()",
    "$l.extend($l[:2])", "$l.clear()", "$l[:] = $l[:3]", "$l.insert(0, @i)", "del $l[0]", "$l.remove(@i)",
    "$i = $l.index(@i)", "$l.sort()", "$l.reverse()", "print($l)",
    "$r, $r = $r, $r", "$r = @r", "$r.marks.append(@i)", "$r.n += @i", "$r.marks = @l", "$r.h = @t", "$r.h *= 0.5",
    "$r.kid = $r", "$r.kid = None", "if $r.kid is not None: $r.kid.n += 1", "if $r.kid is not None: $r = $r.kid",
    "$L.append(@l)", "$L[n % 2].append(@i)", "$L[0] = @l", "$L[0], $L[1] = $L[1], $L[0]", "for q in $L: q.append(@i)",
    "$T.append(@t)", "$T[0] = @t", "$T[0] *= 0.5", "$T[-1] = $T[0]",
    "$R.append(@r)", "$R[0].n += 1", "$R[-1].marks.append(@i)", "$R[0] = @r", "for q in $R: q.marks.append(q.n)",
    "$d[n] = @l", "$d[1] = @l", "$d[0].append(@i)", "$d.setdefault(@i, []).append(@i)",
    "for q in $d.values(): q.append(@i)",
    "$D[@k] = @t", "$D[@k] = @t", "$D.pop(@k)", "$D[@k] *= 0.5", "$t = $D.get(@k, $t)", "$D.update({'b': @t})",
    "for q in $D: print(q)", "for q, w in $D.items(): $t = $t + w", "del $D[@k]", "$D.setdefault(@k, @t)",
    "$o = @r", "$o = None", "if $o is not None: $o.n += 1", "if $o is not None: $o.marks.append(@i)",
    "$p = @t", "$p = None", "if $p is not None: $t = $t + $p", "if $p is not None: $p *= 0.5",
    "$t, $i = $u", "$u = (@t, @i)", "$s += 'y'", "print($s)", "$s = f'{$s}{@i}'", "if $s == 'a': $i += 1",
    "if any((z := q) > @i for q in $l): $i = z", "if not all((z := q) < @i for q in $w): $i = z",
    "for q in ((z := e) * 2 for e in $l): print(q, z)",
    "$v = @v", "print($v)", "print(f'{$v!r:>5}')",
    "for q in $Y(@i): print(q)", "for q in $Y(@i): $i = q", "$l = list($Y(@i))", "for q in $y($t, @i): $t = q * 0.5",
    "for q in $y($t, 2): print(q.requires_grad, ($t * 2).requires_grad)", "$N.v += 1", "$l[$N] = @i",
    "if @c: raise (ValueError, KeyError)[@i % 2](@i)", "if @c: raise (KeyError('c') if @c else ValueError(@i))",
    "if @c: raise ValueError(@i)", "if @c: raise KeyError('bad')",
)
#: what raises, always or for some values; inside a `try`
RAISING = ("print($v * 2)", "print($v + 1)", "print($w.index(@i))", "print('a' + @i)", "print(@i < 'a')",
           "print($s + $l)", "print(len($l, 1))", "print(round($t))", "print(f'{@i:z}')", "print($l[@i])",
           "print(1 // @i)", "print($s * $t)", "raise (ValueError, TypeError)[@i % 2](@i)", "$l.append()",
           "$l.index(@i)", "print($d[@i])", "print($D[@k])")
LEAVE = ("if @c: break", "if @c: continue")
HEADS = ("for $K in range(n):", "for $K in range(n):", "for $K in range(2):", "for $K in range(@i):", "for $K in $l:")
CAUGHT = ("ValueError", "KeyError", "IndexError", "(ValueError, KeyError)", "Exception as e", "LookupError",
          "TypeError", "TypeError as e", "(TypeError, ValueError, LookupError, ArithmeticError)")
#: how what a variable holds is shown at the end: by printing, or as part of the sum that has gradients
SHOWN = {"l": "print(${})", "L": "for q in ${}: print(q)", "d": "for k, q in ${}.items(): print(k, q)",
         "r": "print(${0}.n, ${0}.marks, ${0}.kid is None)", "R": "for q in ${}: print(q.n, q.marks)",
         "o": "if ${0} is not None: print(${0}.n, ${0}.marks)", "s": "print(${})", "D": "print(list(${}))",
         "v": "print(${0}, ${0} is True)", "w": "print(${}.count(2))", "N": "print(int(${0}), 'abc'[${0}])"}
SUMMED = {"t": "{}.sum()", "r": "{}.h.sum()", "T": "sum({}).sum()", "u": "{}[0].sum()"}
_HOLE = re.compile(r"[$@](\w)|#")
Names = dict[str, list[str]]


class Tiny:
    """The program of a seed, by `program()`. `kinds`: of new variables, as often as they are there."""

    expressions, statements, kinds = EXPRESSIONS, STATEMENTS, "ttilllrrLTRdDopusvvwN"

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.tried = 0  # how many `try`s are around

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def filled(self, scope: Names, templates: tuple[str, ...], depth: int = 3) -> str:
        """One of the templates, for whose holes there is something."""
        def hole(found: re.Match[str]) -> str:
            kind, sign = found[1], found[0][0]
            if sign == "#":
                return str(self.random.randrange(-1, 4))
            if sign == "$":
                return self.random.choice(scope.get(kind) or [])  # IndexError: there is none
            return self.filled(scope, self.expressions[kind], depth - 1)

        shallow = templates if depth > 0 else [t for t in templates if "@" not in t]
        for template in self.random.sample(shallow, len(shallow)):
            with contextlib.suppress(IndexError):
                return _HOLE.sub(hole, template)
        raise IndexError(f"nothing fits {templates}")

    def statement(self, scope: Names, depth: int, loop: bool, result: str) -> None:
        templates = (*self.statements, *LEAVE * 4) if loop else self.statements
        if self.tried and self.chance(0.3):
            templates = RAISING
        if result and self.chance(0.1):
            templates = (f"if @c: return {result}",)
        self.line(depth, self.filled(scope, templates))

    def new(self, scope: Names, depth: int) -> None:
        kind = self.random.choice(self.kinds)
        text = self.filled(scope, self.expressions[kind])
        name = self.fresh(kind)
        self.line(depth, f"{name} = {text}")
        for k in (kind, "m") if kind == "t" else (kind,):
            scope.setdefault(k, []).append(name)

    def block(self, scope: Names, depth: int, count: int, loop: bool, result: str) -> None:
        for _ in range(count):
            which = self.random.random() if depth < 4 else 1.0
            if which < 0.18:
                self.loop(scope, depth, result)
            elif which < 0.32:
                self.line(depth, self.filled(scope, ("if @c:",)))
                self.inner(scope, depth, loop, result)
                if self.chance(0.5):
                    self.line(depth, "else:")
                    self.inner(scope, depth, loop, result)
            elif which < 0.39:
                self.line(depth, "try:")
                self.tried += 1
                self.inner(scope, depth, loop, result)
                self.tried -= 1
                handled = self.chance(0.8)
                if handled:
                    self.line(depth, f"except {self.random.choice(CAUGHT)}:")
                    self.inner(scope, depth, loop, result)
                    if self.chance(0.2):
                        self.line(depth, "else:")
                        self.inner(scope, depth, loop, result)
                if not handled or self.chance(0.2):
                    self.line(depth, "finally:")
                    self.inner(scope, depth, False, "")
            elif which < 0.41 and scope.get("l"):
                self.line(depth, self.filled(scope, ("with Scope($l):",)))
                self.inner(scope, depth, loop, result)
            elif which < 0.43:
                self.line(depth, "with jitgrad.no_grad():")
                self.inner(scope, depth, loop, result)
            elif which < 0.56 or (depth == 4 and self.chance(0.2)):
                self.new(scope, depth)
            else:
                self.statement(scope, depth, loop, result)

    def inner(self, scope: Names, depth: int, loop: bool, result: str) -> None:
        """A block of its own: what it makes is not there after it."""
        self.block({k: list(v) for k, v in scope.items()}, depth + 1, self.random.randrange(1, 4), loop, result)

    def loop(self, scope: Names, depth: int, result: str) -> None:
        counter = self.fresh("k")
        if self.chance(0.2):
            self.line(depth, f"{counter} = 0")
            self.line(depth, self.filled(scope, (f"while {counter} < n:", f"while {counter} < n and @c:")))
            self.line(depth + 1, f"{counter} += 1")
        else:
            self.line(depth, self.filled({**scope, "K": [counter]}, HEADS))
        self.inner({**scope, "i": [*scope["i"], counter]}, depth, True, result)

    def function(self, scope: Names) -> None:
        """A function of a tensor or an int, which may write to variables around it."""
        kind = self.random.choice("ffg")
        name = self.fresh(kind)
        inner: Names = {"t": ["a"] if kind == "f" else ["x"], "i": ["n", "b"]}
        self.line(1, f"def {name}({'a, ' if kind == 'f' else ''}b):")
        if self.chance(0.4):
            self.line(2, "nonlocal i0")
            inner["i"].append("i0")
        if scope.get("l") and self.chance(0.5):
            self.line(2, f"{scope['l'][0]}.append(b)")
        self.block(inner, 2, self.random.randrange(1, 4), False, "a" if kind == "f" else "b")
        self.line(2, f"return {self.filled(inner, self.expressions['t' if kind == 'f' else 'i'])}")
        scope.setdefault(kind, []).append(name)

    def generator(self, scope: Names) -> None:
        """A generator function of an int, or of a tensor and an int."""
        kind = self.random.choice("yY")
        name, inner = self.fresh(kind), {"t": ["a"] if kind == "y" else ["x"], "i": ["n", "b", "k"]}
        if self.chance(0.4):
            self.line(1, "@jitgrad.no_grad()")
        self.line(1, f"def {name}({'a, ' if kind == 'y' else ''}b):")
        if self.chance(0.3):
            given = inner | {"i": ["n", "b"]}
            self.line(2, f"yield {self.filled(given, self.expressions['t' if kind == 'y' else 'i'])}")
        self.line(2, "for k in range(b):")
        if kind == "y" and self.chance(0.5):
            self.line(3, "a = a * 0.5")
        if self.chance(0.3):
            self.line(3, self.filled(inner, ("if @c: return", "if @c: continue", "print(k)")))
        self.line(3, f"yield {self.filled(inner, self.expressions['t' if kind == 'y' else 'i'])}")
        if kind == "Y" and self.chance(0.3):
            self.line(2, "yield from range(b)")
        scope.setdefault(kind, []).append(name)

    def program(self) -> str:
        scope: Names = {"t": ["x", "y", "t0"], "m": ["t0"], "i": ["n", "n", "i0"]}
        self.line(0, "def f(x, y, n: int, flag: bool):")
        self.line(1, "i0 = 1")
        self.line(1, "t0 = x * 2")
        for _ in range(self.random.randrange(1, 5)):
            self.new(scope, 1)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.function(scope)
        for _ in range(self.random.choice((0, 0, 1))):
            self.generator(scope)
        self.block(scope, 1, self.random.randrange(2, 7), False, "t0.sum(), i0")
        for kind, text in SHOWN.items():
            for name in scope.get(kind, ()):
                self.line(1, text.replace("${", "{").format(name))
        total = " + ".join(text.format(name) for kind, text in SUMMED.items() for name in scope.get(kind, ()))
        objects = [name for kind in "lrLTRdDu" for name in scope.get(kind, ())]
        more = self.random.sample(objects, min(2, len(objects))) if self.chance(0.4) else []
        self.line(1, f"return {', '.join([total, 'i0', *more])}")
        return "\n".join(self.lines) + "\n"


class Memory(Tiny):
    """Programs about which tensors are one memory, and which history each has: few kinds of things, and many writes."""

    kinds = "tttttTr"
    expressions: ClassVar[dict[str, tuple[str, ...]]] = {
        "i": ("n", "#"), "c": ("flag", "n > 1", "n == 0"), "T": ("[@t, @t]",), "r": ("Node(@t)",),
        "t": ("$t.detach()", "$t.detach()", "$t.detach()[:]", "$t.data", "$t.view(-1)", "$t * 2", "$t.clone()", "$t[:]",
              "$t", "$t", "$t if @c else $t", "($t, $t)[n % 2]", "$r.h", "$T[0]", "$T[n % 2]")}
    statements = (
        "$m.copy_(@t)", "$m += @t", "$m[0] = $t[1]", "$m.mul_(@t)", "$m.zero_()", "$m[1] += 2", "$m.detach().add_(@t)",
        "$m, $m = $m, $m", "$m, $m = $m, $m", "$m = @t", "$m = @t", "$T[0], $T[1] = $T[1], $T[0]",
        "$T[n % 2].copy_(@t)", "$T[0] += @t", "$T[0] = @t", "$r.h.mul_(@t)", "$r.h = @t")

    def function(self, scope: Names) -> None:
        pass

    generator = function


# --- comparing ------------------------------------------------------------------------------------------------------


class _TooLong(BaseException):
    """A program takes longer than it may."""


def shown(value: Any, known: dict[Any, int]) -> Any:
    """What can be seen of a value: of tensors, containers and objects which is which, by numbers; of views where they
    lie."""
    if isinstance(value, Tensor):
        where = (value.data_ptr(), value.shape, value.stride()) if value._is_view() else id(value)
        number = known.setdefault(where, len(known))
        return number, value.detach().numpy().tolist(), value.requires_grad, value.is_leaf
    if not isinstance(value, (list, tuple, dict, Node)):
        return repr(value)
    if not isinstance(value, tuple):
        if id(value) in known:
            return known[id(value)]
        known[id(value)] = len(known)
    parts = value.items() if isinstance(value, dict) else vars(value).items() if isinstance(value, Node) else value
    return type(value).__name__, [shown(v, known) for v in parts]


def observed(function: Callable[..., Any], n: int, flag: bool, kept: list[Any]) -> tuple[Any, ...]:
    """What a caller sees of one call. What it returns is kept, so that no other object gets its number."""
    x, y = jitgrad.tensor([1.0, -2.0], requires_grad=True), jitgrad.tensor([0.5, 0.25], requires_grad=flag)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            found = function(x, y, n, flag)
        kept.append(found)
        result = shown(found, {id(x): 0, id(y): 1})
        if found and found[0].requires_grad:
            found[0].backward()
    except ScriptError as error:
        return "refused", f"{type(error).__name__}: {error.message}", str(error)
    except ERRORS as error:
        said = re.sub(r"(, which is output \d of \w+,)? is at version \d+; expected version \d+", "", str(error))
        return printed.getvalue(), f"{type(error).__name__}: {said}"
    gradients = [shown(t.grad if t.is_leaf else None, {})[1:] for t in (x, y)]
    return printed.getvalue(), result, gradients, (x.tolist(), y.tolist())


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise _TooLong after so many seconds of processor time."""
    def ended(number: int, frame: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGPROF, ended)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def check(source: str, verified: bool) -> tuple[str, str]:
    """What differs, and why a call was refused; empty where nothing is."""
    kept: list[Any] = []
    warnings.simplefilter("ignore", SyntaxWarning)  # of `0[0]`
    try:
        with limited():
            function = compile_source(source, f"tiny {hash(source)}", **GIVEN)
            expected = [observed(function, n, flag, kept) for n, flag in CALLS]
    except (SyntaxError, KeyError, RecursionError, MemoryError, _TooLong):  # no program, or an endless one
        return "", ""
    try:
        with limited(), config.override(interpret=True, verify=int(verified)):
            script = jitgrad.script(function)
            for (n, flag), wanted in zip(CALLS, expected, strict=True):
                got = observed(script, n, flag, kept)
                if got[0] == "refused":
                    if len(wanted) == 2 and wanted[1].partition(": ")[2] in got[2]:
                        continue  # it surely raises this
                    return "", got[1]
                if not close(got, wanted):
                    return f"n={n}, flag={flag}\n  eager  {wanted}\n  script {got}", ""
    except _TooLong:
        return "takes too long", ""
    except Exception as error:
        return f"{type(error).__name__}: {error}", ""
    return "", ""


def main() -> int:
    """Parse the command line, run, report; exit status 1 where a program differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--memory", action="store_true", help="programs about memory and histories alone")
    args = parser.parse_args()
    family = Memory if args.memory else Tiny
    refused: Counter[str] = Counter()
    differ = 0
    for seed in range(args.seed, args.seed + args.count):
        source, verified = family(seed).program(), seed % 4 == 0
        problem, why = check(source, verified)
        if why:
            refused[re.sub(r"`.*?`|\d+", "_", why)] += 1
        if problem:
            differ += 1
            kind = problem[:2]

            def fails(smaller: str, verified: bool = verified, kind: str = kind) -> bool:
                return check(smaller, verified)[0][:2] == kind

            small = shrink(source, fails)
            print(f"--- seed {seed}: {check(small, verified)[0] or problem}\n{small}", flush=True)
        if not (seed - args.seed + 1) % 100:
            print(f"{seed - args.seed + 1}/{args.count} programs, {differ} differ", file=sys.stderr, flush=True)
    print(f"{args.count} programs: {differ} differ, {sum(refused.values())} refused")
    for why, count in refused.most_common():
        print(f"{count:6d}  {why}")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
