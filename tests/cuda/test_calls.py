"""Every form of every function does the same with tensors of a GPU, or raises the same."""

from __future__ import annotations

import re

import pytest

import jitgrad
from tests.cuda import standin
from tools import api_tries
from tools.api_coverage import aims, is_there

#: calls that name the host or tell the device; mixed dtypes that the CPU alone refuses
HOSTS = re.compile(r"'cpu'|numpy|batch_norm\(d|\.cpu\(|get_device|is_shared|\.type\((non_blocking=False)?\)")
#: functions whose preconditions would have to be waited for: there, nobody asks
UNASKED = {"bernoulli", "multinomial", "binary_cross_entropy"}


def observed(text: str, where: str) -> object:
    """What a call gives, or its error, without what depends on the order in which a GPU finds errors."""
    found = api_tries.observed(text, where, False)
    try:
        if where == "cuda":
            jitgrad.cuda.synchronize()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    if isinstance(found, str) and re.match(r"\w*Error: ", found):
        found = re.sub(r"(?<=index )\d+|axis|dimension| \(on a GPU.*", "", found)
        return re.sub(r"^\w+(?=: index .* out of bounds)", "Error", found)  # of two functions that ask the same
    return found


@pytest.mark.parametrize("space", ["torch", "Tensor", "torch.linalg", "torch.special", "torch.fft",
                                   "torch.nn.functional"])
def test_calls(space: str) -> None:
    names = [n.name for n in aims(jitgrad, space) if n.kind == "function" and is_there(jitgrad, space, n.name)]
    texts = [text for name in names if name not in UNASKED for text in api_tries.texts(space, name)]
    assert len(texts) > 20
    for text in texts:
        if not HOSTS.search(text):
            expected = observed(text, "cpu")
            with standin.installed():
                reason = api_tries.difference(expected, observed(text, "cuda"))
            assert not reason, f"{text}: {reason}"
