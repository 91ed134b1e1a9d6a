"""Complex tensors: dtypes, views, in-place writes, refusals; values and derivatives of both orders against PyTorch,
and without it against differences."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad as jt
from jitgrad.ops import OPS
from jitgrad.ops.library.core import cast
from tests.eager.complex_oracle import agree, derivatives, loss_of, numbers

try:
    import torch
except ImportError:
    torch = None

#: of z, complex (3, 4), and r, real (3, 4); `m` is the library
HOLOMORPHIC = ["z.exp()", "z.log()", "z.sqrt()", "z.rsqrt()", "z.sin()", "z.cos()", "z.tan()", "z.sinh()", "z.cosh()",
               "z.tanh()", "z.asin()", "z.acos()", "z.atan()", "z.asinh()", "z.acosh()", "z.atanh()", "z.sigmoid()",
               "z.reciprocal()", "z.square()", "z.log2()", "z.log10()", "z.exp2()", "z.expm1()", "z.log1p()", "-z",
               "z ** 3", "z ** 0.5", "z ** 1j", "2j ** z", "z ** z", "z * z", "z / (z + 1)", "1j / z", "z - 2j * z",
               "z.prod()", "z.prod(1)", "z.cumsum(1)", "z.cumprod(1)", "z.sum(0)", "z.mean()", "z @ z.T",
               "m.einsum('ij,kj->ik', z, z)", "m.bmm(z[None], z.T[None])", "m.outer(z[0], z[1])", "m.kron(z, z)",
               "m.lerp(z, z * 2, 0.3)", "m.addcdiv(z, z, z + 2, value=2j)", "z.T", "z.reshape(-1)[1:]", "z[:, ::2]",
               "z[[0, 2]]", "m.stack([z, z * z])", "m.cat([z, z * 2], 1)", "z.flip(0)", "z.roll(1)", "z.tril()",
               "z.diagonal()", "z.expand(2, 3, 4)", "z.repeat(2, 1)", "m.nn.functional.pad(z, (1, 1))", "z.trace()",
               "m.linalg.inv(z[:, 1:])", "m.linalg.matrix_exp(z[:, 1:])", "m.linalg.eigvals(z[:, 1:])",
               "m.gather(z, 1, m.tensor([[0], [1], [2]]))", "m.diff(z)", "m.nn.functional.linear(z, z)"]
OTHERS = ["z.abs()", "z.angle()", "z.sgn()", "z.real", "z.imag", "z.conj()", "z * z.conj()", "z @ z.mH", "z.H",
          "z.var()", "z.std(0)", "z.norm()", "m.linalg.norm(z)", "m.linalg.vector_norm(z, 3)", "m.linalg.pinv(z)",
          "m.linalg.svdvals(z)", "m.linalg.qr(z).Q", "m.linalg.slogdet(z[:, 1:]).sign", "m.linalg.eigvals(r[:, 1:])",
          "m.polar(z.abs(), z.angle())",
          "m.complex(z.real, r)", "m.view_as_real(z)", "m.view_as_complex(m.view_as_real(z))", "z.imag[::2].T",
          "m.where(z.real > 0, z, 1.5)", "m.where(r > 0, z, r + 0j)", "z.masked_fill(r > 0, 2j)", "m.vdot(z[0], z[1])",
          "m.cov(z)", "r * 1j", "r + z", "(r * z).exp().real", "r ** z", "z ** r", "m.linalg.vecdot(z, z)",
          "z.sum(dtype=m.complex64)", "m.tensordot(z, z.T, 1)", "r.to(m.complex128) * z", "m.dist(z, 2 * z)",
          "m.isfinite(z)", "m.isclose(z, z + 1e-9)", "z == z.conj()", "z.logical_not()", "z.any(0)", "m.isreal(z)"]
REFUSED = ["z < z", "z >= 1", "z.max()", "z.amin(0)", "z.sort()", "z.argmax()", "z.topk(1)", "z.floor()", "z.round()",
           "z.sign()", "z % 2", "z // 2", "z.clamp(0)", "m.relu(z)", "m.maximum(z, z)", "z & z", "m.atan2(z, z)",
           "z.nansum()", "z.median()", "m.view_as_real(r)", "r.imag", "m.view_as_complex(r)", "z.softmax(0)", "z.erf()",
           "m.complex(r, r.float())", "m.polar(z, z)", "z.sum().backward()", "z.sum().real.mul_(1j)", "float(z[0, 0])",
           "(z * 1).backward(r)", "m.view_as_complex(m.ones(2, 4)[:, ::2])", "m.cdist(z, z)"]


def value(m: Any, text: str, z: Any, r: Any) -> Any:
    return eval(text, {"m": m, "z": z, "r": r})


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("text", [*HOLOMORPHIC, *OTHERS])
def test_agrees_with_torch(text: str) -> None:
    arrays = numbers(3, 4), numbers(3, 4, real=True, seed=2)
    ours, theirs = [derivatives(m, lambda m, z, r: value(m, text, z, r), *arrays) for m in (jt, torch)]
    agree(ours, theirs)


@pytest.mark.parametrize("text", [t for t in (*HOLOMORPHIC, *OTHERS) if "complex64" not in t and "==" not in t])
def test_agrees_with_differences(text: str) -> None:
    """dL/dRe + i dL/dIm, by central differences."""
    arrays = [numbers(3, 4), numbers(3, 4, real=True, seed=2)]
    found = derivatives(jt, lambda m, z, r: value(m, text, z, r), *arrays)

    def loss(*given: Any) -> float:
        y: Any = value(jt, text, *[jt.tensor(a) for a in given])
        return loss_of(jt, y).item()  # type: ignore[no-any-return]

    for k, g in enumerate(found[1:3]):
        if g is None:
            continue
        expected = np.zeros_like(arrays[k])
        for at in np.ndindex(3, 4):
            for step in (1e-6, 1e-6j)[:1 + (k == 0)]:
                moved = []
                for sign in (1, -1):
                    changed = [a.copy() for a in arrays]
                    changed[k][at] += sign * step
                    moved.append(loss(*changed))
                expected[at] += (moved[0] - moved[1]) / 2e-6 * (1j if step == 1e-6j else 1)
        np.testing.assert_allclose(g, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_as_torch(text: str) -> None:
    z, r = numbers(3, 4), numbers(3, 4, real=True)

    def attempt(m: Any) -> None:
        value(m, text, m.tensor(z, requires_grad=True), m.tensor(r))

    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as ours:
        attempt(jt)
    if torch is not None:
        with pytest.raises((RuntimeError, TypeError)) as theirs:
            attempt(torch)
        assert isinstance(ours.value, theirs.type)


def test_dtypes() -> None:
    z = jt.tensor([1 + 2j, 3])
    assert z.dtype is jt.complex64 is jt.cfloat
    assert jt.cdouble is jt.complex128
    assert z.is_complex()
    assert jt.is_complex(z)
    assert not z.is_floating_point()
    assert (z.itemsize, z.real.dtype, z.to(jt.complex128).imag.dtype) == (8, jt.float32, jt.float64)
    assert jt.tensor(2, dtype=jt.complex64).item() == 2 + 0j
    assert jt.from_numpy(np.array([1j])).dtype is jt.complex128
    assert jt.promote_types(jt.float64, jt.complex64) is jt.complex128
    assert jt.promote_types(jt.complex64, jt.int64) is jt.complex64
    assert (jt.ones(2) * 1j).dtype is jt.complex64
    assert (jt.ones(2, dtype=jt.float64) * 1j).dtype is jt.complex128
    assert (jt.ones(2, dtype=jt.int64) * 1j).dtype is jt.complex64
    assert (jt.ones(2) * jt.tensor(1j, dtype=jt.complex128)).dtype is jt.complex64
    assert (z * jt.tensor(1.0, dtype=jt.float64)).dtype is jt.complex64
    assert jt.complex64.to_real() is jt.float32
    assert jt.float64.to_complex() is jt.complex128
    assert jt.randn(3, dtype=jt.complex64).dtype is jt.complex64
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(jt.float32).tolist() == [1, 3]
    assert z.tolist() == [1 + 2j, 3 + 0j]
    assert complex(z[0]) == 1 + 2j
    assert float(z[1]) == 3
    with pytest.raises(TypeError, match="real number"):
        jt.tensor([1j], dtype=jt.float32)


def test_text() -> None:
    assert repr(jt.tensor([1 + 2j, -3.5 - 1e-3j])) == "tensor([ 1.0000+2.0000e+00j, -3.5000-1.0000e-03j])"
    assert repr(jt.tensor(1j)) == "tensor(0.+1.j)"
    assert repr(jt.tensor([1j], dtype=jt.complex128)) == "tensor([0.+1.j], dtype=jitgrad.complex128)"


def test_parts_are_views() -> None:
    z = jt.tensor([[1 + 2j, 3j], [4, 5 - 1j]])
    z.real.mul_(10)
    z.T.imag[0] = 7
    assert z.tolist() == [[10 + 7j, 3j], [40 + 7j, 50 - 1j]]
    z.real = jt.zeros(2, 2)
    z.imag = jt.ones(2, 2)
    assert z.tolist() == [[1j, 1j], [1j, 1j]]
    assert not z.real.is_contiguous()
    jt.view_as_real(z)[..., 1] = 3
    assert z[0, 0] == 3j
    x = jt.zeros(2, 2)
    jt.view_as_complex(x).copy_(jt.tensor([1 + 2j, 3j]))
    assert x.tolist() == [[1, 2], [0, 3]]


@pytest.mark.parametrize("text", [
    "y.real.mul_(y.imag.clone())", "y.imag.copy_(a)", "y.imag.mul_(a)", "m.view_as_real(y)[:, 0].mul_(3.0)",
    "y.mul_(1j)", "y[0].mul_(2j)", "y.conj_physical_()", "y.real[0].exp_()"])
def test_in_place_writes_have_history(text: str) -> None:
    """Both orders, by differences of the same program out of place: a view of parts written, then read as a whole."""
    def f(m: Any, z: Any, r: Any) -> Any:
        y = z * 2
        eval(text, {"m": m, "y": y, "a": r * r})
        return y * y * y

    arrays = numbers(3), numbers(3, real=True, seed=2)
    ours = derivatives(jt, f, *arrays)
    if torch is not None:
        agree(ours, derivatives(torch, f, *arrays))
    eps = 1e-6
    for k, at in ((0, 1), (1, 2)):
        moved = []
        for sign in (1, -1):
            changed = [a.copy() for a in arrays]
            changed[k][at] += sign * eps
            moved.append(loss_of(jt, f(jt, *[jt.tensor(a) for a in changed])).item())
        g = ours[1 + k]
        slope = (moved[0] - moved[1]) / (2 * eps)
        assert (0.0 if g is None else g[at].real) == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_writes_through_a_complex_view_of_reals() -> None:
    x = jt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    jt.view_as_complex(y).mul_(1j)
    (g,) = jt.autograd.grad((y ** 3).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach(), [[3 * 4 * 2, -3 * 16 * 2], [3 * 36 * 2, -3 * 64 * 2]])
    (g ** 2).sum().backward()
    np.testing.assert_allclose(x.grad, 2304 * np.array([[1.0, 8.0], [27.0, 64.0]]), rtol=1e-5)


def test_cotangents_of_a_number_are_added_before_they_are_parted() -> None:
    """A sum of NumPy's numbers is a scalar, which has no memory to look at."""
    for k in range(20):
        x = jt.tensor([1.0 + k, 3.0], dtype=jt.float64, requires_grad=True)
        y = jt.view_as_complex(x)
        (y.real * y.real + y.real * y.imag + 2 * y.imag).backward()
        np.testing.assert_array_equal(x.grad.numpy(), [2 * (1 + k) + 3, 1 + k + 2])
    np.testing.assert_array_equal(OPS["view_as_real"].impl(np, np.complex64(1 + 2j)), np.float32([1, 2]))


def test_slopes_at_zero() -> None:
    for text in ("z.abs()", "z.angle()", "z.sgn()", "z ** 2.5"):
        z = jt.tensor([0j, 1 + 1j], requires_grad=True)
        loss_of(jt, value(jt, text, z, None)).backward()
        assert z.grad[0] == 0, text


def test_gradients_are_of_their_leaf_s_kind() -> None:
    x = jt.tensor([1.0, 2.0], requires_grad=True)
    ((x * 1j).exp() * (2 + 1j)).real.sum().backward()
    assert x.grad.dtype is jt.float32
    np.testing.assert_allclose(x.grad, -2 * np.sin([1, 2]) - np.cos([1, 2]), rtol=1e-6)
    z = jt.tensor([1 + 1j], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"real scalar outputs but got torch\.complex64"):
        (z * z).backward()
    (z * z).backward(jt.tensor([1j]))
    assert z.grad.tolist() == [1j * (2 - 2j)]


def test_kept_and_copied() -> None:
    z = jt.tensor([1j, 2])
    file = io.BytesIO()
    jt.save({"z": z}, file)
    file.seek(0)
    assert jt.load(file)["z"].tolist() == [1j, 2]
    assert jt.nn.Linear(2, 2).to(jt.complex64).weight.dtype is jt.complex64


def test_optimizers() -> None:
    """Adam takes each part for a number of its own; SGD is linear; what is neither refuses."""
    for cls in (jt.optim.Adam, jt.optim.SGD):
        z = jt.tensor([1 + 1j, 2j], requires_grad=True)
        parts = jt.view_as_real(z.detach()).clone().requires_grad_()
        for p in (z, parts):
            step = cls([p], lr=0.1)
            for _ in range(3):
                step.zero_grad()
                (p.abs() ** 2).sum().backward()
                step.step()
        np.testing.assert_allclose(jt.view_as_real(z.detach()), parts.detach(), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="RMSprop of complex parameters"):
        jt.optim.RMSprop([z])


def test_real_numbers_ask_nothing_of_complex_ones() -> None:
    """No warning of a cast, and no imaginary part that is dropped inside of a function of the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (jt.ones(3, requires_grad=True) * jt.tensor([1j, 2, 3])).abs().sum().backward()
    with pytest.raises(RuntimeError, match="it is complex"):
        cast(jt.tensor([1j]), jt.float32)


def test_many_numbers() -> None:
    """What native code computes of large real tensors is NumPy's where complex numbers are made or read."""
    a = numbers(300, 400)
    z, x, y = (jt.tensor(v, requires_grad=True) for v in (a, a.real.copy(), a.imag.copy()))
    made = jt.complex(x, y)
    for found, expected in ((z.exp() * z.conj(), np.exp(a) * a.conj()), (made, a), (x * 1j, a.real * 1j),
                            (x.to(jt.complex64), a.real.astype(np.complex64)), (z.abs(), abs(a)), (z.sum(0), a.sum(0)),
                            (jt.where(x > 0, z, 0), np.where(a.real > 0, a, 0)), (z.T.contiguous(), a.T)):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-12)
    (made.abs().sum() + (x * 1j).imag.sum() + (z.exp().abs() ** 2).sum()).backward()
    np.testing.assert_allclose(x.grad, a.real / abs(a) + 1, atol=1e-12)
    np.testing.assert_allclose(z.grad, 2 * abs(np.exp(a)) ** 2, rtol=1e-9, atol=1e-9)
    for text in REFUSED[:3]:
        with pytest.raises(NotImplementedError):
            value(jt, text, z, x)


def test_conjugates_are_views_for_who_writes() -> None:
    z = jt.tensor([[1 + 2j, 3 - 1j], [0.5j, 2 + 0j]])
    y, part, back = z.conj(), z.mH[0], z.conj().conj()
    y[0, 0] = 5j
    assert z[0, 0].item() == -5j
    assert part[0].item() == 5j
    back.mul_(2)
    z.real.add_(1)
    part.add_(1j)
    assert z.tolist() == [[1 - 11j, 7 - 2j], [1 + 0j, 5 + 0j]]
    assert back.tolist() == z.tolist()
    assert y.tolist() == [[v.conjugate() for v in row] for row in z.tolist()]
    assert [x.is_conj() for x in (z, y, part, back)] == [False, True, True, False]
    assert (y.storage_offset(), part.storage_offset(), y[1].storage_offset()) == (0, 0, 2)
    for copy in (y.clone(), y.resolve_conj(), z.conj_physical(), y + 0):
        copy.zero_()
    assert z.all()
    del y, part, back
    z.add_(1)


def test_gradients_of_what_was_written_through_a_conjugate() -> None:
    a = jt.tensor([[1 + 2j, 3 - 1j], [0.5j, 2 + 0j]], dtype=jt.complex128)
    b = jt.tensor([1.5, -2.0], dtype=jt.float64)

    def through_it(p: Any, q: Any) -> Any:
        z = p * 1
        y = z.conj()
        y[0] = q * p[1]
        y.imag[1].mul_(q)
        return (z * z * (1 + 2j)).real.sum()

    def beside_it(p: Any, q: Any) -> Any:
        rows = [(q * p[1]).conj_physical(), jt.complex(p[1].real, p[1].imag * q)]
        return (jt.stack(rows).square() * (1 + 2j)).real.sum()

    found = []
    for f in (through_it, beside_it):
        p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
        first = jt.autograd.grad(f(p, q), (p, q), create_graph=True)
        second = jt.autograd.grad(first[0].abs().square().sum() + first[1].sum(), (p, q))
        found.append([np.asarray(g.detach()) for g in (*first, *second)])
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_a_conjugate_of_a_leaf_is_no_way_to_write_to_it() -> None:
    z = jt.tensor([1 + 2j]).requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        z.conj().add_(1)
    once = jt.tensor([1 + 2j])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        once.expand(3).conj().add_(1)
