"""The disk cache: whole entries or none, many processes, a cap, damage."""

import multiprocessing
import os
import stat
import time

import pytest

from jitgrad import config
from jitgrad.codegen.run import store
from jitgrad.codegen.run.store import Store, key_of


def test_put_and_get(tmp_path):
    s = Store(tmp_path / "cache")
    key = key_of("a", b"b")
    assert s.get(key) is None
    assert s.put(key, b"payload")
    assert s.get(key) == b"payload"
    assert s.put(key, b"other")
    assert s.get(key) == b"other"
    assert s.put(key_of("empty"), b"")
    assert s.get(key_of("empty")) == b""
    stats = s.stats()
    assert (stats.entries, stats.hits, stats.misses) == (2, 3, 1)
    assert s.clear() == 2
    assert s.get(key) is None


def test_keys_separate_their_parts():
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("ab") != key_of("ab", "")
    assert key_of("ab") == key_of(b"ab")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_folder_is_private(tmp_path):
    Store(tmp_path / "cache").put(key_of("a"), b"x")
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [
    lambda b: b"", lambda b: b[:10], lambda b: b[:-1], lambda b: b + b"x", lambda b: b"\0" * len(b),
    lambda b: b[:50] + bytes([b[50] ^ 1]) + b[51:], lambda b: b"jitgrad0" + b[8:],
], ids=["empty", "short", "truncated", "longer", "zeros", "a bit", "another version"])
def test_damaged_entries_read_as_absent_and_are_rewritten(tmp_path, damage):
    s = Store(tmp_path)
    key = key_of("a")
    s.put(key, b"some payload, longer than the header")
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert s.get(key) is None
    s.put(key, b"anew")
    assert s.get(key) == b"anew"


def test_an_entry_of_another_key_reads_as_absent(tmp_path):
    s = Store(tmp_path)
    first, second = key_of("a"), key_of("b")
    s.put(first, b"one")
    (tmp_path / f"{first}.entry").rename(tmp_path / f"{second}.entry")
    assert s.get(second) is None


def test_the_longest_unread_entries_go_first(tmp_path):
    s = Store(tmp_path, limit=10_000)
    keys = [key_of(str(k)) for k in range(8)]
    now = time.time()
    for k, key in enumerate(keys):
        s.put(key, bytes(1000))
        os.utime(s._path(key), (now - 1000 + k, now - 1000 + k))
    assert s.get(keys[0]) is not None  # just read: now the youngest
    s.put(key_of("big"), bytes(4000))
    assert s.get(keys[0]) is not None
    assert s.get(key_of("big")) is not None
    assert s.get(keys[1]) is None
    assert s.stats().bytes <= 10_000


def test_looking_at_an_entry_is_no_use_of_it(tmp_path):
    s, key = Store(tmp_path), key_of("a")
    assert s.peek(key) is None
    assert s.used(key) == 0
    s.put(key, b"x")
    os.utime(s._path(key), (1000, 1000))
    assert s.peek(key) == b"x"
    assert s.used(key) == 1000
    s.touch(key)
    assert s.used(key) > 1000


def test_a_full_folder_is_not_measured_by_every_process(tmp_path, monkeypatch):
    measured = []
    entries = Store._entries
    monkeypatch.setattr(Store, "_entries", lambda self: measured.append(self) or entries(self))
    for k in range(10 * store.MEASURED):
        Store(tmp_path).put(key_of(str(k)), b"x")
    assert 1 <= len(measured) <= 30  # 10 are expected
    Store(tmp_path, limit=1000).put(key_of("a"), bytes(1000))
    assert len(list(tmp_path.iterdir())) <= 1


def test_an_entry_above_the_limit_does_not_stay(tmp_path):
    s = Store(tmp_path, limit=1000)
    s.put(key_of("a"), bytes(5000))
    assert s.stats().bytes <= 1000


def test_abandoned_temporary_files_are_removed(tmp_path):
    old, new = tmp_path / ".write-old", tmp_path / ".write-new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (1, 1))
    Store(tmp_path).stats()
    assert not old.exists()
    assert new.exists()


def _hammer(directory, seed):
    s = Store(directory, limit=200_000)
    for k in range(200):
        key = key_of(str((k * 7 + seed) % 40))
        s.put(key, (key * 50).encode())
        found = s.get(key_of(str(k % 40)))
        assert found is None or found == (key_of(str(k % 40)) * 50).encode()
        if k % 50 == seed:
            s.clear()


def test_many_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_hammer, args=(str(tmp_path), seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".write-")]


def test_a_folder_that_cannot_be_written_warns_once(tmp_path):
    (tmp_path / "file").write_text("")
    s = Store(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert not s.put(key_of("a"), b"x")
    assert not s.put(key_of("a"), b"x")
    assert s.get(key_of("a")) is None
    assert s.clear() == 0


def test_current_follows_the_knob(tmp_path):
    with config.override(cache=""):
        assert store.current() is None
    with config.override(cache=str(tmp_path / "c")):
        found = store.current()
        assert found is not None
        assert found.directory == tmp_path / "c"
        assert store.current() is found


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with config.override(cache=str(shared)), pytest.warns(RuntimeWarning, match="others"):
        assert store.current() is None
