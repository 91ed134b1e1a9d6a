"""Lists of tensors of a GPU, whose length is known at run time; what of their memory is shared; what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad import config
from jitgrad.eager.arrays import arrays
from jitgrad.errors import UnsupportedCall
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tests.cuda.test_features import near

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True, params=[False, True], ids=["native", "interpreted"])
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    with gpu(), config.override(cache="", interpret=request.param):
        yield


def test_a_list_alone_says_where_a_script_runs() -> None:
    @jitgrad.script
    def f(items: Any) -> Any:
        total, out = items[0] * 0, []
        for x in items:
            total = total + x.sin()
            out.append(x * 2)
        return total, out

    for n in (2, 3, 5):
        items = [jitgrad.randn(4).requires_grad_() for _ in range(n)]
        moved = [x.detach().cuda().requires_grad_() for x in items]
        (total, out), (expected, doubled) = f(moved), f.eager(items)
        near(total, expected)
        for a, b in zip(out, doubled, strict=True):
            near(a, b)
        (total * out[1]).sum().backward()
        (expected * doubled[1]).sum().backward()
        for a, b in zip(moved, items, strict=True):
            near(a.grad, b.grad)


def test_which_arrays_have_elements_in_common() -> None:
    x = jitgrad.zeros(4, 6).cuda()
    other = jitgrad.zeros(4, 6).cuda()
    for a, b, common in ((x, x, True), (x[:2], x[2:], False), (x[::2], x[1::2], False), (x[:, :3], x[:, 2:], True),
                         (x.t(), x[0], True), (x, other, False), (x[:, ::2], x[:, 1::2], False)):
        assert arrays.overlap(a._data, b._data) is common
    assert not arrays.overlap(x._data, x.cpu()._data)


def test_halves_of_one_memory_may_be_written() -> None:
    @jitgrad.script
    def f(a: Any, b: Any) -> None:
        a.add_(1)
        b.mul_(3)

    x = jitgrad.ones(6).cuda()
    f(x[:3], x[3:])
    near(x, jitgrad.tensor([2.0, 2.0, 2.0, 3.0, 3.0, 3.0]))
    with pytest.raises(UnsupportedCall, match="share"):
        f(x[:4], x[3:])


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x * 2} {x.sum():.1f}")
        return x

    x = jitgrad.ones(2).cuda()
    f(x)
    expected = capsys.readouterr().out
    jitgrad.script(f)(x)
    assert capsys.readouterr().out == expected
    assert "cuda:0" in expected
