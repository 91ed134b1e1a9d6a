"""Eager execution: Tensor, tape, backward. Importing this makes it the default backend of the library."""

from jitgrad.eager.autograd.engine import backward as backward
from jitgrad.eager.backend import EAGER as EAGER
from jitgrad.eager.tensor import Tensor as Tensor
