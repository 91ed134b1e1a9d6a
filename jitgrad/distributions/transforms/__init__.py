"""Maps between spaces of values, with the logarithms of their derivatives: what distributions are transformed by."""

from jitgrad.distributions.transforms.registry import ConstraintRegistry, biject_to, transform_to
from jitgrad.distributions.transforms.shapes import (CatTransform, CorrCholeskyTransform,
                                                     CumulativeDistributionTransform, LowerCholeskyTransform,
                                                     PositiveDefiniteTransform, ReshapeTransform, StackTransform)
from jitgrad.distributions.transforms.values import (AbsTransform, AffineTransform, ComposeTransform, ExpTransform,
                                                     IndependentTransform, PowerTransform, SigmoidTransform,
                                                     SoftmaxTransform, SoftplusTransform, StickBreakingTransform,
                                                     TanhTransform, Transform, identity_transform, sum_rightmost)

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "ConstraintRegistry",
           "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
           "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
           "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform",
           "TanhTransform", "Transform", "biject_to", "identity_transform", "sum_rightmost", "transform_to"]
