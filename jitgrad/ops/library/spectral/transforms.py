"""torch.fft: Fourier transforms of one and of several axes, and the order of their frequencies."""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.device import resolve
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import apply, as_operand, bind, cast, create, floating, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.rearrange import roll
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import axis, maximum, minimum, product, require, same_size, size_of

__library__ = True

#: by `norm`, the power of the number of elements that a transform is multiplied by; that of an inverse is -1 - it
_POWERS = {None: 0.0, "backward": 0.0, "ortho": -0.5, "forward": -1.0}


def _floats(fn: str, input: Any) -> Any:
    """input in a dtype that has a transform. RuntimeError for half types."""
    x = require_tensor(fn, input)
    d = floating(x.dtype)
    if d.is_half:
        raise RuntimeError(f"Unsupported dtype {d.word}")
    return cast(x, d)


def _complexes(fn: str, input: Any) -> Any:
    x = _floats(fn, input)
    return cast(x, x.dtype.to_complex())


def _reals(fn: str, input: Any) -> Any:
    if require_tensor(fn, input).dtype.is_complex:
        raise RuntimeError(f"{fn} expects a real input tensor, but got {input.dtype.word}")
    return _floats(fn, input)


def _resized(x: Any, a: int, n: Any) -> Any:
    """x with n elements along an axis: cut, or with zeros behind."""
    if same_size(n, x.shape[a]):
        return x
    kept = minimum(n, x.shape[a])
    x = take_slice(x, a, 0, kept)
    return apply("pad", x, pads=tuple([(0, n - kept if k == a else 0) for k in range(x.ndim)]), value=0)


def _scaled(y: Any, norm: Any, n: Any, inverse: bool) -> Any:
    if norm not in _POWERS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    power = -1.0 - _POWERS[norm] if inverse else _POWERS[norm]
    return y if power == 0.0 else apply("mul", y, as_operand((n * 1.0) ** power, y.dtype))


def _length(n: Any, there: Any) -> Any:
    found = there if n is None else size_of(n)
    require(found >= 1, RuntimeError, "Invalid number of data points (", found, ") specified")
    return found


# --- several axes ----------------------------------------------------------------------------------------------------


def _shape_and_axes(x: Any, s: Any, dim: Any, last: Callable[[Any], Any] | None = None) -> tuple[list[Any], list[int]]:
    """How many elements are wanted along which axes; -1 in `s`, or None for it: what there is."""
    if isinstance(s, int):
        s = (s,)
    if dim is not None:
        axes = [axis(d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is not None:
        if len(s) > x.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
        axes = list(range(x.ndim - len(s), x.ndim))
    else:
        axes = list(range(x.ndim))
    wanted = []
    for k, a in enumerate(axes):
        there = x.shape[a] if last is None or a != axes[-1] else last(x.shape[a])
        given = None if s is None or (isinstance(s[k], int) and s[k] == -1) else s[k]
        wanted.append(_length(given, there))
    return wanted, axes


def _whole(x: Any, wanted: Sequence[Any], axes: Sequence[int], inverse: bool) -> Any:
    """The transform of complex numbers over axes, without a factor."""
    for n, a in zip(wanted, axes, strict=True):
        x = _resized(x, a, n)
    return apply("fft", x, axes=tuple(axes), inverse=inverse) if axes else x


def _to_complex(fn: str, inverse: bool, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    x = _complexes(fn, input)
    wanted, axes = _shape_and_axes(x, s, dim)
    return _scaled(_whole(x, wanted, axes, inverse), norm, product(wanted), inverse)


def _from_real(fn: str, conjugate: bool, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    """rfft over the last axis, then fft over the others; the conjugate of it, scaled as an inverse."""
    x = _reals(fn, input)
    wanted, axes = _shape_and_axes(x, s, dim)
    _require_axes(fn, axes)
    for n, a in zip(wanted, axes, strict=True):
        x = _resized(x, a, n)
    y = apply("rfft", x, axis=axes[-1])
    if axes[:-1]:
        y = apply("fft", y, axes=tuple(axes[:-1]), inverse=False)
    return _scaled(apply("conj", y) if conjugate else y, norm, product(wanted), conjugate)


def _to_real(fn: str, conjugate: bool, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    """ifft over all axes but the last, then irfft over it; of the conjugate, scaled as a transform."""
    x = _complexes(fn, input)
    wanted, axes = _shape_and_axes(x, s, dim, lambda n: 2 * (n - 1))
    _require_axes(fn, axes)
    x = apply("conj", x) if conjugate else x
    x = _resized(x, axes[-1], wanted[-1] // 2 + 1)
    x = _whole(x, wanted[:-1], axes[:-1], True)
    return _scaled(apply("irfft", x, axis=axes[-1], n=wanted[-1]), norm, product(wanted), not conjugate)


def _require_axes(fn: str, axes: Sequence[int]) -> None:
    if not axes:
        raise RuntimeError(f"{fn} must transform at least one axis")


#: by the stem of a family's names: how it is computed, and with which flag
_FAMILIES = {"fft": (_to_complex, False), "ifft": (_to_complex, True), "rfft": (_from_real, False),
             "irfft": (_to_real, False), "hfft": (_to_real, True), "ihfft": (_from_real, True)}


def _one(stem: str, input: AnyTensor[Tensor], n: Any = None, dim: int = -1, norm: str | None = None) -> Tensor:
    run, flag = _FAMILIES[stem]
    if not require_tensor(stem, input).ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    return run(stem, flag, input, None if n is None else (_length(n, 1),), (dim,), norm)


def _two(stem: str, input: AnyTensor[Tensor], s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    run, flag = _FAMILIES[stem]
    return run(f"{stem}2", flag, input, s, dim, norm)


def _several(stem: str, input: AnyTensor[Tensor], s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    run, flag = _FAMILIES[stem]
    return run(f"{stem}n", flag, input, s, dim, norm)


_SIZES = "`n`, `s`: elements taken, or filled up with zeros; `norm`: \"backward\", \"ortho\" or \"forward\"."
fft = bind(_one, "fft", "fft", f"The Fourier transform along an axis. {_SIZES}")
ifft = bind(_one, "ifft", "ifft", f"The inverse of `fft`. {_SIZES}")
rfft = bind(_one, "rfft", "rfft", f"`fft` of a real tensor: the frequencies that are not negative. {_SIZES}")
irfft = bind(_one, "irfft", "irfft", f"The inverse of `rfft`, with n elements (2 (m - 1) without n). {_SIZES}")
hfft = bind(_one, "hfft", "hfft", f"The real transform of what is Hermitian, given by its first half. {_SIZES}")
ihfft = bind(_one, "ihfft", "ihfft", f"The inverse of `hfft`. {_SIZES}")
fft2 = bind(_two, "fft", "fft2", f"`fft` over two axes. {_SIZES}")
ifft2 = bind(_two, "ifft", "ifft2", f"`ifft` over two axes. {_SIZES}")
rfft2 = bind(_two, "rfft", "rfft2", f"`rfft` over two axes, halved along the last. {_SIZES}")
irfft2 = bind(_two, "irfft", "irfft2", f"The inverse of `rfft2`. {_SIZES}")
hfft2 = bind(_two, "hfft", "hfft2", f"`hfft` over two axes, halved along the last. {_SIZES}")
ihfft2 = bind(_two, "ihfft", "ihfft2", f"The inverse of `hfft2`. {_SIZES}")
fftn = bind(_several, "fft", "fftn", f"`fft` over axes, all without `s` and `dim`. {_SIZES}")
ifftn = bind(_several, "ifft", "ifftn", f"The inverse of `fftn`. {_SIZES}")
rfftn = bind(_several, "rfft", "rfftn", f"`rfft` over axes, halved along the last. {_SIZES}")
irfftn = bind(_several, "irfft", "irfftn", f"The inverse of `rfftn`. {_SIZES}")
hfftn = bind(_several, "hfft", "hfftn", f"`hfft` over axes, halved along the last. {_SIZES}")
ihfftn = bind(_several, "ihfft", "ihfftn", f"The inverse of `hfftn`. {_SIZES}")

# --- frequencies -----------------------------------------------------------------------------------------------------


def _shifted(back: bool, input: AnyTensor[Tensor], dim: Any = None) -> Tensor:
    x: Any = require_tensor("fftshift", input)
    axes = list(range(x.ndim)) if dim is None else [axis(d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    steps = [(x.shape[a] + 1) // 2 if back else x.shape[a] // 2 for a in axes]
    return roll(x, steps, axes) if axes else x


fftshift = bind(_shifted, False, "fftshift", "Frequencies in ascending order: 0 comes to the middle.")
ifftshift = bind(_shifted, True, "ifftshift", "The inverse of `fftshift`.")


def _frequencies(name: str, n: Any, d: float, dtype: Any, device: Any, requires_grad: bool, half: bool) -> Any:
    count, kind = size_of(n), floating(dtypes.given(dtype))
    length = count // 2 + 1 if half else count
    k = create("arange", resolve(device), length=length, dtype=dtypes.int64)
    if not half:  # the second half is negative
        k = apply("where", k < (count + 1) // 2, k, k - count)
    made = apply("mul", cast(k, kind), as_operand(1.0 / (maximum(count, 1) * d), kind))
    return made.requires_grad_() if requires_grad else made


def fftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The frequencies of `fft` of n elements that are d apart, in its order."""
    return _frequencies("fftfreq", n, d, dtype, device, requires_grad, False)


def rfftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The frequencies of `rfft` of n elements that are d apart."""
    return _frequencies("rfftfreq", n, d, dtype, device, requires_grad, True)

complete(globals(), "torch.fft")

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
           "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]
