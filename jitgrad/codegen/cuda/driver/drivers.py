"""Which driver runs the programs of a device: `of(device)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.codegen.cuda.driver.driver import Driver
from jitgrad.device import device

_instead: list[tuple[Driver, ...]] = []


@contextmanager
def using(driver: Driver, *more: Driver) -> Iterator[Driver]:
    """Let drivers run the programs of the first GPU, the second one...; the last one those of all others: for tests."""
    _instead.append((driver, *more))
    try:
        yield driver
    finally:
        _instead.pop()


def of(where: device) -> Driver:
    """The driver of a GPU. RuntimeError, saying what is missing, where it cannot be used."""
    if _instead:
        return _instead[-1][min(where.index or 0, len(_instead[-1]) - 1)]
    from jitgrad.codegen.cuda.driver.cudadriver import of_device

    return of_device(where.index or 0)
