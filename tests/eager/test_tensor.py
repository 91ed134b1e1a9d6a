"""Tensor: construction, conversion, printing, copying."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import warnings

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.device import CPU, device, resolve
from jitgrad.eager.construct import from_numpy, lift, new_tensor, wrap, wrap_each
from jitgrad.eager.tensor import Tensor
from tests.eager.both import check, error, jt, plain, same, torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

# --- data ----------------------------------------------------------------------------------------------------------

DATA = [1, 1.5, True, [], [[]], [[], []], [1, 2], [1, 2.5], [True, 1], [True, 2.0], [[1, 2], [3, 4]], (1, (2)),
        range(4), [[[1.0], [2.0]]], float("inf"), [float("nan"), 1], -3, [True, False], np.float64(2), np.int32(3),
        np.bool_(True),
        [np.float64(1), np.float64(2)], [np.int8(1)], np.arange(3), np.ones((2, 2), np.float16), np.array(5.0),
        [np.arange(2), np.arange(2)], np.arange(6).reshape(2, 3).T, np.arange(8)[::3], [(1, 2), [3, 4]]]


@needs_torch
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
@pytest.mark.parametrize("data", DATA, ids=[str(i) for i in range(len(DATA))])
def test_inference_of_dtypes(data):
    ours, theirs = new_tensor(data), torch.tensor(data)
    same(plain(ours), plain(theirs))


@needs_torch
@pytest.mark.parametrize(("data", "name"), [([1.7, -1.7], "int64"), ([1, 0], "bool"), ([0.5], "bool"), (3, "float16"),
                                            ([True], "int8"), (np.array([1.9]), "int32"), (2.5, "float64")])
def test_given_dtypes(data, name):
    same(plain(new_tensor(data, dtypes.by_name(name))), plain(torch.tensor(data, dtype=getattr(torch, name))))


@needs_torch
@pytest.mark.parametrize(("data", "words"), [
    ([[1, 2], [3]], "expected sequence of length 2 at dim 1 (got 1)"), ("abc", "invalid data type 'str'"),
    ([1, "a"], "invalid data type 'str'"), ([1 << 63], "Overflow when unpacking long"),
    ([[1], 2], "not a sequence"), (None, "")])
def test_bad_data(data, words):
    def program(t):
        return error(lambda: t.tensor(data))

    found = error(lambda: new_tensor(data), words)
    assert found[0] == program(torch)[0] or data is None
    assert all(w is True for w in found[1:]) or data is None


def test_default_dtype_is_respected():
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert new_tensor([1.0]).dtype is dtypes.float64
        assert Tensor(2, 3).dtype is dtypes.float64
    finally:
        dtypes.set_default_dtype(dtypes.float32)


def test_data_is_copied():
    a = np.zeros(3)
    t = new_tensor(a)
    a[0] = 1
    assert t.tolist() == [0, 0, 0]
    u = new_tensor(t)
    u.add_(1)
    assert t.tolist() == [0, 0, 0]


def test_constructor():
    assert Tensor(2, 3).shape == (2, 3)
    assert Tensor().shape == (0,)
    assert Tensor([1, 2]).dtype is dtypes.float32
    assert Tensor([1, 2]).tolist() == [1, 2]
    assert Tensor(np.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [0.5, -3, True, 1e300, float("nan")])
def test_lift(value):
    np.testing.assert_array_equal(lift(value, dtypes.float64).numpy(), np.float64(value))
    assert lift(value, dtypes.float64).shape == ()


def test_lift_of_a_wide_int_wraps():
    assert lift(300, dtypes.uint8).item() == 44
    assert lift(-1, dtypes.uint8).item() == 255
    with pytest.raises(RuntimeError, match="without overflow"):
        lift(1 << 70, dtypes.int64)


# --- numpy -----------------------------------------------------------------------------------------------------------


def test_from_numpy():
    a = np.arange(4.0)
    t = from_numpy(a)
    t[0] = 9
    assert a[0] == 9
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        from_numpy([1, 2])
    with pytest.raises(TypeError, match=r"longdouble|float128"):
        from_numpy(np.zeros(2, np.longdouble))


def test_to_numpy():
    t = new_tensor([1.0, 2.0])
    t.numpy()[0] = 5
    assert t.tolist() == [5, 2]
    assert np.asarray(t).dtype == np.float32
    assert np.array(t, dtype=np.float64).dtype == np.float64
    assert np.sum(np.asarray(t)) == 7
    t.requires_grad_()
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach"):
        t.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(t)
    assert t.numpy(force=True).shape == (2,)
    assert t.detach().numpy()[0] == 5


def test_numbers():
    assert new_tensor([[2]]).item() == 2
    assert type(new_tensor(True).item()) is bool
    assert type(new_tensor(1).item()) is int
    assert type(new_tensor(1.0).item()) is float
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        new_tensor([1, 2]).item()
    assert new_tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert new_tensor(2.5).tolist() == 2.5
    w = new_tensor([1.5]).requires_grad_()
    assert w.tolist() == [1.5]
    assert w.item() == 1.5
    assert float(w) == 1.5


def test_facts():
    t = jt.zeros(2, 3)
    assert t.device == CPU
    assert (t.ndim, t.dim(), t.numel(), t.dtype, t.is_contiguous(), t.stride()) == (2, 2, 6, jt.float32, True, (3, 1))
    assert not t.t().is_contiguous()
    assert t.t().stride(0) == 1
    assert t.data_ptr() == t.view(-1).data_ptr()
    assert t.shape.numel() == 6
    assert hash(t) == hash(t)
    assert len({t, t}) == 1


def test_grad_of_a_non_leaf_warns():
    y = jt.ones(2).requires_grad_() * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None


# --- text ----------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
PRINTED = {
    "scalar": lambda t: t.tensor(1.5), "int scalar": lambda t: t.tensor(3), "bool": lambda t: t.tensor([True, False]),
    "ints": lambda t: t.tensor([[1, -20], [300, 4]]), "floats": lambda t: t.tensor([[1.5, -2.25], [0.001, 100.0]]),
    "whole floats": lambda t: t.tensor([1.0, -2.0, 30.0]),
    "nan": lambda t: t.tensor([1.5, float("nan"), float("-inf")]),
    "whole nan": lambda t: t.tensor([1.0, float("nan")]), "only nan": lambda t: t.tensor([float("nan")]),
    "big": lambda t: t.tensor([1e10, 1.0]), "small": lambda t: t.tensor([1e-6, 1.0]),
    "tiny": lambda t: t.tensor([1e-9]),
    "big whole": lambda t: t.tensor([1e9, 3.0]), "ratio": lambda t: t.tensor([0.5, 5000.0]),
    "double": lambda t: t.tensor([1.0], dtype=t.float64), "half": lambda t: t.tensor([1.5], dtype=t.float16),
    "int8": lambda t: t.tensor([1], dtype=t.int8), "empty": lambda t: t.zeros(0), "empty2": lambda t: t.zeros(2, 0, 3),
    "empty int": lambda t: t.zeros(0, dtype=t.int64), "zeros": lambda t: t.zeros(2, 3),
    "rank 3": lambda t: t.arange(12).reshape(2, 3, 2), "rank 4": lambda t: t.ones(1, 2, 1, 2),
    "long row": lambda t: t.arange(100), "long floats": lambda t: t.arange(40) / 7,
    "summary": lambda t: t.arange(2000), "summary 2d": lambda t: t.arange(10000).reshape(100, 100) / 3,
    "wide rows": lambda t: t.arange(60).reshape(2, 30) * 1000,
    "normal": lambda t: t.from_numpy(np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)),
    "leaf": lambda t: t.ones(2).requires_grad_(), "wide leaf": lambda t: (t.arange(13) / 3).requires_grad_(),
    "negative": lambda t: t.tensor([-1.5, 2.5]), "negative zero": lambda t: t.tensor([-0.0, 0.0]),
    "large ints": lambda t: t.tensor([10 ** 12, -1]), "uint8": lambda t: t.tensor([[255]], dtype=t.uint8),
}


@needs_torch
@pytest.mark.parametrize("name", PRINTED)
def test_repr(name):
    ours, theirs = repr(PRINTED[name](jt)), repr(PRINTED[name](torch))
    assert ours == theirs.replace("torch.", "jitgrad.")


@needs_torch
def test_format_is_that_of_the_number_in_a_tensor_without_axes():
    def program(t):
        x = t.tensor(1.25, requires_grad=True)
        return [f"{x:.1f} {x} {t.tensor(3):>4d} {t.tensor(True)} {t.ones(2)}",
                error(lambda: f"{t.ones(1):.1f}", "unsupported format string passed to Tensor.__format__")]

    check(program)


def test_repr_with_history():
    x = jt.ones(2).requires_grad_()
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward>)"
    assert repr((x * 2).sum()) == "tensor(4., grad_fn=<SumBackward>)"
    assert str(x[0]) == "tensor(1., grad_fn=<SelectBackward>)"
    assert f"{x[0]}" == "1.0"


# --- copies --------------------------------------------------------------------------------------------------------


def test_deepcopy_and_pickle():
    w = jt.tensor([[1.0, 2.0]]).requires_grad_()
    (w * w).sum().backward()
    w.note = ["user"]
    for other in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert other.tolist() == [[1, 2]]
        assert other.requires_grad
        assert other.is_leaf
        assert other.note == ["user"]
        with jt.no_grad():
            other.add_(1)
        assert w.tolist() == [[1, 2]]
    assert copy.deepcopy(w).grad.tolist() == [[2, 4]]
    assert copy.deepcopy(w).note is not w.note
    a, b = copy.deepcopy([w, w])
    assert a is b
    assert copy.copy(w).tolist() == w.tolist()
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(w * 2)
    product = pickle.loads(pickle.dumps(w * 2))
    assert product.is_leaf
    assert product.requires_grad


def test_subclasses():
    class Parameter(Tensor):
        def __new__(cls, data, requires_grad=True):
            return Tensor._make_subclass(cls, data, requires_grad)

    p = Parameter(jt.ones(2))
    assert p.requires_grad
    assert type(p * 2) is Tensor
    assert type(copy.deepcopy(p)) is Parameter
    assert type(pickle.loads(pickle.dumps(jt.ones(2)))) is Tensor
    with jt.no_grad():
        p -= 1
    assert type(p) is Parameter


def test_wrap_makes_arrays_of_scalars():
    t = wrap(np.float32(3))
    assert isinstance(t._data, np.ndarray)
    assert t.shape == ()


# --- devices -------------------------------------------------------------------------------------------------------


def test_devices(monkeypatch):
    assert device("cpu") == CPU
    assert str(device("cuda", 1)) == "cuda:1"
    assert repr(device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(CPU) == "device(type='cpu')"
    assert device(CPU) == CPU
    assert device(0) == device("cuda:0")
    assert hash(device("cuda:1")) == hash(device("cuda", 1))
    assert device("cpu") != "cpu"
    assert pickle.loads(pickle.dumps(device("cuda:1"))) == device("cuda:1")
    assert resolve(None) is CPU
    assert resolve("cpu") == CPU
    for bad, words in (("tpu", "Expected one of"), ("cuda:x", "Invalid device string")):
        with pytest.raises(RuntimeError, match=words):
            device(bad)
    with pytest.raises(RuntimeError, match="index was passed explicitly"):
        device("cuda:1", 1)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=re.escape('pip install "jitgrad[cuda13]"')):
        resolve("cuda")


@needs_torch
def test_data_setter():
    def program(t):
        w = t.tensor([1.0, 2.0]).requires_grad_()

        def put(value):
            w.data = value

        put(t.tensor([5.0, 6.0]))
        return [w, w.requires_grad, error(lambda: put(3), "Variable data has to be a tensor")]

    check(program)


@pytest.mark.parametrize("inference", [False, True])
def test_some_arrays_of_a_list_are_made_tensors(inference):
    arrays = [np.zeros(2), None, np.ones(3, np.float32), 4, np.float64(2.5), np.zeros(1)]
    before = list(arrays)
    with jt.inference_mode(inference):
        wrap_each(arrays, (0, 1, 2, 4))
    assert [arrays[k] is before[k] for k in range(6)] == [False, True, False, True, False, True]
    made = [arrays[0], arrays[2], arrays[4]]
    assert all(type(t) is Tensor and t.is_inference() is inference and not t.requires_grad for t in made)
    assert arrays[0]._data is before[0]
    assert [t.tolist() for t in made] == [[0, 0], [1, 1, 1], 2.5]
