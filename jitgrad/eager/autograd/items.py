"""A custom Function inside `func.vmap`: its own rule for batches, or one item after another."""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.ops.backend import Batched, backend, using
from jitgrad.ops.batching.backend import BatchBackend
from jitgrad.ops.batching.rules import repeated
from jitgrad.ops.library.shapes.join import stack
from jitgrad.ops.library.shapes.shape import movedim


class VmapInfo(NamedTuple):
    """What `Function.vmap` is told."""

    batch_size: int
    randomness: str


def apply_to_items(cls: Any, ruled: bool, args: tuple[Any, ...]) -> Any:
    """`cls.apply(*args)`, where arguments are items of batches; `ruled`: the class has a rule for batches."""
    level: Any = backend()
    if not isinstance(level, BatchBackend):  # its vmap has returned
        escaped: Any = next(a for a in args if isinstance(a, Batched))
        return escaped._data
    batched = [level.has(a) for a in args]
    if True not in batched:
        with using(level.around):
            return cls.apply(*args)
    if ruled and cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
                           "overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the overriden "
                           "vmap staticmethod to avoid ambiguity.")
    if not ruled and not cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override "
                           "and implement the vmap staticmethod or set generate_vmap_rule=True.")
    given = [a.value if b else a for a, b in zip(args, batched, strict=True)]
    with using(level.around):
        if ruled:
            info = VmapInfo(level.size, level.randomness)
            result, out = cls.vmap(info, tuple([0 if b else None for b in batched]), *given)
        else:
            result, out = _one_by_one(cls, level, given, batched), 0
    several = isinstance(result, (tuple, list))
    ys = list(result) if several else [result]
    axes = list(out) if isinstance(out, (tuple, list)) else [out] * len(ys)
    found = tuple([y if d is None else level.item_of(movedim(y, d, 0)) for y, d in zip(ys, axes, strict=True)])
    return found if several else found[0]


def _one_by_one(cls: Any, level: BatchBackend, given: list[Any], batched: list[bool]) -> Any:
    """The results of each item, stacked; of none, those of zeros have the shapes."""
    items = max(level.size, 1)
    source = given if level.size else [repeated(level.F, a.new_zeros(a.shape[1:]), 1) if b else a
                                       for a, b in zip(given, batched, strict=True)]
    rows = [cls.apply(*[a[k] if b else a for a, b in zip(source, batched, strict=True)]) for k in range(items)]
    if isinstance(rows[0], (tuple, list)):
        return tuple([stack(list(column))[: level.size] for column in zip(*rows, strict=True)])
    return stack(rows)[: level.size]
