"""jitgrad: PyTorch-style Python, eager to debug, `@script` to compile.

Importing this costs NumPy's import and little more: tensors and their functions (`_namespace.py`) are loaded by the
first name that a program uses, `nn`, `optim` and the other namespaces by their own first use, the compiler and llvmlite
by the first compilation.
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING, Any as _Any

import jitgrad.script  # loaded before the decorator below takes the name
from jitgrad.device import (device as device,  # the class; the module of that name must not take its place later
                            provide_kernels as _provide_kernels)

if TYPE_CHECKING:
    from jitgrad import (accelerator as accelerator, amp as amp, autograd as autograd, backends as backends,
                         compiler as compiler, cpu as cpu, cuda as cuda, distributions as distributions, fft as fft,
                         func as func, jit as jit, linalg as linalg, multiprocessing as multiprocessing, nn as nn,
                         onnx as onnx, optim as optim, profiler as profiler, signal as signal, sparse as sparse,
                         special as special, testing as testing, utils as utils)
    from jitgrad._higher_order_ops import cond as cond, while_loop as while_loop
    from jitgrad._namespace import *
    from jitgrad.amp import GradScaler as GradScaler
    from jitgrad.codegen.run.modes import set_flush_denormal as set_flush_denormal
    from jitgrad.codegen.run.threads import (get_num_interop_threads as get_num_interop_threads,
                                             get_num_threads as get_num_threads,
                                             set_num_interop_threads as set_num_interop_threads,
                                             set_num_threads as set_num_threads)
    from jitgrad.compiler import compile as compile
    from jitgrad.cuda.streams import Event as Event, Stream as Stream
    from jitgrad.distributions.counts import binomial as binomial, poisson as poisson
    from jitgrad.eager.format import set_printoptions as set_printoptions
    from jitgrad.func.vectorize import vmap as vmap
    from jitgrad.nn.functional.of_torch import (adaptive_max_pool1d as adaptive_max_pool1d,
                                                alpha_dropout as alpha_dropout, alpha_dropout_ as alpha_dropout_,
                                                batch_norm as batch_norm, bilinear as bilinear,
                                                binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
                                                cosine_embedding_loss as cosine_embedding_loss,
                                                cosine_similarity as cosine_similarity, ctc_loss as ctc_loss,
                                                embedding as embedding, embedding_bag as embedding_bag,
                                                feature_alpha_dropout as feature_alpha_dropout,
                                                feature_alpha_dropout_ as feature_alpha_dropout_,
                                                group_norm as group_norm, hinge_embedding_loss as hinge_embedding_loss,
                                                instance_norm as instance_norm, kl_div as kl_div,
                                                layer_norm as layer_norm, margin_ranking_loss as margin_ranking_loss,
                                                pairwise_distance as pairwise_distance, pca_lowrank as pca_lowrank,
                                                pdist as pdist, poisson_nll_loss as poisson_nll_loss,
                                                rms_norm as rms_norm, rrelu as rrelu, rrelu_ as rrelu_,
                                                svd_lowrank as svd_lowrank, triplet_margin_loss as triplet_margin_loss)
    from jitgrad.nn.modules.rnn import gru as gru, lstm as lstm, rnn_relu as rnn_relu, rnn_tanh as rnn_tanh
    from jitgrad.script.executor import eager_mode as eager_mode
    from jitgrad.script.graph.marks import ignore as ignore
    from jitgrad.serialization import load as load, save as save
    from jitgrad.sparse import (sparse_coo_tensor as sparse_coo_tensor, sparse_csr_tensor as sparse_csr_tensor,
                                spmm as spmm)

__version__ = "0.1.0"

_PUBLIC = ("accelerator", "amp", "autograd", "backends", "compiler", "cpu", "cuda", "distributions", "fft", "func",
           "jit", "linalg", "multiprocessing", "nn", "onnx", "optim", "profiler", "signal", "sparse", "special",
           "testing", "utils")
_MODULES = frozenset(name.removesuffix(".py") for name in _os.listdir(_os.path.dirname(__file__)))
_LATE = {"save": "serialization", "load": "serialization", "eager_mode": "script.executor",
         "ignore": "script.graph.marks", "compile": "compiler", "cond": "_higher_order_ops",
         "binomial": "distributions.counts", "poisson": "distributions.counts",
         "set_printoptions": "eager.format", "vmap": "func.vectorize",
         **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), "nn.modules.rnn"),
         **dict.fromkeys(("sparse_coo_tensor", "sparse_csr_tensor", "spmm"), "sparse"),
         **dict.fromkeys(("Event", "Stream"), "cuda.streams"),
         "GradScaler": "amp", "while_loop": "_higher_order_ops",
         **dict.fromkeys(("adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_", "batch_norm", "bilinear",
                          "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity", "ctc_loss",
                          "embedding", "embedding_bag", "feature_alpha_dropout", "feature_alpha_dropout_", "group_norm",
                          "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm", "margin_ranking_loss",
                          "pairwise_distance", "pca_lowrank", "pdist", "poisson_nll_loss", "rms_norm", "rrelu",
                          "rrelu_", "svd_lowrank", "triplet_margin_loss"),
                         "nn.functional.of_torch"),
         "set_flush_denormal": "codegen.run.modes",
         **dict.fromkeys(("get_num_threads", "set_num_threads", "get_num_interop_threads", "set_num_interop_threads"),
                         "codegen.run.threads")}


def _find(name: str) -> _Any:
    if name in _MODULES:  # also asked by the import system, for `from jitgrad import dtypes`
        return _importlib.import_module(f"jitgrad.{name}")
    if name in _LATE:
        value = getattr(_importlib.import_module(f"jitgrad.{_LATE[name]}"), name)
    elif name == "__all__":
        own = {name for name in vars(_names()) if not name.startswith("_")}
        value = sorted({"__version__", "device", "script", *_PUBLIC, *_LATE, *own})
    elif name.startswith("__") or name not in _names().__dict__:
        raise AttributeError(f"module 'jitgrad' has no attribute '{name}'")
    else:
        value = getattr(_names(), name)
    globals()[name] = value
    return value


def _names() -> _Any:
    return _importlib.import_module("jitgrad._namespace")


_provide_kernels(cpu=lambda: _importlib.import_module("jitgrad.codegen.run.on_arrays"),
                 gpu=lambda: _importlib.import_module("jitgrad.cuda.elementwise"),
                 products=lambda: _importlib.import_module("jitgrad.cuda.products"),
                 composites=lambda: _importlib.import_module("jitgrad.script.composites"))


if not TYPE_CHECKING:  # whom it would tell that any name is there
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *_find("__all__")})


# The last binding: `jitgrad.script` is the decorator; the package of that name is reached by
# `from jitgrad.script.graph import ir`.
if TYPE_CHECKING:
    from jitgrad.script.typed import script as script
else:
    def script(obj: _Any = None, *, check: _Any = False, remat: _Any = None) -> _Any:
        """Compile a function or a module: same code, same results, one native program per signature.

        See `jitgrad.script.api.script`, which this calls; it is imported by the first call.
        """
        from jitgrad.locks import collector_paused

        with collector_paused():
            from jitgrad.script.api import script as decorate
        return decorate(obj, check=check, remat=remat)
