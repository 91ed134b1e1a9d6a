"""Compiling by NVRTC: against call-backs, and against the library where it is installed."""

from __future__ import annotations

import ctypes
import io
import threading
import time

import pytest

from jitgrad import config
from jitgrad.codegen.cuda.driver import nvrtc
from jitgrad.codegen.cuda.driver.libraries import CudaError
from jitgrad.codegen.cuda.kernels import text
from tests.codegen.cuda.fakecuda import FakeLibrary
from tests.codegen.cuda.machinecode import needs_nvrtc

KERNEL = 'extern "C" __global__ void k{0}(float* p) {{ p[0] = {0}; }}\n'


class FakeNvrtc(FakeLibrary):
    """Compiles a text to b"code of " + text; fails where it holds `bad`."""

    def __init__(self) -> None:
        super().__init__(nvrtc._SIGNATURES, destroyers={"nvrtcDestroyProgram": ""})
        self.sources: dict[int, bytes] = {}
        self.options: list[list[bytes]] = []
        self.delay = 0.0
        self.threads: set[int] = set()
        self.handlers = {
            "nvrtcVersion": self.says_version,
            "nvrtcCreateProgram": self.create, "nvrtcCompileProgram": self.compiles,
            **{f"nvrtcGet{what}Size": self.size_of(what) for what in ("CUBIN", "PTX", "ProgramLog")},
            **{f"nvrtcGet{what}": self.bytes_of(what) for what in ("CUBIN", "PTX", "ProgramLog")}}
        texts = {6: ctypes.c_char_p(b"NVRTC_ERROR_COMPILATION"), 5: ctypes.c_char_p(b"NVRTC_ERROR_INVALID_OPTION")}
        self._names = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(
            lambda code: ctypes.cast(texts[code], ctypes.c_void_p).value)

    def address(self, symbol: str) -> int:
        if symbol == "nvrtcGetErrorString":
            return ctypes.cast(self._names, ctypes.c_void_p).value or 0
        return super().address(symbol)

    def says_version(self, major, minor):
        major[0], minor[0] = 13, 0

    def create(self, place, source, name, headers, texts, names):
        assert (name, headers) == (b"kernels.cu", 0)
        place[0] = self.fresh("nvrtcCreateProgram")
        self.sources[place[0]] = source

    def compiles(self, program, count, options):
        self.options.append([options[i] for i in range(count)])
        self.threads.add(threading.get_ident())
        time.sleep(self.delay)
        return 6 if b"bad" in self.sources[program] else 5 if b"-wrong" in self.options[-1] else 0

    def result(self, what: str, program: int) -> bytes:
        if what == "ProgramLog":
            return b'kernels.cu(3): error: identifier "bad" is undefined\n\0'
        return what.encode() + b" of " + self.sources[program]

    def size_of(self, what: str):
        def handler(program, place):
            place[0] = len(self.result(what, program))
        return handler

    def bytes_of(self, what: str):
        def handler(program, buffer):
            data = self.result(what, program)
            ctypes.memmove(buffer, data, len(data))
        return handler


@pytest.fixture
def fake(monkeypatch, tmp_path):
    library = FakeNvrtc()
    made = nvrtc.Compiler(library)
    monkeypatch.setattr(nvrtc, "compiler", lambda: made)
    with config.override(cache=str(tmp_path)):
        yield library
    assert not library.alive, "a program was not destroyed"


def test_compiles_once_and_keeps_the_code(fake, monkeypatch):
    assert nvrtc.compile("text", "sm_90") == b"CUBIN of text"
    assert fake.options == [[b"-arch=sm_90", b"-std=c++17", b"-fmad=false", b"-ftz=false", b"-prec-div=true",
                             b"-prec-sqrt=true"]]
    assert nvrtc.compile("text", "sm_90") == b"CUBIN of text"
    assert len(fake.options) == 1
    nvrtc.compile("text", "sm_80")
    monkeypatch.setattr(nvrtc, "OPTIONS", ("-lineinfo",))
    nvrtc.compile("text", "sm_90")
    assert [o[0] for o in fake.options[1:]] == [b"-arch=sm_80", b"-arch=sm_90"]


def test_an_error_shows_the_lines_of_the_text(fake):
    with pytest.raises(nvrtc.CompileError) as raised:
        nvrtc.compile("one\ntwo\nbad three\nfour\nfive\nsix", "sm_90")
    assert str(raised.value) == """\
nvrtcCompileProgram: NVRTC_ERROR_COMPILATION
kernels.cu(3): error: identifier "bad" is undefined

     1 | one
     2 | two
>    3 | bad three
     4 | four
     5 | five"""


def test_another_failure_has_its_name(fake, monkeypatch):
    monkeypatch.setattr(nvrtc, "OPTIONS", ("-wrong",))
    with pytest.raises(CudaError, match=r'nvrtcCompileProgram: NVRTC_ERROR_INVALID_OPTION \(kernels.cu'):
        nvrtc.compile("text", "sm_90")


def test_units_are_compiled_in_threads_in_order(fake, monkeypatch):
    monkeypatch.setattr(nvrtc.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(nvrtc, "PATIENCE", 0.0)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(nvrtc.sys, "stderr", terminal)
    fake.delay = 0.02
    texts = [f"unit {k}" for k in range(6)]
    assert nvrtc.compile_units(texts, "sm_90") == [f"CUBIN of unit {k}".encode() for k in range(6)]
    assert 1 < len(fake.threads) <= 3
    assert "compiling CUDA kernels: 6 of 6" in terminal.getvalue()
    with pytest.raises(nvrtc.CompileError):
        nvrtc.compile_units([*texts, "bad"], "sm_90")


def test_kernels_are_divided_evenly():
    head = "// the prelude\n"
    whole = head + "".join(KERNEL.format(k) for k in range(5))
    assert nvrtc.divided(whole, 5) == [whole]
    units = nvrtc.divided(whole, 2)
    assert [u.count("__global__") for u in units] == [1, 2, 2]
    assert all(u.startswith(head) for u in units)
    assert head + "".join(u.removeprefix(head) for u in units) == whole
    assert nvrtc.divided(head) == [head]


@needs_nvrtc
def test_the_prelude_compiles():
    cubin = nvrtc.compiler().compile(text.prelude() + KERNEL.format(1), ("-arch=sm_90", *nvrtc.OPTIONS))
    assert cubin.startswith(b"\x7fELF")
    assert b"k1" in cubin


@needs_nvrtc
def test_the_log_names_the_line():
    with pytest.raises(nvrtc.CompileError, match=r">    2 | int wrong") as raised:
        nvrtc.compiler().compile("// first\nextern \"C\" __global__ void k() { missing(); }\n",
                                 ("-arch=sm_90", *nvrtc.OPTIONS))
    assert 'identifier "missing" is undefined' in raised.value.log
