"""From Python to the host function of a device program.

As `codegen/run/launch.py`, but what the function knows of arrays is words of its block: their addresses and sizes.
Arrays that were passed before (parameters, nearly always) are known by identity and not looked at again.
"""

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from jitgrad.codegen.cuda.driver import runtime
from jitgrad.codegen.cuda.driver.driver import Driver
from jitgrad.codegen.cuda.graphs.replay import Replay
from jitgrad.codegen.cuda.kernels.geometry import TICKETS
from jitgrad.codegen.program.layout import Status, Word
from jitgrad.codegen.program.memory import is_tensor, payload, tensor_kind
from jitgrad.codegen.run.launch import Interface, Launcher, Workspace, live, raise_status
from jitgrad.cuda.streams import OfStreams

#: bytes of the first chunk of memory that grows
FIRST_CHUNK = 1 << 20


class DeviceWorkspace(Workspace):
    """The memory of one call under way on a stream.

    Attributes:
        slots: device memory by word of the block.
        chunks: device memory that grows.
        axes: the axes of each input whose sizes the program reads, and the words where.
        seen: the arrays that were passed last, by input; None for one that is another at each call (`changing`), so
            that it is not kept alive.
        given: copies of arrays that were not on the device or not contiguous, by input.
        replay: what replays the calls of the host function as graphs, if anything does.
        retired: device memory that goes when the call has ended.
        tried: whether no loop can run that did not end before. Until then a call waits for its own end: what would be
            called next may have to be loaded, for which the driver waits, and then no signal is seen.
    """

    __slots__ = ("axes", "changing", "chunks", "device", "given", "memory", "replay", "retired", "seen", "slots",
                 "tried")

    def __init__(self, interface: Interface, device: Driver, stream: int):
        super().__init__(interface)
        self.memory = self.device = device
        graphs = self.device.graphs
        self.replay = None if graphs is None else Replay(graphs, stream)
        self.block[Word.STREAM] = stream if self.replay is None else self.replay.address
        self.block[Word.SHARED] = self.device.shared
        self.block[Word.STOP] = self.device.stop_word(stream) if self.device.has_loops else 0
        self.tried = not self.device.has_loops
        self.axes: list[list[tuple[int, int]]] = [[] for _ in interface.inputs]
        for k, axis, word in interface.sizes:
            self.axes[k].append((axis, word))
        self.slots: dict[int, Any] = {}
        self.chunks: list[Any] = []
        self.seen: dict[int, Any] = {}
        self.changing: set[int] = set()
        self.given: dict[int, Any] = {}
        self.retired: list[Any] = []

    def free(self, free: Any = None) -> None:
        """Nothing: the blocks go with this object."""

    def flush(self) -> None:
        """Give the device what was called so far."""
        if self.replay is not None:
            self.replay.flush()

    def watch(self) -> None:
        """Wait for the end of a first call: what a signal's handler raises meanwhile ends it."""
        self.device.wait(self.device.stream())
        self.tried = True

    def provide(self, word: int, size: int) -> int:
        """Memory for a slot or a chunk; -1: forget all chunks but the newest."""
        block = self.block
        if word != Word.CHUNK:
            if self.replay is not None and word in self.slots:
                self.retired.append(self.slots[word])  # what was called so far may use it, and is not launched yet
            self.slots.pop(word, None)
            rounded = (size + (size >> 3) + 511) & -512
            self.slots[word] = found = self.device.allocate(rounded)
            if word == Word.SCRATCH:
                self.device.clear(found, TICKETS)
            block[word], block[word + 1] = found.ptr, rounded
            return found.ptr
        if size < 0:
            self.retired += self.chunks[:-1]
            del self.chunks[:-1]
            block[Word.CHUNKS] = len(self.chunks)
            return block[Word.CHUNK]
        rounded = max(2 * block[Word.CHUNK_SIZE], size, FIRST_CHUNK)
        found = self.device.allocate(rounded)
        self.chunks.append(found)
        block[Word.CHUNK], block[Word.CHUNK_SIZE], block[Word.CHUNK_USED] = found.ptr, rounded, size
        block[Word.CHUNKS] = len(self.chunks)
        return found.ptr

    def place(self, k: int, array: Any) -> None:
        """Tell the program where input `k` is, and its sizes."""
        face = self.interface
        if k in face.hosted:  # the host function reads and writes it where it is
            self.block[face.pointers[k]] = array.ctypes.data
            self.seen[k] = array
            return
        whole = self.device.contiguous(array)
        self.block[face.pointers[k]] = self.device.address(whole)
        for axis, word in self.axes[k]:
            self.block[word] = whole.shape[axis]
        if self.seen.get(k) is not None:
            self.changing.add(k)
        if whole is not array:
            self.given[k] = whole
            self.seen[k] = None  # the next call, even with what was passed before this one, tells the place again
        else:
            self.seen[k] = None if k in self.changing else array

    def absent(self, k: int) -> None:
        """An Optional input that is None: of size 0."""
        self.seen[k] = None
        self.block[self.interface.pointers[k]] = 0
        for _, word in self.axes[k]:
            self.block[word] = 0


def _provide(address: int, word: int, size: int) -> int:
    """What native code calls for memory. 0: there is none."""
    try:
        workspace = live[address]
        assert isinstance(workspace, DeviceWorkspace)
        return workspace.provide(word, size)
    except MemoryError:
        return 0


_provide_function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_provide)
_host_function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def symbols(driver: Driver) -> dict[str, int]:
    """Addresses of what the host function calls."""
    memory = ctypes.cast(_provide_function, ctypes.c_void_p).value or 0
    functions = driver if driver.graphs is None else driver.graphs.functions
    found = {f"jg_cuda_{n}": getattr(functions, n) for n in ("launch", "together", "read", "copy", "matmul")}
    return runtime.symbols({**found, "jg_cuda_memory": memory})


class DeviceLauncher(Launcher):
    """Makes the Python function of a device program."""

    keeps_large = False  # a device's pool does

    def __init__(self, interface: Interface, address: int, code: Any, driver: Driver):
        super().__init__(interface, address, code)
        self.driver = driver
        self.pools: OfStreams[list[DeviceWorkspace]] = OfStreams(list)
        self.scope.update(take=self.take, empty=driver.empty, address=driver.address,
                          back=self.back, memory=driver)

    def callable(self, address: int) -> Callable[..., int]:
        return _host_function(address)

    def build(self) -> Callable[..., list[Any]]:
        launch = super().build()
        if not self.driver.several:
            return launch

        def there(inputs: list[Any], on_commit: Callable[[int, Any], None] | None = None) -> list[Any]:
            with self.driver.on():
                return launch(inputs, on_commit)

        return there

    def take(self) -> tuple[DeviceWorkspace, list[DeviceWorkspace]]:
        """A workspace of the current stream, and where it goes afterwards."""
        stream = self.driver.stream()
        pool = self.pools.of(stream)
        try:
            found = pool.pop()
        except IndexError:
            found = DeviceWorkspace(self.interface, self.driver, stream)
        return found, pool

    def source(self) -> str:
        face = self.interface
        lines = ["def launch(inputs, on_commit=None):", "    w, pool = take()", "    block, seen = w.block, w.seen",
                 *self.beginning()]
        for k, kind in enumerate(face.inputs):
            if is_tensor(payload(kind)):
                if not is_tensor(kind):
                    self.scope[f"e{k}"] = SimpleNamespace(shape=(0,) * tensor_kind(payload(kind))[1])
                    lines.append(f"    if i{k} is None:\n        w.absent({k})")
                when = "if" if is_tensor(kind) else "elif"
                lines.append(f"    {when} seen.get({k}) is not i{k}:\n        w.place({k}, i{k})")
        lines += [f"    {line}" for line in self.sizes()]
        lines += self.outputs()
        lines += [f"    block[{o.word}] = address(o{k})" for k, o in enumerate(face.outputs) if o.shape is not None]
        lines += self.numbers()
        if self.driver.graphs is None:
            lines.append("    status = native(w.address, 0)")
        else:
            lines += ["    w.replay.begin()", "    try:\n        status = native(w.address, 0)",
                      "    finally:\n        w.replay.finish()", "    w.retired.clear()"]
        lines.append("    if not w.tried:\n        w.watch()")
        lines.append("    if w.given:\n        back(w, inputs)")
        lines.append("    if status:\n        failed(status, w, on_commit)")
        lines += [f"    {line}" for line in self.committing()]
        *ending, back_to_pool, leave = self.ending()
        forget = "    w.given = {}  # only now: results may have been copies of these"
        return "\n".join([*lines, *ending, forget, back_to_pool, leave])

    def back(self, workspace: DeviceWorkspace, inputs: Sequence[Any]) -> None:
        """Write what the program wrote to copies of its inputs to the inputs themselves."""
        for k, copy in workspace.given.items():
            if k in self.interface.written:
                self.driver.write_back(inputs[k], copy)

    def failed(self, status: int, workspace: DeviceWorkspace,  # type: ignore[override]
               on_commit: Callable[[int, Any], None] | None) -> None:
        if self.interface.commits:
            self.commits(workspace, on_commit)
        if status == Status.DEVICE_FAILED:
            code, workspace.block[Word.ERROR] = workspace.block[Word.ERROR], 0
            raise self.driver.error(code)
        raise_status(status, workspace)

    def handles(self, workspace: Workspace, addresses: list[int | None], inputs: Any) -> Any:
        assert isinstance(workspace, DeviceWorkspace)
        found = super().handles(workspace, addresses, (*inputs,))
        chunks, workspace.chunks = workspace.chunks, []
        block = workspace.block
        block[Word.CHUNK] = block[Word.CHUNK_SIZE] = block[Word.CHUNK_USED] = block[Word.CHUNKS] = 0
        for handle in found:
            if handle is not None:
                handle.owners = (*handle.owners, *chunks)
        return found
