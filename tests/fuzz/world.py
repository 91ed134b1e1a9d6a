"""What a random program is given besides tensors and numbers: an object with attributes, a named tuple, arguments."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import jitgrad
from jitgrad import nn, optim

#: by the name that the program's first line gives
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "Momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.02),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01),
}


class State(NamedTuple):
    """A matrix and an int that travel together."""

    h: Any
    k: int = 0


@dataclass
class Record:
    """A matrix, an int and a list, which change."""

    h: Any
    n: int = 1
    marks: list[int] = field(default_factory=list)


class Odd(ValueError):
    """Raised by programs."""


class Odder(Odd):
    """Raised by programs."""


class Box(nn.Module):
    """Attributes of every kind: parameters `p` [D] and `q` [D, D], a buffer `total` [D], an int, a float, an Optional.
    """

    def __init__(self, columns: int, optimizer: str, seed: int):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.p = nn.Parameter(jitgrad.from_numpy(rng.standard_normal(columns)))
        self.q = nn.Parameter(jitgrad.from_numpy(rng.standard_normal((columns, columns)) * 0.5))
        self.register_buffer("total", jitgrad.from_numpy(rng.standard_normal(columns)))
        self.count = 0
        self.scale = 0.75
        self.last: Any = None
        self.opt = OPTIMIZERS[optimizer]([self.p, self.q])

    def forward(self, x: Any, k: int = 1) -> Any:
        h = (x @ self.q + self.p * self.scale).tanh()
        if k > 2:
            return h * 0.5
        return h

    def bump(self, k: int) -> int:
        """Change the counter; its new value."""
        self.count += k
        if self.count > 7:
            self.count = self.count % 3
        return self.count


@dataclass
class Case:
    """The arguments of one call: arrays x, y, w, b, c, numbers, and whether the previous call's box is used again."""

    arrays: list[np.ndarray]
    n: int
    s: float
    flag: bool = True
    maybe: bool = False
    again: bool = False
    change: str = ""  # one of CHANGES

    def __str__(self) -> str:
        again = ", the box of the call before" if self.again else ""
        again += f", {self.change}" if self.change else ""
        return (f"{[a.shape for a in self.arrays]}, n={self.n}, s={self.s:.3f}, flag={self.flag}, "
                f"maybe={'a tensor' if self.maybe else None}{again}")


#: what another call of the same function may change
CHANGES = ("y is x", "maybe is c", "one tensor twice in xs", "no gradient of x", "no gradients", "no_grad",
           "OFFSET is 2", "OFFSET is 5", "in a thread")
SIZES = ((3, 4, 2, False), (5, 2, 0, False), (1, 3, 4, False), (0, 2, 1, False), (4, 4, 3, True), (2, 1, 2, False))


def arguments(seed: int, count: int = len(SIZES)) -> Iterator[Case]:
    """Some sets of arguments: other sizes (several, one, none), other numbers.

    Of three sets, the second may use the first's box again.
    """
    rng = np.random.default_rng(seed)
    order = [SIZES[0], SIZES[4] if seed % 3 == 1 else SIZES[1], SIZES[(2, 3, 5)[seed % 3]]]
    for rows, columns, n, again in SIZES[:count] if count != 3 else order:
        shapes = ((rows, columns), (rows, columns), (columns, columns), (columns,), (rows, columns))
        arrays = [rng.standard_normal(s) for s in shapes]
        numbers = float(rng.uniform(-1, 1)), bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        yield Case(arrays, n, *numbers, again=again and columns == 4)


def sequence(seed: int) -> list[Case]:
    """The calls of one program: three sets of arguments; the first also with one change, of half the programs with the
    same box, and at the end as it was.
    """
    first, *others = arguments(seed, 3)
    rng = random.Random(seed)
    changed = replace(first, change=rng.choice(CHANGES), again=rng.random() < 0.5)
    return [first, changed, *(replace(c, again=False) for c in others), first] if changed.again else [
        first, *others, changed, first]


__all__ = ["OPTIMIZERS", "Box", "Case", "Odd", "Odder", "Record", "State", "arguments", "sequence"]
