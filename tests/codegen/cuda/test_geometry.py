"""Which form of a kernel is launched: by the length of its rows, and by what a block has on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad import config
from jitgrad.codegen.cuda.host.gpu import DeviceCompiled, compile
from jitgrad.codegen.cuda.kernels import geometry, text
from jitgrad.codegen.cuda.schedule.passes import prepared
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import host
from tests.codegen.cuda.fakedriver import HostDriver, driver
from tests.codegen.programs import graph, sizes, tensor


def softmax() -> Any:
    rows, columns = sizes("rows columns")

    def body(F: Any, x: Any) -> Any:
        e = F.exp(F.sub(x, F.amax(x, axes=(1,), keepdim=True)))
        return F.div(e, F.sum(e, axes=(1,), keepdim=True))

    return pipeline.run(graph(body, tensor(rows, columns)))


def pick(forms: tuple[geometry.Form, ...], inner: int, shared: int) -> geometry.Form:
    """The first form whose bound is large enough, of those for a device that gives a block so much shared memory.

    Of few rows, such that the longest are shared by all blocks.
    """
    return next(form for form in forms
                if inner <= form.bound and geometry.shared_bytes(form.launches[0], inner) <= shared)


@host.needs_compiler
@pytest.mark.parametrize("kibibytes", [96, 160, 224])
def test_a_block_takes_no_more_shared_memory_than_there_is(kibibytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 30,000 fit everywhere but on a desktop's GPU, those of 50,000 only on Hopper."""
    device = driver()
    handles: dict[int, str] = {}

    def load(source: str, names: Any) -> list[int]:
        found = HostDriver.load(device, source, names)
        handles.update(zip(found, names, strict=True))
        return found

    monkeypatch.setattr(device, "load", load)
    monkeypatch.setattr(device, "shared", kibibytes * 1024)
    g = softmax()
    with config.override(debug_arena=False):
        compiled = compile({"f": g}, device)
        (kernel,) = [s.kernel for s in prepared("f", g).steps if isinstance(s, KernelStep)]
    assert isinstance(compiled, DeviceCompiled)
    forms = text.forms(kernel, "x")
    for columns in (7, 3000, 20000, 30000, 50000, 60000):
        x = np.random.default_rng(0).standard_normal((2, columns)).astype(np.float32)
        device.forget()
        (y,) = compiled["f"]([x])
        np.testing.assert_allclose(y.sum(1), 1.0, rtol=1e-4)
        launched, *_ = [handles[kernel] for kernel, *_ in device.launches()]
        expected = pick(forms, columns, device.shared).launches[0]
        assert launched.rpartition("_")[2] == expected.symbol.rpartition("_")[2]
        if expected.shared:
            assert geometry.shared_bytes(expected, columns) <= device.shared
    longest = max(n for n in range(1000, 60000, 1000) if pick(forms, n, device.shared).launches[0].shared)
    assert 4 * longest <= device.shared < 4 * longest + 20 * 1024
