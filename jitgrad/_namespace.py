"""The functions, classes and constants of the public namespace: what `jitgrad.<name>` finds on first use."""

from __future__ import annotations

import math as _math

from jitgrad.amp.autocast_mode import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from jitgrad.backends.cuda import get_float32_matmul_precision, set_float32_matmul_precision
from jitgrad.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from jitgrad.device import device, get_default_device, set_default_device
from jitgrad.dtypes import (
    bfloat16,
    bool_,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from jitgrad.eager import Tensor
from jitgrad.eager.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from jitgrad.eager.factories import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    arange,
    empty,
    eye,
    from_numpy,
    full,
    linspace,
    logspace,
    normal,
    ones,
    rand,
    randint,
    randn,
    randperm,
    tensor,
    tril_indices,
    triu_indices,
    zeros,
)
from jitgrad.eager.interop import (
    as_tensor,
    asarray,
    finfo,
    from_dlpack,
    get_rng_state,
    iinfo,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    typename,
)
from jitgrad.ops.library import public as _public
from jitgrad.ops.library.core import is_tensor
from jitgrad.ops.library.linear_algebra.decompositions import inv as inverse
from jitgrad.ops.library.public import *
from jitgrad.ops.tensorbase import Size
from jitgrad.random import Generator

# --- torch's other names for the same things -----------------------------------------------------------------------

absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
divide = div
fix = trunc
greater = gt
greater_equal = ge
less = lt
less_equal = le
multiply = mul
negative = neg
not_equal = ne
sgn = sign
subtract = sub
true_divide = div

bool = bool_
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Size",
    "Tensor",
    "absolute",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "autocast",
    "bfloat16",
    "bool",
    "clear_autocast_cache",
    "device",
    "divide",
    "double",
    "dtype",
    "e",
    "empty",
    "enable_grad",
    "eye",
    "finfo",
    "fix",
    "float",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "get_autocast_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_rng_state",
    "greater",
    "greater_equal",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "inverse",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "less",
    "less_equal",
    "linspace",
    "logspace",
    "long",
    "manual_seed",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "no_grad",
    "normal",
    "not_equal",
    "ones",
    "pi",
    "promote_types",
    "rand",
    "randint",
    "randn",
    "randperm",
    "seed",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_rng_state",
    "sgn",
    "short",
    "subtract",
    "tensor",
    "tril_indices",
    "triu_indices",
    "true_divide",
    "typename",
    "uint8",
    "use_deterministic_algorithms",
    "zeros",
]
__all__ += [name for name in vars(_public) if not name.startswith("_")]
