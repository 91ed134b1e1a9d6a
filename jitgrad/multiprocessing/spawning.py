"""`spawn`: processes that run one function, and what is raised where one of them fails."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

#: characters of a traceback that a pipe takes with nobody reading
LONGEST = 15_000


class ProcessException(Exception):
    """One of the processes failed: `error_index` says which, `error_pid` its process id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended otherwise: with `exit_code`, or by the signal `signal_name`."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:  # the parent has it too
        pass
    except Exception:
        errors.send(traceback.format_exc()[-LONGEST:])
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together; `join` waits for them."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self.sentinels: dict[Any, int] = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one of the processes fails or all have ended; whether all have.

        Args:
            timeout: wait for so many seconds at most.
            grace_period: seconds that the others get, where one fails, before they are terminated.

        Raises:
            ProcessRaisedException, ProcessExitedException: a process failed; the others have been ended.
        """
        if not self.sentinels:
            return True
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end(grace_period)
                raise self._failure(index)
        return not self.sentinels

    def _end(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def _failure(self, index: int) -> ProcessException:
        failed, errors = self.processes[index], self._errors[index]
        try:
            text = errors.recv() if errors.poll() else None
        except EOFError:
            text = None
        if text is not None:
            return ProcessRaisedException(f"\n\n-- Process {index} terminated with the following error:\n{text}", index,
                                          failed.pid)
        code = failed.exitcode
        if code >= 0:
            return ProcessExitedException(f"process {index} terminated with exit code {code}", index, failed.pid, code)
        name = signal_name(-code)
        return ProcessExitedException(f"process {index} terminated with signal {name}", index, failed.pid, code, name)


def signal_name(number: int) -> str:
    """`SIGKILL` of 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


class SpawnContext(ProcessContext):
    """The older name of `ProcessContext`."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, errors)


def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                    daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, i counting them.

    Args:
        join: wait for them, and return None; else return what waits.
        daemon: they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Raises:
        ProcessRaisedException, ProcessExitedException: one of them failed.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, there), daemon=daemon)
        process.start()
        there.close()
        processes.append(process)
        errors.append(here)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> ProcessContext | None:
    """`start_processes` by the method "spawn", whatever is asked for, as in torch."""
    if start_method != "spawn":
        warnings.warn(f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different "
                      "start_method use:\n\t\t torch.multiprocessing.start_processes(...)", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
