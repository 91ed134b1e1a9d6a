"""Which containers live in pools: what earlier evaluations found out about that.

A container that is put into a list or dict of run-time length is copied there by what it holds, which is what kernels
read best. A change of such a copy, or the question which object it is, begins the evaluation again with `POOLS`:
containers that are put into such lists are then entries of pools, referred to by number (`templates/pools.py`). One
that was made further out begins it again with its site: it is an entry from where it is made.
"""

from typing import Any

from jitgrad.script.frontend.state.context import REFERENCES, SHORT_LOOPS, Context, Restart

#: the decision that containers in lists of run-time length are entries of pools
POOLS = ("pools",)
#: the decision that all objects of a class of the user's are in one pool, wherever they are made
OBJECTS = ("objects in pools",)
#: names refer to objects then, which may be entries
IMPLIED = {POOLS: REFERENCES, OBJECTS: REFERENCES}
_WHY = "a list, dict or object in a list of run-time length is changed: such containers live in pools"


def wanted(context: Context) -> bool:
    """Whether containers that are put into lists of run-time length live in pools."""
    return bool({POOLS, OBJECTS} & context.decisions) and SHORT_LOOPS not in context.decisions


def begin(context: Context) -> None:
    """Begin again with pools, if that has not been tried; names refer to objects then."""
    if {POOLS, SHORT_LOOPS}.isdisjoint(context.decisions):
        raise Restart(POOLS, _WHY)


def is_pooled(context: Context, site: Any) -> bool:
    """Whether what a site makes lives in a pool from the start."""
    return wanted(context) and ("pool", site) in context.decisions


def ask(context: Context, container: Any) -> None:
    """Begin again with a container in a pool from where it is made, if that has not been tried."""
    site = container.site
    if site is not None and not is_pooled(context, site):
        raise Restart(("pool", site), f"what {site[0]} makes lives in a pool")


def unite(context: Context, one: Any, other: Any) -> Restart:
    """The evaluation in which what two sites make lives in one pool."""
    return Restart(("one pool", one, other), f"what {one[0]} and {other[0]} make lives in one pool")


class Unions:
    """Which sites' pools are one."""

    def __init__(self) -> None:
        self._parents: dict[Any, Any] | None = None

    def root(self, context: Context, site: Any) -> Any:
        """The site that stands for all with the pool of `site`."""
        if self._parents is None:
            self._parents = {}
            for decision in context.decisions:
                if isinstance(decision, tuple) and decision[0] == "one pool":
                    one, other = (self._find(s) for s in decision[1:])
                    if one != other:
                        first, second = sorted((one, other), key=repr)
                        self._parents[second] = first
        return self._find(site)

    def _find(self, site: Any) -> Any:
        assert self._parents is not None
        while site in self._parents:
            site = self._parents[site]
        return site
