"""Differences that stay, each with its reason: where PyTorch's own answer is no measure, or jitgrad refuses or goes on.

A reason is told by the texts of the answers, so that a difference of another kind in the same function still counts.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.against.answers import Answer, Seen, answer, compare, numbers_of
from tests.against.drafts import Case

#: PyTorch raises -> why jitgrad does not, or otherwise
RAISED_THERE = {
    r"INTERNAL ASSERT|MKL FFT error|^backward: .*pixel_shuffle expects"
    r"|Could this error message be improved|setStorage: sizes|grad_input must be contiguous"
    r"|^backward: .*Index to scalar can have only 1 value, got 0"
    r"|returned an invalid gradient|^backward: .*index_fill_\(\): Expected dtype int64 for index":
        "PyTorch fails in a check of its own",
    r"some elements of the input tensor and the written-to tensor": "operands that overlap the target: as if copied",
    r"view size is not compatible": "`view` copies where it must, as `reshape`",
    r"derivative for '?[\w:]+'? is not implemented|the derivative for|^backward: .*with a bool tensor is not supported|"
    r"^backward: .*on a bool tensor is not supported": "there is no derivative in PyTorch",
    r"^backward: .*Tensor must have a last dimension with stride 1": "PyTorch's gradient of a view is one of parts",
    r"sort\(\): functions with out=": "PyTorch's argsort is a part of its sort, which has a derivative",
    r"is not differentiable with respect to argument": "no derivative by weights and targets in PyTorch",
    r"does not support automatic differentiation for outputs with complex": "no complex derivative in PyTorch",
    r"has been modified by an inplace operation|saved tensor that has been detached in-place":
        "an in-place operation keeps what its own derivative needs",
    r"function that returns multiple views": "one of several views may be written to",
    r"masked_fill_ only supports boolean masks": "masks of uint8 where one number is assigned",
    r"^backward: .*(can't be cast to the desired output type|broadcast shape|Found dtype|must have the same dtype|"
    r"expected scalar type)":
        "PyTorch's gradient has another type or shape than its operand",
    r"^backward: .*_backward(_\w+)?. not implemented for '(BFloat16|Half)": "no derivative of half types in PyTorch",
    r"Autograd not support dtype": "a history ends where a tensor becomes one of integers",
    r"takes no keyword arguments|takes 1 positional argument but 3|one_hot\(\) missing 1":
        "PyTorch names parameters in its stub files only",
    r"[Ll]ow precision dtypes not supported|other than float and double|linalg.pinv\(|"
    r"\"(cholesky|lu|geqrf|linalg_\w+|triangular_solve|orm?gqr|ldl_\w+|linalg\.\w+)(_\w+)?\" not implemented for '"
    r"(Half|BFloat16)": "matrices of half types are computed in float32",
}
#: jitgrad raises, PyTorch gives something
RAISED_HERE = {
    r"Exponential distribution is a continuous": "types are checked where there is nothing to draw",
    r"more than one element of the written-to tensor": "writes to expanded memory (deprecated there) are refused",
    r"a view of a leaf Variable|a leaf Variable that requires grad":
        "writes to leaves that require grad, without derivative too",
    r"\b(add|r?sub)\(\) takes from 0 to 2 positional arguments but 3": "alpha by position, which PyTorch deprecates",
    r"is written to with history after the tensor has changed its own shape":
        "views of what has changed its own shape (`t_`, `unsqueeze_`) are refused",
    r"Could not set tensor of type": "memory is seen in another type only where `view` says so",
    r"whose parts are (b?float16) are not available": "complex numbers of half precision",
    r"functions with out=... arguments don't support automatic differentiation":
        "PyTorch asks so only of functions with a derivative of their own",
    r"addmm_impl_cpu_. not implemented for 'Bool'": "products of bools along axes of size one",
    r"of complex matrices is not available|conv\w* of complex|complex tensors? is not available": "complex matrices",
}
#: jitgrad raises where PyTorch gives tensors without elements: it looked at nothing
EMPTY_THERE = {
    r"not implemented for '|without overflow|expected scalar type|expected m1 and m2 to have the same dtype|"
    r"The size of tensor a \(\d+\) must match the size of tensor b \(0\)":
        "types are checked where there is nothing to compute",
}
#: PyTorch raises where jitgrad gives tensors without elements
EMPTY_HERE = {r"storage_offset\(\) must be divisible by|stride\(-1\) must be 1 to view \w+ as \w+":
              "strides of what has no elements"}
#: both raise, of two faults one each: what jitgrad says, what PyTorch says
BOTH = {
    (r'"hist\w+" not implemented for', "value cannot be converted to type uint8_t"):
        "PyTorch converts the bounds before it looks for a kernel",
    ("clamp is not supported for complex", "without overflow|can't be cast"): "a complex bound of real numbers",
    ('"nextafter_cpu" not implemented', "functions with out="):
        "PyTorch asks for gradients before it looks for a kernel",
    ("whose parts are b?float16 are not available", "not implemented for '(Complex|Half|BFloat16)|clamp is not supp"):
        "complex numbers of half precision",
    ("index \\d+ is out of bounds for dimension 0 with size 0", "self indexing axis dim should be positive"):
        "rows of a matrix that has none",
    ("should contain \\d+ elements not|Expected weight to be a vector of size",
     r"select\(\)(: index 0 out of range| cannot be applied to a 0-dim)"):
        "vectors of nothing",
    ("Dimension out of range", r"running_mean should contain 0 elements"): "PyTorch reads a size that is not there",
    ("must be a 3D tensor", "Dimension out of range"): "PyTorch reads a size that is not there",
    ("size mismatch, got input", "Dimension specified as 0 but tensor has no"):
        "PyTorch reads a size that is not there",
    ("log_softmax_lastdim_kernel_impl", "Expected input batch_size|expected target dtype to be Long or Byte"):
        "types are checked where there is nothing to compute",
    ('"batch_norm_cpu" not implemented for', r"mean\(\): could not infer output dtype"):
        "PyTorch takes the mean of what is not in row order, and looks for a kernel else",
    (r"takes from 0 to 2 positional arguments but 3", "a leaf Variable"): "two faults in one call",
    ("", r"argument 'out' must be tuple of Tensors"): "PyTorch looks at `out` first",
    ("Dimension out of range", r"expected scalar_type \w+ but found"): "PyTorch looks at `out` first",
    ("more than one element of the written-to", "clamp is not supported for complex|not intended to support complex"):
        "PyTorch looks for a kernel before it looks at memory",
    ("more than one element of the written-to", '(cum\\w+_out|threshold)_cpu" not implemented for'):
        "PyTorch looks for a kernel before it looks at memory",
    ("LOBPCG algorithm is not applicable", "cannot be raised to a negative power|^torch.float16"):
        "two faults in one call",
    ("nonzero.* must be tuple of Tensors", "does not support the out kwarg"): "two faults in one call",
    ("Expected out tensor to have dtype", "argument 'dim' must be tuple of ints"): "two faults in one call",
    ("functions with out=", "not implemented for"): "PyTorch asks so only of functions with a derivative of their own",
    ("result type Complex", r'"\w+_cpu" not implemented for'): "PyTorch looks for the kernel of a part first",
    ("not implemented for", "Mismatch of parameter numbers"): "two faults in one call",
    ("Dimension out of range", "contracted dimensions need to match"): "two faults in one call",
    ("index \\d+ is out of bounds for dimension", "index out of range in self"): "PyTorch has two errors for it",
    ("amin_cpu. not implemented for 'Complex", "aminmax not implemented for Complex"): "PyTorch has two errors for it",
    ("slow_conv_transpose", r"to have \d+ channels, but got"): "two faults in one call",
    ("A and B are of the same size", "only supported on matrices"): "PyTorch transposes before it looks at axes",
    ("not implemented for|not intended to support complex",
     "Found dtype|functions with out=|Expected out tensor to have|output tensor's dtype is wrong|and hist tensor s"):
        "PyTorch looks at `out` before it looks for a kernel",
    ("written-to tensor refers to a single", "written-to tensor refers to a single"):
        "PyTorch finds in the backward pass what a write refused",
}
#: the first word of a difference, and what the program has in it
SEEN = {
    ("history", r"\.\w*(eq|ne|lt|le|gt|ge|less|greater|equal|logical_\w+)_\(|\.bernoulli\("):
        "PyTorch claims a history for what has no derivative",
    ("history", r"norm\(\w+, 0[,)]|bessel|histogram|geqrf|cdist\(.*, 0\)|mode='nearest'|unique|grid_sample"):
        "a derivative that only one of the two has",
    ("strides", r"\bconj|\.H\b|\.mH\b|adjoint"): "conjugates have memory of their own",
    ("history", r"triangular_solve"): "PyTorch claims a history for the copy of the matrix too",
    ("strides", r"dropout"): "dropout of nothing is a copy",
    ("gradient", r"[cp]dist\(.*inf"): "equal maxima share the gradient",
    ("gradient", r"norm\(.*inf'|(index|scatter)_reduce_?\(.*'am|t\.(max|min)\(\w+\)|\.(max|min)\(\)"):
        "the gradient of extremes that are NaN",
    ("gradient", r"kthvalue|median|topk|quantile|sort\("): "which of equal elements has the gradient",
    ("gradient",
     r"\.(select|narrow|expand\w*|diagonal|\w*split|chunk|unbind|\w*slice|as_strided)\(.*\n(?s:.*)as_strided\("):
        "PyTorch gives nothing to memory that the operand of as_strided does not show",
    ("history", r"norm\(.*(inf|1)"): "PyTorch makes the largest of no sums of zeros, without history",
    ("history", r"(trapz|trapezoid)\("): "PyTorch makes the integral over nothing of zeros, without history",
    ("values", r"(unfold|as_strided)\((?s:.*)_\("):
        "writes to windows that overlap: PyTorch's come in an order, or are lost",
    ("gradient", r"(unfold|as_strided)\((?s:.*)_\("):
        "writes to windows that overlap: PyTorch's come in an order, or are lost",
    ("error: RuntimeError (index", r"take_along_dim\("): "PyTorch reads out of bounds",
    ("gradient", r"addc(mul|div)\(.*value="): "PyTorch multiplies by the number in the type of one operand",
    ("gradient", r"as_strided_scatter"): "PyTorch gives input the gradient of what was written over it",
    ("gradients", r"dropout"): "dropout of nothing is a copy",
    ("error: RuntimeError (Expected out tensor", r"\babs(olute)?\("):
        "PyTorch's abs of complex numbers takes an `out` of any floats, that of reals does not",
    ("gradient", r"polar\("): "PyTorch's slope is the direction of the result, and zero has none",
    ("gradient", r"\.(logical_\w+|eq|ne|lt|le|gt|ge|less\w*|greater\w*|not_equal)_\("):
        "PyTorch claims a history for what has no derivative",
    ("gradient", r"cholesky_inverse"): "PyTorch's gradient has also the triangle that is not read",
    ("error: RuntimeError (Number of elements of source", r"(\w+)\.masked_scatter_\(.*, \1\)"):
        "PyTorch reads what it has just written",
    ("gradient", r"expand\((?s:.*)linalg\.det\("): "PyTorch's first slope of determinants of singular matrices is zero",
    ("error: none (), not RuntimeError (output with shape [] doesn't match the broadcast", r"logsumexp\(.*(\(\)|\[\])"):
        "PyTorch fails to add the maxima over `()`, which are all axes",
    ("error: none (), not RuntimeError (a leaf Variable", r"\[(:|::1|\.\.\.)\] \S?= "):
        "PyTorch takes a view for a leaf when its base has just got a history",
    ("values", r"\.view\(t\.(b?float|complex)"): "the bits of NaN, seen as integers",
    ("values", r"(poly|di)gamma\("): "rounding at the poles",
    ("gradient", r"(poly|di|l|mvl)gamma\("): "rounding at the poles",
    ("value", r"stride\("): "strides of axes of size one, and of nothing",
    ("shape", r"pixel_(un)?shuffle"): "PyTorch gives what has no elements as it is",
    ("values", r"interpolate\(.*bicubic"): "PyTorch's own integers between pixels",
    ("values", r"median|kthvalue"): "PyTorch's medians of expanded tensors",
}

#: likewise, where every number that differs is NaN in PyTorch's answer, and none in ours
LOST_THERE = {
    ("gradient", r"\.prod\("): "PyTorch divides the product, which may be infinite, by its factors",
    ("gradient", r"nanmean\("): "PyTorch divides by how many are not NaN, which may be none",
    ("gradient", r"(index|scatter)_reduce_?\(.*'prod'"):
        "PyTorch divides the product, which may be infinite, by its factors",
    ("gradient", r"cumprod\("): "infinite products beside zeros, which PyTorch multiplies by zero",
    ("gradient", r"copysign"): "PyTorch divides the result by an operand that may be NaN or infinite",
    ("gradient", r"log_ndtr"): "limits at infinity, where PyTorch has NaN",
    ("values", r"(trapz|trapezoid)\("): "infinite integrals, where PyTorch subtracts the ends and has NaN",
    ("values", r"(var|std)_mean\("): "deviations from infinite means, where PyTorch has NaN",
    ("values", r"\b(i0|i1|bessel_\w+|modified_bessel_\w+)_?\("): "limits at infinity, where PyTorch has NaN",
}

#: likewise, where the complex number that is NaN in PyTorch's answer has a part in ours that is infinite or NaN
TIMES_ONE = {(word, "complex"): "PyTorch multiplies what it adds by one, as complex numbers" for word in
             ("values", "gradient")}

#: likewise in ours, and none in PyTorch's
LOST_HERE = {
    ("gradient", r"\.prod\("): "PyTorch gives zeros where two factors are 0, beside NaN too, of the first order alone",
    ("gradient", r"\b[sc]?elu_?\("): "PyTorch's slope at NaN is NaN or 1, as the element lies in a whole vector or not",
    ("values", r"complex(?s:.*)(pow\w*\(| \*\*=? )"):
        "powers of complex zeros and infinities: the C library's infinity",
}


#: likewise, where one answer has no gradient, and the other one of zeros
NONE_OF_ZEROS = {("gradient", r"//=|floor_divide_\(|grid_sample"): "a gradient of zeros, or none"}

#: likewise, where each number that differs is NaN in one of them
LOST = {("values", r"\bi1e?_?\(|modified_bessel_i1"): "limits at infinity, where PyTorch has NaN",
        ("gradient", r"\bi1e?_?\("): "PyTorch's slope at NaN is 0.5"}

#: likewise, where the numbers that differ are infinities of either sign
SIGNS = {("gradient", r"\blogit_?\("): "PyTorch's slope at -0 has either sign, as it lies in a whole vector or not"}

#: likewise, where PyTorch's numbers are ours as float32 has them
SINGLE = {("gradient", r"hardsigmoid"): "PyTorch has a sixth in float32"}

#: how a line is said so that PyTorch computes what it means: where its answer to the program then is ours, that is why
OTHERWISE = [
    (r"\b(\w+)\.view\((t\.\w+)\)", r"(\1 if \1.numel() else \1.clone(memory_format=t.contiguous_format)).view(\2)",
     "strides of what has no elements"),
    (r"padding='same'", "padding=0", "PyTorch asks for the type of the bias only without padding='same'"),
    (r"\bcross_entropy\((\w+), (\w+)", r"cross_entropy(\1, \2.long()",
     "PyTorch smooths classes of uint8 without weights"),
    (r"\b(kron)\((\w+), (\w+)\)", r"\1(\2.contiguous(), \3.contiguous())",
     "PyTorch's kron of what is not in row order is not either, so that a reshape of it copies"),
    (r"\b((?:std|var)(?:_mean)?\(.*?)(?:\(\)|\[\])", r"\1None",
     "PyTorch's gradient of deviations over `()` has no number of elements"),
    (r"(\.masked_scatter_\(.*, )(\w+)\b", r"\1\2.clone()", "PyTorch reads what it has just written"),
    (r"(\.addc(?:mul|div)_\()(\w+), (\w+)", r"\1\2.clone(), \3.clone()", "PyTorch reads what it has just written"),
    (r"^(.*\b(\w+)\.(?:add|copy|div|mul|sub)_\()(\2\..*)\)$", r"\1(\3).clone())",
     "PyTorch reads what it has just written"),
    (r"\bldexp\((\w+), (\w+)", r"ldexp(\1, \2.to(\1.dtype)", "PyTorch's slope of ldexp is a power of integers"),
    (r"\b(conv_transpose\dd)\((\w+), (\w+), (\w+)", r"\1(\2, \3, \4.to(\2.dtype)",
     "PyTorch asks for the type of the bias only where another library convolves"),
    (r"\bt\.narrow_copy\((.*)\)", r"t.narrow(\1).clone()", "PyTorch's slope of narrow_copy has no negative start"),
    (r"\bpos_weight=(\w+)", r"pos_weight=(\1 - 1) + 1.0", "PyTorch's slope is computed of integers, which wrap"),
    (r"\bgcd\((\w+), (\w+)\)", r"gcd(\1.long(), \2.long()).to(t.result_type(\1, \2))",
     "PyTorch's remainders of the lowest integer, which has no absolute value, keep a sign"),
    (r"\b(atan2|arctan2)\((\w+), (\w+)", r"\1(\2.to(\3.dtype), \3",
     "PyTorch's slope is computed of integers, which wrap"),
    (r"\blerp\((\w+), (\w+), (\w+)", r"lerp(\1.to(\3.dtype), \2.to(\3.dtype), \3",
     "PyTorch's slope is computed of integers, which wrap"),
]


#: likewise, so that jitgrad understands it: where its answer then is PyTorch's
OTHERWISE_HERE = [
    (r"\blinear\((.*)\b(?:a|x|x1)=", r"linear(\1input=", "a function in plain Python takes torch's own names only"),
    (r"\bpairwise_distance\((.*)\bkeepdims=", r"pairwise_distance(\1keepdim=",
     "a function in plain Python takes torch's own names only")]


def told_otherwise(case: Case, ours: Answer, theirs: Answer, here: Any, torch: Any) -> str:
    """Why a difference stays: one library's answer is the other's where a line says in another way what it says; or
    nothing."""
    for table, module, other in ((OTHERWISE, torch, ours), (OTHERWISE_HERE, here, theirs)):
        for pattern, replacement, why in table:
            lines = tuple([re.sub(pattern, replacement, line) for line in case.lines])
            if lines != case.lines and not compare(case, answer(case._replace(lines=lines), module), other):
                return why
    return ""


def reason(case: Case, found: str, ours: Answer, theirs: Answer) -> str:
    """Why a difference stays, or nothing."""
    if ours.error != theirs.error:
        if theirs.error and (why := _of(RAISED_THERE, f"{theirs.error}: {theirs.text}")):
            return why
        if theirs.error and not ours.error and _has_none(ours.results) and (why := _of(EMPTY_HERE, theirs.text)):
            return why
        if ours.error and not theirs.error and (why := _of(RAISED_HERE, ours.text)):
            return why
        if ours.error and not theirs.error and _has_none(theirs.results):
            return _of(EMPTY_THERE, ours.text)
        if why := next((why for (here, there), why in BOTH.items()
                        if ours.error and re.search(here, ours.text) and re.search(there, theirs.text)), ""):
            return why
    pairs = _pairs(ours, theirs)
    told = {**SEEN, **(NONE_OF_ZEROS if _none_of_zeros(ours, theirs) else {})}
    for table, same in ((LOST_THERE, lambda p, q: np.isnan(q) | np.isclose(p, q, 2e-2, 2e-2)),
                        (TIMES_ONE, lambda p, q: np.isclose(p, q, 2e-2, 2e-2, equal_nan=True) | (
                            np.isnan(q) & ~np.isfinite(p).all(-1, keepdims=True))),
                        (LOST_HERE, lambda p, q: np.isnan(p) | np.isclose(p, q, 2e-2, 2e-2)),
                        (LOST, lambda p, q: np.isnan(p) | np.isnan(q) | np.isclose(p, q, 2e-2, 2e-2)),
                        (SIGNS, lambda p, q: np.isclose(abs(p), abs(q), equal_nan=True) & ((p == q) | ~np.isfinite(p))),
                        (SINGLE, lambda p, q: np.isclose(p, q, 2e-7, 0, equal_nan=True))):
        if pairs is not None and all(same(p, q).all() for p, q in pairs):
            told |= table
    return seen(case, found, told)


def refused_here(ours: Answer) -> str:
    """Why jitgrad refuses what PyTorch does, or nothing."""
    return _of(RAISED_HERE, ours.text)


def seen(case: Case, found: str, told: dict[tuple[str, str], str] = SEEN) -> str:
    """Why a difference stays by its first word and what the program has in it, or nothing."""
    return next((why for (word, pattern), why in told.items()
                 if found.startswith(word) and re.search(pattern, case.text)), "")


def _pairs(ours: Answer, theirs: Answer) -> list[tuple[Any, Any]] | None:
    """The numbers of each tensor in both answers; None where these have others."""
    here, there = ([*numbers_of(a.results), *numbers_of(a.gradients)] for a in (ours, theirs))
    if [np.shape(a) for a in here] != [np.shape(b) for b in there]:
        return None
    return [(np.asarray(a, float), np.asarray(b, float)) for a, b in zip(here, there, strict=True)]


def _none_of_zeros(ours: Answer, theirs: Answer) -> bool:
    """Whether of all gradients those that one answer alone has are zeros."""
    pairs = zip(ours.gradients or (), theirs.gradients or (), strict=False)
    return all(not np.any((a or b)[2]) for a, b in pairs if (a is None) != (b is None))


def _has_none(results: Any) -> bool:
    """Whether a tensor among results has no elements."""
    return any(_has_none(x) for x in results) if isinstance(results, list) else (
        isinstance(results, Seen) and 0 in results.shape)


def _of(reasons: dict[str, str], text: str) -> str:
    return next((why for pattern, why in reasons.items() if re.search(pattern, text)), "")
