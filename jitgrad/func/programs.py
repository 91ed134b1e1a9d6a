"""What programs that are made of functions need besides their derivatives: linear approximations, modules without
running statistics, axes by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.func.transforms import jvp
from jitgrad.nn.module import Module
from jitgrad.nn.modules.normalization import _BatchNorm


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)`, and the function of tangents, of the primals' structure, that gives the derivative there.

    >>> import jitgrad
    >>> y, slope = jitgrad.func.linearize(jitgrad.sin, jitgrad.tensor(0.0))
    >>> y, slope(jitgrad.tensor(2.0))
    (tensor(0.), tensor(2.))
    """
    def along(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), along


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` itself: graphs of scripts have no writes and no views, whatever the function does, and arguments that it
    writes to are written to. RuntimeError for another `remove` than torch's "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError("functionalize(f, remove='mutations'): only the arguments 'mutations' and "
                           f"'mutations_and_views' are valid, but got {remove!r}")
    return func


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Take the running statistics from all batch norms of a module, which `vmap` could not write; the module."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def _groups(side: str) -> list[list[str]]:
    """The names of each axis of one side: one, none for a 1, several for what stands in brackets."""
    found: list[list[str]] = []
    within = False
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        if token in ("(", ")"):
            if within == (token == "("):
                raise ValueError(f"brackets are not balanced, or nested, in `{side.strip()}`")
            within = token == "("
            if within:
                found.append([])
            continue
        if token != "..." and token != "1" and not token.isidentifier():
            raise ValueError(f"`{token}` is no name of an axis")
        names = [] if token == "1" else [token]
        if within:
            found[-1] += names
        else:
            found.append(names)
    if within:
        raise ValueError(f"brackets are not balanced in `{side.strip()}`")
    return found


def _spelt(groups: list[list[str]], dots: list[str]) -> list[list[str]]:
    """The axes with numbers for `...`: an axis for each, or in brackets all in one."""
    found: list[list[str]] = []
    for group in groups:
        if group == ["..."]:
            found += [[d] for d in dots]
        else:
            found.append([one for name in group for one in (dots if name == "..." else [name])])
    return found


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """A tensor, or a list of them along a new first axis, with axes moved, split and joined as names say.

    Args:
        pattern: "b c (h w) -> b h w c": names of axes before and after; in brackets those that are one axis; `...`
            for any others; 1 for an axis of one.
        axes_lengths: the sizes of names, where they do not follow.

    ValueError for patterns that do not fit. Source: Rogozhnikov, "Einops", 2022.

    >>> import jitgrad
    >>> jitgrad.func.rearrange(jitgrad.arange(6), "(a b) -> b a", a=2)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    x: Any = tensor if isinstance(tensor, Tensor) else jitgrad.stack(list(tensor))
    if pattern.count("->") != 1:
        raise ValueError("the pattern must have one `->`")
    before, after = [_groups(side) for side in pattern.split("->")]
    dots = [str(k) for k in range(x.dim() - len(before) + 1)]
    axes, results = _spelt(before, dots), _spelt(after, dots)
    if len(axes) != x.dim():
        raise ValueError(f"the pattern `{pattern}` is of {len(axes)} axes, but the tensor has {x.dim()}")
    names, wanted = [[name for axis in side for name in axis] for side in (axes, results)]
    if len(set(names)) != len(names) or sorted(names) != sorted(wanted):
        raise ValueError("each axis must be named once on either side of the pattern")
    sizes: dict[str, Any] = dict(axes_lengths)
    for axis, n in zip(axes, x.shape, strict=True):
        unknown = [name for name in axis if name not in sizes]
        known = math.prod([sizes[name] for name in axis if name in sizes])
        if len(unknown) > 1 or (known and n % known) or (not unknown and known != n):
            raise ValueError(f"an axis of {n} cannot be that of ({' '.join(axis)})")
        for name in unknown:
            sizes[name] = n // known
    x = x.reshape([sizes[name] for name in names]).permute([names.index(name) for name in wanted])
    found: Tensor = x.reshape([math.prod([sizes[name] for name in axis]) for axis in results])
    return found
