"""Items of a batch as values: what of a tensor they have, and what they refuse."""

from __future__ import annotations

from typing import Any

from jitgrad.ops.batching.tensors import BACKWARD, DATA, NO_STORAGE
from jitgrad.script.frontend.batches.items import SymItem, check_none
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.tensors import TensorKind

#: what an item does not have, in eager either: the words of the RuntimeError
_REFUSED = {"backward": BACKWARD, "data": DATA, "numpy": NO_STORAGE, "tolist": NO_STORAGE, "data_ptr": NO_STORAGE}
#: what scripts do not know of items
_UNKNOWN = ("grad", "retain_grad", "register_hook", "retains_grad")


@register(SymItem)
class ItemKind(TensorKind):
    """One item of a batch."""

    def type_word(self, obj: Any) -> str:
        return f"an item of a tensor {current().sizes.word(obj.type_)}"

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        if name in _REFUSED:
            guarded(context, lambda: _refuse(_REFUSED[name]))
        if name in _UNKNOWN:
            check_none(context, [obj], f"`{name}` of an item")
        if name == "requires_grad":
            return super().get_attribute(context, obj.value, name)
        if name == "requires_grad_":
            return guarded(context, lambda: obj.requires_grad_)
        return super().get_attribute(context, obj, name)

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        check_none(context, [obj], f"assignment to `{name}` of an item")

    def is_instance(self, context: Context, obj: Any, classes: tuple[type, ...]) -> Any:
        return Kind.is_instance(self, context, obj, classes)

    def truth(self, context: Context, obj: Any) -> Any:
        return guarded(context, lambda: bool(obj))

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        if not conversion and not obj.ndim:
            guarded(context, obj.item)
        check_none(context, [obj], "the text of an item")
        return []

    def result(self, results: Leaving, obj: Any) -> Any:
        raise results.refusal(obj)


def _refuse(words: str) -> None:
    raise RuntimeError(words)
