"""The calls of a host function as a CUDA graph: launched as one, changed where the next call differs.

    graphs = Graphs(api, products, launch=..., matmul=..., copy=..., read=..., ...)     # one for a device
    replay = Replay(graphs, stream)                # one for a host function's workspace
    replay.begin()
    native(...)        # with `graphs.functions.launch` and so on, and `replay.address` where the stream goes
    replay.finish()    # at once, also when `native` reports an error: before results are copied or looked at

The host function runs at every call, computes sizes and addresses and takes its branches; but its launches, products
and copies go to `replaying.py`, which compares them with the graph of the call before. Nothing is given to the device
until the calls end (`finish`), or the host waits for a value (`read`), or `flush` is called: the calls up to there are
one *segment*, and one graph launch. So input addresses, output addresses, learning rates and seeds are arguments that
differ, at the price of one `cuGraphExecKernelNodeSetParams` each; nothing is captured anew for them, and what was
launched is never launched again.

Where the calls are others than those of the graph (a branch, another size with another algorithm), the part that was
alike and what follows is looked up among the graphs that are kept, or recorded and instantiated as a new one. A graph
is also chosen by its beginning, so that a loop that waits for its condition replays one graph each time. Programs whose
calls keep changing are launched directly instead (`CREDIT`).

Matrix products are child graphs, captured alone. Where the arguments of their kernels show where the product's
addresses are (`products.py`), other addresses are updates as for any kernel; where they do not, a product with other
addresses is captured again (20 to 60 us), and replaces its child by `cuGraphExecChildGraphNodeSetParams`.

What the host must keep to: memory that a segment's calls use lives, and is not given to others, until the segment
ends; before anything else is done on the stream (a call back to Python), `flush`.
"""

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_size_t, c_void_p

from jitgrad.codegen.cuda.driver import precision
from jitgrad.codegen.cuda.driver.driverapi import INVALID_VALUE, KernelNode
from jitgrad.codegen.cuda.driver.libraries import FAILED, CudaError, failed
from jitgrad.codegen.cuda.graphs.replaying import DIRECT, PRODUCT, READ, RECORD, SAME, State
from jitgrad.codegen.cuda.graphs.shared import Graphs
from jitgrad.codegen.cuda.graphs.variants import LAUNCHES, Record, Variant, launch_record, words_at

UPDATE_FAILED, NOT_SUPPORTED = 910, 801
#: calls of a host function that are launched directly, before the first graph
WARM = 1
#: a first recorded call of fewer launches than this is quicker without a graph
FEW = 3
#: graphs kept by one replay
KEPT = 16
#: building a graph costs `BUILT`, replaying one earns 1, up to CREDIT; below 0 the rest is launched directly
CREDIT, BUILT = 64, 6


class Replay:
    """The graphs of one host function with one workspace, on one stream.

    Attributes:
        address: what takes the place of the stream in the host function's calls.
        direct: whether calls are launched one by one, for good.
    """

    def __init__(self, graphs: Graphs, stream: int):
        self.graphs, self.stream = graphs, stream
        self.direct = False
        self._variants: list[Variant] = []  # the one used last is last
        self._records: list[Record] = []
        self._current: Variant | None = None  # compared with, in the mode SAME
        self._previous: Variant | None = None  # of the segment before
        self._first: Variant | None = None  # of the first segment of the last call
        self._calls = self._segments = 0
        self._credit = CREDIT
        self._changes = precision.changes
        this = weakref.ref(self)

        def other(state: int, kind: int, what: int) -> int:
            found = this()
            return FAILED if found is None else found._other(kind, what)

        self._callback = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64, c_void_p)(other)
        self._read = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.c_uint64, c_size_t, c_void_p)(graphs.driver["read"])
        self.state = State(mode=DIRECT, stream=stream, update=graphs.update, **graphs.driver,
                           other=ctypes.cast(self._callback, c_void_p).value)
        self.address: int = ctypes.addressof(self.state)

    # --- a call of the host function ---

    def begin(self) -> None:
        """Before the host function."""
        self._calls += 1
        if self.direct or self._calls <= WARM:
            self.state.mode = DIRECT
            return
        if self._changes != precision.changes:
            self._changes = precision.changes
            self._forget(self._variants)
        self._segments, self._previous = 0, None
        self._open(self._first)

    def flush(self) -> None:
        """Give the device what was called so far; go on. CudaError."""
        if self.state.mode != DIRECT:
            self._close()
            self._open(self._previous.after if self._previous is not None else None)

    def finish(self) -> None:
        """After the host function: give the device what was called. CudaError."""
        if self.state.mode == DIRECT:
            return
        try:
            few = not (self._segments or self._variants) and 0 < self._length() < FEW
            self._close()
            if few or self._credit < 0:
                self.direct = True
                self._forget(self._variants)
        finally:
            self.state.mode = DIRECT

    def close(self) -> None:
        """Destroy the graphs."""
        self.direct = True
        self._forget(self._variants)

    # --- segments ---

    def _length(self) -> int:
        return len(self._records) if self.state.mode == RECORD else self.state.next

    def _open(self, expected: Variant | None) -> None:
        self._records = []
        if expected is not None and expected in self._variants:
            self._compare_with(expected, 0)
            return
        self.state.mode, self.state.next = RECORD, 0
        self._current = None

    def _compare_with(self, variant: Variant, position: int) -> None:
        self._current, state = variant, self.state
        state.mode, state.next, state.count = SAME, position, len(variant.nodes)
        state.nodes, state.graph = ctypes.addressof(variant.nodes), variant.executable.handle

    def _close(self) -> None:
        """Launch the segment, as the graph that it is the calls of."""
        length, variant = self._length(), self._current
        if not length:
            return
        if self.state.mode == SAME and variant is not None and length != len(variant.nodes):
            self._record_from(variant, length)
            variant = None
        if self.state.mode == RECORD:
            variant = self._matching(self._records, len(self._records))
            if variant is None or not all(self._changed(variant, i, r) for i, r in enumerate(self._records)):
                variant = self._built()
        assert variant is not None
        variant.executable.launch(self.stream)
        self._credit = min(self._credit + 1, CREDIT)
        if variant in self._variants:
            self._variants.remove(variant)
        self._variants.append(variant)
        if self._previous is not None:
            self._previous.after = variant
        if not self._segments:
            self._first = variant
        self._previous, self._segments = variant, self._segments + 1

    def _built(self) -> Variant:
        if len(self._variants) >= KEPT:
            self._forget(self._variants[:1])
        self._credit -= BUILT
        return Variant(self.graphs, self._records, self.stream)

    def _forget(self, variants: Sequence[Variant]) -> None:
        gone = list(variants)
        for variant in gone:  # one that still runs is destroyed by the driver when it has
            self._variants.remove(variant)
            variant.executable.close()
        for kept in self._variants:
            if kept.after in gone:
                kept.after = None
        if self._previous in gone:
            self._previous = None

    # --- calls that are not those of the graph ---

    def _record_from(self, variant: Variant, length: int) -> None:
        self._records = [variant.record(i) for i in range(length)]
        self.state.mode, self._current = RECORD, None

    def _matching(self, records: Sequence[Record], length: int | None = None) -> Variant | None:
        """The graph used last that begins with these calls, or is as long as `length`."""
        identities = [r.identity for r in records]
        for variant in reversed(self._variants):
            if variant.identities[:len(identities)] == identities and length in (None, len(variant.identities)):
                return variant
        return None

    def _changed(self, variant: Variant, i: int, record: Record) -> bool:
        """Whether call `i` of a graph could be made `record`; if not, the graph is gone."""
        try:
            variant.change(i, record)
        except CudaError as error:
            if error.code not in (UPDATE_FAILED, INVALID_VALUE, NOT_SUPPORTED):
                raise
            self._forget([variant])
            return False
        self.state.updates += 1
        return True

    def _taken(self, record: Record) -> None:
        state, current = self.state, self._current
        if state.mode == SAME and current is not None:
            position = state.next
            if state.failed:  # by the native update: the graph is not what its nodes say
                self._forget([current])
                state.failed = 0
            elif position < len(current.nodes) and current.identities[position] == record.identity and self._changed(
                    current, position, record):
                state.next = position + 1
                return
            self._record_from(current, position)
        elif self._records:  # this beginning was not found when it began to differ
            self._records.append(record)
            return
        self._records.append(record)
        found = self._matching(self._records)
        if found is not None and all(self._changed(found, i, r) for i, r in enumerate(self._records)):
            self._compare_with(found, len(self._records))

    def _other(self, kind: int, what: int) -> int:
        try:
            if kind == READ:
                return self._waited(what)
            if kind in LAUNCHES:
                launch = KernelNode.from_address(what)
                self._taken(launch_record(launch, self.graphs.sizes(launch.function or 0), kind))
                return 0
            words = words_at(kind, what)
            if kind == PRODUCT or words[2]:
                self._taken(Record(kind, words=words))
            return 0
        except BaseException as error:
            return failed(error)

    def _waited(self, what: int) -> int:
        self._close()
        host, device, size = (c_int64 * 3).from_address(what)
        status: int = self._read(host, device, size, self.stream)
        self._open(self._previous.after if self._previous is not None else None)
        return status
