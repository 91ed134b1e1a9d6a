"""Programs whose tensors are on a device: its driver, and the interpreter, which computes on the host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.device import device
from jitgrad.eager.arrays.arrays import on_device, to_host
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, committed

if TYPE_CHECKING:
    from jitgrad.codegen.cuda.driver.driver import Driver
    from jitgrad.codegen.run.compiled import Compiled


def compiled(graphs: Mapping[str, Graph], where: device, inputs: Mapping[str, Collection[int]],
             ordered: bool) -> Compiled:
    """Graphs after passes as programs of a device; `inputs`: for each, those of one element that stay on the CPU.

    `ordered`: scatters are made in a fixed order.
    """
    from jitgrad.codegen.cuda.host import gpu

    return gpu.compile(graphs, driver_of(where), inputs, ordered)


def loaded(data: bytes, where: device) -> Compiled:
    """Programs of a device from their bytes."""
    from jitgrad.codegen.cuda.host import gpu

    return gpu.DeviceCompiled.for_device(data, driver_of(where))


def hosted(graph: Graph, objects: Sequence[Any]) -> frozenset[int]:
    """The inputs of one element that are on the CPU while the program runs on a device: the host computes with them."""
    return frozenset(i for i, o in enumerate(objects) if isinstance(o, Tensor) and type(o._data) is np.ndarray
                     and isinstance(t := graph.inputs[i].type, TensorType) and all(d == 1 for d in t.dims))


def is_there(objects: Sequence[Any], i: int) -> bool:
    """Whether input `i` of a program on a device is there, and not brought there."""
    array = getattr(objects[i], "_data", None) if objects else None
    return type(array) is not np.ndarray


def interpreted(graph: Graph, where: device) -> Callable[..., list[Any]]:
    """A program that interprets `graph`: arrays of the device in and out, and what it writes is written there."""
    from jitgrad.ops.texts import tensors_on
    from jitgrad.script.call import callback
    from jitgrad.script.graph.interpret import interpret

    written = committed(graph.block)

    def run(inputs: list[Any], on_commit: Callable[[int, Any], None] | None = None) -> list[Any]:
        hosted = [_moved(v, to_host) for v in inputs]

        def tell() -> None:
            for i in written:
                if hosted[i] is not inputs[i] and hasattr(hosted[i], "dtype"):
                    with on_device(where).on(where):
                        inputs[i][...] = from_host(hosted[i], where)

        try:
            with callback.on_host(where, tell), tensors_on(where):
                return [from_host(v, where) for v in interpret(graph, hosted, on_commit)]
        finally:
            tell()

    return run


def driver_of(where: device) -> Driver:
    """The driver of a device, which runs rows that have no native form as eager does."""
    from jitgrad.codegen.cuda.driver.cudadriver import of_device

    driver = of_device(where.index or 0)
    if driver.rows is None:
        driver.rows, driver.several = on_device(where).F.bind, on_device(where).several
    return driver


def from_host(value: Any, where: device) -> Any:
    """Arrays, and those in lists, on a device."""
    return _moved(value, lambda array: on_device(where).from_host(array, where))


def _moved(value: Any, move: Callable[[Any], Any]) -> Any:
    if type(value) is list:
        return [_moved(v, move) for v in value]
    return move(value) if hasattr(value, "dtype") else value
