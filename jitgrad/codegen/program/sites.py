"""Places where native code needs Python: failing checks, prints, arithmetic that may raise, rows without a native form.

A `Site` is plain data, so that it can be stored with the object code. What it passes lies in the block: a number is one
word (a Number two, an Optional one more), a tensor its address, sizes and strides (in elements).
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.errors import ErrorName, Span
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, TensorType, Type

SIZE = "size"


@dataclass(slots=True)
class Site:
    """One place.

    Attributes:
        kind: "check", "print", "arithmetic", "library", "callback", "fetch", "callback.vjp" or "pending".
        op: the node's op.
        attrs: its attrs; sizes are replaced by `("dim", i)`: the i-th passed size.
        types: kinds of the values passed (see `kind_of`), or "size".
        result: kind of an arithmetic node's output.
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


def _flat(address: int, size: int, d: dtype) -> np.ndarray[Any, Any]:
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype=d.np)


def array(address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> np.ndarray[Any, Any]:
    """An ndarray over native memory; strides in elements, None: row-major."""
    if 0 in shape:
        return np.empty(tuple(shape), d.np)
    if strides is None:
        count = int(np.prod(shape, dtype=np.int64))
        return _flat(address, count * d.itemsize, d).reshape(tuple(shape))
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    size = (high - low + 1) * d.itemsize
    flat = _flat(address + low * d.itemsize, size, d)
    return np.lib.stride_tricks.as_strided(flat[-low:], tuple(shape), [s * d.itemsize for s in strides])


class Memory:
    """Arrays over a program's memory, and what computes with them."""

    def row(self, op: Any) -> Callable[..., Any]:
        """A row of the op table as a function of such arrays."""
        return functools.partial(op.impl, np)

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> Any:
        """An array over memory; strides in elements, None: row-major."""
        return array(address, shape, strides, d)

    def contiguous(self, value: Any) -> Any:
        """`value` itself, or a copy in row-major order in this memory."""
        return np.require(value, requirements=["C", "A"])

    def address(self, value: Any) -> int:
        """Where the elements of an array begin."""
        return int(value.ctypes.data)

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        """A new array; `d` is a NumPy dtype."""
        return np.empty(shape, d)


HOST = Memory()


def read(block: Any, word: int, kind: Any, memory: Memory = HOST) -> tuple[Any, int]:
    """A passed value and the word after it."""
    if isinstance(kind, (tuple, list)) and kind[0] == "seq":
        from jitgrad.codegen.program.sequences import to_list

        return to_list(block[word], kind, memory), word + 1
    if isinstance(kind, (tuple, list)):
        value, after = read(block, word + 1, kind[1], memory)
        return (value if block[word] else None), after
    if is_tensor(kind):
        d, rank = tensor_kind(kind)
        shape = block[word + 1:word + 1 + rank]
        strides = block[word + 1 + rank:word + 1 + 2 * rank]
        return memory.view(block[word], shape, strides, d), word + 1 + 2 * rank
    if kind == "float":
        return struct.unpack_from("=d", block, 8 * word)[0], word + 1
    if kind == "bool":
        return bool(block[word]), word + 1
    if kind == "number":
        return read(block, word + 1, ("bool", "int", "float")[block[word]])
    return block[word], word + 1


def values(site: Site, block: Any, word: int, memory: Memory = HOST) -> list[Any]:
    """Everything that a site passes."""
    result = []
    for kind in site.types:
        value, word = read(block, word, kind, memory)
        result.append(value)
    return result


def failure(site: Site, block: Any, word: int, memory: Memory = HOST) -> BaseException:
    """The exception of a check that failed."""
    from jitgrad.script.graph.interpret import exception

    template, error = site.attrs["template"], site.attrs["error"]
    if isinstance(error, ErrorName):
        error = error.find()
    return exception(error, template, () if template is None else values(site, block, word, memory))


def pending(sites: Sequence[Site], number: int, block: Any, memory: Memory = HOST) -> Any:
    """What is to be stored after an exception, from the site that says so."""
    from jitgrad.script.graph.unwinding import Pending

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
    from jitgrad.script.graph.interpret import render

    found = values(site, block, word, memory)
    getattr(sys, site.attrs.get("stream", "stdout")).write(render(site.attrs["template"], found))


def run_arithmetic(site: Site, block: Any, word: int, memory: Memory) -> None:
    """Compute a checked number node as Python does; the result goes where the operands were."""
    from jitgrad.script.graph import numbers

    types: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "number": NUMBER}
    result = numbers.compute(site.op, tuple(values(site, block, word)), site.attrs, types[site.result])
    if site.result == "int" and isinstance(result, float):
        raise TypeError(f"`{site.op}` gave a float where the program was compiled for an int")
    if site.result == "number":
        block[word] = 2 if isinstance(result, float) else 0 if isinstance(result, bool) else 1
        word += 1
    struct.pack_into("=d" if isinstance(result, float) else "=q", block, 8 * word, result)


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


RUN: dict[str, Callable[[Site, Any, int, Memory], None]] = {
    "print": run_print, "arithmetic": run_arithmetic, "library": run_library, "callback": run_callback,
    "fetch": run_fetch, "callback.vjp": run_callback_vjp,
}


@cache
def tensor_kind(kind: str) -> tuple[dtype, int]:
    """dtype and rank of "t:float32:2"."""
    _, name, rank = kind.split(":")
    return dtypes.by_name(name), int(rank)


def is_tensor(kind: Any) -> bool:
    """Whether a kind is a tensor's."""
    return isinstance(kind, str) and kind.startswith("t:")


def kind_of(type_: Type) -> Any:
    """How a value of a type travels: "t:float32:2", "int", "float", "bool", "number", ("optional", k) or ("seq", k)."""
    if isinstance(type_, TensorType):
        return f"t:{type_.dtype.name}:{type_.ndim}"
    if isinstance(type_, OptionalType):
        return ("optional", kind_of(type_.elem))
    if isinstance(type_, SeqType):
        return ("seq", kind_of(type_.elem))
    return _NUMBER_KINDS[type_]


_NUMBER_KINDS: dict[Type, str] = {INT: "int", FLOAT: "float", BOOL: "bool", NUMBER: "number"}
