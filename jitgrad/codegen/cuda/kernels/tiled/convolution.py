"""Kernels of convolutions of half types, products w @ columns without columns in memory: `convolution.cuh`.

    source(bfloat16, rank, rows, name="conv_3")     # extern "C" __global__ void conv_3(...), for all sizes
    form(rank, rows, "conv_3")                      # how it is launched, for so many blocks

The columns are gathered from the images while they go to shared memory; products are tensor cores', sums float32,
rounded once. Elements of the inner axis are added in one order, whatever the batch: equal calls give equal bits.

Source: Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014, section 3.
"""

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.tiled.library import MOST_BLOCKS, TYPES
from jitgrad.dims import Size
from jitgrad.dtypes import dtype

#: the texts that the kernels call
LIBRARY = ("tiles", "convolution")
#: places of a block, elements of the inner axis at a time
PIXELS, DEEP = 128, 32
#: outputs of a block: as few as hold a group's, that no tensor core multiplies zeros
ROWS = (16, 32, 64, 128)
#: the kernel's numbers, by axis where True, in the order of its parameters
NUMBERS = (("images", False), ("groups", False), ("channels", False), ("outputs", False), ("size", True),
           ("kernel", True), ("count", True), ("stride", True), ("padding", True), ("dilation", True),
           ("image", False), ("channel", False), ("step", True))


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


def shape(rank: int, rows: int) -> Shape:
    """For so many spatial axes and outputs of a block."""
    tap = 16 if rank <= 2 else 32
    wide = rows > 64
    return Shape(256 if wide else 128, 2 * 2 * DEEP * (rows + PIXELS) + 2 * DEEP * tap + PIXELS * 8, 2 if wide else 3)


def source(d: dtype, rank: int, rows: int, name: str) -> str:
    """The kernel `name`. Its parameters: the places of x, w and y; `NUMBERS`, of each spatial axis where they have
    one. `channels` and `outputs` are a group's; `image`, `channel` and `step` the strides of x; w and y are contiguous.
    No axis has 2^31 elements.
    """
    T, own = TYPES[d.name], shape(rank, rows)
    axes = range(rank)
    parameters = [f"const {T}* x", f"const {T}* w", f"{T}* y"]
    parameters += [f"i64 {n}{a}" for n, by_axis in NUMBERS for a in (axes if by_axis else [""])]
    numbers = [f"{{{', '.join([f'{n}{a}' for a in axes])}}}" if by_axis else n for n, by_axis in NUMBERS]
    return f"""extern "C" __global__ void __launch_bounds__({own.threads}, {own.resident})
{name}({', '.join(parameters)}) {{
    const jg_convolution<{T}, {rank}> all = {{x, w, y, {', '.join(numbers)}}};
    jg_convolve<{T}, {rank}, {rows}>(all);
}}"""


def form(rank: int, rows: int, name: str) -> Form:
    """The launch of so many blocks, `outer`: parts of the places by groups by parts of a group's outputs; `inner` is
    1."""
    own = shape(rank, rows)
    return Form(ANY, (Launch(name, own.threads, 1, MOST_BLOCKS, shared=own.shared),))
