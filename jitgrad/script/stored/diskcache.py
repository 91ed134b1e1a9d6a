"""Specialisations on disk: a second process skips the frontend, the passes and LLVM.

The key is what can be known before looking: the function's name and code, the call's types, the mode, the versions and
the machine. The entry holds what its compilation read; `persist.load` compares that with this process. An entry that
cannot be used is overwritten by the compilation that follows.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from jitgrad import config, dtypes
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import store
from jitgrad.codegen.run.serial import pack, unpack
from jitgrad.determinism import are_deterministic_algorithms_enabled
from jitgrad.device import get_default_device
from jitgrad.ops import autocast
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.sources import argument_guards, describe
from jitgrad.script.stored import fingerprints
from jitgrad.script.stored.values import NotSavable


@functools.cache
def _build() -> str:
    """What every entry depends on: this package's own files, Python, LLVM and the processor."""
    files: list[tuple[str, int, int]] = []
    folders = [os.path.dirname(os.path.dirname(os.path.dirname(__file__)))]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.name.endswith((".py", ".txt")):
                    status = entry.stat()
                    files.append((entry.path, status.st_size, status.st_mtime_ns))
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return json.dumps([sorted(files), sys.version, engine.host().identity])


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
    except NotSavable:
        return None
    return hashlib.sha256((json.dumps(facts) + _build()).encode()).hexdigest()


def load(entry: str | None, function: Any, values: dict[str, Any]) -> tuple[sig.ScriptGraph, GraphFunction] | None:
    """The stored specialisation, if there is one and all that it read is still so."""
    if entry is None:
        return None
    disk = store.current()
    data = None if disk is None else disk.get(entry)
    if data is None:
        return None
    script_bytes, program = unpack(data)
    script = fingerprints.load(function, values, script_bytes)
    if script is None:
        return None
    try:
        return script, GraphFunction.from_bytes(program)
    except ValueError as reason:  # its code was made for another BLAS than this process has
        config.log(1, f"{function.__qualname__} is compiled again: {reason}")
        return None


def save(entry: str | None, function: Any, values: dict[str, Any], script: sig.ScriptGraph,
         compiled: GraphFunction) -> None:
    """Store a specialisation if it can be."""
    if entry is None or not script.functions:
        return
    disk = store.current()
    program = compiled.to_bytes() if disk is not None else None
    if disk is None or program is None:
        return
    try:
        data = fingerprints.dump(function, script, values)
    except NotSavable as reason:
        config.log(1, f"{function.__qualname__} is not stored on disk: {reason}")
        return
    disk.put(entry, pack([data, program]))
