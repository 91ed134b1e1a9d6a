"""Layers, losses and what models are made of, under torch.nn's names."""

from jitgrad.nn import functional as functional, init as init, utils as utils
from jitgrad.nn.modules import *
from jitgrad.nn.parameter import (Buffer as Buffer, Parameter as Parameter, UninitializedBuffer as UninitializedBuffer,
                                  UninitializedParameter as UninitializedParameter)
