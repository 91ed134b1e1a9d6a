"""CUDA graphs whose nodes run on the host: what a host function calls is replayed, and computes what it should."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from tests.codegen.cuda.fakedriver import ENTRY, HostDriver, parameter_bytes
from tests.codegen.cuda.fakegraphs import KERNELS, FakeGraphs, Operation


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
        if kind in ("launch", "together"):
            kernel, grid, given = words
            values = [ctypes.create_string_buffer(a, max(8, len(a))) for a in given]
            places = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
            function = c.fake_launch if kind == "launch" else c.fake_together
            status = function(ctypes.c_void_p(kernel), *grid, None, places, None)
        elif kind == "matmul":
            status = self.driver.product(None, words)
        elif kind == "copy":
            status = c.fake_copy(*[ctypes.c_uint64(w) for w in words], None)
        assert not status

    def launch_graph(self, executable: int, stream: int | None) -> None:
        self.launched += 1
        super().launch_graph(executable, stream)

    def replay(self, stream: int | None, operation: Operation) -> None:
        self.run(stream, operation)

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
        sizes = {name: parameter_bytes(given) for name, given in ENTRY.findall(source)}
        KERNELS.update({handle: sizes[name] for handle, name in zip(handles, names, strict=True)})
        return handles


@functools.cache
def driver() -> GraphDriver:
    """The one driver of the process."""
    return GraphDriver()
