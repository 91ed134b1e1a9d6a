"""The text of the element-wise kernels: on the host it gives what it means; with CuPy and nvcc at hand it compiles."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.cuda import elementwise
from jitgrad.nn import functional as F
from jitgrad.ops import OPS
from tests.codegen.cuda import host
from tests.cuda.meanings import meaning
from tests.ops.cases import DTYPES, cases, convert
from tests.ops.test_rows import EXTREMES

C = {"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
     "int64": "long long", "uint16": "unsigned short", "float32": "float", "float64": "double"}
SHOWN = (dtypes.bool_, dtypes.int32, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
#: in units of the last place of the result's dtype, where CUDA's functions (here the host's) and NumPy's differ
ULPS = {"erfinv": 16, "digamma": 64, "lgamma": 64, "pow": 4, "logaddexp": 4, "mish": 4, "softplus": 4}


def as_c(k: elementwise.Elementwise) -> str:
    """A C function that runs a kernel over n elements."""
    inputs = [p.split() for p in k.inputs.split(", ")]
    (result, _), given = k.output.split(), ", ".join(f"{C[t]}* p{n}" for n, (t, _) in enumerate(inputs))
    values = " ".join(f"{C[t]} {name} = p{n}[i];" for n, (t, name) in enumerate(inputs))
    if k.name.startswith("jg_draw"):
        values = values.replace("[i]", "[0]")
    return (f'extern "C" void {k.name}(long long n, {given}, {C[result]}* out) {{\n'
            f"for (long long i = 0; i < n; i++) {{ {values} {C[result]} y;\n{k.body}\nout[i] = y; }} }}\n")


def run(library: Any, k: elementwise.Elementwise, arrays: list[np.ndarray[Any, Any]], n: int) -> np.ndarray[Any, Any]:
    out = np.empty(n, k.output.split()[0])
    getattr(library, k.name)(ctypes.c_int64(n), *[ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)])
    return out


def rows() -> list[str]:
    cupy = type("cupy", (), {})
    return [name for name, op in OPS.items() if name not in ("cast", "bitcast") and (
        elementwise.runner(cupy, op) is not None)]


def samples(name: str, d: dtypes.dtype) -> list[tuple[list[np.ndarray[Any, Any]], dict[str, Any]]]:
    op, found = OPS[name], []
    for operands, attrs in cases(op):
        arrays = np.broadcast_arrays(*convert(operands, d, op))
        found.append(([np.ascontiguousarray(a).reshape(-1) for a in arrays], attrs))
    if op.samples is None and d.is_floating_point and name not in ("pow", "lgamma", "digamma", "fma"):
        with np.errstate(all="ignore"):
            grid = np.meshgrid(*[EXTREMES.astype(d.np)] * (op.arity or 0))
        found.append(([np.ascontiguousarray(g).reshape(-1) for g in grid], {}))
    return found


@host.needs_compiler
def test_kernels_compute_what_they_mean() -> None:
    kernels, work = {}, []
    for name in rows():
        for d in SHOWN:
            if d in DTYPES[OPS[name].dtypes]:
                for arrays, attrs in samples(name, d):
                    k = elementwise.kernel(OPS[name], [dtypes.from_numpy(a.dtype) for a in arrays], attrs)
                    kernels[k.name] = k
                    work.append((name, d, k, arrays))
    library = host.kernels("".join(map(as_c, kernels.values())))
    for name, d, k, arrays in work:
        bits = [a.view(np.uint16) if a.dtype.char in dtypes.HALF_CHARS else a for a in arrays]
        actual = run(library, k, bits, arrays[0].size)
        with np.errstate(all="ignore"):
            expected = meaning(k.name)(*bits)
        if k.output.startswith("uint16"):
            actual, expected = (a.view(d.np).astype(np.float64) for a in (actual, expected))
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(actual, expected, err_msg=name)
            continue
        unit = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52}[d.name]
        near = ULPS.get(name, 3) * unit
        np.testing.assert_allclose(actual, expected, rtol=near, atol=2 * unit, err_msg=f"{name} {d}")


@jitgrad.script
def several(x: Any, y: Any, s: float, flag: Any) -> Any:
    a = F.gelu(x) * y + s
    return a, (a > 0) & flag, jitgrad.where(flag, a.sigmoid(), y).to(jitgrad.float16), x * 2


@jitgrad.script
def halves(x: Any, y: Any) -> Any:
    return x.exp() + y, F.silu(x)


class Kept:
    """What a kernel is made of."""

    def ElementwiseKernel(self, inputs: str, output: str, body: str, name: str, preamble: str) -> Any:
        assert "jg_half" in preamble
        return elementwise.Elementwise(name, inputs, output, body)


@host.needs_compiler
@pytest.mark.parametrize(("function", "d"), [(several, jitgrad.float32), (halves, jitgrad.float16),
                                             (halves, jitgrad.bfloat16)])
def test_a_script_is_one_kernel_of_several_results(function: Any, d: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise.libraries, "cupy", Kept)
    x, y = (jitgrad.tensor(np.linspace(-3, 3, 24).reshape(4, 6) * k, dtype=d) for k in (1, -2))
    args = (x, y) if function is halves else (x, y, 0.25, y > 0)
    k = function.elementwise_kernel(*args)
    assert isinstance(k, elementwise.Elementwise)
    kinds = [p.split()[0] for p in k.output.split(", ")]
    given = [p.split() for p in k.inputs.split(", ")]
    out = "".join(f", {C[kind]}* out{n}" for n, kind in enumerate(kinds))
    body = "".join(f"{C[kind]} y{n};\n" for n, kind in enumerate(kinds)) + k.body + "".join(
        f"\nout{n}[i] = y{n};" for n in range(len(kinds)))
    numbers = [not isinstance(a, jitgrad.Tensor) for a in args]
    values = "".join(f"{C[t]} {name} = p{n}[{'0' if number else 'i'}];"
                     for n, ((t, name), number) in enumerate(zip(given, numbers, strict=True)))
    listed = ", ".join(f"{C[t]}* p{n}" for n, (t, _) in enumerate(given))
    library = host.kernels(f'extern "C" void {k.name}(long long n, {listed}{out}) '
                           f"{{ for (long long i = 0; i < n; i++) {{ {values}\n{body} }} }}\n")
    arrays = [np.array([a], np.float64) if number else bits(a) for a, number in zip(args, numbers, strict=True)]
    made = [np.empty((4, 6), kind) for kind in kinds]
    getattr(library, k.name)(ctypes.c_int64(24), *[ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *made)])
    for found, expected in zip(made, function(*args), strict=True):
        if expected.dtype.is_floating_point:
            found = found.view(expected.dtype.np).astype(np.float64)
            near = 2.0 ** -7 if d is jitgrad.bfloat16 else 2.0 ** -10 if expected.dtype.is_half else 1e-6
            np.testing.assert_allclose(found, expected.double().numpy(), rtol=near, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, expected.numpy())


def bits(x: Any) -> Any:
    return x._data.view(np.uint16) if x.dtype.is_half else x._data


def test_what_is_not_one_elementwise_kernel() -> None:
    x, y = jitgrad.ones(4, 6), jitgrad.ones(6)
    for function, why in ((lambda x, y: x.sum(0) + y, "`sum` is not elementwise"),
                          (lambda x, y: x.t() + 1, "`permute` is not elementwise"),
                          (lambda x, y: (x + y, y * 2), "another shape"),
                          (lambda x, y: x @ x.t(), "is not elementwise")):
        with pytest.raises(NotImplementedError, match=why):
            jitgrad.script(function).elementwise_kernel(x, y)


@host.needs_compiler
def test_draws_are_the_cpus() -> None:
    with_arguments = []
    for name in ("int64", "float32", "float64"):
        cupy = _Cupy()
        elementwise.draw(cupy, name, 1 << 63 | 7, (1 << 33) + 5, (11,))
        with_arguments.append((elementwise.DRAWS[name], cupy.given))
    library = host.kernels("".join(as_c(k) for k, _ in with_arguments))
    for k, (seed, offset) in with_arguments:
        actual = run(library, k, [np.array([seed]), np.array([offset])], 11)
        np.testing.assert_array_equal(actual, meaning(k.name)(1 << 63 | 7, (1 << 33) + 5, (11,)))


class _Cupy:
    """Remembers with what a kernel is called."""

    empty = staticmethod(np.empty)

    def ElementwiseKernel(self, *text: Any, **more: Any) -> Any:
        def call(seed: Any, offset: Any, out: Any) -> None:
            self.given = (seed, offset)
        return call


@pytest.mark.parametrize("name", ["gelu", "erfinv", "where", "clamp"])
def test_text_is_a_function_of_the_row(name: str) -> None:
    """The same text, and so the same name, each time: CuPy's disk cache finds it again."""
    op = OPS[name]
    operands, attrs = cases(op)[0]
    types = [dtypes.from_numpy(np.asarray(x).dtype) for x in operands]
    a, b = elementwise.kernel(op, types, attrs), elementwise.kernel(op, types, attrs)
    assert (a.name, a.body) == (b.name, b.body)
