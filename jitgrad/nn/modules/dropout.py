"""Dropout: while training, some elements or channels are lost."""

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Family


class _Dropout(Family, shown=("p", "inplace")):
    """What all kinds share: the probability and whether the input is overwritten."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The input's shape."""
        return self._function(input, self.p, self.training, self.inplace)


class Dropout(_Dropout, function=F.dropout):
    """While training, each element is 0 with probability p and the others are divided by 1 - p."""


class Dropout1d(_Dropout, function=F.dropout1d):
    """`Dropout` of whole channels of (N, C, L) or (C, L)."""


class Dropout2d(_Dropout, function=F.dropout2d):
    """`Dropout` of whole channels of (N, C, H, W) or (C, H, W)."""


class Dropout3d(_Dropout, function=F.dropout3d):
    """`Dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W)."""


class AlphaDropout(_Dropout):
    """Dropout for SELU: lost elements become its saturation value, mean and variance are kept."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels of (N, C, ...)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
