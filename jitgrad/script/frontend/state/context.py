"""What evaluation works on: the graph under construction, the state of the program, facts with scope.

`Context` holds everything that a second evaluation of a loop body must not see traces of: the state (variables and
heap) is one dict, copied by branches; caches and facts live as long as the block in which they were made.
"""

from __future__ import annotations

import ast
import enum
import itertools
import os
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jitgrad.device import CPU, device
from jitgrad.dims import Size, Symbol
from jitgrad.errors import ScriptError, Span
from jitgrad.ops import autocast
from jitgrad.ops.opdef import NONDIFF
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.state.outside import Outside
from jitgrad.script.frontend.state.sizes import Sizes
from jitgrad.script.graph.ir import Block, Builder, Node, Value
from jitgrad.script.graph.irops import infer

#: the folder of this package
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
#: the folder of the frontend, whose functions that scripts inline index lists where there is an item
FRONTEND = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
T = TypeVar("T")


#: numbers the containers of all evaluations: which was made before which
NUMBERS = itertools.count()
#: the decision that call-backs and draws of random numbers alternate
RANDOM = ("random numbers and call-backs",)
#: the decision that what branches and loops bring together stays a choice of objects, not a copy of what they hold
REFERENCES = ("references",)
#: the decision that with what branches and loops bring together goes which tensor of the caller, or leaf, it is
ORIGINS = ("origins",)
#: the decision that it is counted how often memory is written; names refer to objects then
VERSIONS = ("versions",)
#: the decision to unroll the loops that can be
SHORT_LOOPS = ("unroll",)
#: the decision that it is not, after all, while loops are as they are or where short ones are unrolled: with the counts
#: a loop does not settle, or the program is refused
UNCOUNTED = {False: ("versions", "uncounted"), True: ("versions", "uncounted", "unrolled")}
#: the decision that what no variable can hold after a branch is held on either side of it, with what follows
APART = ("apart",)
#: the decision that a bool among the arguments is a constant: there is a program for either
FLAGS = ("flags",)
#: the decision that sets which the script makes may change
SETS = ("sets",)
#: the decision that a number of one type here and of another there is one of two, not a number of any type
TYPES_APART = ("types of numbers",)
#: the decision that it is asked where the elements of the caller's tensors lie, which says what a reshape copies
LAYOUT = ("layout",)


class Restart(Exception):
    """Evaluation must start over with one more decision (a loop to unroll, an attribute that is written).

    `of_call`: the decision is about the call's objects; another call of the same program may do without it.
    `replaces`: an earlier decision that is taken back.
    """

    def __init__(self, decision: Any, text: str, of_call: bool = False, replaces: Any = None):
        super().__init__(text)
        self.decision, self.text, self.of_call, self.replaces = decision, text, of_call, replaces


class Values(dict[Any, Any]):
    """What stands at locations. `version`: another number after each change at one that is `watched`.

    Copies watch the same locations, and have the same version until they differ.
    """

    __slots__ = ("version", "watched")

    def __init__(self, values: dict[Any, Any], watched: set[Any], version: int = -1):
        super().__init__(values)
        self.watched, self.version = watched, version

    def __setitem__(self, key: Any, value: Any) -> None:
        dict.__setitem__(self, key, value)
        if key in self.watched:
            self.version = next(NUMBERS)

    def __delitem__(self, key: Any) -> None:
        dict.__delitem__(self, key)
        self.version = next(NUMBERS)

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self.watched:
            self.version = next(NUMBERS)
        return dict.pop(self, key, *default)

    def update(self, other: Any) -> None:  # type: ignore[override]
        dict.update(self, other)
        self.version = next(NUMBERS)

    def copy(self) -> Values:
        return Values(self, self.watched, self.version)


class State:
    """Variables and heap: location -> value. A location is

    (frame, name): a variable; a `Storage`: its current graph value; ("attr", id, name): an attribute or item that the
    script wrote; ("grad", storage): a leaf's `.grad`; (frame or loop, "return" / "break" / "continue" / "result"): a
    pending exit; "rng": the offset; ("clean", storage): the graph value that was last committed.

    `where` remembers the place of the last assignment, for messages.
    """

    __slots__ = ("dead", "values", "where")

    def __init__(self, values: Values | None = None, where: dict[Any, Span] | None = None):
        self.values = values if values is not None else Values({}, set())
        self.where: dict[Any, Span] = where if where is not None else {}
        self.dead = False  # control never gets here: an exception was raised on the way

    def copy(self) -> State:
        state = State(self.values.copy(), self.where.copy())
        state.dead = self.dead
        return state


class GraphBuilder(Builder):
    """A builder that knows which values may carry a gradient and keeps sizes canonical."""

    def __init__(self, context: Context):
        super().__init__()
        self.context = context
        self.history: set[int] = set()  # ids of values that may depend differentiably on an input
        self.counts: dict[int, Size] = {}  # ids of values that are 0, 1, 2, ..., and how many they are

    def emit(self, op: str, inputs: Sequence[Value] = (), *, blocks: Sequence[Block] = (), span: Span | None = None,
             types: Sequence[Type] | None = None, names: Sequence[str] = (), binds: Sequence[Symbol] = (),
             **attrs: Any) -> tuple[Value, ...]:
        context = self.context
        sizes = context.sizes
        if types is None:
            given = tuple([v.type for v in inputs])
            if sizes.changed:
                given = tuple([sizes.canonical_type(t) for t in given])
            types = infer(op, given, attrs)
        outputs = tuple([Value(t, names[i] if i < len(names) else "") for i, t in enumerate(types)])
        self.block.nodes.append(Node(op, tuple(inputs), attrs, outputs, tuple(blocks), span or context.span(),
                                     tuple(binds)))
        history = self.history
        if history and any(v.id in history for v in inputs) and _differentiable(op):
            history.update(v.id for v in outputs if _floating(v.type))
        if op == "arange":
            self.counts[outputs[0].id] = attrs["length"]
        return outputs


def _differentiable(op: str) -> bool:
    if op.startswith(("opt.", "list.")) or op == "leaf":
        return True
    from jitgrad.ops import OPS

    row = OPS.get(op)
    return row is not None and row.vjp is not NONDIFF


def _floating(type_: Type) -> bool:
    if isinstance(type_, (OptionalType, SeqType)):
        return _floating(type_.elem)
    return isinstance(type_, TensorType) and type_.dtype.is_floating_point


class Context:
    """One evaluation of a scripted function.

    Attributes:
        state: variables and heap at the point that evaluation has reached.
        decisions: what earlier, abandoned evaluations found out (see `Restart`).
        grad: whether operations are recorded here (`no_grad` regions).
        inference: whether the script has entered inference mode here.
        depth: how many run-time branches and loops enclose this point.
        gradient_state: whether the script has looked at the grad mode or at what needs a gradient.
        device_state: whether it has looked at where a tensor is.
        late_checks: whether indices on the CPU are checked when the host next waits, too.
        log: decisions in words, for `explain`.
        bodies: how many loop bodies were evaluated.
    """

    def __init__(self, sizes: Sizes, decisions: set[Any], grad: bool):
        self.sizes = sizes
        self.decisions = decisions
        self.builder = GraphBuilder(self)
        self.state = State()
        self.grad, self.inference = grad, False
        self.depth = 0
        self.bodies = 0
        self.gradient_state = False
        self.device_state = False
        self.late_checks = False
        self.device = CPU  # of the tensors: a GPU from the first one on that is there
        self.log: list[str] = []
        self.frame: Frame = None  # type: ignore[assignment]
        self.node: ast.AST | None = None
        self.inputs: Outside = None  # type: ignore[assignment]
        self.ranges: dict[Symbol, tuple[int, Size | None]] = {}
        self.path: list[Block] = [self.builder.block]  # the blocks under construction, outermost first
        self.begun = [next(NUMBERS)]  # for each of them a number: what was made in it has a higher one
        #: those of them that are bodies of loops: parameter -> what it is in the first iteration
        self.bodies_open: dict[Block, dict[Value, set[Value]]] = {}
        self._parts: dict[type, Any] = {}
        self._scopes: list[dict[Any, Any]] = [{}]
        self.calls: list[Frame] = []  # the frames of inlined calls, innermost last
        self._frames = itertools.count()
        self.counters: list[tuple[Any, Any]] = []  # counters of loops of known length being evaluated, and where
        self.functions: dict[Any, None] = {}  # Python functions that were inlined
        self.called_back = False  # an ignored function was called
        self.asked: dict[str, None] = {}  # classes of objects with which Python computed
        self.open: set[Symbol] = set()  # sizes that may differ from element to element of a list
        self.listed: dict[Any, None] = {}  # storages of tensors in a list of run-time length, and lists in one
        self.tries: list[Any] = []  # the `try` statements around, innermost last (attempts.py)
        self.steps: list[Any] = []  # the statements that may be done again, being evaluated, innermost last
        self.paths = 0  # how many branches were followed on either side with what comes after them
        self.entering = False  # what is evaluated is what a `with` enters
        self.handling: list[Any] = []  # exceptions whose handlers are being evaluated
        self.waiting: list[tuple[int, frozenset[str]]] = []  # consumers of generators: frame, names that they read

    @property
    def modes(self) -> tuple[bool, bool, autocast.State]:
        """What `with` sets and every exit puts back: whether operations are recorded, inference mode, and autocast.

        The latter is the thread's, which the library asks; `build` restores it in the end.
        """
        return self.grad, self.inference, autocast.state()

    @modes.setter
    def modes(self, before: tuple[bool, bool, autocast.State]) -> None:
        self.grad, self.inference, autocasting = before
        autocast.restore(autocasting)

    def part(self, kind: type[T]) -> T:
        """The record of `kind` that belongs to this evaluation: modules keep here what they know of it."""
        found: T | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind()
        return found

    @property
    def counts_writes(self) -> bool:
        """Whether it is counted how often memory is written."""
        return VERSIONS in self.decisions and self.uncounted not in self.decisions

    @property
    def uncounted(self) -> Any:
        """The decision that writes are not counted in such an evaluation."""
        return UNCOUNTED[SHORT_LOOPS in self.decisions]

    @property
    def by_reference(self) -> bool:
        """Whether names refer to objects, and not to copies of what these hold, where branches and loops merge."""
        return REFERENCES in self.decisions or self.counts_writes

    # --- places ----------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST | None = None) -> Span | None:
        """The place of `node`, by default of what is being evaluated."""
        node = node or self.node
        if node is None or self.frame is None:
            return None
        return self.frame.span(node)

    def users_span(self) -> Span | None:
        """The place where user's code called what is being evaluated."""
        span = self.span()
        while span is not None and span.caller is not None and span.file.startswith(PACKAGE):
            span = span.caller
        return span

    def look(self, *values: Any) -> None:
        """Note that the script looks at objects: what it finds in a device may be something else elsewhere."""
        self.device_state |= any(isinstance(v, device) for v in values)

    def ask(self, *values: Any) -> None:
        """Note that Python computes with objects: there are no guards of what it finds in them."""
        for v in values:
            if isinstance(v, (tuple, list, dict, set, frozenset)):
                self.ask(*v, *(v.values() if isinstance(v, dict) else ()))
            elif hasattr(v, "__dict__") and not isinstance(v, (type, types.ModuleType, types.FunctionType, enum.Enum)):
                self.asked[type(v).__qualname__] = None

    # --- graph -----------------------------------------------------------------------------------------------------

    def one(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """Emit a node with one output."""
        (value,) = self.builder.emit(op, inputs, **attrs)
        return value

    def constant(self, value: bool | int | float) -> Value:
        """A number as a graph value, one per scope."""
        key = ("const", type(value), repr(value))
        found = self.recall(key)
        if found is None:
            found = self.remember(key, self.one("num.const", value=value))
        result: Value = found
        return result

    @contextmanager
    def block(self, block: Block, *, loop: bool = False) -> Iterator[Block]:
        """Emit into `block`, with `loop` the body of one; what is cached inside is forgotten afterwards."""
        self._scopes.append({})
        self.path.append(block)
        self.begun.append(next(NUMBERS))
        if loop:
            self.bodies_open[block] = {}
        self.depth += 1
        try:
            with self.builder.into(block):
                yield block
        except ScriptError as error:
            error.blocks += 1
            raise
        finally:
            self.depth -= 1
            self._scopes.pop()
            self.begun.pop()
            self.bodies_open.pop(self.path.pop(), None)

    @contextmanager
    def again(self, block: Block) -> Iterator[None]:
        """Emit at the end of a block that is under construction, or has just ended here; what is cached further inside
        is not known there."""
        depth = self.path.index(block) + 1 if block in self.path else len(self.path)
        before = self.path, self._scopes, self.begun
        self.path, self._scopes, self.begun = self.path[:depth], [*self._scopes[:depth], {}], self.begun[:depth]
        try:
            with self.builder.into(block):
                yield
        finally:
            self.path, self._scopes, self.begun = before

    def recall(self, key: Any) -> Any:
        """What was remembered under `key` in this block or one around it; None if nothing."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    @property
    def scopes(self) -> list[dict[Any, Any]]:
        """What is remembered, by block, outermost first."""
        return self._scopes

    def remember(self, key: Any, value: Any) -> Any:
        """Remember `value` in this block."""
        self._scopes[-1][key] = value
        return value

    def remember_outermost(self, key: Any, value: Any) -> None:
        """Remember `value` for the whole graph."""
        self._scopes[0][key] = value

    # --- frames ----------------------------------------------------------------------------------------------------

    def new_id(self) -> int:
        """A number for a frame or a loop."""
        return next(self._frames)

    def has_history(self, value: Value) -> bool:
        """Whether a value may carry a gradient."""
        return value.id in self.builder.history

    def mark_history(self, values: Sequence[Value], flags: Sequence[bool]) -> None:
        """Say which values may carry a gradient."""
        self.builder.history.update(v.id for v, h in zip(values, flags, strict=True) if h)


class _Active(threading.local):
    stack: tuple[Context, ...] = ()


_active = _Active()


def current() -> Context:
    """The innermost evaluation in progress in this thread."""
    return _active.stack[-1]


@contextmanager
def activated(context: Context) -> Iterator[Context]:
    """Make `context` current."""
    before = _active.stack
    _active.stack = (*before, context)
    try:
        yield context
    finally:
        _active.stack = before
