"""Optimizers, and schedules of their learning rates."""

from jitgrad.optim import lr_scheduler, swa_utils
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.adam_kin import Adamax, NAdam, RAdam
from jitgrad.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from jitgrad.optim.by_matrix import Adafactor, Muon
from jitgrad.optim.lbfgs import LBFGS
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.sgd import ASGD, SGD
from jitgrad.paths import stands_for

stands_for(__name__, globals(), "adadelta adafactor adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop rprop sgd")

__all__ = ["ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
           "Optimizer", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils"]
