"""bfloat16 tensors: making, showing, storing, converting, writing in place; what NumPy cannot take."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import jitgrad

bf16 = jitgrad.bfloat16


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    jitgrad.set_default_dtype(jitgrad.float32)


def test_the_dtype():
    assert (repr(bf16), bf16.itemsize, bf16.is_floating_point, bf16.is_signed) == ("jitgrad.bfloat16", 2, True, True)
    assert pickle.loads(pickle.dumps(bf16)) is bf16
    limits = jitgrad.finfo(bf16)
    assert (limits.bits, limits.eps, limits.max) == (16, 0.0078125, 3.3895313892515355e38)
    assert jitgrad.promote_types(bf16, jitgrad.float16) is jitgrad.float32
    assert (jitgrad.ones(2, dtype=bf16) + jitgrad.ones(2, dtype=jitgrad.int64)).dtype is bf16
    assert (jitgrad.ones(2, dtype=bf16) + jitgrad.ones((), dtype=jitgrad.float64)).dtype is bf16
    assert (jitgrad.ones(2, dtype=jitgrad.int32) * jitgrad.ones((), dtype=bf16)).dtype is bf16


def test_text():
    assert str(jitgrad.tensor([1, 2.25, 1e20], dtype=bf16)) == (
        "tensor([1.0000e+00, 2.2500e+00, 9.9728e+19], dtype=jitgrad.bfloat16)")
    x = jitgrad.tensor(0.3, dtype=bf16)
    assert (f"{x:.4f}", x.item(), x.tolist(), float(x)) == ("0.3008", 0.30078125, 0.30078125, 0.30078125)
    assert x.type() == "torch.BFloat16Tensor"
    assert jitgrad.tensor([1, 2]).type("torch.BFloat16Tensor").dtype is bf16
    assert jitgrad.BFloat16Tensor([1.5]).dtype is bf16


def test_numpy_has_no_such_dtype():
    x = jitgrad.ones(2, dtype=bf16)
    for read in (x.numpy, lambda: x.numpy(force=True), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            read()
    assert x.float().numpy().tolist() == [1, 1]
    shared = x._data
    assert jitgrad.from_numpy(shared).dtype is bf16  # an array of ml_dtypes' type is taken
    assert jitgrad.tensor(shared).dtype is bf16


def test_copies_and_files():
    x = jitgrad.tensor([[1.5, -2.25]], dtype=bf16, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype is bf16
        assert y.requires_grad
        assert jitgrad.equal(x, y)
    model = jitgrad.nn.Sequential(jitgrad.nn.Linear(3, 2), jitgrad.nn.BatchNorm1d(2)).bfloat16()
    assert {v.dtype for k, v in model.state_dict().items() if "num" not in k} == {bf16}
    file = io.BytesIO()
    jitgrad.save({"model": model.state_dict(), "dtype": bf16, "x": x}, file)
    file.seek(0)
    found = jitgrad.load(file)
    assert found["dtype"] is bf16
    assert jitgrad.equal(found["x"], x)
    other = jitgrad.nn.Sequential(jitgrad.nn.Linear(3, 2), jitgrad.nn.BatchNorm1d(2))
    other.load_state_dict(found["model"])
    assert other[0].weight.dtype is jitgrad.float32
    assert jitgrad.equal(other[0].weight, model[0].weight.float())
    assert model.float()[0].weight.dtype is jitgrad.float32
    assert model.half()[0].bias.dtype is jitgrad.float16
    assert model.to(bf16)[0].bias.dtype is bf16


def test_default_dtype():
    jitgrad.set_default_dtype(bf16)
    assert jitgrad.tensor([1.0, 2.0]).dtype is jitgrad.zeros(2).dtype is jitgrad.nn.Linear(2, 2).weight.dtype is bf16
    assert (jitgrad.arange(3) / 2).dtype is bf16
    assert str(jitgrad.tensor(1.5)) == "tensor(1.5000)"


def test_draws():
    jitgrad.manual_seed(0)
    a = jitgrad.rand(1000, dtype=bf16)
    jitgrad.manual_seed(0)
    assert jitgrad.equal(a, jitgrad.rand(1000).bfloat16())
    assert jitgrad.randn(3, dtype=bf16).dtype is jitgrad.randint(0, 9, (3,), dtype=bf16).dtype is bf16
    x = jitgrad.empty(100, dtype=bf16)
    assert 0 <= x.uniform_(0, 1).min().item() <= x.max().item() <= 1
    assert abs(x.normal_(3.0, 0.1).mean().item() - 3) < 0.1
    assert jitgrad.nn.init.xavier_uniform_(jitgrad.empty(3, 3, dtype=bf16)).dtype is bf16


def test_writes():
    x = jitgrad.tensor([1.0, 2.0, 3.0, 4.0], dtype=bf16)
    view = x[1:3]
    view += 0.5
    view[0] = 7.3
    x[x > 5] = 0
    assert x.tolist() == [1, 0, 3.5, 4]
    x.copy_(jitgrad.tensor([0.1, 0.2, 0.3, 0.4]))
    x.mul_(jitgrad.tensor([2.0]))
    assert x.dtype is bf16
    w = jitgrad.tensor([1.0, 2.0], dtype=bf16, requires_grad=True)
    y = w * 1.0
    y.mul_(3.0)
    y[0] = 0
    y.sum().backward()
    assert w.grad.tolist() == [0, 3]
    w.grad.zero_()
    (w.double() * 0.1).sum().backward()
    assert w.grad.dtype is bf16


def test_a_gradient_hook_sees_bfloat16():
    x = jitgrad.ones(2, dtype=bf16, requires_grad=True)
    y = x.exp()
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.extend([inputs[0].dtype, outputs[0].dtype]))
    y.sum().backward()
    assert seen == [bf16, bf16]
