"""Annotations: what they accept. (What they refuse is among the refusals.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  (as people write them)

import pytest

import jitgrad as torch
from jitgrad.errors import TypeMismatch
from jitgrad.script.frontend.source.annotations import check

X = torch.ones(2)


def accepts(annotation: Any, value: Any, default: Any = 0) -> bool:
    def f(x=default):
        return x

    f.__annotations__ = {"x": annotation}
    try:
        check(f, {"x": value})
    except TypeMismatch:
        return False
    return True


@pytest.mark.parametrize(("annotation", "value"), [
    (float, 1), (float, 1.5), (int, 3), (int, True), (float, True), (bool, False), (str, "a"), (torch.Tensor, X),
    (None, None),
    (Optional[int], None), (Optional[torch.Tensor], X), (int | None, 3), (Union[int, float], 2.5),  # noqa: UP045
    (List[torch.Tensor], [X]), (list[int], []), (Sequence[float], (1.0, 2)), (list, [1, X]),  # noqa: UP006
    (Tuple[int, ...], (1, 2)), (tuple[int, torch.Tensor], (1, X)), (Dict[str, torch.Tensor], {"a": X}),  # noqa: UP006
    ("NoSuchName", 3), ("torch.Tensor", X), (Any, X), (object, 3), ("a b c", 1), (int.__add__, 2),
])
def test_accepted(annotation: Any, value: Any) -> None:
    assert accepts(annotation, value)


@pytest.mark.parametrize(("annotation", "value"), [
    (int, X), (int, 1.5), (float, X), (bool, 1), (str, 3), (torch.Tensor, 2.0), (int, None),
    (Optional[int], X), (List[torch.Tensor], [X, 3]), (List[int], X), (tuple[int, int], (1, 2, 3)),  # noqa: UP006, UP045
    (dict[str, int], {"a": X}), ("torch.Tensor", 3), (list[int], (1, 2)),
])
def test_refused(annotation: Any, value: Any) -> None:
    assert not accepts(annotation, value)


def test_a_default_of_none_is_accepted() -> None:
    assert accepts(int, None, default=None)
