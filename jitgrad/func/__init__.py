"""Functions of functions, by torch.func's names: derivatives, `vmap`, and modules as functions of their parameters."""

from .jacobians import hessian, jacfwd, jacrev
from .programs import functionalize, linearize, rearrange, replace_all_batch_norm_modules_
from .stateless import functional_call, stack_module_state
from .transforms import grad, grad_and_value, jvp, value_and_grad, vjp
from .vectorize import vmap

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp",
           "vmap"]
