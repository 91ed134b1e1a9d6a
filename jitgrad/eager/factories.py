"""The library's functions that make tensors of none: of sizes, numbers, data and random numbers.

The library types a function by the tensors that it is given. These are given none: what they return is the tensor of
whoever executes them, which is eager's where a program calls them.
"""

from collections.abc import Callable
from typing import Any, ParamSpec

from jitgrad import dtypes
from jitgrad.eager import construct
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library import creation, random

P = ParamSpec("P")


def _eager(make: Callable[P, Any]) -> Callable[P, Tensor]:
    return make


BFloat16Tensor: type[Tensor] = creation.BFloat16Tensor
BoolTensor: type[Tensor] = creation.BoolTensor
ByteTensor: type[Tensor] = creation.ByteTensor
CharTensor: type[Tensor] = creation.CharTensor
DoubleTensor: type[Tensor] = creation.DoubleTensor
FloatTensor: type[Tensor] = creation.FloatTensor
HalfTensor: type[Tensor] = creation.HalfTensor
IntTensor: type[Tensor] = creation.IntTensor
LongTensor: type[Tensor] = creation.LongTensor
ShortTensor: type[Tensor] = creation.ShortTensor


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a tensor type, `torch.DoubleTensor` or its name, that of new floating-point tensors.

    TypeError for a type of other tensors.
    """
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", str(t))
    found = getattr(creation, name, None)
    if not isinstance(found, creation.TensorType) or not found.dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not `{name}`")
    dtypes.set_default_dtype(found.dtype)


from_numpy = _eager(construct.from_numpy)
arange = _eager(creation.arange)
empty = _eager(creation.empty)
eye = _eager(creation.eye)
full = _eager(creation.full)
linspace = _eager(creation.linspace)
logspace = _eager(creation.logspace)
ones = _eager(creation.ones)
tensor = _eager(creation.tensor)
tril_indices = _eager(creation.tril_indices)
triu_indices = _eager(creation.triu_indices)
zeros = _eager(creation.zeros)
normal = _eager(random.normal)
rand = _eager(random.rand)
randint = _eager(random.randint)
randn = _eager(random.randn)
randperm = _eager(random.randperm)

__all__ = ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
           "IntTensor", "LongTensor", "ShortTensor", "arange", "empty", "eye", "from_numpy", "full", "linspace",
           "logspace", "normal", "ones", "rand", "randint", "randn", "randperm", "set_default_tensor_type", "tensor",
           "tril_indices", "triu_indices", "zeros"]
