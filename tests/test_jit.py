"""torch.jit's names."""

from __future__ import annotations

import contextlib
import io

import pytest

import jitgrad
import jitgrad as torch
from jitgrad import jit, nn
from jitgrad.errors import ScriptError


class Net(nn.Module):
    scale: jit.Final[int] = 2

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.table = jit.Attribute({"a": 1}, dict)

    def forward(self, x):
        if torch.jit.is_scripting():
            print("scripted")
        else:
            print("plain")
        return self.fc(x) * self.scale

    @torch.jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x) + self.forward(x)

    @torch.jit.unused
    def never(self, x):
        yield x

    @torch.jit.ignore(drop=True)
    def dropped(self, x):
        return x


def printed(run):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = run()
    return out.getvalue(), result


def test_is_scripting_and_export():
    net = Net()
    fast = torch.jit.script(net)
    x = torch.ones(3, 2)
    assert isinstance(fast, jit.ScriptModule)
    text, result = printed(lambda: fast(x))
    plain, expected = printed(lambda: net(x))
    assert (text, plain) == ("scripted\n", "plain\n")
    assert torch.allclose(result, expected)
    text, result = printed(lambda: fast.twice(x))
    assert text == "scripted\n" * 2
    assert torch.allclose(result, expected * 2)
    assert fast.twice.cache_info().compilations == 1
    assert printed(lambda: net.twice(x))[0] == "plain\n" * 2
    assert not jit.is_scripting()


def test_unused_is_a_run_time_error():
    net = Net()

    @jit.script
    def f(x, which: int):
        if which == 1:
            return net.never(x)
        if which == 2:
            return net.dropped(x)
        return x

    assert f(torch.ones(2), 0).tolist() == [1.0, 1.0]
    for which, name in ((1, "never"), (2, "dropped")):
        with pytest.raises(RuntimeError, match=f"{name}` is marked"):
            f(torch.ones(2), which)


def test_trace_is_no_recording():
    def f(x, n: int):
        return x * n if n > 1 else x - 1

    traced = jit.trace(f, (torch.ones(2), 3))
    assert traced.cache_info().compilations == 1
    assert traced(torch.ones(4), 3).tolist() == [3.0] * 4
    assert traced(torch.ones(4), 0).tolist() == [0.0] * 4
    assert traced.cache_info().compilations == 1
    module = nn.Linear(2, 2)
    assert jit.trace(module, torch.ones(1, 2)).cache_info().compilations == 1
    assert jit.trace_module(module, {"forward": (torch.ones(1, 2),)}).cache_info().entries == 1


def test_freeze():
    module = jit.script(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        jit.freeze(module)
    module.eval()
    assert jit.optimize_for_inference(jit.freeze(module)) is module


def test_fork_and_wait():
    def f(x):
        future = jit.fork(lambda y, k: y * k, x, k=2)
        return x + jit.wait(future)

    for function in (f, jit.script(f)):
        assert function(torch.ones(2)).tolist() == [3.0, 3.0]
    assert jit.fork(lambda: 3).wait() == 3


def test_annotations_of_typing():
    from typing import Dict, List, Optional, Tuple  # noqa: UP035  (as programs written for torch have them)

    @jit.script
    def f(xs: List[torch.Tensor], table: Dict[str, torch.Tensor],  # noqa: UP006
          bias: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, int]:  # noqa: UP006, UP045
        rows = jit.annotate(List[torch.Tensor], [])  # noqa: UP006
        total = torch.zeros(2)
        for x in xs:
            total = total + x * table["w"]
            rows.append(total)
        if bias is not None:
            total = total + bias
        return total, len(rows)

    total, n = f([torch.ones(2), torch.ones(2)], {"w": torch.ones(2) * 3})
    assert (total.tolist(), n) == ([6.0, 6.0], 2)
    assert f([torch.ones(2)], {"w": torch.ones(2)}, torch.ones(2))[0].tolist() == [2.0, 2.0]


def test_names_for_old_programs():
    assert jit.script_if_tracing(len) is len
    assert jit.interface(Net) is Net
    assert jit.Error is ScriptError
    assert not jit.is_tracing()

    class Old(nn.Module):
        @jit.script_method
        def forward(self, x):
            return x * 2

    assert Old()(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match=r"derive from `nn\.Module`"):
        type("Older", (jit.ScriptModule, nn.Module), {})
    assert jitgrad.jit is jit
