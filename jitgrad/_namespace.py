"""The functions, classes and constants of the public namespace: what `jitgrad.<name>` finds on first use.

The files of the library say in `__all__` which of their functions torch has under its own name.
"""

import math as _math
from typing import TYPE_CHECKING as _CHECKING

from jitgrad.amp.autocast_mode import *
from jitgrad.amp.by_device import *
from jitgrad.backends.cuda import (get_float32_matmul_precision as get_float32_matmul_precision,
                                   set_float32_matmul_precision as set_float32_matmul_precision)
from jitgrad.determinism import *
from jitgrad.device import *
from jitgrad.dtypes import *
from jitgrad.dtypes import bool_ as _bool
from jitgrad.eager import Tensor as Tensor
from jitgrad.eager.autograd.anomaly import (is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
                                            is_anomaly_enabled as is_anomaly_enabled)
from jitgrad.eager.autograd.grad_mode import *
from jitgrad.eager.factories import *
from jitgrad.eager.interop import *
from jitgrad.eager.layouts import *
from jitgrad.ops.library.activation import *
from jitgrad.ops.library.combine import *
from jitgrad.ops.library.compare import *
from jitgrad.ops.library.convert import *
from jitgrad.ops.library.core import is_tensor as is_tensor
from jitgrad.ops.library.creation import *
from jitgrad.ops.library.elementary import *
from jitgrad.ops.library.elements.floats import *
from jitgrad.ops.library.elements.making import *
from jitgrad.ops.library.elements.norms import *
from jitgrad.ops.library.elements.parts import *
from jitgrad.ops.library.elements.windows import *
from jitgrad.ops.library.foreach import *
from jitgrad.ops.library.keywords import in_place_functions as _in_place_functions
from jitgrad.ops.library.linear_algebra.decompositions import *
from jitgrad.ops.library.linear_algebra.eigenpairs import *
from jitgrad.ops.library.linear_algebra.linalg import *
from jitgrad.ops.library.linear_algebra.older import *
from jitgrad.ops.library.order import *
from jitgrad.ops.library.pointwise import *
from jitgrad.ops.library.random import *
from jitgrad.ops.library.reduce import *
from jitgrad.ops.library.shapes.gather import *
from jitgrad.ops.library.shapes.join import *
from jitgrad.ops.library.shapes.pieces import *
from jitgrad.ops.library.shapes.rearrange import *
from jitgrad.ops.library.shapes.shape import *
from jitgrad.ops.library.spatial.adaptive_pooling import *
from jitgrad.ops.library.spatial.convolution import *
from jitgrad.ops.library.spatial.pooling import *
from jitgrad.ops.library.spatial.resampling import *
from jitgrad.ops.library.special.functions import *
from jitgrad.ops.library.spectral.short_time import *
from jitgrad.ops.library.statistics.differences import *
from jitgrad.ops.library.statistics.distinct import *
from jitgrad.ops.library.statistics.histograms import *
from jitgrad.ops.library.statistics.segments import *
from jitgrad.ops.methods import Methods as _Methods
from jitgrad.ops.tensorbase import Size as Size
from jitgrad.random import Generator as Generator, default_generator as default_generator

bool = _bool
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
if _CHECKING:
    from jitgrad._in_place import *
_made = _in_place_functions(globals(), _Methods)
globals().update(_made)
