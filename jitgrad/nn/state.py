"""Saving and loading the state of modules in torch's format: dotted names, `_metadata` with versions, its errors."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import jitgrad
from jitgrad.eager.autograd.node import RemovableHandle
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.parameter import Parameter, is_lazy

EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing and unexpected."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Stateful:
    """The part of a module that saves and loads its parameters and persistent buffers, and those below it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _version: int = 1

    def state_dict(self, *, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, without history unless `keep_vars`."""
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            hook(self, destination, prefix, metadata)
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy a state_dict's tensors (or arrays) into this module.

        Args:
            state_dict: tensors or ndarrays by dotted name.
            strict: missing and unexpected names are errors.
            assign: take the tensors themselves instead of copying from them.

        Returns:
            A named tuple (missing_keys, unexpected_keys).

        Raises:
            RuntimeError: names or sizes do not fit; the message lists all of them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", {})
        values = OrderedDict(state_dict)
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        todo: list[tuple[str, Stateful]] = [("", self)]
        while todo:
            prefix, current = todo.pop()
            local = dict(metadata.get(prefix[:-1], {}), assign_to_params_buffers=assign)
            for hook in current._load_state_dict_pre_hooks.values():
                hook(current, values, prefix, local, True, missing, unexpected, errors)
            # modules list what is missing and unexpected whether or not that is an error
            current._load_from_state_dict(values, prefix, local, True, missing, unexpected, errors)
            children = [(f"{prefix}{name}.", child) for name, child in current._modules.items() if child is not None]
            todo.extend(reversed(children))
        for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
            if strict and keys:
                errors.insert(0, "{} key(s) in state_dict: {}. ".format(what, ", ".join(f'"{k}"' for k in keys)))
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(
                type(self).__name__, "\n\t".join(errors)))
        return IncompatibleKeys(missing, unexpected)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """This module's own entries; subclasses may add to them."""
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if keep_vars else b.detach()
        if self._has_extra_state():
            destination[prefix + EXTRA] = self.get_extra_state()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
                              strict: bool, missing_keys: list[str], unexpected_keys: list[str],
                              error_msgs: list[str]) -> None:
        """Load this module's own entries; subclasses may translate old formats."""
        buffers = {k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in (*self._parameters.items(), *buffers.items()) if v is not None}
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                assign = bool(local_metadata["assign_to_params_buffers"])
                problem = _load_one(self, name, target, state_dict[key], key, assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        if self._has_extra_state():
            if prefix + EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + EXTRA])
            elif strict:
                missing_keys.append(prefix + EXTRA)
        elif strict and prefix + EXTRA in state_dict:
            unexpected_keys.append(prefix + EXTRA)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    name, *below = key[len(prefix) :].split(".", 1)
                    if (below and name not in self._modules) or (not below and name not in own):
                        unexpected_keys.append(key)

    def get_extra_state(self) -> Any:
        """Further state to save under `_extra_state`; a subclass that has some overrides this."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _has_extra_state(self) -> bool:
        """Whether the module's class has a state of its own kind."""
        return type(self).get_extra_state is not Stateful.get_extra_state

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when the module's state has been saved."""
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, ...)` before the module's state is loaded."""
        return RemovableHandle(self._load_state_dict_pre_hooks, hook)


def _load_one(module: Stateful, name: str, target: Tensor, value: Any, key: str, assign: bool) -> str:
    """Copy or assign one entry; what is wrong with it, or ""."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = jitgrad.from_numpy(np.array(value))
    if not isinstance(value, Tensor):
        return (f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}")
    if is_lazy(target) and is_lazy(value):
        return ""
    if target.ndim == 0 and tuple(value.shape) == (1,):
        value = value[0]  # scalars were once saved with an axis
    if value.shape != target.shape:
        return (f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                f"current model is {target.shape}.")
    with jitgrad.no_grad():
        if not assign:
            target.copy_(value)
        elif name in module._parameters:
            module._parameters[name] = value if isinstance(value, Parameter) else Parameter(value, target.requires_grad)
        else:
            module._buffers[name] = value
    return ""
