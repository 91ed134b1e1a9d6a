"""Tensors of a script that are one item of a batch: what `func.vmap` shows its function.

An item is a reference as every other one; at the end of its path there is a mark for each vmap around it, an alias that
names the vmap's backend. Its type is that of all items: what looks at storages, paths and types knows nothing of
batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import Batched
from jitgrad.ops.batching.backend import BatchBackend
from jitgrad.ops.batching.tensors import Item
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.paths import ITEM
from jitgrad.script.frontend.values.heap import SymTensor


class SymItem(Item, SymTensor):
    """One item of a batch."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """All items."""
        return SymTensor(self.storage, self.path[:-1], self._type, self.copied, self.unrecorded)

    @property
    def level(self) -> BatchBackend:
        """The vmap."""
        found: BatchBackend = self.path[-1][1][ITEM]
        return found

    def _in_order(self) -> bool:
        return bool(self.value._in_order())


SymTensor.of_item = SymItem


def item_of(value: SymTensor, level: Any) -> Any:
    """The item that stands for all of `value`; of the mark of complex tensors, the complex tensor that it is."""
    return SymTensor(value.storage, (*value.path, ("alias", {ITEM: level})), value._type, value.copied,
                     value.unrecorded)


def batches(tensor: SymTensor) -> tuple[BatchBackend, ...]:
    """The vmaps of which a tensor is an item, the outermost first."""
    return tuple([attrs[ITEM] for _, attrs in tensor.path if ITEM in attrs])


def marked(tensor: SymTensor, of: Sequence[BatchBackend]) -> SymTensor:
    """A tensor of all items as an item of these vmaps."""
    for level in of:
        tensor = item_of(tensor, level)
    return tensor


def check_none(context: Context, values: Sequence[Any], what: str) -> None:
    """Refuse what scripts cannot do with an item of a batch."""
    if any(isinstance(v, Batched) and not isinstance(v, SymItem) for v in values):
        raise UnsupportedCall(f"{what} of a complex tensor", context.span(), hint="do it outside the script, or with "
                              "`torch.view_as_real`")
    if any(isinstance(v, Batched) for v in values):
        raise UnsupportedCall(f"{what} inside `vmap`", context.span(), hint="do it outside of the function that is "
                              "mapped, or call `vmap` outside the script")
