"""Layers, losses and what models are made of, under torch.nn's names."""

from jitgrad.nn import functional as functional
from jitgrad.nn import init as init
from jitgrad.nn import utils as utils
from jitgrad.nn.modules import *
from jitgrad.nn.parameter import Parameter as Parameter
