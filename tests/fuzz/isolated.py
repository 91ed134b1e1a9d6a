"""Runs programs each in a process of its own, so that what crashes or never ends is a finding and not the end."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from jitgrad.codegen.llvm import engine
from tests.fuzz import compare

SECONDS = 10.0  # of processor time, compilers included, in which a program's calls must be done
PATIENCE = 90.0  # after which one is ended, whatever it waits for
THOROUGH = 5  # of so many programs one is compiled as users' are, the others quickly: neither optimised nor collected


def _work(seed: int, modes: tuple[str, ...], out: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that reports
    gc.freeze()  # what was there before is neither searched nor copied
    if seed % THOROUGH:
        gc.disable()  # the process ends before its garbage would matter
        llvm = engine._llvm()
        llvm.machine = llvm.quick_machine
    report = compare.check_program(seed, modes)
    if not report.problem and report.seconds > SECONDS:
        report.problem, report.died = f"took {report.seconds:.0f} s", True
    out.send(report)


@dataclass
class _Running:
    """A program under way."""

    seed: int
    worker: Any
    here: Connection
    until: float

    def end(self, report: compare.Report | None = None) -> compare.Report:
        """What it sent, or `report`; or how its process ended."""
        try:
            return report or self.here.recv()
        except EOFError:
            self.worker.join()
            return compare.Report(f"the process ended with status {self.worker.exitcode}", died=True)
        finally:
            self.worker.kill()
            self.worker.join()
            self.here.close()


def _start(seed: int, modes: tuple[str, ...]) -> _Running:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(seed, modes, there), daemon=True)
    worker.start()
    there.close()
    return _Running(seed, worker, here, time.monotonic() + PATIENCE)


def reports(seeds: Iterable[int], modes: tuple[str, ...], jobs: int) -> Iterator[tuple[int, compare.Report]]:
    """`compare.check_program` of each seed, `jobs` at a time, in the order in which they are done.

    A crash and a program of more than ten seconds are problems.
    """
    compare.check_program(0, modes or compare.MODES)  # so that what it loads is there in every process
    left, running = iter(seeds), list[_Running]()
    while True:
        while len(running) < jobs and (seed := next(left, None)) is not None:
            running.append(_start(seed, modes))
        if not running:
            return
        ready = wait([r.here for r in running], max(0.0, min(r.until for r in running) - time.monotonic()))
        late = compare.Report(f"did not end in {PATIENCE:.0f} s", died=True)
        now = time.monotonic()
        done = [r for r in running if r.here in ready or now > r.until]
        running = [r for r in running if r not in done]
        for r in done:
            yield r.seed, r.end(None if r.here in ready else late)


__all__ = ["reports"]
