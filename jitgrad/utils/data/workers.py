"""The worker processes of a `DataLoader`, seen from the process that reads their batches.

Tasks go to the workers in turn, each of which has `prefetch` of them at most, and batches are given in the order of the
tasks. Each worker has a socket of its own, so that one that is killed leaves nothing locked. They end with the
iterator: at its last batch, when nobody refers to it any more, or when the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any

from jitgrad.utils.data import worker
from jitgrad.utils.data.fetch import Loading
from jitgrad.utils.data.messages import IN_FLIGHT, Channel, pair

#: seconds that workers get to end by themselves
PATIENCE = 5.0


class WorkerIterator(Iterator[Any]):
    """Batches from worker processes.

    Args:
        context: of `multiprocessing`, makes the processes.
        count: how many.
        prefetch: batches that each worker has or makes before they are asked for.
        timeout: seconds to wait for a batch; 0: for ever.
        in_order: whether batches come in the order of their indices.
        persistent: keep the workers when a pass ends, for the next one.

    Raises, when a batch is asked for:
        RuntimeError: a worker ended, or the timeout passed. What a dataset raises is raised with the same type.
    """

    def __init__(self, context: Any, count: int, loading: Loading, *, base_seed: int, prefetch: int, timeout: float,
                 worker_init_fn: Callable[[int], Any] | None, in_order: bool, persistent: bool) -> None:
        self._prefetch = max(1, min(prefetch, IN_FLIGHT // 2))
        self._timeout, self._in_order, self._persistent = timeout, in_order, persistent
        self._channels: list[Channel] = []
        self._processes: list[Any] = []
        self._finalizer = weakref.finalize(self, _end, self._processes, self._channels, os.getpid())
        forked = context.get_start_method() == "fork"
        for number in range(count):
            here, there = pair()
            self._channels.append(here)
            process = context.Process(target=worker.run, daemon=True, args=(
                there, list(self._channels) if forked else [], loading, (number, count, base_seed), worker_init_fn))
            process.start()
            there.close()
            self._processes.append(process)
        self._waiting = [0] * count  # answers that each worker owes
        self._pass = 0

    @property
    def alive(self) -> bool:
        """Whether the workers are there."""
        return self._finalizer.alive

    def begin(self, tasks: Iterator[Any]) -> None:
        """A new pass over tasks: lists of indices, indices, or `NEXT` again and again."""
        self._tasks = tasks
        self._pass += 1
        self._turn = self._sent = 0  # the task whose batch is given next, and how many were given to workers
        self._ready: dict[int, Any] = {}
        self._ended = [False] * len(self._channels)
        self._last = -1
        while any(self._waiting):  # for batches of a pass that was left
            self._receive()
        if self._pass > 1:
            for number in range(len(self._channels)):
                self._send(number, (worker.BEGIN, None))
        self._fill()

    def __next__(self) -> Any:
        while self._turn < self._sent:
            if self._turn not in self._ready:
                self._receive()
                continue
            answer = self._ready.pop(self._turn)
            self._turn += 1
            if isinstance(answer, str) and answer == worker.END:
                continue
            self._fill()
            if isinstance(answer, worker.ExceptionWrapper):
                answer.reraise()
            return answer
        if not self._persistent:
            self._finalizer()
        raise StopIteration

    def _fill(self) -> None:
        """Give tasks to the workers, in turn, as long as the next one has not enough of them."""
        while (number := self._next_worker()) is not None and self._waiting[number] < self._prefetch:
            try:
                indices = next(self._tasks)
            except StopIteration:
                return
            self._send(number, ((self._pass, self._sent), indices))
            self._waiting[number] += 1
            self._sent += 1
            self._last = number

    def _next_worker(self) -> int | None:
        count = len(self._channels)
        order = [(self._last + k) % count for k in range(1, count + 1)]
        if not self._in_order:  # who is behind is left out
            order.sort(key=lambda number: self._waiting[number])
        return next((number for number in order if not self._ended[number]), None)

    def _receive(self) -> None:
        """Wait for an answer, and take all that are there."""
        owing = [number for number, owed in enumerate(self._waiting) if owed]
        there = connection.wait([self._channels[number].socket for number in owing], self._timeout or None)
        if not there:
            self._finalizer()
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for number in owing:
            if self._channels[number].socket in there:
                self._take(number)

    def _take(self, number: int) -> None:
        try:
            (turn, task), answer = self._channels[number].receive()
        except (EOFError, ConnectionResetError):
            self._lost(number)
        self._waiting[number] -= 1
        if turn != self._pass:
            return
        if isinstance(answer, str) and answer == worker.END:
            self._ended[number] = True
            self._fill()
        if self._in_order:
            self._ready[task] = answer
        else:  # the first that comes has the next turn
            self._ready[self._turn + len(self._ready)] = answer

    def _send(self, number: int, message: Any) -> None:
        try:
            self._channels[number].send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._lost(number)

    def _lost(self, number: int) -> Any:
        """A worker is gone."""
        process = self._processes[number]
        process.join(PATIENCE)
        pid, code = process.pid, process.exitcode
        self._finalizer()
        cause = None
        if code is not None and code < 0:
            cause = RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {signal.Signals(-code).name}")
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly") from cause


def _end(processes: list[Any], channels: list[Channel], owner: int) -> None:
    """End workers: those that are busy get a while. In a child of the process that has them nothing is theirs."""
    mine = os.getpid() == owner
    for channel in channels:
        if mine:
            with contextlib.suppress(OSError):  # it is gone
                channel.send(None)
        channel.close()
    until = time.monotonic() + PATIENCE
    for process in processes if mine else ():
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join()
        process.close()
