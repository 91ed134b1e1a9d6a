"""The disk cache: bytes by key, shared by processes, capped in size.

    found = store.current()          # None where JITGRAD_CACHE=off or the folder cannot be trusted
    data = found.get(key)            # None: not there, or damaged
    found.put(key, data)

An entry is one file, written to a temporary name and renamed, so that readers see all of it or nothing; it starts with
a checksum of its key and content, and a damaged entry reads as absent and is written anew. Reading an entry renews its
time; when the folder is found to have outgrown its limit the entries longest unread are removed. Entries hold machine
code: the folder is created with mode 0700, and one that others may write to is not used.
"""

import contextlib
import hashlib
import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

from jitgrad import config, locks
from jitgrad.classes import dataclass

MAGIC = b"jitgrad1"
DIGEST = 32
SUFFIX = ".entry"
LIMIT = 512 << 20
#: after eviction the folder holds at most this share of the limit
KEPT = 0.75
#: a process measures the folder once it has put this part of the limit, or has put one of so many entries
MEASURED = 32
#: a temporary file this old (seconds) belongs to a process that died
ABANDONED = 3600.0

_numbering = itertools.count(time.time_ns())  # unlike that of an earlier process with the same number


@dataclass(frozen=True, slots=True)
class Stats:
    """What a store holds (entries, bytes) and how it served this process (hits, misses)."""

    directory: str
    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int


def key_of(*parts: bytes | str) -> str:
    """A key from everything that an entry depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _checksum(key: str, payload: bytes) -> bytes:
    """Of an entry and its key: a file that holds another one's content is damaged too."""
    return hashlib.sha256(key.encode() + payload).digest()


class Store:
    """The entries of one folder. Methods may be called from any thread; any number of processes may share a folder."""

    def __init__(self, directory: str | os.PathLike[str], limit: int = LIMIT):
        self.directory, self.limit = Path(directory), limit
        self._lock = threading.RLock()
        locks.new_in_children(self)
        self._written = 0  # bytes put since the folder was last measured
        self._measured: int | None = None
        self._hits = self._misses = 0

    def _path(self, key: str) -> Path:
        return self.directory / (key + SUFFIX)

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, or None where there is no whole entry."""
        payload = self.peek(key)
        if payload is None:
            self._misses += 1
        else:
            self.touch(key)
        return payload

    def peek(self, key: str) -> bytes | None:
        """The same, but it is no use of the entry."""
        try:
            blob = self._path(key).read_bytes()
        except OSError:
            return None
        payload = blob[len(MAGIC) + DIGEST:]
        if blob[:len(MAGIC)] != MAGIC or blob[len(MAGIC):len(MAGIC) + DIGEST] != _checksum(key, payload):
            return None
        return payload

    def touch(self, key: str) -> None:
        """The entry is used."""
        with contextlib.suppress(OSError):  # removed meanwhile, or a read-only folder: only the order of eviction
            os.utime(self._path(key))
        self._hits += 1

    def used(self, key: str) -> float:
        """When the entry was last used, in seconds since the epoch; 0 where there is no whole entry."""
        if self.peek(key) is None:
            return 0.0
        with contextlib.suppress(OSError):
            return self._path(key).stat().st_mtime
        return 0.0

    def put(self, key: str, payload: bytes) -> bool:
        """Store bytes; False (and one warning per process) where the folder cannot be written."""
        blob = b"".join((MAGIC, _checksum(key, payload), payload))
        temporary = self.directory / f".write-{os.getpid()}-{threading.get_ident()}-{next(_numbering)}"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(blob)
            os.replace(temporary, self._path(key))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            _warn_once(f"the disk cache {self.directory} cannot be written ({error}); programs will not be kept")
            return False
        with self._lock:
            self._written += len(blob)
            if self._measured is not None:
                grown = self._measured + self._written > self.limit
            else:  # looking at a full folder takes longer than most programs take to load: other processes look, too
                grown = self._written > self.limit / MEASURED or int(key[:8], 16) % MEASURED == 0
            if grown:
                self._evict()
        return True

    def _entries(self) -> list[tuple[float, int, str]]:
        """(time of the last use, bytes, path) of every entry; removes what dead processes left."""
        found = []
        try:
            with os.scandir(self.directory) as files:
                for file in files:
                    with contextlib.suppress(OSError):  # removed by another process
                        status = file.stat(follow_symlinks=False)
                        if file.name.endswith(SUFFIX):
                            found.append((status.st_mtime, status.st_size, file.path))
                        elif file.name.startswith(".write-") and status.st_mtime < time.time() - ABANDONED:
                            os.unlink(file.path)
        except OSError:  # no folder yet
            return []
        return found

    def _evict(self) -> None:
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in entries:
                if total <= self.limit * KEPT:
                    break
                with contextlib.suppress(OSError):  # removed by another process: just as well
                    os.unlink(path)
                total -= size
        self._measured, self._written = total, 0

    def clear(self, keep: Collection[str] = ()) -> int:
        """Remove every entry but those under the keys in `keep`; how many were removed."""
        removed = 0
        kept = {os.fspath(self._path(key)) for key in keep}
        for _, _, path in self._entries():
            if path in kept:
                continue
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed += 1
        with self._lock:
            self._measured, self._written = 0, 0
        return removed

    def stats(self) -> Stats:
        """What the folder holds now."""
        entries = self._entries()
        return Stats(str(self.directory), len(entries), sum(size for _, size, _ in entries), self.limit, self._hits,
                     self._misses)


_warned: set[str] = set()
_stores: dict[str, Store | None] = {}


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _trusted(directory: Path) -> bool:
    """Whether nobody but this user may write to the folder (or it does not exist yet)."""
    try:
        status = directory.stat()
    except OSError:
        return True
    getuid = getattr(os, "getuid", None)
    return getuid is None or (status.st_uid == getuid() and not status.st_mode & 0o022)


def current() -> Store | None:
    """The store of `config.cache`; None where it is off or others may write to the folder (then a warning)."""
    directory = config.current().cache
    if not directory:
        return None
    if directory not in _stores:
        path = Path(directory)
        if _trusted(path):
            _stores[directory] = Store(path)
        else:
            _warn_once(f"the disk cache {directory} belongs to or can be written by others; it is not used")
            _stores[directory] = None
    return _stores[directory]


def kept(key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes under `key`: from the current store if they are there, else made, and put there if there is one."""
    disk = current()
    found = disk.get(key) if disk is not None else None
    if found is None:
        found = make()
        if disk is not None:
            disk.put(key, found)
    return found
