"""Tensors from nothing or from numbers. A draw's operands are the generator's seed and offset, Python ints."""

from typing import Any

from jitgrad import dtypes, random
from jitgrad.ops import specs
from jitgrad.ops.opdef import CREATE, NONDIFF, RANDOM, register


def _full_pair(F: Any, value: Any, shape: Any, dtype: Any) -> Any:
    return F.pair(F.full(value=value.real, shape=shape, dtype=dtype.to_real()),
                  F.full(value=value.imag, shape=shape, dtype=dtype.to_real()))


def _fill_pair(F: Any, number: Any, shape: Any, dtype: Any) -> Any:
    return F.pair(F.fill(number, shape=shape, dtype=dtype.to_real()),
                  F.full(value=0, shape=shape, dtype=dtype.to_real()))


register("full", 0, CREATE, "A constant of a given value, shape and dtype.", vjp=NONDIFF, dtypes="any",
         traits={"cheap", "total"}, pair=_full_pair,
         impl=lambda xp, value, shape, dtype: xp.full(shape, value, getattr(dtype, "np", dtype)), spec=specs.create,
         samples=lambda rng: [((), {"value": 1.5, "shape": (2, 3), "dtype": dtypes.float32}),
                              ((), {"value": True, "shape": (), "dtype": dtypes.bool_})])
register("fill", 1, CREATE, "A run-time number repeated.", vjp=NONDIFF, dtypes="any", pair=_fill_pair,
         traits={"cheap", "total"},
         impl=lambda xp, number, shape, dtype: xp.full(shape, number, getattr(dtype, "np", dtype)), spec=specs.create,
         samples=lambda rng: [((2.5,), {"shape": (2, 3), "dtype": dtypes.float64}),
                              ((3,), {"shape": (0,), "dtype": dtypes.int32})])
register("arange", 0, CREATE, "0, 1, ..., length - 1.", vjp=NONDIFF, dtypes="number", traits={"cheap", "total"},
         impl=lambda xp, length, dtype: xp.arange(length, dtype=getattr(dtype, "np", dtype)), spec=specs.arange,
         samples=lambda rng: [((), {"length": 5, "dtype": dtypes.int64}), ((), {"length": 0, "dtype": dtypes.float32})])
register("random.uniform", 2, RANDOM, "Uniform numbers in [0, 1).", vjp=NONDIFF, spec=specs.create,
         traits={"in_library"},
         impl=lambda xp, seed, offset, shape, dtype: xp.asarray(random.uniform(seed, offset, shape, dtype)),
         samples=lambda rng: [((7, 0), {"shape": (3, 5), "dtype": d}) for d in dtypes.FLOATS])
register("random.bits", 2, RANDOM, "Random words in [0, 2^32), as int64.", vjp=NONDIFF, spec=specs.random_bits,
         dtypes="int", traits={"in_library"}, samples=lambda rng: [((7, 3), {"shape": (3, 5)})],
         impl=lambda xp, seed, offset, shape: xp.asarray(random.bits(seed, offset, shape)))
