"""Messages of failed preconditions, word for word torch's; and against torch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.dtypes import float32, int64
from jitgrad.ops import OPS
from jitgrad.ops.checks import C
from jitgrad.ops.types import TensorType


def check(name, *shapes, **attrs):
    op = OPS[name]
    index_from = {"index": 1, "index_put": 2, "gather": 1}.get(name, 99)
    op.check(C, *(TensorType(int64 if i >= index_from else float32, s) for i, s in enumerate(shapes)), **attrs)


CASES = [
    ("add", [(2, 3), (2, 4)], {}, RuntimeError,
     "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
     lambda t, a, b: a + b),
    ("mul", [(5, 3), (2, 1)], {}, RuntimeError,
     "The size of tensor a (5) must match the size of tensor b (2) at non-singleton dimension 0",
     lambda t, a, b: a * b),
    ("matmul", [(2, 3), (4, 5)], {}, RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
     lambda t, a, b: a @ b),
    ("matmul", [(7, 2, 3), (4, 5)], {}, RuntimeError, "mat1 and mat2 shapes cannot be multiplied (14x3 and 4x5)",
     lambda t, a, b: a @ b),
    ("matmul", [(7, 2, 3), (7, 4, 5)], {}, RuntimeError,
     "Expected size for first two dimensions of batch2 tensor to be: [7, 3] but got: [7, 4].", lambda t, a, b: a @ b),
    ("matmul", [(7, 2, 3), (6, 3, 5)], {}, RuntimeError,
     "The size of tensor a (7) must match the size of tensor b (6) at non-singleton dimension 0",
     lambda t, a, b: a @ b),
    ("cat", [(2, 2), (2, 3)], {"axis": 0}, RuntimeError,
     "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1 in the "
     "list.", lambda t, a, b: t.cat([a, b], 0)),
    ("reshape", [(2, 3)], {"shape": (4, 2)}, RuntimeError, "shape '[4, 2]' is invalid for input of size 6",
     lambda t, a: a.reshape(4, 2)),
    ("expand", [(3,)], {"shape": (2, 4)}, RuntimeError,
     "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  "
     "Target sizes: [2, 4].  Tensor sizes: [3]", lambda t, a: a.expand(2, 4)),
    ("select", [(3, 4)], {"axis": 0, "index": 5}, IndexError, "index 5 is out of bounds for dimension 0 with size 3",
     lambda t, a: a[5]),
    ("amax", [(2, 0)], {"axes": (1,), "keepdim": False}, IndexError,
     "amax(): Expected reduction dim 1 to have non-zero size.", lambda t, a: a.amax(1)),
    ("argmax", [(2, 0)], {"axes": (1,), "keepdim": False}, IndexError,
     "argmax(): Expected reduction dim 1 to have non-zero size.", lambda t, a: a.argmax(1)),
    ("topk", [(2, 3)], {"k": 4, "axis": 1, "largest": True, "sorted": True}, RuntimeError,
     "selected index k out of range", lambda t, a: a.topk(4)),
    ("index", [(4, 4), (2,), (3,)], {"axes": (0, 1)}, IndexError,
     "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
     lambda t, a, i, j: a[i, j]),
    ("index_put", [(4,), (3,), (2,)], {"axes": (0,), "accumulate": False}, RuntimeError,
     "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of shape [2]",
     lambda t, a, v, i: a.__setitem__(i, v)),
    ("gather", [(2, 2), (3, 3)], {"axis": 0}, RuntimeError,
     "Size does not match at dimension 1 expected index [3, 3] to be no larger than self [2, 2] apart from dimension 0",
     lambda t, a, i: a.gather(0, i)),
]


@pytest.mark.parametrize(("name", "shapes", "attrs", "error", "message", "in_torch"), CASES)
def test_message(name, shapes, attrs, error, message, in_torch) -> None:
    with pytest.raises(error) as caught:
        check(name, *shapes, **attrs)
    assert str(caught.value) == message
    torch = pytest.importorskip("torch")
    index_from = {"index": 1, "index_put": 2, "gather": 1}.get(name, 99)
    tensors = [torch.zeros(s, dtype=torch.int64 if i >= index_from else torch.float32) for i, s in enumerate(shapes)]
    with pytest.raises(error) as theirs:
        in_torch(torch, *tensors)
    assert str(theirs.value) == message


@pytest.mark.parametrize(("name", "shapes", "attrs"), [
    ("add", [(2, 1), (1, 4)], {}), ("add", [(0, 3), (1, 3)], {}), ("where", [(3, 1), (4,), ()], {}),
    ("matmul", [(5, 1, 2, 3), (4, 3, 2)], {}), ("reshape", [(2, 3)], {"shape": (6,)}),
    ("expand", [(3, 1)], {"shape": (2, 3, 4)}), ("cat", [(2, 3), (4, 3)], {"axis": 0}),
    ("index", [(4, 4), (2, 1), (3,)], {"axes": (0, 1)}), ("gather", [(3, 4), (5, 2)], {"axis": 0}),
    ("amax", [(0, 2)], {"axes": (1,), "keepdim": False}),
    ("index_put", [(4, 5), (1, 5), (2,)], {"axes": (0,), "accumulate": True})])
def test_fine(name, shapes, attrs) -> None:
    check(name, *shapes, **attrs)


def test_checks_of_samples_pass() -> None:
    from tests.ops.cases import cases, types_of

    for op in OPS.values():
        if op.check is not None:
            for operands, attrs in cases(op):
                op.check(C, *types_of(tuple(np.asarray(x) for x in operands)), **attrs)


def test_messages_are_made_only_when_needed() -> None:
    """A symbolic checker keeps the thunks; sizes are spelled when they are called, not before."""
    from jitgrad import dims
    from jitgrad.dims import Symbol
    from jitgrad.ops.checks import Checker

    class Recorder(Checker):
        def __init__(self) -> None:
            self.messages: list = []

        def equal(self, a, b, message, error=RuntimeError) -> None:
            self.messages.append(message)

        one_of = fits = at_least = equal

    n, m = dims.dim(Symbol("n")), dims.dim(Symbol("m"))
    recorder = Recorder()
    OPS["expand"].check(recorder, TensorType(float32, (n,)), shape=(2, m))
    OPS["add"].check(recorder, TensorType(float32, (n,)), TensorType(float32, (m,)))
    OPS["matmul"].check(recorder, TensorType(float32, (2, n)), TensorType(float32, (m, 3)))
    assert [message() for message in recorder.messages] == [
        "The expanded size of the tensor (m) must match the existing size (n) at non-singleton dimension 1.  Target "
        "sizes: [2, m].  Tensor sizes: [n]",
        "The size of tensor a (n) must match the size of tensor b (m) at non-singleton dimension 0",
        "mat1 and mat2 shapes cannot be multiplied (2xn and mx3)"]
