"""The further functions of elements on a GPU: the CPU's values, on the operands' device, without moving them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.ops.library.arrays import arrays, flat
from tests.ops.library.expressions import expressions

#: what makes tensors of none goes to the CPU unless told otherwise; those mix with a GPU's
MADE = ("t.tensor(", "window(", "t.range(", "t.scalar_tensor(", "t.broadcast_shapes(")


@pytest.mark.parametrize("expression", [e for e in expressions("elements") if not any(m in e for m in MADE)])
def test_values(cuda: Any, expression: str) -> None:
    given = arrays()

    def run(device: str) -> list[Any]:
        names = {k: jitgrad.from_numpy(a.copy()).to(device) for k, a in given.items()}
        with np.errstate(all="ignore"):
            return flat(eval(expression, {"t": jitgrad, **names}))

    for ours, host in zip(run("cuda"), run("cpu"), strict=True):
        if isinstance(host, jitgrad.Tensor):
            assert ours.device.type == "cuda"
            assert ours.dtype is host.dtype
            np.testing.assert_allclose(ours.detach().cpu().numpy(), host.detach().numpy(), rtol=2e-5, atol=1e-6)
        else:
            assert ours == host


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_barebones(cuda: Any, name: str) -> None:
    d = getattr(jitgrad, name)
    x = jitgrad.tensor([3.9, -1.5, 1e6, 1e10, 1e19, 1e20, float("nan"), float("inf")])
    for wide in (x, x.double()):
        ours = wide.cuda().to(d)
        assert ours.device.type == "cuda"
        assert ours.cpu().tolist() == wide.to(d).tolist()
    assert (ours * 2).cpu().tolist() == (wide.to(d) * 2).tolist()
    assert (ours == ours).all()
    with pytest.raises(NotImplementedError):
        ours + 1
