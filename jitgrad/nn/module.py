"""`Module`: parameters, buffers and submodules in one object, as in torch.

Saving and loading is in `state.py`, calling, with hooks, in `hooks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jitgrad
from jitgrad.dtypes import dtype, given
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.hooks import Hooked
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.state import Stateful

M = TypeVar("M", bound="Module")

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module(Hooked, Stateful):
    """Base of all layers and models: assign parameters, tensors and modules as attributes, write `forward`.

    Attributes:
        training: whether the module is in training mode; see `train` and `eval`.
    """

    training: bool
    _modules: dict[str, Module | None]
    # what `extra_repr` tells, unless it is overridden: options by their values alone, then by name and value
    _told: tuple[str, ...] = ()
    _shown: tuple[str, ...] = ()

    def __init__(self) -> None:
        assign = object.__setattr__
        assign(self, "training", True)
        for name in (*_REGISTRIES, *_HOOKS, "_state_dict_hooks", "_load_state_dict_pre_hooks"):
            assign(self, name, {})
        assign(self, "_non_persistent_buffers_set", set())

    # --- attributes --------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__
        for registry in _REGISTRIES:
            found = values.get(registry)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        values = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        parameters = values.get("_parameters")
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{jitgrad.typename(value)}' as parameter '{name}' (torch.nn.Parameter "
                                "or None expected)")
            parameters[name] = None
        elif isinstance(value, Module):
            if "_modules" not in values:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            values["_modules"][name] = value
        elif getattr(value, "_is_buffer", False) is True:
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in values.get("_modules", ()):
            if value is not None:
                raise TypeError(f"cannot assign '{jitgrad.typename(value)}' as child module '{name}' (torch.nn.Module "
                                "or None expected)")
            values["_modules"][name] = None
        elif name in values.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{jitgrad.typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                                "torch.Tensor or None expected)")
            values["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def _forget(self, name: str, but: str) -> None:
        """Remove what else is called `name`, before it becomes something of another kind."""
        values = self.__dict__
        if name in values:
            object.__delattr__(self, name)
        for registry in _REGISTRIES:
            if registry != but and registry in values:
                values[registry].pop(name, None)
        values.get("_non_persistent_buffers_set", set()).discard(name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None: there is none). KeyError for a bad or taken name, TypeError for another type."""
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{jitgrad.typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                             f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                             "the forward() method.")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; `persistent`: part of the state_dict."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{jitgrad.typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                            "None required)")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{jitgrad.typename(module)} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, kind: str, name: str, registry: str) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {jitgrad.typename(name)}")
        if "." in name:
            raise KeyError(f"{kind} name can't contain \".\"" + (f", got: {name}" if kind == "module" else ""))
        if not name:
            raise KeyError(f"{kind} name can't be empty string \"\"")
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    # --- walking -----------------------------------------------------------------------------------------------------

    def children(self) -> Iterator[Module]:
        """The submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The submodules and their names, each module once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their dotted names, outer before inner."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def _named(self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        owners: Iterable[tuple[str, Module]] = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)])
        for path, module in owners:
            for name, value in getattr(module, registry).items():
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters and their dotted names; a shared one has its first name."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers and their dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path. AttributeError where there is none."""
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _at(self, target: str) -> tuple[Module, str]:
        """The module that has the last name of a dotted path, and that name. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. AttributeError where there is none."""
        found = getattr(*self._at(target))
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. AttributeError where there is none."""
        module, name = self._at(target)
        found = module._buffers.get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # --- changing all of it ------------------------------------------------------------------------------------------

    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor]) -> M:
        """Replace the memory of every parameter, its gradient and every buffer by what `fn` makes of it."""
        for module in self.children():
            module._apply(fn)
        with jitgrad.no_grad():
            for p in self._parameters.values():
                if p is not None:
                    grad = p.grad
                    p.data = fn(p.detach())
                    if grad is not None:
                        p.grad = fn(grad)
            for name, b in self._buffers.items():
                if b is not None:
                    self._buffers[name] = fn(b)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Cast floating-point parameters and buffers to a dtype, or move to a device; `memory_format` has no effect."""
        target: dtype | None = kwargs.pop("dtype", None)
        device: Any = kwargs.pop("device", None)
        kwargs.pop("non_blocking", None)
        kwargs.pop("memory_format", None)
        if kwargs:
            raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
        for a in args:
            if isinstance(a, Tensor):
                target, device = a.dtype, a.device
            elif isinstance(a, dtype):
                target = a
            elif not isinstance(a, bool):
                device = a
        if target is not None and not given(target).is_inexact:
            raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got desired "
                            f"dtype={target}")

        def convert(t: Any) -> Any:
            if device is not None:
                t = t.to(device)
            return t.to(target) if target is not None and t.dtype.is_inexact else t

        return self._apply(convert)

    def type(self: M, dst_type: Any) -> M:
        """All parameters and buffers as a dtype, or as what `Tensor.type` takes."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self: M) -> M:
        """Floating-point parameters and buffers as float32."""
        return self.to(jitgrad.float32)

    def double(self: M) -> M:
        """Floating-point parameters and buffers as float64."""
        return self.to(jitgrad.float64)

    def half(self: M) -> M:
        """Floating-point parameters and buffers as float16."""
        return self.to(jitgrad.float16)

    def bfloat16(self: M) -> M:
        """Floating-point parameters and buffers as bfloat16."""
        return self.to(jitgrad.bfloat16)

    def cuda(self: M, device: Any = None) -> M:
        """Everything on a GPU, the current one if none is named. RuntimeError where there is none."""
        return self.to("cuda" if device is None else device)

    def cpu(self: M) -> M:
        """Everything on the CPU."""
        return self.to("cpu")

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it in training mode (or, with False, in evaluation mode)."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Put this module and all below it in evaluation mode."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Whether the parameters need gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients, or fill them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.requires_grad_(False)
                p.grad.zero_()

    def share_memory(self: M) -> M:
        """Move parameters and buffers to memory that processes share (`Tensor.share_memory_`)."""
        for t in (*self.parameters(), *self.buffers()):
            t.share_memory_()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    # --- text --------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of the repr, before the submodules."""
        told = [str(getattr(self, name)) for name in self._told]
        for name in self._shown:
            value = self._parameters[name] is not None if name in self._parameters else getattr(self, name)
            told.append(f"{name}={value!r}")
        return ", ".join(told)

    def _unusual(self, **usual: Any) -> str:
        """The options that are not as usual, for `extra_repr`: ", bias=False"."""
        found = {name: getattr(self, name) for name in usual}
        return "".join([f", {name}={value}" for name, value in found.items() if value != usual[name]])

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        lines += children
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


class Family(Module):
    """A layer that says in its class statement what makes it one of several: `class Tanh(_Elementwise, function=tanh)`.

    What is said there, `function`, `rank`, `shown` and so on, is an attribute of the class, with an underscore.
    """

    _function: Callable[..., Tensor]
    _rank: int

    def __init_subclass__(cls, **facts: Any) -> None:
        super().__init_subclass__()
        for name, fact in facts.items():
            setattr(cls, f"_{name}", staticmethod(fact) if callable(fact) else fact)


__all__ = ["Module"]
