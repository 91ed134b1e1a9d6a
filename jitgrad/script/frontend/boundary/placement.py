"""On which device eager would have a script's tensors.

A script runs on one device: where any of its tensors is on a GPU, there. What is on the CPU besides is brought there
at entry and back at exit, so that a script says what eager says: `device` is what a tensor would have, operands on
different devices are torch's error, results are where they should be.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.device import CPU, device
from jitgrad.dtypes import int64
from jitgrad.eager.arrays.arrays import different_devices
from jitgrad.eager.arrays.bounds import NOTHING_WRONG
from jitgrad.errors import Span, UnsupportedCall
from jitgrad.ops.opdef import OpDef
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.heap import SymTensor


@dataclass(slots=True)
class Placement:
    """What one evaluation knows of its devices.

    Attributes:
        second: another GPU, and where it was met.
        expected: on a GPU: tensors that say which index was out of range, and the exception, text before and after it.
    """

    second: tuple[device, Span | None] | None = None
    expected: list[tuple[SymTensor, tuple[type[Exception], str, str]]] = field(default_factory=list)


def of(context: Context) -> Placement:
    """The record of an evaluation."""
    return context.part(Placement)


def see(context: Context, where: device) -> None:
    """Note that a tensor of the script is on a device; a second GPU is refused at the end (`refuse_two`)."""
    if where.type == "cpu" or where == context.device:
        return
    if context.device.type == "cpu":
        context.device = where
        return
    found = of(context)
    if found.second is None:
        found.second = where, context.span()


def refuse_two(context: Context) -> None:
    """Raise UnsupportedCall where a script, which has nothing wrong in it, has tensors on two GPUs."""
    second = of(context).second
    if second is not None:
        where, span = second
        raise UnsupportedCall(f"tensors on two GPUs, {context.device} and {where}, in one script", span,
                              hint="write a script for each device")


def put(context: Context, tensor: SymTensor, where: Any) -> SymTensor:
    """`tensor`, just made, on a device or where another tensor is."""
    found = where.storage.device if not isinstance(where, device) else where
    if found is not None:
        see(context, found)
    tensor.storage.device = found
    return tensor


def together(op: OpDef, operands: Sequence[SymTensor]) -> device | None:
    """Where the result of operands is. RuntimeError where they cannot be put together."""
    gpu: device | None = None
    host = False
    for x in operands:
        where = x.storage.device
        if where is None:
            continue
        if where.type == "cpu":
            host = True
        elif gpu is None:
            gpu = where
        elif gpu != where:
            raise different_devices(gpu, where)
    if gpu is None or not host:
        return gpu or (CPU if host else None)
    for i, x in enumerate(operands):
        on_host = x.storage.device is not None and x.storage.device.type == "cpu"
        if on_host and x.ndim and (op.first_index is None or i < op.first_index):
            raise different_devices(gpu, CPU)
    return gpu


def expect(context: Context, indices: SymTensor, low: Any, high: Any, words: tuple[type[Exception], str, str]
           ) -> SymTensor:
    """Note that indices are expected in [low, high), and what is raised if not; the nearest that are."""
    from jitgrad.ops.library.core import apply, as_operand
    from jitgrad.ops.library.sizes import product

    least, most, none = (as_operand(v, int64) for v in (low, high - 1, NOTHING_WRONG))
    wrong = apply("logical_or", apply("lt", indices, least), apply("gt", indices, most))
    line = apply("reshape", apply("where", wrong, indices, none), shape=(product(indices.shape),))
    worst = apply("amax", apply("pad", line, pads=((1, 0),), value=NOTHING_WRONG), axes=(0,), keepdim=False)
    of(context).expected.append((worst, words))
    nearest: SymTensor = apply("minimum", apply("maximum", indices, least), most)
    return nearest
