"""How `vmap` reads its arguments and gives its results: which axis of which tensor is the batch's.

Trees are of plain tuples, lists and dicts, leaves are whatever the execution has: eager gives its own objects, a
script what stands for them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.ops.backend import AnyTensor, Batched, backend
from jitgrad.ops.batching.backend import BatchBackend, entered
from jitgrad.ops.batching.rules import repeated
from jitgrad.ops.library.core import alias
from jitgrad.ops.library.shapes.join import cat
from jitgrad.ops.library.shapes.shape import movedim, narrow
from jitgrad.ops.library.sizes import require_equal
from jitgrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


class Options(NamedTuple):
    """The arguments of `vmap`; `name` is its function's."""

    name: str
    in_dims: Any
    out_dims: Any
    randomness: str
    chunk_size: int | None


def check_options(randomness: Any, chunk_size: Any) -> None:
    """What `vmap` says of its options at once."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def structure(spec: TreeSpec) -> str:
    """torch's text of a structure."""
    if spec.type is None:
        return "*"
    keys = None if spec.keys is None else list(spec.keys)
    return f"TreeSpec({spec.type.__name__}, {keys}, [{', '.join(map(structure, spec.children))}])"


def _spread(dims: Any, spec: TreeSpec) -> list[Any] | None:
    """`dims` for every leaf of a structure; None where it is of another one."""
    if not isinstance(dims, (tuple, list, dict)):
        return [dims] * _leaves(spec)
    if type(dims) is not spec.type:
        return None
    if isinstance(dims, dict):
        if set(dims) != set(spec.keys or ()):
            return None
        given: Sequence[Any] = [dims[k] for k in spec.keys or ()]
    else:
        given = dims
        if len(given) != len(spec.children):
            return None
    found: list[Any] = []
    for d, s in zip(given, spec.children, strict=True):
        part = _spread(d, s)
        if part is None:
            return None
        found.extend(part)
    return found


def _leaves(spec: TreeSpec) -> int:
    return 1 if spec.type is None else sum(map(_leaves, spec.children))


# --- arguments -----------------------------------------------------------------------------------------------------


def _in_dims(o: Options, args: tuple[Any, ...], flat: list[Any], spec: TreeSpec) -> list[int | None]:
    """The axis of each leaf, not negative, or None. ValueError, in torch's words, for what does not fit."""
    about = f"vmap({o.name}, in_dims={o.in_dims}, ...)(<inputs>): "
    if not isinstance(o.in_dims, (int, tuple)):
        raise ValueError(f"{about}expected `in_dims` to be int or a (potentially nested) tuple matching the structure "
                         f"of inputs, got: {type(o.in_dims)}.")
    if not args:
        raise ValueError(f"vmap({o.name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying "
                         "to vmap over a function with no inputs. The latter is unsupported.")
    dims = _spread(o.in_dims, spec)
    if dims is None:
        raise ValueError(f"{about}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                         f"{structure(tree_flatten(o.in_dims)[1])} but inputs has structure {structure(spec)}.")
    found: list[int | None] = []
    for x, d in zip(flat, dims, strict=True):
        if d is None:
            found.append(None)
            continue
        if not isinstance(d, int):
            raise ValueError(f"{about}Got in_dim={d} for an input but in_dim must be either an integer dimension or "
                             "None.")
        if not isinstance(x, AnyTensor):
            raise ValueError(f"{about}Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap "
                             "over non-Tensor arguments, please use None as the respective in_dim")
        if not -x.ndim <= d < x.ndim:
            raise ValueError(f"{about}Got in_dim={d} for some input, but that input is a Tensor of dimensionality "
                             f"{x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}.")
        found.append(d % x.ndim)
    return found


def _size(flat: list[Any], dims: list[int | None]) -> Any:
    """The number of items."""
    sizes = [x.shape[d] for x, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: at least one of the inputs must have an in_dim that is not None")
    for size in sizes[1:]:
        require_equal(sizes[0], size, lambda: (
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"[{', '.join(map(str, sizes))}] for the mapped dimension"), ValueError)
    return sizes[0]


# --- results -------------------------------------------------------------------------------------------------------


def _out_dims(o: Options, result: Any, spec: TreeSpec) -> list[Any]:
    """The axis of each result, or None."""
    flat, given = tree_flatten(o.out_dims)
    if not all(d is None or isinstance(d, int) for d in flat):
        raise ValueError(f"vmap({o.name}, ..., out_dims={o.out_dims}): `out_dims` must be an int, None or a python "
                         "collection of ints representing where in the outputs the vmapped dimension should appear.")
    if spec.type is None and isinstance(result, AnyTensor):
        dims = flat if given.type is None or (given.type is tuple and len(flat) == 1) else None
    else:
        dims = _spread(o.out_dims, spec)
    if dims is None:
        raise ValueError(f"vmap({o.name}, ..., out_dims={o.out_dims})(<inputs>): out_dims is not compatible with the "
                         f"structure of `outputs`. out_dims has structure {structure(given)} but outputs has structure "
                         f"{structure(spec)}.")
    return dims


def _left(o: Options, level: BatchBackend, y: Any, d: int | None) -> Any:
    """A result as the world outside sees it."""
    if d is None:
        if isinstance(y, Batched) and y.level is level:
            raise ValueError(f"vmap({o.name}, ...): `{o.name}` can not return a BatchedTensor when out_dim is None")
        return y
    if not isinstance(y, AnyTensor):
        raise ValueError(f"vmap({o.name}, ...): `{o.name}` must only return Tensors, got type {type(y)}. Did you mean "
                         "to set out_dims= to None for output?")
    value = y.value if isinstance(y, Batched) and y.level is level else repeated(level.F, y, level.size)
    return movedim(value, 0, d)


# --- the whole -----------------------------------------------------------------------------------------------------


def mapped(run: Callable[[tuple[Any, ...]], Any], cls: Any, o: Options, args: tuple[Any, ...]) -> Any:
    """The results of `run(args)`, of items: tensors of class `cls`."""
    flat, spec = tree_flatten(args)
    dims = _in_dims(o, args, flat, spec)
    size = _size(flat, dims)
    if o.chunk_size is None:
        return _once(run, cls, o, flat, dims, spec, size)[0]
    return _by_chunks(run, cls, o, flat, dims, spec, size)


def _once(run: Callable[[tuple[Any, ...]], Any], cls: Any, o: Options, flat: list[Any], dims: list[int | None],
          spec: TreeSpec, size: Any) -> tuple[Any, list[Any]]:
    """The results, and the axes of them."""
    level = BatchBackend(backend(), size, o.randomness, cls)
    moved = [x if d is None else level.item_of(alias(x) if d == 0 else movedim(x, d, 0))
             for x, d in zip(flat, dims, strict=True)]
    with entered(level):
        result = run(tree_unflatten(moved, spec))
    leaves, made = tree_flatten(result)
    out = _out_dims(o, result, made)
    return tree_unflatten([_left(o, level, y, d) for y, d in zip(leaves, out, strict=True)], made), out


def _by_chunks(run: Callable[[tuple[Any, ...]], Any], cls: Any, o: Options, flat: list[Any], dims: list[int | None],
               spec: TreeSpec, size: Any) -> Any:
    """As many items at a time as `chunk_size` says, one after another."""
    length = o.chunk_size
    pieces = max(backend().pieces(size, length), 1)
    if pieces == 1:
        return _once(run, cls, o, flat, dims, spec, size)[0]
    parts: list[list[Any]] = []
    for k in range(pieces):
        start = k * length  # type: ignore[operator]
        n = length if k < pieces - 1 else size - start
        piece = [x if d is None else narrow(x, d, start, n) for x, d in zip(flat, dims, strict=True)]
        result, out = _once(run, cls, o, piece, dims, spec, n)
        leaves, made = tree_flatten(result)
        parts.append(leaves)
    joined = [ys[0] if d is None else cat(list(ys), d) for d, *ys in zip(out, *parts, strict=True)]
    return tree_unflatten(joined, made)



