"""What compilers make of a text, in files named by content: the compiler, its flags, the headers, the text.

The files are under `$XDG_CACHE_HOME/jitgrad-tests`, shared by processes and by runs. A file comes to be by a rename, so
that nobody reads half of one; two processes that make the same one at once both do, and one of the two stays.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

#: bytes, about four times what a run of all tests makes
LIMIT = 256 << 20
#: seconds for which a file that was used stays: it is another run's
SPARED = 3600


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@functools.cache
def folder() -> Path:
    """Where the files are; a new folder where the cache cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = Path(base) / "jitgrad-tests"
    return found if _usable(found) else Path(tempfile.mkdtemp(prefix="jitgrad-tests-"))


def key(*parts: str) -> str:
    """A name for what these make; parts are told apart."""
    return hashlib.sha256("".join(f"{len(p)}:{p}" for p in parts).encode()).hexdigest()[:32]


def file(name: str, make: Callable[[Path], object]) -> Path:
    """The file of a name, which `make` writes to the path that it is given where there is none."""
    path = folder() / name
    try:
        os.utime(path)  # what was used last is removed last
    except FileNotFoundError:
        _pruned()
        handle, temporary = tempfile.mkstemp(dir=folder(), suffix=f".new{path.suffix}")
        os.close(handle)
        try:
            make(Path(temporary))
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    return path


@functools.cache
def _pruned() -> None:
    """Once a process, where something is added."""
    prune()


def prune(limit: int = LIMIT, spared: float = SPARED) -> None:
    """Remove what was not used for longest, until the rest takes `limit` bytes; what was used just now stays."""
    found = []
    for path in folder().iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:  # another run prunes
            continue
        found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):
        if total <= limit or used > time.time() - spared:
            break
        path.unlink(missing_ok=True)
        total -= size
