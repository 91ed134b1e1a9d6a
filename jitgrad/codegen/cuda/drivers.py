"""Which driver runs the programs of a device: `of(device)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.codegen.cuda.driver import Driver
from jitgrad.device import device

_instead: list[Driver] = []


@contextmanager
def using(driver: Driver) -> Iterator[Driver]:
    """Let a driver run the programs of every GPU: for tests."""
    _instead.append(driver)
    try:
        yield driver
    finally:
        _instead.pop()


def of(where: device) -> Driver:
    """The driver of a GPU. RuntimeError, saying what is missing, where it cannot be used."""
    if _instead:
        return _instead[-1]
    from jitgrad.codegen.cuda.cudadriver import of_device

    return of_device(where.index or 0)


__all__ = ["of", "using"]
