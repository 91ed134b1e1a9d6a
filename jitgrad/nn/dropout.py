"""Dropout: while training, some elements become 0."""

from __future__ import annotations

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module


class Dropout(Module):
    """While training, each element is 0 with probability p and the others are divided by 1 - p."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The input's shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
