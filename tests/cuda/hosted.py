"""Scripted functions on the stand-in's GPU: their kernels run on the host, behind `tests.codegen.cuda.host`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen import sites
from jitgrad.codegen.cuda import drivers
from tests.codegen.cuda.fakedriver import HostDriver
from tests.cuda import standin


class StandinDriver(HostDriver):
    """The driver whose device is the host, with the stand-in's arrays."""

    rows = None

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        return standin.ndarray(shape, d)

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: Any) -> Any:
        self.c.fake_open()
        return standin.ndarray._of(sites.array(address, shape, strides, dtypes.from_numpy(np.dtype(d))))

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
        return int(array.data.ptr)


_driver: list[StandinDriver] = []


@contextmanager
def gpu() -> Iterator[StandinDriver]:
    """A stand-in of a GPU, on which scripts run too."""
    if not _driver:
        _driver.append(StandinDriver())
    with standin.installed(), drivers.using(_driver[0]) as driver:
        yield driver
