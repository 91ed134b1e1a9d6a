"""Every story, told three times: eagerly, interpreted and native."""

import pytest

from tests.programs.surprises import (algorithms, apart, closures, containers, control, exceptions, identities, library,
                                      numbers, objects, recursion, tensors, texts, words)
from tests.script.frontend.agree import suite

MODULES = (algorithms, apart, closures, containers, control, exceptions, identities, library, numbers, objects,
           recursion, tensors, texts, words)
PROGRAMS = [case for module in MODULES for case in module.PROGRAMS]

test_programs = pytest.mark.sampled("stories")(suite(PROGRAMS))


def test_there_are_two_hundred() -> None:
    assert len({case.function.__name__ for case in PROGRAMS}) >= 200
