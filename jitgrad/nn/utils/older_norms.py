"""`weight_norm` and `spectral_norm` as they were before `parametrize`: hooks that compute a weight before each call."""

import warnings
from typing import Any

import jitgrad
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter, is_lazy
from jitgrad.nn.utils.parametrizations import _TRANSPOSED, as_matrix, norm_except


def _free(module: Module, cls: type[Any], name: str, word: str, title: str) -> Any:
    """The parameter that a hook is to compute. RuntimeError where one does already."""
    for hook, _ in module._forward_pre_hooks.values():
        if isinstance(hook, cls) and hook.name == name:
            raise RuntimeError(f"Cannot register two {word} hooks on the same parameter {name}")
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`{title}` cannot be applied as parameter `{name}` is None")
    if is_lazy(weight):
        raise ValueError(f"The module passed to `{title}` can't have uninitialized parameters. Make sure to run the "
                         "dummy forward before applying it")
    return weight


def _remove(module: Module, cls: type[Any], name: str, word: str) -> Module:
    for key, (hook, _) in list(module._forward_pre_hooks.items()):
        if isinstance(hook, cls) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"{word} of '{name}' not found in {module}")


class WeightNorm:
    """The hook: weight = g v / |v| of the parameters weight_g and weight_v."""

    def __init__(self, name: str, dim: int):
        self.name, self.dim = name, dim

    def compute_weight(self, module: Any) -> Any:
        """The weight."""
        v = getattr(module, self.name + "_v")
        return v * (getattr(module, self.name + "_g") / norm_except(v, self.dim))

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train `weight_g` and `weight_v`, with a FutureWarning: `parametrizations.weight_norm` is the newer way."""
    warnings.warn("`torch.nn.utils.weight_norm` is deprecated in favor of "
                  "`torch.nn.utils.parametrizations.weight_norm`.", FutureWarning, stacklevel=2)
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = _free(module, WeightNorm, name, "weight_norm", "WeightNorm").detach()
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except(weight, hook.dim)))
    module.register_parameter(name + "_v", Parameter(weight))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight of `weight_norm` a parameter again. ValueError where there is none."""
    return _remove(module, WeightNorm, name, "weight_norm")


class SpectralNorm:
    """The hook: weight = weight_orig / sigma, which weight_u and weight_v follow while training."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float):
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations="
                             f"{n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with jitgrad.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(jitgrad.mv(matrix.T, u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(jitgrad.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / jitgrad.dot(u, jitgrad.mv(matrix, v))

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        with jitgrad.no_grad():
            weight = self.compute_weight(module, False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Module:
    """Train `weight_orig`; the weight is it, by its largest singular value. See `parametrizations.spectral_norm`."""
    rows = (1 if isinstance(module, _TRANSPOSED) else 0) if dim is None else dim
    hook = SpectralNorm(name, n_power_iterations, rows, eps)
    weight = _free(module, SpectralNorm, name, "spectral_norm", "SpectralNorm")
    with jitgrad.no_grad():
        sides = as_matrix(weight, rows).shape
        u, v = [F.normalize(jitgrad.randn(n, dtype=weight.dtype, device=weight.device), dim=0, eps=eps) for n in sides]
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight of `spectral_norm` a parameter again. ValueError where there is none."""
    return _remove(module, SpectralNorm, name, "spectral_norm")


__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]
