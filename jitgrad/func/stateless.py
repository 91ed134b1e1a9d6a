"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library.shapes.join import stack

if TYPE_CHECKING:
    from jitgrad.nn.module import Module


def functional_call(module: Module, parameter_and_buffer_dicts: Any, args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """The module's result with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by dotted name, in one dict or several. A buffer that the module replaces is
            replaced in it.
        args, kwargs: of the module's call; `args` may be a single argument.
        tie_weights: what is one tensor of the module under two names is one here, too.
        strict: every name must be given, and no other.
    """
    given = merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    own = named_tensors(module)
    check_names(own, given, strict)
    with _replaced(module, with_tied(own, given) if tie_weights else given, given):
        return module(*args, **(kwargs or {}))


def merged(dicts: Any) -> dict[str, Any]:
    """One dict of one or several; the caller's own where it is one."""
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(dicts)}")
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    found: dict[str, Any] = {}
    for d in dicts:
        for name, value in d.items():
            if name in found:
                raise ValueError(f"{name} appears in multiple dictionaries; behavior of functional call is ambiguous")
            found[name] = value
    return found


def named_tensors(module: Module) -> dict[str, Any]:
    """Parameters and buffers by all their names."""
    return {**dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False))}


def check_names(own: Mapping[str, Any], given: Mapping[str, Any], strict: bool) -> None:
    """RuntimeError for names that are missing or unknown, if `strict`."""
    if not strict:
        return
    missing, unexpected = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    errors = []
    if unexpected:
        errors.append("Unexpected key(s): {}.".format(", ".join(map(repr, unexpected))))
    if missing:
        errors.append("Missing key(s): {}.".format(", ".join(map(repr, missing))))
    if errors:
        raise RuntimeError("Error(s) in reparametrizing for module:\n\t" + "\n\t".join(errors))


def with_tied(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, and for names of the same tensors the same value. ValueError where two of them have two values."""
    found = dict(given)
    by_tensor: dict[int, list[str]] = {}
    for name, t in own.items():
        by_tensor.setdefault(id(t), []).append(name)
    for names in by_tensor.values():
        there = [n for n in names if n in given]
        if not there:
            continue
        if any(given[n] is not given[there[0]] for n in there):
            raise ValueError(f"functional_call got multiple values for keys {sorted(there)}, which are tied. Consider "
                             "using tie_weights=False")
        found.update(dict.fromkeys(names, given[there[0]]))
    return found


def owner_of(module: Module, name: str, child: Callable[[Any, str], Any] = getattr) -> tuple[Any, str]:
    """The module that has the tensor of a dotted name, and its name there."""
    *path, last = name.split(".")
    for part in path:
        module = child(module, part)
    return module, last


@contextmanager
def _replaced(module: Module, values: Mapping[str, Any], given: dict[str, Any]) -> Iterator[None]:
    """Tensors of the module in a `with` block. Those of `given` that the block replaces are replaced there."""
    before: list[tuple[dict[str, Any], str, Any, str]] = []
    try:
        for name, value in values.items():
            owner, last = owner_of(module, name)
            for registry in (owner._parameters, owner._buffers):
                if last in registry:
                    before.append((registry, last, registry[last], name))
                    registry[last] = value
        yield
        given.update({name: registry[last] for registry, last, _, name in before
                      if name in given and registry[last] is not given[name]})
    finally:
        for registry, last, value, _ in reversed(before):
            registry[last] = value


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of modules of one class, by name, stacked along a new first axis: an ensemble's.

    Parameters that require a gradient become leaves that do.

    Raises:
        RuntimeError: no modules, or of several classes, or some training and some not.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (_stacked([dict(m.named_parameters()) for m in models]), _stacked([dict(m.named_buffers()) for m in models]))


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Any]:
    return {name: _stacked_leaf(name, [s[name] for s in states]) for name in states[0]}


def _stacked_leaf(name: str, tensors: list[Tensor]) -> Any:
    required = {t.requires_grad for t in tensors}
    if len(required) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result: Any = stack(tensors)
    return result.detach().requires_grad_() if required == {True} else result


__all__ = ["functional_call", "stack_module_state"]
