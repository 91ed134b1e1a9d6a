"""The backend of a `vmap`: what the library computes on an item, for all items, by the backend around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.device import device
from jitgrad.dtypes import dtype
from jitgrad.ops.backend import Batched, backend, own_view, using
from jitgrad.ops.batching.rules import Operands, repeated, rule_of
from jitgrad.ops.library.random import compose
from jitgrad.ops.namespaces import Namespace, Number
from jitgrad.ops.opdef import OPS, OpDef

ITEM = ("vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
        "Tensor, please try to rewrite what you're doing with other operations.")
BRANCH = ("vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support "
          "that yet: compute both sides, and choose with `where`.")
IN_PLACE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic.")
RANDOM = ("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
          "randomness flags on vmap or perform the randomness operation out of vmap")
ESCAPED = ("Your tensor may have escaped from inside a function being vmapped: return it from that function, and use "
           "what `vmap` returns")


class BatchNamespace(Namespace):
    """The ops of a backend as rules call them."""

    def __init__(self, run: Any):
        self.run = run

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return self.run.apply(op, xs, attrs)

    def lift(self, value: Number, d: dtype) -> Any:
        return self.run.lift(value, d)

    def bind(self, op: OpDef) -> Any:
        if op.name == "arange":
            return lambda near, **attrs: self.run.create(op, near, attrs)
        return super().bind(op)


class BatchBackend:
    """`jitgrad.ops.backend.Backend` of one `vmap`; what it does not define is that of the backend around it.

    Attributes:
        around: the backend that runs the ops on whole batches: eager's, a script's, or another vmap's.
        size: how many items there are.
        randomness: "error", "same" (a draw is one for all items) or "different" (each item has its own).
        cls: the class of the items' tensors.
        over: whether the vmap has returned.
    """

    def __init__(self, around: Any, size: Any, randomness: str, cls: Any):
        self.around, self.size, self.randomness, self.cls = around, size, randomness, cls
        self.over = False
        self.F = BatchNamespace(around)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.around, name)

    # --- tensors ---------------------------------------------------------------------------------------------------

    def has(self, x: Any) -> bool:
        """Whether x is an item of this batch. RuntimeError for an item of a batch whose vmap has returned."""
        if not isinstance(x, Batched):
            return False
        if x.level.over:
            raise RuntimeError(ESCAPED)
        return x.level is self

    def item_of(self, value: Any) -> Any:
        """The item that stands for all of `value`."""
        return self.cls(value, self)

    def spread(self, x: Any) -> Any:
        """All items of x, along axis 0: x itself for each where it is no item of this batch."""
        return x.value if self.has(x) else repeated(self.F, x, self.size)

    # --- ops -------------------------------------------------------------------------------------------------------

    def apply(self, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        batched = [self.has(x) for x in operands]
        if True not in batched:
            return self.around.apply(op, operands, attrs)
        rule = rule_of(op)
        if rule is None:
            raise RuntimeError("vmap: We do not support batching operators that can output dynamic shape. Attempted to "
                               f"vmap over aten::{op.name}.")
        xs = [x.value if b else x for x, b in zip(operands, batched, strict=True)]
        found = rule(Operands(self.F, op, self.size, xs, batched), *xs, **attrs)
        return tuple([self.item_of(y) for y in found]) if isinstance(found, tuple) else self.item_of(found)

    def create(self, op: OpDef, where: Any, attrs: dict[str, Any]) -> Any:
        """Like a tensor of a batch, a new one has memory for each item."""
        if not self.has(where):
            return self.around.create(op, where, attrs)
        if op.name != "full":
            return self.around.create(op, where.value, attrs)
        return self.item_of(self.around.create(op, where.value, {**attrs, "shape": (self.size, *attrs["shape"])}))

    def move(self, tensor: Any, where: device) -> Any:
        return self._each("move", tensor, where)

    def pin(self, tensor: Any) -> Any:
        return self._each("pin", tensor)

    def alias(self, tensor: Any) -> Any:
        return self._each("alias", tensor)

    def own(self, view: Any) -> Any:
        return self._each("own", view)

    own_view = own_view

    def _each(self, name: str, tensor: Any, *args: Any) -> Any:
        """A function of one tensor that knows no axes."""
        run = getattr(self.around, name)
        if not self.has(tensor):
            return run(tensor, *args)
        moved = run(tensor.value, *args)
        return tensor if moved is tensor.value else self.item_of(moved)

    def is_pinned(self, tensor: Any) -> bool:
        found: bool = self.around.is_pinned(tensor.value if self.has(tensor) else tensor)
        return found

    def from_data(self, data: Any, d: dtype | None, where: Any = None) -> Any:
        return self.around.from_data(data, d, where.value if self.has(where) else where)

    def mark(self, target: Any = None, *call: Any) -> int:
        number: int = self.around.mark(target.value if self.has(target) else target, *call)
        return number

    def assign(self, target: Any, value: Any, since: int | None = None) -> Any:
        if self.has(target):
            self.around.assign(target.value, self.spread(value), since)
        elif self.has(value):
            raise RuntimeError(IN_PLACE)
        else:
            self.around.assign(target, value, since)
        return target

    def reinterpret(self, tensor: Any, to: Any) -> Any:
        raise NotImplementedError(f"vmap: view({to.name}) has no batching rule")

    def conjugate(self, tensor: Any) -> Any:
        return self.apply(OPS["conj"], (tensor,), {})

    def is_conjugate(self, tensor: Any) -> bool:
        return False

    def require_writable(self, target: Any, memory: bool = True) -> None:
        self.around.require_writable(target.value if self.has(target) else target, memory)

    def apart(self, target: Any, operands: Sequence[Any]) -> bool:
        first, *rest = [x.value if self.has(x) else x for x in (target, *operands)]
        return bool(self.around.apart(first, rest))

    def become(self, target: Any, view: Callable[[], Any]) -> Any:
        if self.has(target):
            if self.around.become(target.value, lambda: view().value) is not target.value:
                raise NotImplementedError("an item of a vmap that changes its own shape")
            return target
        return self.around.become(target, view)

    def resize(self, target: Any, result: Any, operands: Sequence[Any] = ()) -> Any:
        if self.has(target) or self.has(result):
            raise RuntimeError("vmap: an item of a batch cannot be the `out` of a result of another shape")
        return self.around.resize(target, result, operands)

    def update(self, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(isinstance(x, Batched) for x in (target, *args, *kwargs.values())):
            return NotImplemented
        return self.around.update(name, target, args, kwargs)

    # --- numbers ---------------------------------------------------------------------------------------------------

    def item(self, tensor: Any) -> Any:
        if self.has(tensor):
            raise RuntimeError(ITEM)
        return self.around.item(tensor)

    def in_range(self, indices: Any, n: Any) -> bool:
        return not self.has(indices) and self.around.in_range(indices, n)

    def expect_range(self, indices: Any, low: Any, high: Any, error: type[Exception], head: str, tail: str) -> Any:
        if not self.has(indices):
            return self.around.expect_range(indices, low, high, error, head, tail)
        found = self.around.expect_range(indices.value, low, high, error, head, tail)
        return None if found is None else self.item_of(found)

    def draw(self, kind: str, shape: tuple[Any, ...], d: dtype, where: Any, generator: Any = None,
             **params: Any) -> Any:
        if self.randomness == "error":
            raise RuntimeError(RANDOM)
        near = where.value if self.has(where) else where
        if self.randomness == "same":
            return self.around.draw(kind, shape, d, near, generator, **params)
        if kind in ("uniform", "bits"):
            return self.item_of(self.around.draw(kind, (self.size, *shape), d, near, generator))
        return compose(kind, shape, d, where, generator, **params)


def levels() -> list[BatchBackend]:
    """The vmaps under way in this thread, the outermost first."""
    found: list[BatchBackend] = []
    current: Any = backend()
    while isinstance(current, BatchBackend):
        found.insert(0, current)
        current = current.around
    return found


@contextmanager
def entered(level: BatchBackend) -> Iterator[BatchBackend]:
    """The library works for the items of `level` in a `with` block."""
    try:
        with using(level):
            yield level
    finally:
        level.over = True


def spread(x: Any, batches: list[BatchBackend]) -> Any:
    """x as a tensor that has an axis in front for each of the batches, the outermost first."""
    for level in reversed(batches):
        with using(level.around):
            x = level.spread(x)
    return x


def items_of(value: Any, batches: list[BatchBackend]) -> Any:
    """The inverse of `spread`."""
    for level in batches:
        value = level.item_of(value)
    return value



