"""How a kernel is launched: constants, and little arithmetic on two sizes, which generated code does at run time.

    forms = text.forms(kernel, "softmax_3")     # what `text.source(kernel, "softmax_3")` defines
    form = ...                                  # the first for such `outer` and `inner` that fits the device
    for launch in form.launches: ...            # in this order, each by `grid(launch, outer, inner)`

`outer` and `inner` are the products of the sizes of the kernel's outer and inner axes (1 without axes); `inner` of a
kernel without inner axes is `outer`. A kernel whose `outer` is 0 is not launched. With div rounding up, the launch
of `launch.symbol` has

    grid.x  = min(div(outer, launch.each), launch.most)
    grid.y  = 1 if launch.split == 0 else max(1, min(div(inner, launch.split), launch.blocks / grid.x rounded down))
    block.x = launch.threads
    shared  = div(inner, launch.unit) * launch.unit * launch.shared      bytes; above 48 KiB the driver has to be told

A form is not for a device that gives a block less than that (`Driver.shared`): 96 KiB on a desktop's GPU, 160 on an
A100, 224 on Hopper.

All launches of a kernel take the arguments of `llvm_kernel.parameters(kernel)`, in that order, and, if `scratch(forms)`
is not 0, one more behind them: the address of at least so many bytes of device memory, a multiple of 16. Its first
`TICKETS` bytes are zero before the launch, and again after it; the rest may hold anything, before and after. So one
piece of memory, cleared once, serves all kernels of a stream, one after another.
"""

from collections.abc import Sequence

from jitgrad.classes import dataclass

#: the bound of a form that takes any length
ANY = (1 << 63) - 1
#: bytes at the start of the scratch memory that are zero between launches
TICKETS = 4096
#: the most dynamic shared memory that a block has on any device, and what is left of a block's for static arrays
MOST_SHARED, STATIC = 224 * 1024, 3 * 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of one function; the module's docstring says how each number is used.

    Attributes:
        threads: of a block.
        each: how much of `outer` a block takes.
        most: the most blocks along x; they stride over what is left.
        split: how much of `inner` a block takes at least, where several along y share it; 0: none do.
        blocks: the most blocks altogether, where `split`.
        shared, unit: bytes of dynamic shared memory for each element of `inner`, rounded up to a multiple of `unit`.
        scratch: bytes that it uses of the scratch memory.
    """

    symbol: str
    threads: int
    each: int
    most: int
    split: int = 0
    blocks: int = 1
    shared: int = 0
    unit: int = 1
    scratch: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """What to launch where `inner <= bound` and `outer <= rows`."""

    bound: int
    launches: tuple[Launch, ...]
    rows: int = ANY


def shared_bytes(launch: Launch, inner: int) -> int:
    """The dynamic shared memory of a block. Of a form with several launches none has any."""
    return -(-inner // launch.unit) * launch.unit * launch.shared


def grid(launch: Launch, outer: int, inner: int) -> tuple[int, int]:
    """The blocks along x and y, by the arithmetic of the module's docstring, for `outer` > 0."""
    x = min(-(-outer // launch.each), launch.most)
    y = max(1, min(-(-inner // launch.split), launch.blocks // x)) if launch.split else 1
    return x, y


def scratch(forms: Sequence[Form]) -> int:
    """Bytes of scratch memory that a kernel asks for; 0: it has no such parameter."""
    return max(launch.scratch for form in forms for launch in form.launches)
