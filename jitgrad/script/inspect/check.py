"""`@script(check=True)`: the first call of each signature also runs as plain Python, and the two are compared.

Eager runs first; then everything that it changed is put back and the compiled program runs, and its results and effects
are those that stay. Compared are the result, what was printed, the exception, gradients of the result with respect to
every tensor that requires one, and the state of all objects that the script knows. What `@ignore`d functions do happens
once: those that return no tensor are not called again.

Floats agree if they differ by less than a tolerance times the largest element: 1e-4 for float32, 1e-8 for float64, 1e-2
for float16, 4e-2 for bfloat16. Everything else must be equal.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.classes import dataclass, field
from jitgrad.eager.arrays.arrays import host_copy, to_host
from jitgrad.eager.autograd.engine import grad
from jitgrad.eager.autograd.node import edge_of
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import CheckFailed
from jitgrad.script.executor import Dispatcher, eager_mode
from jitgrad.script.graph import marks
from jitgrad.script.inspect.compare import compare
from jitgrad.script.inspect.locate import locate
from jitgrad.script.inspect.state import State, holders

if TYPE_CHECKING:
    from jitgrad.script.call.specialisation import Specialisation

@dataclass(slots=True)
class Outcome:
    """What one run did. `leaves`: result, gradients and state, by name."""

    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    leaves: dict[str, Any] = field(default_factory=dict)


def checked(function: Dispatcher, specialisation: Specialisation, params: Sequence[Any],
            run: Callable[[], Any]) -> Any:
    """`run()`, after the same call as plain Python gave the same.

    Raises:
        CheckFailed: it did not; everything is as before the call.
    """
    values = function.values_of(params)
    args, kwargs = function.call_arguments(values)
    objects = holders(specialisation.script, values)
    state = State(objects)

    def plain() -> Any:
        with eager_mode():
            return function.eager(*args, **kwargs)

    noted: list[marks.Noted] = []
    marks.calls.record = noted
    try:
        expected = _outcome(plain, objects, state)
    finally:
        marks.calls.record = None
        state.restore()
    marks.calls.replay = list(noted)
    try:
        found = _outcome(run, objects, state)
        missing = len(marks.calls.replay)
    except marks.OtherCall as other:
        state.restore()
        raise CheckFailed(f"`{function.__name__}` compiled calls `{other}` where plain Python does not") from None
    finally:
        marks.calls.replay = None
    difference = _difference(expected, found)
    if not difference and missing:
        difference = f"{missing} call{'s' * (missing > 1)} of ignored functions less than plain Python"
    if difference:
        state.restore()
        span, words = locate(function, args, kwargs, plain, state, noted)
        state.restore()
        raise CheckFailed(f"`{function.__name__}` compiled and as plain Python differ in {difference}", span,
                          notes=(words,) if words else ())
    sys.stdout.write(found.printed)
    if found.error is not None:
        raise found.error
    return found.result


def _outcome(run: Callable[[], Any], objects: dict[str, Any], state: State) -> Outcome:
    outcome = Outcome()
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            outcome.result = run()
    except marks.OtherCall:
        raise
    except Exception as error:  # compared: any that the function raises
        outcome.error = error
    outcome.printed = out.getvalue()
    leaves = outcome.leaves
    results = list(_flat("the result", outcome.result))
    for name, value in results:
        leaves[name] = host_copy(value._data) if isinstance(value, Tensor) else value
        if isinstance(value, Tensor):
            leaves[f"whether {name} requires a gradient"] = value.requires_grad
    leaves.update(state.leaves())
    _gradients(leaves, results, state)
    return outcome


def _gradients(leaves: dict[str, Any], results: Sequence[tuple[str, Any]], state: State) -> None:
    """Gradients of the tensors in the result, for cotangents that differ from element to element."""
    outputs = [v for _, v in results if isinstance(v, Tensor) and v.requires_grad and v._node is not None]
    inputs = [(name, t) for name, t, *_ in state.tensors.values() if t.requires_grad and edge_of(t) is not None]
    if not outputs or not inputs:
        return
    cotangents = [wrap(np.cos(np.arange(v._data.size)).reshape(v._data.shape).astype(v._data.dtype)).to(v.device)
                  for v in outputs]
    try:
        found = grad(outputs, [t for _, t in inputs], cotangents, retain_graph=True, allow_unused=True)
    except RuntimeError:  # the function freed the graph, or changed what it needs: in both runs, then
        leaves["whether the result can be differentiated"] = False
        return
    for (name, _), g in zip(inputs, found, strict=True):
        leaves[f"the gradient of `{name}`"] = None if g is None else to_host(g._data)


def _flat(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from _flat(f"{name}[{i}]", v)
        yield f"the length of {name}", (type(value), len(value))
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from _flat(f"{name}[{k!r}]", v)
        yield f"the keys of {name}", list(value)
    elif isinstance(value, (Tensor, bool, int, float, str, type(None))):
        yield name, value


def _difference(expected: Outcome, found: Outcome) -> str:
    """The first thing in which two runs differ, in words, or ""."""
    a, b = expected.error, found.error
    if type(a) is not type(b) or (a is not None and str(a) != str(b)):
        return f"the exception: {_error(b)}, where plain Python raises {_error(a)}"
    if expected.printed != found.printed:
        return f"what is printed: {found.printed!r}, where plain Python prints {expected.printed!r}"
    for name in expected.leaves | found.leaves:
        if _only_possible(name, expected.leaves, found.leaves):
            continue
        if name not in found.leaves or name not in expected.leaves:
            return f"{name}: {'missing' if name not in found.leaves else 'not there in plain Python'}"
        words = compare(found.leaves[name], expected.leaves[name])
        if words:
            return f"{name}: {words}"
    return ""


def _only_possible(name: str, expected: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether a difference is that the compiled result may carry a gradient, as far as types say, and does not."""
    if name.startswith("whether "):
        return bool(found.get(name) is not False) and expected.get(name) is not True
    if not name.startswith("the gradient of") or name in expected:
        return False
    return found[name] is None or not np.any(found[name])


def _error(error: BaseException | None) -> str:
    return "none" if error is None else f"{type(error).__name__}({str(error)!r})"
