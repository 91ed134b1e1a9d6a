"""`autograd.Function`: operations with a derivative written by hand. The context is the tape node, as in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from jitgrad.device import CPU
from jitgrad.dtypes import INEXACT_KINDS
from jitgrad.eager.arrays.arrays import transfer
from jitgrad.eager.autograd.grad_mode import enable_grad, mode, no_grad
from jitgrad.eager.autograd.items import apply_to_items
from jitgrad.eager.autograd.node import SECOND_BACKWARD, Meta, Node, changed, storage_of, version_of
from jitgrad.eager.construct import wrap
from jitgrad.eager.inplace import LEAF, rebase
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.backend import Batched

Backward = TypeVar("Backward", bound=Callable[..., Any])


class FunctionCtx(Node):
    """What `forward` and `backward` share: saved tensors, and any attribute that they set.

    Attributes:
        needs_input_grad: for every argument of `apply`, whether its gradient is wanted.
    """

    _function: type[Function]

    def __init__(self, args: Sequence[Any]):
        tensors = [a if isinstance(a, Tensor) else None for a in args]
        self.begin(tensors)
        if not mode.enabled:
            self.edges = [None] * len(self.edges)
            self.needs = (False,) * len(self.edges)
        self.needs_input_grad = self.needs
        self._to_save: tuple[Tensor | None, ...] = ()
        self._kept: list[Any] | None = []
        self._dirty: tuple[Tensor, ...] = ()
        self._flat: tuple[Tensor, ...] = ()
        self._materialize = True
        self._outputs: list[Meta] = []

    def name(self) -> str:
        return type(self).__name__

    # --- called by forward -------------------------------------------------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others; None stays None) for `saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError("save_for_backward can only save variables, but argument is of type "
                                f"{type(t).__name__}")
        self._to_save = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._flat = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for an output that nothing reached."""
        self._materialize = value

    # --- called by backward ------------------------------------------------------------------------------------

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` kept. RuntimeError if it was freed or overwritten since."""
        if self._kept is None:
            raise RuntimeError(SECOND_BACKWARD)
        return tuple([self._unpack(entry) for entry in self._kept])

    def _unpack(self, entry: Any) -> Tensor | None:
        if entry is None:
            return None
        tensor, (storage, version, array, origin, number), slot = entry
        if storage.version != version:
            if tensor is None:
                origin, number = self, slot
            raise changed(array, origin, number, version, storage.version)
        if tensor is not None:
            return tensor  # type: ignore[no-any-return]
        result: Tensor = wrap(array)
        return self.attach(result, slot) if slot >= 0 else result

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        given = [None if g is None else wrap(g) for g in cotangents]
        return [None if g is None else g._data for g in self._call(given)]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return self._call(list(cotangents))

    def _call(self, cotangents: list[Any]) -> list[Any]:
        if self._materialize and any(g is None for g in cotangents):
            where = next((g.device for g in cotangents if g is not None), CPU)  # one has come, or this would not run
            for slot, meta in enumerate(self._outputs):
                if cotangents[slot] is None:
                    cotangents[slot] = wrap(transfer(np.zeros(meta.shape, meta.dtype), where))
        result = self._function.backward(self, *cotangents)
        gradients = list(result) if isinstance(result, (tuple, list)) else [result]
        expected = len(self.edges)
        if len(gradients) > expected and all(g is None for g in gradients[expected:]):
            del gradients[expected:]
        if len(gradients) != expected:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected "
                               f"{expected}, got {len(gradients)})")
        assert self.metas is not None
        for i, (g, meta) in enumerate(zip(gradients, self.metas, strict=True)):
            if g is None:
                continue
            if not isinstance(g, Tensor):
                raise TypeError(f"function {self.name()} returned a gradient of type {type(g).__name__} at position "
                                f"{i + 1}, expected a Tensor or None")
            if meta is None:
                raise RuntimeError(f"function {self.name()} returned a gradient different than None at position "
                                   f"{i + 1}, but the corresponding forward input was not a Variable")
            if not _reducible(g._data.shape, meta.shape):
                raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {i} - got "
                                   f"{list(g._data.shape)} but expected shape compatible with {list(meta.shape)}")
        return gradients

    def release(self) -> None:
        if self._kept:
            self._kept = None

    # --- after forward -----------------------------------------------------------------------------------------

    def _finish(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Give the outputs their history and keep what was saved, without holding on to the outputs themselves."""
        results: list[Any] = []
        slot = 0
        for y in outputs:
            if not isinstance(y, Tensor):
                results.append(y)
                continue
            self._outputs.append(Meta(y._data.shape, y._data.dtype))
            results.append(self._output(y, inputs, slot))
            slot += 1
        self.n_outputs = slot
        kept: list[Any] = []
        for t in self._to_save:
            if t is None:
                kept.append(None)
                continue
            number = next((i for i, y in enumerate(outputs) if y is t), -1)
            is_input = any(t is x for x in inputs)
            if number < 0 or (is_input and not any(t is d for d in self._dirty)):
                kept.append((t, version_of(t), -1))
            else:
                y = results[number]  # an output: kept as memory and slot, so that this node does not hold it
                storage = storage_of(y)
                kept.append((None, (storage, storage.version, y._data, None, 0), y._slot if y._node is self else -1))
        self._kept, self._to_save, self._flat, self._dirty = kept, (), (), ()
        return results

    def _output(self, y: Tensor, inputs: Sequence[Any], slot: int) -> Tensor:
        if any(y is t for t in self._dirty):
            if y._needs and y._node is None and y._base is None:
                raise RuntimeError(LEAF)
            value: Tensor = self.attach(wrap(y._data), slot)
            if y._base is None:
                return self.attach(y, slot)
            rebase(y, value)
            return y
        if any(y is t for t in self._flat) or y._data.dtype.kind not in INEXACT_KINDS:
            return y
        if y._needs or any(y is x for x in inputs):
            storage = storage_of(y)
            y = wrap(y._data)  # an input returned as it is: another tensor on the same memory
            y._storage = storage
        return self.attach(y, slot)


def _reducible(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a gradient of `shape` can be brought to `target` by summing over or repeating axes of size one."""
    if shape == target or not shape:
        return True
    if len(shape) < len(target):
        return False
    return all(n in (1, m) for m, n in zip(shape[len(shape) - len(target):], target, strict=True))


class Function:
    """Base of operations with their own derivative.

    ```python
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    y = Square.apply(x)
    ```
    `forward` may leave out `ctx` where the class has `setup_context(ctx, inputs, output)`. `backward` gets one gradient
    per output and returns one, or None, per argument of `apply`; it is recorded with `create_graph=True`, so that
    differentiable operations in it can be differentiated again.

    Attributes:
        generate_vmap_rule: inside `func.vmap` the function is applied to each item. Otherwise a static method
            `vmap(info, in_dims, *args)` says what it is of all items: (results, their axes).
    """

    _node_type: type[FunctionCtx]
    generate_vmap_rule: bool = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The function of batches; a class that has one overrides this."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod "
                                  "or set generate_vmap_rule=True.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        facts = {"_function": cls, "__module__": cls.__module__}
        cls._node_type = type(cls.__name__ + "Backward", (FunctionCtx,), facts)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The value. A subclass overrides it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill the context after a `forward` that takes none. A subclass overrides it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments. A subclass overrides it."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and record the result as one step."""
        if any(isinstance(a, Batched) for a in args):
            return apply_to_items(cls, cls.vmap is not Function.vmap, args)
        ctx = cls._node_type(args)
        split = cls.setup_context is not Function.setup_context
        with no_grad():
            if split:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        if not any(ctx.needs_input_grad):
            return result
        several = isinstance(result, (tuple, list))
        outputs = tuple(result) if several else (result,)
        if not any(isinstance(y, Tensor) for y in outputs):
            raise TypeError(f"{cls.__name__}.forward: expected to return a Tensor, got {type(result).__name__}")
        results = ctx._finish(args, outputs)
        return tuple(results) if several else results[0]


def once_differentiable(backward: Backward) -> Backward:
    """Say that a Function's `backward` cannot be differentiated itself; doing so is an error."""
    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            result = backward(ctx, *gradients)
        if not mode.enabled or not any(isinstance(g, Tensor) and g.requires_grad for g in gradients):
            return result

        def refuse(cotangents: list[Any]) -> Sequence[Any]:
            raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")

        several = isinstance(result, (tuple, list))
        found = list(result) if several else [result]
        with enable_grad():
            node = Node("DelayedErrorBackward", [g for g in gradients if isinstance(g, Tensor)], refuse, refuse)
            for i, g in enumerate(found):
                if isinstance(g, Tensor) and g._data.dtype.kind in INEXACT_KINDS:
                    found[i] = node.attach(wrap(g._data), i)
        return tuple(found) if several else found[0]

    once.once = True  # type: ignore[attr-defined]  # for scripts, which evaluate what it wraps
    return once  # type: ignore[return-value]
