"""Which tensor inputs are one tensor or one memory: what a write and a gradient must know of the real ones.

Two inputs that share memory are right as long as neither is written. Where one is, the same tensor on two paths becomes
one input (`Restart`, with the decision `SHARED`), and other shared memory is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.eager.arrays.arrays import library, overlap
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context, Restart

#: the decision that a tensor found on several paths is one input
SHARED = ("shared",)


class Memory:
    """The memory of the tensor inputs.

    Args:
        context: of the evaluation.
        tensors: graph input -> the tensor of the first call.

    Attributes:
        distinct: whether every tensor must be found on one path only.
    """

    def __init__(self, context: Context, tensors: Mapping[int, Any]):
        self._context, self._tensors = context, tensors
        self._places: dict[int, int] = {}  # id of a tensor -> the first graph input that it is
        self._neighbours: dict[int, list[int]] = {}  # owner of memory -> the graph inputs in it
        self._listed: list[Any] = []  # tensors in lists of any length: their memory is not written
        self._written: dict[int, None] = {}
        self.distinct = False

    def add(self, index: int) -> None:
        """There is one more tensor input."""
        tensor = self._tensors[index]
        self._places.setdefault(id(tensor), index)
        if self.distinct:
            self.one_each()
        neighbours = self._neighbours.setdefault(_owner(tensor), [])
        for other in neighbours:
            if other in self._written:
                self._refuse_shared(other, index)
        neighbours.append(index)

    def place(self, tensor: Any) -> int | None:
        """The graph input that is this very tensor."""
        return self._places.get(id(tensor))

    def one_each(self) -> None:
        """From now on a tensor that is found on two paths is one: it has one `.grad`."""
        self.distinct = True
        if any(id(x) in self._places for x in self._listed):
            raise UnsupportedCall("gradients are taken of a tensor that is also an item of a list of run-time length",
                                  self._context.span(), hint="pass it once")
        if SHARED not in self._context.decisions and len(self._places) < len(self._tensors):
            raise Restart(SHARED, "the same tensor is found on two paths, and gradients are taken", of_call=True)

    def write(self, index: int) -> None:
        """A tensor input is written: no other input may be the same memory."""
        if index in self._written:
            return
        for other in self._neighbours[_owner(self._tensors[index])]:
            if other != index:
                self._refuse_shared(index, other)
        self._refuse_listed(index)
        self._written[index] = None

    def list(self, tensors: Sequence[Any]) -> None:
        """These are in a list of any length: nothing writes to their memory."""
        self._listed += tensors
        if self.distinct:
            self.one_each()
        for index in self._written:
            self._refuse_listed(index)

    def contiguous(self, index: int) -> bool:
        """Whether a tensor lies in row order."""
        return bool(_array(self._tensors[index]).flags.c_contiguous)

    def _refuse_shared(self, written: int, other: int) -> None:
        """Two inputs, one of them written: the same object is one input (Restart), shared memory is refused."""
        tensor, another = self._tensors[written], self._tensors[other]
        if tensor is another:
            raise Restart(SHARED, "the same tensor is found on two paths, and it is written", of_call=True)
        if overlap(_array(tensor), _array(another)):
            raise self._refused("two tensors share")

    def _refuse_listed(self, written: int) -> None:
        array = _array(self._tensors[written])
        if any(overlap(array, _array(x)) for x in self._listed):
            raise self._refused("an item of a list of run-time length shares")

    def _refused(self, whose: str) -> UnsupportedCall:
        return UnsupportedCall(f"this in-place write goes to memory that {whose}", self._context.span(),
                               hint="pass a `.clone()` of one of them")


def _array(tensor: Any) -> Any:
    return tensor._data


def _owner(tensor: Any) -> int:
    """What owns a tensor's memory: tensors of different owners share none."""
    return id(library(tensor._data).memory(tensor._data))
