"""The knobs: parsed once, refused when wrong, documented."""

import re
import warnings
from pathlib import Path

import pytest

from jitgrad import config


def test_defaults():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knobs = config.read({"PATH": "/bin", "XDG_CACHE_HOME": "ignored here"})
    assert (knobs.debug, knobs.jit, knobs.interpret, knobs.verify) == (0, True, False, 0)
    assert (knobs.dump, knobs.num_threads) == ("", 0)
    assert knobs.cache.endswith("jitgrad")


def test_values():
    knobs = config.read({"JITGRAD_DEBUG": "4", "JITGRAD_JIT": "0", "JITGRAD_VERIFY": "2", "JITGRAD_CACHE": "off",
                         "JITGRAD_NUM_THREADS": "3", "JITGRAD_DUMP": "/tmp/x"})
    assert (knobs.debug, knobs.jit, knobs.verify, knobs.cache, knobs.num_threads) == (4, False, 2, "", 3)
    assert knobs.dump == "/tmp/x"


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("DEBUG", "7", "a number from 0 to 6"), ("DEBUG", "-1", "a number from 0 to 6"),
    ("JIT", "yes", "a number from 0 to 1"),
    ("VERIFY", "3", "a number from 0 to 2"), ("NUM_THREADS", "0", "a number of threads, at least 1"),
    ("INTERPRET", "", "a number from 0 to 1"),
])
def test_bad_values_raise(name, value, expected):
    with pytest.raises(ValueError, match=f"^JITGRAD_{name}={value}: expected {expected}$"):
        config.read({f"JITGRAD_{name}": value})


@pytest.mark.parametrize("name", ["JITGRAD_DEBUGG", "JITGRAD_debug"])
def test_unknown_names_warn(name):
    with pytest.warns(UserWarning, match=f"unknown environment variable {name}; the known ones are JITGRAD_DEBUG, "):
        config.read({name: "1"})


def test_what_the_tests_read_is_known():
    config.read({"JITGRAD_REQUIRE_COMPILER": "1", "JITGRAD_TEST_ALL": "1"})


def test_override_is_scoped():
    before = config.debug
    with config.override(debug=5, jit=False):
        assert (config.debug, config.jit, config.current().debug) == (5, False, 5)
    assert config.debug == before
    with pytest.raises(TypeError, match="`debugg` is not a knob"), config.override(debugg=1):
        pass
    with pytest.raises(AttributeError, match="no attribute `debugg`"):
        config.debugg  # noqa: B018


def test_log(capsys):
    with config.override(debug=2):
        config.log(2, "said")
        config.log(3, "not said")
    assert capsys.readouterr().err == "jitgrad: said\n"


def test_the_page_lists_every_variable():
    page = (Path(__file__).parent.parent / "docs" / "env_vars.md").read_text()
    assert sorted(re.findall(r"^\| `(JITGRAD_\w+)` \|", page, re.M)) == sorted(config.VARIABLES)
