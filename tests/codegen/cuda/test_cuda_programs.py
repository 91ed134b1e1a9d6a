"""Native programs on `CudaDriver` itself, above an emulated GPU: launched call by call, and replayed as graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.cuda import gpu, replay
from tests.codegen import programs, test_cpu_programs, test_lower_control
from tests.codegen.cuda import emulated, host

pytestmark = host.needs_compiler
AGAIN = (programs, test_cpu_programs, test_lower_control)


class Direct:
    """The driver, but NumPy's arrays count as the device's: its memory is the host's."""

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


class Replayed(Direct):
    """A driver for one program, all of whose calls are graphs. Who looks at memory ends the segment first."""

    def __init__(self, driver: Any):
        super().__init__(driver)
        functions = driver.graphs.functions
        self.launch, self.read, self.copy, self.matmul = (functions.launch, functions.read, functions.copy,
                                                          functions.matmul)
        self.own, self.all = threading.local(), []

    @property
    def replay(self) -> Any:
        """This thread's: a workspace belongs to one stream, for which the replay stands."""
        if not hasattr(self.own, "replay"):
            self.own.replay = self.driver.graphs.replay(0x55)
            self.all.append(self.own.replay)
        return self.own.replay

    def stream(self) -> int:
        return self.replay.address

    def write_back(self, target: Any, copy: Any) -> None:
        self.replay.flush()
        super().write_back(target, copy)

    def view(self, *arguments: Any) -> Any:
        self.replay.flush()
        return self.driver.view(*arguments)


class ReplayedProgram(gpu.DeviceCompiled):
    """Calls of its functions are begun and finished."""

    def link(self) -> dict[str, Any]:
        return {name: self.between(native) for name, native in super().link().items()}

    def between(self, native: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            of = self.driver.replay
            of.begin()
            try:
                return native(*arguments)
            finally:
                of.finish()

        return call


@pytest.fixture(scope="module")
def device():
    with pytest.MonkeyPatch.context() as patch:
        yield emulated.gpu(patch)


@pytest.fixture(autouse=True, params=["direct", "replayed"])
def on_device(request, monkeypatch, device):
    made = []
    if request.param == "replayed":
        for name, value in (("WARM", 0), ("FEW", 0)):
            monkeypatch.setattr(replay, name, value)
        monkeypatch.setattr(gpu, "DeviceCompiled", ReplayedProgram)

    def compile_there(graphs):
        made.append(Direct(device.driver) if request.param == "direct" else Replayed(device.driver))
        return gpu.compile(graphs, made[-1])

    for module in AGAIN:
        if hasattr(module, "compile"):
            monkeypatch.setattr(module, "compile", compile_there)
    stored = SimpleNamespace(from_bytes=lambda data: gpu.DeviceCompiled.for_device(data, made[-1]))
    monkeypatch.setattr(test_cpu_programs, "Compiled", stored)
    yield
    for driver in made:
        if request.param == "replayed":
            for one in driver.all:
                one.close()


for _module in AGAIN:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            globals()[_name] = _test
