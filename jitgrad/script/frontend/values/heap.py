"""Tensors as references: reading applies the view path, writing (`writing.py`) rebuilds the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from jitgrad.classes import dataclass, field
from jitgrad.device import device as Device
from jitgrad.dims import Symbol
from jitgrad.dtypes import dtype
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.library.sizes import flag
from jitgrad.ops.tensorbase import Size as Shape, TensorBase
from jitgrad.ops.types import OptionalType, TensorType, map_dims
from jitgrad.script.frontend.state import dispatch, layout, versions
from jitgrad.script.frontend.state.context import LAYOUT, ORIGINS, Context, Restart, current
from jitgrad.script.frontend.state.paths import ITEM, Path, apply_view, is_tensor, marks, paths_equal
from jitgrad.script.frontend.values.symnumbers import size_number
from jitgrad.script.graph.ir import Block, Value

#: where the state counts the tensors that the script makes
BIRTHS = ("births", "")


class Storage:
    """The memory behind tensors. Its current value is in the state, under the storage itself.

    Attributes:
        type: of the whole storage.
        input: the number of the graph input whose memory it is, or -1.
        alias: why it may be the same memory as another one, or "" (writing is refused then).
        requires_grad: a leaf that asks for a gradient.
        retains_grad: no leaf, but backward fills its `.grad` all the same.
        parameter: the script made it as an `nn.Parameter`; None: a branch, loop or list brought it here, and it may be.
        root: for a leaf that the script made, the value to which gradients lead.
        ordered: whether eager's memory is in row order, else a reshape copies; None: as the caller's, not asked.
        block: the block in which the script made it, if it did.
        birth: how many it had made before that one, where it is asked which is which.
        made: what eager's `grad_fn` says of what it holds, "" if that is not certain; None if it may be a view of that.
        of_leaf: the memory of a complex leaf of the caller that asks for a gradient.
        was_leaf: a branch, loop or list brought it here, and it may be a leaf: its `.grad` is not known.
        origin: for an item of a list, which of the caller's tensors it is (`item_origins.py`); `unknown`: it may be.
        inference: the script made it in inference mode.
        conjugations: of how many conjugates, one of the other, it is the last.
        faces: what is held apart of it somewhere, the longest path first; the state says which of these there are.
        seen: the path by which its own tensor shows it, no view of it: one that changed its shape.
        device: where eager would have it; None: made of numbers, where the script's other tensors are.
    """

    __slots__ = ("alias", "birth", "block", "conjugations", "device", "faces", "inference", "input", "made", "of_leaf",
                 "ordered", "origin", "parameter", "requires_grad", "retains_grad", "root", "seen", "type", "unknown",
                 "was_leaf")

    def __init__(self, type_: TensorType, input_: int = -1, alias: str = "", requires_grad: bool = False):
        if type_.dtype.is_barebones:
            raise NotImplementedError(f"a script has no tensors of {type_.dtype.name}: convert to a signed type before "
                                      "the call, or work in an `@ignore`d function")
        self.type, self.input, self.alias, self.requires_grad = type_, input_, alias, requires_grad
        self.ordered: bool | None = True
        self.inference = self.retains_grad = self.was_leaf = self.of_leaf = self.unknown = False
        self.parameter: bool | None = False
        self.made: str | None = ""
        self.conjugations = 0
        self.root: Value | None = None
        self.block: Block | None = None
        self.birth: Any = None
        self.origin: tuple[Value, ...] = ()
        self.device: Device | None = None
        self.seen: Path = ()
        self.faces: list[Face] = []


class Face(Storage):
    """What a detached tensor shows that was written with a history, and its views: this history is its own.

    Attributes:
        memory: of what it was detached, and shows the content; `path`: from there to the detached tensor.
    """

    __slots__ = ("memory", "path")

    def __init__(self, type_: TensorType, memory: Storage, path: Path):
        super().__init__(type_)
        self.memory, self.path = memory, path


class SymTensor(TensorBase["SymTensor"]):
    """A tensor of the script: a view of a storage."""

    __slots__ = ("_known", "_type", "copied", "path", "storage", "unrecorded")
    #: the class of tensors whose path says that they are items; `items.py` sets it
    of_item: ClassVar[type[SymTensor]]

    def __new__(cls, storage: Storage, path: Path, *more: Any) -> SymTensor:
        mark = path[-1][1].get(ITEM) if path else None
        found: SymTensor = object.__new__(getattr(mark, "reference", SymTensor.of_item) if mark else SymTensor)
        return found

    def __init__(self, storage: Storage, path: Path, type_: TensorType, copied: bool = False, unrecorded: bool = False):
        self.storage, self.path, self._type = storage, path, type_
        self._known = -1  # at which change of sizes the type is canonical
        self.copied = copied  # a reshape that eager may have to copy: not writable
        self.unrecorded = unrecorded  # a view made while nothing is recorded: no write to it is recorded

    @property
    def type_(self) -> TensorType:
        """The tensor's type, sizes canonical."""
        sizes = current().sizes
        if sizes.changed != self._known:
            self._known, self._type = sizes.changed, cast(TensorType, sizes.canonical_type(self._type))
        return self._type

    @property
    def shape(self) -> Any:
        sizes: Any = [d if isinstance(d, int) else size_number(d) for d in self.type_.dims]
        return Shape(sizes)

    @property
    def dtype(self) -> dtype:
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return len(self._type.dims)

    @property
    def device(self) -> Device:
        """Where eager would have the tensor."""
        return self.storage.device or current().device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def source(self) -> tuple[Storage, Path]:
        """What holds what the tensor shows, its memory or a face of that, and the way from there."""
        storage, path = self.storage, self.path
        if storage.faces:
            values = current().state.values
            for face in storage.faces:
                n = len(face.path)
                if face in values and n <= len(path) and is_tensor(face.path, path[:n]):
                    return face, path[n:]
        return storage, path

    @property
    def requires_grad(self) -> bool:
        context = current()
        held, path = self.source
        return not any(op == "detach" for op, _ in path) and self.dtype.is_floating_point and context.has_history(
            stored(context, held))

    @property
    def is_leaf(self) -> bool:
        return not self.requires_grad or (not self.path and self.storage.requires_grad)

    def is_inference(self) -> bool:
        """Whether the script made the memory in inference mode."""
        return self.storage.inference

    def detach(self) -> SymTensor:
        """The same memory without history."""
        return detached(current(), self, {})

    def _refused(self, what: str) -> UnsupportedCall:
        return UnsupportedCall(f"`{what}` of a tensor of a script", current().span(),
                               hint="do it outside the script")

    def requires_grad_(self, requires_grad: bool = True) -> SymTensor:
        """Make a tensor that the script made a leaf."""
        if self.requires_grad and not self.is_leaf:
            if not requires_grad:
                raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                                   "computed variable in a subgraph that doesn't require differentiation use "
                                   "var_no_grad = var.detach().")
            return self
        if requires_grad and not self.dtype.is_floating_point:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if flag(requires_grad, "requires_grad") is not (self.requires_grad and self.is_leaf):
            changed: SymTensor = dispatch.require_grad(current(), self, bool(requires_grad))
            return changed
        return self

    def numpy(self, *, force: bool = False) -> Any:
        """Refused."""
        raise UnsupportedCall("`numpy()` of a tensor of a script", current().span(),
                              hint="use tensor operations, or mark the function that needs NumPy with "
                                   "`@jitgrad.ignore`")

    def tolist(self) -> Any:
        """Refused here: `attributes.py` makes the list."""
        raise self._refused("tolist")

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether eager's memory is in row order. Refused where sizes of the run decide it, and for other orders."""
        if any(isinstance(n, int) and n == 0 for n in self._type.dims):
            return True
        own = self.storage.input < 0 and not self.path and not self.storage.alias
        if own and self.storage.ordered is None:
            raise Restart(LAYOUT, "it is asked whether what is made of the caller's tensors is in row order")
        found = self.storage.ordered if own else layout.is_contiguous(current(), self)
        if found is None or getattr(memory_format, "order", None):
            raise self._refused("is_contiguous")
        return found

    def _in_order(self) -> bool:
        return bool(layout.keeps_rows(current(), self))

    def __repr__(self) -> str:
        return f"<tensor {self._type}>"

    __hash__ = object.__hash__


#: the attributes of the step that a view has which is made while nothing is recorded, known by their identity
UNRECORDED: dict[str, Any] = {}


@dataclass(slots=True)
class Heap:
    """What one evaluation knows of its storages.

    Attributes:
        leaves: tensors that may get a `.grad`.
        optional_grads: `.grad` of an input that could be None and is not: its slot.
        borrowed: leaves that the script made in the memory of another tensor -> that one.
        optional_sizes: sizes that only tensors have which may be missing.
        detaching: in loops, by the expression that detaches: the attributes of the step, which tell calls apart, and
            those of what the expression made in the iteration before.
        faces: all of them.
        leaves_in: of storages that are one memory, one of them a leaf that the script made in it: the other one, the
            path by which one of both is seen in the other, and whether that is the other one.
    """

    leaves: dict[Storage, None] = field(default_factory=dict)
    optional_grads: dict[Storage, Any] = field(default_factory=dict)
    borrowed: dict[Storage, Storage] = field(default_factory=dict)
    optional_sizes: set[Symbol] = field(default_factory=set)
    detaching: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)
    faces: list[Face] = field(default_factory=list)
    leaves_in: dict[Storage, list[tuple[Storage, Path, bool]]] = field(default_factory=dict)


def of(context: Context) -> Heap:
    """The record of an evaluation."""
    return context.part(Heap)


def new_tensor(context: Context, value: Value) -> SymTensor:
    """A tensor that the script makes."""
    tensor, values = holding(context, value), context.state.values
    if ORIGINS in context.decisions:
        tensor.storage.birth = values.get(BIRTHS, 0)
        values[BIRTHS] = dispatch.binary_number(context, "add", tensor.storage.birth, 1, checked=False)
    return tensor


def holding(context: Context, value: Value, alias: str = "") -> SymTensor:
    """A tensor with memory of its own that holds `value`."""
    type_ = value.type
    assert isinstance(type_, TensorType)
    storage = Storage(type_, alias=alias)
    storage.block, storage.inference = context.path[-1], context.inference
    context.state.values[storage] = value
    return SymTensor(storage, (), type_)


def copy(context: Context, tensor: SymTensor, value: Value | None = None) -> SymTensor:
    """A tensor with memory of its own that holds what `tensor` holds now; `value`: an Optional of that."""
    storage = Storage(tensor.type_)
    storage.block, storage.inference = context.path[-1], context.inference
    storage.ordered, storage.device = layout.keeps_order(context, tensor), tensor.storage.device
    context.state.values[storage] = shown(context, tensor) if value is None else value
    versions.of(context).join(tensor.storage, storage)
    versions.tell(context, storage, versions.lacking(context, tensor))
    return SymTensor(storage, marks(tensor.path), storage.type)


def shown(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value, with its history where nothing is recorded, too: it is handed on."""
    held, path = tensor.source
    value = current_value(context, held)
    for op, attrs in path:
        if op != "detach" or context.has_history(value):
            value = apply_view(context, value, op, attrs)
    return value


def read(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value, for an operation."""
    value = shown(context, tensor)
    if not context.grad and context.has_history(value):
        return apply_view(context, value, "detach", {})
    return value


def stored(context: Context, storage: Storage) -> Value:
    """What a storage holds now: an Optional where it was made on one side of a branch, or in a loop."""
    value: Value | None = context.state.values.get(storage)
    if value is None:  # an input first met in a branch or loop that ended
        value = context.state.values[storage] = context.inputs.values[storage.input]
    return value


def current_value(context: Context, storage: Storage) -> Value:
    """What a storage holds now; who refers to it knows that it is there."""
    value = stored(context, storage)
    if not isinstance(value.type, OptionalType):
        return value
    return apply_view(context, value, "opt.get", {"known": True})


def read_if_there(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value; an Optional where the tensor was made on one side of a branch, or in a loop."""
    source, path = tensor.source
    held = stored(context, source)
    if not isinstance(held.type, OptionalType):
        return shown(context, tensor)
    if not path:
        return held
    there, missing = Block(), Block()
    with context.block(there):
        whole = shown(context, tensor)
        value = context.one("opt.some", whole)
        there.results = (value,)
    with context.block(missing):
        elem = map_dims(whole.type, lambda d: d if isinstance(d, int) else 0)
        missing.results = (context.one("opt.none", type=elem),)
    (found,) = context.builder.emit("if", (context.one("opt.has", held),), blocks=(there, missing), types=(value.type,))
    context.mark_history((found,), (context.has_history(value),))
    return found


def detached(context: Context, tensor: SymTensor, attrs: dict[str, Any]) -> SymTensor:
    """A tensor in the same memory without history. Calls are told apart by the attributes of the step, which have
    nothing in them. Those of a call in a loop's body are the same in all iterations: what it made in the iteration
    before is from here on what another call has made."""
    if not context.bodies_open:
        return view(context, tensor, "detach", attrs, tensor.type_)
    attrs, before = of(context).detaching.setdefault(context.node, (attrs, type(attrs)()))
    made = view(context, tensor, "detach", attrs, tensor.type_)
    _rename_calls(context, made, SymTensor(made.storage, (*tensor.path, ("detach", before)), made.type_))
    return made


def _rename_calls(context: Context, tensor: SymTensor, other: SymTensor) -> None:
    """Let a detached tensor and its views, where they are known so far, be `other`."""
    length = len(tensor.path)

    def is_view(v: Any, of: SymTensor) -> bool:
        return isinstance(v, SymTensor) and v.storage is of.storage and is_tensor(of.path, v.path[:length])

    def changed(v: Any, steps: Any) -> Any:
        return SymTensor(v.storage, (*other.path, *v.path[length:]), v.type_, v.copied, v.unrecorded) if is_view(
            v, tensor) else v

    state, seen = context.state.values, places(context, lambda v: is_view(v, tensor))
    if seen and places(context, lambda v: is_view(v, other)):
        raise UnsupportedCall("more than two of the tensors that the iterations of a loop detach", context.span(),
                              hint="write `.clone()` where the tensor is made, so that it has memory of its own")
    for key, value in [*state.items()] if seen else ():
        state[key] = dispatch.replace_references(value, changed)
    for known in [*tensor.storage.faces]:
        if known in state and is_tensor(tensor.path, known.path[:length]):
            if seen:
                path = (*other.path, *known.path[length:])
                moved = face(context, SymTensor(tensor.storage, path, known.type))
                versions.inherit(context, known, moved)
                state[moved] = state[known]
            del state[known]


def face(context: Context, tensor: SymTensor) -> Face:
    """The face that a detached tensor has, or may get."""
    known = tensor.storage.faces
    found = next((f for f in known if is_tensor(f.path, tensor.path)), None)
    if found is None:
        found = Face(tensor.type_, tensor.storage, tensor.path)
        known.append(found)
        known.sort(key=lambda f: -len(f.path))
        of(context).faces.append(found)
    return found


def places(context: Context, wanted: Callable[[SymTensor], bool]) -> int:
    """How many variables and containers refer to such tensors."""
    seen = False

    def look(value: Any, steps: Any) -> Any:
        nonlocal seen
        seen |= isinstance(value, SymTensor) and wanted(value)
        return value

    count = 0
    for held in context.state.values.values():
        seen = False
        dispatch.replace_references(held, look)
        count += seen
    return count


def view(context: Context, tensor: SymTensor, op: str, attrs: dict[str, Any], type_: TensorType) -> SymTensor:
    """A tensor that shares memory with `tensor`."""
    same = op == "expand" and type_.ndim == tensor.ndim and all(map(context.sizes.equal, type_.dims, tensor.type_.dims))
    if same or (op == "slice" and not attrs["start"] and paths_equal(((op, attrs),), tensor.path[-1:])):  # `x[:k][:k]`
        op, attrs = "alias", {}
    path, steps = tensor.path, cast(Path, ((op, attrs),))
    if op == "alias" and path and path[-1][0] != "detach":  # shows the same, and is another array for eager
        path, steps = path[:-1], ((path[-1][0], {**path[-1][1]}),)
    if not context.grad and op != "detach" and type_.dtype.is_floating_point:
        steps = (*steps, ("detach", UNRECORDED))  # made while nothing is recorded: it stays without history
    copied = tensor.copied
    if op == "reshape" and not layout.surely_shares(context, tensor, type_.dims):
        shares = layout.shares(context, tensor, type_.dims) if LAYOUT in context.decisions and not copied else None
        if shares is False:
            return new_tensor(context, apply_view(context, read(context, tensor), op, attrs))
        copied = shares is None
        if copied:
            layout.doubt(context, tensor.storage)
    unrecorded = op != "detach" and (tensor.unrecorded or not context.grad)
    return SymTensor(tensor.storage, (*path, *steps), type_, copied, unrecorded)


def same_reference(a: SymTensor, b: SymTensor) -> bool:
    """Whether two tensors are the same memory seen in the same way."""
    return a.storage is b.storage and paths_equal(a.path, b.path)


def same_tensor(a: SymTensor, b: SymTensor) -> bool:
    """Whether they are that, and detached by the same calls: one of two may get a history that the other has not."""
    return a.storage is b.storage and is_tensor(a.path, b.path)
