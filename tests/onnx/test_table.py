"""Every row of the table against the op's own `impl`, on the samples that the other backends are tested with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.onnx.emitter import Emitter, numpy_type, value_info
from jitgrad.onnx.structure import Writer
from jitgrad.onnx.table import ROWS
from jitgrad.ops import OPS, Kind
from jitgrad.ops.opdef import OPAQUE, has_kernels
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Builder, Value
from tests.onnx.models import session

NOT_OPS = {"item", "dim.value", "dim.bind", "fill"}


def samples(op, rng):
    """Argument tuples: arrays and attrs."""
    if op.samples is not None:
        return op.samples(rng)
    low, high = op.domain
    if op.name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        return [(tuple(rng.random((3, 4)) < 0.5 for _ in range(op.arity)), {})]
    if op.dtypes in ("int", "integral"):
        return [(tuple(rng.integers(1, 9, (3, 4)) for _ in range(op.arity)), {}),
                (tuple(rng.random((3, 4)) < 0.5 for _ in range(op.arity)), {})]
    if op.name == "where":
        return [((rng.random((3, 4)) < 0.5, rng.normal(size=(3, 4)), rng.normal(size=4)), {}),
                ((rng.random(4) < 0.5, rng.random((3, 4)) < 0.5, rng.random((3, 4)) < 0.5), {})]
    attrs = {"cast": {"dtype": dtypes.int32}, "softplus": {"beta": 2.0, "threshold": 3.0}}.get(op.name, {})
    return [(tuple(rng.uniform(low, high, (3, 4)) for _ in range(op.arity)), attrs),
            (tuple(rng.uniform(low, high, (4,) if i else (3, 1)) for i in range(op.arity)), attrs)]


def model_of(name, arrays, attrs):
    """A model of one node, every size of its operands symbolic."""
    block = Block()
    params, types = [], []
    for i, a in enumerate(arrays):
        sizes = tuple(n if n == 1 or name in ("max_pool", "conv", "conv_transpose") else dim(Symbol()) for n in a.shape)
        types.append(TensorType(dtypes.by_name(a.dtype.name), a.shape))
        params.append(Value(TensorType(types[-1].dtype, sizes), f"x{i}"))
    block.params = tuple(params)
    block.binds = tuple(d.symbol for p in params for d in p.type.dims if not isinstance(d, int))
    builder = Builder(block)
    found = OPS[name].spec
    made = None
    if found is None:  # a composite with a row of its own: pointwise
        made = (TensorType(types[0].dtype, types[0].dims),)
    else:
        result = found(*types, **attrs)
        made = result if isinstance(result, tuple) else (result,)
    outputs = builder.emit(name, params, types=made, **attrs)
    e = Emitter(18)
    writer = Writer(e)
    for p in params:
        writer.values[p] = (e.name(p.name),)
    writer.bind_sizes(block.binds, params)
    writer.block(block)
    inputs = [value_info(p.name, numpy_type(p.type), [None] * p.type.ndim) for p in params]
    results = [value_info(e("Identity", writer.one(v)), numpy_type(v.type), [None] * v.type.ndim) for v in outputs]
    graph = helper.make_graph(e.nodes, "f", inputs, results, list(e.initializers.values()))
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))


@pytest.mark.parametrize("name", sorted(set(ROWS) - NOT_OPS))
def test_a_row_computes_what_the_op_computes(name):
    op = OPS[name]
    for arrays, attrs in samples(op, np.random.default_rng(0)):
        given = [np.asarray(a, np.float32) if np.asarray(a).dtype == np.float64 else np.asarray(a) for a in arrays]
        if any(a.size == 0 for a in given) and op.kind in (Kind.REDUCE, Kind.SORT, Kind.CONTRACT):
            continue  # what runtimes do without elements is their own affair
        if op.kind is Kind.CREATE:
            attrs = {k: dtypes.float32 if k == "dtype" else v for k, v in attrs.items()}
        ran = session(model_of(name, given, attrs))
        found = ran.run(None, {f"x{i}": a for i, a in enumerate(given)})
        if op.impl is not None:
            wanted = op.impl(np, *given, **attrs)
        else:
            from jitgrad.ops.namespaces import ArrayNamespace

            wanted = ArrayNamespace(np).apply(op, tuple(given), attrs)
        for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert a.shape == np.shape(b), attrs
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=str(attrs))


def test_what_is_missing_is_what_onnx_lacks():
    primitives = {n for n, op in OPS.items() if op.compose is None and has_kernels(op)}
    assert primitives - set(ROWS) == {
        "erfinv", "lgamma", "digamma", "polygamma", "bitwise_left_shift", "bitwise_right_shift", "cumprod", "sum_to",
        "random.uniform", "random.bits", "conv_weight", "windows_add",
        *(name for name, op in OPS.items() if op.kind is OPAQUE)}
