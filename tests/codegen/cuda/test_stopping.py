"""Ctrl-C while the host waits for a loop on the device: the loop's word is set, and the exception goes on."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.codegen.cuda.driver.stopping import NOT_READY, Stops
from tests.codegen.cuda.fakecuda import fake_driver


class Machine:
    """A driver whose stream is busy until its word is set, or it was asked `asked` times."""

    def __init__(self, asked: int, interrupt: int = -1) -> None:
        self.asked, self.interrupt, self.memory, self.word = asked, interrupt, ctypes.create_string_buffer(512), []
        self.library = fake_driver({"cuStreamQuery": self.query, "cuMemcpyHtoDAsync_v2": self.write})
        self.stops = Stops(DriverApi(self.library), lambda size: SimpleNamespace(ptr=0x9000))

    def query(self, stream):
        self.asked -= 1
        return NOT_READY if self.asked >= 0 else 0

    def write(self, to, source, size, stream):
        assert (to, size) == (0x9000, 4)
        assert stream != 0x55, "a stream that is busy"
        self.word.append(ctypes.c_uint.from_address(source).value)
        return 0


def test_a_stream_has_one_word_which_is_zero() -> None:
    machine = Machine(0)
    assert machine.stops.word(0x55) == machine.stops.word(0x55) == 0x9000
    assert machine.word == [0]


def test_waiting_ends_when_the_work_is_done() -> None:
    machine = Machine(3)
    machine.stops.word(0x55)
    machine.stops.wait(0x55)
    assert machine.asked == -1
    machine.stops.wait(None)
    assert machine.word == [0]


def test_an_exception_stops_the_kernels_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1 << 60)
    machine.stops.word(0x55)

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jitgrad.codegen.cuda.driver.stopping.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        machine.stops.wait(0x55)
    assert machine.word == [0, 1, 0]
    names = machine.library.names()
    assert names.count("cuStreamSynchronize") == 4  # the three writes, and the stream that shall stop
    assert not machine.stops._lock.locked()
