"""Kernels of attention, softmax(q k^T * scale) v, and of its gradient: `attention.cuh` for a dtype and width of heads.

    source("forward", bfloat16, 64, causal=True, name="attention_3")    # extern "C" __global__ void attention_3(...)
    form("forward", 64, "attention_3")                                  # how it is launched, for so many blocks

Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023. The gradient is
computed by two kernels instead of one with atomic additions: "dq", a block for some queries, which also gives delta,
the sums of g * y along rows; then "dkv", a block for some keys. So its bits are the same in every run. Each of the two
computes the probabilities again.
"""

from collections.abc import Mapping

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.tiled.library import MOST_BLOCKS, TYPES
from jitgrad.codegen.program.steps import Attention as Kind
from jitgrad.dtypes import dtype

#: the texts that the kernels call
LIBRARY = ("tiles", "attention")
THREADS = 128


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kernel divides its work: rows of a block, rows of the other side at a time; bytes of shared memory, blocks
    of a multiprocessor for which registers are left."""

    rows: int
    at_a_time: int
    shared: int
    resident: int


def shape(kind: Kind, width: int) -> Shape:
    """For heads of a width."""
    rows = 128 if width <= 64 else 64
    if kind == "forward":
        return Shape(rows, 64, 2 * width * (rows + 4 * 64), 2)
    if kind == "dq":
        return Shape(rows, 32, 2 * width * (3 * rows + 4 * 32), 2)
    return Shape(rows, 32, 2 * width * (2 * rows + 4 * 32) + 4 * 32 * 4, 2)


#: the tensors that a kernel reads and writes by heads, and the arrays of a number for each row of q
HEADS: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "forward": (("q", "k", "v"), ("y",)),
    "dq": (("q", "k", "v", "y", "g"), ("dq",)),
    "dkv": (("q", "k", "v", "g"), ("dk", "dv"))}
NUMBERS: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "forward": ((), ("lse",)), "dq": (("lse",), ("delta",)), "dkv": (("lse", "delta"), ())}
_CALLS: Mapping[Kind, str] = {
    "forward": "jg_attention_rows<{T}, {width}, {m}, {n}, {causal}>(q, k, v, y, lse, mask, scale, first)",
    "dq": "jg_attention_dq<{T}, {width}, {m}, {n}, {causal}>(q, k, v, y, g, lse, delta, dq, mask, scale, first)",
    "dkv": "jg_attention_dkv<{T}, {width}, {m}, {n}, {causal}>(q, k, v, g, lse, delta, dk, dv, mask, scale, first)"}


def source(kind: Kind, d: dtype, width: int, causal: bool, name: str, mask: dtype | None = None) -> str:
    """The kernel `name`. Its parameters: the places of `HEADS` and of `NUMBERS`, and of the mask; the numbers of
    batches, heads, queries and keys; strides of batches, heads and rows for each of `HEADS`, of the mask's four axes;
    scale.

    mask: the dtype of what is added to the scores, or bool: whether a key is seen; None: there is none.
    """
    T, own = TYPES[d.name], shape(kind, width)
    reads, writes = HEADS[kind]
    parameters = [f"const {T}* {x}_" for x in reads] + [f"{T}* {x}_" for x in writes]
    parameters += [f"const float* {x}_" for x in NUMBERS[kind][0]] + [f"float* {x}_" for x in NUMBERS[kind][1]]
    parameters += [f"const {TYPES[mask.name]}* mask_"] if mask else []
    parameters += ["i64 batches", "i64 heads", "i64 n_q", "i64 n_k"]
    parameters += [f"i64 {x}_{k}" for x in (*reads, *writes) for k in range(3)]
    parameters += [f"i64 mask_{k}" for k in range(4) if mask] + ["float scale"]
    by_keys = kind == "dkv"
    lines = [f"const i64 parts = jg_parts({'n_k' if by_keys else 'n_q'}, {own.rows}), part = blockIdx.x % parts;",
             "const i64 line = blockIdx.x / parts, batch = line / heads, head = line % heads;"]
    # blocks with the most work come first
    lines.append(f"const int first = (int)({'parts - 1 - part' if causal and not by_keys else 'part'}) * {own.rows};")
    for x in (*reads, *writes):
        count = "n_q" if x in ("q", "y", "g", "dq") else "n_k"
        const = "const " if x in reads else ""
        lines.append(f"const jg_head<{const}{T}> {x} = jg_head_of({x}_, batch, head, {x}_0, {x}_1, {x}_2, {count});")
    for x in (*NUMBERS[kind][0], *NUMBERS[kind][1]):
        lines.append(f"{'const ' if x in NUMBERS[kind][0] else ''}float* {x} = {x}_ + line * n_q;")
    strides = ", ".join(f"mask_{k}" for k in range(4))
    lines.append(f"const auto mask = jg_mask_of(mask_, batch, head, {strides}, n_q, n_k);" if mask
                 else "const jg_no_mask mask = {};")
    lines.append(_CALLS[kind].format(T=T, width=width, m=own.rows // 64, n=own.at_a_time,
                                     causal=str(causal).lower()) + ";")
    body = "\n".join("    " + line for line in lines)
    return f"""extern "C" __global__ void __launch_bounds__({THREADS}, {own.resident})
{name}({', '.join(parameters)}) {{
{body}
}}"""


def form(kind: Kind, width: int, name: str) -> Form:
    """The launch of so many blocks, `outer`; `inner` is 1."""
    return Form(ANY, (Launch(name, THREADS, 1, MOST_BLOCKS, shared=shape(kind, width).shared),))
