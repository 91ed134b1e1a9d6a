"""The stand-in promises nothing that CuPy lacks: its names and parameters against the real one, where installed."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.cuda import standin

PROBE = """
import inspect, json, sys
import cupy

def parameters(f):
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return None

def kind(f):
    return "ufunc" if type(f).__name__ == "ufunc" else "other"

functions = {n: [hasattr(cupy, n), parameters(getattr(cupy, n, None)), kind(getattr(cupy, n, None))]
             for n in json.loads(sys.argv[1])}
methods = {n: hasattr(cupy.ndarray, n) for n in json.loads(sys.argv[2])}
others = {n: all(hasattr(cupy.cuda, n) for n in [n]) for n in json.loads(sys.argv[3])}
at = [hasattr(cupy.add, "at"), hasattr(cupy.lib.stride_tricks, "as_strided"), hasattr(cupy, "from_dlpack"),
      hasattr(cupy, "get_default_memory_pool"), hasattr(cupy.cuda.MemoryHook, "malloc_postprocess")]
print(json.dumps([functions, methods, others, at]))
"""


def test_names_and_parameters_are_cupys() -> None:
    environment = {**os.environ}
    if "CUPY_PATH" in os.environ:
        environment["PYTHONPATH"] = os.pathsep.join([os.environ["CUPY_PATH"], os.environ.get("PYTHONPATH", "")])
    cuda_names = [n for n in vars(standin.CUPY.cuda) if not n.startswith("_")]
    arguments = [json.dumps([*standin.FUNCTIONS, *standin.UFUNCS]),
                 json.dumps([n for n in vars(standin.ndarray) if not n.startswith("_")]), json.dumps(cuda_names)]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROBE, *arguments], capture_output=True, text=True,
                          check=False, env=environment)
    if "No module named 'cupy'" in done.stderr:
        pytest.skip("CuPy is not installed (CUPY_PATH may name a folder that has it)")
    assert done.returncode == 0, done.stderr
    functions, methods, others, at = json.loads(done.stdout)
    for name, (there, parameters, kind) in functions.items():
        assert there, name
        if name in standin.UFUNCS:
            assert kind == "ufunc", name
        elif parameters and "kwargs" not in parameters and "args" not in parameters:
            assert set(standin.FUNCTIONS[name].split()) <= set(parameters), (name, parameters)
    assert [n for n, there in {**methods, **others}.items() if not there] == []
    assert all(at)


def test_it_refuses_what_cupy_refuses() -> None:
    x = standin.asarray(np.arange(3.0))
    for act in (lambda: np.asarray(x), lambda: x + np.ones(3), lambda: np.ones(3) * x,
                lambda: standin.CUPY.exp(np.ones(3)),
                lambda: x.__setitem__(0, np.ones(())), lambda: x.sum(where=True), lambda: np.add(x, np.ones(3)),
                lambda: x.sum(axis=0, initial=1.0)):
        with pytest.raises(TypeError):
            act()
    assert not hasattr(x.flags, "writeable")
    assert not hasattr(x, "ctypes")
    assert isinstance(x.sum(), standin.ndarray)
    assert x[1:].base is x


def test_it_counts_waiting() -> None:
    x = standin.asarray(np.ones(3))
    before = dict(standin.waits)
    x + x
    assert standin.waits == before
    float(x.sum())
    bool(x.any())
    x.get()
    x[x > 0]
    assert sum(standin.waits.values()) == sum(before.values()) + 4


def test_numpy_functions_reach_it() -> None:
    x = standin.asarray(np.arange(3.0))
    with standin.installed():
        y: Any = np.exp(x)
        assert isinstance(y, standin.ndarray)
        assert isinstance(np.zeros_like(x), standin.ndarray)
        assert np.add(x, 1.0, out=y) is y
    assert y.get().tolist() == [1.0, 2.0, 3.0]
    assert inspect.ismodule(standin.CUPY)
