"""LLVM: text in, machine code out; the only module that imports llvmlite, and only when first used.

A module is compiled to an object (`compile_module`), which may be stored, and linked into the process by LLJIT
(`load`). Addresses of the outside world (BLAS, math functions, call-backs) are symbols given at load time, never part
of an object. MCJIT is not used: it owns its target machine, and reusing that one crashes.
"""

import hashlib
import itertools
import mmap
import os
import re
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from jitgrad.classes import dataclass

lock = threading.RLock()


def _before_fork() -> None:
    """A child would wait for ever for a thread that compiles in its parent, or lets go of what it has compiled."""
    lock.acquire()
    if _made.cache_info().currsize:
        _made().lock.__enter__()


def _after_fork() -> None:
    if _made.cache_info().currsize:
        _made().lock.__exit__()
    lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
_numbering = itertools.count()
#: of objects: how many bytes the names of functions that they leave undefined take, and how many the first object takes
_HEADER = struct.Struct("=qq")
#: functions that a text says are elsewhere, and those that it has
_DECLARED, _DEFINED = (re.compile(rf"{word} [^\n@]*@([\w.]+)") for word in ("declare", "define"))
#: bytes that LLVM may need for the smallest module
ROOM = 16 << 20
#: bytes of stack of a thread that LLVM runs in
STACK = 16 << 20
#: the objects made last, by target machine and text, the latest at the end; at most so many bytes of them
_objects: dict[tuple[Any, bytes], bytes] = {}
KEPT = 16 << 20


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that code is made for. `vector_bytes` is the width of a vector register."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    has_fma: bool
    has_avx512: bool

    @property
    def lanes(self) -> int:
        """Lanes of a kernel of 32-bit and smaller values; kernels of 64-bit values only use half."""
        return self.vector_bytes // 4

    @property
    def identity(self) -> str:
        """What an object's validity depends on."""
        return f"{self.triple} {self.cpu} {self.features}"


class _Llvm:
    """llvmlite's binding, the target machine and the pass list, set up once per process."""

    def __init__(self) -> None:
        import llvmlite.binding as binding  # noqa: TID251  (this is the one place)

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.binding, self.lock = binding, binding.ffi.lib._lock  # llvmlite's own, also taken where a library is freed
        self.version = ".".join(map(str, binding.llvm_version_info))
        triple = binding.get_process_triple()
        cpu = binding.get_host_cpu_name()
        features = binding.get_host_cpu_features()
        if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
            vector_bytes = 64
        elif features.get("avx2"):
            vector_bytes = 32
        else:
            vector_bytes = 16
        has_fma = bool(features.get("fma")) or triple.startswith(("aarch64", "arm64"))
        self.host = Host(triple, cpu, features.flatten(), vector_bytes, has_fma, vector_bytes == 64)

        def machine(opt: int) -> Any:
            return binding.Target.from_triple(triple).create_target_machine(
                cpu=cpu, features=self.host.features, opt=opt, reloc="pic", codemodel="default", jit=True)

        self.machine, self.quick_machine = machine(2), machine(0)
        # Emitters print clean SSA, and code generation itself reduces strength and shares subexpressions: further
        # passes cost a third of the compile time and change no measured run time.
        passes = binding.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        self.passes = passes
        self.tuning = binding.create_pipeline_tuning_options(2)
        # JITLink gives an object one piece of memory. The older linker asks for each section alone, and aborts where
        # two come to lie more than 2 GiB apart, as they do in a process that has reserved much memory in between.
        self.jit: Any = binding.create_lljit_compiler(machine(2), use_jit_link=True)

    def pass_builder(self) -> Any:
        """One for a single run: each run adds its observers to the builder, and later runs would call them all."""
        return self.binding.create_pass_builder(self.machine, self.tuning)


_made = lru_cache(maxsize=1)(_Llvm)


def _llvm() -> _Llvm:
    with lock:
        return _made()


def host() -> Host:
    """The machine that code is made for."""
    return _llvm().host


def version() -> str:
    """The version of LLVM."""
    return str(_llvm().version)


def optimise(text: str) -> Any:
    """Parse, verify and run the pass list (functions marked `optnone` are left alone); llvmlite's module.

    Raises RuntimeError for malformed text, MemoryError.
    """
    llvm = _llvm()
    _need_memory(len(text))
    with lock:
        module = llvm.binding.parse_assembly(text)
        module.triple = llvm.host.triple
        module.data_layout = str(llvm.machine.target_data)
        llvm.passes.run(module, llvm.pass_builder())
        return module


def _need_memory(length: int) -> None:
    """Raise MemoryError unless there is memory for LLVM to work on so much input.

    Where LLVM is refused memory it ends the process, and its linker fails without the reason.
    """
    try:
        mmap.mmap(-1, ROOM + 100 * length).close()
    except OSError as error:
        raise MemoryError("there is no memory for the compiler") from error


def compile_module(text: str, quick: str = "") -> bytes:
    """The objects of a module's text and of one that the quick code generator makes, as `load` reads them.

    Raises RuntimeError for malformed text.
    """
    llvm = _llvm()
    key = llvm.machine, hashlib.sha256(f"{len(text)} {text}{quick}".encode()).digest()
    with lock:
        kept = _objects.pop(key, b"")
        if not kept:
            good = bytes(llvm.machine.emit_object(optimise(text)))
            rest = bytes(llvm.quick_machine.emit_object(optimise(quick))) if quick else b""
            declared, defined = ({*names.findall(text), *names.findall(quick)} for names in (_DECLARED, _DEFINED))
            undefined = "\n".join(sorted(declared - defined)).encode()
            kept = _HEADER.pack(len(undefined), len(good)) + undefined + good + rest
        _objects[key] = kept
        while sum(map(len, _objects.values())) > KEPT and len(_objects) > 1:
            del _objects[next(iter(_objects))]
    return kept


def meanwhile(text: str, quick: str = "") -> Callable[[], bytes]:
    """`compile_module`, begun in a thread of its own; the result waits for the objects, or raises what it raises.

    LLVM lets other threads run Python: what is left of preparing a program is done beside it.
    """
    work = _Work(lambda: compile_module(text, quick))
    work.begin()
    return work.result


class _Work(threading.Thread):
    """Objects that are made in a thread of its own, or by who asks for them before it has begun."""

    def __init__(self, make: Callable[[], bytes]):
        super().__init__(name="jitgrad code generator", daemon=True)
        self._make, self._made = make, b""
        self._error: BaseException | None = None
        self._taken, self._done = threading.Lock(), threading.Event()

    def begin(self) -> None:
        """Start, with a stack on which LLVM can recurse: a new thread's is small on some systems. Where there is no
        room for a thread, who asks makes the objects."""
        with lock:
            before = threading.stack_size(STACK)
            try:
                self.start()
            except RuntimeError:
                pass
            finally:
                threading.stack_size(before)

    def run(self) -> None:
        with lock:  # who holds it may be who asks, and makes them then
            self._try()

    def _try(self) -> None:
        if self._taken.acquire(blocking=False):
            try:
                self._made = self._make()
            except BaseException as error:
                self._error = error
            self._done.set()

    def result(self) -> bytes:
        """What was made. Raises what making it raised."""
        self._try()
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._made


def assembly(text: str) -> str:
    """The machine code of a module's text, for people."""
    llvm = _llvm()
    with lock:
        return str(llvm.machine.emit_assembly(optimise(text)))


class Loaded:
    """An object linked into the process; its code lives as long as this does."""

    __slots__ = ("_addresses", "_library", "_trackers")

    def __init__(self, tracker: Any, library: str, exports: Iterable[str]):
        self._library = library
        self._trackers = [tracker]
        self._addresses: dict[str, int] = {name: tracker[name] for name in exports}

    def address(self, name: str) -> int:
        """The address of a function or variable. Raises RuntimeError for a name that is not there."""
        found = self._addresses.get(name)
        if found is None:
            with lock:
                tracker = _llvm().jit.lookup(self._library, name)
            self._trackers.append(tracker)
            found = self._addresses[name] = tracker[name]
        return found


def load(objects: bytes, symbols: Mapping[str, int], exports: Iterable[str] = ()) -> Loaded:
    """Link what `compile_module` made; `symbols` gives the addresses of what it leaves undefined.

    Raises RuntimeError if one lacks, MemoryError.
    `exports` are names whose addresses are wanted at once (others are looked up on demand). More symbols than the
    object needs do no harm: they are not even handed over.
    """
    llvm = _llvm()
    _need_memory(len(objects))
    names = tuple(exports)
    undefined, length = _HEADER.unpack_from(objects)
    start = _HEADER.size + undefined
    wanted = set(objects[_HEADER.size:start].decode().split("\n"))
    with lock:
        builder = llvm.binding.JITLibraryBuilder()
        for image in (objects[start:start + length], objects[start + length:]):
            if image:
                builder.add_object_img(image)
        builder.add_current_process()
        for name, address in symbols.items():
            if name in wanted or name.startswith("__"):  # the latter are called by what the code generator adds itself
                builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        library = f"jitgrad{next(_numbering)}"
        return Loaded(builder.link(llvm.jit, library), library, names)
