"""The tests of native programs on a real GPU, launched one by one and replayed as graphs."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.cuda.graphs import replay
from jitgrad.codegen.cuda.host import gpu
from jitgrad.codegen.program.sequences import SeqHandle
from jitgrad.device import device
from jitgrad.script.call import devices
from tests import required
from tests.codegen import programs, test_cpu_programs, test_rows_native
from tests.codegen.lower import (test_control, test_convolutions, test_products, test_random, test_sequences,
                                 test_windows)

pytestmark = pytest.mark.gpu

AGAIN = (programs, test_cpu_programs, test_control, test_convolutions, test_products, test_random, test_sequences,
         test_windows, test_rows_native)


def fetched(value: Any) -> Any:
    """Arrays of the device as NumPy's, also those in lists."""
    if type(value) is list:
        return [fetched(v) for v in value]
    return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value


class Fetching:
    """A compiled program whose results are on the host."""

    def __init__(self, compiled: Any):
        self.compiled = compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __getitem__(self, name: str) -> Any:
        return functools.partial(self.run, self.compiled[name])

    def run(self, function: Any, inputs: Any, on_commit: Any = None) -> Any:
        commit = None if on_commit is None else lambda k, value: on_commit(k, fetched(value))
        return fetched(function(inputs, commit))


def driver() -> Any:
    """The driver of the GPU."""
    return devices.driver_of(device("cuda", 0))


@pytest.fixture(autouse=True, params=["launched", "replayed"])
def on_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    required.gpu()
    for name, value in (("WARM", 0), ("FEW", 0)) if request.param == "replayed" else (("WARM", 1 << 60),):
        monkeypatch.setattr(replay, name, value)
    monkeypatch.setattr(SeqHandle, "to_list", functools.partialmethod(_to_list, SeqHandle.to_list))
    for module in AGAIN:
        if hasattr(module, "compile"):
            monkeypatch.setattr(module, "compile", lambda graphs: Fetching(gpu.compile(graphs, driver())))
    stored = SimpleNamespace(from_bytes=lambda data: Fetching(gpu.DeviceCompiled.for_device(data, driver())))
    monkeypatch.setattr(test_cpu_programs, "Compiled", stored)


def _to_list(self: SeqHandle, original: Any) -> Any:
    return fetched(original(self))


for _module in AGAIN:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            globals()[_name] = _test


def test_arrays_come_back() -> None:
    array = driver().contiguous(np.arange(3.0))
    np.testing.assert_array_equal(fetched([array])[0], [0, 1, 2])
