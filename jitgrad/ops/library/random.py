"""Random tensors: everything is composed of uniform numbers and of words from the current Philox stream.

`backend().draw` makes uniform numbers and words itself; `compose` says how it makes the rest, so that eager and script
draw the same numbers for a seed.
"""

import math
from typing import Any

from jitgrad import dtypes
from jitgrad.device import resolve
from jitgrad.dtypes import dtype, float16, float32, int64
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.classes import require_probabilities
from jitgrad.ops.library.core import (Number, apply, as_operand, bind, cast, class_word, composite, expand_to, inplace,
                                      whole, write)
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import new_size, require, size_of

__library__ = True


def compose(kind: str, shape: tuple[Any, ...], d: dtype, where: Any, generator: Any = None, **params: Any) -> Any:
    """A draw of `kind` from uniform numbers and words.

    "normal": sqrt(-2 log1p(-u1)) cos(2 pi u2), u1 drawn first. "randint" (low, high): low + word % (high - low).
    "randperm" of shape (n,): the order that sorts n words, equal ones as they come.
    """
    if kind == "randperm":
        words = backend().draw("bits", shape, int64, where, generator)
        return cast(apply("argsort", words, axis=0, descending=False, stable=True), d)
    source, wide, count = drawn_from(kind, d)
    return of_draws(kind, [backend().draw(source, shape, wide, where, generator) for _ in range(count)], d, **params)


def drawn_from(kind: str, d: dtype) -> tuple[str, dtype, int]:
    """Of what the elements of a draw are made, each of those at its place: the kind, its dtype, and how many."""
    if kind in ("randint", "bits"):
        return "bits", int64, 1
    if kind == "uniform":
        return kind, d, 1
    if kind != "normal":
        raise ValueError(f"no random draw of kind `{kind}`")
    return "uniform", float32 if d.is_half else d, 2


def of_draws(kind: str, drawn: list[Any], d: dtype, **params: Any) -> Any:
    """What is made of them."""
    if kind in ("uniform", "bits"):
        return drawn[0]
    if kind == "randint":
        low, high = params["low"], params["high"]
        offset = apply("remainder", drawn[0], as_operand(high - low, int64))
        return cast(apply("add", offset, as_operand(low, int64)), d)
    u1, u2 = drawn
    minus_two, two_pi = as_operand(-2.0, u1.dtype), as_operand(2.0 * math.pi, u1.dtype)
    radius = apply("sqrt", apply("mul", apply("log1p", apply("neg", u1)), minus_two))
    return cast(apply("mul", radius, apply("cos", apply("mul", u2, two_pi))), d)


def _float(d: dtype | None, fn: str, of_complex: bool = False) -> dtype:
    d = dtypes.given(d)
    if not (d.is_inexact if of_complex else d.is_floating_point):
        raise NotImplementedError(f'"{fn}" not implemented for \'{d.word}\'')
    return d


def _numbers(kind: str, shape: Any, d: dtype, where: Any, generator: Any = None) -> Any:
    """Uniform or normal numbers; complex ones have two such parts, normal ones of variance 1 together."""
    if not d.is_complex:
        return backend().draw(kind, shape, d, where, generator)
    parts = [backend().draw(kind, shape, d.to_real(), where, generator) for _ in range(2)]
    made = apply("complex", *parts)
    return made if kind == "uniform" else apply("mul", made, as_operand(math.sqrt(0.5), d))


def _leaf(x: Any, requires_grad: bool) -> Any:
    return x.requires_grad_() if requires_grad else x


# --- new tensors ---------------------------------------------------------------------------------------------------


def _drawn(kind: str, *size: Any, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False,
           generator: Any = None) -> Any:
    sizes = new_size(size)
    d = _float(dtype, "uniform_" if kind == "uniform" else "normal_kernel_cpu", True)
    return _leaf(_numbers(kind, sizes, d, resolve(device), generator), requires_grad)


rand = bind(_drawn, "uniform", "rand", "Uniform numbers in [0, 1).")
randn = bind(_drawn, "normal", "randn", "Normal numbers with mean 0 and standard deviation 1.")


def _require_range(low: Any, high: Any, d: dtype) -> None:
    """RuntimeError where a dtype cannot hold integers of [low, high)."""
    if d.is_inexact or d is int64:
        return
    least, most = dtypes.bounds(d)
    require(low >= int(least), RuntimeError, f"from is out of bounds for {d.c_name}")
    if d.itemsize < int64.itemsize:
        require(high - 1 <= int(most), RuntimeError, f"to - 1 is out of bounds for {d.c_name}")


def randint(low: Any, high: Any = None, size: Any = None, *, dtype: dtype | None = None, device: Any = None,
            requires_grad: bool = False, generator: Any = None) -> Any:
    """Integers in [low, high); `randint(high, size)` starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {class_word(size)}")
    _require_range(low, high, dtypes.given(dtype, int64))
    require(low < high, RuntimeError, "random_ expects 'from' to be less than 'to', but got from=", low, " >= to=",
            high)
    where, d = resolve(device), dtypes.given(dtype, int64)
    drawn = backend().draw("randint", new_size((size,)), d, where, generator, low=low, high=high)
    return _leaf(drawn, requires_grad)


def randperm(n: Any, *, dtype: dtype = int64, device: Any = None, requires_grad: bool = False,
             generator: Any = None) -> Any:
    """0, ..., n - 1 in random order."""
    d = dtypes.given(dtype, int64)
    return _leaf(backend().draw("randperm", new_size((n,)), d, resolve(device), generator), requires_grad)


def _like(make: Any, input: AnyTensor[Tensor], *, dtype: dtype | None = None, device: Any = None,
          requires_grad: bool = False, generator: Any = None) -> Tensor:
    return make(tuple(input.shape), dtype=dtypes.given(dtype, input.dtype), requires_grad=requires_grad,
                device=input.device if device is None else device, generator=generator)


rand_like = bind(_like, rand, "rand_like", "Uniform numbers in [0, 1) of input's shape and dtype.")
randn_like = bind(_like, randn, "randn_like", "Normal numbers of input's shape and dtype.")


def randint_like(input: AnyTensor[Tensor], low: Any, high: Any = None, *, dtype: dtype | None = None,
                 device: Any = None, requires_grad: bool = False, generator: Any = None) -> Tensor:
    """Integers in [low, high) of input's shape and dtype."""
    if high is None:
        low, high = 0, low
    return randint(low, high, tuple(input.shape), dtype=dtypes.given(dtype, input.dtype), requires_grad=requires_grad,
                   device=input.device if device is None else device, generator=generator)


def normal(mean: AnyTensor[Tensor] | Number = 0.0, std: AnyTensor[Tensor] | Number = 1.0, size: Any = None, *,
           dtype: dtype | None = None, device: Any = None, generator: Any = None) -> Any:
    """Normal numbers with means and standard deviations from tensors or numbers."""
    tensors: list[Any] = [x for x in (mean, std) if isinstance(x, AnyTensor)]
    if size is not None and tensors:
        raise TypeError("normal() takes a size where mean and std are numbers")
    if not isinstance(std, AnyTensor):
        number: Any = std
        require(number >= 0, RuntimeError, "normal expects std >= 0.0, but found std ", std)
    if size is not None:
        shape, d = new_size((size,)), _float(dtype, "normal")
    elif tensors:
        shape = tuple((apply("add", *tensors) if len(tensors) == 2 else tensors[0]).shape)
        d = tensors[0].dtype
        _float(dtype or d, "normal_kernel_cpu")  # also that of an `out`
    else:
        raise TypeError("normal() needs a size where mean and std are numbers")
    where = tensors[0] if tensors and device is None else resolve(device)
    drawn = apply("mul", backend().draw("normal", shape, d, where, generator), as_operand(std, d))
    return apply("add", drawn, as_operand(mean, d))


def _require_chance(p: Any) -> None:
    """RuntimeError unless a number is a probability."""
    for inside in (p >= 0, p <= 1):
        require(inside, RuntimeError, "bernoulli_ expects p to be in [0, 1], but got p=", p)


def bernoulli(input: AnyTensor[Tensor], p: Number | None = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that input's element (or p) says, else 0, in input's dtype. RuntimeError for p outside."""
    if p is None:
        _float(input.dtype, "bernoulli_tensor_cpu_p_")
        require_probabilities(input)
    else:
        _require_chance(p)
    d = input.dtype if input.dtype.is_floating_point else dtypes.get_default_dtype()
    chance = as_operand(input if p is None else p, d)
    return cast(apply("lt", backend().draw("uniform", tuple(input.shape), d, input, generator), chance), input.dtype)


def _require_chances(x: AnyTensor[Tensor]) -> None:
    """RuntimeError unless weights are finite, none negative and not all zero in a row."""
    every = tuple(range(x.ndim))
    allowed = apply("logical_and", apply("ge", x, as_operand(0, x.dtype)), apply("isfinite", x))
    require(_item_of_all(allowed), RuntimeError, "probability tensor contains either `inf`, `nan` or element < 0")
    total = apply("sum", x, axes=every[-1:], keepdim=False)
    require(_item_of_all(apply("gt", total, as_operand(0, x.dtype))), RuntimeError,
            "invalid multinomial distribution (sum of probabilities <= 0)")


def _item_of_all(holds: Any) -> Any:
    """Whether all elements are true, those of all items of a batch."""
    asked = whole(holds)
    return backend().item(apply("all", asked, axes=tuple(range(asked.ndim)), keepdim=False))


def multinomial(input: AnyTensor[Tensor], num_samples: Any, replacement: bool = False, *,
                generator: Any = None) -> Tensor:
    """Indices drawn with the probabilities (which need not sum to 1) in the rows of input: (..., num_samples)."""
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        raise RuntimeError("multinomial only supports floating-point dtypes for input, got: " + input.dtype.word)
    last, k, d = input.ndim - 1, size_of(num_samples), input.dtype
    require(k > 0, RuntimeError, "cannot sample n_sample <= 0 samples")
    if not input.is_cuda:  # where it would wait for the numbers, as torch does not
        _require_chances(input)
    if not replacement:  # the k largest of p / e, e exponential. Source: Efraimidis and Spirakis, 2006
        require(k <= input.shape[-1], RuntimeError, "cannot sample n_sample > prob_dist.size(-1) samples without "
                                                    "replacement")
        u = backend().draw("uniform", tuple(input.shape), d, input, generator)
        waiting = apply("neg", apply("log1p", apply("neg", u)))
        tiny = as_operand(1e-38 if d is not float16 else 6e-8, d)
        return apply("topk", apply("div", input, apply("maximum", waiting, tiny)), k=k, axis=last, largest=True,
                     sorted=True)[1]
    steps = apply("cumsum", input, axis=last)
    total = apply("slice", steps, axis=last, start=input.shape[-1] - 1, length=1, step=1)
    u = apply("mul", backend().draw("uniform", (*input.shape[:-1], k), d, input, generator), total)
    return apply("steps_passed", steps, u, equal=True)


# --- in place ------------------------------------------------------------------------------------------------------


def uniform_(input: AnyTensor[Tensor], from_: Number = 0.0, to: Number = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with uniform numbers in [from, to)."""
    d = _float(input.dtype, "uniform_")
    drawn = apply("mul", backend().draw("uniform", tuple(input.shape), d, input, generator), as_operand(to - from_, d))  # type: ignore[operator]
    return write(input, apply("add", drawn, as_operand(from_, d)))


def normal_(input: AnyTensor[Tensor], mean: Number = 0.0, std: Number = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with normal numbers."""
    d = _float(input.dtype, "normal_kernel_cpu", True)
    drawn = apply("mul", _numbers("normal", tuple(input.shape), d, input, generator), as_operand(std, d))
    return write(input, apply("add", drawn, as_operand(mean, d)))


def random_(input: AnyTensor[Tensor], from_: Any = None, to: Any = None, *, generator: Any = None) -> Tensor:
    """Overwrite with integers in [from, to); without `to` in [0, from), without both over the dtype's range."""
    if input.dtype.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if to is None:
        if input.dtype.is_barebones:
            raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{input.dtype.word}'")
        spans = {"bool": 2, "uint8": 1 << 8, "int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 32,
                 "float16": (1 << 11) + 1, "bfloat16": (1 << 8) + 1, "float32": (1 << 24) + 1, "float64": 1 << 32}
        from_, to = None, spans[input.dtype.name] if from_ is None else from_
    from_ = 0 if from_ is None else from_
    require(from_ < to, RuntimeError, "random_ expects 'from' to be less than 'to', but got from=", from_, " >= to=",
            to)
    shape, d = tuple(input.shape), input.dtype
    return write(input, backend().draw("randint", shape, d, input, generator, low=from_, high=to))


def bernoulli_(input: AnyTensor[Tensor], p: AnyTensor[Tensor] | Number = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite with 1 with probability p, else 0. RuntimeError for a number p that is none."""
    chance: Any = as_operand(p, float32)
    if isinstance(p, AnyTensor):
        chance = expand_to(chance, tuple(input.shape))
    else:
        _require_chance(p)
    drawn = apply("lt", backend().draw("uniform", tuple(input.shape), float32, input, generator), chance)
    return write(input, cast(drawn, input.dtype))


def exponential_(input: AnyTensor[Tensor], lambd: Number = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with exponential numbers of rate lambd."""
    d = _float(input.dtype, "exponential_")
    u = backend().draw("uniform", tuple(input.shape), d, input, generator)
    return write(input, apply("div", apply("neg", apply("log1p", apply("neg", u))), as_operand(lambd, d)))


def dropout(input: AnyTensor[Tensor], p: Number = 0.5, train: bool = True) -> Tensor:
    """While training, each element becomes 0 with probability p and the others are divided by 1 - p.

    `p` may be a run-time number: nothing here branches on it. With p = 1 the result is zero.
    """
    x: Any = input
    if not train:
        return x
    message = "dropout probability has to be between 0 and 1, but got "
    require(p >= 0, ValueError, message, p)  # type: ignore[operator]
    require(p <= 1, ValueError, message, p)  # type: ignore[operator]
    if not input.dtype.is_floating_point and isinstance(p, (int, float)) and p in (0, 1):
        return apply("mul", x, as_operand(1 - int(p), x.dtype))  # nothing to draw
    if not input.dtype.is_floating_point:
        raise RuntimeError("result type Float can't be cast to the desired output type " + input.dtype.word)
    return _dropped(x, p)


@composite
def _dropped(x: Any, p: Any) -> Any:
    d = x.dtype
    chance, zero, one = as_operand(p, d), as_operand(0.0, d), as_operand(1.0, d)
    kept = apply("ge", backend().draw("uniform", tuple(x.shape), d, x), chance)
    share = apply("sub", one, chance)
    scale = apply("where", apply("gt", share, zero), apply("div", one, share), zero)
    return apply("mul", x, apply("where", kept, scale, zero))

dropout_ = inplace(dropout)

complete(globals())

__all__ = ["bernoulli", "dropout", "dropout_", "multinomial", "rand_like", "randint_like", "randn_like"]
