"""Methods of tensors: the library's functions, attached once for eager and for script tensors.

A subclass has `shape`, `dtype` and `ndim`, and whatever belongs to its execution: gradients, memory, printing.
"""

from __future__ import annotations

import builtins
from typing import Any

from jitgrad.device import CPU
from jitgrad.ops.backend import Tensor
from jitgrad.ops.library import activation, combine, compare, convert, creation, order, pointwise, random, reduce
from jitgrad.ops.library.core import apply, library, product
from jitgrad.ops.library.linear_algebra import decompositions, linalg
from jitgrad.ops.library.shapes import gather as gathering
from jitgrad.ops.library.shapes import rearrange, shape
from jitgrad.ops.operators import Operators


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes."""

    __slots__ = ()

    def numel(self: Any) -> Any:
        """The product of the sizes."""
        return product(self)

    def __repr__(self: Any) -> str:
        return f"Size([{', '.join([str(s) for s in self])}])"


def _listed(args: tuple[Any, ...]) -> Any:
    """`x.permute(0, 1)` and `x.permute((0, 1))` as a tuple."""
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


class TensorBase(Operators[Tensor]):
    """The torch-like interface of a tensor."""

    __slots__ = ()
    # --- facts -----------------------------------------------------------------------------------------------------

    requires_grad_: Any
    detach: Any
    is_contiguous: Any
    T = property(shape.reversed_axes)
    mT = property(shape.matrix_transpose)
    H = T
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.dtype.itemsize * product(self.shape))
    device: Any = property(lambda self: CPU)
    is_cuda: Any = property(lambda self: False)
    is_sparse = property(lambda self: False)

    def dim(self: Any) -> builtins.int:
        """The rank."""
        return self.ndim

    ndimension = dim

    def element_size(self: Any) -> builtins.int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def get_device(self: Any) -> builtins.int:
        """-1, the CPU."""
        return -1

    # --- arguments that a method takes one by one -------------------------------------------------------------------

    @library
    def reshape(self: Any, *shape_: Any) -> Tensor:
        """The elements in order in another shape, given as ints or a tuple; one size may be -1."""
        return shape.reshape(self, _listed(shape_))

    @library
    def view(self: Any, *shape_: Any) -> Tensor:
        """`reshape`; with a dtype of the same size in bytes the bits are not reinterpreted but refused."""
        if len(shape_) == 1 and not isinstance(shape_[0], (int, tuple, list)) and hasattr(shape_[0], "itemsize"):
            raise NotImplementedError("view(dtype) is not available; `to(dtype)` converts")
        return shape.reshape(self, _listed(shape_))

    @library
    def permute(self: Any, *dims: Any) -> Tensor:
        """Axes in another order, given as ints or a tuple."""
        return shape.permute(self, _listed(dims))

    @library
    def expand(self: Any, *sizes: Any) -> Tensor:
        """Axes of size one repeated, sizes given as ints or a tuple; -1 keeps one."""
        return shape.expand(self, _listed(sizes))

    @library
    def repeat(self: Any, *sizes: Any) -> Tensor:
        """A tiled copy, counts given as ints or a tuple."""
        return shape.repeat(self, _listed(sizes))

    @library
    def tile(self: Any, *dims: Any) -> Tensor:
        """A tiled copy; fewer counts than axes are allowed."""
        return shape.tile(self, _listed(dims))

    @library
    def flip(self: Any, *dims: Any) -> Tensor:
        """A copy with axes reversed, given as ints or a tuple."""
        return rearrange.flip(self, _listed(dims))

    @library
    def softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """exp(x) / sum(exp(x)) along dim."""
        return reduce.softmax(self, dim, dtype)

    @library
    def where(self: Any, condition: Any, other: Any) -> Tensor:
        """self where the condition holds, else other."""
        return compare.where(condition, self, other)

    @library
    def polygamma(self: Any, n: int) -> Tensor:
        """The n-th derivative of digamma."""
        return pointwise.polygamma(n, self)

    @library
    def normal_(self: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
        """Overwrite with normal numbers."""
        return random.normal_(self, mean, std, generator=generator)

    def _in_order(self: Any) -> builtins.bool:
        """Whether the elements lie in memory in their order, as far as is known."""
        return self.is_contiguous()

    @library
    def contiguous(self: Any, memory_format: Any = None) -> Tensor:
        """Itself where its memory is in order already, else a copy that is."""
        return self if self._in_order() else apply("pad", self, pads=((0, 0),) * self.ndim, value=0)

    def tolist(self: Any) -> Any:
        """The elements as nested lists, a number for a 0-dim tensor."""
        return self.detach().numpy().tolist()

    # --- the library's functions ------------------------------------------------------------------------------------

    add = pointwise.add
    sub = pointwise.sub
    rsub = pointwise.rsub
    mul = pointwise.mul
    div = pointwise.div
    floor_divide = pointwise.floor_divide
    remainder = pointwise.remainder
    fmod = pointwise.fmod
    neg = pointwise.neg
    positive = pointwise.positive
    pow = pointwise.pow
    addcmul = pointwise.addcmul
    addcdiv = pointwise.addcdiv
    lerp = pointwise.lerp
    exp = pointwise.exp
    exp2 = pointwise.exp2
    expm1 = pointwise.expm1
    log = pointwise.log
    log1p = pointwise.log1p
    log2 = pointwise.log2
    log10 = pointwise.log10
    sqrt = pointwise.sqrt
    rsqrt = pointwise.rsqrt
    sin = pointwise.sin
    cos = pointwise.cos
    tan = pointwise.tan
    asin = pointwise.asin
    acos = pointwise.acos
    atan = pointwise.atan
    sinh = pointwise.sinh
    cosh = pointwise.cosh
    tanh = pointwise.tanh
    asinh = pointwise.asinh
    acosh = pointwise.acosh
    atanh = pointwise.atanh
    erf = pointwise.erf
    erfc = pointwise.erfc
    erfinv = pointwise.erfinv
    lgamma = pointwise.lgamma
    digamma = pointwise.digamma
    reciprocal = pointwise.reciprocal
    sigmoid = pointwise.sigmoid
    floor = pointwise.floor
    ceil = pointwise.ceil
    trunc = pointwise.trunc
    abs = pointwise.abs
    sign = pointwise.sign
    square = pointwise.square
    round = pointwise.round
    frac = pointwise.frac
    atan2 = pointwise.atan2
    logaddexp = pointwise.logaddexp
    xlogy = pointwise.xlogy
    hypot = pointwise.hypot
    copysign = pointwise.copysign
    deg2rad = pointwise.deg2rad
    rad2deg = pointwise.rad2deg
    sinc = pointwise.sinc
    logit = pointwise.logit
    nan_to_num = pointwise.nan_to_num
    maximum = pointwise.maximum
    minimum = pointwise.minimum
    fmax = pointwise.fmax
    fmin = pointwise.fmin
    clamp = pointwise.clamp
    clamp_min = pointwise.clamp_min
    clamp_max = pointwise.clamp_max
    clip = pointwise.clip
    add_ = pointwise.add_
    sub_ = pointwise.sub_
    mul_ = pointwise.mul_
    div_ = pointwise.div_
    pow_ = pointwise.pow_
    floor_divide_ = pointwise.floor_divide_
    remainder_ = pointwise.remainder_
    fmod_ = pointwise.fmod_
    addcmul_ = pointwise.addcmul_
    addcdiv_ = pointwise.addcdiv_
    lerp_ = pointwise.lerp_
    neg_ = pointwise.neg_
    abs_ = pointwise.abs_
    sign_ = pointwise.sign_
    square_ = pointwise.square_
    round_ = pointwise.round_
    floor_ = pointwise.floor_
    ceil_ = pointwise.ceil_
    trunc_ = pointwise.trunc_
    frac_ = pointwise.frac_
    exp_ = pointwise.exp_
    exp2_ = pointwise.exp2_
    expm1_ = pointwise.expm1_
    log_ = pointwise.log_
    log1p_ = pointwise.log1p_
    log2_ = pointwise.log2_
    log10_ = pointwise.log10_
    sqrt_ = pointwise.sqrt_
    rsqrt_ = pointwise.rsqrt_
    sin_ = pointwise.sin_
    cos_ = pointwise.cos_
    tan_ = pointwise.tan_
    asin_ = pointwise.asin_
    acos_ = pointwise.acos_
    atan_ = pointwise.atan_
    sinh_ = pointwise.sinh_
    cosh_ = pointwise.cosh_
    tanh_ = pointwise.tanh_
    erf_ = pointwise.erf_
    erfinv_ = pointwise.erfinv_
    reciprocal_ = pointwise.reciprocal_
    sigmoid_ = pointwise.sigmoid_
    logit_ = pointwise.logit_
    clamp_ = pointwise.clamp_
    clamp_min_ = pointwise.clamp_min_
    clamp_max_ = pointwise.clamp_max_
    clip_ = pointwise.clip_
    nan_to_num_ = pointwise.nan_to_num_
    eq = compare.eq
    ne = compare.ne
    lt = compare.lt
    le = compare.le
    gt = compare.gt
    ge = compare.ge
    logical_and = compare.logical_and
    logical_or = compare.logical_or
    logical_xor = compare.logical_xor
    logical_not = compare.logical_not
    bitwise_and = compare.bitwise_and
    bitwise_or = compare.bitwise_or
    bitwise_xor = compare.bitwise_xor
    bitwise_not = compare.bitwise_not
    bitwise_left_shift = compare.bitwise_left_shift
    bitwise_right_shift = compare.bitwise_right_shift
    isnan = compare.isnan
    isinf = compare.isinf
    isfinite = compare.isfinite
    isposinf = compare.isposinf
    isneginf = compare.isneginf
    signbit = compare.signbit
    masked_fill = compare.masked_fill
    isclose = compare.isclose
    allclose = compare.allclose
    equal = compare.equal
    logical_and_ = compare.logical_and_
    logical_or_ = compare.logical_or_
    logical_xor_ = compare.logical_xor_
    logical_not_ = compare.logical_not_
    masked_fill_ = compare.masked_fill_
    bitwise_and_ = compare.bitwise_and_
    bitwise_or_ = compare.bitwise_or_
    bitwise_xor_ = compare.bitwise_xor_
    bitwise_not_ = compare.bitwise_not_
    bitwise_left_shift_ = compare.bitwise_left_shift_
    bitwise_right_shift_ = compare.bitwise_right_shift_
    eq_ = compare.eq_
    ne_ = compare.ne_
    lt_ = compare.lt_
    le_ = compare.le_
    gt_ = compare.gt_
    ge_ = compare.ge_
    sum = reduce.sum
    nansum = reduce.nansum
    mean = reduce.mean
    nanmean = reduce.nanmean
    prod = reduce.prod
    count_nonzero = reduce.count_nonzero
    var = reduce.var
    std = reduce.std
    amax = reduce.amax
    amin = reduce.amin
    aminmax = reduce.aminmax
    max = reduce.max
    min = reduce.min
    argmax = reduce.argmax
    argmin = reduce.argmin
    any = reduce.any
    all = reduce.all
    logsumexp = reduce.logsumexp
    log_softmax = reduce.log_softmax
    norm = reduce.norm
    dist = reduce.dist
    cumsum = reduce.cumsum
    cumprod = reduce.cumprod
    diff = reduce.diff
    sort = reduce.sort
    argsort = reduce.argsort
    topk = reduce.topk
    median = reduce.median
    cholesky = decompositions.cholesky
    det = decompositions.det
    inverse = decompositions.inverse
    logdet = decompositions.logdet
    slogdet = decompositions.slogdet
    cummax = order.cummax
    cummin = order.cummin
    kthvalue = order.kthvalue
    logcumsumexp = order.logcumsumexp
    msort = order.msort
    quantile = order.quantile
    unique = order.unique
    unique_consecutive = order.unique_consecutive
    addbmm = combine.addbmm
    corrcoef = combine.corrcoef
    cov = combine.cov
    diagflat = combine.diagflat
    diagonal_scatter = combine.diagonal_scatter
    heaviside = combine.heaviside
    kron = combine.kron
    masked_scatter = combine.masked_scatter
    masked_scatter_ = combine.masked_scatter_
    put = combine.put
    put_ = combine.put_
    select_scatter = combine.select_scatter
    cumsum_ = reduce.cumsum_
    cumprod_ = reduce.cumprod_
    relu = activation.relu
    relu_ = activation.relu_
    prelu = activation.prelu
    hardshrink = activation.hardshrink
    flatten = shape.flatten
    ravel = shape.ravel
    unflatten = shape.unflatten
    unsqueeze = shape.unsqueeze
    squeeze = shape.squeeze
    transpose = shape.transpose
    swapaxes = shape.swapaxes
    swapdims = shape.swapdims
    t = shape.t
    movedim = shape.movedim
    moveaxis = shape.moveaxis
    broadcast_to = shape.broadcast_to
    expand_as = shape.expand_as
    view_as = shape.view_as
    reshape_as = shape.reshape_as
    clone = shape.clone
    repeat_interleave = shape.repeat_interleave
    narrow = shape.narrow
    select = shape.select
    split = shape.split
    chunk = shape.chunk
    tensor_split = shape.tensor_split
    unbind = shape.unbind
    fliplr = rearrange.fliplr
    flipud = rearrange.flipud
    roll = rearrange.roll
    rot90 = rearrange.rot90
    diagonal = rearrange.diagonal
    diag = rearrange.diag
    diag_embed = rearrange.diag_embed
    tril = rearrange.tril
    triu = rearrange.triu
    unfold = rearrange.unfold
    gather = gathering.gather
    scatter = gathering.scatter
    scatter_add = gathering.scatter_add
    scatter_reduce = gathering.scatter_reduce
    take_along_dim = gathering.take_along_dim
    index_select = gathering.index_select
    index_add = gathering.index_add
    index_copy = gathering.index_copy
    index_fill = gathering.index_fill
    index_put = gathering.index_put
    take = gathering.take
    nonzero = gathering.nonzero
    argwhere = gathering.argwhere
    masked_select = gathering.masked_select
    bincount = gathering.bincount
    scatter_ = gathering.scatter_
    scatter_add_ = gathering.scatter_add_
    scatter_reduce_ = gathering.scatter_reduce_
    index_add_ = gathering.index_add_
    index_copy_ = gathering.index_copy_
    index_fill_ = gathering.index_fill_
    index_put_ = gathering.index_put_
    mm = linalg.mm
    bmm = linalg.bmm
    matmul = linalg.matmul
    dot = linalg.dot
    vdot = linalg.vdot
    mv = linalg.mv
    outer = linalg.outer
    ger = linalg.ger
    inner = linalg.inner
    addmm = linalg.addmm
    addmv = linalg.addmv
    addr = linalg.addr
    baddbmm = linalg.baddbmm
    trace = linalg.trace
    cross = linalg.cross
    addmm_ = linalg.addmm_
    baddbmm_ = linalg.baddbmm_
    new_zeros = creation.new_zeros
    new_ones = creation.new_ones
    new_empty = creation.new_empty
    new_full = creation.new_full
    new_tensor = creation.new_tensor
    uniform_ = random.uniform_
    random_ = random.random_
    bernoulli = random.bernoulli
    bernoulli_ = random.bernoulli_
    multinomial = random.multinomial
    exponential_ = random.exponential_
    to = convert.to
    type_as = convert.type_as
    cpu = convert.cpu
    cuda = convert.cuda
    pin_memory = convert.pin_memory
    is_pinned = convert.is_pinned
    is_floating_point = convert.is_floating_point
    is_complex = convert.is_complex
    numel = convert.numel
    size = convert.size
    item = convert.item
    is_nonzero = convert.is_nonzero
    fill_ = convert.fill_
    zero_ = convert.zero_
    copy_ = convert.copy_
    double = convert.double
    half = convert.half
    bfloat16 = convert.bfloat16
    long = convert.long
    short = convert.short
    char = convert.char
    byte = convert.byte
    type = convert.type_
    float = convert.float_
    int = convert.int_
    bool = convert.bool_
    nelement = convert.numel
    divide = pointwise.divide
    multiply = pointwise.multiply
    subtract = pointwise.subtract
    true_divide = pointwise.true_divide
    negative = pointwise.negative
    absolute = pointwise.absolute
    fix = pointwise.fix
    sgn = pointwise.sgn
    arcsin = pointwise.arcsin
    arccos = pointwise.arccos
    arctan = pointwise.arctan
    greater = compare.greater
    greater_equal = compare.greater_equal
    less = compare.less
    less_equal = compare.less_equal
    not_equal = compare.not_equal
    new = creation.new_empty
