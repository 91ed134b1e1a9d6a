"""Specialisations on disk: a second process skips the frontend, the passes and LLVM.

The key is what can be known before looking: the function's name and code, the call's types, the mode, the versions and
the machine. The entry holds what its compilation read; `fingerprints.load` compares that with this process. Calls
that differ in what only the compilation reads (a gradient that is there from the second step on) have a key in common:
there are as many as `VARIANTS` entries for it, and one more takes the place of the one longest unused.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from jitgrad import config, dtypes
from jitgrad.codegen.run import runtime, store
from jitgrad.codegen.run.serial import pack, unpack
from jitgrad.determinism import are_deterministic_algorithms_enabled
from jitgrad.device import get_default_device
from jitgrad.ops import autocast
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.sources import argument_guards, broken, describe, first_broken
from jitgrad.script.stored import fingerprints
from jitgrad.script.stored.values import NotSavable

#: entries for one key
VARIANTS = 4


def key(function: Any, values: dict[str, Any], mode: tuple[Any, ...],
        lists: Mapping[sig.Source, list_kinds.Kind] = list_kinds.NOTHING) -> str | None:
    """The entry's name for a call, or None where the call cannot be stored."""
    knobs = config.current()
    if not knobs.cache or knobs.interpret or knobs.verify or knobs.dump or knobs.debug >= 3 or (
            knobs.debug_arena):
        return None  # asked to see passes and generated code, which a hit has none of, or for other code
    from jitgrad.eager.autograd.grad_mode import is_grad_enabled

    writer = fingerprints.Writer(function)
    try:
        guards = [writer.guard(g) for name, value in values.items()
                  for g in argument_guards(sig.Arg(name), value, lists=lists)]
        facts = [function.__module__, function.__qualname__, fingerprints.code_hash(function), guards, mode,
                 is_grad_enabled(), repr(autocast.mode.low), dtypes.get_default_dtype().name, str(get_default_device()),
                 are_deterministic_algorithms_enabled(),
                 sorted((describe(source), list_kinds.to_plain(kind)) for source, kind in lists.items())]
    except NotSavable as reason:
        config.log(1, f"{function.__qualname__} is not stored on disk: {reason}")
        return None
    return hashlib.sha256((json.dumps(facts) + runtime.made_by()).encode()).hexdigest()


def _names(entry: str) -> Iterator[str]:
    """The names of the entries for a key."""
    yield entry
    for number in range(1, VARIANTS):
        yield store.key_of(entry, str(number))


def load(entry: str | None, function: Any, values: dict[str, Any]
         ) -> Iterator[tuple[sig.ScriptGraph, GraphFunction]]:
    """The stored specialisations for which all that was read is still so, and which may take the call."""
    disk = store.current()
    if entry is None or disk is None:
        return
    found = [(name, data) for name in _names(entry) if (data := disk.peek(name)) is not None]
    for name, data in found:
        script_bytes, program = unpack(data)
        script = fingerprints.load(function, values, script_bytes)
        if script is None or (len(found) > 1 and first_broken(script.guards, values, broken)):
            continue
        disk.touch(name)
        try:
            yield script, GraphFunction.from_bytes(program)
        except ValueError as reason:  # its code was made for another BLAS than this process has
            config.log(1, f"{function.__qualname__} is compiled again: {reason}")


def save(entry: str | None, function: Any, values: dict[str, Any], script: sig.ScriptGraph,
         compiled: GraphFunction) -> None:
    """Store a specialisation if it can be."""
    if entry is None or not script.functions:
        return
    disk = store.current()
    if disk is None or not compiled.is_storable:
        return
    try:  # first what does not wait for the code generator
        data = fingerprints.dump(function, script, values)
    except NotSavable as reason:
        config.log(1, f"{function.__qualname__} is not stored on disk: {reason}")
        return
    disk.put(min(_names(entry), key=disk.used), pack([data, compiled.to_bytes()]))
