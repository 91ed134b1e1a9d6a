"""The library's functions that make tensors of none: of sizes, numbers, data and random numbers.

The library types a function by the tensors that it is given. These are given none: what they return is the tensor of
whoever executes them, which is eager's where a program calls them.
"""

from collections.abc import Callable
from typing import Any, ParamSpec

from jitgrad.eager import construct
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library import creation, random

P = ParamSpec("P")


def _eager(make: Callable[P, Any]) -> Callable[P, Tensor]:
    return make


BFloat16Tensor = _eager(creation.BFloat16Tensor)
BoolTensor = _eager(creation.BoolTensor)
ByteTensor = _eager(creation.ByteTensor)
CharTensor = _eager(creation.CharTensor)
DoubleTensor = _eager(creation.DoubleTensor)
FloatTensor = _eager(creation.FloatTensor)
HalfTensor = _eager(creation.HalfTensor)
IntTensor = _eager(creation.IntTensor)
LongTensor = _eager(creation.LongTensor)
ShortTensor = _eager(creation.ShortTensor)
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
           "logspace", "normal", "ones", "rand", "randint", "randn", "randperm", "tensor", "tril_indices",
           "triu_indices", "zeros"]
