"""Schedules of learning rates."""

from jitgrad.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from jitgrad.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from jitgrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from jitgrad.optim.lr_scheduler.schedules import (ConstantLR, CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR,
                                                  LRScheduler, MultiplicativeLR, MultiStepLR, PolynomialLR, StepLR)

_LRScheduler = LRScheduler  # torch's old name, which programs still import

__all__ = ["ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
           "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
           "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"]
