"""Native programs on `CudaDriver` itself, above an emulated GPU, every call of theirs replayed as graphs.

`test_device_programs.py` has them launched one by one.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.cuda.graphs import replay
from jitgrad.codegen.cuda.host import gpu
from tests.codegen import programs, test_cpu_programs
from tests.codegen.cuda import emulated, host

pytestmark = host.emulated
AGAIN = (programs, test_cpu_programs)


class OnHost:
    """The driver, but NumPy's arrays count as the device's: its memory is the host's."""

    row = staticmethod(lambda op: functools.partial(op.impl, np))

    def __init__(self, driver: Any):
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def contiguous(self, array: Any) -> Any:
        return np.require(array, requirements=["C", "A"])

    def write_back(self, target: Any, copy: Any) -> None:
        target[...] = copy

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)


@pytest.fixture(scope="module")
def device():
    with pytest.MonkeyPatch.context() as patch:
        yield emulated.gpu(patch)


@pytest.fixture(autouse=True)
def on_device(monkeypatch, device):
    for name, value in (("WARM", 0), ("FEW", 0)):
        monkeypatch.setattr(replay, name, value)
    driver = OnHost(device.driver)
    for module in AGAIN:
        if hasattr(module, "compile"):
            monkeypatch.setattr(module, "compile", lambda graphs: gpu.compile(graphs, driver))
    stored = SimpleNamespace(from_bytes=lambda data: gpu.DeviceCompiled.for_device(data, driver))
    monkeypatch.setattr(test_cpu_programs, "Compiled", stored)


for _module in AGAIN:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            globals()[_name] = _test
