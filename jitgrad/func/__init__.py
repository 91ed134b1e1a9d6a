"""Functions of functions, by torch.func's names: derivatives, and `vmap`."""

from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, value_and_grad, vjp
from .vectorize import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp", "vmap"]
