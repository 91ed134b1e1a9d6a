"""Graphs to functions that run on a device: `compile(graphs, driver)`, beside `codegen/run/compile.py`.

    compiled = compile({"forward": graph}, driver)
    outputs = compiled["forward"]([x, 0.5])     # x: an array of the device
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from jitgrad.codegen.cuda.driver import launcher
from jitgrad.codegen.cuda.driver.driver import Driver
from jitgrad.codegen.cuda.host.device_program import DeviceProgramPrinter
from jitgrad.codegen.cuda.host.module import DeviceModule
from jitgrad.codegen.cuda.schedule import launches
from jitgrad.codegen.cuda.schedule.passes import prepared
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import native_name
from jitgrad.codegen.run import compile as cpu, launch, runtime
from jitgrad.codegen.run.compiled import Compiled, Native
from jitgrad.script.graph.ir import Graph


class DeviceCompiled(Compiled):
    """Host functions and the kernels that they launch."""

    def __init__(self, code: Callable[[], bytes], faces: list[Any], source: str, names: list[str], driver: Driver,
                 kernels: list[str], reasons: list[str], timing: dict[str, float], llvm: str = ""):
        self.source, self.names, self.driver = source, names, driver
        super().__init__(code, faces, {}, kernels, reasons, timing, llvm)

    def link(self) -> dict[str, Native]:
        with self.driver.on():
            known = {**runtime.symbols(), **launch.callback_symbols(), **launcher.symbols(self.driver)}
            names = [*[native_name(f.name) for f in self.faces], "jg_handles", "jg_resident"]
            self.loaded = engine.load(self.code, known, names)
            handles = self.driver.load(self.source, self.names) if self.names else []
            table = (ctypes.c_void_p * max(1, len(handles))).from_address(self.loaded.address("jg_handles"))
            table[:len(handles)] = [*handles]
            most = (ctypes.c_int64 * max(1, len(handles))).from_address(self.loaded.address("jg_resident"))
            regions = launches.threads_in(self.source)
            for number, (name, handle) in enumerate(zip(self.names, handles, strict=True)):
                if name in regions:
                    most[number] = min(self.driver.resident(handle, regions[name]), launches.MOST)
                    self.driver.has_loops = True
            return {f.name: launcher.DeviceLauncher(f, self.loaded.address(native_name(f.name)), self.loaded,
                                                    self.driver).build() for f in self.faces}

    def to_bytes(self) -> bytes:
        return self._to_bytes(self.source, self.names)

    @classmethod
    def for_device(cls, data: bytes, driver: Driver) -> DeviceCompiled:
        """The inverse of `to_bytes`, on a device."""
        code, faces, source, names, kernels, reasons = cls._parts(data)
        return cls(lambda: code, faces, source, names, driver, kernels, reasons, {})


def compile(graphs: Mapping[str, Graph], driver: Driver,
            hosted: Mapping[str, Collection[int]] = MappingProxyType({}), ordered: bool = False) -> DeviceCompiled:
    """Host functions and kernels for graphs after passes. `hosted`: inputs of one element that are on the CPU;
    `ordered`: equal calls give equal bits.

    Raises:
        NotImplementedError: a row has no native form and is not one that the library runs (trait "in_library").
    """
    module = DeviceModule(DeviceProgramPrinter)
    code, faces, told = cpu.build(
        module, graphs, lambda name, graph: prepared(name, graph, hosted.get(name, ()), ordered, driver.tiles))
    for face in faces:
        face.hosted = sorted(hosted.get(face.name, ()))
    return DeviceCompiled(code, faces, module.source(), list(module.handles), driver, **told)
