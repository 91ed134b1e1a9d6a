"""Saving and loading the state of modules in torch's format: dotted names, `_metadata` with versions, its errors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from jitgrad.nn.module import Module

EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing and unexpected."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def has_extra(module: Module) -> bool:
    """Whether the module's class has a state of its own kind."""
    from jitgrad.nn.module import Module

    return type(module).get_extra_state is not Module.get_extra_state


def save(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Add the module's entries and those below it to `destination`."""
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        hook(module, destination, prefix, metadata)
    return destination


def save_own(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """The module's own parameters and persistent buffers."""
    for name, p in module._parameters.items():
        if p is not None:
            destination[prefix + name] = p if keep_vars else p.detach()
    for name, b in module._buffers.items():
        if b is not None and name not in module._non_persistent_buffers_set:
            destination[prefix + name] = b if keep_vars else b.detach()
    if has_extra(module):
        destination[prefix + EXTRA] = module.get_extra_state()


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Load into the module and all below it. RuntimeError, with everything that does not fit."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", {})
    values = OrderedDict(state_dict)
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    todo: list[tuple[str, Module]] = [("", module)]
    while todo:
        prefix, current = todo.pop()
        local = dict(metadata.get(prefix[:-1], {}), assign_to_params_buffers=assign)
        for hook in current._load_state_dict_pre_hooks.values():
            hook(current, values, prefix, local, strict, missing, unexpected, errors)
        current._load_from_state_dict(values, prefix, local, strict, missing, unexpected, errors)
        children = [(f"{prefix}{name}.", child) for name, child in current._modules.items() if child is not None]
        todo.extend(reversed(children))
    if strict and unexpected:
        errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
    if strict and missing:
        errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
    if errors:
        raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(
            type(module).__name__, "\n\t".join(errors)))
    return IncompatibleKeys(missing, unexpected)


def load_own(module: Module, state_dict: dict[str, Any], prefix: str, metadata: dict[str, Any], strict: bool,
             missing: list[str], unexpected: list[str], errors: list[str]) -> None:
    """Load the module's own parameters and persistent buffers."""
    buffers = {k: b for k, b in module._buffers.items() if k not in module._non_persistent_buffers_set}
    own = {k: v for k, v in (*module._parameters.items(), *buffers.items()) if v is not None}
    for name, target in own.items():
        key = prefix + name
        if key in state_dict:
            problem = _load_one(module, name, target, state_dict[key], key, bool(metadata["assign_to_params_buffers"]))
            if problem:
                errors.append(problem)
        elif strict:
            missing.append(key)
    if has_extra(module):
        if prefix + EXTRA in state_dict:
            module.set_extra_state(state_dict[prefix + EXTRA])
        elif strict:
            missing.append(prefix + EXTRA)
    elif strict and prefix + EXTRA in state_dict:
        unexpected.append(prefix + EXTRA)
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA:
                name, *below = key[len(prefix) :].split(".", 1)
                if (below and name not in module._modules) or (not below and name not in own):
                    unexpected.append(key)


def _load_one(module: Module, name: str, target: Tensor, value: Any, key: str, assign: bool) -> str:
    """Copy or assign one entry; what is wrong with it, or ""."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = jitgrad.from_numpy(np.array(value))
    if not isinstance(value, Tensor):
        return (f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}")
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
