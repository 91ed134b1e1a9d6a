"""Paths of views: what of a storage a reference shows, and a storage of which that is replaced."""

from collections.abc import Callable, Mapping
from typing import Any

from jitgrad import dims
from jitgrad.dtypes import bool_, int64
from jitgrad.eager.arrays.mirrors import OVERLAP
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.state import joined
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.graph.ir import Value, map_attr
from jitgrad.script.graph.irops import infer

Path = tuple[tuple[str, Mapping[str, Any]], ...]
#: the attribute of an alias by which a path says that the tensor is one item of a batch (`batches/items.py`)
ITEM = "item"


def marks(path: Path) -> Path:
    """What of a path says of which batches the tensor is an item."""
    return tuple([step for step in path if ITEM in step[1]])


def paths_equal(a: Path, b: Path) -> bool:
    """Whether two paths show the same."""
    return len(a) == len(b) and all(x == y and dict(m) == dict(n) for (x, m), (y, n) in zip(a, b, strict=True))


def mapped(path: Path, change: Callable[[Any], Any]) -> Path:
    """A path with changed attributes. Steps without any are the same objects: calls of `detach` are told apart so."""
    return tuple([(op, {k: map_attr(a, change) for k, a in attrs.items()}) if attrs else (op, attrs)
                  for op, attrs in path])


def is_tensor(a: Path, b: Path) -> bool:
    """Whether two paths show the same tensor: they show the same, detached by the same calls."""
    return len(a) == len(b) and all(m is n for (op, m), (_, n) in zip(a, b, strict=True) if op == "detach") and (
        paths_equal(a, b))


def key(path: Path) -> tuple[tuple[str, str, Any], ...]:
    """A key, the same one for paths that show the same tensor (`is_tensor`)."""
    return tuple([(op, str(attrs), op == "detach" and id(attrs)) for op, attrs in path])


def view_type(type_: Any, path: Any) -> Any:
    """The type of a view."""
    for op, attrs in path:
        (type_,) = infer(op, (type_,), attrs)
    return type_


def apply_view(context: Context, value: Value, op: str, attrs: Mapping[str, Any]) -> Value:
    """One view op on a value, emitted once per scope."""
    if op == "alias":
        return value
    key = (value, op, tuple(sorted(attrs.items())))
    found: Value = context.recall(key) or context.remember(
        key, joined.selected(context, value, op, attrs) or context.one(op, value, **attrs))
    return found


def require_apart(path: Path) -> None:
    """RuntimeError for a view that shows an element in several places."""
    if any(op == "expand" for op, _ in path):
        raise RuntimeError(OVERLAP)


def put(context: Context, x: Value, path: Path, value: Value) -> Value:
    """`x` with what a path of views shows of it replaced by `value`."""
    if not path:
        return value
    assert isinstance(x.type, TensorType)
    (op, attrs), *rest = path
    shape, count = x.type.dims, dims.product(x.type.dims)
    if op == "windows":  # they may show an element in several places, of which the last is what is written
        require_apart(path)
        assert isinstance(value.type, TensorType)
        more = dims.product(value.type.dims)
        numbers = context.one("arange", length=count + more, dtype=int64)
        own, written = [context.one("slice", numbers, axis=0, start=start, length=length, step=1)
                        for start, length in ((0, count), (count, more))]
        places = context.one("reshape", own, shape=shape)
        for name, how in path:
            places = apply_view(context, places, name, how)
        written = context.one("reshape", written, shape=value.type.dims)
        chosen = context.one("index_put", own, written, places, axes=(0,), accumulate=False)
        both = [context.one("reshape", v, shape=(n,)) for v, n in ((x, count), (value, more))]
        flat = context.one("index", context.one("cat", *both, axis=0), chosen, axes=(0,))
        return context.one("reshape", flat, shape=shape)
    value = put(context, apply_view(context, x, op, attrs), tuple(rest), value)
    require_apart(path[:1])
    if op == "reshape":
        return context.one("reshape", value, shape=shape)
    if op == "permute":
        axes = attrs["axes"]
        return context.one("permute", value, axes=tuple(axes.index(i) for i in range(len(axes))))
    if op in ("squeeze", "unsqueeze"):
        return context.one("unsqueeze" if op == "squeeze" else "squeeze", value, axis=attrs["axis"])
    if op == "view_dtype" and attrs["dtype"] is bool_ is not x.type.dtype:
        raise UnsupportedCall("a write to numbers that are seen as bools, which have not all their bits",
                              context.span(), hint="write to `x.view(torch.uint8)`")
    if op == "view_dtype":  # every bit is in the view: the way back is one, too
        return context.one("view_dtype", value, dtype=x.type.dtype)
    if op in ("alias", "detach"):
        return value
    return context.one(f"{op}_scatter", x, value, **attrs)
