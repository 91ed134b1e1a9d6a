"""`Optimizer`: parameter groups, state, and torch's format for saving them.

A subclass writes `step` in plain Python over tensors and numbers, in the subset that `@script` compiles. State that is a
number in torch's format (`step`) is a 0-dim tensor in `state_dict` and may be a number here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]


class Optimizer:
    """Base of all optimizers.

    Args:
        params: tensors, or dicts with "params" and options of their own, or (name, tensor) pairs.
        defaults: the options of a group that does not give them.

    Attributes:
        param_groups: dicts with "params" and the options; change `group["lr"]` at any time.
        state: per parameter, what the optimizer remembers.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{type(params).__name__}")
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Raises:
            TypeError: something that is no tensor.
            ValueError: not a leaf, a parameter that another group has, a missing option.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        params = list(params)
        if params and isinstance(params[0], tuple):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        taken = {p for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if p in taken:
                raise ValueError("some parameters appear in more than one parameter group")
        if len(set(params)) < len(params):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        group["params"] = params
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.detach_()
                    p.grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure` computes the loss anew, and its result is returned."""
        raise NotImplementedError

    # --- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: {name: value}}, "param_groups": [...]}, where parameters are numbered across the groups."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(p)]: {k: self._saved(k, v) for k, v in values.items()} for p, values in self.state.items()}
        return {"state": state, "param_groups": groups}

    def _saved(self, name: str, value: Any) -> Any:
        """A value of the state as torch saves it: the number of steps is a float32 tensor."""
        return jitgrad.tensor(float(value)) if name == "step" and not isinstance(value, Tensor) else value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the groups' options and the state from a `state_dict`. ValueError where the groups do not fit."""
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                             "group")
        params = {}
        for old, group in zip(saved, self.param_groups, strict=True):
            params.update(zip(old.pop("params"), group["params"], strict=True))
            group.update(old)
        self.state.clear()
        for number, values in state_dict["state"].items():
            p = params[number]
            self.state[p] = {k: _loaded(k, v, p) for k, v in values.items()}

    # --- text --------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _loaded(name: str, value: Any, p: Tensor) -> Any:
    """A saved value as this process keeps it: the number of steps as an int, tensors in the parameter's dtype."""
    if name == "step":
        return int(value)
    if isinstance(value, Tensor):
        return value.to(p.dtype).clone() if p.dtype.is_floating_point else value.clone()
    if hasattr(value, "__array__"):
        return jitgrad.tensor(value, dtype=p.dtype)
    return deepcopy(value)


def require_range(name: str, value: float, *, below: float | None = None) -> None:
    """ValueError in torch's words for an option that is negative, or not below `below`."""
    if not value >= 0.0 or (below is not None and not value < below):
        raise ValueError(f"Invalid {name}: {value}")


def run_closure(closure: Closure | None) -> Any:
    """The loss that the closure computes with gradients enabled; None without one."""
    if closure is None:
        return None
    with jitgrad.enable_grad():
        return closure()
