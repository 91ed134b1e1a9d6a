"""Pruning: a layer's `weight` is `weight_orig * weight_mask`, computed by a hook before each call.

`weight_orig` is what is trained, `weight_mask` a buffer of ones and zeros; both are in the state dict. Methods applied
one after another to one tensor are one hook, a `PruningContainer`, each of which chooses among what is left.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.module import Module

Scores = Tensor | None


def _hook(module: Module, name: str) -> tuple[int, "BasePruningMethod"] | None:
    """The hook that prunes a tensor, and its key. AssertionError where there are several."""
    found = [(key, hook) for key, (hook, _) in module._forward_pre_hooks.items()
             if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
    if len(found) > 1:
        raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a "
                             "PruningContainer.")
    return found[0] if found else None


class BasePruningMethod(ABC):
    """A way to prune: a subclass says in `compute_mask` what is left, and in PRUNING_TYPE what that is chosen from.

    `"unstructured"`: single entries, `"structured"`: slices along the attribute `dim`, `"global"`: the whole tensor.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for scores t, which are as large as what they stand for matters; default_mask is the one before."""

    def apply_mask(self, module: Any) -> Any:
        """The pruned tensor."""
        orig = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=orig.dtype) * orig

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Scores = None, **kwargs: Any) -> Any:
        """Prune a module's parameter, by the scores of its shape if there are any; the hook that does.

        The other arguments are the class's. The module is as it was where a method raises.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook(module, name)
        orig = getattr(module, name)
        scores = orig if importance_scores is None else importance_scores
        if scores.shape != orig.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, got "
                                 f"{scores.shape} vs {orig.shape}")
        if before is None:
            mask = method.compute_mask(scores, default_mask=jitgrad.ones_like(orig))
            module.register_parameter(name + "_orig", orig)
            del module._parameters[name]
        else:
            key, hook = before
            container = PruningContainer(*(hook if isinstance(hook, PruningContainer) else [hook]))
            container.add_pruning_method(method)
            method = container
            mask = method.compute_mask(scores, default_mask=getattr(module, name + "_mask").detach().clone())
            del module._forward_pre_hooks[key]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Scores = None) -> Any:
        """A pruned tensor, outside any module, by the scores of its shape if there are any."""
        scores: Any = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t, got "
                                 f"{scores.shape} vs {t.shape}")
        default_mask = jitgrad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the tensor a parameter again, with its pruned values; the hook stays. See the function `remove`."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters[name + "_orig"]
        orig.data = weight.detach()
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        module.register_parameter(name, orig)


class PruningContainer(BasePruningMethod):
    """Methods that prune one tensor in turn; `compute_mask` is what the last one adds to the mask of the others."""

    def __init__(self, *args: Any):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) > 0:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method. TypeError for what is none, ValueError for one that prunes another tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with what the last method prunes of what it leaves."""
        method: Any = self._pruning_methods[-1]
        left = _left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


def _left(method: Any, t: Any, mask: Any) -> Any:
    """The index of what a method chooses from: what no mask has pruned before."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.dim()
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError("Pruning methods of PRUNING_TYPE \"structured\" need to have the attribute `dim` defined.")
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    others = [d for d in range(t.dim()) if d != dim]
    return (slice(None),) * dim + (mask.sum(dim=others) != 0 if others else mask != 0,)


# --- methods ---------------------------------------------------------------------------------------------------------


def _amount(amount: Any) -> Any:
    """An amount: a whole number, or a share of the tensor. TypeError, ValueError for anything else."""
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    return amount


def _count(amount: Any, size: int) -> int:
    """How many of `size` an amount is. ValueError where it is more."""
    if not isinstance(amount, Integral):
        return round(float(amount) * size)
    if int(amount) > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


class Identity(BasePruningMethod):
    """Prune nothing: the mask is the one before."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prune `amount` entries, a count or a share, those of the smallest `_scores`."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any):
        self.amount = _amount(amount)

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with zeros where the pruned entries are."""
        n = _count(self.amount, t.nelement())
        mask = default_mask.clone().reshape(-1)
        if n != 0:
            mask[self._scores(t.detach()).reshape(-1).topk(n, largest=False).indices] = 0
        return mask.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prune `amount` entries at random."""

    def _scores(self, t: Any) -> Any:
        return -jitgrad.rand_like(t)


class L1Unstructured(_Unstructured):
    """Prune the `amount` entries of the smallest absolute values."""

    def _scores(self, t: Any) -> Any:
        return t.abs()

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, importance_scores: Scores = None) -> Any:  # type: ignore[override]
        """Prune a module's parameter; the hook that does."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Prune `amount` slices along `dim`, those of the smallest `_scores`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        self.amount, self.dim = _amount(amount), dim

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with zeros where the pruned slices are. ValueError below two dimensions."""
        if t.dim() <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of "
                             f"shape {t.shape} with {t.dim()} dims")
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        n = _count(self.amount, size)
        if n == 0:
            return default_mask
        kept = jitgrad.zeros(size, dtype=default_mask.dtype, device=default_mask.device)
        kept[self._scores(t.detach()).topk(size - n).indices] = 1
        shape = [1] * t.dim()
        shape[self.dim] = size
        return default_mask * kept.reshape(shape)


class RandomStructured(_Structured):
    """Prune `amount` slices along `dim` at random."""

    def _scores(self, t: Any) -> Any:
        return jitgrad.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prune the `amount` slices along `dim` of the smallest norms of order `n`, as `norm` takes it."""

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        return jitgrad.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, n: Any, dim: int,  # type: ignore[override]
              importance_scores: Scores = None) -> Any:
        """Prune a module's parameter; the hook that does."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prune where a mask of the tensor's shape is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any):
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The product of the masks. AssertionError for one of another shape."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape "
                                 f"{self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# --- functions -------------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones; the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune `amount` entries of a parameter, a count or a share, at random; the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Scores = None) -> Module:
    """Prune the `amount` entries of the smallest absolute values, or scores; the module."""
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune `amount` slices along `dim` at random; the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Scores = None) -> Module:
    """Prune the `amount` slices along `dim` of the smallest norms of order `n`; the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def global_unstructured(parameters: Any, pruning_method: type[BasePruningMethod],
                        importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any) -> None:
    """Prune pairs of a module and a name as if they were one vector, by a method that prunes single entries."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[tuple[Any, str]] = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    scores = [importance_scores.get(pair, t) for pair, t in zip(pairs, tensors, strict=True)]
    masks = [getattr(module, name + "_mask", jitgrad.ones_like(t))
             for (module, name), t in zip(pairs, tensors, strict=True)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    method._tensor_name = "temp"  # of the vector
    flat = [jitgrad.cat([t.reshape(-1) for t in parts]) for parts in (scores, masks)]
    final = PruningContainer(method).compute_mask(*flat)
    for (module, name), part in zip(pairs, final.split([t.numel() for t in tensors]), strict=True):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune a parameter where a mask of its shape is zero; the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make a pruned tensor a parameter again, with its pruned values; the module. ValueError where it is not pruned."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of the module, or of one below it, is pruned."""
    hooks = [hook for m in module.modules() for hook, _ in m._forward_pre_hooks.values()]
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
           "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
           "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove"]
