"""The tests of native programs again, on a device: the host function launches, kernels run as CUDA text.

`test_cuda_programs.py` has most of them with threads in ascending order.
"""

from types import SimpleNamespace

import pytest

from jitgrad import config
from jitgrad.codegen.cuda.host.gpu import DeviceCompiled, compile
from tests.codegen import programs, test_cpu_programs, test_rows_native
from tests.codegen.cuda import host
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.lower import (test_control, test_convolutions, test_products, test_random, test_sequences,
                                 test_windows)

pytestmark = host.emulated

AGAIN = (programs, test_cpu_programs, test_control, test_convolutions, test_products, test_random, test_sequences,
         test_windows, test_rows_native)


@pytest.fixture(autouse=True)
def on_device(monkeypatch):
    """Let everything be compiled for the device, where dead memory is NaN and threads run in descending order."""
    for module in AGAIN:
        if hasattr(module, "compile"):
            monkeypatch.setattr(module, "compile", lambda graphs: compile(graphs, driver()))
    stored = SimpleNamespace(from_bytes=lambda data: DeviceCompiled.for_device(data, driver()))
    monkeypatch.setattr(test_cpu_programs, "Compiled", stored)
    with config.override(debug_arena=True), driver().reversed():
        yield


for _module in AGAIN:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            globals()[f"{_name}"] = _test
