"""Finding CUDA's libraries: the order of the ways, and what an error says."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

from jitgrad.codegen.cuda.driver import driverapi, libraries, toolkit
from jitgrad.codegen.cuda.driver.libraries import CudaError, LibraryError
from tests.codegen.cuda.fakecuda import fake_driver


@pytest.fixture(autouse=True)
def afresh():
    libraries.load.cache_clear()
    driverapi.driver.cache_clear()
    yield
    libraries.load.cache_clear()
    driverapi.driver.cache_clear()


def test_a_missing_library_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(libraries, "_by_pathfinder", lambda name: iter(()))
    monkeypatch.setattr(libraries, "_of_the_system", lambda name: iter([("libnone.so", "the system's loader")]))
    with pytest.raises(LibraryError, match=r'the CUDA library `cublasLt` was not found: libnone.so.*pip install '
                       r'"jitgrad\[cuda13\]"'):
        libraries.load("cublasLt")


def test_a_missing_driver_is_not_pips_affair(monkeypatch):
    monkeypatch.setattr(libraries, "_driver", lambda name: iter([("libnone.so.1", "")]))
    with pytest.raises(LibraryError, match=r"no NVIDIA driver: libnone.so.1: .*not installed by pip"):
        libraries.load("cuda")


def test_missing_cupy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(LibraryError, match=r"CuPy cannot be imported .*jitgrad\[cuda13\]"):
        libraries.cupy()


def test_pathfinder_comes_first_then_packages(monkeypatch, tmp_path):
    opened: list[str] = []

    def opens(path):
        opened.append(path)
        if "bad" in path:
            raise OSError("not this one")
        return ctypes.CDLL(None)

    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").touch()
    (folder / "libnvrtc-builtins.so.13.0").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(libraries, "_open", opens)
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path=f"/bad/{name}.so",
                                                                                  found_via="site-packages"))
    monkeypatch.setattr(libraries, "importlib", SimpleNamespace(import_module=lambda name: finder))
    library = libraries.load("nvrtc")
    assert opened == ["/bad/nvrtc.so", str(folder / "libnvrtc.so.13")]
    assert (library.name, library.path, library.origin) == ("nvrtc", opened[1], "pip's package")
    assert libraries.load("nvrtc") is library


def test_the_parts_beside_a_library_are_opened_first(monkeypatch, tmp_path):
    for name in ("libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc-builtins.alt.so.13.0"):
        (tmp_path / name).touch()
    opened: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", opened.append)
    libraries._open(str(tmp_path / "libnvrtc.so.13"))
    assert opened == [str(tmp_path / "libnvrtc-builtins.so.13.0"), str(tmp_path / "libnvrtc.so.13")]


def test_addresses():
    process = libraries.Library("c", "libc.so.6", "", ctypes.CDLL(None))
    assert process.address("strlen")
    assert process.address("no_such_function") == 0
    assert libraries.bind(process, "strlen", ctypes.c_size_t, ctypes.c_char_p)(b"four") == 4
    with pytest.raises(LibraryError, match=r"no_such_function is not in this version of the library \(libc.so.6\)"):
        libraries.bind(process, "no_such_function", ctypes.c_int)


def test_errors_of_the_driver_have_cudas_names():
    api = driverapi.DriverApi(fake_driver({"cuStreamSynchronize": lambda stream: 700,
                                           "cuInit": lambda flags: 4711}, missing=("cuGraphLaunch",)))
    with pytest.raises(CudaError, match=r"cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal") as raised:
        api.call("cuStreamSynchronize", None)
    assert (raised.value.code, raised.value.name) == (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(CudaError, match="cuInit: error 4711"):
        api.call("cuInit", 0)
    with pytest.raises(LibraryError, match="driver is too old: it has no cuGraphLaunch"):
        api.call("cuGraphLaunch", 1, 2)


def test_what_a_function_stores():
    values = {driverapi.MAJOR: 9, driverapi.MINOR: 0}

    def attribute(place, which, device):
        place[0] = values[which]

    library = fake_driver({"cuDeviceGetAttribute": attribute})
    api = driverapi.DriverApi(library)
    assert api.arch(3) == "sm_90"
    assert [arguments[1:] for _, arguments in library.calls] == [(75, 3), (76, 3)]
    assert api.made("cuStreamCreate", driverapi.NON_BLOCKING) in library.alive


def test_what_is_found_without_a_driver(monkeypatch):
    def none(name):
        raise LibraryError(f"no {name}")

    monkeypatch.setattr(libraries, "load", none)
    table = dict(toolkit.rows())
    assert table["cuda driver"] == table["cublasLt"] == table["cuda runtime"] == "not found"
    assert table["GPU usable"] == "no, because no cuda"


def test_what_is_found_with_a_driver(monkeypatch):
    def attribute(place, which, device):
        place[0] = {driverapi.MAJOR: 9, driverapi.MINOR: 0, driverapi.PROCESSORS: 132,
                    driverapi.L2_BYTES: 60 << 20}[which]

    def stores(value):
        def handler(place, *rest):
            place[0] = value
        return handler

    def name(text, length, device):
        ctypes.memmove(text, b"NVIDIA H200\0", 12)

    library = fake_driver({
        "cuDeviceGetAttribute": attribute, "cuDeviceGetCount": stores(1), "cuDriverGetVersion": stores(13000),
        "cuDeviceTotalMem_v2": stores(139 << 30), "cuDeviceGetName": name})
    # a char* that is written to arrives as a number, not as bytes
    library.signatures = {**library.signatures, "cuDeviceGetName": (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)}
    api = driverapi.DriverApi(library)
    monkeypatch.setattr(driverapi, "driver", lambda: api)
    table = dict(toolkit.rows())
    assert table["cuda driver"] == "for CUDA 13.0, /fake/library.so"
    assert table["gpu 0"] == "NVIDIA H200, sm_90, 139 GiB, 132 multiprocessors, 60 MiB L2"
