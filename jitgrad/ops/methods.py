"""The library's functions that are methods of tensors as they are: the tensor is their first argument."""

from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library import (
    activation,
    combine,
    compare,
    convert,
    creation,
    elementary,
    order,
    pointwise,
    random,
    reduce,
)
from jitgrad.ops.library.core import inplace
from jitgrad.ops.library.linear_algebra import decompositions, linalg
from jitgrad.ops.library.shapes import gather as gathering
from jitgrad.ops.library.shapes import rearrange, shape


class Methods(AnyTensor[Tensor]):
    """Attached once, for eager and for script tensors."""

    __slots__ = ()

    add = pointwise.add
    sub = subtract = pointwise.sub
    rsub = pointwise.rsub
    mul = multiply = pointwise.mul
    div = divide = true_divide = pointwise.div
    floor_divide = pointwise.floor_divide
    remainder = pointwise.remainder
    fmod = pointwise.fmod
    neg = negative = pointwise.neg
    positive = pointwise.positive
    pow = pointwise.pow
    addcmul = pointwise.addcmul
    addcdiv = pointwise.addcdiv
    lerp = pointwise.lerp
    exp = elementary.exp
    exp2 = elementary.exp2
    expm1 = elementary.expm1
    log = elementary.log
    log1p = elementary.log1p
    log2 = elementary.log2
    log10 = elementary.log10
    sqrt = elementary.sqrt
    rsqrt = elementary.rsqrt
    sin = elementary.sin
    cos = elementary.cos
    tan = elementary.tan
    asin = arcsin = elementary.asin
    acos = arccos = elementary.acos
    atan = arctan = elementary.atan
    sinh = elementary.sinh
    cosh = elementary.cosh
    tanh = elementary.tanh
    asinh = elementary.asinh
    acosh = elementary.acosh
    atanh = elementary.atanh
    erf = elementary.erf
    erfc = elementary.erfc
    erfinv = elementary.erfinv
    lgamma = elementary.lgamma
    digamma = elementary.digamma
    reciprocal = elementary.reciprocal
    sigmoid = elementary.sigmoid
    floor = elementary.floor
    ceil = elementary.ceil
    trunc = fix = elementary.trunc
    abs = absolute = elementary.abs
    sign = sgn = elementary.sign
    square = elementary.square
    round = elementary.round
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
    clamp = clip = pointwise.clamp
    clamp_min = pointwise.clamp_min
    clamp_max = pointwise.clamp_max
    neg_ = pointwise.neg_
    abs_ = elementary.abs_
    square_ = elementary.square_
    round_ = elementary.round_
    floor_ = elementary.floor_
    ceil_ = elementary.ceil_
    exp_ = elementary.exp_
    sqrt_ = elementary.sqrt_
    sin_ = elementary.sin_
    cos_ = elementary.cos_
    tanh_ = elementary.tanh_
    sigmoid_ = elementary.sigmoid_
    clamp_ = clip_ = pointwise.clamp_
    eq = compare.eq
    ne = not_equal = compare.ne
    lt = less = compare.lt
    le = less_equal = compare.le
    gt = greater = compare.gt
    ge = greater_equal = compare.ge
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
    sort = order.sort
    argsort = order.argsort
    topk = order.topk
    median = order.median
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
    put = combine.put
    select_scatter = combine.select_scatter
    relu = activation.relu
    relu_ = activation.relu_
    prelu = activation.prelu
    hardshrink = activation.hardshrink
    flatten = shape.flatten
    ravel = shape.ravel
    unflatten = shape.unflatten
    unsqueeze = shape.unsqueeze
    squeeze = shape.squeeze
    transpose = swapaxes = swapdims = shape.transpose
    t = shape.t
    movedim = moveaxis = shape.movedim
    broadcast_to = shape.broadcast_to
    expand_as = shape.expand_as
    view_as = reshape_as = shape.view_as
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
    mm = linalg.mm
    bmm = linalg.bmm
    matmul = linalg.matmul
    dot = vdot = linalg.dot
    mv = linalg.mv
    outer = ger = linalg.outer
    inner = linalg.inner
    addmm = linalg.addmm
    addmv = linalg.addmv
    addr = linalg.addr
    baddbmm = linalg.baddbmm
    trace = linalg.trace
    cross = linalg.cross
    new_zeros = creation.new_zeros
    new_ones = creation.new_ones
    new = new_empty = creation.new_empty
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
    numel = nelement = convert.numel
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

    # --- in place: those that torch has as functions too are the library's ------------------------------------------

    add_, sub_, pow_ = inplace(pointwise.add), inplace(pointwise.sub), inplace(pointwise.pow)
    mul_, div_, fmod_ = inplace(pointwise.mul), inplace(pointwise.div), inplace(pointwise.fmod)
    floor_divide_, remainder_ = inplace(pointwise.floor_divide), inplace(pointwise.remainder)
    addcmul_, addcdiv_, lerp_ = inplace(pointwise.addcmul), inplace(pointwise.addcdiv), inplace(pointwise.lerp)
    frac_, logit_, nan_to_num_ = inplace(pointwise.frac), inplace(pointwise.logit), inplace(pointwise.nan_to_num)
    clamp_min_, clamp_max_ = inplace(pointwise.clamp_min), inplace(pointwise.clamp_max)
    sign_, trunc_, reciprocal_ = inplace(elementary.sign), inplace(elementary.trunc), inplace(elementary.reciprocal)
    exp2_, expm1_, rsqrt_ = inplace(elementary.exp2), inplace(elementary.expm1), inplace(elementary.rsqrt)
    log_, log1p_ = inplace(elementary.log), inplace(elementary.log1p)
    log2_, log10_, erf_ = inplace(elementary.log2), inplace(elementary.log10), inplace(elementary.erf)
    tan_, asin_, acos_ = inplace(elementary.tan), inplace(elementary.asin), inplace(elementary.acos)
    atan_, sinh_, cosh_ = inplace(elementary.atan), inplace(elementary.sinh), inplace(elementary.cosh)
    erfinv_ = inplace(elementary.erfinv)
    eq_, ne_, lt_ = inplace(compare.eq), inplace(compare.ne), inplace(compare.lt)
    le_, gt_, ge_ = inplace(compare.le), inplace(compare.gt), inplace(compare.ge)
    logical_and_, logical_or_ = inplace(compare.logical_and), inplace(compare.logical_or)
    logical_xor_, logical_not_ = inplace(compare.logical_xor), inplace(compare.logical_not)
    bitwise_and_, bitwise_or_ = inplace(compare.bitwise_and), inplace(compare.bitwise_or)
    bitwise_xor_, bitwise_not_ = inplace(compare.bitwise_xor), inplace(compare.bitwise_not)
    bitwise_left_shift_ = inplace(compare.bitwise_left_shift)
    bitwise_right_shift_ = inplace(compare.bitwise_right_shift)
    masked_fill_, put_ = inplace(compare.masked_fill), inplace(combine.put)
    masked_scatter_ = inplace(combine.masked_scatter)
    cumsum_, cumprod_ = inplace(reduce.cumsum), inplace(reduce.cumprod)
    scatter_, scatter_add_ = inplace(gathering.scatter), inplace(gathering.scatter_add)
    scatter_reduce_, index_put_ = inplace(gathering.scatter_reduce), inplace(gathering.index_put)
    index_add_, index_copy_ = inplace(gathering.index_add), inplace(gathering.index_copy)
    index_fill_ = inplace(gathering.index_fill)
    addmm_, baddbmm_ = inplace(linalg.addmm), inplace(linalg.baddbmm)
