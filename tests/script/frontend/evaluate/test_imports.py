"""`import` inside functions."""

import importlib
import sys

import pytest

import jitgrad
from jitgrad.errors import UnsupportedCall
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 2, 5))


@program(*NS)
def modules_and_names(x, n):
    import os.path
    from functools import partial as p
    from math import sqrt

    import jitgrad.nn.functional
    import jitgrad.nn.functional as F
    return F.relu(x * p(max, 1)(n)) + jitgrad.nn.functional.relu(x) * sqrt(n), os.path.sep


def angle(x):
    import math
    return x * math.pi


@program(*NS)
def in_a_called_function_and_on_one_side(x, n):
    if n > 1:
        import math
        return angle(x) * math.e
    return angle(x)


@program(*NS)
def missing_modules_are_handled(x, n):
    try:
        import no_such_module_at_all
    except ImportError as e:
        print(e)
        no_such_module_at_all = None
    return x * n, no_such_module_at_all


test_programs = suite(PROGRAMS)


def test_modules_of_the_user(tmp_path, monkeypatch):
    package = tmp_path / "imported_package"
    package.mkdir()
    (package / "__init__.py").write_text("SCALE = 2\n")
    (package / "inner.py").write_text(
        "def f(x):\n    from . import SCALE\n    from .other import shift\n    return shift(x * SCALE)\n\n\n"
        "def late(x):\n    from imported_package import unread\n    return x\n")
    (package / "other.py").write_text("def shift(x):\n    return x + 1\n")
    (package / "unread.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    inner = importlib.import_module("imported_package.inner")
    f = jitgrad.script(inner.f)
    with pytest.raises(UnsupportedCall, match=r"the first import of `imported_package.other`, inside a script"):
        f(jitgrad.ones(1))
    importlib.import_module("imported_package.other")
    assert f(jitgrad.ones(1)).item() == 3.0
    sys.modules["imported_package"].SCALE = 5
    assert f(jitgrad.ones(1)).item() == inner.f(jitgrad.ones(1)).item() == 6.0
    with pytest.raises(UnsupportedCall, match=r"the first import of `imported_package.unread`"):
        jitgrad.script(inner.late)(jitgrad.ones(1))
