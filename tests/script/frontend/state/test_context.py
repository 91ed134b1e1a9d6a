"""What stands at locations, and how a change of it is noticed."""

import pytest

from jitgrad.script.frontend.state.context import Values


def test_a_change_where_nobody_looks_is_none():
    values = Values({"a": 1, "b": 2}, {"a"})
    version = values.version
    values["b"] = 3
    values["c"] = 4
    assert values.version == version
    assert values.pop("c") == 4
    assert values.version == version


@pytest.mark.parametrize("change", [
    lambda values: values.__setitem__("a", 2), lambda values: values.__delitem__("a"), lambda values: values.pop("a"),
    lambda values: values.update({"a": 2})], ids=["set", "del", "pop", "update"])
def test_a_change_where_somebody_looks(change):
    values = Values({"a": 1}, {"a"})
    copy, version = values.copy(), values.version
    assert copy == values
    assert copy.version == version
    change(values)
    assert values.version != version
    assert copy.version == version
    change(copy)
    assert copy.version not in (version, values.version)  # the same content is not seen as such


def test_copies_look_at_the_same_places():
    values = Values({"a": 1}, set())
    copy = values.copy()
    values.watched.add("a")
    version = copy.version
    copy["a"] = 2
    assert copy.version != version
