"""How a thread computes floating-point numbers: whether those too small for full precision count as zero.

    jg_flush(on)                # for the thread that calls, from now on; 1, or 0 where the machine cannot
    jg_compute_with(jg_modes()) # what a thread says of itself, and another takes over

A processor that meets a subnormal number may leave its fast path for it.
"""

from collections.abc import Callable

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V


def _read_x86(f: Native) -> V:
    word = f.room(1, "i32")
    f.do("llvm.x86.sse.stmxcsr", word)
    return f.load(word, 0, "i32").cast("zext", "i64") & ~0x3F  # without what has happened, which is not for others


def _write_x86(f: Native, modes: V) -> None:
    word = f.room(1, "i32")
    f.store(modes.cast("trunc", "i32"), word)
    f.do("llvm.x86.sse.ldmxcsr", word)


_ARM = (lambda f: f.call("llvm.aarch64.get.fpcr", "i64", 1),
        lambda f, modes: f.do("llvm.aarch64.set.fpcr", modes), 1 << 24)
#: by the beginning of the machine's triple: reads the modes, writes them, the bits that flush results and operands
_MACHINES: dict[str, tuple[Callable[[Native], V], Callable[[Native, V], None], int]] = {
    "x86_64": (_read_x86, _write_x86, 1 << 15 | 1 << 6), "aarch64": _ARM, "arm64": _ARM}


def library(triple: str) -> Library:
    """The functions, for a machine."""
    found = Library()
    machine = next((m for start, m in _MACHINES.items() if triple.startswith(start)), None)

    @found.function("internal i64")
    def jg_modes(f: Native) -> V:
        return machine[0](f) if machine is not None else f.number(0)

    @found.function("internal void", modes="i64")
    def jg_compute_with(f: Native, modes: V) -> None:
        if machine is not None:
            with f.when(machine[0](f).ne(modes)):
                machine[1](f, modes)

    @found.function("i64", on="i64")
    def jg_flush(f: Native, on: V) -> V:
        if machine is None:
            return f.number(0)
        read, write, bits = machine
        write(f, on.ne(0).where(read(f) | bits, read(f) & ~bits))
        return f.number(1)

    return found
