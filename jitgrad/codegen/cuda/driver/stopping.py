"""Ctrl-C while the host waits for kernels with loops, which may never end.

    stops = Stops(api, allocate)
    stops.word(stream)      # where a kernel that is launched there looks, at every barrier, whether to leave
    stops.wait(stream)      # until the stream's work is done; what a signal's handler raises is raised

The host waits by asking, so that Python runs handlers of signals. Where one raises, the stream's word is set, by a copy
on another stream; what runs or waits there leaves its loops, and the exception goes on. Then results are not what they
would have become, as where an exception comes between two steps.
"""

import threading
import time
from collections.abc import Callable
from ctypes import byref, c_uint
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import NON_BLOCKING, DriverApi
from jitgrad.cuda.streams import PER_THREAD, OfStreams

#: what `cuStreamQuery` gives while there is work
NOT_READY = 600
#: seconds for which the host asks without a pause, and those of a pause
BUSY, PAUSE = 0.01, 0.001
#: bytes of a stream's word
_ROOM = 512


class Stops:
    """The words of a device, by stream. `allocate` gives device memory."""

    def __init__(self, api: DriverApi, allocate: Callable[[int], Any]):
        self.api, self.allocate = api, allocate
        self._words: OfStreams[Any] = OfStreams(self._word)  # those of streams that are gone are forgotten
        self._blocks: list[Any] = []  # for good: a kernel may look after its stream is gone
        self._lock = threading.Lock()
        self._stream = 0

    def word(self, stream: int) -> int:
        """The address of a stream's word."""
        with self._lock:
            address: int = self._words.of(stream).ptr
        return address

    def _word(self) -> Any:
        found = self.allocate(_ROOM)
        self._set(found.ptr, 0)
        self._blocks.append(found)
        return found

    def wait(self, stream: int | None) -> None:
        """Until a stream's work is done; None: that of all streams with words."""
        if stream is None:
            for one in {handle if handle >= 0 else PER_THREAD for handle in list(self._words.by_handle)}:
                self.wait(one)  # of streams that are threads' own, this one's
            return
        begun = time.perf_counter()
        try:
            while self.api.code("cuStreamQuery", stream) == NOT_READY:
                if time.perf_counter() - begun > BUSY:
                    time.sleep(PAUSE)
        except BaseException:
            self._stop(stream)
            raise

    def _stop(self, stream: int) -> None:
        """Let what is in a stream leave its loops, and wait for that."""
        if stream not in self._words:
            return
        word = self._words.of(stream)
        with self._lock:
            self._set(word.ptr, 1)
            try:
                self.api.call("cuStreamSynchronize", stream)
            finally:
                self._set(word.ptr, 0)

    def _set(self, address: int, value: int) -> None:
        """Write a word, while kernels run."""
        if not self._stream:
            self._stream = self.api.made("cuStreamCreate", NON_BLOCKING)
        self.api.call("cuMemcpyHtoDAsync_v2", address, byref(c_uint(value)), 4, self._stream)
        self.api.call("cuStreamSynchronize", self._stream)
