"""Scripted functions on the stand-in's GPU: their kernels run on the host, behind `tests.codegen.cuda.host`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver import cudadriver
from jitgrad.codegen.program import memory
from jitgrad.cuda.streams import followed
from jitgrad.dtypes import dtype
from tests.codegen.cuda.fakedriver import HostDriver
from tests.codegen.cuda.hostgraphs import GraphDriver
from tests.cuda import standin


class StandinDriver(HostDriver):
    """The driver whose device is the host, with the stand-in's arrays. Its work is refused while it is not current."""

    rows = None

    def on(self) -> Any:
        return standin.Device(self.device)

    def stream(self) -> int:
        return followed(standin.get_current_stream())

    def product(self, stream: Any, call: Any) -> int:
        return 400 if standin.current() != self.device else super().product(stream, call)

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        return standin.ndarray(shape, d)

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> Any:
        self.c.fake_open()
        return standin.ndarray._of(memory.array(address, shape, strides, d), None, self.device)

    def contiguous(self, array: Any) -> Any:
        if type(array) is np.ndarray:
            return standin.asarray(array)
        return array if array.flags.c_contiguous else standin.ndarray._of(np.ascontiguousarray(array._a))

    def write_back(self, target: Any, copy: Any) -> None:
        if type(target) is np.ndarray:
            target[...] = copy._a
        else:
            target._a[...] = copy._a

    def address(self, array: Any) -> int:
        if array.device.id != self.device:
            raise ValueError(f"an array of device {array.device.id} for a program on device {self.device}")
        return int(array.data.ptr)


class ReplayingDriver(StandinDriver, GraphDriver):
    """The same, with graphs."""


@functools.cache
def _drivers(replayed: bool) -> list[StandinDriver]:
    if replayed:
        return [ReplayingDriver()]
    return [StandinDriver(k) for k in range(standin.COUNT)]


@contextmanager
def gpu(replayed: bool = False) -> Iterator[StandinDriver]:
    """A stand-in of two GPUs, or of one with graphs, on which scripts run too; the driver of the first one."""
    found = _drivers(replayed)
    tell, real = found[0].c.fake_current, cudadriver.of_device
    standin.switched.append(tell)
    cudadriver.of_device = lambda device: found[min(device, len(found) - 1)]  # type: ignore[assignment]
    try:
        with standin.installed():
            yield found[0]
    finally:
        cudadriver.of_device = real
        standin.switched.remove(tell)
        tell(0)
