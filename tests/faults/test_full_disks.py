"""A disk that is full or read-only, and what is written and read there."""

import errno
import os
import subprocess
import sys

import pytest

import jitgrad
from jitgrad import config, jit
from jitgrad.codegen.run import store
from tests.faults.processes import command, environment, run

pytestmark = [pytest.mark.sampled("faults"), pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")]


@jitgrad.script
def grown(x, n: int):
    for _ in range(n):
        x = (x * 0.5).tanh()
    return x.sum()


LIMIT = """
import resource, signal
import jitgrad

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails with EFBIG
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
"""

SAVES = """
class Net(jitgrad.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = jitgrad.nn.Parameter(jitgrad.ones(100, 100))

    def forward(self, x):
        return x @ self.w

net = jitgrad.script(Net())
for save in (lambda: jitgrad.save(net.state_dict(), "state"),
             lambda: jitgrad.jit.save(net, "program", example_inputs=(jitgrad.ones(2, 100),))):
    try:
        save()
    except OSError as error:
        print(type(error).__name__)
"""


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    jitgrad.save({"old": jitgrad.ones(3)}, tmp_path / "state")
    jit.save(grown, tmp_path / "program", example_inputs=(jitgrad.ones(3), 2))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    done = subprocess.run(command(tmp_path, LIMIT + SAVES), env=environment(), cwd=tmp_path, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.stdout.split() == ["OSError"] * 2, done.stderr
    (tmp_path / "program.py").unlink()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert jitgrad.load(tmp_path / "state")["old"].tolist() == [1.0] * 3
    assert jit.load(tmp_path / "program")(jitgrad.ones(3), 1).item() == pytest.approx(3 * 0.46211717)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the device is Linux's")
def test_a_full_device_is_an_os_error():
    for save in (lambda f: jitgrad.save({"a": jitgrad.ones(5000)}, f),
                 lambda f: jit.save(grown, f, example_inputs=(jitgrad.ones(3), 2))):
        with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left") as raised:
            save(file)
        assert raised.value.errno == errno.ENOSPC


CACHED = """
import warnings

@jitgrad.script
def f(x, n: int):
    for _ in range(n):
        x = (x * 0.5).tanh() + x.softmax(0)
    return x.sum()

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    x = jitgrad.ones(3).requires_grad_()
    f(x, 2).backward()
print(f.cache_info().disk_hits, sum("cannot be written" in str(w.message) for w in found), x.grad.tolist())
"""


def test_a_cache_on_a_full_disk_keeps_what_it_has(tmp_path):
    """An entry that does not fit is left out, with one warning; a whole one stays, and none is left half."""
    cache = tmp_path / "cache"
    hits, warned, gradient = run(tmp_path, LIMIT + CACHED, JITGRAD_CACHE=str(cache)).split(maxsplit=2)
    assert (hits, warned) == ("0", "1")
    assert all(p.stat().st_size <= 4096 and p.suffix == ".entry" for p in cache.iterdir())
    roomy = LIMIT.replace("4096", "1 << 30") + CACHED
    assert run(tmp_path, roomy, JITGRAD_CACHE=str(cache)).split(maxsplit=2) == ["0", "0", gradient]
    whole = {p.name: p.read_bytes() for p in cache.iterdir()}
    assert run(tmp_path, LIMIT + CACHED, JITGRAD_CACHE=str(cache)).split(maxsplit=2)[2] == gradient
    assert {p.name: p.read_bytes() for p in cache.iterdir()} == whole


def test_a_read_only_cache_is_read(tmp_path, monkeypatch):
    def program():
        return jitgrad.script(grown.eager)

    def refused(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(store, "_warned", set())
    with config.override(cache=str(tmp_path / "cache")):
        expected = program()(jitgrad.ones(3), 2).item()
        for name in ("mkdir", "open", "replace", "utime", "unlink"):
            monkeypatch.setattr(os, name, refused if name != "open" else opening(refused))
        again, other = program(), program()
        assert again(jitgrad.ones(3), 2).item() == expected
        assert again.cache_info().disk_hits == 1
        with pytest.warns(RuntimeWarning, match="cannot be written"):
            assert other(jitgrad.ones(3, 1), 2).item() == pytest.approx(expected)


def opening(refused):
    """`os.open` that refuses to write."""
    true = os.open
    return lambda path, flags, *args, **kwargs: (
        refused() if flags & (os.O_WRONLY | os.O_RDWR) else true(path, flags, *args, **kwargs))


def test_an_entry_cut_or_flipped_anywhere_reads_as_absent(tmp_path):
    s = store.Store(tmp_path)
    key = store.key_of("a")
    s.put(key, bytes(range(64)))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for k in range(len(whole)):
        for damaged in (whole[:k], whole[:k] + bytes([whole[k] ^ 1 << k % 8]) + whole[k + 1:]):
            path.write_bytes(damaged)
            assert s.get(key) is None
    path.write_bytes(whole)
    assert s.get(key) == bytes(range(64))
