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
    from jitgrad import (accelerator, amp, autograd, backends, compiler, cpu, cuda, distributions, fft, func, jit,
                         linalg, multiprocessing, nn, onnx, optim, profiler, signal, sparse, special, testing, utils)
    from jitgrad._higher_order_ops import cond, while_loop
    from jitgrad._namespace import *
    from jitgrad.amp import GradScaler
    from jitgrad.codegen.run.threads import (get_num_interop_threads, get_num_threads, set_num_interop_threads,
                                             set_num_threads)
    from jitgrad.compiler import compile
    from jitgrad.cuda.streams import Event, Stream
    from jitgrad.distributions.counts import binomial, poisson
    from jitgrad.eager.format import set_printoptions
    from jitgrad.func.vectorize import vmap
    from jitgrad.nn.functional.of_torch import (adaptive_max_pool1d, alpha_dropout, alpha_dropout_, batch_norm,
                                                bilinear, binary_cross_entropy_with_logits, cosine_embedding_loss,
                                                cosine_similarity, ctc_loss, embedding, embedding_bag,
                                                feature_alpha_dropout, feature_alpha_dropout_, group_norm,
                                                hinge_embedding_loss, instance_norm, kl_div, layer_norm,
                                                margin_ranking_loss, pairwise_distance, pca_lowrank, pdist,
                                                poisson_nll_loss, rms_norm, rrelu, rrelu_, svd_lowrank,
                                                triplet_margin_loss)
    from jitgrad.nn.modules.rnn import gru, lstm, rnn_relu, rnn_tanh
    from jitgrad.script.executor import eager_mode
    from jitgrad.script.graph.marks import ignore
    from jitgrad.serialization import load, save
    from jitgrad.sparse import sparse_coo_tensor, sparse_csr_tensor, spmm

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
         **dict.fromkeys(("get_num_threads", "set_num_threads", "get_num_interop_threads", "set_num_interop_threads"),
                         "codegen.run.threads")}


def __getattr__(name: str) -> _Any:
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
                 composites=lambda: _importlib.import_module("jitgrad.script.composites"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


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
