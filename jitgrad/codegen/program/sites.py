"""Places where native code needs Python: failing checks, prints, arithmetic that may raise, rows without a native form.

A `Site` is plain data, so that it can be stored with the object code. What it passes lies in the block: a number is one
word (a Number two, an Optional one more), a tensor its address, sizes and strides (in elements).
"""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.classes import dataclass
from jitgrad.codegen.program.memory import (HOST, Memory, extended, is_long, is_tensor, object_of, read_number,
                                            tensor_kind, write_number)
from jitgrad.codegen.program.sequences import to_list
from jitgrad.errors import ErrorName, Span
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, Type

SIZE = "size"


@dataclass(slots=True)
class Site:
    """One place.

    Attributes:
        kind: "check", "print", "text", "arithmetic", "library", "callback", "fetch", "callback.vjp" or "pending".
        op: the node's op.
        attrs: its attrs; sizes are replaced by `("dim", i)`: the i-th passed size.
        types: kinds of the values passed (see `kind_of`), or "size".
        result: kind of the output of an arithmetic or text node.
        n_inputs: how many of the values a library row reads; the rest it writes.
        span: the user's line.
    """

    kind: str
    op: str
    attrs: dict[str, Any]
    types: list[Any]
    result: Any
    n_inputs: int
    span: Span | None


def read(block: Any, word: int, kind: Any, memory: Memory = HOST) -> tuple[Any, int]:
    """A passed value and the word after it."""
    if isinstance(kind, (tuple, list)) and kind[0] == "seq":
        return to_list(block[word], kind, memory), word + 1
    if isinstance(kind, (tuple, list)):
        value, after = read(block, word + 1, kind[1], memory)
        return (value if block[word] else None), after
    if is_tensor(kind):
        d, rank = tensor_kind(kind)
        shape = block[word + 1:word + 1 + rank]
        strides = block[word + 1 + rank:word + 1 + 2 * rank]
        return memory.view(block[word], shape, strides, d), word + 1 + 2 * rank
    return read_number(block, word, kind)


def values(site: Site, block: Any, word: int, memory: Memory = HOST) -> list[Any]:
    """Everything that a site passes."""
    return several(site.types, block, word, memory)


def several(kinds: Sequence[Any], block: Any, word: int, memory: Memory) -> list[Any]:
    """Values passed one behind the other."""
    result = []
    for kind in kinds:
        value, word = read(block, word, kind, memory)
        result.append(value)
    return result


def failure(site: Site, block: Any, word: int, memory: Memory = HOST) -> BaseException:
    """The exception of a check that failed."""
    from jitgrad.script.graph.effects import exception

    template, error = site.attrs["template"], site.attrs["error"]
    if isinstance(error, ErrorName):
        error = error.find()
    return exception(error, template, () if template is None else values(site, block, word, memory))


def pending(sites: Sequence[Site], number: int, block: Any, memory: Memory = HOST) -> Any:
    """What is to be stored after an exception, from the site that says so."""
    from jitgrad.script.graph.effects import Pending

    chain: list[Site] = []
    while number >= 0:
        chain.append(sites[number])
        number = chain[-1].attrs["more"]
    result: Pending | None = None
    for site in reversed(chain):
        found = [v.copy() if hasattr(v, "dtype") else v for v in values(site, block, site.attrs["word"], memory)]
        result = Pending(site.attrs["recipe"], site.attrs["carried"], site.attrs["hosted"], found, result)
    return result


def annotated(error: BaseException, site: Site) -> BaseException:
    """`error` with a note that shows the user's line."""
    span = site.span
    if span is None or not isinstance(error, Exception):
        return error
    error._place = span  # type: ignore[attr-defined]  # for `tracebacks.show_lines`
    if not hasattr(error, "span"):
        error.span = span  # type: ignore[attr-defined]
        chain = span.chain()
        error.add_note(f"{span}\n{span.excerpt()}" + (f"\n{chain}" if chain else ""))
    return error


# --- what the call-back runs ---


def run_print(site: Site, block: Any, word: int, memory: Memory) -> None:
    from jitgrad.ops.texts import render

    found = values(site, block, word, memory)
    getattr(sys, site.attrs.get("stream", "stdout")).write(render(site.attrs["template"], found))


def run_text(site: Site, block: Any, word: int, memory: Memory) -> Any:
    """Compute a string, or what is asked of one; a string for the caller to keep."""
    from jitgrad.ops.texts import compute, grows

    long = object_of(block[word]) if site.types[:1] == ["str"] and grows(site.attrs) else ""
    if is_long(long):
        result = extended(long, compute(site.attrs, ["", *several(site.types[1:], block, word + 1, memory)]))
    else:
        result = compute(site.attrs, values(site, block, word, memory))
    write_number(block, word, site.result, result)
    return result if site.result == "str" else None


def run_arithmetic(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Compute a checked number node as Python does; the result goes where the operands were."""
    from jitgrad.script.graph import numbers

    types: dict[str, Type] = {t.name: t for t in (INT, FLOAT, BOOL, NUMBER)}
    result = numbers.compute(site.op, tuple(values(site, block, word)), site.attrs, types[site.result])
    if site.result == "int" and isinstance(result, float):
        raise TypeError(f"`{site.op}` gave a float where the program was compiled for an int")
    write_number(block, word, site.result, result)


def run_library(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Run a row's `impl` on the inputs and copy the results into the outputs."""
    from jitgrad.ops import OPS

    found = values(site, block, word, memory)
    count = sum(kind != SIZE for kind in site.types)
    sizes, found = found[count:], found[:count]
    inputs, outputs = found[:site.n_inputs], found[site.n_inputs:]
    attrs = {k: _attr(a, sizes) for k, a in site.attrs.items()}
    with np.errstate(all="ignore"):
        results = memory.row(OPS[site.op])(*inputs, **attrs)
    if site.op == "nonzero":
        outputs[0][...] = len(results)
        outputs[1][:len(results)] = results
        return
    for target, result in zip(outputs, results if isinstance(results, (tuple, list)) else (results,), strict=True):
        target[...] = result


def run_callback(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Call a Python function. What it returns goes to memory, but for tensors of unforeseen sizes: those are kept, and
    their sizes passed.
    """
    found = values(site, block, word, memory)
    targets = iter(found[site.n_inputs:])
    late: list[Any] = []
    call = site.attrs["call"]
    sizes: list[int] = []
    for k, result in enumerate(call.run(found[:site.n_inputs])):
        free = call.free_axes(k)
        if free:
            sizes += [result.shape[a] for a in free]
            late.append(result)
        else:
            next(targets)[...] = memory.contiguous(result) if hasattr(result, "dtype") else result
    for n in sizes:
        next(targets)[...] = n
    _late.results = late


def run_fetch(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Bring to memory what the call-back just returned."""
    for target, result in zip(values(site, block, word, memory), _late.results, strict=True):
        target[...] = memory.contiguous(result)
    _late.results = []


def run_callback_vjp(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Run the tape of a call-back."""
    found = values(site, block, word, memory)
    given, results = found[:site.n_inputs], found[site.n_inputs:]
    wanted = site.attrs["wanted"]
    for k, g in enumerate(site.attrs["call"].backward(given[0], wanted, site.attrs["present"], given[1:])):
        results[k][...] = 0 if g is None else memory.contiguous(g)
        results[len(wanted) + k][...] = g is not None


class _Late(threading.local):
    """Results of the last call-back of this thread that wait for memory."""

    results: Any = ()


_late = _Late()


def _attr(value: Any, sizes: Sequence[int]) -> Any:
    if isinstance(value, tuple):
        if len(value) == 2 and value[0] == "dim":
            return sizes[value[1]]
        return tuple(_attr(v, sizes) for v in value)
    return value


#: what runs at a site; what it gives lives as long as the call
RUN: dict[str, Callable[[Site, Any, int, Memory], Any]] = {
    "print": run_print, "text": run_text, "arithmetic": run_arithmetic, "library": run_library,
    "callback": run_callback, "fetch": run_fetch, "callback.vjp": run_callback_vjp,
}
