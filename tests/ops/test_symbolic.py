"""Every rule survives symbolic sizes: as a graph over symbols it verifies and computes what it computes on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.dims import Dim, Symbol, dim
from jitgrad.ops import OPS
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Value
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.graph.verify import verify
from tests.ops.cases import cases, differentiable
from tests.oracles import ARRAYS


class Symbols(dict[int, Dim]):
    """A symbol per size but 1 (which is always known), equal sizes sharing theirs; `not_one`: known not to be 1."""

    def __init__(self, not_one: bool):
        super().__init__()
        self.not_one = not_one

    def __missing__(self, size: int) -> Dim:
        found = self[size] = dim(Symbol(f"n{size}", not_one=self.not_one))
        return found

    def size(self, size: int) -> Any:
        return 1 if size == 1 else self[size]

    def type(self, array: np.ndarray) -> TensorType:
        return TensorType(dtypes.from_numpy(array.dtype), tuple(map(self.size, array.shape)))

    def attrs(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Attrs with the sizes among them that are operands' sizes as symbols."""
        known = dict(self)
        result = dict(attrs)
        if "shape" in attrs:
            result["shape"] = tuple(known.get(s, s) for s in attrs["shape"])
        return result


def run_as_graph(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], what: str, not_one: bool) -> None:
    op, symbols = OPS[name], Symbols(not_one)
    with np.errstate(all="ignore"):
        y = getattr(ARRAYS, name)(*operands, **attrs)
        outputs = y if isinstance(y, tuple) else (y,)
        rng = np.random.default_rng(0)
        gs = [np.asarray(rng.normal(size=o.shape)) if o.dtype.kind == "f" else None for o in outputs]
    types = [symbols.type(np.asarray(x)) for x in operands]
    params = [Value(t) for t in types]
    attrs_in_graph = symbols.attrs(attrs)
    assert op.spec is not None
    specs = op.spec(*types, **attrs_in_graph)
    specs = specs if isinstance(specs, tuple) else (specs,)
    given = list(operands)
    extra = []  # the results and their cotangents
    for spec, o, g in zip(specs, outputs, gs, strict=True):
        extra.append((Value(spec), None if g is None else Value(spec)))
        given += [np.asarray(o)] + ([] if g is None else [g])
        params += [v for v in extra[-1] if v is not None]
    block = Block(tuple(params), binds=tuple(s.symbol for s in symbols.values()))  # type: ignore[misc]
    F = GraphNamespace(Builder(block))
    handles = [F.wrap(v) for v in params[:len(types)]]
    if what == "compose":
        assert op.compose is not None
        block.results = (op.compose(F, *handles, **attrs_in_graph).value,)
        expected = [outputs[0]]
    else:
        gh = [None if v is None else F.wrap(v) for _, v in extra]
        yh = [F.wrap(v) for v, _ in extra]
        single = len(outputs) == 1
        cotangents = op.vjp(F, gh[0] if single else tuple(gh), yh[0] if single else tuple(yh), *handles,
                            **attrs_in_graph)  # type: ignore[operator]
        block.results = tuple(F.sum_to(c, shape=h.shape).value for c, h in zip(cotangents, handles, strict=True)
                              if c is not None and h.dtype.is_floating_point)
        with np.errstate(all="ignore"):
            on_arrays = op.vjp(ARRAYS, gs[0] if single else tuple(gs), y, *operands, **attrs)  # type: ignore[operator]
            expected = [ARRAYS.sum_to(c, shape=x.shape) for c, x in zip(on_arrays, operands, strict=True)
                        if c is not None and x.dtype.kind == "f"]
    actual = interpret(verify(Graph(block)), given)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


def symbolic_cases(name: str) -> list[Any]:
    """Samples without empty operands."""
    return [(operands, attrs) for operands, attrs in cases(OPS[name])
            if all(isinstance(x, np.ndarray) and x.size for x in operands) and attrs.get("dtype") is not dtypes.float32]


@pytest.mark.parametrize("name", [n for n in differentiable() if OPS[n].vjp is not None])
@pytest.mark.parametrize("not_one", [True, False])
def test_vjp(name: str, not_one: bool) -> None:
    for operands, attrs in symbolic_cases(name):
        run_as_graph(name, operands, attrs, "vjp", not_one)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.compose is not None])
def test_compose(name: str) -> None:
    for operands, attrs in symbolic_cases(name):
        run_as_graph(name, operands, attrs, "compose", True)
