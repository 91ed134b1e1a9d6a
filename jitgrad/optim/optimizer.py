"""`Optimizer`: parameter groups, per-parameter state, saving and loading, in torch's format.

A subclass writes `_update(group)`, one step of one group; `step` here runs the closure, switches recording off and goes
through the groups. Both are in the subset of Python that `@script` compiles. A subclass in torch's style, which
overrides `step` itself, works as well.
"""

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.eager.autograd.node import RemovableHandle

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Group = dict[str, Any]


class _Required:
    """The default of an option that every group must state."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def options(given: Group) -> Group:
    """The options among the `locals()` of a constructor: all arguments but the optimizer and the parameters."""
    return {name: value for name, value in given.items() if name not in ("self", "params", "__class__")}


def require_at_least_zero(what: str, value: Any) -> None:
    """ValueError with torch's words unless value >= 0; NaN is refused too."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}")


def count_step(step: Tensor) -> None:
    """Add 1 to the number of a parameter's steps. In a script those that are equal when it is called are one number, of
    which the rest follows once for all; a call that finds them different is another program."""
    step.add_(1)


def is_on(option: Any) -> bool:
    """Whether an option of a group takes part. A float always does: it may be scheduled, and a compiled step, which
    reads it at run time, has no branch then."""
    return isinstance(option, float) or option != 0


def require_rate(lr: Any) -> None:
    """ValueError unless lr is a number, or a tensor of one element, that is at least 0."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    require_at_least_zero("learning rate", lr)


#: options that are at least 0, with torch's words for them
_AT_LEAST_ZERO = {"eps": "epsilon value", **{name: name + " value" for name in (
    "lr_decay", "momentum", "momentum_decay", "weight_decay", "initial_accumulator_value")}}


def require_options(options: Group) -> None:
    """ValueError for a rate or another option out of range; refuses what torch refuses, and differentiable steps."""
    require_rate(options["lr"])
    for name, what in _AT_LEAST_ZERO.items():
        require_at_least_zero(what, options.get(name, 0))
    for i, beta in enumerate(options.get("betas", ())):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    if options.get("fused") and options["differentiable"]:
        raise RuntimeError("`fused` does not support `differentiable`")
    if options.get("fused") and options["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if options["differentiable"]:
        raise NotImplementedError("differentiable=True is not available: optimizers write parameters in place, outside "
                                  "the recorded history. Write the update out of place, with tensors, instead")


class Optimizer:
    """Base of all optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with "params" and options of their own for each group; in an
            order that does not change between runs.
        defaults: options for the groups that do not state them.

    Attributes:
        param_groups: the groups, dicts of "params" and options such as "lr"; options may be changed between steps.
        state: what each parameter carries from step to step, by parameter.

    Raises:
        TypeError: a single tensor, a set, or something that is no tensor among the parameters.
        ValueError: no parameters, one parameter in two groups, a tensor with history, or a required option missing.
    """

    #: whether `_update` knows of complex parameters
    _takes_complex = False
    state: defaultdict[Any, Any]
    param_groups: list[Group]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        # what a scheduler asks; of a `step` that is not the one below nothing is known
        self._opt_called = type(self).step is not Optimizer.step
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            + jitgrad.typename(params))
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; the others, and their state, stay as they are.

        Args:
            closure: computes the loss again, with gradients.

        Returns:
            what the closure returned, None without one.
        """
        loss = None
        if closure is not None:
            with jitgrad.enable_grad():
                loss = closure()
        with jitgrad.no_grad():
            for group in self.param_groups:
                self._update(group)
        self._opt_called = True
        return loss

    def _update(self, group: Group) -> None:
        """One step of the parameters of one group, called with recording off."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero, which keeps their memory.

        With None a parameter that the next backward does not reach is skipped by `step`; with zeros it is updated.
        """
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    if p.grad.requires_grad:  # of a backward that was recorded itself
                        p.grad = p.grad.detach()
                    p.grad.zero_()

    # --- groups ------------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a dict of "params" and options; defaults fill in what it does not state. Raises as the constructor."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _normalise(param_group)
        params = param_group["params"]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {jitgrad.typename(p)}")
            if not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
            if p.is_complex() and not self._takes_complex and type(self).step is Optimizer.step:
                raise NotImplementedError(f"{type(self).__name__} of complex parameters is not available: keep the two "
                                          "parts as real parameters, or use SGD or Adam")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        own = {id(p) for p in params}
        if len(own) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause "
                          "an error; see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError("all optimizer param groups should be with/without names. "
                                 f"cannot add param group {kind} to the optimizer")
            if any(id(p) in own for p in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        for p in params:
            if p.requires_grad:
                self._state_of(p, param_group)

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """What a parameter carries from step to step, at the start; empty where nothing is carried."""
        return {}

    def _state_of(self, p: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter.

        It is made when the parameter is added, not at the first step: then every step, compiled, is the same program,
        and a parameter without a gradient needs no program of its own.
        """
        if p not in self.state:
            made = self._new_state(p, group)
            if len(made) == 0:
                return made
            self.state[p] = made
        found: dict[str, Any] = self.state[p]
        return found

    # --- saving and loading ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": ..., "param_groups": ...} with each parameter replaced by its number, counted over all groups."""
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        numbers: dict[int, int] = {}
        packed: list[Group] = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            options = {k: v for k, v in group.items() if k != "params"}
            packed.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": packed}
        for after in self._optimizer_state_dict_post_hooks.values():
            changed = after(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options from what `state_dict` gave; parameters are matched by their order.

        Everything is copied: two optimizers never share state. Tensors become of their parameter's dtype.

        Raises:
            ValueError: another number of groups, or of parameters in a group.
        """
        loaded: Any = dict(state_dict)
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            changed = before(self, loaded)
            loaded = loaded if changed is None else changed
        groups, saved = self.param_groups, copy.deepcopy(loaded["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                             "group")
        owners = {number: p for g, s in zip(groups, saved, strict=True)
                  for number, p in zip(s["params"], g["params"], strict=True)}
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in loaded["state"].items():
            if key in owners:
                state[owners[key]] = _converted(owners[key], value, None)
            else:
                state[key] = value
        for group, new in zip(groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_opt_called" not in self.__dict__:  # unpickled
            self._opt_called = type(self).step is not Optimizer.step
            self._make_hooks()

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {i}\n" + "".join(options)
        return text + ")"

    # --- hooks -------------------------------------------------------------------------------------------------------

    def _make_hooks(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        self._call_hooks_in_step()
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        self._call_hooks_in_step()
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return RemovableHandle(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return RemovableHandle(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)`, with a shallow copy, before `load_state_dict`; it may return another."""
        return RemovableHandle(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return RemovableHandle(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def _call_hooks_in_step(self) -> None:
        """Wrap this instance's `step`, so that optimizers without step hooks pay nothing for them."""
        if "step" not in self.__dict__:
            self.__dict__["step"] = functools.partial(_step_with_hooks, self, self.step)


def _step_with_hooks(optimizer: Optimizer, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for before in list(optimizer._optimizer_step_pre_hooks.values()):
        changed = before(optimizer, args, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
    result = step(*args, **kwargs)
    for after in list(optimizer._optimizer_step_post_hooks.values()):
        after(optimizer, args, kwargs)
    return result


def _normalise(group: Group) -> None:
    """Make "params" a list of tensors, and "param_names" a list of their names if they came with names."""
    params = group["params"]
    if isinstance(params, Tensor):
        params = [params]
    elif isinstance(params, set):
        raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
                        "in sets will change between runs. Please use a list instead.")
    params = list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if names:
        if len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        group["param_names"] = names


def _converted(param: Tensor, value: Any, key: Any) -> Any:
    """A copy of a loaded value for `param`; tensors, but for step counts, become of its dtype and go where it is."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.detach().clone()
        own = param.dtype if param.dtype.is_inexact else value.dtype
        return value.detach().to(param.device, own, copy=True)
    if isinstance(value, dict):
        return {k: _converted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_converted(param, v, None) for v in value)
    return value
