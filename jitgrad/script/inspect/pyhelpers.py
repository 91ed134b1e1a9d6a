"""What the text of `f.code` imports where jitgrad's public functions have no word for it.

    ops.pad(x, pads=((0, 1),), value=0)     any row of the op table: operands, then its static attributes
    number.floordiv(a, b)                   number arithmetic that never raises, as computed ahead of a test
    commit(x, value)                        what a script writes to the memory of an argument
"""

from typing import Any

from jitgrad.eager.autograd.grad_mode import no_grad
from jitgrad.eager.tensor import Tensor
from jitgrad.ops import OPS
from jitgrad.ops.backend import backend
from jitgrad.ops.numbers import NUMBERS
from jitgrad.ops.texts import compute
from jitgrad.ops.types import FLOAT, INT
from jitgrad.script.graph import numbers


class _Rows:
    """Every row as a function. A number among tensors is taken as a 0-dim tensor of their dtype.

    Also ops on lists, which are values here: what changes one makes a new one.
    """

    @staticmethod
    def list_put(items: list[Any], k: int, value: Any) -> list[Any]:
        """With element k set, or appended; a list of what may be absent grows as far as it must."""
        return [*items[:k], *[None] * (k - len(items)), value, *items[k + 1:]]

    @staticmethod
    def list_get(items: list[Any], k: int) -> Any:
        """An element; None beyond the end."""
        return items[k] if k < len(items) else None

    @staticmethod
    def list_take(items: list[Any], k: int) -> list[Any]:
        """The first k elements."""
        return items[:max(k, 0)]

    @staticmethod
    def text(*operands: Any, **attrs: Any) -> Any:
        """What is computed of strings; see `jitgrad.ops.texts`."""
        return compute(attrs, operands)

    def __getattr__(self, name: str) -> Any:
        row = OPS.get(name) or OPS.get(name.replace("_", ".", 1))
        if row is None:
            raise AttributeError(f"there is no op `{name}`")

        def run(*operands: Any, **attrs: Any) -> Any:
            like = next((x for x in operands if isinstance(x, Tensor)), None)
            if like is not None:
                operands = tuple(x if isinstance(x, Tensor) else backend().lift(x, like.dtype) for x in operands)
            return backend().apply(row, operands, attrs)

        return run


class _Numbers:
    """Number ops of the graph without their checks: int division by zero gives 0, floats follow IEEE 754."""

    def __getattr__(self, name: str) -> Any:
        def run(*args: Any) -> Any:
            types = tuple([FLOAT if isinstance(a, float) else INT for a in args])
            op, attrs = (f"num.{name}", {}) if f"num.{name}" in NUMBERS else ("num.math", {"fn": name})
            return numbers.compute(op, args, attrs, NUMBERS[op].result(types, attrs))

        return run


ops, number = _Rows(), _Numbers()


def commit(target: Tensor, value: Tensor) -> None:
    """Overwrite the memory of `target`, without history."""
    with no_grad():
        target.copy_(value)
