"""The kernels of `test_llvm_kernel`, printed as CUDA and run on the host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codegen import test_llvm_kernel
from tests.codegen.cuda import host

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(test_llvm_kernel, "run", host.run)


for _name, _test in list(vars(test_llvm_kernel).items()):
    if _name.startswith("test_") and {"run", "execute"} & set(_test.__code__.co_names):
        globals()[_name] = _test
