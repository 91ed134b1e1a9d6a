"""Scripts take the keywords that eager takes: every form of every function, natively (none goes to Python)."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.library.calls.forms import ALIASES, table
from tests.calls import record
from tests.calls.arguments import TENSORS, VARIANTS
from tests.calls.generator import Call, calls, evaluate, observed, same

#: what scripts refuse by design: what is about memory, arrays and files; results of unknown size with `out`
REFUSED = re.compile(r"numpy|data_ptr|stride|tolist|\.new\(|pin_memory|from_dlpack|\.type\(|is_inference")
SPACES = ("torch", "torch.linalg", "torch.special", "torch.nn.functional")
NAMES = [(space, name) for space in SPACES for name in table()[space]
         if record.has(jitgrad, space, name) and name not in record.UNCERTAIN and calls(space, name)
         and not name.endswith("_")]


def names_in(text: str) -> list[str]:
    """The tensors that a call reads."""
    return [n for n in TENSORS if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"(=])", text)]


def chosen(space: str, name: str) -> list[tuple[Call, Any]]:
    """Calls with keywords that eager answers, and what it gives; with `out`, those of the result's shape."""
    found = []
    with np.errstate(all="ignore"):
        for call in calls(space, name):
            given = "=" in call.text or call.out == "same"
            plain = call.out in ("", "same") and not any(f"({v}, " in call.text or f"({v})" in call.text
                                                         for v in VARIANTS)
            if given and plain and not REFUSED.search(call.text) and "nonsense" not in call.text:
                result = evaluate(call, jitgrad)
                if not isinstance(result, BaseException):
                    found.append((call, result))
    return found


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module with one function per call: scripts need source in a file."""
    path: Path = tmp_path_factory.mktemp("calls") / "library_calls.py"
    lines = ["import jitgrad as t", "import jitgrad.nn.functional as F"]
    for space, name in NAMES:
        own = chosen(space, name)
        tensors = sorted({n for call, _ in own for n in names_in(call.text)})
        outs = [f"o{k}" for k, (call, _) in enumerate(own) if call.out]
        lines.append(f"def {space.replace('.', '_')}_{name}({', '.join([*tensors, *outs])}):")
        texts = [call.text[:-1] + f", out=o{k})" if call.out else call.text for k, (call, _) in enumerate(own)]
        lines.append(f"    return ({''.join(text + ', ' for text in texts)})")
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("library_calls", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["library_calls"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["library_calls"]


@pytest.mark.parametrize(("space", "name"), NAMES, ids=[f"{s}.{n}" for s, n in NAMES])
def test_scripted(space: str, name: str, functions: Any) -> None:
    own = chosen(space, name)
    function = getattr(functions, f"{space.replace('.', '_')}_{name}")
    tensors = {n: jitgrad.from_numpy(TENSORS[n].copy()) for call, _ in own for n in names_in(call.text)}
    for k, (call, result) in enumerate(own):
        if call.out:
            written = result[1]
            tensors[f"o{k}"] = (tuple(jitgrad.zeros_like(r) for r in written) if isinstance(written, tuple)
                                else jitgrad.zeros_like(written))
    expected = [result[1] if call.out else result for call, result in own]
    with config.override(interpret=True):
        script = jitgrad.script(function)
        found = script(**tensors)
    assert "callback" not in str(script.graph)
    for (call, _), ours, eager in zip(own, found, expected, strict=True):
        assert same(observed(ours), observed(eager)), call


def test_aliases_are_among_them() -> None:
    texts = [call.text for call, _ in chosen("torch", "sum")]
    for alias in (*ALIASES["dim"], *ALIASES["input"]):
        assert any(f"{alias}=" in text for text in texts)


def in_place(x: Any) -> Any:
    jitgrad.exp_(input=x)
    jitgrad.clamp_(x1=x, min=1.5)
    return x.add_(x2=x).mul_(other=2).cumsum_(axis=0)


def test_in_place() -> None:
    for run in (in_place, jitgrad.script(in_place)):
        assert run(jitgrad.ones(2, 3))[1].tolist() == pytest.approx([4 * 2 * 2.718281828] * 3)


def sum_into(x: Any, out: Any) -> Any:
    return jitgrad.sum(x, dim=0, out=out)


def unsqueezed_into(x: Any, out: Any) -> Any:
    return jitgrad.unsqueeze(x, 0), jitgrad.add(x, 1, out=out)


def test_out_has_the_results_shape() -> None:
    """A script does not give a tensor other memory, as eager does."""
    f, x = jitgrad.script(sum_into), jitgrad.ones(2, 3)
    assert f(x, jitgrad.zeros(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="`out` must have the shape of the result"):
        f(x, jitgrad.zeros(0))
    with pytest.raises(UnsupportedCall, match="`out` of shape"):
        jitgrad.script(unsqueezed_into)(x, jitgrad.zeros(3))
