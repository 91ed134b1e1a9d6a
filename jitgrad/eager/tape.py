"""The namespace whose handles are Tensors: rules that run under it are themselves recorded."""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import dtype
from jitgrad.eager import record
from jitgrad.ops.namespaces import Namespace, Number
from jitgrad.ops.opdef import OpDef


class TapeNamespace(Namespace):
    """Double backward, and composites that are differentiated through their parts."""

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return record.apply(op, xs, attrs)

    def lift(self, value: Number, d: dtype) -> Any:
        from jitgrad.eager.tensor import lift

        return lift(value, d)


TAPE = TapeNamespace()
