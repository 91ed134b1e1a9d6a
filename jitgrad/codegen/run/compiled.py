"""Native functions ready to call, and their bytes. A stored program runs without the code generator.

    again = Compiled.from_bytes(compiled.to_bytes())
    outputs = again["forward"]([x, 0.5])
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad import config, dtypes
from jitgrad.classes import cached_property
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import native_name
from jitgrad.codegen.run import launch, runtime, serial, threads, tiled
from jitgrad.codegen.run.launch import Interface, Launcher
from jitgrad.kernels.blas import gemm_symbol

Native = Callable[..., list[Any]]


class Compiled:
    """Native functions by name, and what there is to see of them.

    Attributes:
        kernels: the text of every kernel (equal ones once).
        reasons: why two nodes did not become one kernel.
        timing: milliseconds spent on "lower" and "emit", and after those until all was linked: "link".
        llvm: the module's text; "" after loading.
    """

    def __init__(self, code: Callable[[], bytes], faces: list[Interface], externals: dict[str, str],
                 kernels: list[str], reasons: list[str], timing: dict[str, float], llvm: str = ""):
        self._code, self.faces, self.externals = code, faces, externals
        self.kernels, self.reasons, self.timing, self.llvm = kernels, reasons, timing, llvm
        self._begun = time.perf_counter()

    @property
    def code(self) -> bytes:
        """The objects; waits for them. Raises what their compilation raised."""
        return self._code()

    @cached_property
    def functions(self) -> dict[str, Native]:
        """The native functions by name; linked when they are asked for."""
        linked = self.link()
        self.timing["link"] = 1e3 * (time.perf_counter() - self._begun)
        return {name: _told(name, f) for name, f in linked.items()} if config.current().debug >= 2 else linked

    def link(self) -> dict[str, Native]:
        """The native functions, in this process."""
        self.loaded = engine.load(self.code, symbols(self.externals), [native_name(f.name) for f in self.faces])
        return {f.name: Launcher(f, self.loaded.address(native_name(f.name)), self.loaded).build() for f in self.faces}

    def __getitem__(self, name: str) -> Native:
        return self.functions[name]

    @property
    def storable(self) -> bool:
        """Whether another process could run it: every exception it raises can be found by its name."""
        return self._faces_json() is not None

    def _faces_json(self) -> list[Any] | None:
        try:
            return [serial.dump(f) for f in self.faces]
        except serial.NotStorable:
            return None

    def to_bytes(self) -> bytes:
        """Everything that is needed to run it. Raises ValueError unless `storable`."""
        bits = {name: gemm_symbol(dtypes.by_name(d)).int_bits for name, d in self.externals.items()
                if not tiled.is_symbol(name)}
        return self._to_bytes(self.externals, bits)

    def _to_bytes(self, *more: Any) -> bytes:
        """What `_parts` reads."""
        faces = self._faces_json()
        if faces is None:
            raise ValueError("this program raises an exception that cannot be found by its name")
        header = serial.to_json([faces, *more, self.kernels, self.reasons])
        return struct.pack("=q", len(header)) + header + self.code

    @staticmethod
    def _parts(data: bytes) -> tuple[bytes, list[Interface], *tuple[Any, ...]]:
        """The code, the interfaces, and what else was stored."""
        (length,) = struct.unpack_from("=q", data)
        faces, *more = json.loads(data[8:8 + length])
        return data[8 + length:], [serial.load(f) for f in faces], *more

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled:
        """The inverse of `to_bytes`. Raises ValueError where this process's BLAS has other integers."""
        code, faces, externals, bits, kernels, reasons = cls._parts(data)
        if any(gemm_symbol(dtypes.by_name(externals[name])).int_bits != wanted for name, wanted in bits.items()):
            raise ValueError("the program was compiled for a BLAS with other integers")
        return cls(lambda: code, faces, externals, kernels, reasons, {})


def symbols(externals: Mapping[str, str]) -> dict[str, int]:
    """Addresses of everything that a module may leave undefined."""
    found = {**runtime.symbols(), **launch.callback_symbols()}
    for name, d in externals.items():
        if tiled.is_symbol(name):
            found[name] = tiled.address(name)
        else:
            found[name] = gemm_symbol(dtypes.by_name(d)).address
            threads.manage_blas(found)
    return found


def _told(name: str, function: Native) -> Native:
    """`function`, with a line on stderr after each call."""

    def run(inputs: list[Any], on_commit: Callable[[int, Any], None] | None = None) -> list[Any]:
        start = time.perf_counter()
        outputs = function(inputs, on_commit)
        took = time.perf_counter() - start
        read, written = (sum(v.nbytes for v in values if isinstance(v, np.ndarray)) for values in (inputs, outputs))
        config.log(2, f"ran {name}: {1e6 * took:.1f} us, {read} bytes in, {written} bytes out")
        return outputs

    return run
