"""What lower storeys ask of higher ones: slots with the types of the functions that `build` puts into them.

Evaluation is one recursion: a value's verb may call a function of the user's, whose statements take values apart. Who
stands below the evaluator calls it here and imports nothing of it.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.graph.ir import Block, Value
from jitgrad.script.graph.marks import Mark

P = ParamSpec("P")
R = TypeVar("R")


class Slot(Generic[P, R]):
    """A function that a higher storey provides; its declaration here says its type and what it does."""

    __slots__ = ("_function",)
    _function: Callable[P, R]

    def __init__(self, declaration: Callable[P, R]):
        self._function = declaration

    def fill(self, function: Callable[P, R]) -> None:
        """Let `function` answer from now on."""
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)


# --- evaluation ----------------------------------------------------------------------------------------------------


@Slot
def evaluate(context: Context, node: ast.expr) -> Any:
    """The value of an expression in the current frame."""
    raise NotImplementedError


@Slot
def run_block(context: Context, statements: Sequence[ast.stmt]) -> None:
    """Evaluate statements in the current frame."""
    raise NotImplementedError


@Slot
def run_function(context: Context, frame: Frame, node: Any) -> Any:
    """Evaluate a function's body in its frame; what it returns."""
    raise NotImplementedError


@Slot
def call_marked(context: Context, fn: Any, mark: Mark, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a function that has a mark, as that says."""
    raise NotImplementedError


@Slot
def branch(context: Context, condition: Any, then: Callable[[], Any], other: Callable[[], Any],
           live: frozenset[str] | None = None) -> Any:
    """Evaluate both sides under a bool known at run time and merge; the merged result of the two callables.

    `live`: names of the current frame that are read later; None: all of them.
    """
    raise NotImplementedError


# --- references ----------------------------------------------------------------------------------------------------


@Slot
def replace_references(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """A value with `change` applied to the references in it, those among which the run chooses included."""
    raise NotImplementedError


@Slot
def require_grad(context: Context, tensor: Any, requires_grad: bool) -> Any:
    """Make a tensor without history a leaf that asks for a gradient, or no such leaf; what the tensor is then."""
    raise NotImplementedError


# --- numbers -------------------------------------------------------------------------------------------------------


@Slot
def binary_number(context: Context, op: str, a: Any, b: Any, checked: bool = True) -> Any:
    """`a op b` for numbers of the run; with `checked`, exactly as Python, its exceptions included."""
    raise NotImplementedError


@Slot
def unary_number(context: Context, op: str, a: Any) -> Any:
    """`op a` for a number of the run."""
    raise NotImplementedError


@Slot
def compare_numbers(context: Context, op: str, a: Any, b: Any) -> Any:
    """Whether `a op b`, for numbers of the run."""
    raise NotImplementedError


@Slot
def extreme_number(context: Context, a: Any, b: Any, largest: bool) -> Any:
    """The smaller or larger of two numbers; of two sizes a size."""
    raise NotImplementedError


@Slot
def select_number(context: Context, condition: Any, a: Any, b: Any) -> Any:
    """`a if condition else b` for numbers already evaluated."""
    raise NotImplementedError


@Slot
def history_word(context: Context, tensor: Any) -> str:
    """What the text of a tensor says of its history."""
    raise NotImplementedError


# --- loops ---------------------------------------------------------------------------------------------------------


class Carried(Protocol):
    """What a loop carries besides the variables of the program: `names`, which its body sets."""

    @property
    def names(self) -> frozenset[str]: ...
    def body(self, context: Context, body: Callable[[Any], Any]) -> Callable[[Any], Any]: ...
    def enter(self, context: Context, variables: dict[Value, str]) -> None: ...
    def forget(self, context: Context) -> None: ...


@Slot
def begin_loop(context: Context, key: Any, assigned: frozenset[str]) -> Carried:
    """At a loop's entry: what it carries besides."""
    raise NotImplementedError


@Slot
def settle_loop(context: Context, block: Block, results: Sequence[Value], initial: Sequence[Value]) -> None:
    """A loop is complete: its parameters become `initial` before the first iteration and `results` after each."""
    raise NotImplementedError


# --- effects -------------------------------------------------------------------------------------------------------


@Slot
def intercept(context: Context, error: type[BaseException], template: Any, values: Sequence[Value]) -> Any:
    """What a `try` around makes of a raise: the unwinding to it, or None where the raise is to be emitted."""
    raise NotImplementedError


@Slot
def watch(context: Context, op: str, inputs: tuple[Value, ...], attrs: dict[str, Any]) -> bool:
    """Before an effect that may raise inside a `try`: whether it was emitted in another form."""
    raise NotImplementedError


@Slot
def after_call(context: Context, result: Any, generates: bool) -> Any:
    """After an inlined call inside a `try`: the result, where no exception has left the function. One that `generates`
    has given its items to a consumer."""
    raise NotImplementedError


@Slot
def announce_stores(context: Context) -> None:
    """Before a node that may raise: say which deferred stores the exception has to find made."""
    raise NotImplementedError
