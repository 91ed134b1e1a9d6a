"""The shared libraries of CUDA, found and opened by ctypes: nothing is imported or linked before it is asked for.

    found = libraries.load("nvrtc")       # a Library; RuntimeError that says what to install
    version = found.function("nvrtcVersion", c_int, POINTER(c_int), POINTER(c_int))

`cuda` is the driver (libcuda), which comes with the machine. `nvrtc`, `cublasLt` and `cudart` come with pip: they are
looked for by `cuda.pathfinder` where it is installed (CuPy brings it), else in the folders `nvidia/*/lib` of
site-packages, else where the system's loader and CUDA_HOME say. Whoever takes a `Library` takes any object with
`address(symbol)`: tests hand over call-backs.
"""

import ctypes
import importlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from jitgrad.classes import dataclass, field
from jitgrad.kernels.blas import loaded_files

Name = Literal["cuda", "nvrtc", "cublasLt", "cudart"]

#: newest first: what the system's loader is asked for
_MAJORS = ("13", "12")
_EXTRA = 'pip install "jitgrad[cuda13]" (or "jitgrad[cuda12]" for a driver older than CUDA 13)'


class CudaError(RuntimeError):
    """A call of CUDA failed.

    Attributes:
        code: what it returned.
        name: CUDA's name for that.
    """

    def __init__(self, call: str, code: int, name: str, text: str = ""):
        detail = f"\n{text}" if "\n" in text else f" ({text})" if text else ""
        super().__init__(f"{call}: {name}{detail}")
        self.code, self.name = code, name


class LibraryError(RuntimeError):
    """A library of CUDA is not there. The text says what to install."""


#: what a C function of ours returns for an exception, which `failed` has noted
FAILED = -1
_thread = threading.local()


def failed(error: BaseException) -> int:
    """Note, for the thread, an exception that cannot pass through native code; what the C function returns."""
    _thread.failure = error
    return FAILED


def failure() -> BaseException | None:
    """The last exception that the thread has noted, if there is one, which is forgotten."""
    found: BaseException | None = _thread.__dict__.pop("failure", None)
    return found


class Symbols(Protocol):
    """Anything that knows C functions by name."""

    def address(self, symbol: str) -> int:
        """The function's address; 0 where this version does not have it."""
        ...


def bind(symbols: Symbols, symbol: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A C function as a callable; LibraryError where it is not there."""
    address = symbols.address(symbol)
    if not address:
        raise LibraryError(f"{symbol} is not in this version of the library{_of(symbols)}")
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return function


def _of(symbols: Symbols) -> str:
    path = getattr(symbols, "path", "")
    return f" ({path})" if path else ""


class Functions(ABC):
    """The functions of a library that return a status, 0 for success. Each is bound when first called, so that an older
    library lacks only what is used of it. `library` may be call-backs that stand for it in tests.
    """

    lacks = "{} is not in this version of the library"

    def __init__(self, library: Symbols, signatures: Mapping[str, tuple[Any, ...]]):
        self.library, self.signatures = library, signatures
        self._bound: dict[str, Callable[..., int]] = {}

    @abstractmethod
    def told(self, code: int) -> tuple[str, str]:
        """The name of a status, and what it means."""

    def address(self, name: str) -> int:
        """A function's address. LibraryError where the library does not have it."""
        found = self.library.address(name)
        if not found:
            raise LibraryError(self.lacks.format(name) + _of(self.library))
        return found

    def error(self, call: str, code: int) -> CudaError:
        """What a code means that `call` returned."""
        return CudaError(call, code, *self.told(code))

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function; what it returns."""
        function = self._bound.get(name)
        if function is None:
            function = self._bound[name] = ctypes.CFUNCTYPE(ctypes.c_int, *self.signatures[name])(self.address(name))
        return function(*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. CudaError where it fails, LibraryError where the library does not have it."""
        code = self.code(name, *arguments)
        if code:
            raise self.error(name, code)

    def made(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument says where to store a handle or a number: what it stored."""
        place = self.signatures[name][0]._type_()
        self.call(name, ctypes.byref(place), *arguments)
        return place.value or 0


@dataclass(frozen=True)
class Library:
    """An opened library.

    Attributes:
        name: as `load` was asked.
        path: the file, or the name that the system's loader resolved.
        origin: how it was found, in words.
    """

    name: str
    path: str
    origin: str
    handle: ctypes.CDLL = field(repr=False)

    def address(self, symbol: str) -> int:
        """The address of a function, 0 where the library has none of that name."""
        try:
            function = self.handle[symbol]
        except AttributeError:
            return 0
        return ctypes.cast(function, ctypes.c_void_p).value or 0


def _by_pathfinder(name: str) -> Iterator[tuple[str, str]]:
    try:
        finder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return
    try:
        found = finder.load_nvidia_dynamic_lib(name)
    except RuntimeError:  # not found, or not known to this version: the other ways remain
        return
    if found.abs_path:
        yield str(found.abs_path), f"cuda.pathfinder, {found.found_via}"


def _in_packages(name: str) -> Iterator[tuple[str, str]]:
    """Files of pip's packages: `nvidia/cu13/lib` since CUDA 13, one folder a library before."""
    for entry in dict.fromkeys(sys.path):
        folder = Path(entry or ".") / "nvidia"
        if folder.is_dir():
            for file in sorted(folder.glob(f"*/lib/lib{name}.so.*"), reverse=True):
                yield str(file), "pip's package"


def _of_the_system(name: str) -> Iterator[tuple[str, str]]:
    files = [f"lib{name}.so.{major}" for major in _MAJORS] + [f"lib{name}.so"]
    homes = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    for home in [*filter(None, homes), "/usr/local/cuda"]:
        for file in files:
            path = Path(home) / "lib64" / file
            if path.exists():
                yield str(path), f"the toolkit in {home}"
    for file in files:
        yield file, "the system's loader"


def _driver(name: str) -> Iterator[tuple[str, str]]:
    yield ("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"), "the system's loader"


def _resolved(path: str) -> str:
    """The file that a name was resolved to, as far as the process's map of memory tells."""
    if os.sep in path:
        return path
    return next((f for f in sorted(loaded_files()) if os.path.basename(f).startswith(path)), path)


@cache
def load(name: Name) -> Library:
    """Open a library of CUDA.

    Raises:
        LibraryError: it is not there, or cannot be opened; the text names what to install.
    """
    failures = []
    ways = (_driver,) if name == "cuda" else (_by_pathfinder, _in_packages, _of_the_system)
    for way in ways:
        for path, origin in way(name):
            try:
                handle = _open(path)
            except OSError as error:
                failures.append(str(error))
                continue
            return Library(name, _resolved(path), origin, handle)
    why = f": {failures[0]}" if failures else ""
    if name == "cuda":
        raise LibraryError(f"no NVIDIA driver{why}; it belongs to the machine and is not installed by pip")
    raise LibraryError(f"the CUDA library `{name}` was not found{why}; install it with {_EXTRA}")


def _open(path: str) -> ctypes.CDLL:
    """Open a library, and first those beside it that it would open by name and not find (NVRTC's built-ins)."""
    file = Path(path)
    if os.sep in path:
        for part in sorted(file.parent.glob(file.name.split(".so")[0] + "-builtins.so.*")):
            ctypes.CDLL(str(part))
    return ctypes.CDLL(path)


def cupy() -> Any:
    """The module cupy. LibraryError where it is not installed."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise LibraryError(f"CuPy cannot be imported ({error}); install it with {_EXTRA}") from error
