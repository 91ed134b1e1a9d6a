"""The namespace whose handles are Tensors: rules that run under it are themselves recorded."""

from typing import Any

import numpy as np

from jitgrad.device import CPU, device
from jitgrad.dtypes import dtype
from jitgrad.eager.arrays import arrays
from jitgrad.eager.autograd.node import TapedArray
from jitgrad.eager.construct import lift
from jitgrad.ops.backend import default
from jitgrad.ops.namespaces import Namespace, Number
from jitgrad.ops.opdef import OpDef


class TapeNamespace(Namespace):
    """Double backward, and composites that are differentiated through their parts; new tensors are on its device."""

    def __init__(self, where: device):
        self._device = where

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        eager = default()
        return eager.apply(op, xs, attrs) if xs else eager.create(op, self._device, attrs)

    def lift(self, value: Number, d: dtype) -> Any:
        return lift(value, d)


TAPE = TapeNamespace(CPU)
_TAPES: dict[device, TapeNamespace] = {}


def tape_of(x: TapedArray) -> TapeNamespace:
    """The namespace that makes tensors where x is."""
    if type(x._data) is np.ndarray:
        return TAPE
    where = arrays.device_of(x._data)
    found = _TAPES.get(where)
    if found is None:
        found = _TAPES[where] = TapeNamespace(where)
    return found
