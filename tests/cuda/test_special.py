"""Special functions on a GPU: one kernel each, or NumPy's, where the number of steps depends on the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import special

ONE = ["airy_ai", "bessel_j0", "bessel_y1", "entr", "erfcx", "i0", "i1e", "log_ndtr", "modified_bessel_k1", "ndtr",
       "ndtri", "scaled_modified_bessel_k0", "spherical_bessel_j0"]
TWO = ["gammainc", "gammaincc", "hermite_polynomial_h", "legendre_polynomial_p", "xlog1py", "zeta"]


@pytest.mark.parametrize("name", ONE + TWO)
def test_values_and_gradients(cuda: Any, name: str) -> None:
    fn, given = getattr(special, name), np.linspace(0.1, 0.9, 6).astype(np.float32)
    first = [jitgrad.tensor(given) + 2] if name in TWO else []

    def run(device: str) -> list[Any]:
        x = jitgrad.tensor(given, device=device, requires_grad=True)
        y = fn(*[t.to(device) for t in first], x)
        assert y.device.type == device
        return [y, *(jitgrad.autograd.grad(y.sum(), x) if y.requires_grad else [])]

    for ours, host in zip(run("cuda"), run("cpu"), strict=True):
        np.testing.assert_allclose(ours.detach().cpu().numpy(), host.detach().numpy(), rtol=1e-5, atol=1e-6)
