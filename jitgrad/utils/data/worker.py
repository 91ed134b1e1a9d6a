"""What a worker process of a `DataLoader` does: it is given indices, and sends batches."""

from __future__ import annotations

import multiprocessing
import os
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

import numpy as np

import jitgrad
from jitgrad.utils.data.fetch import NEXT, Loading
from jitgrad.utils.data.messages import Channel

#: seconds after which a worker looks whether its parent is there
INTERVAL = 5.0
#: instead of a batch: this worker's part of the stream has ended
END = "end"
#: instead of indices: a pass begins
BEGIN = "begin"


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """About a worker process: `id` of `num_workers`, the `seed` of its random numbers, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


class _This:
    """What this process is."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """About the worker process that this runs in; None in the process that made the `DataLoader`."""
    return _This.info


class _KeyErrorMessage(str):
    """A text that KeyError shows as it is: it shows the `repr` of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception of a worker, to be raised again in the process that reads."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.type, self.name, self.where = type(error), type(error).__name__, where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raise one of the same type, with the traceback in its message; RuntimeError where the type takes no message.
        """
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if self.type is KeyError:
            message = _KeyErrorMessage(message)
        make: Any = self.type
        try:
            error = make(message=message) if getattr(make, "message", None) else make(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


def seeds(base_seed: int, worker_id: int) -> Any:
    """What `numpy.random.seed` gets in a worker: torch's numbers, uint32, (4,)."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4)


def run(channel: Channel, inherited: list[Channel], loading: Loading, info: tuple[int, int, int],
        worker_init_fn: Callable[[int], Any] | None) -> None:
    """The process: batches for the indices that `channel` gives, until it gives None or the parent is gone.

    Args:
        inherited: ends of this process's parent, of which a forked process has copies.
        info: the worker's number, how many there are, the seed of the first.
    """
    for end in inherited:
        end.close()
    number, count, base_seed = info
    where = f"in DataLoader worker process {number}"
    try:
        package: Any = jitgrad
        package.set_num_threads(1)
        seed = base_seed + number
        random.seed(seed)
        jitgrad.manual_seed(seed)
        np.random.seed(seeds(base_seed, number))  # noqa: NPY002  (what datasets draw from)
        _This.info = WorkerInfo(number, count, seed, loading.dataset)
        failed: ExceptionWrapper | None = None
        try:
            if worker_init_fn is not None:
                worker_init_fn(number)
        except Exception as error:
            failed = ExceptionWrapper(error, where)
        _serve(channel, loading, where, failed)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the parent knows, or is gone


def _serve(channel: Channel, loading: Loading, where: str, failed: ExceptionWrapper | None) -> None:
    fetch: Callable[[Any], Any] | None = None
    for turn, indices in _tasks(channel):
        if turn == BEGIN:
            fetch = None
            continue
        answer: Any = failed
        if failed is None:
            try:
                fetch = loading.begin() if fetch is None else fetch
                answer = fetch(indices)
            except Exception as error:
                if isinstance(error, StopIteration) and indices is NEXT:
                    answer, fetch = END, _ended
                else:
                    answer = ExceptionWrapper(error, where)
        _answer(channel, turn, answer, where)
        del answer  # its memory, before that of the next one is needed


def _ended(_: Any) -> Any:
    raise StopIteration


def _answer(channel: Channel, turn: Any, answer: Any, where: str) -> None:
    try:
        channel.send((turn, answer))
    except OSError:
        raise
    except Exception as error:  # it cannot be pickled, or of an exception its type
        failed = answer if isinstance(answer, ExceptionWrapper) else ExceptionWrapper(error, where)
        failed.type = RuntimeError
        channel.send((turn, failed))


def _tasks(channel: Channel) -> Iterator[Any]:
    """What the channel gives until it gives None, or the parent is gone."""
    made_by: Any = multiprocessing.parent_process()
    forked = os.getppid() == made_by.pid
    while True:
        there = connection.wait([channel.socket, made_by.sentinel], INTERVAL)
        if channel.socket not in there and (there or (forked and os.getppid() != made_by.pid)):
            return  # that of a forked process is open in its siblings too
        if there:
            task = channel.receive()
            if task is None:
                return
            yield task
