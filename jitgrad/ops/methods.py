"""The library's functions that are methods of tensors as they are: the tensor is their first argument."""

from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library import (activation, combine, compare, convert, creation, elementary, order, pointwise, random,
                                 reduce)
from jitgrad.ops.library.core import inplace, reshaped_in_place
from jitgrad.ops.library.elements import floats, norms, parts
from jitgrad.ops.library.keywords import with_in_place_forms
from jitgrad.ops.library.linear_algebra import decompositions, linalg, older
from jitgrad.ops.library.shapes import gather as gathering, pieces, rearrange, shape
from jitgrad.ops.library.special import functions as special
from jitgrad.ops.library.spectral import short_time
from jitgrad.ops.library.statistics import distinct, draws, histograms


@with_in_place_forms
class Methods(AnyTensor[Tensor]):
    """Attached once, for eager and for script tensors; in-place forms that are not spelled out are derived."""

    __slots__ = ()

    add = pointwise.add
    sub = subtract = pointwise.sub
    rsub = pointwise.rsub
    mul = multiply = pointwise.mul
    div = divide = true_divide = pointwise.div
    floor_divide, remainder, fmod = pointwise.floor_divide, pointwise.remainder, pointwise.fmod
    neg = negative = pointwise.neg
    positive, pow, addcmul, addcdiv = pointwise.positive, pointwise.pow, pointwise.addcmul, pointwise.addcdiv
    lerp = pointwise.lerp
    exp, exp2, expm1, log = elementary.exp, elementary.exp2, elementary.expm1, elementary.log
    log1p, log2, log10, sqrt = elementary.log1p, elementary.log2, elementary.log10, elementary.sqrt
    rsqrt, sin, cos, tan = elementary.rsqrt, elementary.sin, elementary.cos, elementary.tan
    asin = arcsin = elementary.asin
    acos = arccos = elementary.acos
    atan = arctan = elementary.atan
    sinh, cosh, tanh = elementary.sinh, elementary.cosh, elementary.tanh
    asinh = arcsinh = elementary.asinh
    acosh = arccosh = elementary.acosh
    atanh = arctanh = elementary.atanh
    erf, erfc = elementary.erf, elementary.erfc
    erfinv, lgamma, digamma = elementary.erfinv, elementary.lgamma, elementary.digamma
    reciprocal, sigmoid, floor, ceil = elementary.reciprocal, elementary.sigmoid, elementary.floor, elementary.ceil
    trunc = fix = elementary.trunc
    abs = absolute = elementary.abs
    sign, sgn = elementary.sign, elementary.sgn
    square, round = elementary.square, elementary.round
    frac, logaddexp, xlogy = pointwise.frac, pointwise.logaddexp, pointwise.xlogy
    atan2 = arctan2 = pointwise.atan2
    hypot, copysign, deg2rad, rad2deg = pointwise.hypot, floats.copysign, pointwise.deg2rad, pointwise.rad2deg
    sinc, logit, nan_to_num, maximum = pointwise.sinc, activation.logit, floats.nan_to_num, pointwise.maximum
    minimum, fmax, fmin = pointwise.minimum, pointwise.fmax, pointwise.fmin
    clamp = clip = pointwise.clamp
    clamp_min, clamp_max, neg_ = pointwise.clamp_min, pointwise.clamp_max, pointwise.neg_
    abs_ = absolute_ = elementary.abs_
    square_, round_, floor_ = elementary.square_, elementary.round_, elementary.floor_
    ceil_, exp_, sqrt_, sin_ = elementary.ceil_, elementary.exp_, elementary.sqrt_, elementary.sin_
    cos_, tanh_, sigmoid_ = elementary.cos_, elementary.tanh_, elementary.sigmoid_
    clamp_ = clip_ = pointwise.clamp_
    i0, igamma, igammac, mvlgamma = special.i0, special.igamma, special.igammac, special.mvlgamma
    logaddexp2, angle, conj, isreal = special.logaddexp2, parts.angle, parts.conj, parts.isreal
    conj_physical, conj_physical_, adjoint = parts.conj_physical, parts.conj_physical_, parts.adjoint
    is_conj, is_neg, resolve_conj, resolve_neg = parts.is_conj, parts.is_neg, parts.resolve_conj, parts.resolve_neg
    frexp, ldexp, nextafter, gcd, lcm = floats.frexp, floats.ldexp, floats.nextafter, floats.gcd, floats.lcm
    float_power, float_power_ = floats.float_power, floats.float_power_
    eq = compare.eq
    ne = not_equal = compare.ne
    lt = less = compare.lt
    le = less_equal = compare.le
    gt = greater = compare.gt
    ge = greater_equal = compare.ge
    logical_and, logical_or, logical_xor = compare.logical_and, compare.logical_or, compare.logical_xor
    logical_not, bitwise_and, bitwise_or = compare.logical_not, compare.bitwise_and, compare.bitwise_or
    bitwise_xor, bitwise_not = compare.bitwise_xor, compare.bitwise_not
    bitwise_left_shift, bitwise_right_shift = compare.bitwise_left_shift, compare.bitwise_right_shift
    isnan, isinf, isfinite, isposinf = compare.isnan, compare.isinf, compare.isfinite, compare.isposinf
    isneginf, signbit, masked_fill = compare.isneginf, compare.signbit, compare.masked_fill
    isclose, allclose, equal = compare.isclose, compare.allclose, compare.equal
    sum, nansum, mean, nanmean, prod = reduce.sum, reduce.nansum, reduce.mean, reduce.nanmean, reduce.prod
    count_nonzero, var, std, amax, amin = reduce.count_nonzero, reduce.var, reduce.std, reduce.amax, reduce.amin
    aminmax, max, min, argmax, argmin = reduce.aminmax, reduce.max, reduce.min, reduce.argmax, reduce.argmin
    any, all, logsumexp, log_softmax = reduce.any, reduce.all, reduce.logsumexp, reduce.log_softmax
    dist, cumsum, cumprod, diff = reduce.dist, reduce.cumsum, reduce.cumprod, reduce.diff
    sort, argsort, topk, median = order.sort, order.argsort, order.topk, order.median
    cholesky, det, inverse = older.cholesky, decompositions.det, decompositions.inverse
    logdet, slogdet, matrix_exp = decompositions.logdet, decompositions.slogdet, decompositions.matrix_exp
    cholesky_inverse, cholesky_solve, geqrf = older.cholesky_inverse, older.cholesky_solve, older.geqrf
    lu, lu_solve, norm, orgqr = older.lu, older.lu_solve, older.norm, older.orgqr
    ormqr, pinverse, qr, svd = older.ormqr, older.pinverse, older.qr, older.svd
    triangular_solve = older.triangular_solve
    nanmedian, nanquantile, mode = order.nanmedian, order.nanquantile, order.mode
    histc, histogram, renorm = histograms.histc, histograms.histogram, norms.renorm
    cummax, cummin, kthvalue, logcumsumexp = order.cummax, order.cummin, order.kthvalue, order.logcumsumexp
    msort, quantile = order.msort, order.quantile
    unique, unique_consecutive = distinct.unique, distinct.unique_consecutive
    addbmm, corrcoef, cov, diagflat = combine.addbmm, combine.corrcoef, combine.cov, combine.diagflat
    diagonal_scatter, heaviside, kron = combine.diagonal_scatter, combine.heaviside, combine.kron
    masked_scatter, put, select_scatter = combine.masked_scatter, combine.put, combine.select_scatter
    relu, relu_, prelu, hardshrink = activation.relu, activation.relu_, activation.prelu, activation.hardshrink
    flatten, ravel, unflatten, unsqueeze = shape.flatten, shape.ravel, shape.unflatten, shape.unsqueeze
    squeeze = shape.squeeze
    transpose = swapaxes = swapdims = shape.transpose
    t = shape.t
    movedim = moveaxis = shape.movedim
    expand_as = shape.expand_as
    view_as = reshape_as = shape.view_as
    clone, repeat_interleave, narrow, select = shape.clone, shape.repeat_interleave, shape.narrow, shape.select
    split, chunk, tensor_split, unbind = shape.split, shape.chunk, shape.tensor_split, shape.unbind
    hsplit, vsplit, dsplit = pieces.hsplit, pieces.vsplit, pieces.dsplit
    split_with_sizes, unsafe_split, unsafe_chunk = pieces.split_with_sizes, pieces.unsafe_split, pieces.unsafe_chunk
    unsafe_split_with_sizes, narrow_copy = pieces.unsafe_split_with_sizes, pieces.narrow_copy
    slice_scatter, sum_to_size, is_same_size = pieces.slice_scatter, pieces.sum_to_size, pieces.is_same_size
    is_signed = pieces.is_signed
    fliplr, flipud, roll, rot90 = rearrange.fliplr, rearrange.flipud, rearrange.roll, rearrange.rot90
    diagonal, diag, diag_embed, tril = rearrange.diagonal, rearrange.diag, rearrange.diag_embed, rearrange.tril
    triu, unfold = rearrange.triu, rearrange.unfold
    gather, scatter, scatter_add = gathering.gather, gathering.scatter, gathering.scatter_add
    scatter_reduce, take_along_dim = gathering.scatter_reduce, gathering.take_along_dim
    index_select, index_add, index_copy = gathering.index_select, gathering.index_add, gathering.index_copy
    index_fill, index_put, take = gathering.index_fill, gathering.index_put, gathering.take
    index_reduce = norms.index_reduce
    nonzero, argwhere, masked_select = gathering.nonzero, gathering.argwhere, gathering.masked_select
    bincount, nonzero_static = gathering.bincount, gathering.nonzero_static
    mm, bmm, matmul = linalg.mm, linalg.bmm, linalg.matmul
    dot, vdot = linalg.dot, linalg.vdot
    mv = linalg.mv
    outer = ger = linalg.outer
    inner, addmm, addmv, addr, baddbmm = linalg.inner, linalg.addmm, linalg.addmv, linalg.addr, combine.baddbmm
    trace, cross, matrix_power = linalg.trace, linalg.cross, linalg.matrix_power
    new_zeros, new_ones = creation.new_zeros, creation.new_ones
    new = new_empty = creation.new_empty
    new_full, new_tensor = creation.new_full, creation.new_tensor
    uniform_, random_, bernoulli, bernoulli_ = random.uniform_, random.random_, random.bernoulli, random.bernoulli_
    cauchy_, log_normal_, geometric_ = draws.cauchy_, draws.log_normal_, draws.geometric_
    multinomial, exponential_ = random.multinomial, random.exponential_
    to, type_as, cpu, cuda, pin_memory = convert.to, convert.type_as, convert.cpu, convert.cuda, convert.pin_memory
    is_pinned, is_floating_point, is_complex = convert.is_pinned, convert.is_floating_point, convert.is_complex
    numel = nelement = convert.numel
    size, item, is_nonzero, fill_ = convert.size, convert.item, convert.is_nonzero, convert.fill_
    zero_, copy_, double, half = convert.zero_, convert.copy_, convert.double, convert.half
    bfloat16, long, short, char, byte = convert.bfloat16, convert.long, convert.short, convert.char, convert.byte
    stft, istft = short_time.stft, short_time.istft
    cfloat, cdouble = convert.cfloat, convert.cdouble
    type, float, int, bool = convert.type_, convert.float_, convert.int_, convert.bool_

    # --- in place: those that torch has as functions too are the library's, those not named here are derived ---------

    squeeze_, unsqueeze_ = reshaped_in_place(shape.squeeze), reshaped_in_place(shape.unsqueeze)
    transpose_ = swapaxes_ = swapdims_ = reshaped_in_place(shape.transpose)
    t_ = reshaped_in_place(shape.t)

    add_, sub_, pow_ = inplace(pointwise.add), inplace(pointwise.sub), inplace(pointwise.pow)
    mul_, div_, fmod_ = inplace(pointwise.mul), inplace(pointwise.div), inplace(pointwise.fmod)
    floor_divide_, remainder_ = inplace(pointwise.floor_divide), inplace(pointwise.remainder)
    addcmul_, addcdiv_ = inplace(pointwise.addcmul, broadcasts=True), inplace(pointwise.addcdiv, broadcasts=True)
    lerp_, copysign_ = inplace(pointwise.lerp, broadcasts=True), inplace(floats.copysign, broadcasts=True)
    frac_, logit_, nan_to_num_ = inplace(pointwise.frac), inplace(activation.logit), inplace(floats.nan_to_num)
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
    masked_fill_, put_ = inplace(compare.masked_fill, first="all"), inplace(combine.put, True, first="sizes")
    masked_scatter_ = inplace(combine.masked_scatter)
    cumsum_, cumprod_ = reduce.in_place(reduce.cumsum), reduce.in_place(reduce.cumprod)
    scatter_ = inplace(gathering.scatter, True, first="sizes")
    scatter_add_ = inplace(gathering.scatter_add, True, first="sizes")
    scatter_reduce_ = inplace(gathering.scatter_reduce, True, first="sizes")
    index_put_, index_copy_ = inplace(gathering.index_put, True, first="all"), inplace(gathering.index_copy, True)
    index_add_ = inplace(gathering.index_add, True, first="sizes")
    index_fill_ = inplace(gathering.index_fill, first="all")
    index_reduce_, fill_diagonal_ = inplace(norms.index_reduce, True, first="sizes"), inplace(pieces.fill_diagonal)
    addmm_, baddbmm_ = inplace(linalg.addmm), inplace(combine.baddbmm)
