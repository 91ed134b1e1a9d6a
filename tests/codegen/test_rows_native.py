"""Every row of the op table as a native program, against its NumPy implementation: generated from the rows."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.ops import OPS
from jitgrad.ops.opdef import CREATE, POINTWISE, RANDOM, has_kernels
from jitgrad.ops.types import FLOAT, INT, TensorType
from tests.codegen.programs import agree, graph

SKIPPED = {"nonzero"}  # binds a size: tested apart
ROWS = sorted(name for name, op in OPS.items() if op.kind not in (POINTWISE,) and op.samples and name not in SKIPPED
              and has_kernels(op))
SCALAR = sorted(name for name, op in OPS.items() if op.kind is POINTWISE and name not in ("cast", "where")
                and has_kernels(op))


def symbolic(array: np.ndarray, d: dtypes.dtype) -> TensorType:
    return TensorType(d, tuple(1 if n == 1 else dim(Symbol(not_one=True)) for n in array.shape))


@pytest.mark.parametrize("name", ROWS)
def test_structured(name):
    op = OPS[name]
    rng = np.random.default_rng(0)
    for sample, (arrays, attrs) in enumerate(op.samples(rng)):
        if op.kind in (CREATE, RANDOM):
            numbers = [FLOAT if isinstance(a, float) else INT for a in arrays]
            g = graph(lambda F, *xs, attrs=attrs: F.builder.one(name, *xs, **attrs), *numbers)
            agree(g, arrays, 0)
            continue
        kinds = (dtypes.float64, dtypes.float32) if op.dtypes != "int" else (dtypes.int64,)
        for d in (*kinds, dtypes.bfloat16) if sample == 0 and op.dtypes != "int" else kinds:
            given = [np.ascontiguousarray(a if a.dtype.kind in "ib" else a.astype(d.np)).reshape(a.shape) for a in
                     map(np.asarray, arrays)]
            types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in given]
            g = graph(lambda F, *xs, attrs=attrs: getattr(F, name)(*xs, **attrs), *types)
            agree(g, given, {"bfloat16": 2e-2, "float32": 1e-4}.get(d.name, 1e-9))


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name):
    """A vector with a tail, and one element (registers)."""
    op = OPS[name]
    rng = np.random.default_rng(1)
    low, high = op.domain
    kinds = {"float": (dtypes.float64, dtypes.float32),
             "int": (dtypes.int64, dtypes.uint8), "integral": (dtypes.bool_, dtypes.int32), "bool": (dtypes.bool_,),
             "number": (dtypes.float64, dtypes.int32, dtypes.bfloat16),
             "any": (dtypes.float64, dtypes.int16, dtypes.bool_)}[op.dtypes]
    attrs = op.samples(rng)[0][1] if op.samples else {}
    for d in kinds:
        if name == "bitcast":  # to a dtype as large
            attrs = {"dtype": {8: dtypes.int64, 2: dtypes.int16, 1: dtypes.uint8}[d.itemsize]}
        for shape in ((21,), ()):
            arrays = []
            for _ in range(op.arity):
                if d.is_floating_point:
                    arrays.append(rng.uniform(low, high, shape).astype(d.np))
                elif d is dtypes.bool_:
                    arrays.append(rng.integers(0, 2, shape).astype(bool))
                else:
                    arrays.append(rng.integers(0 if not d.is_signed else -5, 7, shape).astype(d.np))
            arrays = [np.asarray(a, d.np) for a in arrays]
            g = graph(lambda F, *xs, attrs=attrs: getattr(F, name)(*xs, **attrs), *[symbolic(a, d) for a in arrays])
            agree(g, arrays, {"bfloat16": 2e-2, "float32": 2e-5}.get(d.name, 1e-9))

