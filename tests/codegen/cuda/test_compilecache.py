"""The files of the compile cache: made once, named by content, the oldest removed first."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.codegen.cuda import compilecache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compilecache, "folder", lambda: tmp_path)
    return tmp_path


def test_keys_tell_parts_apart() -> None:
    parts = [("g++ 12", "-O0", "text"), ("g++ 13", "-O0", "text"), ("g++ 12", "-O2", "text"), ("g++ 12-O0", "text"),
             ("g++ 12", "-O0text")]
    assert len({compilecache.key(*p) for p in parts}) == len(parts)
    assert compilecache.key(*parts[0]) == compilecache.key(*parts[0])


def test_a_file_is_made_once(folder: Path) -> None:
    made = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("object")

    first, second = (compilecache.file("a.so", make) for _ in range(2))
    assert (first, first.read_text(), len(made)) == (second, "object", 1)
    assert [p.name for p in folder.iterdir()] == ["a.so"]


def test_what_fails_leaves_nothing(folder: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("an error in the text")

    with pytest.raises(RuntimeError, match="an error in the text"):
        compilecache.file("a.so", fail)
    assert not list(folder.iterdir())


def test_makers_at_the_same_time_see_whole_files(folder: Path) -> None:
    text = "x" * 100_000

    def make(path: Path) -> None:
        with path.open("w") as file:
            for k in range(0, len(text), 1000):
                file.write(text[k:k + 1000])
                file.flush()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: compilecache.file("a.so", make).read_text(), range(32)))
    assert set(found) == {text}
    assert len(list(folder.iterdir())) == 1


def test_the_least_recently_used_go(folder: Path) -> None:
    def make(path: Path) -> None:
        path.write_bytes(bytes(100))

    now = time.time()
    for k, name in enumerate("abcd"):
        compilecache.file(name, make)
        os.utime(folder / name, (now, now - 10_000 + k))
    compilecache.file("a", make)  # used again
    compilecache.prune(limit=250)
    assert sorted(p.name for p in folder.iterdir()) == ["a", "d"]
    compilecache.prune(limit=0)  # another run may be about to load `a`
    assert [p.name for p in folder.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_written_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = compilecache.folder.__wrapped__()
    assert found.is_dir()
    assert found.parent == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compilecache.folder.__wrapped__() == tmp_path / "cache" / "jitgrad-tests"
