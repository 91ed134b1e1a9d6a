"""What a `try` does to the operations inside it that may fail.

`intercept` and `watch` see every raise and every checked operation. One that is certain unwinds the evaluation to its
`try`. Where whether an operation fails with an error that is handled is known at run time, Python would leave in the
middle of an expression: the statement's evaluation is abandoned (`MayFail`), and done again under `if it does not
fail`, with the rest of its block. Where that is inside a branch that the statement's expressions or the functions that
they call have opened, the statement is first done again on either side of the branch (`Split`). What `finally` says
runs in front of a failing check.

In the same way a statement and what follows it in its block are done on either side of a branch that leaves what no
variable can hold after it (dicts of other keys, objects of two classes), where evaluation began again with the decision
`APART`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.errors import ScriptError, UnsupportedCall
from jitgrad.ops.numbers import FUNCTIONS, NUMBERS, may_divide_by_zero
from jitgrad.ops.types import FLOAT, INT, TEXT, TensorType
from jitgrad.script.frontend.evaluate import control, merge
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import APART, Context, Restart, State
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import heap, numbers, strings
from jitgrad.script.frontend.values.values import THROWN, ExceptionValue, Number, RunText
from jitgrad.script.graph.ir import Node, Value, within
from jitgrad.script.graph.irops import CALLING

Classes = tuple[type[BaseException], ...]

#: of a statement none of whose branches is known
UNDECIDED: Mapping[int, bool] = {}
#: so many branches inside one statement are opened around it: each doubles it
SPLITS = 6
#: so many branches of a script are followed on either side with what comes after them: each is a path more
PATHS = 16


class Handler:
    """What takes exceptions of some classes in a `try` being evaluated, an `except`, say.

    `take` runs it; `reads`: whether it looks at the exception; `raised`: those that may reach it by its flag.
    """

    __slots__ = ("classes", "id", "raised", "reads", "take")

    def __init__(self, context: Context, classes: Classes, take: Callable[[ExceptionValue], None], reads: bool):
        self.id, self.classes, self.take, self.reads = context.new_id(), classes, take, reads
        self.raised: list[ExceptionValue] = []

    @property
    def flag(self) -> tuple[int, str]:
        """Where the state says whether control goes to this handler."""
        return self.id, "break"

    @property
    def arrived(self) -> tuple[int, tuple[str]]:
        """Where the state has the class and the arguments of the exception on its way; like a `return`'s result."""
        return self.id, ("result",)


class Attempt:
    """A `try` being evaluated: its handlers, or what runs on the way out."""

    __slots__ = ("depth", "finish", "frame", "handlers", "loops", "modes")

    def __init__(self, context: Context, handlers: list[Handler], finish: Callable[[], None] | None):
        self.depth, self.frame, self.modes = context.depth, context.frame, context.modes
        self.loops = len(context.frame.loops)
        self.handlers, self.finish = handlers, finish

    def handler(self, error: type[BaseException]) -> Handler | None:
        """The handler that takes an error."""
        return next((h for h in self.handlers if issubclass(error, h.classes)), None)


class Step:
    """A statement being evaluated that may be done again: inside a `try`, where an operation in it may fail; anywhere,
    where evaluation keeps `APART` what a branch leaves.

    `passed`: how many of its operations that may fail are known not to; `decided`: which of its branches are known, by
    their number; `open`: the outermost one being evaluated, its number and condition.
    """

    __slots__ = ("block", "branches", "decided", "frame", "modes", "node", "open", "passed", "seen", "start", "state",
                 "tries")

    def __init__(self, context: Context, passed: int, decided: Mapping[int, bool]):
        self.frame, self.node, self.modes, self.tries = context.frame, context.node, context.modes, context.tries
        self.block, self.state, self.passed, self.seen = context.builder.block, context.state.copy(), passed, 0
        self.decided, self.branches = decided, 0
        self.open: tuple[int, Number] | None = None
        self.start = len(self.block.nodes)

    def opens(self, condition: Number) -> bool | None:
        """A branch in the statement's block begins: which side it takes, if that is decided."""
        self.branches += 1
        known = self.decided.get(self.branches)
        if known is None:
            self.open = self.branches, condition
        return known

    def back(self, context: Context) -> None:
        """Forget what the statement did; the nodes that it left change nothing that doing it again would not."""
        context.frame, context.node, context.modes, context.tries = self.frame, self.node, self.modes, self.tries
        context.state = self.state

    def splits(self) -> bool:
        """Whether the statement may be done again on either side of a branch in it."""
        return self.open is not None and len(self.decided) < SPLITS

    def split(self, and_rest: bool = False) -> "Split":
        """The unwinding that does the statement again on either side of the branch in it, `and_rest` of its block."""
        assert self.open is not None
        return Split(self, *self.open, and_rest)

    def ends_apart(self, context: Context) -> bool:
        """Whether what follows the branch in the statement that is being evaluated may be done on either side of it."""
        if APART not in context.decisions or self.open is None or context.paths == PATHS or (
                len(self.decided) == SPLITS):
            return False
        inside = context.path[context.path.index(self.block) + 1:]
        return not any(b in context.bodies_open for b in inside) and not self.observed(context)

    def observed(self, context: Context) -> bool:
        """Whether the statement has called Python so far, which it must not do again."""
        known = context.part(_Callers)
        return any(known[n] if n.blocks else n.op in CALLING for n in self.block.nodes[self.start:])


class _Callers(dict[Node, bool]):
    """Whether the blocks of a node call Python; statements inside one another ask again and again."""

    def __missing__(self, node: Node) -> bool:
        found = self[node] = any(n.op in CALLING for n in within((node,)))
        return found


class MayFail(Exception):
    """Unwinds to `step`, one of whose operations fails unless `condition`; None where it is certain to fail.

    `error`: the exception, or the `try` to which it is on its way by its handler's flag; `state`: variables and heap
    where it fails.
    """

    def __init__(self, step: Step, condition: Number | None, error: "ExceptionValue | Attempt", state: State):
        super().__init__(error)
        self.step, self.condition, self.error, self.state = step, condition, error, state


class Split(Exception):
    """Unwinds to `step`, which is done again on either side of a branch inside it, perhaps `and_rest` of its block."""

    def __init__(self, step: Step, number: int, condition: Number, and_rest: bool):
        super().__init__(number)
        self.step, self.number, self.condition, self.and_rest = step, number, condition, and_rest


def may_fail(context: Context, attempt: Attempt, condition: Number | None, error: effects.Raised
             ) -> ScriptError | MayFail | Split:
    """What to raise where an operation may fail with an error that `attempt` handles."""
    step = _step(context, attempt)
    here = step is not None and step.block is context.builder.block
    if step is None or ((condition is not None or not here) and step.observed(context)):  # it will be done again
        return _dynamic(context, error.error)
    if not here:
        return step.split() if step.splits() else _dynamic(context, error.error)
    _end_loops(context, attempt)
    return MayFail(step, condition, thrown(context, error), context.state)


def _step(context: Context, attempt: Attempt) -> Step | None:
    """The statement that is done again where an operation in it fails with an error that `attempt` handles: the one in
    the `try`; one of the function that is evaluated, where a loop stands between them."""
    step = next((s for s in reversed(context.steps) if s.frame is attempt.frame), None)
    if step is None or step.block is context.builder.block or step.splits() or not _called(context, attempt):
        return step
    inner: Step = context.steps[-1]
    return inner if inner.frame is context.frame else step


def _called(context: Context, attempt: Attempt) -> bool:
    """Whether what is evaluated is a function that the one of the `try` has called, and no consumer of a generator."""
    return attempt.frame is not context.frame and context.frame in context.calls[-1:]


def returns(context: Context, attempt: Attempt) -> bool:
    """Whether an exception goes to the `try` of another function as a `return` leaves this one, out of loops."""
    step = _step(context, attempt)
    return step is not None and attempt.frame is not context.frame is step.frame


def _end_loops(context: Context, attempt: Attempt) -> None:
    """See to it that the loops between here and an `attempt` may end by an error."""
    frame = context.frame
    for loop in frame.loops[attempt.loops if frame is attempt.frame else 0:]:
        if not loop.ends:
            raise Restart(("leaves", loop.place), f"an error may end the loop at {loop.place}")


def leave(context: Context, attempt: Attempt) -> None:
    """An exception goes from here to an `attempt`, whose handler's flag is set: out of a function by its return."""
    _end_loops(context, attempt)
    if attempt.frame is not context.frame:
        context.state.values[(context.frame.id, "return")] = True
        context.state.values[(context.frame.id, control.RESULT)] = THROWN


def after_call(context: Context, result: Any, generates: bool) -> Any:
    """The result of an inlined function where no exception has left it on the way to a handler. One that `generates`
    items ends a statement, after which handlers' flags are asked for."""
    attempts = [a for a in context.tries if control.arriving(context, a) is not False]
    inside = [a.frame is context.frame for a in attempts]
    if all(inside) and (generates or not attempts):
        return result
    step: Step | None = context.steps[-1] if context.steps else None
    handlers = [h for a in attempts for h in a.handlers]
    if step is None or step.frame is not context.frame or generates or step.observed(context) or not (
            all(inside) or all(_called(context, a) for a in attempts)):
        raise _dynamic(context, next(e.cls for h in handlers for e in h.raised))
    if step.block is not context.builder.block:
        raise step.split() if step.splits() else _dynamic(context, next(e.cls for h in handlers for e in h.raised))
    step.seen += 1
    if step.seen > step.passed:
        _end_loops(context, attempts[0])
        left = control.arriving(context, *attempts)
        raise MayFail(step, None if left is True else numbers.negate(context, left), attempts[0], context.state)
    for key in (key for h in handlers for key in (h.flag, h.arrived)):
        context.state.values.pop(key, None)
    return unions.without(context, result, THROWN, known=True)


def intercept(context: Context, error: type[BaseException], template: Any, values: Sequence[Value]
              ) -> effects.Raised | None:
    """A raise that an enclosing `try` sees: the unwinding to it; None where the raise is to be emitted here."""
    tries = context.tries
    target = next((a for a in reversed(tries) if a.handler(error) is not None), None)
    by_flag = None if target is None else target.frame
    by_return = target is not None and target.depth != context.depth and returns(context, target)
    try:
        for index in range(len(tries) - 1, -1, -1):
            attempt = tries[index]
            handler = attempt.handler(error)
            if handler is None and (attempt.finish is None or by_return):
                continue
            if attempt.depth == context.depth:
                return effects.Raised(error, template, values, attempt)
            if handler is not None:
                raise may_fail(context, attempt, None, effects.Raised(error, template, values))
            if attempt.frame is by_flag:  # control goes to the handler by its flag, and through the `finally`
                continue
            context.tries = tries[:index]
            _finish_here(context, attempt, error)
        return None
    finally:
        context.tries = tries


def _finish_here(context: Context, attempt: Attempt, error: type[BaseException]) -> None:
    """What `finally` says, in front of a raise inside a branch, a loop or a call."""
    before = context.frame, context.node, context.modes
    context.frame, context.modes = attempt.frame, attempt.modes
    assert attempt.finish is not None
    left = control.arriving(context, *context.tries)
    attempt.finish()
    if control.arriving(context, *context.tries) is not left:
        raise UnsupportedCall("a `finally` that raises, to a handler, where some runs raise a "
                              f"`{error.__name__}`", context.span(), hint="raise it after the `try`")
    context.frame, context.node, context.modes = before


def _dynamic(context: Context, error: type[BaseException]) -> UnsupportedCall:
    return UnsupportedCall(f"whether this raises a `{error.__name__}`, which a `try` handles, is known only at run "
                           "time", context.span(),
                           hint="test for it with an `if`, and `raise` in the function of the `try`")


def watch(context: Context, op: str, inputs: tuple[Value, ...], attrs: dict[str, Any]) -> bool:
    """Before an effect that may raise inside a `try`: whether it was emitted in another form."""
    errors: Classes = (attrs["error"],) if op == "check" else NUMBERS[op].raises if op in NUMBERS else ()
    if not any(a.finish is not None or a.handler(e) for a in context.tries for e in errors):
        return False
    failures = ([(numbers.wrap(context, inputs[0]), effects.Raised(attrs["error"], attrs["template"], inputs[1:]))]
                if op == "check" else _arithmetic(context, op, inputs, attrs))
    if failures is None:
        raise _dynamic(context, errors[0])
    for condition, failure in failures:
        _watched(context, condition, failure)
    return op == "check"


def _watched(context: Context, condition: Any, failure: effects.Raised) -> None:
    """Inside a `try`: a failure unless the condition holds."""
    attempt = next((a for a in reversed(context.tries) if a.handler(failure.error)), None)
    if attempt is not None:
        if _passed(context, attempt):
            return
        raise may_fail(context, attempt, condition, failure)

    def fail() -> None:
        raise effects.raise_now(context, failure.error, failure.template, failure.values)

    merge.branch(context, condition, lambda: None, fail)


def _arithmetic(context: Context, op: str, inputs: tuple[Value, ...], attrs: dict[str, Any]
                ) -> list[tuple[Any, effects.Raised]] | None:
    """What arithmetic raises, each unless a condition holds; None where a script cannot tell beforehand."""
    x = numbers.wrap(context, inputs[0])
    floats = FLOAT in [v.type for v in inputs]
    if may_divide_by_zero(op) and op != "num.pow":
        return [(numbers.compare(context, "ne", _known(context, inputs[1]), 0),
                 _as_python(NUMBERS[op].python, 1.0 if floats else 1, 0))]
    if op == "num.pow":
        if not floats:
            return []  # the exponent is not negative
        condition = numbers.either(context, numbers.compare(context, "ne", x, 0),
                                   numbers.compare(context, "ge", _known(context, inputs[1]), 0))
        return [(condition, _as_python(NUMBERS[op].python, 0.0, -1))]
    if op in ("num.lshift", "num.rshift"):
        return [(numbers.compare(context, "ge", _known(context, inputs[1]), 0), _as_python(NUMBERS[op].python, 1, -1))]
    function = FUNCTIONS[attrs["fn"]] if op == "num.math" else None
    if function is not None and function.outside is not None:
        comparison, outside = function.outside
        condition = numbers.negate(context, numbers.compare(context, comparison, x, 0))
        return [(condition, _as_python(function.python, outside))]
    if floats and (op == "num.cast" or (function is not None and function.result is INT)):
        return [(numbers.negate(context, numbers.wrap(context, context.one("num.math", inputs[0], fn=fn))),
                 _as_python(int, value)) for fn, value in (("isnan", math.nan), ("isinf", math.inf))]
    return None


def _as_python(operation: Callable[..., Any], *arguments: float) -> effects.Raised:
    """What Python raises here, in its own words."""
    try:
        operation(*arguments)
    except (ArithmeticError, ValueError) as error:
        return effects.Raised(type(error), (str(error),))
    raise AssertionError(operation)


def _known(context: Context, value: Value) -> Any:
    """A number as Python's where it is a constant."""
    made = (n for block in context.path for n in block.nodes if value in n.outputs)
    node = next(made, None)
    return node.attrs["value"] if node is not None and node.op == "num.const" else numbers.wrap(context, value)


def _passed(context: Context, attempt: Attempt) -> bool:
    """Whether this operation is known not to fail: evaluation has come back from it."""
    step = _step(context, attempt)
    if step is None or step.block is not context.builder.block:
        return False
    step.seen += 1
    return bool(step.seen <= step.passed)


def thrown(context: Context, error: effects.Raised) -> ExceptionValue:
    """The exception object of a raise that unwound to its handler."""
    if error.template is None:
        return ExceptionValue(error.error, ())
    def held(value: Value) -> Any:
        if value.type == TEXT:
            return RunText(value)
        return heap.new_tensor(context, value) if isinstance(value.type, TensorType) else numbers.wrap(context, value)

    def text(template: Sequence[Any]) -> Any:
        return strings.joined(context, [p if isinstance(p, str) else (held(error.values[p[0]]), *p[1:])
                                      for p in template])

    def argument(stated: Any) -> Any:
        if stated is None or isinstance(stated, int):
            return None if stated is None else held(error.values[stated])
        kind, *parts = stated
        if kind == "text":
            return text(parts)
        items = tuple([argument(p) for p in parts])
        return items if kind == "tuple" else run_lists.new(context, items)

    several = error.template[:1] == (None,)
    args = tuple([argument(a) for a in error.template[1:]]) if several else (text(error.template),)
    return ExceptionValue(error.error, args)
