"""What of CUDA is on this machine, in words: for `python -m jitgrad info` and `python -m tools.devcheck`."""

import ctypes
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from jitgrad.codegen.cuda.driver import driverapi, libraries, nvrtc
from jitgrad.codegen.cuda.driver.driverapi import version_text
from jitgrad.codegen.cuda.driver.libraries import CudaError, LibraryError, bind

_CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


def cupy_version() -> str:
    """The installed CuPy's package and version, "" for none. Does not import it."""
    for package in _CUPY:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    return ""


def unusable() -> str:
    """Why no GPU can be used here, "" if one can. Loads the libraries, compiles nothing."""
    try:
        if not driverapi.driver().made("cuDeviceGetCount"):
            return "the driver knows no device"
        libraries.cupy()
        nvrtc.compiler()
        libraries.load("cublasLt")
    except RuntimeError as error:
        return str(error)
    return ""


def devices() -> list[str]:
    """One line for each device. RuntimeError without a driver."""
    api, lines = driverapi.driver(), []
    for number in range(api.made("cuDeviceGetCount")):
        device = api.made("cuDeviceGet", number)
        memory = api.made("cuDeviceTotalMem_v2", device) / 2 ** 30
        lines.append(f"{api.name(device)}, {api.arch(device)}, {memory:.0f} GiB, "
                     f"{api.attribute(driverapi.PROCESSORS, device)} multiprocessors, "
                     f"{api.attribute(driverapi.L2_BYTES, device) / 2 ** 20:.0f} MiB L2")
    return lines


def _library(name: Literal["nvrtc", "cublasLt", "cudart"]) -> str:
    try:
        found = libraries.load(name)
        if name == "nvrtc":
            told = ".".join(map(str, nvrtc.compiler().version))
        elif name == "cublasLt":
            told = str(bind(found, "cublasLtGetVersion", ctypes.c_size_t)())
        else:
            number = ctypes.c_int()
            bind(found, "cudaRuntimeGetVersion", ctypes.c_int, ctypes.POINTER(ctypes.c_int))(ctypes.byref(number))
            told = version_text(number.value)
    except LibraryError:
        return "not found"
    except CudaError as error:
        return f"does not work: {error}"
    return f"{told}, {found.path} ({found.origin})"


def rows() -> list[tuple[str, str]]:
    """Label and text: CuPy, driver, libraries, devices, and whether a GPU can be used."""
    table = [("cupy", cupy_version() or "not installed")]
    try:
        api = driverapi.driver()
        made_for = version_text(api.made("cuDriverGetVersion"))
        table.append(("cuda driver", f"for CUDA {made_for}, {getattr(api.library, 'path', '')}"))
        lines = devices()
    except RuntimeError as error:
        table.append(("cuda driver", "not found" if isinstance(error, LibraryError) else f"does not work: {error}"))
        lines = []
    table += [("nvrtc", _library("nvrtc")), ("cublasLt", _library("cublasLt")), ("cuda runtime", _library("cudart"))]
    table += [(f"gpu {number}", line) for number, line in enumerate(lines)]
    why = unusable()
    return [*table, ("GPU usable", f"no, because {why}" if why else "yes")]
