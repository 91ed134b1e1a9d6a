"""In-place writes: what they do to memory, to versions, and to the history of bases and views.

The history of a view is derived from its base's. A write to a view gives the *base* a new node, `CopySlices`: the old
base with the written part replaced. Every view of the base finds, by the version of the storage, that its own node is
out of date, and replays its path of view ops from the base when next asked (`refresh`). This is torch's scheme.
Source: torch/csrc/autograd/functions/tensor.cpp (CopySlices), torch/csrc/autograd/variable.cpp (rebase_history).
"""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.eager import record
from jitgrad.eager.arrays.arrays import copy, device_of, filled_like, library, lying, transfer
from jitgrad.eager.arrays.library import HOST
from jitgrad.eager.arrays.mirrors import OVERLAP, Mirrors
from jitgrad.eager.arrays.moves import move
from jitgrad.eager.autograd.grad_mode import enable_grad, mode
from jitgrad.eager.autograd.node import (Lasting, Node, Storage, T, TapedArray, edge_of, move_retained, storage_of,
                                         whole_of)
from jitgrad.eager.autograd.opnode import OpNode
from jitgrad.eager.autograd.tape import TAPE, tape_of
from jitgrad.eager.construct import wrap
from jitgrad.ops import OPS

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
NO_GRAD_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case "
    "is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked).")
INFERENCE = ("Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
             "normal tensor before doing inplace update.")


def assign(target: T, value: TapedArray, since: int | None = None) -> T:
    """Write `value`, of the same shape and dtype, into the memory of `target`, with torch's rules; returns target.

    `since`: the node number from which on nodes are the in-place operation's own, where it is made of any.

    Raises RuntimeError for a leaf that requires grad (or a view of one) in grad mode, for memory in which elements
    overlap, and for inference tensors outside inference mode.
    """
    tracked = mode.enabled and (target.requires_grad or value.requires_grad
                                or (target._origin is not None and target._origin.requires_grad))
    if tracked:
        _require_writable_history(target)
        if value._node is not None and target._storage is not None and since is not None:
            _keep_overwritten(target, target._storage, value._node, since)
    array = target._data
    if target.is_inference() and not mode.inference:
        raise RuntimeError(INFERENCE)
    home, source = library(array), value._data
    if not home.writable(array):
        _make_writable(array)
    if type(source) is not type(array):
        repeated = type(source) is np.ndarray and source.size and not any(source.strides)  # one number
        source = source[(0,) * source.ndim] if repeated else transfer(source, device_of(array))
    home.xp.copyto(array, source, casting="no")
    if tracked:
        rebase(target, value)
    else:
        storage_of(target).wrote(array)
    return target


def require_writable(target: TapedArray, memory: bool = True) -> None:
    """RuntimeError where `assign` would refuse the target's history, or its `memory`, whatever is to be written."""
    if mode.enabled and (target.requires_grad or (target._origin is not None and target._origin.requires_grad)):
        _require_writable_history(target)
    if memory and not library(target._data).writable(target._data):
        _make_writable(target._data)


def _require_writable_history(target: TapedArray) -> None:
    origin = target._base if target._base is not None else target._origin
    if target._origin is not None:
        raise RuntimeError(NO_GRAD_VIEW)
    if target.requires_grad:
        if origin is not None and origin._node is None:
            raise RuntimeError(VIEW_OF_LEAF)
        if target.grad_fn is None:
            raise RuntimeError(LEAF)


def _keep_overwritten(target: TapedArray, storage: Storage, last: Node, since: int) -> None:
    """Copy what the in-place op itself saved of the memory that it is about to overwrite: `x.mul_(w)` saves x.

    The op's nodes end in `last`; what was saved before the op keeps raising torch's error.
    """
    stack, seen = [last], {last}
    while stack:
        node = stack.pop()
        if isinstance(node, OpNode):
            node.keep_copies(storage, target._data)
        for edge in node.edges:
            if edge is not None and isinstance(edge[0], Node):
                below = edge[0]
                if below not in seen and below.number > since:
                    seen.add(below)
                    stack.append(below)


def _make_writable(array: np.ndarray[Any, Any]) -> None:
    """Unlock a view that NumPy made read-only although no two elements share memory: an `expand` that repeats none, or
    a part of one. What it is a view of is unlocked for a moment, all but the array whose memory it is."""
    if array.size and any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)):
        raise RuntimeError(OVERLAP)
    if type(array) is not np.ndarray:
        return
    bases, base = [], array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            bases.append(base)
        base = getattr(base, "base", None)
    locked = [b for b in reversed(bases[:-1]) if not b.flags.writeable]
    try:
        for each in (*locked, array):
            each.flags.writeable = True
    except ValueError:
        raise RuntimeError("the memory of this tensor is read-only: it belongs to a read-only ndarray") from None
    finally:
        for each in locked:
            each.flags.writeable = False


def apart(target: TapedArray, operands: Sequence[TapedArray]) -> bool:
    """Whether no operand is the target or lies in its memory; as torch's, the answer for arrays with gaps is yes."""
    array = target._data
    if array.size and any(x is target for x in operands):
        return False
    home = library(array)
    if not _dense(array):
        return True
    begin = home.address(array)
    for x in operands:
        other = x._data
        if type(other) is type(array) and other.size and _dense(other):
            start = home.address(other)
            if begin < start + other.nbytes and start < begin + array.nbytes:
                return False
    return True


def _dense(array: Any) -> bool:
    """Whether an array's elements fill their memory without gaps, in whatever order of the axes."""
    size = array.itemsize
    for n, stride in sorted(zip(array.shape, array.strides, strict=True), key=lambda axis: axis[1]):
        if n != 1:
            if stride != size:
                return not array.size
            size *= n
    return True


RESIZED = ("An output with one or more elements was resized since it had shape {}, which does not match the required "
           "output shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized "
           "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
           "elements with t.resize_(0).")


def resize(target: T, result: TapedArray, operands: Sequence[TapedArray] = ()) -> T:
    """Give `target`, which `result` is about to overwrite, memory of its shape.

    It lies as that of the operands of which the result is computed element by element, without these as the result's.
    With a warning where it had elements.
    """
    array = target._data
    if target.is_inference() and not mode.inference:
        raise RuntimeError(INFERENCE)
    if array.size:
        warnings.warn(RESIZED.format(list(array.shape), list(result._data.shape)), UserWarning, stacklevel=5)
    xp, like = library(array).xp, result._data
    if not operands:
        target._data = xp.empty_like(like, array.dtype)
        return target
    target._data = lying(xp, like.shape, array.dtype, [x._data for x in operands])
    return target


def own(view: T) -> T:
    """A view of memory that nobody else has, with its history, as no view of anything: as what is computed."""
    if view._base is not None:
        edge_of(view)
    view._base, view._path, view._origin = None, (), None
    return view


RESHAPED = ("a tensor with views, or one of these, is written to with history after the tensor has changed its own "
            "shape (unsqueeze_, t_ and kin): how they belong together is not known any more. Use unsqueeze, t and kin "
            "instead.")


def become(target: T, view: Callable[[], TapedArray]) -> T:
    """Make `target` what a view of all of it is: shape and history, on the same memory; returns target.

    Raises RuntimeError for a leaf that requires grad in grad mode, and for inference tensors outside inference mode.
    """
    shared = target._storage
    if mode.enabled and target.requires_grad:
        with contextlib.suppress(IndexError, RuntimeError, ValueError):
            view()  # a TypeError comes first
        _require_writable_history(target)
    if target.is_inference() and not mode.inference:
        raise RuntimeError(INFERENCE)
    found = view()
    before, slot = target._node, target._slot
    target._data = found._data
    if target._base is not None or target._origin is not None:
        target._base, target._path, target._seen, target._origin = found._base, found._path, found._seen, found._origin
    elif shared is None:
        target._storage = None  # what `view` made: nobody else has it
    else:
        shared.reshaped = True
    if found._node is not None:
        target._node, target._slot, target._needs = found._node, found._slot, True
        move_retained(target, before, slot)
    return target


def conjugate(tensor: Any) -> Any:
    """The conjugate of a complex tensor, with memory of its own: a view of it for who writes to one of the two."""
    made = record.apply(OPS["conj"], (tensor,), {})
    record.link(made, tensor, OPS["conj"], {})
    storage = storage_of(tensor)
    storage.mirrors = storage.mirrors or Mirrors()
    storage.mirrors.add(made._data, tensor._data)
    return made


def is_conjugate(tensor: Any) -> bool:
    """Whether a tensor shows the conjugates of the numbers of its memory."""
    storage = tensor._storage
    return storage is not None and storage.mirrors is not None and storage.mirrors.is_conjugate(tensor._data)


def reinterpret(tensor: Any, to: dtypes.dtype) -> Any:
    """The bytes of a tensor as numbers of another dtype, on the same memory, without history.

    Raises RuntimeError, as torch does, where numbers of another size do not fit into the last axis or its strides.
    """
    array = tensor._data
    old, new = array.dtype.itemsize, to.np.itemsize
    if old != new:
        about = f"to view {tensor.dtype.word} as {to.word} (different element sizes), but got "
        if not array.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {about}0")
        if array.size and array.strides[-1] not in (old, 0 if array.shape[-1] == 1 else old):  # 0: NumPy's new axis
            raise RuntimeError(f"self.stride(-1) must be 1 {about}{array.strides[-1] // old}")
        if new > old:
            ratio = new // old
            if array.shape[-1] % ratio:
                raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {about}{array.shape[-1]}")
            offset = tensor.storage_offset()
            if offset % ratio:
                raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {about}{offset}")
            for axis, stride in enumerate(tensor.stride()[:-1]):
                if stride % ratio:
                    raise RuntimeError(f"self.stride({axis}) must be divisible by {ratio} {about}{stride}")
    storage_of(tensor).whole = whole_of(tensor)
    return record.apply(OPS["view_dtype"], (tensor,), {"dtype": to})


def put_back(array: np.ndarray[Any, Any], content: np.ndarray[Any, Any]) -> None:
    """Give memory that was computed on as a copy its new content. RuntimeError where that cannot be, and it differs."""
    if not array.flags.writeable and array.tobytes() != content.tobytes():
        _make_writable(array)
    if array.flags.writeable:
        array[...] = content


def rebase(target: TapedArray, value: TapedArray) -> None:
    """Count a write to `target`, and give it the history of `value` (whose elements it now holds)."""
    base = target._base
    if base is not None and storage_of(target).reshaped:
        raise RuntimeError(RESHAPED)
    changed = target if base is None else base
    # edges first: `value` may be a view of the same memory, whose history is that of before the write
    node = Overwrite(target, value) if base is None else CopySlices(base, target, value)
    storage_of(target).wrote(target._data)
    before, slot = changed._node, changed._slot
    node.attach(changed)
    move_retained(changed, before, slot)
    if base is not None:
        refresh(target)


def refresh(view: TapedArray) -> None:
    """Give a view the history that follows from its base's: its view ops, recorded again."""
    t = view._base
    assert t is not None
    if storage_of(view).reshaped:
        raise RuntimeError(RESHAPED)
    before, slot = view._node, view._slot
    if not t._needs:  # it was detached in place: the history ends in a tensor that nobody has
        t = wrap(t._data)
        t.requires_grad = True
    with enable_grad():
        for op, attrs in view._path:
            t = record.apply(op, (t,), attrs)
    view._node, view._slot, view._needs = t._node, t._slot, True
    view._seen = storage_of(view).version
    move_retained(view, before, slot)


class Overwrite(Lasting):
    """A tensor that was overwritten as a whole: what it was gets a zero gradient, the new value gets it all."""

    __slots__ = ()
    title = "CopyBackward"

    def __init__(self, target: TapedArray, value: TapedArray):
        if type(value._data) is not type(target._data):
            value = move(value, target.device)
        self.begin((target, value))
        if value._node is not None and self.edges[0] in value._node.edges:
            self.edges[0] = None  # the new value was computed from the old: zeros would add nothing
            self.needs = (False, self.needs[1])

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        (g,) = cotangents
        return [filled_like(g, "zeros_like") if needs[0] else None, g]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        (g,) = cotangents
        return [tape_of(g).zeros_like(g) if needs[0] else None, g]


class CopySlices(Lasting):
    """A base of which a view was overwritten: a zero gradient for the old part, the view's gradient for the new."""

    __slots__ = ("path",)
    title = "CopySlices"

    def __init__(self, base: TapedArray, view: TapedArray, value: TapedArray):
        self.begin((base, value))
        self.path = view._path

    def _view(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        for op, attrs in self.path:
            assert op.impl is not None
            array = op.impl(library(array).xp, array, **attrs)
        return array

    def _written(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Which elements of the base the view covers; through element numbers, whatever the base's layout."""
        numbers = np.arange(int(np.prod(shape))).reshape(shape)
        mask = np.zeros(numbers.size, bool)
        mask[self._view(numbers).reshape(-1)] = True
        return mask.reshape(shape)

    def _parts_written(self, shape: tuple[int, ...], complex_base: bool) -> np.ndarray[Any, Any]:
        """Likewise where the view has parts of complex numbers, or makes them of parts: the base's, on a last axis."""
        numbers = np.arange(2.0 * int(np.prod(shape))) if complex_base else np.arange(float(np.prod(shape)))
        seen = self._view((numbers.view(np.complex128) if complex_base else numbers).reshape(shape))
        mask = np.zeros(numbers.size, bool)
        mask[np.abs(np.ascontiguousarray(seen).reshape(-1).view(np.float64)).astype(np.int64)] = True
        return mask.reshape((*shape, 2) if complex_base else shape)

    def _lasting(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
        """Of a view in which elements overlap those that were written last, which alone are in memory; else None."""
        if all("in_order" in op.traits or "reads_memory" not in op.traits for op, _ in self.path):
            return None
        seen = self._view(np.arange(int(np.prod(shape))).reshape(shape))
        places, turns = seen.reshape(-1), np.arange(seen.size)
        last = np.zeros(int(np.prod(shape)), int)
        last[places] = turns
        lasting: np.ndarray[Any, Any] = last[places] == turns
        return None if lasting.all() else lasting.reshape(seen.shape)

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        (g,) = cotangents
        rest = None
        if needs[0]:
            home = library(g)
            rest = copy(g)
            part = self._view(rest)
            if home.shares(part, rest):
                if home is HOST and not part.flags.writeable:
                    part.flags.writeable = True
                part[...] = 0
            elif rest.dtype.kind == "c":
                parts = home.xp.ascontiguousarray(rest).view(rest.real.dtype).reshape((*g.shape, 2))
                parts[home.xp.asarray(self._parts_written(g.shape, True))] = 0
                rest = parts.reshape(-1).view(rest.dtype).reshape(g.shape)
            else:
                rest[home.xp.asarray(self._written(g.shape))] = 0
        if not needs[1]:
            return [rest, None]
        part, lasting = self._view(g), self._lasting(g.shape)
        if lasting is not None:
            part = part.copy()
            part[library(g).xp.asarray(~lasting)] = 0
        return [rest, part]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        g: TapedArray
        (g,) = cotangents
        part = g
        for op, attrs in self.path:
            part = record.apply(op, (part,), attrs)
        lasting = self._lasting(g._data.shape)
        if lasting is not None:
            part = TAPE.where(wrap(transfer(lasting, g.device)), part, 0.0)
        if not needs[0]:
            return [None, part]
        shape = g._data.shape
        if g._data.dtype.kind == "c" or part._data.dtype.kind == "c":
            split = g._data.dtype.kind == "c"
            written = wrap(transfer(self._parts_written(shape, split), g.device))
            if not split:
                return [TAPE.where(written, 0.0, g), part]
            rest = TAPE.where(written, 0.0, TAPE.view_as_real(g))
            return [TAPE.complex(*[TAPE.select(rest, axis=len(shape), index=k) for k in (0, 1)]), part]
        written = transfer(self._written(shape), g.device)
        return [TAPE.where(wrap(written), 0.0, g), part]
