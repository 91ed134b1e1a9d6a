"""Libraries of CUDA made of call-backs: they record what they are called with and answer what a test says."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

Handler = Callable[..., int | None]


class Stream(SimpleNamespace):
    """One that can be referred to weakly, as CuPy's."""


class FakeLibrary:
    """Functions with the signatures given, all of which return int.

    A function without a handler returns 0; where its first argument points to a handle, it stores a fresh one.

    Attributes:
        calls: (name, arguments) in order.
        alive: handles that were made, by the function that made them, less those that were handed to a destroyer.
    """

    path = "/fake/library.so"

    def __init__(self, signatures: Mapping[str, tuple[Any, ...]], handlers: Mapping[str, Handler] | None = None,
                 missing: tuple[str, ...] = (), destroyers: Mapping[str, str] | None = None):
        self.signatures, self.handlers, self.missing = signatures, dict(handlers or {}), missing
        self.destroyers = dict(destroyers or {})
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.alive: dict[int, str] = {}
        self._kept: dict[str, Any] = {}
        self._numbers = itertools.count(0x1000, 0x10)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def fresh(self, maker: str) -> int:
        handle = next(self._numbers)
        self.alive[handle] = maker
        return handle

    def address(self, symbol: str) -> int:
        if symbol in self.missing or symbol not in self.signatures:
            return 0
        if symbol not in self._kept:
            signature = self.signatures[symbol]
            makes = (signature and signature[0] is ctypes.POINTER(ctypes.c_void_p)
                     and symbol not in self.destroyers)

            def called(*arguments: Any) -> int:
                self.calls.append((symbol, arguments))
                handler = self.handlers.get(symbol)
                if symbol in self.destroyers:
                    first = arguments[0]
                    handle = first[0] if isinstance(first, ctypes._Pointer) else first
                    assert handle in self.alive, f"{symbol} of something that is not alive"
                    del self.alive[handle]
                if handler is not None:
                    return handler(*arguments) or 0
                if makes:
                    arguments[0][0] = self.fresh(symbol)
                return 0

            self._kept[symbol] = ctypes.CFUNCTYPE(ctypes.c_int, *signature)(called)
        return ctypes.cast(self._kept[symbol], ctypes.c_void_p).value or 0


def fake_driver(handlers: Mapping[str, Handler] | None = None, missing: tuple[str, ...] = ()) -> FakeLibrary:
    """A driver; its errors have CUDA's names."""
    from jitgrad.codegen.cuda.driver.driverapi import SIGNATURES

    names = {1: b"CUDA_ERROR_INVALID_VALUE", 2: b"CUDA_ERROR_OUT_OF_MEMORY", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
             910: b"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}

    def named(code: int, place: Any) -> int:
        if code not in names:
            return 1
        place[0] = names[code]
        return 0

    def described(code: int, place: Any) -> int:
        if code != 700:
            return 1
        place[0] = b"an illegal memory access was encountered"
        return 0

    told = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
    signatures = {**SIGNATURES, "cuGetErrorName": told, "cuGetErrorString": told}
    about = {"cuGetErrorName": named, "cuGetErrorString": described}
    return FakeLibrary(signatures, {**about, **(handlers or {})}, missing,
                       {"cuGraphDestroy": "", "cuGraphExecDestroy": "", "cuStreamDestroy_v2": ""})
