"""Complex tensors in scripts: values, gradients and writes are eager's, natively and interpreted; what is refused."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config, errors, fft
from jitgrad.errors import ScriptError
from tests import test_fft
from tests.eager import test_complex as eager
from tests.eager.complex_oracle import agree, derivatives, numbers

PROGRAMS: list[Any] = []


def program(*arguments: Any) -> Any:
    """Register a program and its arguments: "z" complex (3,), "Z" (3, 4), "W" (4, 3), "x" real (3,); others as is."""
    def add(function: Any) -> Any:
        PROGRAMS.append(pytest.param(function, arguments, id=function.__name__))
        return function

    return add


def given(arguments: tuple[Any, ...], leaves: bool) -> list[Any]:
    shapes = {"z": (3,), "Z": (3, 4), "W": (4, 3)}
    found: list[Any] = []
    for k, a in enumerate(arguments):
        if isinstance(a, str):
            x = torch.tensor([1.0, 2.0, -1.0]) if a == "x" else torch.tensor(
                numbers(*shapes[a], seed=k).astype(np.complex64))
            found.append(x.requires_grad_(leaves))
        else:
            found.append(a.clone() if isinstance(a, torch.Tensor) else a)
    return found


def flat(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [v for x in result.values() for v in flat(x)]
    return [v for x in result for v in flat(x)] if isinstance(result, (list, tuple)) else [result]


def shown(x: Any) -> Any:
    return np.array(x.detach().numpy()) if isinstance(x, torch.Tensor) else x


def run(function: Any, arguments: tuple[Any, ...], leaves: bool) -> dict[str, Any]:
    """All that can be observed of a call: results, arguments after it, gradients; or the error."""
    args = given(arguments, leaves)
    try:
        results = flat(function(*args))
    except Exception as error:
        return {"error": error}
    observed = {"results": [shown(y) for y in results], "arguments": [shown(a) for a in args],
                "same": [[y is a for a in args] for y in results]}
    reached = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
    if reached:
        loss = sum((y.abs() ** 2).sum() + (y.real * 3).sum() for y in reached)
        asked = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        observed["gradients"] = [shown(g) for g in torch.autograd.grad(loss, asked, allow_unused=True)]
    return observed


def same(a: Any, b: Any) -> None:
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    else:
        assert a == b


# --- programs --------------------------------------------------------------------------------------------------------


@program("z", "x")
def chain(z, x):
    w = z * 2j + x
    return (w.exp() * w.conj()).abs().sum()


@program("z", 5)
def loop(z, n):
    for _ in range(n):
        z = z * z + 0.1j
    return z


@program("z", "x")
def branch(z, x):
    if x.sum() > 0:
        w = z * 1j
    else:
        w = z.conj() + x
    return w * 2


@program("z")
def whileloop(z):
    k = 0
    while z.abs().max() < 100:
        z = z * 2 + 1j
        k += 1
    return (z, k)


@program("z")
def inplace(z):
    z.mul_(2j)
    z.real.add_(1)
    z[0] = 5j
    return z


@program("Z")
def inplace_view(z):
    w = z * 1
    w[1:].imag.mul_(3)
    w.T[0] = 1j
    w.real = w.real * 2
    return (w, w.real)


@program("z")
def itself(z):
    return z


@program("z")
def view(z):
    return (z[1:], z.imag)


@program("z")
def lists(z):
    out = []
    for k in range(3):
        out.append(z * k)
    return (torch.stack(out).sum(0), out)


@program("x")
def make(x):
    a = torch.zeros(3, dtype=torch.complex64)
    b = torch.tensor([1j, 2, 3])
    c = torch.full((3,), 1 + 1j)
    d = torch.ones(3, dtype=torch.cfloat, device=x.device)
    return a + b * c * d * x


@program("x", "z")
def inner_backward(x, z):
    y = x.detach().requires_grad_()
    (y * z.detach()).abs().sum().backward()
    return y.grad


@program("x", "z")
def inner_grad(x, z):
    y = x * z
    return torch.autograd.grad(y.abs().sum(), x)[0]


@program("Z")
def masked(z):
    return (z[z.real > 0], torch.where(z.imag > 0, z, 0), z.masked_fill(z.real > 0, 1j))


@program("Z", torch.tensor([0, 2]))
def index(z, i):
    z = z.clone()
    z[i] = 1j
    z.index_add_(0, i, z[i] * 2)
    return (z[i], z)


@program("z", True)
def optional(z, flag):
    w = None
    if flag:
        w = z * 2
    return w


@program("z")
def swap(z):
    z.copy_(torch.complex(z.imag, z.real))
    return z


@program("z")
def closures(z):
    def f(a):
        return a * 1j
    return (f(z), [f(a) for a in (z, z * 2)])


@program("z")
def dicts(z):
    d = {'a': z, 'b': z.abs()}
    d['a'] = d['a'] * 2
    return d


@program("z", "z")
def eqs(z, w):
    return ((z == w).all(), torch.allclose(z, w), z.is_complex(), z.dtype, z.shape, z.ndim, len(z))


@program("Z", "W")
def mat(z, w):
    return (z @ w, torch.einsum('ij,jk->ik', z, w), (z @ w).mH, torch.matmul(z, w[:, 0]))


@program("z")
def to(z):
    return (z.to(torch.complex128), z.cdouble() if hasattr(z, 'cdouble') else z)


@program("z")
def detachd(z):
    return (z * 2).detach() * z


@program("z")
def nograd(z):
    with torch.no_grad():
        w = z * 2
    return w * z


@program("x")
def randc(x):
    torch.manual_seed(3)
    return torch.randn(4, dtype=torch.complex64) * x


@program("z")
def twice(z):
    return (z * 2, z.real, z)


@program("Z")
def vm(z):
    return torch.vmap(lambda a: (a * a.conj()).real.sum())(z)


@program("z", "x")
def opt2(z, x):
    w = None
    if x.sum() > 0:
        w = z * 2
    return w


@program("z", "x")
def opt3(z, x):
    w = None
    for k in range(3):
        if x[k] > 1.5:
            w = z * k
    if w is None:
        return z * 0
    return (w + z, w)


@program("z", "x")
def union(z, x):
    if x.sum() > 0:
        w = z
    else:
        w = x
    return w * 2


@program("z", "x")
def either(z, x):
    if x.sum() > 5:
        w = z.real
    else:
        w = z
    return w


@program("z", "x")
def carried(z, x):
    best = z
    for k in range(len(x)):
        if x[k] > 0:
            best = best * x[k]
    return best


@program("z", 4)
def tuples(z, n):
    a, b = (z, z.abs())
    for _ in range(n):
        a, b = (a * 1j, b + a.abs())
    return (a, b)


class Obj:

    def __init__(self, z):
        self.z = z


@program("z")
def objs(z):
    o = Obj(z * 2)
    o.z = o.z + 1
    return o.z


@program("z")
def tryit(z):
    try:
        w = z * 2
        if w.abs().sum() > 0:
            raise ValueError('x')
    except ValueError:
        w = z
    return w


@program("z", "z")
def writeback(z, w):
    w[:2] = z[1:]
    w.real[2] = 7
    return w.sum()


@program("z")
def paramview(z):
    v = z[1:]
    v.mul_(2)
    return (v, z)


@program("z", "x")
def earlyret(z, x):
    if x.sum() > 0:
        return z
    return z * 2


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_programs(function: Any, arguments: tuple[Any, ...], mode: str, leaves: bool) -> None:
    expected = run(function, arguments, leaves)
    with config.override(interpret=mode == "interpreted"):
        found = run(torch.script(function), arguments, leaves)
    assert found.keys() == expected.keys(), (found, expected)
    if "error" in expected:
        assert isinstance(found["error"], type(expected["error"]))
        assert str(expected["error"]) in str(found["error"])
        return
    for key, value in expected.items():
        same(found[key], value)


# --- expressions -----------------------------------------------------------------------------------------------------

#: functions whose complex versions scripts do not have
MISSING = {f"z.{name}()" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "log1p")}
OF_NUMBERS = [t for t in (*eager.HOLOMORPHIC, *eager.OTHERS) if t not in MISSING]
OF_SIGNALS = [*test_fft.ONE[::3], *test_fft.SEVERAL[::2], *test_fft.ORDERS[::2], *test_fft.FREQUENCIES[::3],
              *test_fft.SHORT]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A module with one function per expression: scripts need source in a file."""
    path: Path = tmp_path_factory.mktemp("scripted") / "complex_expressions.py"
    lines = ["import jitgrad as m"]
    for k, text in enumerate(OF_NUMBERS):
        lines += [f"def numbers_{k}(z, r):", f"    return {text}"]
    for k, text in enumerate(OF_SIGNALS):
        lines += [f"def signals_{k}(x, s, w):", f"    return {text}"]
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("complex_expressions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["complex_expressions"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["complex_expressions"]


@pytest.mark.filterwarnings("ignore:stft with", "ignore:A window was not")
@pytest.mark.parametrize(("group", "number", "text"), [
    *[("numbers", k, t) for k, t in enumerate(OF_NUMBERS)], *[("signals", k, t) for k, t in enumerate(OF_SIGNALS)]])
def test_expressions(group: str, number: int, text: str, functions: Any) -> None:
    """Values and gradients of both orders."""
    function = getattr(functions, f"{group}_{number}")
    arrays = test_fft.arrays_of(text) if group == "signals" else [numbers(3, 4), numbers(3, 4, real=True, seed=2)]
    expected, found = [derivatives(torch, lambda m, *xs, f=f: f(*xs), *arrays)
                       for f in (function, torch.script(function))]
    agree(found, expected)


# --- refusals --------------------------------------------------------------------------------------------------------


def printed(z):
    print(z)
    return z


def decided(z):
    return z if z.sum() else -z


def formatted(z):
    return f"{z}"


def listed(z, n):
    out = []
    while len(out) < n:
        out.append(z)
    return out


REFUSED = [(printed, "the text of a complex tensor"), (decided, "the truth of a complex tensor"),
           (formatted, "the text of a complex tensor"),
           (lambda z: z.sum().item(), "a complex number that a script reads"),
           (lambda z: z.tolist(), "`tolist` of a complex tensor"), (lambda z: z < z, "not implemented for complex"),
           (lambda z: z.floor(), "not implemented for complex"), (lambda z: z.asin(), "`asin` of complex tensors"),
           (lambda z: z.grad, "`grad` of a complex tensor"),
           (lambda z: torch.func.grad(lambda a: a.abs().sum())(z), "`grad` of a complex tensor")]


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_refusals(function: Any, words: str) -> None:
    with pytest.raises((ScriptError, RuntimeError), match=words):
        torch.script(function)(torch.tensor([1j, 2]))


def test_a_list_of_run_time_length_is_refused() -> None:
    with pytest.raises(ScriptError, match=r"complex tensors"):
        torch.script(listed)(torch.tensor([1j, 2]), 3)


# --- what is compiled ------------------------------------------------------------------------------------------------


def energy(z, x):
    w = z * 2j + x
    return (w.exp() * w.conj()).abs().sum()


def spectrum(x, window):
    return fft.irfft(fft.rfft(x * window) * 0.5j, 8)


def test_one_kernel() -> None:
    """Numbers are not put together and taken apart between ops."""
    assert len(torch.script(energy).kernels(torch.tensor([1j, 2]), torch.ones(2))) == 1


def test_one_program_for_all_sizes_and_one_per_dtype() -> None:
    scripted = torch.script(energy)
    for n in (2, 5, 9):
        z = torch.randn(n, dtype=torch.complex64)
        assert scripted(z, torch.ones(n)).item() == pytest.approx(energy(z, torch.ones(n)).item(), rel=1e-4)
    assert scripted.cache_info().compilations == 1
    scripted(torch.randn(4, dtype=torch.complex128), torch.ones(4))
    scripted(torch.randn(4), torch.ones(4))
    assert scripted.cache_info().compilations == 3


def test_memory_in_any_order() -> None:
    z = torch.randn(6, 4, dtype=torch.complex64)
    for view in (z.T, z[::2], z.T[1:]):
        found = torch.script(energy)(view, torch.ones(view.shape[-1]))
        assert found.item() == pytest.approx(energy(view, torch.ones(view.shape[-1])).item(), rel=1e-4)


def test_kept_on_disk(tmp_path: Path) -> None:
    with config.override(cache=str(tmp_path)):
        z = torch.tensor([1 + 1j, 2j], requires_grad=True)
        for _ in range(2):
            found = torch.script(chain)(z, torch.ones(2))
            np.testing.assert_allclose(found.detach(), chain(z, torch.ones(2)).detach(), rtol=1e-5)
            assert torch.script(itself)(z) is z


def test_spectra() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    window = torch.hann_window(8)
    found = torch.script(spectrum)(x, window)
    np.testing.assert_allclose(found.detach(), spectrum(x, window).detach(), atol=1e-6)


def by_nothing(z: Any, n: Any) -> Any:
    zero = z * 0
    return z / 0.0, z / n, z / zero.real, 1.0 / zero, (1 + 1j) / zero, torch.reciprocal(zero), zero / zero


def test_quotients_by_zero() -> None:
    """Each part by itself, as NumPy has it and torch of divisors that are real."""
    inf, nan = float("inf"), float("nan")
    for parts in ([1 + 2j, 3 - 1j], [0j, complex(inf, 1)], [complex(nan, 1), -0j]):
        z = torch.tensor(parts)
        for ours, expected in zip(torch.script(by_nothing)(z, 0.0), by_nothing(z, 0.0), strict=True):
            np.testing.assert_array_equal(ours.real, expected.real)
            np.testing.assert_array_equal(ours.imag, expected.imag)
    assert (torch.tensor([1 + 2j]) / 0.0).tolist() == [complex(inf, inf)]


def parts_of(z: Any, x: Any) -> Any:
    x[0] = 1 + 0j
    x[1] = z[0]
    return x, torch.zeros(2).fill_(z[1]), torch.as_tensor(z, dtype=torch.float32)


def test_complex_numbers_as_reals() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    for run in (parts_of, torch.script(parts_of)):
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            found = run(z, torch.zeros(2))
        assert [y.tolist() for y in found] == [[1.0, 1.0], [3.0, 3.0], [1.0, 3.0]]


def detached_in_place(z: Any) -> Any:
    y = z * 2
    y.detach_()
    return y


@pytest.mark.parametrize("grad", [False, True])
def test_complex_numbers_are_detached_in_place(grad: bool) -> None:
    z = torch.ones(3, requires_grad=grad) * 1j
    found: Any = torch.script(detached_in_place)(z)
    assert found.tolist() == detached_in_place(z).tolist() == [2j, 2j, 2j]
    assert not found.requires_grad


@pytest.mark.parametrize("interpret", [True, False])
def test_a_complex_power_of_real_numbers_says_what_to_write(interpret: bool) -> None:
    @torch.script
    def power(a: float, b: float):
        return a**b

    with config.override(interpret=interpret), pytest.raises(TypeError, match=r"complex\(a\) \*\* b"):
        power(-2.0, 0.5)


def _written_itself(z):
    z.conj().mul_(2j)


def _written_in_part(z):
    z.mH[0].zero_()


def _written_beside(z):
    y = z.conj()
    z.mul_(2)
    return y


@pytest.mark.parametrize("f", [_written_itself, _written_in_part, _written_beside], ids=lambda f: f.__name__)
def test_writes_that_a_conjugate_would_show_are_refused(f):
    with pytest.raises(errors.UnsupportedCall, match="this in-place write would show in a conjugate of the tensor"):
        torch.script(f)(torch.ones(2, 2, dtype=torch.complex64))


def test_writes_that_no_conjugate_shows():
    def f(z):
        w = z * 1
        power = (w * w.conj()).abs()
        w.mul_(2)
        y = w.conj().resolve_conj()
        y.add_(1j)
        return power, w, y, w.conj().is_conj(), y.is_conj()

    z = torch.tensor([1 + 2j, 3 - 1j])
    for x, y in zip(torch.script(f)(z), f(z), strict=True):
        assert (x.tolist() if isinstance(x, torch.Tensor) else x) == (y.tolist() if isinstance(y, torch.Tensor) else y)


def _root(z):
    return z ** 0.5 + torch.rsqrt(z) * torch.sqrt(z * 4)


def test_gradients_of_roots_on_the_axes():
    points = [complex(a, b) for a, b in ((0.4, 0.0), (0.4, -0.0), (-0.4, 0.0), (-0.4, -0.0), (0.0, 0.4), (-0.0, -1.5))]
    found = []
    for f in (_root, torch.script(_root)):
        z = torch.tensor(points, dtype=torch.complex128, requires_grad=True)
        y = f(z)
        (g,) = torch.autograd.grad(y, z, torch.full_like(y, 1 + 2j))
        found.append((y.detach().numpy(), g.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
