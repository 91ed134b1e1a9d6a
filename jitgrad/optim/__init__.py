"""Optimizers, and schedules of their learning rates."""

from jitgrad.optim import lr_scheduler
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
