"""Programs whose tensors are on a device: its driver, and the interpreter, which computes on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.codegen.cuda import drivers
from jitgrad.codegen.cuda.driver import Driver
from jitgrad.device import device
from jitgrad.eager.arrays import library, on_device
from jitgrad.script import callback
from jitgrad.script.interpret import interpret
from jitgrad.script.ir import Graph, walk


def interpreted(graph: Graph, where: device) -> Callable[..., list[Any]]:
    """A program that interprets `graph`: arrays of the device in and out, and what it writes is written there."""
    committed = sorted({n.attrs["target"] for n in walk(graph.block) if n.op == "commit"})

    def run(inputs: list[Any], on_commit: Callable[[int, Any], None] | None = None) -> list[Any]:
        hosted = [to_host(v) for v in inputs]
        try:
            with callback.on_host():
                return [from_host(v, where) for v in interpret(graph, hosted, on_commit)]
        finally:
            for i in committed:
                if hosted[i] is not inputs[i] and hasattr(hosted[i], "dtype"):
                    with on_device(where).on(where):
                        inputs[i][...] = from_host(hosted[i], where)

    return run


def driver_of(where: device) -> Driver:
    """The driver of a device, which runs rows that have no native form as eager does."""
    driver = drivers.of(where)
    if driver.rows is None:
        driver.rows, driver.several = on_device(where).F.bind, on_device(where).several
    return driver


def to_host(value: Any) -> Any:
    """Arrays, and those in lists, on the host."""
    if type(value) is list:
        return [to_host(v) for v in value]
    return library(value).to_host(value) if hasattr(value, "dtype") else value


def from_host(value: Any, where: device) -> Any:
    """Arrays, and those in lists, on a device."""
    if type(value) is list:
        return [from_host(v, where) for v in value]
    return on_device(where).from_host(value, where) if hasattr(value, "dtype") else value


__all__ = ["driver_of", "from_host", "interpreted", "to_host"]
