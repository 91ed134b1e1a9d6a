"""What runs a device program: the C functions that its host function calls, and the device's memory.

`Driver` is the seam between generated code and CUDA. `cudadriver.CudaDriver` is the real one; tests have one that runs
the kernels' text on the host. The addresses are of C functions:

    launch   int (void* kernel, unsigned gx, gy, gz, bx, by, bz, unsigned shared_bytes, void* stream,
                  void** arguments, void** extra): cuLaunchKernel
    together as launch (`extra` is ignored), of blocks that are all resident at once: cuLaunchCooperativeKernel
    read     int (void* host, uint64 device, size_t bytes, void* stream): copy to the host, and wait
    copy     int (uint64 to, uint64 from, size_t bytes, void* stream): on the device, in the stream's order
    matmul   int (void* stream, const int64* call): c[m, n] (+)= op(a)[m, k] @ op(b)[k, n], row-major. The words of
             `call`: 0 dtype (`blaslt.DTYPES`), 1 transpose a, 2 transpose b, 3 accumulate, 4 m, 5 n, 6 k,
             7 lda, 8 ldb, 9 ldc (elements from row to row), 10 a, 11 b, 12 c, 13 count of the batch, 14 to 16 its
             strides in elements, 17 epilogue, 18 bias, 19 auxiliary output (0: none)

All return 0, or the driver's error, which `error` turns into an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from jitgrad.codegen.program.memory import Memory

if TYPE_CHECKING:
    from jitgrad.codegen.cuda.graphs.shared import Graphs


class Block(Protocol):
    """Device memory; given back, in the stream's order, when the object dies."""

    @property
    def ptr(self) -> int:
        """The address."""


class Driver(Memory, ABC):
    """A device to compile for and to run on, and its memory.

    `several`: it is one of several, of which each thread has a current one. `has_loops`: kernels with loops are loaded.
    `rows` makes functions of arrays of the device from rows of the op table; who runs programs says how. `graphs`
    replays what a host function calls as CUDA graphs; None: everything is launched as it is called.
    """

    name: str
    arch: str
    processors: int     # multiprocessors
    shared: int         # bytes of dynamic shared memory that a block may have
    launch: int
    together: int
    read: int
    copy: int
    matmul: int
    several: bool
    has_loops: bool = False
    rows: Callable[[Any], Callable[..., Any]] | None

    @property
    def tiles(self) -> bool:
        """Whether it has the instructions of `kernels/tiled/`, from sm_80 on, which earlier ones imitate slowly."""
        return not self.arch.startswith("sm_") or int(self.arch[3:]) >= 80

    def resident(self, kernel: int, threads: int) -> int:
        """How many blocks of a kernel, of so many threads each, are resident at once."""
        return self.processors

    def stop_word(self, stream: int) -> int:
        """The address of a word that is not 0 while a stream's kernels with loops shall stop; 0: there is none."""
        return 0

    def wait(self, stream: int | None) -> None:
        """Until a stream's work is done, or that of all that loops ran on; what a signal's handler raises is raised."""
        return

    @property
    def graphs(self) -> Graphs | None:
        """What replays the calls of host functions; None: nothing does."""
        return None

    def row(self, op: Any) -> Callable[..., Any]:
        assert self.rows is not None
        return self.rows(op)

    @abstractmethod
    def on(self) -> AbstractContextManager[Any]:
        """A context in which this device is the thread's current one, as all else here takes it to be."""

    @abstractmethod
    def stream(self) -> int:
        """The handle of the current stream."""

    @abstractmethod
    def load(self, source: str, names: Sequence[str]) -> list[int]:
        """Compile a text of kernels; a handle for each name."""

    @abstractmethod
    def allocate(self, size: int) -> Block:
        """Memory of so many bytes. Raises MemoryError."""

    @abstractmethod
    def clear(self, block: Block, size: int) -> None:
        """Set the first `size` bytes to zero, in the stream's order."""

    @abstractmethod
    def contiguous(self, array: Any) -> Any:
        """`array`, or a copy on the device: in row-major order, and from the host's memory if it is there."""

    @abstractmethod
    def write_back(self, target: Any, copy: Any) -> None:
        """`target[...] = copy`, where `copy` is what `contiguous` made of `target`."""

    @abstractmethod
    def error(self, status: int) -> Exception:
        """The exception for what a function returned."""
