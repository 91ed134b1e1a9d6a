"""Differences that stay, each with its reason: where PyTorch's own answer is no measure, or jitgrad refuses or goes on.

A reason is told by the texts of the answers, so that a difference of another kind in the same function still counts.
"""

from __future__ import annotations

import re

from tests.against.answers import Answer
from tests.against.drafts import Case

#: PyTorch raises -> why jitgrad does not, or otherwise
RAISED_THERE = {
    r"INTERNAL ASSERT|Could this error message be improved|setStorage: sizes|grad_input must be contiguous"
    r"|returned an invalid gradient": "PyTorch fails in a check of its own",
    r"some elements of the input tensor and the written-to tensor": "operands that overlap the target: as if copied",
    r"view size is not compatible": "`view` copies where it must, as `reshape`",
    r"derivative for '?[\w:]+'? is not implemented|the derivative for": "there is no derivative in PyTorch",
    r"is not differentiable with respect to argument": "no derivative by weights and targets in PyTorch",
    r"does not support automatic differentiation for outputs with complex": "no complex derivative in PyTorch",
    r"has been modified by an inplace operation": "an in-place operation keeps what its own derivative needs",
    r"function that returns multiple views": "one of several views may be written to",
}
#: jitgrad raises, PyTorch gives something
RAISED_HERE = {
    r"more than one element of the written-to tensor": "writes to expanded memory (deprecated there) are refused",
    r"a view of a leaf Variable|a leaf Variable that requires grad":
        "writes to leaves that require grad, without derivative too",
    r"whose parts are (b?float16) are not available": "complex numbers of half precision",
    r"(logsumexp|logcumsumexp|logaddexp)\w*.? not implemented for 'Complex": "no such sum of complex exponentials",
    r'nextafter" not implemented for': "neighbours of half types",
    r"of complex matrices is not available|conv\w* of complex|complex tensors? is not available": "complex matrices",
}
#: the first word of a difference, and what the program has in it
SEEN = {
    ("history", r"\.\w*(eq|ne|lt|le|gt|ge|less|greater|equal|logical_\w+)_\(|\.bernoulli\("):
        "PyTorch claims a history for what has no derivative",
    ("history", r"special\.\w*bessel|histogram|geqrf|cdist\(.*, 0\)|mode='nearest'|unique|grid_sample"):
        "a derivative that only one of the two has",
    ("strides", r"\bconj|\.H\b|\.mH\b|adjoint"): "conjugates are computed at once",
    ("strides", r"dropout"): "dropout of nothing is a copy",
    ("gradient", r"cdist\(.*inf"): "equal maxima share the gradient",
    ("gradient", r"grid_sample"): "a gradient of zeros, or none",
    ("values", r"interpolate\(.*bicubic"): "PyTorch's own integers between pixels",
    ("values", r"median|kthvalue"): "PyTorch's medians of expanded tensors",
}

#: families in which the types of all errors are equal
EQUAL_ERRORS = {"indexing", "views"}


def reason(case: Case, found: str, ours: Answer, theirs: Answer) -> str:
    """Why a difference stays, or nothing."""
    if ours.error != theirs.error:
        if theirs.error and (why := _of(RAISED_THERE, theirs.text)):
            return why
        if ours.error and not theirs.error and (why := _of(RAISED_HERE, ours.text)):
            return why
        if ours.error and theirs.error and not theirs.error.startswith("backward") and case.family not in EQUAL_ERRORS:
            return "both raise, of two faults another first"
        return ""
    return next((why for (word, pattern), why in SEEN.items()
                 if found.startswith(word) and re.search(pattern, case.source)), "")


def _of(reasons: dict[str, str], text: str) -> str:
    return next((why for pattern, why in reasons.items() if re.search(pattern, text)), "")
