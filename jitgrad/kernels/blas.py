"""Matrix products for native code: the address of a `cblas_?gemm`, found in the library that NumPy already loaded.

`gemm_symbol(dtype)` always answers. float32 and float64 are NumPy's BLAS; where none can be found, and for half types
and integers (no BLAS has them), it is a call-back to `np.matmul` with the same signature, for row-major matrices and
an alpha of 1. Its scalars alpha and beta are float for float32 and double for everything else:

    void gemm(int order, int trans_a, int trans_b, int_t m, int_t n, int_t k, T alpha, const void *a, int_t lda,
              const void *b, int_t ldb, T beta, void *c, int_t ldc)
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.dtypes import dtype

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112

#: (format of the name, bits of its integers; None: ask the library) in the order of preference
_FORMATS: tuple[tuple[str, int | None], ...] = (
    ("scipy_cblas_{}gemm64_", 64), ("cblas_{}gemm64_", 64), ("cblas_{}gemm$NEWLAPACK$ILP64", 64),
    ("cblas_{}gemm$NEWLAPACK", 32), ("scipy_cblas_{}gemm", 32), ("cblas_{}gemm_64", 64), ("cblas_{}gemm", None),
)
_THREADS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
            "openblas_{}_num_threads", "MKL_{}_num_threads")
_LIBRARY_WORDS = ("blas", "mkl_rt", "accelerate", "veclib", "flexi")


@dataclass(frozen=True, slots=True)
class Gemm:
    """How to call a matrix product. `kind` "callback" is np.matmul behind the same signature."""

    address: int
    int_bits: int
    kind: Literal["cblas", "callback"]
    name: str


def loaded_files() -> list[str]:
    """The files that are in this process's memory; none where the system does not tell."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return list(dict.fromkeys(line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")))
    except OSError:  # not Linux
        return []


def _loaded_libraries() -> Iterator[str]:
    """Paths of shared libraries that look like a BLAS: NumPy's own first, then the system's, then other packages'.

    A BLAS that another package brought along may have other integers and other threads than the one that eager uses.
    """
    package = Path(np.__file__).parent
    packages = str(package.parent) + os.sep
    own = (str(package) + os.sep, packages + "numpy.libs" + os.sep)

    def distance(path: str) -> int:
        return 0 if path.startswith(own) else 2 if path.startswith(packages) else 1

    loaded = [p for p in loaded_files() if any(word in os.path.basename(p).lower() for word in _LIBRARY_WORDS)]
    yield from sorted(loaded, key=distance)
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        if folder.is_dir():
            for file in sorted(folder.iterdir()):
                if any(word in file.name.lower() for word in _LIBRARY_WORDS):
                    yield str(file)
    if sys.platform == "darwin":
        yield "/System/Library/Frameworks/Accelerate.framework/Accelerate"


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found: dict[str, ctypes.CDLL] = {}
    for path in _loaded_libraries():
        try:
            found.setdefault(path, ctypes.CDLL(path))
        except OSError:  # a file of another architecture or a library that cannot be loaded twice
            continue
    if sys.platform != "win32":  # names that the process itself exports
        found[""] = ctypes.CDLL(None)
    return tuple(found.values())


def _address(library: ctypes.CDLL, name: str) -> int | None:
    function = getattr(library, name, None)
    return ctypes.cast(function, ctypes.c_void_p).value if function is not None else None


def _plain_int_bits(library: ctypes.CDLL) -> int:
    """The integers of an unsuffixed `cblas_sgemm`: 64 bits where OpenBLAS says that it was built so."""
    for name in ("openblas_get_config", "scipy_openblas_get_config"):
        get_config = getattr(library, name, None)
        if get_config is not None:
            get_config.restype = ctypes.c_char_p
            return 64 if b"USE64BITINT" in get_config() else 32
    return 32


@cache
def gemm_symbol(d: dtype) -> Gemm:
    """The matrix product for matrices of dtype `d` (any but bool); never fails."""
    letter = {"float32": "s", "float64": "d"}.get(d.name)
    if letter is not None:
        for library in _libraries():
            for template, bits in _FORMATS:
                name = template.format(letter)
                address = _address(library, name)
                if address:
                    return Gemm(address, bits or _plain_int_bits(library), "cblas", name)
    return _callback(d)


@cache
def thread_control() -> tuple[int, int] | None:
    """Addresses of `void set(int)` and `int get(void)` for the BLAS's own threads; None where there is none."""
    for library in _libraries():
        for template in _THREADS:
            setter, getter = (_address(library, template.format(word)) for word in ("set", "get"))
            if setter and getter:
                return setter, getter
    return None


def set_threads(count: int) -> None:
    """Let the BLAS, which NumPy uses too, run on `count` threads; nothing where it has no such control."""
    control = thread_control()
    if control is not None:
        ctypes.CFUNCTYPE(None, ctypes.c_int)(control[0])(count)


# --- the call-back ---

_kept: list[Any] = []  # ctypes call-backs die with their objects


def matrix(address: int, rows: int, columns: int, stride: int, d: dtype) -> np.ndarray[Any, Any]:
    """An ndarray over foreign memory, row-major with `stride` elements from row to row."""
    if rows == 0 or columns == 0:
        return np.empty((rows, columns), d.np)
    size = ((rows - 1) * stride + columns) * d.itemsize
    flat = np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype=d.np)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (stride * d.itemsize, d.itemsize))


def _callback(d: dtype) -> Gemm:
    scalar = ctypes.c_float if d is dtypes.float32 else ctypes.c_double
    i32, i64, pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    signature = ctypes.CFUNCTYPE(None, i32, i32, i32, i64, i64, i64, scalar, pointer, i64, pointer, i64, scalar,
                                 pointer, i64)

    def gemm(order: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: float, a: int, lda: int,
             b: int, ldb: int, beta: float, c: int, ldc: int) -> None:
        if m == 0 or n == 0:
            return
        left = matrix(a, k, m, lda, d).T if trans_a != NO_TRANS else matrix(a, m, k, lda, d)
        right = matrix(b, n, k, ldb, d).T if trans_b != NO_TRANS else matrix(b, k, n, ldb, d)
        out = matrix(c, m, n, ldc, d)
        if d.is_half:  # sums in float32, rounded once
            left, right = left.astype(np.float32), right.astype(np.float32)
        with np.errstate(all="ignore"):
            product = left @ right
            if beta:
                product = product + out * product.dtype.type(beta)
            out[...] = product.astype(d.np, copy=False)

    function = signature(gemm)
    _kept.append(function)
    address = ctypes.cast(function, pointer).value
    assert address is not None
    return Gemm(address, 64, "callback", f"jitgrad_matmul_{d.name}")
