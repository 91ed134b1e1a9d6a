"""Whether functions do what they are for: calls of `tests/calls` tried with gradients, in scripts and on a GPU.

The GPU is the stand-in of `tests/cuda`: arrays on NumPy that take and refuse what CuPy's do.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def _gpu() -> contextlib.AbstractContextManager[Any]:
    """A GPU, for the time of a `with`."""
    gpu: contextlib.AbstractContextManager[Any] = importlib.import_module("tests.cuda.standin").installed()
    return gpu


def texts(space: str, name: str) -> list[str]:
    """Calls of a function, as expressions."""
    from tests.calls.generator import PREFIX, calls

    if space != "Tensor" and space not in PREFIX:
        return []
    return list(dict.fromkeys(call.text for call in calls(space, name) if not call.out and "nonsense" not in call.text))


def leaves(result: Any) -> list[Any]:
    """The tensors in a result."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result] if hasattr(result, "requires_grad") else []


@contextlib.contextmanager
def _quietly(module: Any, where: str) -> Iterator[None]:
    """Without warnings; tensors of which a call says no device are made on this one, of the same random numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), module.device(where):
        warnings.simplefilter("ignore")
        module.manual_seed(0)
        yield


def _given(module: Any, where: str, needs: bool) -> dict[str, Any]:
    """The tensors that calls are about, on a device; those of floating point need gradients, or none do."""
    from tests.calls.arguments import TENSORS

    found = {name: module.from_numpy(array.copy()).to(where) for name, array in TENSORS.items()}
    return {name: x.requires_grad_(needs and x.dtype.is_floating_point) for name, x in found.items()}


def _called(module: Any, text: str, where: str, given: dict[str, Any]) -> Any:
    """What a call gives; in-place methods get copies of leaves."""
    scope = {"t": module, "F": module.nn.functional}
    with _quietly(module, where):
        return eval(text, scope | {name: x.clone() if x.requires_grad else x for name, x in given.items()})


def tried(module: Any, space: str, name: str, needs: bool) -> tuple[str, Any]:
    """The first call of a function that works, with a gradient if that `needs` one, and its result; "" for none."""
    for text in texts(space, name):
        try:
            result = _called(module, text, "cpu", _given(module, "cpu", needs))
        except Exception:
            continue  # the next one may do
        if not needs or any(x.requires_grad for x in leaves(result)):
            return text, result
    return "", None


def differentiable(module: Any, space: str, name: str) -> bool:
    """Whether a function gives a result with a gradient, in some call."""
    return tried(module, space, name, needs=True)[0] != ""


def on_cuda(space: str, name: str) -> str:
    """What differs where a function is given tensors of a GPU: its results, where they are, or gradients; "" if none.

    Where no call is known nothing differs.
    """
    import jitgrad

    for needs in (False, True):
        text, _ = tried(jitgrad, space, name, needs)
        if text:
            expected = observed(text, "cpu", needs)
            with _gpu():
                reason = difference(expected, observed(text, "cuda", needs))
            if reason:
                return f"{text}: {reason}"
    return ""


def observed(text: str, where: str, needs: bool) -> Any:
    """What a call gives on a device, and the gradients that reach its tensors if that `needs` any; or its error."""
    import jitgrad

    given = _given(jitgrad, where, needs)
    try:
        result = _called(jitgrad, text, where, given)
        if not needs:
            return result
        smooth = [x for x in leaves(result) if x.requires_grad]
        sum((abs(x) * (abs(x) + 1)).sum().to(smooth[0].real.dtype) for x in smooth).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return result, [x.grad for x in given.values()]


def difference(expected: Any, found: Any) -> str:
    """How a result on a GPU is not one on the CPU brought there; "" where it is."""
    import jitgrad

    pairs = list(zip(leaves(expected), leaves(found), strict=False))
    if len(leaves(expected)) != len(leaves(found)) or (not pairs and expected != found):
        return f"{found} for {expected}"
    for x, y in pairs:
        if not y.is_cuda:
            return "on the CPU"
        try:
            jitgrad.testing.assert_close(y.cpu(), x, rtol=1e-4, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            return str(error)
    return ""


def _in_script(space: str, name: str, text: str, folder: Path) -> tuple[Any, list[str]]:
    """A script that makes a call, and what it is called with."""
    import jitgrad
    from tests.calls.arguments import TENSORS

    used = [n for n in TENSORS if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"(=])", text)]
    path = folder / f"{space.replace('.', '_')}_{name}.py"
    path.write_text(f"import jitgrad as t\nimport jitgrad.nn.functional as F\ndef f({', '.join(used)}):\n"
                    f"    return {text}\n")
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return jitgrad.script(module.f), used


def scripted(space: str, name: str, folder: Path) -> tuple[str, str]:
    """How a script runs a function: "native", "call-back", "no"; and what differs on a GPU, as of `on_cuda`.

    The first is "" where no call is known, or eager has none.
    """
    import jitgrad
    from jitgrad import config
    from jitgrad.codegen.lower.block import RULES
    from jitgrad.ops import OPS

    text, expected = tried(jitgrad, space, name, needs=False)
    if not text:
        return "", ""
    function, used = _in_script(space, name, text, folder)

    def given(where: str) -> list[Any]:
        return [x for n, x in _given(jitgrad, where, False).items() if n in used]

    try:
        with config.override(interpret=True), _quietly(jitgrad, "cpu"):
            function(*given("cpu"))
    except Exception:
        return "no", ""
    ops = re.findall(r"= ([a-z_0-9.]+)\(", str(function.graph))
    back = any(op == "callback" or (op in OPS and op not in RULES and "in_library" in OPS[op].traits)
               for op in ops)
    try:
        with _quietly(jitgrad, "cpu"):
            function.kernels(*given("cpu"), device="cuda")
        with _gpu(), config.override(interpret=True), _quietly(jitgrad, "cuda"):
            reason = difference(expected, function(*given("cuda")))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return "call-back" if back else "native", f"{text}: {reason}" if reason else ""
