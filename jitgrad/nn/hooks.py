"""A module's call with hooks around it."""

import weakref
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.eager.autograd.function import Function
from jitgrad.eager.autograd.node import RemovableHandle
from jitgrad.eager.tensor import Tensor
from jitgrad.script.graph.marks import refuse


class Hooked:
    """The part of a module that is called: `forward`, with what was registered to run before and after it.

    `__call__` is in the subset of Python that `@script` compiles, which guards the dicts of hooks.
    """

    _forward_pre_hooks: dict[int, tuple[Callable[..., Any], bool]]
    _forward_hooks: dict[int, tuple[Callable[..., Any], bool, bool]]
    _backward_pre_hooks: dict[int, Callable[..., Any]]
    _backward_hooks: dict[int, Callable[..., Any]]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_pre_hooks or self._forward_hooks or self._backward_pre_hooks or self._backward_hooks:
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result other than None replaces the arguments."""
        return RemovableHandle(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result other than None replaces the output."""
        return RemovableHandle(self._forward_hooks, (hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the gradient passes the module; a result replaces grad_output."""
        return RemovableHandle(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once the inputs' gradients are known; a result replaces them."""
        return RemovableHandle(self._backward_hooks, hook, prepend)


def call_with_hooks(module: Hooked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forward pre-hooks, backward hooks' entry, forward, forward hooks, backward hooks' exit."""
    for _, _, always in module._forward_hooks.values():
        if always:
            return _call_always(module, args, kwargs)
    return _call(module, args, kwargs)


def _call(module: Hooked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _pre_hooks(module, args, kwargs)
    gradients = None
    hooked = None
    if module._backward_hooks and jitgrad.jit.is_scripting():
        args, hooked = enter(args)
    if (module._backward_hooks or module._backward_pre_hooks) and not jitgrad.jit.is_scripting():
        gradients = _GradientHooks(module)
        args = gradients.enter(args)
    result = module.forward(*args, **kwargs)
    for hook, with_kwargs, _ in list(module._forward_hooks.values()):
        replaced = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        if replaced is not None:
            result = replaced
    if hooked is not None:
        result = leave(hooked, module, tuple(module._backward_hooks.values()), result)
    if module._backward_pre_hooks and jitgrad.jit.is_scripting():
        if not isinstance(result, Tensor):
            refuse("a full backward pre-hook of a module that returns no tensor, inside a script",
                   "call the module outside the script")
        for before in reversed(list(module._backward_pre_hooks.values())):  # the last one meets the gradient first
            result = PreHook.apply(result, module, before)
    return result if gradients is None else gradients.leave(result)


def _call_always(module: Hooked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same where a hook asks to be called after an exception too (a script cannot catch one)."""
    try:
        return _call(module, args, kwargs)
    except Exception:
        for hook, with_kwargs, always in list(module._forward_hooks.values()):
            if always and with_kwargs:
                hook(module, args, kwargs, None)
            elif always:
                hook(module, args, None)
        raise


def _pre_hooks(module: Hooked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook, with_kwargs in list(module._forward_pre_hooks.values()):
        if with_kwargs:
            replaced = hook(module, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                                       f"got {replaced}.")
                args, kwargs = replaced
        else:
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


class PreHook(Function):
    """A module's result in a script; its gradient goes through a pre-hook."""

    what = "a full backward pre-hook"

    @staticmethod
    def forward(ctx: Any, y: Tensor, module: Hooked, hook: Any) -> Tensor:
        """y."""
        ctx.module, ctx.hook = module, hook
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """What the hook makes of the gradient."""
        changed = ctx.hook(ctx.module, (gradient,))
        if changed is None:
            return gradient, None, None
        return (changed[0] if isinstance(changed, tuple) else changed), None, None


class FullHooks(Function):
    """A module's call in a script: gradients at both of its ends, those of its inputs go through the hooks."""

    what = "a full backward hook"

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """What the hooks make of the gradients of the inputs at `ctx.positions`; the last is the result's."""
        taken = (gradients[-1],)
        full: Any = [None] * len(ctx.args)
        for i, a in enumerate(ctx.args):
            if i in ctx.positions:
                full[i] = gradients[ctx.positions.index(i)]
            elif ctx.positions and isinstance(a, Tensor):
                full[i] = jitgrad.zeros_like(a)
        for hook in ctx.hooks:
            replaced = hook(ctx.module, tuple(full), taken)
            if replaced is not None:
                replaced = replaced if isinstance(replaced, tuple) else (replaced,)
                if not ctx.positions and any(r is not None for r in replaced):
                    refuse("a full backward hook that returns a gradient where no input requires one",
                           "return None there")
                if len(replaced) != len(full):
                    refuse("a full backward hook that returns another number of gradients than the module has inputs",
                           "return one gradient, or None, per input")
                full = list(replaced)
        return tuple([full[i] for i in ctx.positions])


def enter(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """In a script: a module's arguments, from here on its own, and the hooked call that begins."""
    raise NotImplementedError("part of a script")


def leave(hooked: Any, module: Hooked, hooks: tuple[Any, ...], result: Any) -> Any:
    """In a script: the result of a module with full backward hooks."""
    raise NotImplementedError("part of a script")


# --- gradients -----------------------------------------------------------------------------------------------------


class _GradientHooks:
    """One call's backward hooks: identities on the tape around the module see its gradients pass."""

    def __init__(self, module: Hooked):
        self.module = weakref.ref(module)
        self.pre_hooks = list(module._backward_pre_hooks.values())
        self.hooks = list(module._backward_hooks.values())
        self.positions: list[int] = []
        self.n_inputs = 0
        self.grad_output: tuple[Any, ...] | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, the tensors among them behind an identity if any needs a gradient."""
        self.n_inputs = len(args)
        self.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        if not self.hooks or not any(args[i].requires_grad for i in self.positions) or not jitgrad.is_grad_enabled():
            self.positions = []
            return args
        seen = _identity(True)(self.input_gradients, *(args[i] for i in self.positions))
        result = list(args)
        for i, t in zip(self.positions, seen, strict=True):
            result[i] = t
        return tuple(result)

    def leave(self, result: Any) -> Any:
        """The result, its tensors behind an identity."""
        outputs = result if isinstance(result, tuple) else (result,)
        positions = [i for i, t in enumerate(outputs) if isinstance(t, Tensor)]
        if not any(outputs[i].requires_grad for i in positions):
            return result
        seen = _identity(False)(self.output_gradients, *(outputs[i] for i in positions))
        replaced = list(outputs)
        for i, t in zip(positions, seen, strict=True):
            replaced[i] = t
        return tuple(replaced) if isinstance(result, tuple) else replaced[0]

    def output_gradients(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The backward pass arrives."""
        module = self.module()
        for hook in self.pre_hooks:
            replaced = hook(module, grads)
            if replaced is not None:
                grads = replaced if isinstance(replaced, tuple) else (replaced,)
        self.grad_output = grads
        if not self.positions:  # no input needs a gradient: there is nothing to wait for
            for hook in self.hooks:
                replaced = hook(module, (None,) * self.n_inputs, grads)
                if replaced is not None and not (isinstance(replaced, tuple) and all(r is None for r in replaced)):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always "
                                       "return None or None for all gradients.")
        return grads

    def input_gradients(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The backward pass leaves. One that did not come through the result (of second order) meets no hooks."""
        if self.grad_output is None:
            return grads
        full: list[Any] = [None] * self.n_inputs
        for i, g in zip(self.positions, grads, strict=True):
            full[i] = g
        for hook in self.hooks:
            replaced = hook(self.module(), tuple(full), self.grad_output)
            if replaced is not None:
                replaced = replaced if isinstance(replaced, tuple) else (replaced,)
                if len(replaced) != len(full):
                    raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, "
                                       f"but expected {len(full)}")
                full = list(replaced)
        self.grad_output = None
        return tuple(full[i] for i in self.positions)


def _identity(materialize: bool) -> Callable[..., tuple[Any, ...]]:
    """A function of the tape that passes tensors on and shows their gradients to its first argument; zeros or None
    where there are none.
    """
    class Identity(jitgrad.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
        @staticmethod
        def forward(ctx: Any, watch: Callable[..., Any], *tensors: Any) -> tuple[Any, ...]:
            seen = tuple(t.view_as(t) for t in tensors)
            ctx.watch = watch
            ctx.set_materialize_grads(materialize)
            ctx.mark_non_differentiable(*(y for y, t in zip(seen, tensors, strict=True) if not t.requires_grad))
            return seen

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            return (None, *ctx.watch(grads))

    return Identity.apply  # type: ignore[no-any-return, unused-ignore]
