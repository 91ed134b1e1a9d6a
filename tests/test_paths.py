"""Names that programs and pickles have from torch's modules are found at the same paths."""

from __future__ import annotations

import importlib
import pickle

import pytest

import jitgrad as torch

#: as programs write them
NAMED = """
nn.modules.activation.MultiheadAttention nn.modules.batchnorm.BatchNorm2d nn.modules.batchnorm._BatchNorm
nn.modules.channelshuffle.ChannelShuffle nn.modules.container.ModuleList nn.modules.container.Sequential
nn.modules.conv._ConvNd nn.modules.distance.CosineSimilarity nn.modules.dropout.Dropout nn.modules.flatten.Flatten
nn.modules.fold.Unfold nn.modules.instancenorm.InstanceNorm1d nn.modules.linear.Linear
nn.modules.linear.NonDynamicallyQuantizableLinear nn.modules.loss.CrossEntropyLoss nn.modules.loss.MarginRankingLoss
nn.modules.module.Module nn.modules.normalization.LayerNorm nn.modules.padding.ZeroPad2d
nn.modules.pixelshuffle.PixelShuffle nn.modules.pooling.MaxPool2d nn.modules.rnn.GRU nn.modules.rnn.LSTMCell
nn.modules.sparse.Embedding nn.modules.transformer.TransformerEncoderLayer nn.modules.upsampling.Upsample
nn.modules.utils._pair nn.parameter.Parameter nn.utils.rnn.pad_sequence
optim.adam.Adam optim.adamw.AdamW optim.sgd.SGD optim.rmsprop.RMSprop optim.lbfgs.LBFGS optim.optimizer.Optimizer
optim.lr_scheduler.StepLR distributions.normal.Normal distributions.categorical.Categorical
autograd.function.Function autograd.grad_mode.no_grad autograd.variable.Variable
nn.utils.clip_grad.clip_grad_norm_ nn.utils.convert_parameters.vector_to_parameters
utils.dlpack.from_dlpack utils.dlpack.to_dlpack
utils.data.dataloader.DataLoader utils.data.dataset.Dataset utils.data.sampler.Sampler
"""


@pytest.mark.parametrize("path", NAMED.split())
def test_paths(path: str) -> None:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"jitgrad.{module}"), name)
    assert found.__name__ in (name, "Tensor")
    value = torch
    for part in path.split("."):
        value = getattr(value, part)
    assert value is found
    if isinstance(found, type):
        assert pickle.loads(f"cjitgrad.{module}\n{name}\n.".encode()) is found


@pytest.mark.parametrize("path", ["_higher_order_ops.scan", "_higher_order_ops.while_loop", "nn.utils.weight_norm",
                                  "nn.utils.spectral_norm"])
def test_modules_named_as_their_functions(path: str) -> None:
    package, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"jitgrad.{path}"), name)
    assert found is getattr(importlib.import_module(f"jitgrad.{package}"), name)
    assert callable(found)


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match=r"module 'jitgrad.nn.modules.container' has no attribute 'Nothing'"):
        torch.nn.modules.container.Nothing  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("jitgrad.nn.modules.nothing")


def test_bases_tell_layers_apart() -> None:
    base = torch.nn.modules.batchnorm._BatchNorm
    assert isinstance(torch.nn.BatchNorm1d(2), base)
    assert not isinstance(torch.nn.LayerNorm(2), base)


def test_sizes_per_axis() -> None:
    utils = torch.nn.modules.utils
    assert [f(2) for f in (utils._single, utils._pair, utils._triple, utils._quadruple)] == [(2,) * n
                                                                                             for n in (1, 2, 3, 4)]
    assert utils._pair([1, 2]) == (1, 2)
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    state = {"module.weight": 1, "bias": 2}
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"weight": 1, "bias": 2}
