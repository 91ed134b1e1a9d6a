"""Corners of the further functions of elements, whose plain uses are in `expressions.py`: values and refusals."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import jitgrad as torch

INF, NAN = math.inf, math.nan


def test_mantissas_and_exponents_are_exact() -> None:
    x = torch.tensor([0.0, -0.0, INF, NAN, 1e-45, 3e38, -6.0])
    mantissa, exponent = torch.frexp(x)
    assert exponent.dtype is torch.int32
    assert exponent.tolist() == [0, 0, 0, 0, -148, 128, 3]
    np.testing.assert_array_equal(torch.ldexp(mantissa, exponent)[4::2].numpy(), x[4::2].numpy())
    assert math.copysign(1, mantissa[1].item()) == -1
    w = torch.tensor([6.0, -0.3], requires_grad=True)
    torch.frexp(w).mantissa.sum().backward()
    assert w.grad.tolist() == [0.125, 2.0]


def test_neighbours() -> None:
    x = torch.tensor([1.0, 0.0, -1.0, INF], requires_grad=True)
    y = torch.nextafter(x, torch.tensor([2.0, -1.0, -1.0, 0.0]))
    assert y.tolist() == [1 + 2.0 ** -23, -2.0 ** -149, -1.0, 3.4028234663852886e38]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 1.0]
    one = torch.ones(1, dtype=torch.float16)
    assert torch.nextafter(one, one + 1).tolist() == [1 + 2.0 ** -10]
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.nextafter(torch.ones(1).long(), torch.ones(1).long())


def test_common_divisors() -> None:
    a, b = torch.tensor([0, 0, -4, 6]), torch.tensor([0, 5, 6, -9])
    assert torch.gcd(a, b).tolist() == [0, 5, 2, 3]
    assert torch.lcm(a, b).tolist() == [0, 0, 12, 18]
    assert torch.gcd(a.to(torch.int8), b).dtype is torch.int64
    with pytest.raises(NotImplementedError, match="\"gcd_cpu\" not implemented for 'Float'"):
        torch.gcd(a, torch.ones(4))


def test_angles_and_parts() -> None:
    x = torch.tensor([-2.0, -0.0, 3.0, NAN, -INF], requires_grad=True)
    found = torch.angle(x)
    np.testing.assert_array_equal(found.detach().numpy(), np.float32([np.pi, 0, 0, NAN, np.pi]))
    assert torch.autograd.grad(found[:3].sum(), x)[0].tolist() == [0.0] * 5
    assert torch.real(x) is x
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        torch.imag(x)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4)])
def test_a_diagonal_is_filled(shape: tuple[int, int]) -> None:
    for wrap in (False, True):
        expected = np.zeros(shape)
        np.fill_diagonal(expected, 5, wrap=wrap)
        assert torch.zeros(shape).fill_diagonal_(5, wrap).tolist() == expected.tolist()
    cube = torch.zeros(2, 2, 2).fill_diagonal_(5)
    assert cube.nonzero().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_histograms() -> None:
    assert torch.histc(torch.tensor([0.0, 1, 2, NAN, 9]), 3, 0, 2).tolist() == [1.0, 1.0, 1.0]
    assert torch.histc(torch.tensor([2.0, 2.0]), 4).tolist() == [0.0, 0.0, 2.0, 0.0]
    assert torch.histc(torch.zeros(0), 2).tolist() == [0.0, 0.0]
    hist, edges = torch.histogram(torch.tensor([2.0, 2.0]), 4)
    assert (hist.tolist(), edges.tolist()) == ([0.0, 0.0, 2.0, 0.0], [1.5, 1.75, 2.0, 2.25, 2.5])
    points = torch.tensor([[0.0, 0.0], [1.0, 3.0], [1.0, 1.0], [5.0, 0.0]])
    found = torch.histogramdd(points, [2, 3], range=[0.0, 2.0, 0.0, 3.0], weight=torch.tensor([1.0, 2.0, 4.0, 8.0]))
    assert found.hist.tolist() == [[1.0, 0.0, 0.0], [0.0, 4.0, 2.0]]
    density = torch.histogram(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 1.0, 4.0]), density=True).hist
    np.testing.assert_allclose(density.numpy(), [1 / 3, 2 / 9], rtol=1e-6)


def test_medians_and_modes() -> None:
    x = torch.tensor([[NAN, 1.0, 3.0], [NAN, NAN, NAN]])
    values, indices = x.nanmedian(1)
    np.testing.assert_array_equal(values.numpy(), np.float32([1, NAN]))
    assert indices.tolist() == [1, 0]
    assert x.nanmedian().item() == 1.0
    assert math.isnan(torch.nanquantile(x, 0.5, 1)[1].item())
    assert torch.mode(torch.tensor([[3, 1, 3, 1], [2, 2, 0, 5]]), 1).values.tolist() == [1, 2]
    assert torch.mode(torch.tensor([[3, 1, 3, 1], [2, 2, 0, 5]]), 1).indices.tolist() == [3, 1]
    w = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
    w.mode().values.backward()
    assert w.grad.tolist() == [0.0, 0.0, 1.0]


def test_cuts_places_and_sizes() -> None:
    x = torch.arange(6).reshape(2, 3)
    assert [p.tolist() for p in x.hsplit((1,))] == [[[0], [3]], [[1, 2], [4, 5]]]
    assert torch.unravel_index(torch.tensor([100, -1]), (3, 4))[0].tolist() == [1, 2]
    assert torch.nonzero_static(torch.tensor([0, 1, 0, 2]), size=3).tolist() == [[1], [3], [-1]]
    assert torch.nonzero_static(torch.ones(3), size=1).tolist() == [[0]]
    assert torch.broadcast_shapes((2, 1), 3, (1, 1)) == torch.Size([2, 3])


def parts_of_a_shape(x: Any) -> Any:
    shape, one = x.shape, (1,)
    return shape[1:], shape[1:].numel(), shape + one, one + shape, 2 * shape, torch.Size([*shape, 5])


def test_parts_of_shapes_are_shapes() -> None:
    script = torch.script(parts_of_a_shape)
    for x in (torch.ones(2, 3), torch.ones(4, 3, 2)):
        found = parts_of_a_shape(x)
        assert [type(part) is torch.Size for part in found] == [True, False, True, True, True, True]
        assert found[1] == x[0].numel()
        assert script(x) == found
        assert [type(part) for part in script(x)] == [type(part) for part in found]
    assert type(x.shape[0]) is int
    assert [len(torch.hann_window(n)) for n in (0, 1, 4)] == [0, 1, 4]
    assert torch.kaiser_window(1).tolist() == [1.0]


def test_powers_of_two_keep_the_dtype() -> None:
    k = torch.tensor([3, -2])
    for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for run in (torch.ldexp, torch.script(torch.ldexp)):
            found = run(torch.tensor([1.5, 2.0], dtype=d), k)
            assert (found.dtype, found.tolist()) == (d, [12.0, 0.5])
    assert torch.ldexp(torch.tensor(2.0**-1000, dtype=torch.float64), torch.tensor([1500])).tolist() == [2.0**500]
    with pytest.raises(NotImplementedError, match="ldexp_cpu_exp"):
        torch.ldexp(torch.ones(1), torch.tensor([True]))


def test_draws() -> None:
    """Medians and means of many draws, and the same ones in a script."""
    torch.manual_seed(0)
    x = torch.empty(40000)
    assert abs(x.cauchy_(2.0, 3.0).median().item() - 2.0) < 0.1
    assert abs(x.log_normal_(0.5, 0.25).log().mean().item() - 0.5) < 0.01
    assert abs(x.geometric_(0.25).mean().item() - 4.0) < 0.1
    assert x.min().item() == 1.0
    assert torch.empty(5, dtype=torch.int64).geometric_(0.5).dtype is torch.int64

    def f(x: Any) -> Any:
        return x.cauchy_(1.0, 2.0) + torch.zeros(3).log_normal_() + torch.zeros(3).geometric_(0.3)

    found = []
    for run in (f, torch.script(f)):
        torch.manual_seed(1)
        found.append(run(torch.zeros(3)).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_gradient_of_uneven_samples() -> None:
    """A parabola's slopes are exact to second order, at the ends too."""
    places = torch.tensor([0.0, 1.0, 1.5, 4.0], dtype=torch.float64)
    (slope,) = torch.gradient(places ** 2, spacing=(places,), edge_order=2)
    np.testing.assert_allclose(slope.numpy(), 2 * places.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("act", "message"), [
    (lambda: torch.zeros(3).fill_diagonal_(1), "dimensions must larger than 1"),
    (lambda: torch.zeros(2, 3, 2).fill_diagonal_(1), "all dimensions of input must be of equal length"),
    (lambda: torch.zeros(3).hsplit(2), "torch.hsplit attempted to split along dimension 0, but the size of the "
                                       "dimension 3 is not divisible by the split_size 2!"),
    (lambda: torch.zeros(2, 3).dsplit(1), "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor "
                                          "with 2 dimensions!"),
    (lambda: torch.zeros(2, 3).sum_to_size(4), "size {[4]} is not expandable to size {[2, 3]}."),
    (lambda: torch.zeros(3).renorm(2, 0, 1.0), "renorm: input needs at least 2 dimensions, got 1 dimensions"),
    (lambda: torch.zeros(3).adjoint(), "tensor.adjoint() is only supported on matrices or batches of matrices. Got "
                                       "1-D tensor."),
    (lambda: torch.frexp(torch.tensor(1)), "torch.frexp() only supports floating-point dtypes"),
    (lambda: torch.histc(torch.zeros(2), 0), "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
    (lambda: torch.histc(torch.zeros(2), 2, 3, 1), "torch.histc: max must be larger than min"),
    (lambda: torch.histc(torch.tensor([NAN])), "torch.histc: range of [nan, nan] is not finite"),
    (lambda: torch.zeros(3).index_reduce_(0, torch.tensor([0]), torch.zeros(1), "sum"),
     "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum."),
    (lambda: torch.zeros(3).slice_scatter(torch.zeros(2), 0, 0, 3),
     "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]"),
    (lambda: torch.nonzero_static(torch.ones(2), size=-1), "nonzero_static: 'size' must be an non-negative integer"),
    (lambda: torch.combinations(torch.zeros(2, 2)), "Expect a 1D vector, but got shape [2, 2]"),
    (lambda: torch.gradient(torch.zeros(1)), "torch.gradient expected each dimension size to be at least edge_order+1"),
    (lambda: torch.gradient(torch.zeros(3), edge_order=3),
     "torch.gradient only supports edge_order=1 and edge_order=2."),
    (lambda: torch.hann_window(-1), "hann_window requires non-negative window_length, got window_length=-1"),
    (lambda: torch.zeros(2).geometric_(1.5), "geometric_ expects p to be in (0, 1), but got p=1.5"),
    (lambda: torch.zeros(2).cauchy_(0, -1), "cauchy_ expects sigma > 0.0, but found sigma=-1"),
    (lambda: torch.fill(torch.zeros(2), torch.zeros(2)), "fill_ only supports 0-dimension value tensor but got tensor "
                                                         "with 1 dimensions."),
    (lambda: torch.split_with_sizes(torch.zeros(3), [1, 1]), "split_with_sizes expects split_sizes to sum exactly to 3 "
     "(input tensor's size at dimension 0), but got split_sizes=[1, 1]"),
])
def test_refusals(act: Any, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        act()
    assert str(caught.value) == message


def test_ranges_that_lead_nowhere() -> None:
    for given, message in (((1, 0), "inconsistent with step sign"), ((0, 1, -1), "inconsistent with step sign"),
                           ((0, 1, 0), "step must be nonzero")):
        with pytest.raises(RuntimeError, match=message):
            torch.range(*given)
    assert torch.range(1, 1).tolist() == [1.0]
    with pytest.raises(TypeError):
        torch.nextafter(torch.zeros(1), 2)


def enlarged(x: Any) -> Any:
    return torch.nn.functional.interpolate(x, size=(3, 7), mode="bilinear", align_corners=False)


def test_bytes_between_bytes() -> None:
    """What PyTorch gives: weights of 15 bits, a rounded byte after each axis, the last axis first."""
    x = (torch.arange(20) * 37 % 256).reshape(1, 1, 4, 5).to(torch.uint8)
    expected = [[31, 52, 66, 62, 88, 115, 136],
                [150, 171, 161, 96, 122, 94, 42],
                [55, 76, 103, 129, 155, 164, 160]]
    for run in (enlarged, torch.script(enlarged)):
        assert run(x)[0, 0].tolist() == expected


def test_operands_of_several_dtypes() -> None:
    i = torch.ones(2, 3, dtype=torch.int32)
    assert torch.addr(i, i[:, 0], torch.ones(3), beta=0.5, alpha=2)[0].tolist() == [2.5] * 3
    assert torch.diff(i, append=torch.ones(2, 1)).dtype is torch.float32
    assert torch.zeros(size=()).shape == torch.ones(2).new_zeros(size=()).shape == ()
    assert torch.corrcoef(torch.tensor([[1.0, 2.0]])).tolist() == 1.0
    assert torch.script(lambda x: x.sum_to_size(2, 3))(i.bool()).dtype is torch.bool
    assert torch.tril(i.T).is_contiguous()
    assert torch.zeros(2, dtype=torch.bool).fill_(2j).tolist() == [True, True]
    for call in (lambda: torch.linalg.vector_norm(i[:0].float(), float("inf")), lambda: i.is_same_size(2),
                 lambda: i.to(torch.uint8).index_add(0, torch.tensor([0]), i[:1].to(torch.uint8), alpha=300)):
        with pytest.raises((RuntimeError, TypeError)):
            call()


def test_what_is_left_out_is_none() -> None:
    """torch's defaults that are None may be written."""
    x = torch.tensor([[1.0, float("nan"), 4.0], [float("inf"), 2.0, -float("inf")]])
    for a, b in ((torch.nan_to_num(x, None), torch.nan_to_num(x)), (x.nan_to_num(nan=None, posinf=1.0, neginf=None),
                                                                    x.nan_to_num(0.0, 1.0))):
        assert torch.equal(a, b)
    y = torch.arange(6.0).reshape(2, 3) ** 2
    for a, b in zip(torch.gradient(y, spacing=None), torch.gradient(y), strict=True):
        assert torch.equal(a, b)
    assert torch.randperm(3, dtype=None).dtype is torch.int64
    for args in ((0.1, None), (None, 0.1)):
        with pytest.raises(TypeError):
            torch.threshold(y, *args)


def _places(line: Any, x: Any) -> Any:
    return torch.searchsorted(line, x), torch.searchsorted(line, x, right=True)


@pytest.mark.parametrize("run", [_places, torch.script(_places)], ids=["eager", "scripted"])
def test_places_in_sorted_lines(run: Any) -> None:
    """Of NaNs what bisection finds, as in PyTorch; of many no table of all pairs."""
    left, right = run(torch.tensor([0.0, 0.0, 2.0, 5.0, NAN]), torch.tensor([NAN, 5.0, 2.0, 0.0]))
    assert (left.tolist(), right.tolist()) == ([5, 5, 2, 0], [5, 5, 5, 2])
    lines = torch.tensor([[1, 3, 3], [2, 2, 7]])
    left, right = run(lines, torch.tensor([[3, 0], [2, 8]]))
    assert (left.tolist(), right.tolist()) == ([[1, 0], [0, 3]], [[3, 0], [2, 3]])
    assert run(torch.zeros(0), torch.zeros(2, 2))[0].tolist() == [[0, 0], [0, 0]]
    line, x = torch.linspace(0, 1, 2000), torch.rand(20_000)
    run(line, x)
    tracemalloc.start()
    run(line, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.numel() * 8


def test_products_of_vectors_take_their_own_memory() -> None:
    vectors = [torch.arange(60.0), torch.arange(50.0), torch.arange(40.0)]
    tracemalloc.start()
    rows = torch.cartesian_prod(*vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows[2 * 2000 + 3 * 40 + 4].tolist() == [2.0, 3.0, 4.0]
    assert not rows._is_view()
    assert peak < 1.5 * rows.numel() * 4
