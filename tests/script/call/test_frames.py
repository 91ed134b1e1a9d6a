"""How many Python frames of ours a warm call enters on its way to native code.

Counted are all calls of Python functions from `ScriptFunction.__call__` to the launcher, which is the last one before
native code, both included: generated functions too, whether they are on the way or have returned before. So they are
nested at most that deep.
"""

import os
import sys

import pytest

import jitgrad
from jitgrad import nn

OURS = os.path.dirname(jitgrad.__file__) + os.sep
MOST = 6


def frames(call) -> list[str]:
    """The functions that a warm `call()` enters, from the dispatcher to the launcher."""
    for _ in range(3):
        call()
    found: list[str] = []

    def enter(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith((OURS, "<")):
            found.append(f"{file.removeprefix(OURS)}:{frame.f_code.co_name}")

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    start = found.index(os.path.join("script", "executor.py") + ":__call__")
    (end,) = [k for k, name in enumerate(found) if name.startswith("<jitgrad launcher forward>")]
    return found[start:end + 1]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)

    @jitgrad.script
    def method(self, x, scale: float = 2.0):
        return self.inner(x) * scale


@jitgrad.script
def product(x, y):
    return x * y + 1


@pytest.fixture
def calls():
    x, w = jitgrad.ones(4, 4), jitgrad.ones(4, 4, requires_grad=True)
    layer = Layer()
    whole = jitgrad.script(layer)
    return {"plain": lambda: product(x, x), "gradient": lambda: product(x, w), "keyword": lambda: product(x, y=x),
            "module": lambda: whole(x), "method": lambda: layer.method(x)}


@pytest.mark.parametrize("kind", ["plain", "gradient", "keyword", "module", "method"])
def test_a_call_enters_few_frames_before_native_code(calls, kind):
    found = frames(calls[kind])
    assert len(found) <= MOST, found
