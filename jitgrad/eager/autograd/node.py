"""Nodes of the tape: what was done, what it read, and how a cotangent goes through it.

A tensor with history has `_node` and `_slot`: the node and the number of its output that the tensor is. A node holds
one *edge* per operand that may get a cotangent: `(node, slot)` of the operand's own history, `(leaf, 0)` for a leaf
tensor, None for an operand that needs none. Nodes never hold their outputs, so that a graph dies with its last tensor.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Union

import numpy as np

from jitgrad import dtypes
from jitgrad.device import CPU, device as Device
from jitgrad.dtypes import dtype
from jitgrad.eager.arrays import arrays
from jitgrad.eager.arrays.mirrors import Mirrors
from jitgrad.eager.autograd.anomaly import remember, watching
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.ops.opdef import OpDef

_ndarray = np.ndarray
_FROM_NP = dtypes.FROM_NP

Array = np.ndarray[Any, np.dtype[Any]]
Edge = tuple[Union["Node", "TapedArray"], int]
Hook = Callable[..., Any]
T = TypeVar("T", bound="TapedArray")

#: numbers grow with time: a node's is larger than those of all nodes that it leads to
next_number = itertools.count(1).__next__
_hook_ids = itertools.count().__next__

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `no_grad()` instead of `inference_mode()`.")
#: torch's error for a saved value that was overwritten, around what was, its version, and the expected one
OVERWRITTEN = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: ",
    "; expected version ",
    " instead. Hint: the value was saved when the graph was recorded; write `.clone()` before the in-place operation, "
    "or do it out of place.")
SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward.")


class Storage:
    """What tensors that share memory share besides it.

    `version` is the number of in-place writes so far; `inference` memory was made in inference mode: it may be written
    only there, and nothing keeps it for a gradient. `reshaped`: the base of views has got another shape itself.
    `whole`: the array of which detached tensors may be parts. `mirrors`: the conjugates of it, which follow it.
    """

    __slots__ = ("inference", "mirrors", "reshaped", "version", "whole")

    def __init__(self, version: int = 0, inference: bool = False):
        self.version, self.inference, self.reshaped = version, inference, False
        self.whole: Any = None
        self.mirrors: Mirrors | None = None

    def wrote(self, array: Array) -> None:
        """Count a write to a part of the memory."""
        self.version += 1
        if self.mirrors is not None:
            self.mirrors.follow(array)


class Meta:
    """Shape and NumPy dtype of an operand whose elements its derivative does not read."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


class RemovableHandle:
    """What registering a hook, last or first, returns: `remove()` takes the hook away; also a context manager."""

    def __init__(self, hooks: dict[int, Any], hook: Any, first: bool = False):
        self.id = _hook_ids()
        self._hooks = hooks
        behind = list(hooks) if first else []
        hooks[self.id] = hook
        for number in behind:
            hooks[number] = hooks.pop(number)

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Node:
    """One step of the tape, made by hand: a scripted call, a custom Function, an in-place write of a view.

    Args:
        name: what `grad_fn` shows, "Backward" included.
        inputs: the operands in order, Tensors or None; those that require no gradient may be given too.
        backward: first order. Takes one cotangent per output (an ndarray of the output's shape and dtype, or None
            where nothing reached that output) and returns one gradient per input: an ndarray that broadcasts from the
            input's shape, or None where the input was not reached (a leaf's `.grad` then stays as it was). What it
            gets and returns is read-only from then on. It must not be called again once the node is released.
        backward_tape: the same on Tensors, for `create_graph=True`; runs with grad mode on, and what it computes has
            history. None: the node refuses a second derivative.
        n_outputs: how many outputs may get a cotangent: the length of the lists above.
        saved: Tensors whose memory `backward` reads again. One that was changed in place by then is torch's error.

    Give outputs their history with `attach`. Without `retain_graph` the node drops `backward` and `backward_tape`
    (and with them all that they hold) after use, and a second backward raises torch's error.
    """

    __slots__ = ("__weakref__", "_backward", "_backward_tape", "edges", "hooks", "metas", "n_outputs", "needs",
                 "number", "retained", "title", "versions")

    def __init__(self, name: str, inputs: Sequence[TapedArray | None], backward: Callable[[list[Any]], Sequence[Any]],
                 backward_tape: Callable[[list[Any]], Sequence[Any]] | None = None, *, n_outputs: int = 1,
                 saved: Sequence[TapedArray] = ()):
        self.begin(inputs, n_outputs)
        self.title = name
        self._backward: Callable[[list[Any]], Sequence[Any]] | None = backward
        self._backward_tape = backward_tape
        self.versions: tuple[Version, ...] = tuple([version_of(x) for x in saved])

    def begin(self, inputs: Sequence[TapedArray | None], n_outputs: int = 1) -> None:
        """What every node has: its number, and where the gradients of its inputs go."""
        self.number = next_number()
        self.edges: list[Edge | None] = [None if x is None else edge_of(x) for x in inputs]
        self.needs: tuple[bool, ...] = tuple([e is not None for e in self.edges])
        #: shape and dtype of each input: its gradient is summed and cast to them
        self.metas: list[Any] | None = [None if x is None else Meta(x._data.shape, x._data.dtype) for x in inputs]
        self.n_outputs = n_outputs
        self.hooks: Hooks | None = None
        self.retained: dict[int, weakref.ref[TapedArray]] | None = None
        if watching.on:
            remember(self)

    def attach(self, tensor: T, slot: int = 0) -> T:
        """Make `tensor`, new and without history, output number `slot` of this node; returns it."""
        tensor._node, tensor._slot, tensor._needs = self, slot, True
        if slot >= self.n_outputs:
            self.n_outputs = slot + 1
        return tensor

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        """Gradients of the inputs, as arrays; entries that `needs` does not mark may be missing."""
        if self._backward is None:
            raise RuntimeError(SECOND_BACKWARD)
        self.check_versions()
        return self._backward(cotangents)

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        """Gradients of the inputs, as Tensors with history."""
        if self._backward is None:
            raise RuntimeError(SECOND_BACKWARD)
        if self._backward_tape is None:
            raise RuntimeError(f"{self.name()} has no derivative of its own: create_graph=True cannot go through it")
        self.check_versions()
        return self._backward_tape(cotangents)

    def release(self) -> None:
        """Drop what was kept for backward."""
        if self._backward is not None:
            self._backward = self._backward_tape = None
            self.versions = ()

    def check_versions(self) -> None:
        """Raise torch's error if a saved tensor was changed in place."""
        for storage, version, array, origin, slot in self.versions:
            if storage.version != version:
                raise changed(array, origin, slot, version, storage.version)

    # --- what users see ----------------------------------------------------------------------------------------

    def name(self) -> str:
        """What was done, "Backward" included."""
        return self.title

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that this one leads to, as in torch: `(None, 0)` where an operand needs no gradient."""
        found: list[tuple[Any, int]] = []
        for edge in self.edges:
            if edge is None:
                found.append((None, 0))
            else:
                target, slot = edge
                found.append((target if isinstance(target, Node) else AccumulateGrad(target), slot))
        return tuple(found)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after this node's backward; a result replaces grad_inputs."""
        return RemovableHandle(self.own_hooks().after, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before this node's backward; a result replaces grad_outputs."""
        return RemovableHandle(self.own_hooks().before, hook)

    def own_hooks(self) -> Hooks:
        """This node's hooks, made on demand."""
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks


class Lasting(Node):
    """A node that keeps nothing which backward could free: it runs any number of times. `title` is its class's."""

    __slots__ = ()

    def release(self) -> None:
        pass


class Hooks:
    """Hooks of a node: on its outputs (tensor hooks, by slot), before and after its backward."""

    __slots__ = ("after", "before", "outputs")

    def __init__(self) -> None:
        self.outputs: dict[int, dict[int, Hook]] = {}
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}


class AccumulateGrad:
    """Where a gradient leaves the graph: the `next_functions` entry of a leaf."""

    __slots__ = ("variable",)
    next_functions: tuple[tuple[Any, int], ...] = ()

    def __init__(self, variable: TapedArray):
        self.variable = variable

    def name(self) -> str:
        """As torch calls it."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


# --- tensors as the tape sees them ---------------------------------------------------------------------------------


class TapedArray:
    """An array and its place on the tape: what running, recording, views and moves know of a tensor.

    `eager.tensor.Tensor`, the only class of them, adds torch's interface.
    """

    # Defaults live in the class, so that making a tensor sets few attributes: what each operation and call asks of it,
    # which is found sooner in the tensor than in its class.
    _data: Array
    _node: Node | None = None        # history: the node that computed it ...
    _slot: int = 0                   # ... and which of its outputs it is
    _needs: bool = False             # requires a gradient, by itself or through its history
    _base: TapedArray | None = None  # a differentiable view: of this tensor ...
    _path: tuple[tuple[OpDef, dict[str, Any]], ...] = ()  # ... by these view ops ...
    _seen: int = 0                   # ... with `_node` valid for this version of the storage
    _origin: TapedArray | None = None  # a view made while nothing was recorded: of this tensor
    _storage: Storage | None = None
    _grad: TapedArray | None = None
    _grad_dtype: tuple[dtype | None, ...] = ()   # of a leaf: what its gradient is cast to, where that was set
    _hooks: dict[int, Hook] | None = None        # of a leaf; those of others are on their nodes
    _after_hooks: dict[int, Hook] | None = None  # after the gradient has been added to a leaf's
    _retains: bool = False

    @property
    def dtype(self) -> dtype:
        """The type of the elements."""
        return _FROM_NP[self._data.dtype]

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return CPU if type(self._data) is _ndarray else arrays.device_of(self._data)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return type(self._data) is not _ndarray

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._needs or (self._base is not None and self._base._needs)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            if not value:
                raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                                   "computed variable in a subgraph that doesn't require differentiation use "
                                   "var_no_grad = var.detach().")
            return
        if value and self._data.dtype.kind not in dtypes.INEXACT_KINDS:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if value and self.is_inference() and not mode.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        self._needs = bool(value)

    def is_inference(self) -> bool:
        """Whether the tensor's memory was made in inference mode."""
        return self._storage is not None and self._storage.inference

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed this tensor; None for a leaf."""
        if self._base is not None:
            edge_of(self)  # the node of a view follows writes to its base
        return self._node

    def _refresh(self) -> None:
        """Derive the history of this view again, from what its base now is."""
        raise NotImplementedError


def edge_of(x: TapedArray) -> Edge | None:
    """Where a cotangent of `x` goes; None if x needs none.

    Of a view that was made before its base became a leaf that requires grad it is, as torch's, the view's own.
    """
    base = x._base
    if base is not None and (base._needs or x._node is not None) and x._seen != storage_of(x).version:
        x._refresh()
    if x._node is not None:
        return (x._node, x._slot)
    return (x, 0) if x.requires_grad else None


def storage_of(x: TapedArray) -> Storage:
    """The storage of `x`, made on demand."""
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage()
    return storage


def whole_of(x: TapedArray) -> Array:
    """The array of the memory of which `x` is a part."""
    root = x._base if x._base is not None else x._origin if x._origin is not None else x
    return root._data if root._storage is None or root._storage.whole is None else root._storage.whole


#: storage, its version when saved, the array, and whose output (node and slot) it was
Version = tuple[Storage, int, Array, "Node | None", int]


def version_of(x: TapedArray) -> Version:
    """What to check, and to say, before x's memory is read again."""
    storage = storage_of(x)
    return storage, storage.version, x._data, x._node, x._slot


def changed(array: Array, origin: Node | None, slot: int, expected: int, found: int) -> RuntimeError:
    """torch's error for a saved value that was overwritten."""
    where = "" if origin is None else f", which is output {slot} of {origin.name()},"
    head, middle, tail = OVERWRITTEN
    what = f"[{array.dtype} {list(array.shape)}]{where}"
    return RuntimeError(f"{head}{what} is at version {found}{middle}{expected}{tail}")


def retain(node: Node, tensor: TapedArray) -> None:
    """Let backward fill the tensor's `.grad` when the gradient of this output of `node` is known."""
    if node.retained is None:
        node.retained = {}
    node.retained[tensor._slot] = weakref.ref(tensor)


def move_retained(tensor: TapedArray, before: Node | None, slot: int) -> None:
    """Let a tensor that got a new node keep its `.grad` filled, no longer by node `before`."""
    if tensor._retains:
        if before is not None and before.retained is not None:
            before.retained.pop(slot, None)
        if tensor._node is not None:
            retain(tensor._node, tensor)
