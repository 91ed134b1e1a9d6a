"""The library's public functions: what its modules list in `__all__`."""

from jitgrad.ops.library.activation import *
from jitgrad.ops.library.combine import *
from jitgrad.ops.library.compare import *
from jitgrad.ops.library.convert import *
from jitgrad.ops.library.creation import *
from jitgrad.ops.library.linear_algebra.decompositions import *
from jitgrad.ops.library.linear_algebra.linalg import *
from jitgrad.ops.library.order import *
from jitgrad.ops.library.pointwise import *
from jitgrad.ops.library.random import *
from jitgrad.ops.library.reduce import *
from jitgrad.ops.library.shapes.gather import *
from jitgrad.ops.library.shapes.join import *
from jitgrad.ops.library.shapes.rearrange import *
from jitgrad.ops.library.shapes.shape import *
from jitgrad.ops.library.spatial.convolution import *
from jitgrad.ops.library.spatial.pooling import *
from jitgrad.ops.library.spatial.resampling import *
