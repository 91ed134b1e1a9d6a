"""Runs one program in a process of its own, so that what crashes or never ends is a finding and not the end."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection

from tests.fuzz import compare

SECONDS = 10.0  # of processor time, compilers included, in which a program must be done
PATIENCE = 90.0  # after which one is ended, whatever it waits for


def _work(seed: int, modes: tuple[str, ...], out: Connection) -> None:
    report = compare.check_program(seed, modes)
    seconds = sum(os.times()[:4])
    if not report.problem and seconds > SECONDS:
        report.problem, report.died = f"took {seconds:.0f} s", True
    out.send(report)


def check(seed: int, modes: tuple[str, ...]) -> compare.Report:
    """`compare.check_program` elsewhere; a crash and a program of more than ten seconds are problems."""
    context = multiprocessing.get_context("fork")
    there, here = context.Pipe()
    worker = context.Process(target=_work, args=(seed, modes, there))
    worker.start()
    there.close()
    try:
        if here.poll(PATIENCE):
            report: compare.Report = here.recv()
            return report
        return compare.Report(f"did not end in {PATIENCE:.0f} s", died=True)
    except EOFError:
        worker.join()
        return compare.Report(f"the process ended with status {worker.exitcode}", died=True)
    finally:
        worker.kill()
        worker.join()
        here.close()


__all__ = ["check"]
