"""Exceptions and numbers that a script must have from eager, where what it knows while compiling has other words."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


def past_the_end(x: Any, write: bool) -> Any:
    return x[x.shape[0]]


def before_the_start(x: Any, write: bool) -> Any:
    return x[-x.shape[0] - 1] + x.narrow(0, 0, 1)


def written_if(x: Any, write: bool) -> Any:
    if write:
        x += 1
    return x * 2


def negative_byte(x: Any, write: bool) -> Any:
    y = torch.ones(3, dtype=torch.uint8)
    y.mul_(-1)
    return y, torch.zeros(2, dtype=torch.uint8).add_(-2), torch.full((2,), 7, dtype=torch.uint8) * -3


def outcome(f: Any, given: Any, write: bool) -> str:
    x = given()
    try:
        return f"{f(x, write)}, {x}"
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("f", [past_the_end, before_the_start, written_if, negative_byte])
@pytest.mark.parametrize("given", [
    lambda: torch.ones(3, 2), lambda: torch.ones(1, 3).expand(2, 3), lambda: torch.ones(2, 1).expand(2, 1)])
def test_as_eager(f: Any, given: Any, write: bool, mode: str) -> None:
    with config.override(interpret=mode == "interpreted"):
        assert outcome(torch.script(f), given, write) == outcome(f, given, write)


def summed(x: Any, *, left: Any, right: Any) -> Any:
    return x + left + right


def test_missing_keywords_are_all_named():
    def calls(x: Any) -> Any:
        return summed(x)  # type: ignore[call-arg]

    for function in (calls, torch.script(calls)):
        with pytest.raises(TypeError, match="missing 2 required keyword-only arguments: 'left' and 'right'"):
            function(torch.ones(2))


#: expressions of x: 3x4, y: 5x6, z: 2x3x4, v: 7 and i: 3 indices, that eager refuses for their sizes
WRONG = """
x.view(7); x.view(-1, 5); x.expand(2, 4); torch.stack([x, y]); torch.cat([x, y]); torch.cat([x, z]); x @ y
torch.bmm(z, z); torch.mv(x, v); torch.dot(v, x[0]); x + y; x * v; torch.where(x > 0, y, x); F.linear(x, y)
F.cross_entropy(x, i[:2]); F.cross_entropy(x, i + 9); F.mse_loss(x, y); F.layer_norm(x, (y.shape[0],))
F.batch_norm(x, v, v); F.embedding(i + 8, x); x.scatter(0, y.long(), x); x.index_select(0, i + 5); x[5]; x[:, 9]
x[i + 7]; x.narrow(0, 2, 4); x.select(1, 4); x.split([1, 1], 0); x.unflatten(1, (3, 2)); x.topk(9); x.unfold(0, 5, 1)
torch.outer(x, v); torch.linalg.inv(x); F.pad(v, (9, 9), mode='reflect'); F.avg_pool2d(z, 9); torch.addmm(x, x, y)
torch.baddbmm(z, z, z); x.masked_fill(y > 0, 1); x.masked_select(y > 0); x.copy_(y); x.index_add(0, i, y)
x.take(i + 99); torch.broadcast_to(x, (5, 4)); F.glu(y[:, :5]); F.cosine_similarity(x, y); torch.lerp(x, y, 0.5)
x.view(y.shape); x.t() @ y; torch.ones(4, 4) @ x[:1]; (x[:, :1] @ y[:2]).sum(); torch.cat([x[:, :1], x[:2, :3]])
"""


@pytest.mark.parametrize("expression", re.split(r"; |\n", WRONG.strip()))
def test_sizes_in_messages(expression: str) -> None:
    """The user's sizes, in torch's words, where they are known while compiling and in a loop."""
    for lines in (f"return {expression}", f"for _ in range(n):\n        r = {expression}\n    return r"):
        source, file = f"def f(x, y, z, v, i, n: int):\n    {lines}\n", f"<{lines}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(source, file, "exec"), scope)
        found = []
        for f in (scope["f"], torch.script(scope["f"])):
            with pytest.raises((RuntimeError, IndexError, ValueError)) as info:
                f(torch.ones(3, 4), torch.ones(5, 6), torch.ones(2, 3, 4), torch.ones(7), torch.ones(3).long(), 2)
            found.append(info.value)
        eager, scripted = found
        assert isinstance(scripted, type(eager))
        assert str(eager).partition("\n")[0] in str(scripted)
