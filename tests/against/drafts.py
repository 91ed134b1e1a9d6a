"""A random program in the making: tensors that it takes, and lines of text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "uint8", "int8", "int16")
COMPLEX = ("complex64", "complex128")
DTYPES = (*FLOATS, *INTS, "bool", *COMPLEX)
#: how often each is drawn
WEIGHTS = {"float32": 8, "float64": 4, "float16": 2, "bfloat16": 2, "int64": 5, "int32": 2, "uint8": 2, "int8": 1,
           "int16": 1, "bool": 3, "complex64": 1, "complex128": 1}


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


class Made(NamedTuple):
    """A tensor that a program takes: what `numbers` makes of it, and whether it requires grad."""

    dtype: str
    shape: tuple[int, ...]
    kind: str
    seed: int
    grad: bool


class Case(NamedTuple):
    """A program: its arguments, its lines, and the names of what it returns."""

    family: str
    arguments: dict[str, Made]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def source(self) -> str:
        """The function's text."""
        lines = [*self.lines, f"return [{', '.join((*self.results, *self.arguments))}]"]
        return f"def program({', '.join(self.arguments)}):\n" + "".join(f"    {line}\n" for line in lines)

    @property
    def text(self) -> str:
        """All of it, to read."""
        made = [f"{name} = {tuple(m)}" for name, m in self.arguments.items()]
        return "\n".join([f"# {self.family}", *made, self.source])


def numbers(made: Made) -> np.ndarray[Any, Any]:
    """The numbers of a tensor, in a dtype that NumPy has and the tensor's holds."""
    rng = np.random.default_rng(made.seed)
    shape, dtype = made.shape, made.dtype
    size = int(np.prod(shape))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if made.kind.startswith("below"):  # indices
        return rng.integers(0, int(made.kind[5:]), shape)
    if made.kind == "distinct":
        low = 0 if dtype == "uint8" else size // 2
        found = rng.permutation(size).reshape(shape) - low
        return found / 4 if dtype in FLOATS else found
    if dtype in INTS:
        found = rng.integers(0 if dtype == "uint8" else -4, 6, shape)
        if made.kind == "wild":
            info = np.iinfo(dtype)
            extremes = rng.choice(np.array([info.min, info.max, 0, 1, info.max - 1], dtype), shape)
            return np.where(rng.random(shape) < 0.4, extremes, found.astype(dtype))
        return np.abs(found) + 1 if made.kind in ("positive", "unit") else found
    found = np.round(rng.standard_normal(shape) * 6) / 4
    if made.kind == "positive":
        found = np.abs(found) + 0.25
    if made.kind == "unit":
        found = np.round(rng.random(shape) * 30 + 1) / 32
    if dtype in COMPLEX:
        found = found + 1j * np.round(rng.standard_normal(shape) * 4) / 4
    elif made.kind == "wild":
        extremes = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 100.0, -30.0, 1e-4]), shape)
        found = np.where(rng.random(shape) < 0.35, extremes, found)
    return found


class Draft:
    """Draws a program's parts."""

    def __init__(self, rng: random.Random, family: str):
        self.rng, self.family = rng, family
        self.arguments: dict[str, Made] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        self.lines: list[str] = []
        self.results: list[str] = []

    def chance(self, p: float) -> bool:
        return self.rng.randint(0, 99) < round(p * 100)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.rng.randint(0, len(items) - 1)]

    def dtype(self, among: Sequence[str] = DTYPES) -> str:
        return self.pick([d for d in among for _ in range(WEIGHTS[d])])

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.rng.randint(least, most)
        return tuple(self.pick((1, 2, 3, 2, 3, 4, 5, 1, 0) if self.chance(0.25) else (2, 3, 4)) for _ in range(rank))

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with another; rarely one that does not."""
        if self.chance(0.04):
            return self.shape()
        found = tuple(1 if self.chance(0.25) else n for n in shape[self.rng.randint(0, len(shape)):])
        return tuple(self.shape(0, 2)) + found if len(found) == len(shape) and self.chance(0.1) else found

    def fresh(self, shape: tuple[int, ...], dtype: str, kind: str = "usual", grad: bool | None = None) -> str:
        """The name of a new argument."""
        name = f"x{len(self.arguments)}"
        inexact = dtype in FLOATS or dtype in COMPLEX
        if grad is None:
            grad = self.chance(0.5 if dtype in ("float32", "float64") else 0.2)
        self.arguments[name] = Made(dtype, shape, kind, self.rng.randint(0, 9999), grad and inexact)
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def tensor(self, shape: tuple[int, ...], dtype: str, kind: str = "usual", grad: bool | None = None,
               plain: float = 0.6) -> str:
        """The name of a tensor: an argument, or some view of one."""
        if not shape or self.chance(plain):
            return self.fresh(shape, dtype, kind, grad)
        which, axis = self.rng.randint(0, 3), self.rng.randint(0, len(shape) - 1)
        if which == 0:
            order = [*range(len(shape))]
            self.rng.shuffle(order)
            base = self.fresh(tuple(shape[order.index(i)] for i in range(len(shape))), dtype, kind, grad)
            how = f"permute({', '.join(str(i) for i in order)})"
            how = how if [self.shapes[base][i] for i in order] == list(shape) else "contiguous()"
        elif which == 1:
            base = self.fresh((*shape[:axis], shape[axis] + 1, *shape[axis + 1:]), dtype, kind, grad)
            how = f"narrow({axis}, 1, {shape[axis]})"
        elif which == 2:
            base = self.fresh((*shape[:axis], 2 * shape[axis], *shape[axis + 1:]), dtype, kind, grad)
            how = f"unflatten({axis}, ({shape[axis]}, 2)).select({axis + 1}, 1)"
        else:
            base = self.fresh((*shape[:axis], 1, *shape[axis + 1:]), dtype, kind, grad)
            how = f"expand({', '.join(str(n) for n in shape)})"
        name = self.let(f"{base}.{how}", result=False)
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def let(self, expression: str, result: bool = True) -> str:
        """The name of a line's value."""
        name = f"r{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        if result:
            self.results.append(name)
        return name

    def case(self) -> Case:
        return Case(self.family, dict(self.arguments), tuple(self.lines), tuple(self.results))

    # --- texts ---------------------------------------------------------------------------------------------------

    def dim(self, rank: int) -> str:
        if self.chance(0.03):
            return str(self.pick((rank, -rank - 1, 7)))
        return str(self.rng.randint(-max(rank, 1), max(rank, 1) - 1))

    def dims(self, rank: int) -> str:
        if self.chance(0.4):
            return self.dim(rank)
        if self.chance(0.06):
            return self.pick(("()", "None", "[]"))
        chosen = self.rng.sample(range(rank), self.rng.randint(min(1, rank), rank))
        if rank and self.chance(0.04):
            chosen.append(chosen[0] if chosen else 0)
        return f"({''.join(f'{d - rank if self.chance(0.3) else d}, ' for d in chosen)})"

    def number(self, whole: bool = False) -> str:
        if whole or self.chance(0.5):
            return str(self.pick((2, 0, 1, -1, 3, -2, 5)))
        if self.chance(0.12):
            return self.pick(("True", "False", "1j", "(2+1j)", "300", "float('inf')", "float('nan')", "1e5", "-129"))
        return str(self.pick((0.5, 1.5, -0.5, 2.0, 0.0, -2.5, 0.1, 3.0)))


def fill(draft: Draft, template: str, **own: Callable[[], str]) -> str:
    """A template's text: one of `<a|b|c>`, and for each `{name}` or `{name:args}` what is drawn for it."""
    while (m := re.search(r"<([^<>]*?\|[^<>]*?)>", template)) is not None:
        template = template[:m.start()] + draft.pick(m[1].split("|")) + template[m.end():]

    def value(m: re.Match[str]) -> str:
        name, _, rest = m[1].partition(":")
        found = own[name]
        return found(*rest.split(",")) if rest else found()

    return re.sub(r"\{(\w+(?::[^{}]*)?)\}", value, template)
