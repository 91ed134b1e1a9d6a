"""CUDA graphs whose nodes run on the host: what a host function calls is replayed, and computes what it should."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from tests.codegen.cuda.fakedriver import ENTRY, HostDriver
from tests.codegen.cuda.fakegraphs import KERNELS, FakeGraphs, Operation

#: bytes of a kernel's parameters by their type; of all others 8
BYTES = {"float": 4, "bool": 1, "int": 4, "short": 2, "signed char": 1, "unsigned char": 1}


class HostGraphs(FakeGraphs):
    """Runs operations instead of listing them."""

    def __init__(self, driver: HostDriver):
        self.driver = driver
        self.launched = 0  # graphs
        super().__init__()

    def run(self, stream: int | None, operation: Operation) -> None:
        if self.capturing.get(stream or 0) is not None:
            super().run(stream, operation)
            return
        kind, *words = operation
        c = self.driver.c
        if kind == "launch":
            kernel, grid, given = words
            values = [ctypes.create_string_buffer(a, 8) for a in given]
            places = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
            status = c.fake_launch(ctypes.c_void_p(kernel), *grid, None, places, None)
        elif kind == "matmul":
            status = self.driver.product(None, words)
        elif kind == "copy":
            status = c.fake_copy(*[ctypes.c_uint64(w) for w in words], None)
        assert not status

    def launch_graph(self, executable: int, stream: int | None) -> None:
        self.launched += 1
        for operation in self.executables[executable].values():
            for part in operation if isinstance(operation, list) else [operation]:
                self.run(stream, part)

    def raw_read(self, host: int, device: int, size: int, stream: int | None) -> int:
        status: int = self.driver.c.fake_read(ctypes.c_void_p(host), ctypes.c_uint64(device), ctypes.c_size_t(size),
                                              None)
        return status


class GraphDriver(HostDriver):
    """The driver whose device is the host, with graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.simulated = HostGraphs(self)
        self.graphs = self.simulated.shared

    def load(self, source: str, names: Sequence[str]) -> list[int]:
        handles = super().load(source, names)
        sizes = {name: tuple([BYTES.get(p.rsplit(" ", 1)[0], 8) for p in given.split(", ") if p])
                 for name, given in ENTRY.findall(source)}
        KERNELS.update({handle: sizes[name] for handle, name in zip(handles, names, strict=True)})
        return handles


@functools.cache
def driver() -> GraphDriver:
    """The one driver of the process."""
    return GraphDriver()
