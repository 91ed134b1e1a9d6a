"""From Python to native code: one generated function per program, and what happens when native code needs Python.

The generated function takes a workspace from a pool (a call's memory: never shared by two calls under way), makes the
output arrays, packs the numbers, calls, and returns the results. It knows only what `Interface` says, which is plain
data: so a program loaded from the disk is launched by the same code.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad import dims
from jitgrad.classes import dataclass, field
from jitgrad.codegen.program import sites
from jitgrad.codegen.program.layout import Status, Word
from jitgrad.codegen.program.memory import HOST, Memory, is_tensor, payload, read_number, tensor_kind, write_number
from jitgrad.codegen.program.sequences import Arena, SeqHandle, free_chunks, from_list
from jitgrad.codegen.program.sites import Site
from jitgrad.codegen.run import generated, runtime
from jitgrad.codegen.run.blocks import EMPTY, numpy_function
from jitgrad.eager.arrays import blocks
from jitgrad.eager.inplace import put_back

#: how a value travels: see `memory.kind_of`
Kind = Any
_FORMAT = {"int": "q", "bool": "q", "float": "d"}
#: what makes a word a number
_WORDS = {"int": "", "bool": " != 0"}
#: a size that is an input's, or a number
_SIZE = re.compile(r"s(\d+)_\[(\d+)\]|\d+")


@dataclass(slots=True)
class OutputPlan:
    """One result. `shape`: Python expressions over `s<input>_<axis>` where the launcher makes the array; `flags`: the
    words that say whether it is there, if it is an Optional.
    """

    kind: Kind
    shape: tuple[str, ...] | None = None
    word: int = -1
    flags: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Interface:
    """All that launching needs to know of a program. `pointers`, `sizes`: see `Layout`; `hosted`: see `lower`."""

    name: str
    inputs: list[Kind]
    numbers: dict[int, int]
    outputs: list[OutputPlan]
    commits: dict[int, int]
    written: list[int]
    growable: list[int]
    words: int
    sites: list[Site] = field(default_factory=list)
    pointers: dict[int, int] = field(default_factory=dict)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)
    hosted: list[int] = field(default_factory=list)


# --- the layout of Python's objects ---


def _find_offsets() -> tuple[int, int, int]:
    """Byte offsets of an ndarray's data, dims and flags: found, not assumed."""
    probe = np.arange(6, dtype=np.int32).reshape(2, 3)
    words = (ctypes.c_size_t * 12).from_address(id(probe))
    address = probe.__array_interface__["data"][0]
    first = next(i for i in range(12) if words[i] == address)
    data = 8 * first
    shape = (ctypes.c_ssize_t * 2).from_address(words[first + 2])
    flags = (ctypes.c_int32 * 1).from_address(id(probe) + data + 48)
    transposed = (ctypes.c_int32 * 1).from_address(id(probe.T) + data + 48)
    aligned = 0x100
    if tuple(shape) != (2, 3) or flags[0] & 0x101 != 0x101 or not flags[0] & aligned or transposed[0] & 1:
        raise ImportError("this NumPy lays out its arrays in an unknown way; jitgrad cannot pass them to native code")
    return data, data + 16, data + 48


ARRAY_DATA, ARRAY_DIMS, ARRAY_FLAGS = _find_offsets()

# --- workspaces ---

live: weakref.WeakValueDictionary[int, Workspace] = weakref.WeakValueDictionary()
_libc = ctypes.CDLL(None)
_free = _libc.free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


class Workspace:
    """The memory of one call under way; used again by later calls."""

    __slots__ = ("__weakref__", "address", "block", "error", "interface", "texts")
    memory: Memory = HOST

    def __init__(self, interface: Interface):
        self.interface = interface
        self.block = (ctypes.c_int64 * interface.words)()
        self.address = ctypes.addressof(self.block)
        self.block[Word.DATA_OFFSET], self.block[Word.DIMS_OFFSET], self.block[Word.FLAGS_OFFSET] = (
            ARRAY_DATA, ARRAY_DIMS, ARRAY_FLAGS)
        self.error: BaseException | None = None
        self.texts: list[Any] = []  # what the handles of strings stand for
        live[self.address] = self

    def __del__(self, release: Any = free_chunks) -> None:
        self.free()
        release(self.block[Word.ARENA])

    def flush(self) -> None:
        """Before Python looks at the memory: nothing is outstanding."""

    def free(self, free: Any = _free) -> None:
        """Give back the memory of slots."""
        for word in (Word.WORKSPACE, *self.interface.growable):
            if self.block[word]:
                free(self.block[word])


# --- from native code into Python ---


def _callback(address: int, number: int) -> int:
    """What native code calls for prints, library rows and arithmetic that Python must do. 1: all went well."""
    workspace = live[address]
    try:
        site = workspace.interface.sites[number]
        if site.kind != "arithmetic":
            workspace.flush()
        kept = sites.RUN[site.kind](site, workspace.block, Word.FIRST_FREE, workspace.memory)
        if kept is not None:
            workspace.texts.append(kept)
    except BaseException as error:
        workspace.error = sites.annotated(error, workspace.interface.sites[number])
        return 0
    return 1


_callback_function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_callback)


def callback_symbols() -> dict[str, int]:
    """Addresses of what generated code calls in this process."""
    return {"jg_callback": ctypes.cast(_callback_function, ctypes.c_void_p).value or 0}


def raise_status(status: int, workspace: Workspace) -> NoReturn:
    """Turn a native status into the exception that it means."""
    block = workspace.block
    if status == Status.NO_MEMORY:
        raise MemoryError("a compiled function could not allocate its workspace")
    if status == Status.FAILED:
        site = workspace.interface.sites[block[Word.SITE]]
        error = sites.annotated(sites.failure(site, block, Word.FIRST_FREE, workspace.memory), site)
        raise _with_pending(error, workspace)
    raised, workspace.error = workspace.error, None
    if raised is not None:
        raise _with_pending(raised, workspace)
    if block[Word.SITE] == -1:  # a signal handler raised while native code looked at signals
        restore = ctypes.pythonapi.PyErr_Restore
        restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
        block[Word.SITE] = 0
        restore(block[Word.FIRST_FREE] or None, block[Word.FIRST_FREE + 1] or None, block[Word.FIRST_FREE + 2] or None)
    raise KeyboardInterrupt  # raised before the call-back's first instruction


def _with_pending(error: BaseException, workspace: Workspace) -> BaseException:
    """`error`, which knows what is to be stored before it is raised on (`script.leaving`)."""
    left, workspace.block[Word.LEFT] = workspace.block[Word.LEFT], 0
    if left:
        error._pending = sites.pending(  # type: ignore[attr-defined]
            workspace.interface.sites, left - 1, workspace.block, workspace.memory)
    return error


# --- the generated function ---


class Launcher:
    """Makes the Python function of a program at a native address. `code` is what keeps the machine code loaded.

    `keeps_large`: whether memory of large results is kept for others (`eager/arrays/blocks.py`).
    """

    keeps_large = True

    def __init__(self, interface: Interface, address: int, code: Any = None):
        self.interface, self.code = interface, code
        self.native = self.callable(address)
        self.arenas: list[int] = []  # of sequences that are gone
        self.scope: dict[str, Any] = {
            "native": self.native, "pool": [], "make": lambda: Workspace(interface), "empty": np.empty,
            "large": blocks.empty, "failed": self.failed, "dims": dims.FUNCTIONS,
            "finish": raise_status, "commits": self.commits, "decode": decode, "encode": encode, "from_list": from_list,
            "handles": self.handles, "memory": HOST,
        }

    def callable(self, address: int) -> Callable[..., int]:
        """The native code as a function of a workspace's address and arrays."""
        return runtime.builtin("jg_run", address, self.code)

    def build(self) -> Callable[..., list[Any]]:
        """Generate and evaluate the source (which is ours: indices, formats and sizes only)."""
        exec(generated.code(self.source(), f"<jitgrad launcher {self.interface.name}>"), self.scope)
        function: Callable[..., list[Any]] = self.scope["launch"]
        return function

    def source(self) -> str:
        """The function's text."""
        face = self.interface
        lines = ["def launch(inputs, on_commit=None):"]
        lines.append("    try:\n        w = pool.pop()\n    except IndexError:\n        w = make()")
        lines += self.beginning()
        arrays = []
        for k, kind in enumerate(face.inputs):
            if is_tensor(kind):
                arrays.append(f"i{k}")
            elif is_tensor(payload(kind)):
                d, rank = tensor_kind(payload(kind))
                self.scope[f"e{k}"] = np.empty((0,) * rank, d.np)
                arrays.append(f"(e{k} if i{k} is None else i{k})")
        results = [f"o{k}" for k, output in enumerate(face.outputs) if output.shape is not None]
        lines += self.fresh(results, [*[f"    {line}" for line in self.sizes()], *self.outputs()])
        lines += self.numbers()
        items = [*arrays, *results]
        lines.append(f"    status = native({', '.join(['w.address', *items])})")
        lines.append("    if status:")
        lines.append(f"        items = failed(status, w, [{', '.join(items)}], {len(arrays)}, on_commit)")
        lines += [f"    {line}" for line in self.committing()]
        return "\n".join([*lines, *self.ending()])

    def beginning(self) -> list[str]:
        """The inputs, lists as sequences."""
        lines = []
        if self.interface.inputs:
            lines.append(f"    {', '.join(f'i{k}' for k in range(len(self.interface.inputs)))}, = inputs")
        for k, kind in enumerate(self.interface.inputs):
            if isinstance(payload(kind), tuple):
                self.scope[f"k{k}i"] = kind
                lines.append(f"    if type(i{k}) is list:\n        i{k} = from_list(i{k}, k{k}i, memory)")
        return lines

    def fresh(self, results: Sequence[str], made: Sequence[str]) -> list[str]:
        """New arrays for results, at once where their sizes are those of inputs and numbers; else they are `made`."""
        arguments: dict[str, int] = {}
        records: list[int] = []
        dtypes = []
        for output in self.interface.outputs:
            if output.shape is None:
                continue
            d, rank = tensor_kind(payload(output.kind))
            dtypes.append(d.np)
            records += [id(d.np), d.itemsize, rank]
            for size in output.shape:
                known = _SIZE.fullmatch(size)
                if known is None or (known[1] and not is_tensor(self.interface.inputs[int(known[1])])):
                    return [*made]
                records += ([arguments.setdefault(f"i{known[1]}", len(arguments)), int(known[2])] if known[1]
                            else [-1, int(known[0])])
        if not results:
            return []
        table = (ctypes.c_int64 * (4 + len(records)))(
            numpy_function(EMPTY), ARRAY_DIMS, blocks.LEAST, len(results), *records)
        self.scope["fresh"] = runtime.builtin("jg_results", ctypes.addressof(table), (table, dtypes))
        return [f"    made = fresh({', '.join(arguments)})", "    if made:", f"        {', '.join(results)}, = made",
                "    else:", *[f"    {line}" for line in made]]

    def outputs(self) -> list[str]:
        """New arrays for results. A size that is negative is none: the program will say so."""
        lines, again = [], []
        for k, output in enumerate(self.interface.outputs):
            if output.shape is not None:
                d = tensor_kind(payload(output.kind))[0]
                self.scope[f"t{k}"] = d.np
                shape = ", ".join(output.shape) + ("," if output.shape else "")
                make, least = "empty", -(-blocks.LEAST // d.itemsize)
                if all(size.isdecimal() for size in output.shape):
                    make = "large" if self.keeps_large and math.prod(map(int, output.shape)) >= least else make
                elif output.shape and self.keeps_large:
                    make = f"(large if {' * '.join(f'({size})' for size in output.shape)} >= {least} else empty)"
                lines.append(f"    o{k} = {make}(({shape}), t{k})")
                again.append(f"    o{k} = empty(tuple([max(n, 0) for n in ({shape})]), t{k})")
        if any("-" in size for output in self.interface.outputs for size in output.shape or ()):
            return ["    try:", *[f"    {line}" for line in lines], "    except ValueError:",
                    *[f"    {line}" for line in again]]
        return lines

    def numbers(self) -> list[str]:
        """Numbers into the block, and that no input is committed to yet."""
        return [*[f"    {line}" for line in self.pack()],
                *[f"    w.block[{word}] = 0" for word in self.interface.commits.values()]]

    def ending(self) -> list[str]:
        """From the program's end to the function's."""
        face, lines = self.interface, []
        for k, output in enumerate(face.outputs):
            if output.shape is None and output.kind in _WORDS:
                lines.append(f"    o{k} = w.block[{output.word}]{_WORDS[output.kind]}")
            elif output.shape is None:
                self.scope[f"k{k}"] = output
                lines.append(f"    o{k} = decode(w.block, {output.word}, k{k}.kind, memory)[0]")
            elif output.flags:
                there = " and ".join([f"w.block[{word}]" for word in output.flags])
                lines.append(f"    if not ({there}):\n        o{k} = None")
        seqs = [k for k, o in enumerate(face.outputs) if has_sequence(o.kind)]
        if seqs:
            found = ", ".join(f"o{k}" for k in seqs)
            given = "".join(f"i{k}, " for k, kind in enumerate(face.inputs) if has_sequence(kind))
            lines.append(f"    {found}, = handles(w, [{found}], ({given}))")
        if any(s.kind == "text" for s in face.sites):
            lines.append("    w.texts = []")
        lines.append("    pool.append(w)")
        lines.append(f"    return [{', '.join(f'o{k}' for k in range(len(face.outputs)))}]")
        return lines

    def sizes(self) -> list[str]:
        """Assignments of the sizes that output shapes use."""
        text = " ".join(" ".join(o.shape) for o in self.interface.outputs if o.shape is not None)
        lines = []
        for k, kind in enumerate(self.interface.inputs):
            if is_tensor(payload(kind)) and f"s{k}_" in text:
                given = f"i{k}" if is_tensor(kind) else f"(e{k} if i{k} is None else i{k})"
                lines.append(f"s{k}_ = {given}.shape")
        return lines

    def pack(self) -> list[str]:
        """Numbers into the block: neighbours in one call."""
        lines, kinds = [], self.interface.inputs
        places = sorted(self.interface.numbers.items(), key=lambda p: p[1])
        for plain, group in itertools.groupby(places, lambda p: kinds[p[0]] in _FORMAT):
            numbers = list(group)
            if plain:
                at = numbers[0][1]
                self.scope[f"pack{at}"] = struct.Struct("=" + "".join(_FORMAT[kinds[k]] for k, _ in numbers)).pack_into
                lines.append(f"pack{at}(w.block, {8 * at}, {', '.join(f'i{k}' for k, _ in numbers)})")
                continue
            for k, word in numbers:
                self.scope[f"in{k}"] = kinds[k]
                lines.append(f"encode(w.block, {word}, in{k}, i{k})")
        return lines

    def handles(self, workspace: Workspace, addresses: list[int | None], inputs: Any) -> list[SeqHandle | None]:
        """Sequences that leave the program: they take the call's arena with them."""
        arena = Arena(workspace.block[Word.ARENA], self.arenas)
        workspace.block[Word.ARENA] = self.arenas.pop() if self.arenas else 0
        owners = (arena, workspace.texts, *(i for i in inputs if isinstance(i, SeqHandle)))
        kinds = [payload(o.kind) for o in self.interface.outputs if has_sequence(o.kind)]
        memory = workspace.memory
        return [None if a is None else SeqHandle(a, k, owners, memory) for a, k in zip(addresses, kinds, strict=True)]

    def committing(self) -> list[str]:
        """Report the numbers that the program wrote to slots: `commits`, written out where it is one flag or int."""
        commits = list(self.interface.commits.items())
        if len(commits) != 1 or self.interface.inputs[commits[0][0]] not in _FORMAT:
            return ["commits(w, on_commit)"] if commits else []
        k, word = commits[0]
        flag, number = f"w.block[{word + 1}] == 0", f"w.block[{word + 2}]"
        return [f"if w.block[{word}] and w.block[{word + 1}] < 2:",
                f"    on_commit({k}, {number} != 0 if {flag} else {number})", "else:", "    commits(w, on_commit)"]

    def commits(self, workspace: Workspace, on_commit: Callable[[int, Any], None] | None) -> None:
        """Report the numbers that the program wrote to slots."""
        for k, word in self.interface.commits.items():
            if workspace.block[word]:
                assert on_commit is not None, "this program commits numbers, and there is no `on_commit`"
                kind = self.interface.inputs[k]
                shown = "number" if kind in _FORMAT else kind
                on_commit(k, decode(workspace.block, word + 1, shown, workspace.memory)[0])

    def failed(self, status: int, workspace: Workspace, items: Sequence[Any], n_arrays: int,
               on_commit: Callable[[int, Any], None] | None) -> Sequence[Any]:
        """Anything but success: contiguous copies and another try, or an exception.

        The arrays that the program has seen at last: a result that is one of the inputs is read from their memory.
        """
        if status == Status.NOT_CONTIGUOUS:
            copies = [np.require(a, requirements=["C", "A"]) for a in items[:n_arrays]]
            again = [*copies, *items[n_arrays:]]
            status = self.native(workspace.address, *again)
            places = [k for k, kind in enumerate(self.interface.inputs) if is_tensor(kind)]
            for k, given, copy in zip(places, items, copies, strict=False):
                if k in self.interface.written and copy is not given:
                    put_back(given, copy)
            if not status:
                return again
        if self.interface.commits:
            self.commits(workspace, on_commit)
        raise_status(status, workspace)


def encode(block: Any, word: int, kind: Kind, value: Any) -> int:
    """Write a flag, number or sequence into the block; the next word. Tensors travel as objects."""
    if isinstance(kind, tuple):
        if kind[0] == "seq":
            block[word] = 0 if value is None else value.address
            return word + 1
        block[word] = value is not None
        return encode(block, word + 1, kind[1], value)
    if is_tensor(kind):
        return word
    return write_number(block, word, kind, 0 if value is None else value)


def decode(block: Any, word: int, kind: Kind, memory: Memory = HOST) -> tuple[Any, int]:
    """Read a value from the block; the value and the next word. A sequence is its address."""
    if isinstance(kind, tuple):
        if kind[0] == "seq":
            return block[word], word + 1
        if not block[word]:  # an absent payload is not to be looked at: its pointer means nothing
            return None, word + 1 + words(kind[1])
        return decode(block, word + 1, kind[1], memory)
    if not is_tensor(kind):
        return read_number(block, word, kind)
    d, rank = tensor_kind(kind)
    shape = tuple(block[word + 1:word + 1 + rank])
    return memory.view(block[word], shape, None, d).copy(), word + 1 + rank


def words(kind: Kind) -> int:
    """How many words of the block a value of a kind takes."""
    if isinstance(kind, tuple):
        return 1 if kind[0] == "seq" else 1 + words(kind[1])
    if kind in _FORMAT or kind == "str":
        return 1
    return 2 if kind == "number" else 1 + tensor_kind(kind)[1]


def has_sequence(kind: Kind) -> bool:
    """Whether values of a kind may lie in an arena."""
    return isinstance(kind, tuple) and (kind[0] == "seq" or has_sequence(kind[1]))
