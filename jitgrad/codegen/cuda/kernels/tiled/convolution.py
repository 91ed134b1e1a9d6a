"""Kernels of convolutions of half types, products with columns without columns in memory: `convolution.cuh`.

    source("y", bfloat16, rank, rows, name="conv_3")    # extern "C" __global__ void conv_3(...), for all sizes
    form("y", rank, rows, "conv_3")                     # how it is launched, for so many blocks

    y   w @ columns, rounded once
    w   y @ columns^T, float32, by parts of the places: each block sums one part's, and what adds up the parts rounds

The columns are gathered from the images while they go to shared memory; products are tensor cores', sums float32.
Elements of the inner axis are added in one order, for y whatever the batch: equal calls give equal bits.

Source: Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014, section 3.
"""

from collections.abc import Mapping

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.tiled.library import MOST_BLOCKS, TYPES
from jitgrad.dims import Size
from jitgrad.dtypes import dtype

#: the texts that the kernels call
LIBRARY = ("tiles", "convolution")
#: places of a block that makes y, rows of columns of one that makes w; elements of the inner axis at a time
ACROSS: Mapping[str, int] = {"y": 128, "w": 64}
DEEP = 32
#: outputs of a block: as few as hold a group's, that no tensor core multiplies zeros
ROWS = (16, 32, 64, 128)
#: the kernel's numbers, by axis where True, in the order of its parameters
NUMBERS = (("images", False), ("groups", False), ("channels", False), ("outputs", False), ("size", True),
           ("kernel", True), ("count", True), ("stride", True), ("padding", True), ("dilation", True),
           ("image", False), ("channel", False), ("step", True), ("result", False), ("output", False), ("place", True))


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kernel divides its work: threads and shared memory of a block; blocks of a multiprocessor for which
    registers are left."""

    threads: int
    shared: int
    resident: int


def rows_for(outputs: Size) -> int:
    """Outputs of a block, for so many of a group."""
    return next((rows for rows in ROWS if isinstance(outputs, int) and outputs <= rows), ROWS[-1])


def shape(role: str, rank: int, rows: int) -> Shape:
    """For so many spatial axes and outputs of a block."""
    across, tap = ACROSS[role], 16 if rank <= 2 else 32
    table = 2 * DEEP * tap + across * 8 if role == "y" else across * tap
    threads, resident = (256, 2) if rows > 64 else (128, 3 if role == "y" else 4)
    return Shape(threads, 2 * 2 * DEEP * (rows + across) + table, resident)


def source(role: str, d: dtype, rank: int, rows: int, name: str) -> str:
    """The kernel `name`. Its parameters: the places of x, w and y; `NUMBERS`, of each spatial axis where they have
    one; for w the number of parts, of which it has a sum each. `channels` and `outputs` are a group's; `image`,
    `channel` and `step` the strides of x, `result`, `output` and `place` those of y, which is contiguous where it is
    read, as w is. No axis has 2^31 elements.
    """
    T, own = TYPES[d.name], shape(role, rank, rows)
    axes = range(rank)
    made = {"y": (f"const {T}* w", f"{T}* y"), "w": ("float* w", f"const {T}* y")}[role]
    parameters = [f"const {T}* x", *made]
    parameters += [f"i64 {n}{a}" for n, by_axis in NUMBERS for a in (axes if by_axis else [""])]
    numbers = [f"{{{', '.join([f'{n}{a}' for a in axes])}}}" if by_axis else n for n, by_axis in NUMBERS]
    called, more = {"y": ("jg_convolve", ""), "w": ("jg_convolve_weight", ", parts")}[role]
    parameters += ["i64 parts"] if more else []
    return f"""extern "C" __global__ void __launch_bounds__({own.threads}, {own.resident})
{name}({', '.join(parameters)}) {{
    const jg_convolution<{T}, {rank}> all = {{x, {', '.join(numbers)}}};
    {called}<{T}, {rank}, {rows}>(all, w, y{more});
}}"""


def form(role: str, rank: int, rows: int, name: str) -> Form:
    """The launch of so many blocks, `outer`: parts of the places by groups by parts of a group's outputs, for w also by
    parts of the rows of columns; `inner` is 1."""
    own = shape(role, rank, rows)
    return Form(ANY, (Launch(name, own.threads, 1, MOST_BLOCKS, shared=own.shared),))
