"""Locations of the state: what stands there, also before anything is assigned."""

from typing import Any

from jitgrad.script.frontend.state import versions
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.values.values import HELD, UNBOUND, Pool, Storage

#: what is counted from 0: items, writes (versions.py), tensors that have numbers (item_origins.py)
COUNTS = frozenset({"stored", "taken", "version", "execution", "spoiled", "written", "births"})


def fetch(context: Context, state: State, key: Any) -> Any:
    """The content of a location in `state`, or what it holds before anything is assigned."""
    values = state.values
    if key in values:
        return values[key]
    if isinstance(key, Pool):
        return key.initial
    if isinstance(key, (Storage, *HELD)):
        return context.inputs.initial(key)
    initial = getattr(key, "initial", None)
    if initial is not None:  # an item of a dict (foreign_dicts.py)
        return initial(context)
    if key[0] == "rng":
        return context.inputs.random_state("seed" if len(key) > 1 else "offset")
    if key[0] in ("attr", "global", "cell"):
        return context.inputs.initial_attribute(key)
    if key[0] == "version" and key[2] == versions.LACKS:
        return versions.lacks(context, state, key[1])
    if key[0] in COUNTS:
        return 0
    if key[0] == "grad":
        return context.inputs.initial_grad(key[1])
    if key[1] in ("return", "break", "continue"):
        return False
    return UNBOUND
