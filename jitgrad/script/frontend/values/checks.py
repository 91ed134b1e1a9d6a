"""Checks of sizes and numbers: made now where what they compare is known, else nodes of the graph."""

from collections.abc import Container, Sequence
from functools import partial
from typing import Any

from jitgrad import dims
from jitgrad.dims import Call, Dim, Size, is_not_one
from jitgrad.ops.checks import Checker, Message, listed
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import Number, size_number
from jitgrad.script.graph.ir import Value


def emit_check(context: Context, condition: Any, error: type[Exception], parts: Sequence[Any]) -> None:
    """A check whose message consists of strings and numbers. Raises where it certainly fails."""
    template: list[Any] = []
    values: list[Value] = []
    for part in parts:
        if isinstance(part, Number):
            template.append((len(values), "", ""))
            values.append(part.value)
        else:
            template.append(str(part))
    if condition is False:
        raise effects.raise_now(context, error, tuple(template), values)
    effects.emit(context, "check", numbers.value_of(context, condition), *values, error=error, template=tuple(template))


def _numerator(size: Size) -> tuple[Size, Size]:
    """(a, b) where size >= 0 is a >= b, without a division: (n - 3) // 2 + 1 >= 0 is n - 3 >= -2."""
    if isinstance(size, Dim):
        for monomial, coefficient in size.terms:
            call = monomial[0] if len(monomial) == 1 and coefficient == 1 else None
            rest = size - Dim(((monomial, 1),))
            if isinstance(call, Call) and call.fn == "floordiv" and isinstance(call.args[1], int) and call.args[1] > 0:
                return call.args[0], rest * -call.args[1]
    return size, 0


def _negative(n: Size, sizes: Sequence[Size]) -> str:
    return f"Trying to create tensor with negative dimension {n}: {listed(sizes)}"


class SymbolicChecker(Checker):
    """Preconditions on symbolic sizes."""

    def __init__(self, context: Context):
        self.context = context

    def equal(self, a: Size, b: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        context, sizes = self.context, self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if a == b:
            return
        if isinstance(a - b, int):
            self._check(False, message, error)
        if sizes.assume_equal(a, b) or context.recall(("equal", a, b)):
            return
        self._check(numbers.compare(context, "eq", size_number(a), size_number(b)), message, error)
        context.remember(("equal", a, b), True)
        context.remember(("equal", b, a), True)

    def one_of(self, a: Size, b: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        context, sizes = self.context, self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if a == b or a == 1 or b == 1:
            return
        if is_not_one(a) and is_not_one(b):
            self.equal(a, b, message, error)
            return
        if context.recall(("broadcast", a, b)) or context.recall(("equal", a, b)) or sizes.assume_equal(a, b):
            return
        m, n = size_number(a), size_number(b)
        condition: Any = numbers.compare(context, "eq", m, n)
        for side in (m, n):
            condition = numbers.either(context, condition, numbers.compare(context, "eq", side, 1))
        self._check(condition, message, error)
        context.remember(("broadcast", a, b), True)

    def fits(self, a: Size, n: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        context, sizes = self.context, self.context.sizes
        a, n = sizes.canonical(a), sizes.canonical(n)
        if a in (n, 1):
            return
        if is_not_one(a):
            self.equal(a, n, message, error)
            return
        if context.recall(("equal", a, n)) or sizes.assume_equal(a, n):
            return
        size = size_number(a)
        self._check(numbers.either(context, numbers.compare(context, "eq", size, size_number(n)),
                                   numbers.compare(context, "eq", size, 1)), message, error)

    def at_least(self, a: Size, low: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        condition = numbers.compare(self.context, "ge", size_number(a), size_number(low))
        self._check(condition, message, error)

    def made(self, sizes: Sequence[Size], given: Container[Size]) -> None:
        """The sizes of a tensor that is made are none of them negative; those of its operands are not."""
        context = self.context
        for n in sizes:
            if n in given or (isinstance(n, int) and n >= 0):
                continue
            a, low = _numerator(n)
            gap = context.sizes.canonical(a - low)
            known = context.recall("at least zero") or ()
            if not any(context.sizes.at_least(gap - fact, 0, all_known=True) for fact in (0, *known)):
                self.at_least(a, low, partial(_negative, n, sizes))
                context.remember("at least zero", (*known, gap))

    def index(self, i: Size, n: Size, message: Message) -> None:
        context = self.context
        key = ("index", context.sizes.canonical(i), context.sizes.canonical(n))
        if context.recall(key):
            return
        low = numbers.compare(context, "ge", size_number(i), 0)
        high = numbers.compare(context, "lt", size_number(i), size_number(n))
        self._check(low, message, IndexError)
        self._check(high, message, IndexError)
        context.remember(key, True)

    def _check(self, condition: Any, message: Message, error: type[Exception]) -> None:
        if condition is True:
            return
        with dims.spelled() as spelled:
            pieces = message().split("\0")
        stated: list[Any] = [spelled[int(piece)] if k % 2 else piece for k, piece in enumerate(pieces)]
        if condition is False and error is RuntimeError:  # known while compiling: of the sizes of this very call
            hints = [self.context.sizes.hint(s) if k % 2 else s for k, s in enumerate(stated)]
            if not spelled or (self.context.depth == 0 and None not in hints):
                raise error("".join(map(str, hints)))
        elif condition is False and not spelled:
            raise error("".join(pieces))
        emit_check(self.context, condition, error,
                   [size_number(s) if k % 2 else s for k, s in enumerate(stated) if s != ""])
