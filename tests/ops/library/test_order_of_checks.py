"""Of two faults in a call PyTorch names one: which, is part of what a program may catch."""

from __future__ import annotations

import cmath
import math
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad as t
import jitgrad.nn.functional as F

#: the exception -> calls that have it, one a line
FIRST = {
    TypeError: """
        t.nan_to_num(x, 0.5, posinf=2j)
        t.nan_to_num(x, 1j)
        x.squeeze(None)
        t.squeeze(x, dim=None)
        x.prod(None)
        t.prod(x, None, out=None)
        x.requires_grad_().prod((0,), dtype=t.bool)
        t.nansum(x, dim=0, keepdim=1, dtype=t.float64, out=t.zeros(3))
        t.zeros(dtype=t.float64, out=t.zeros(2, dtype=t.int64))
        t.nanmean(i, 1.5)
        t.mean(i, 1.5)
        t.nanmean(u, keepdim=1)
        t.any(x, 5, 1)
        t.argmax(x.bool(), keepdim=1)
        F.cosine_similarity(t.ones(2, 3), t.ones(2, 3), (0, 1))
        t.amax(x, 5, 1)
        t.var_mean(x, dim=5, keepdim=1)
        t.linalg.norm(x, 1, keepdim=1)
        t.frobenius_norm(u, 1.5)
        t.nanmedian(x, None)
        x.median(None)
        t.var(i, 1.5)
        t.as_tensor([1], t.float32)
        t.result_type(x, tensor=x)
        t.linalg.matrix_exp(t.eye(2), nonsense=1)
        t.linalg.matrix_norm(t.ones(2, 3), 1, keepdim=1)
        t.linalg.matrix_norm(t.ones(2, 3), None)
        x.to_dense('float32')
        x.cumprod_(dim=0, dtype='float32')
        t.ones(2, 2).requires_grad_().swapaxes_(axis0=0, axis1=1, nonsense=1)
        F.pad(x, (0, 1), value=2j)
        t.nuclear_norm(t.ones(2, 3), None)
        t.nuclear_norm(t.ones(2, 3), 1.5)
        t.linalg.matrix_norm(t.ones(2, 3), "nuc", 1)
        t.linalg.vecdot(x, u, dim=1.5)
        u.__setitem__(5, 'b')
        u.__setitem__(False, 'b')
        t.exp(1.5)
        F.cosine_similarity(x, x, axis=None)
        t.cummax(x, 7, out=t.zeros(0))
        t.nonzero(x, as_tuple=True, out=t.zeros(2, dtype=t.int64))
        t.softmax('a', 1)
        t.gather(x, 5, 1.5)
        t.addmm(1.5, x, x)
        t.is_same_size(7, x)
        x.select(5, 1.5)
        x.index_put_(t.tensor([7]), x)
        t.nanquantile(i, 0.5, (0, 1))
        t.histc(x.bool(), max=None)
        t.abs(x, out=(x,))
        t.argmax(x, True)
        x.expand(2, 3).gather(True, i.long())
        x.as_strided((2,), (2,), t.zeros(0))
        t.allclose(x, x, atol=t.ones(7))
        t.zeros(2, requires_grad=t.ones(2))
        t.arange(t.ones(2, 4))
        x.sum(0, requires_grad=True)""",
    RuntimeError: """
        F.scaled_dot_product_attention(t.ones(0, 3, 4).byte(), t.ones(0, 5, 4), t.ones(0, 5, 3))
        x.bool().igamma_(i)
        F.cross_entropy(t.ones(2, 5).short(), t.ones(2, 5), weight=t.ones(3))
        F.binary_cross_entropy_with_logits(x, x, None, pos_weight=z)
        F.binary_cross_entropy_with_logits(x, x, z)
        t.tensor(1.0).copy_(t.ones(1))
        x.copy_(t.ones(1, 3))
        t.addmv(t.ones(4).bool(), t.ones(3, 4).bool(), t.ones(4).bool())
        t.addmv(t.ones(1, 3), t.ones(3, 4), t.ones(4))
        t.addmm(t.ones(3, 3).bool(), t.ones(2, 3).bool(), t.ones(3, 2).bool())
        t.addbmm(t.ones(2, 2), t.ones(2, 2, 3).bool(), t.ones(2, 3, 2))
        t.baddbmm(t.ones(3).bool(), t.ones(2, 3, 4).bool(), t.ones(2, 4, 2).bool())
        t.cumsum(m, 5, out=t.zeros(0))
        t.frobenius_norm(m, (0, 5), out=t.zeros(0))
        t.linalg.vecdot(x, x, dim=5, out=t.zeros(0).double())
        t.amin(i, 5, out=t.zeros(()))
        t.mode(x, 5, out=(t.zeros(0).double(), t.zeros(0).long()))
        t.nextafter(t.ones(3).int(), t.ones(2, 4).int())
        F.nll_loss(t.ones(5), t.ones(3))
        F.linear(t.ones(2, 3), t.ones(4, 3), t.ones(4).int())
        F.linear(t.ones(2, 3), t.ones(4, 3), t.ones(4).double())
        F.multi_margin_loss(t.ones(2, 3), t.tensor([2, 0]), weight=t.ones(3).long())
        F.scaled_dot_product_attention(t.ones(2, 3, 4), t.ones(2, 5, 4), t.ones(2, 5, 3), t.ones(3, 5).short())
        F.unfold(t.zeros(0, 5, 4).long(), 2, 2, 1, 1)
        t.tensor([1, 2], dtype=t.uint8) ** 300
        t.ones(2).half() ** 1e6
        t.threshold(t.ones(2), 1j, -2)
        t.threshold(t.ones(2), 0, 2j)
        t.threshold(t.ones(2).byte(), 300, 2)
        t.ones(2, 2).bool().scatter_reduce(0, t.zeros(2, 2).long(), t.ones(2, 2), "mean")
        t.index_add(t.tensor(1j), 0, t.tensor([0, 0]), t.tensor(1))
        t.histogramdd(t.ones(2, 3).long(), [2, 2, 2], (-1.0, 1.0))
        t.histogramdd(t.ones(2, 3), [2, 2])
        t.histogramdd(t.ones(2, 3), [t.ones(2).long()] * 3)
        t.histogram(t.ones(3).long(), 0)
        t.histogram(t.ones(3), 2, range=(1.0,))
        t.histc(t.ones(3).long(), 3, 2, 1.0)
        F.mse_loss(x, t.ones(4), reduction="nonsense")
        F.conv1d(t.ones(1, 2, 3) * 1j, t.ones(2, 2, 2) * 1j, t.ones(2))
        t.view_as_real(z.conj())
        t.ones(5, 3).index_add(0, t.tensor([5]), t.ones(1, 3))
        t.floor(z, out=t.ones(3, requires_grad=True))
        t.ceil(x.bool(), out=t.zeros(0))
        t.ones(1).requires_grad_().expand(3).cumsum_(7)
        x[:1].expand(3).index_copy_(0, t.tensor([5]), x[:1])
        z.absolute_()
        t.nanmean(x, 5, dtype=t.int64)
        t.linalg.vander(t.tensor(True))
        t.linalg.vander(x.half())
        t.linalg.vander(t.tensor(1.0))
        t.vander(t.tensor(1.0))
        F.embedding(t.tensor([0]), t.ones(0, 2, 2), padding_idx=0)
        t.ones(2, 4, requires_grad=True).__setitem__((t.tensor([True] * 2), t.tensor([0, 1, 2])), 2)
        t.zeros(3, 3, 2, dtype=t.int64).__setitem__((2, t.tensor([True, False, True]), [0, 1]), t.tensor([True]))
        t.ones(5, 4, 3).requires_grad_().__setitem__((t.tensor([3, 2]), slice(2), t.tensor([True] * 4)), 2)
        t.less(z, t.ones(2))
        t.linalg.solve(t.eye(3), t.tensor(1.0))
        t.ones(2, 2).addbmm(t.ones(2, 2, 3).bool(), t.ones(2, 3, 2).bool())
        x.copysign_(z)
        i.copysign_(z)
        t.clip(i, max=1, out=t.empty(0))
        t.clamp(x, 1, 2, out=t.empty(0, dtype=t.float64))
        F.pad(u, (1, 1), value=-1)
        t.threshold(u, 0, -0.5)
        F.bilinear(t.ones(3, 4), t.ones(3, 5), t.ones(3, 4, 5), x.double())
        F.pad(u, (1, 1), value=256)
        F.pad(x.half(), (1, 1), value=1e6)
        F.nll_loss(t.ones(3, 5, 2, 3, dtype=t.int32), t.ones(3, 2, 2, dtype=t.int64))
        F.nll_loss(t.ones(3, 5, dtype=t.int32), t.ones(3, dtype=t.int64), weight=x)
        F.cross_entropy(t.ones(3, 5), t.ones(3, 5), weight=t.tensor(1.0))
        F.embedding(x, t.ones(5, 4), max_norm=1.0)
        t.baddbmm(t.ones(2, 3, 2).bool(), t.ones(2, 3, 4).bool(), t.ones(2, 5, 2))
        t.ones(2, 3).scatter_(0, t.zeros(1, 3, dtype=t.int64), t.tensor(1.0))
        t.matmul(t.ones(2, 3, 4).bool(), t.ones(4, 5))
        t.stack([x.requires_grad_(), x], 5, out=t.empty(0))
        t.sum(x.requires_grad_(), 5, out=t.empty(0))
        t.mean(x.bool(), 0, out=t.zeros(()))
        F.nll_loss(t.ones(3, 5, 2, 2), t.ones(3, 2, 2, dtype=t.uint8))
        F.cross_entropy(t.ones(3, 5, 2), t.ones(3, 2, dtype=t.uint8))
        F.pad(t.ones(2, 3, 4, 5).bool(), (0, 6, 0, 2), mode="reflect")
        F.pad(t.ones(2, 3, 4).bool(), (0, -7), mode="replicate")
        t.conv_tbc(t.ones(5, 1, 6).bool(), t.ones(1, 6, 2), t.ones(2), 1)
        t.index_select(t.ones(3, 2), 1, t.tensor([2]))
        u.index_put_((t.tensor([0, 1]),), t.ones(1, 2, dtype=t.uint8))
        u.__setitem__(t.tensor([True, False, True]), t.tensor([300]))
        t.arange(5, dtype=t.bool, out=x)
        F.cross_entropy(t.ones(5), t.ones(3))
        t.clamp_max(t.ones(3, 4) * 1j, t.ones(3, 2))
        F.multilabel_margin_loss(t.ones(3, 4), t.zeros(3, 4, dtype=t.int32))
        u.__setitem__(5, -0.5)
        u.__setitem__((1, 1), -0.5)
        u.__setitem__(slice(0, 3, -1), -0.5)
        u.__setitem__(False, -0.5)
        x.index_fill(5, t.tensor([0]), 1j)
        x.index_fill(0, t.tensor([[0]]), 1)
        x.index_fill(0, t.tensor([7]), t.tensor(1j))
        u.index_fill(0, t.tensor([7]), math.inf)
        u.index_fill(0, t.tensor([], dtype=t.int64), math.inf)
        t.tensor(True).index_reduce(0, t.tensor([0]), x[:1].bool(), "prod")
        t.ones(2, 3).index_reduce(0, t.tensor([0]), t.ones(1, 2), "prod")
        t.addmm(t.ones(2, 3).bool(), t.ones(2, 0).bool(), t.ones(0, 3).bool())
        F.hardtanh(u, math.nan, 1.0)
        F.conv_transpose2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2), None, 1, 1, 1)
        F.conv_transpose2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2), None, 1, -1)
        F.conv_transpose2d(t.ones(1, 2, 3, 3).bool(), t.ones(3, 2, 2, 2))
        F.conv_transpose2d(t.ones(1, 2, 3, 3).int(), t.ones(2, 2, 2, 2), None, 1, 7)
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 7, 7).bool())
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 3, 2, 2).bool())
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2).bool(), padding=-1)
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2).bool(), stride=2, padding="same")
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2), t.ones(2))
        F.embedding_bag(t.tensor([1, 2]), t.ones(3, 2), t.tensor([0.0, 1.0]))""",
    NotImplementedError: """
        t.pow(False, x.bool())
        True ** x[:0].bool()
        t.amin(z, None)
        F.conv_transpose1d(t.ones(2, 4, 5).int(), t.ones(4, 3, 3) * 1j, dilation=2)
        t.bitwise_or(1, x.requires_grad_())
        x.bool().scatter_reduce(0, t.tensor([0]), x.bool(), "mean")
        t.tensor(1.0).lt_(t.tensor(1j))
        t.ones(2, 2, dtype=t.int64).cholesky()
        t.copysign(x, z)
        t.median(z, 0)
        z.scatter_reduce(0, t.zeros(3, dtype=t.int64), z, "amin")
        t.matmul(t.ones(3, 4).bool(), t.ones(1, 4, 5))
        t.matmul(t.ones(4).bool(), t.ones(1, 4, 5))
        t.baddbmm(t.ones(2, 3, 2).bool(), t.ones(2, 3, 4).bool(), t.ones(2, 4, 2), beta=0)
        t.inner(x.bool(), x.bool())
        t.tensordot(t.ones(3, 4).bool(), t.ones(4, 3).bool(), 1)
        x[:0].bool() @ x[:0].bool()
        t.range(5, 1, dtype=t.bool)
        t.logspace(0, 2, 3, 2.0, dtype=t.bool)
        t.trunc(z, out=t.zeros(2, dtype=t.int64))
        t.range(1, 5, dtype=t.complex64)
        t.linspace(1, 5, 3, dtype=t.bool)
        x.bool().index_reduce(0, t.tensor([0]), x[:1].bool(), "prod")
        z.index_reduce(0, t.tensor([0]), z[:1], "mean")
        t.ones(2, 2).bool().index_reduce(0, t.tensor([0]), t.ones(1, 2).bool(), "mean")
        F.hardtanh(z, -1, 1)
        F.conv2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2))
        F.pad(t.ones(2, 3, 4, 5).bool(), (0, 1, 0, 2), mode="reflect")
        t.triangular_solve(t.ones(2, 1).int(), t.ones(2, 2).int())
        t.ones(3, 2).bool().index_reduce(0, t.tensor([0]), t.ones(1, 2).bool(), "prod", include_self=False)
        F.conv_transpose2d(t.ones(1, 2, 3, 3).bool(), t.ones(2, 2, 2, 2).bool(), t.ones(2))""",
    IndexError: """
        t.prod(m, 7, dtype=t.int64)
        t.mode(t.zeros(4, 0) * 1j, -1)
        t.baddbmm(x[:2], t.ones(3, 3, 4), t.ones(4, 2))
        t.nuclear_norm(m, (0, 5), out=t.zeros(0))
        t.linalg.norm(m, 2, (0, 5), out=t.zeros(0))
        t.linalg.matrix_norm(m, "fro", (0, 5), out=t.zeros(0))
        t.diff(m, dim=5, out=t.zeros(0))
        t.log_softmax(m, 5, out=t.zeros(0))
        t.nanmean(m, 5, out=t.zeros(0))
        t.quantile(m, 0.5, 5, out=t.zeros(0))
        t.take_along_dim(m, t.zeros(3, 3).long(), 5, out=t.zeros(0))
        t.fft.fftn(m, dim=(5,), out=t.zeros(0))
        t.argmax(m, 5, out=t.zeros(0).long())
        t.zeros(3, 0)[3:4, [0]]
        t.zeros(0, 3).index_put_((t.tensor([0]),), t.zeros(0, 3))
        t.ones(0).index_add(0, t.tensor([0]), t.ones(1))
        x[:1].expand(3).cumsum_(7)
        x[:1].expand(3).index_copy_(1, t.tensor([0]), x)
        t.gradient(t.tensor(True), dim=0)
        t.cummax(t.ones(2, 2) * 1j, 4)
        F.embedding(t.tensor([0]), t.tensor(1.0, requires_grad=True))
        t.ones(4, 2, 2).bool().__setitem__(([2, 1], slice(2), t.tensor([False, False])), x[0])
        t.quantile(t.tensor(1.0), t.tensor([0.25, 0.5]), 7)
        t.ones(0, 2).index_put_((t.tensor([0]),), x.double())
        x.index_fill(5, t.tensor([0], dtype=t.int32), 1)""",
    ValueError: """
        F.embedding_bag(t.ones(6), t.ones(5, 4).long(), t.tensor([0, 2, 6]))
        t.ones(3, 4)[t.tensor([0.5]), ::0]
        F.kl_div(i, x, reduction="nonsense")
        F.nll_loss(t.ones(2, 3), t.ones(3).long(), reduction="nonsense")
        F.mse_loss(x.bool(), x.bool(), reduction="nonsense")
        F.huber_loss(x, x, reduction="nonsense", delta=-1)
        F.triplet_margin_loss(t.ones(2, 3), x, x, margin=-1)
        F.multi_margin_loss(z, x, 7, reduction="nonsense")
        t.lobpcg(t.ones(2, 2, dtype=t.int64), 2)
        t.lobpcg(t.eye(2), 0, n=2)""", ZeroDivisionError: "t.lobpcg(t.ones(2, 2), 0)"}


@pytest.mark.parametrize(("error", "call"), [(e, line.strip()) for e, lines in FIRST.items()
                                             for line in lines.strip().splitlines()])
def test_the_first_fault_is_named(error: type[Exception], call: str) -> None:
    x = t.ones(3)
    names = {"t": t, "F": F, "math": math, "x": x, "z": x * 1j, "i": x.to(t.int8), "u": x.to(t.uint8),
             "m": t.ones(3, 3, requires_grad=True)}
    with pytest.raises(Exception) as info:  # noqa: PT011  (the type is what the test compares)
        eval(call, names)
    assert next(c for c in type(info.value).__mro__ if c.__module__ == "builtins") is error, info.value


@pytest.mark.parametrize(("write", "error", "said"), [
    (lambda x, y: x.scatter_add_(-3, t.zeros(3, 3, 4, dtype=t.int64), y), IndexError, "Dimension out of range"),
    (lambda x, y: x.index_add_(0, t.tensor([0, 1]), y), RuntimeError, "Number of indices"),
    (lambda x, y: x.masked_fill_(t.ones(7, dtype=t.bool), 1.0), RuntimeError, "must match the size"),
    (lambda x, y: x.index_fill_(0, t.tensor([[0]]), 1.0), RuntimeError, "has to be a vector"),
    (lambda x, y: x.add_(t.ones(7)), RuntimeError, "more than one element of the written-to tensor")])
def test_writes_at_indices_look_at_memory_last(write: Any, error: type[Exception], said: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return write(x.expand(3, 3, 4), y)

    for run in (f, t.script(f)):
        with pytest.raises(error, match=said):
            run(t.ones(1, 3, 4), t.ones(3, 4))


@pytest.mark.parametrize("key", [t.tensor([5]), (..., t.tensor([0, 1, 2, 9]))])
def test_values_that_do_not_fit_are_named_before_indices_out_of_bounds(key: Any) -> None:
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
        t.ones(2, 3)[key] = t.ones(5, 5)
    if isinstance(key, t.Tensor):
        with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
            t.ones(2, 3).index_put_((key,), t.ones(5, 5))


@pytest.mark.parametrize("write", [
    lambda x: x.index_copy_(-1, t.tensor([0]), x), lambda x: x.index_fill_(0, t.tensor([7]), 1.0),
    lambda x: x.scatter_(0, t.tensor([9]), 1.0), lambda x: x.add_(t.ones(2))])
def test_scripts_too_name_the_leaf_before_what_is_written(write: Any) -> None:
    for run in (write, t.script(lambda x: write(x))):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
            run(t.ones(3).requires_grad_())


@pytest.mark.parametrize("call", ["t.add(x, a)", "t.matmul(x, a)", "x.sum(a)", "t.full((2,), a)"])
def test_what_is_none_of_torchs_types_is_named_by_its_class(call: str) -> None:
    """Comparing an array, to find out what it is, would be another fault."""
    with pytest.raises(TypeError):
        eval(call, {"t": t, "x": t.ones(3), "a": np.ones(4)})


def test_indices_that_choose_nothing_are_not_looked_at() -> None:
    x = t.ones(2, 3)
    assert x[:0, t.tensor([5])].shape == (0, 1)
    x[:0, True, t.tensor([5])] = 2
    assert x.sum() == 6
    assert t.cummax(t.ones(3, 0), 4).values.shape == (3, 0)
    assert t.ones(0, 3).index_fill(1, t.tensor([7]), 5).shape == (0, 3)
    assert x.scatter(0, t.ones(0, dtype=t.int64), t.ones(4, 2, 2)).equal(t.ones(2, 3) * x)
    assert x.scatter_reduce(0, t.ones(0), t.ones(4), "amax").equal(x)
    assert x.gather(1, t.ones(4, 0, 2)).shape == (4, 0, 2)
    none = t.ones(3, 0, dtype=t.complex64)
    assert t.ones(3, 1, dtype=t.complex64).scatter_reduce(1, t.zeros(3, 0, dtype=t.int64), none, "amin").shape == (3, 1)


def test_what_other_checks_refused() -> None:
    assert t.ones(4, 3, 3)[t.tensor([[1], [2]]), t.tensor([[5], [1]]), False].shape == (2, 0, 3)
    assert t.ones(2, 4, 0)[:, t.tensor([False] * 4), [0]].shape == (2, 0)
    own = t.ones(1)
    own[t.tensor([True])] = own
    assert own.item() == 1
    assert t.lerp(t.tensor([3]), t.tensor([9]), t.tensor(0.5)).tolist() == [6.0]
    assert t.lerp(t.ones(2), t.ones(2), t.tensor(0.5j)).dtype is t.complex64
    assert t.lobpcg(t.eye(9) * t.arange(9.0), 2, n=1)[0].tolist() == pytest.approx([8])
    assert t.lobpcg(t.eye(9), 0, n=3)[1].shape == (9, 0)
    assert t.linalg.vander(t.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]
    assert t.std(t.ones(2), False).item() == 0
    assert t.gradient(t.tensor(True)) == ()
    assert t.logcumsumexp(t.ones(2, 0, dtype=t.complex64), 1).shape == (2, 0)
    assert t.ones(3, 2, 4).permute(2, 0, 1).repeat(1, 1, 1).stride() == (6, 2, 1)
    assert t.kthvalue(t.tensor(True), 1)[0].item() is True
    assert t.cov(t.ones(2, 3) * 1j, correction=0, fweights=t.tensor([1, 2, 1]), aweights=t.ones(3)).dtype is t.complex64
    assert (t.ones(2) * 2j).float_power(2).dtype is t.complex128
    assert (t.ones(2, dtype=t.complex128) * 2j).float_power_(2)[0].item() == pytest.approx(-4)
    assert t.script(lambda x: x.stride())(t.ones(2, 0, 4)) == t.ones(2, 0, 4).stride() == (4, 4, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert t.mean(t.ones(2) * (1 + 1j), 0, dtype=t.float16).item() == 1
    assert t.zeros(2, dtype=t.uint8).copy_(-2.5).tolist() == [254, 254]
    assert t.ones(4, 3).half().scatter(0, t.ones(0, 3, dtype=t.int64), 1e5).max() == 1
    assert t.tensor([1e5, -1e5, 3.0]).sum(dtype=t.float16).item() == 3
    assert t.tensor([1e5, -1e5, 3.0]).mean(dtype=t.float16).item() == 1
    assert t.ones(2, 3).stride(axis=1) == 1
    assert F.cosine_similarity(x1=t.ones(2, 3), x2=t.ones(2, 3), axis=1).tolist() == pytest.approx([1, 1])
    assert (t.ones(2, 0).bool() @ t.ones(0, 3).bool()).tolist() == [[False] * 3] * 2
    assert t.ones(2, 2).bool().index_reduce(0, t.tensor([0]), t.zeros(1, 2).bool(), "prod").tolist() == [
        [False] * 2, [True] * 2]
    assert t.ones(2, 1).mul(2j).index_reduce(0, t.tensor([0]), t.ones(1, 1) + 0j, "mean")[0].item() == 0.5 + 1j
    assert F.hardtanh(t.tensor([0, 3], dtype=t.uint8), -0.5, 1.75).tolist() == [0, 1]
    assert F.hardtanh(t.ones(1), math.nan, 1.0).isnan().all()
    assert F.conv_transpose1d(t.ones(1, 1, 2), t.ones(1, 1, 1), t.ones(1).double()).tolist() == [[[2.0, 2.0]]]
    assert F.embedding_bag(t.tensor([1, 2], dtype=t.uint8), t.ones(3, 2), t.tensor([0, 1])).shape == (2, 2)
    assert t.tensor(1.5).unsqueeze(0).view(t.int16).tolist() == [0, 16320]
    assert t.result_type(1, tensor=t.ones(2)) is t.float32
    assert t.roll(t.ones(2, 2), 1, None).shape == (2, 2)
    assert F.binary_cross_entropy_with_logits(t.ones(3), t.ones(3), t.ones(3).double()).dtype is t.float32
    assert t.clamp(t.ones(3), max=t.ones(3), out=t.empty(0, dtype=t.float64)).dtype is t.float64
    assert F.batch_norm(t.ones(0, 4), None, None, weight=t.ones(4)).shape == (0, 4)
    assert F.embedding(t.ones(2, dtype=t.int32), t.ones(5, 4), max_norm=1.0).norm(dim=1).tolist() == pytest.approx(
        [1.0, 1.0])


@pytest.mark.parametrize("call", ["t.select_scatter(x, z[0], 0, 1)", "t.slice_scatter(x, z)",
                                  "t.diagonal_scatter(x, z.diagonal())"])
def test_complex_numbers_are_scattered_by_their_real_parts(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Any = eval(call, {"t": t, "x": t.ones(2, 2), "z": t.full((2, 2), 3 + 1j)})
    assert found.dtype is t.float32
    assert found.max().item() == 3.0


def test_slopes_beside_infinite_and_missing_numbers() -> None:
    x, weight = t.tensor([math.inf, -2.0]), t.tensor([0.5], requires_grad=True)
    F.prelu(x, weight).sum().backward()
    assert weight.grad.tolist() == [-2.0]
    x = t.tensor([[1.0, 3.0]], requires_grad=True)
    t.var(x, -1, correction=2).sum().backward()
    assert x.grad.tolist() == [[-math.inf, math.inf]]
    x = t.tensor([[2.0, 3.0]], requires_grad=True)
    t.var(x, 0, correction=2).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_running_sums_of_complex_exponentials_keep_their_angle() -> None:
    numbers = [-1.75 - 3.25j, 2 + 5j, -3.1 + 9j]
    found: Any = t.logcumsumexp(t.tensor(numbers, dtype=t.complex128), 0)
    assert found[0].item() == numbers[0]
    for k, y in enumerate(found.tolist()):
        assert cmath.exp(y) == pytest.approx(sum(map(cmath.exp, numbers[:k + 1])))
    assert found[1].imag.item() == pytest.approx(5, abs=0.1)
    a, b = t.tensor(numbers)[:2]
    assert t.logaddexp(a, b).imag.item() == pytest.approx(4.978, abs=1e-3)


def test_running_products_begin_with_one() -> None:
    first = t.cumprod(t.tensor([complex(math.inf, 1), 2]), 0)[0].item()
    assert first.real == math.inf
    assert math.isnan(first.imag)
