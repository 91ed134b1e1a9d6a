"""Nested tuples, lists and dicts as a flat list of leaves and the structure around them (torch.utils._pytree)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class TreeSpec(NamedTuple):
    """A structure without its leaves. `type` is None for a leaf; `keys` are a dict's."""

    type: Any
    keys: tuple[Any, ...] | None
    children: tuple[TreeSpec, ...]


LEAF = TreeSpec(None, None, ())


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves in order (a dict's in the order of insertion), and the structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeSpec:
    if isinstance(tree, (tuple, list)):
        return TreeSpec(type(tree), None, tuple([_flatten(t, leaves) for t in tree]))
    if isinstance(tree, dict):
        return TreeSpec(type(tree), tuple(tree), tuple([_flatten(t, leaves) for t in tree.values()]))
    leaves.append(tree)
    return LEAF


def tree_unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """The inverse of `tree_flatten`."""
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [_unflatten(leaves, s) for s in spec.children]
    if spec.keys is not None:
        return spec.type(zip(spec.keys, children, strict=True))
    if hasattr(spec.type, "_fields"):
        return spec.type(*children)
    return spec.type(children)


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`function` of every leaf, and of the leaves in the same places of `rest`."""
    leaves, spec = tree_flatten(tree)
    others = [tree_flatten(t)[0] for t in rest]
    return tree_unflatten([function(*xs) for xs in zip(leaves, *others, strict=True)], spec)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree)[0]
