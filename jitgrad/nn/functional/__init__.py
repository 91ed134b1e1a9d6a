"""torch.nn.functional: activations, normalisation, losses, attention.

Activations, softmax, dropout and padding are the library's. The others are plain Python over tensors in the scriptable
subset: eager runs them op by op, `@script` inlines and fuses them. They branch on ranks, dtypes and options only;
numbers such as `eps` may be run-time values.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.functional import norms as _norms
from jitgrad.nn.functional.alignments import *
from jitgrad.nn.functional.attention import *
from jitgrad.nn.functional.bags import *
from jitgrad.nn.functional.grids import *
from jitgrad.nn.functional.losses import *
from jitgrad.nn.functional.spatial import *
from jitgrad.nn.functional.unpooling import *
from jitgrad.ops.autocast import widen as _widen, widest as _widest
from jitgrad.ops.library import (activation as _activation, classes as _classes, elementary as _elementary,
                                 reduce as _reduce)
from jitgrad.ops.library.core import composite, library
from jitgrad.ops.library.keywords import completed
from jitgrad.ops.library.linear_algebra import linalg as _linalg
from jitgrad.ops.library.random import dropout as _dropout
from jitgrad.ops.library.shapes.join import pad_constant
from jitgrad.ops.library.spatial import adaptive_pooling as _adaptive, pooling as _pooling, resampling as _resampling
from jitgrad.ops.library.spatial.convolution import *
from jitgrad.ops.library.spatial.resampling import *

Number = bool | int | float
Fn = TypeVar("Fn", bound=Callable[..., Any])


def _of_any_name(fn: Fn) -> Fn:
    """A function that takes NumPy's names of its arguments too: one of the library, that is."""
    own: Any = library(fn)
    return cast("Fn", completed(own, (own.__name__,), ("torch.nn.functional",)))

# --- activations ---------------------------------------------------------------------------------------------------

gelu, hardshrink = _activation.gelu, _activation.hardshrink
logsigmoid, prelu, softplus, softshrink = (_activation.logsigmoid, _activation.prelu, _activation.softplus,
                                           _activation.softshrink)
softsign, tanhshrink = _activation.softsign, _activation.tanhshrink
relu_, elu_, celu_, selu_, leaky_relu_ = (_activation.relu_, _activation.elu_, _activation.celu_, _activation.selu_,
                                          _activation.leaky_relu_)
hardtanh_, threshold_ = _activation.hardtanh_, _activation.threshold_
sigmoid, tanh = _elementary.sigmoid, _elementary.tanh
relu, selu = _activation.with_inplace(_activation.relu), _activation.with_inplace(_activation.selu)
relu6, silu, mish = _activation.relu6, _activation.silu, _activation.mish
hardswish, hardsigmoid = _activation.hardswish, _activation.hardsigmoid


def leaky_relu(input: Tensor, negative_slope: Number = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    return _activation.leaky_relu_(input, negative_slope) if inplace else _activation.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return _activation.elu_(input, alpha) if inplace else _activation.elu(input, alpha)


def celu(input: Tensor, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """elu with a continuous slope: the input is divided by alpha."""
    return _activation.celu_(input, alpha) if inplace else _activation.celu(input, alpha)


def hardtanh(input: Tensor, min_val: Number = -1.0, max_val: Number = 1.0, inplace: bool = False) -> Tensor:
    """input clamped to [min_val, max_val]."""
    return _activation.hardtanh_(input, min_val, max_val) if inplace else _activation.hardtanh(input, min_val, max_val)


def threshold(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """input where it is above the threshold, else value."""
    if inplace:
        return _activation.threshold_(input, threshold, value)
    return _activation.threshold(input, threshold, value)


def rrelu(input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """input where it is positive, else times a slope: drawn from [lower, upper) while training, else their mean."""
    result = _rrelu(input, lower, upper, training, None)
    return input.copy_(result) if inplace else result


def _rrelu(input: Tensor, lower: Number, upper: Number, training: bool, generator: Any) -> Tensor:
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slopes = lower + (upper - lower) * jitgrad.rand_like(input, generator=generator)
    return jitgrad.where(input >= 0, input, input * slopes)


@_of_any_name
def rrelu_(input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
           generator: Any = None) -> Tensor:
    """In-place version of `rrelu`, from a generator if one is given."""
    return input.copy_(_rrelu(input, lower, upper, training, generator))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of axis dim times the sigmoid of the second."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    n = input.shape[dim]
    if n % 2 != 0:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {n}")
    _classes.require_floats("glu_cpu", input)
    a, b = jitgrad.chunk(input, 2, dim)
    return a * jitgrad.sigmoid(b)


def _softmax_axis(dim: int | None, ndim: int) -> int:
    """torch's axis where none is given: 0 for ranks 0, 1 and 3, else 1."""
    if dim is not None:
        return dim
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along dim."""
    return _reduce.softmax(input, _softmax_axis(dim, input.dim()), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along dim."""
    return _reduce.log_softmax(input, _softmax_axis(dim, input.dim()), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-input)."""
    return _reduce.softmax(-input, _softmax_axis(dim, input.dim()), dtype)


def gumbel_softmax(logits: Tensor, tau: Number = 1.0, hard: bool = False, eps: Number = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution; `hard` gives one-hot vectors with the soft sample's gradient."""
    if not logits.dtype.is_floating_point:
        raise RuntimeError("Exponential distribution is a continuous probability distribution. dtype must be a "
                           f"floating point but you specified {logits.dtype}")
    noise = -jitgrad.log(-jitgrad.log1p(-jitgrad.rand_like(logits)))
    soft = _reduce.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True).indices
    one = jitgrad.zeros_like(logits).scatter(dim, index, 1.0)
    return one - soft.detach() + soft


# --- pooling, columns ----------------------------------------------------------------------------------------------

max_pool1d, max_pool2d, max_pool3d = _pooling.max_pool1d, _pooling.max_pool2d, _pooling.max_pool3d
avg_pool1d, avg_pool2d, avg_pool3d = _pooling.avg_pool1d, _pooling.avg_pool2d, _pooling.avg_pool3d
lp_pool1d, lp_pool2d, lp_pool3d = _pooling.lp_pool1d, _pooling.lp_pool2d, _pooling.lp_pool3d
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive.adaptive_avg_pool1d, _adaptive.adaptive_avg_pool2d, _adaptive.adaptive_avg_pool3d)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive.adaptive_max_pool1d, _adaptive.adaptive_max_pool2d, _adaptive.adaptive_max_pool3d)
unfold, fold = _pooling.unfold, _pooling.fold

# --- dropout -------------------------------------------------------------------------------------------------------


def dropout(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, zero each element with probability p and divide the others by 1 - p.

    Raises ValueError for p outside [0, 1].
    """
    result = _dropout(input, p, True) if training else input  # `training` may be a run-time bool
    return input.copy_(result) if inplace else result


def _dropout_channels(input: Tensor, p: Number, training: bool, inplace: bool, spatial: int) -> Tensor:
    if not training:
        return input
    rank = input.dim()
    if rank < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    leading = 1 if rank == spatial + 1 and spatial != 2 else 2  # without a batch; torch takes (N, C, L) for 2 axes too
    channels = tuple(input.shape)[:leading] + (1,) * (rank - leading)
    mask = _dropout(jitgrad.ones(channels, dtype=input.dtype, device=input.device), p, True)
    return input.mul_(mask) if inplace else input * mask


def dropout1d(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, L) or (C, L)."""
    return _dropout_channels(input, p, training, inplace, 1)


def dropout2d(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, H, W)."""
    return _dropout_channels(input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, D, H, W)."""
    return _dropout_channels(input, p, training, inplace, 3)


def _alpha_dropout(input: Tensor, p: Number, mask_shape: Any, inplace: bool) -> Tensor:
    saturation = -1.7580993408473766
    a = ((1 - p) * (1 + p * saturation * saturation)) ** -0.5 if p < 1.0 else 0.0
    b = -a * saturation * p
    lost = jitgrad.rand(mask_shape, dtype=input.dtype, device=input.device) < p
    result = jitgrad.where(lost, saturation, input) * a + b
    return input.copy_(result) if inplace else result


def alpha_dropout(input: Tensor, p: Number = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for selu: lost elements become its saturation value; mean 0 and variance 1 are kept.

    Raises ValueError for p outside [0, 1]. Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _alpha_dropout(input, p, input.shape, inplace) if training else input


def feature_alpha_dropout(input: Tensor, p: Number = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...)."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    shape = tuple(input.shape)[:2] + (1,) * (input.dim() - 2)
    return _alpha_dropout(input, p, shape, inplace) if training else input


# --- linear maps, embedding, encodings -----------------------------------------------------------------------------


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[k] @ input2 for each k: (..., n), (..., m), (out, n, m) give (..., out)."""
    if bias is None:
        input1, input2, weight = _widest("cuda", input1, input2, weight)
    else:
        input1, input2, weight, bias = _widest("cuda", input1, input2, weight, bias)
        if bias.dtype is not input1.dtype:
            raise RuntimeError("All tensors must have the same dtype, got input1: "
                               f"{input1.dtype.word}, bias: {bias.dtype.word}")
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    if bias is not None and not bias.dim():
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    y = _linalg.trilinear("...n,onm,...m->...o", input1, weight, input2)
    return y if bias is None else y + bias


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 with one more axis: 1 at the class, 0 elsewhere. Without num_classes there are max + 1 classes."""
    if tensor.dtype != jitgrad.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if isinstance(num_classes, int) and num_classes <= 0 and tensor.numel() == 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    n = int(tensor.max().item()) + 1 if num_classes == -1 else num_classes
    return _classes.one_hot(tensor, n)


@library
def pad(input: Tensor, pad: Sequence[Any], mode: str = "constant", value: Number | None = None) -> Tensor:
    """Padding: (before, after) of the last axis, then of the one before it, ... Negative pads cut.

    Args:
        input: any tensor; for the modes other than "constant" (C, *spatial) or (N, C, *spatial).
        pad: two sizes per axis, last axis first.
        mode: "constant" (with `value`), "reflect", "replicate" or "circular".
        value: the constant, 0 if None.

    Raises:
        RuntimeError: an odd or too long list, or more than there is to reflect.
        NotImplementedError: another mode, or one that does not go with the input's rank.
    """
    if mode in ("reflect", "replicate", "circular"):
        if value is not None and value != 0:
            raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
        return _resampling.pad_by_index(input, pad, mode)  # type: ignore[no-any-return]
    if mode != "constant":
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return pad_constant(input, pad, value)  # type: ignore[no-any-return]


# --- normalisation -------------------------------------------------------------------------------------------------


@composite
def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: Number = 1e-05) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias, over the last axes, which have normalized_shape.

    Raises RuntimeError where the last sizes differ. Source: Ba et al., "Layer Normalization", 2016.
    """
    input, weight, bias = _widen(input, "cuda"), _widen(weight, "cuda"), _widen(bias, "cuda")
    _classes.require_normalized(normalized_shape, weight, bias)
    _classes.require_trailing(input, normalized_shape)
    _classes.require_one_dtype(input, weight, bias)
    _classes.require_floats("LayerNormKernelImpl", input)
    dims = tuple(range(-len(normalized_shape), 0))
    x = _norms.wide(input)
    centred = x - x.mean(dims, keepdim=True)  # kept, with the row, where kernels hold it (see `_norms.moments`)
    y = centred * jitgrad.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    if weight is not None:
        y = y * weight
    return _norms.like(y if bias is None else y + bias, input)


@composite
def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
             eps: Number | None = None) -> Tensor:
    """input / sqrt(mean(input^2) + eps) * weight over the last axes. Source: Zhang and Sennrich, 2019."""
    input = _widen(input, "cuda")
    _classes.require_normalized(normalized_shape, weight, None)
    if input.dim() < len(normalized_shape):
        raise ValueError(f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input.dim()}")
    _classes.require_trailing(input, normalized_shape)
    dims = tuple(range(-len(normalized_shape), 0))
    if not input.dtype.is_complex:
        _classes.require_floats("rms_norm", input)
    x = _norms.wide(input)
    floor = jitgrad.finfo(x.dtype).eps if eps is None else eps
    y = x * jitgrad.rsqrt((x * x).mean(dims, keepdim=True) + floor)
    return (y if weight is None else y * weight).to(input.dtype)


@composite
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: Number = 1e-05) -> Tensor:
    """layer_norm of num_groups groups of channels of (N, C, ...). Source: Wu and He, 2018."""
    input, weight, bias = _widen(input, "cuda"), _widen(weight, "cuda"), _widen(bias, "cuda")
    _classes.require_groups(input, num_groups)
    _classes.require_channel_vectors(input, weight, bias)
    _classes.require_one_dtype(input, weight, bias)
    _classes.require_floats("GroupNormKernelImpl", input)
    _, centred, variance = _norms.moments(_norms.wide(input).reshape(
        input.shape[0], num_groups, input.shape[1] // num_groups, *input.shape[2:]).flatten(2), -1)
    y = _classes.reshaped(centred * jitgrad.rsqrt(variance + eps), input.shape)
    return _norms.scaled(y, weight, bias, input)


@composite
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: Number = 0.1,
               eps: Number = 1e-05) -> Tensor:
    """Channels of (N, C, ...) normalised by the batch's moments, or the running ones; training updates those in place.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.
    """
    for name, vector in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight),
                         ("bias", bias)):
        if vector is not None:
            _classes.require_channels(input, vector, name)
    if not training and (running_mean is None or running_var is None):
        if input.numel() == 0:  # there is nothing to normalise
            return _norms.scaled(input.clone(), weight, bias, input)
        raise RuntimeError(f"{'running_mean' if running_mean is None else 'running_var'} must be defined in evaluation "
                           "mode")
    input.size(1)  # IndexError of a vector
    _classes.require_floats("batch_norm", input)
    _classes.require_one_dtype(input, weight, bias, running_mean, running_var)
    dims = (0, *range(2, input.dim()))
    if training:
        _classes.require_several(input, spatial=False)
    x = _norms.wide(input)
    if training:
        mean, centred, variance = _norms.moments(x, dims)
        if running_mean is not None and running_var is not None:
            with jitgrad.no_grad():
                _norms.follow(running_mean, running_var, mean.detach().reshape(-1), variance.detach().reshape(-1),
                              input.numel() / input.shape[1], momentum)
    elif running_mean is not None and running_var is not None:  # as they are, or it would have been an error
        centred = x - _classes.along(running_mean, input.dim(), 1)
        variance = _classes.along(running_var, input.dim(), 1)
    y = centred * jitgrad.rsqrt(variance + eps)
    return _norms.scaled(y, weight, bias, input)


def normalize(input: Tensor, p: Number | None = 2.0, dim: int = 1, eps: Number = 1e-12,
              out: Tensor | None = None) -> Tensor:
    """input divided by its p-norm along dim, which is at least eps."""
    norm = _norms.p_norm(input, p, dim, True).clamp_min(eps)
    divide: Any = jitgrad.div  # which takes `out`, as all of the library that torch's takes it in
    return input / norm if out is None else divide(input, norm, out=out)


# --- distances -----------------------------------------------------------------------------------------------------


@composite
@_of_any_name
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: Number = 1e-8) -> Tensor:
    """x1 . x2 / (|x1| |x2|) along dim, the norms at least eps."""
    _classes.require_one_axis("cosine_similarity", dim)
    d = jitgrad.result_type(_widen(x1, "cuda"), _widen(x2, "cuda"))
    if not d.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {d}")
    x1, x2 = jitgrad.broadcast_tensors(x1.to(d), x2.to(d))
    n1 = _reduce.vector_norm(x1, 2, dim, True).clamp_min(eps)
    n2 = _reduce.vector_norm(x2, 2, dim, True).clamp_min(eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


@_of_any_name
def pdist(input: Tensor, p: Number = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, (N, D) -> (N (N - 1) / 2,), in the order of i < j."""
    input = _widen(input, "cuda")
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    _classes.require_wide("pdist", input)
    pairs = jitgrad.triu_indices(input.shape[0], input.shape[0], 1)
    return _norms.p_norm(input[pairs[0]] - input[pairs[1]], p, -1)
