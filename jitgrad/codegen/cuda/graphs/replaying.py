"""The C functions that a host function calls instead of the driver's, so that its calls can be replayed as a graph.

    int launch(void* kernel, unsigned gx, gy, gz, bx, by, bz, unsigned shared, State* state, void** arguments, void**)
    int matmul(State* state, const int64* call)
    int copy(uint64 to, uint64 from, size_t bytes, State* state)
    int read(void* host, uint64 device, size_t bytes, State* state)

They are the driver's functions (`driver.py`) with a `State` where the stream goes. In the mode `DIRECT` they call the
driver's with the state's stream. In the mode `SAME` the calls are compared with the nodes of a graph, in order: a
launch of the same kernel returns at once if its grid and the bytes of its arguments are those of the node, else it
copies them to the node and calls `cuGraphExecKernelNodeSetParams` once; a product or a copy of the same words returns
at once, and a product of which only addresses differ moves them in the arguments of its kernels (`products.py`), one
update for each kernel, where it is known where they are. Everything else, and every call in the mode `RECORD`, is a
call of `state->other(state, kind, what)`, which `replay.py` answers; `what` is a `KernelNode` for a launch and the
words of the call for the rest.

A node's saved arguments are where `KernelNode.parameters` points: what the graph holds and what is compared are one.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p
from functools import cache
from types import SimpleNamespace

from jitgrad.codegen.cuda.driver.blaslt import WORDS
from jitgrad.codegen.cuda.driver.driverapi import KernelNode
from jitgrad.codegen.cuda.graphs.products import ADDRESSES, ALIKE
from jitgrad.codegen.llvm import engine
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

DIRECT, SAME, RECORD = 0, 1, 2
LAUNCH, PRODUCT, COPY, READ, TOGETHER = 0, 1, 2, 3, 4


class State(ctypes.Structure):
    """What the functions know.

    `next` of `count` nodes is compared; `updates` counts the nodes that were changed; `failed` is what the last update
    returned, if it failed: the graph is not what its nodes say.
    """

    _fields_ = (("mode", c_int64), ("stream", c_void_p), ("next", c_int64), ("count", c_int64), ("nodes", c_void_p),
                ("graph", c_void_p), ("updates", c_int64), ("launch", c_void_p), ("matmul", c_void_p),
                ("copy", c_void_p), ("read", c_void_p), ("update", c_void_p), ("other", c_void_p),
                ("failed", c_int64), ("together", c_void_p))


class Node(ctypes.Structure):
    """One call: a launch with the sizes of its arguments, or a product or a copy with its words.

    `kernels`, `known` of them, are those of a product of which it is known where they have its addresses.
    """

    _fields_ = (("launch", KernelNode), ("kind", c_int64), ("node", c_void_p), ("count", c_int64), ("sizes", c_void_p),
                ("words", c_void_p), ("kernels", c_void_p), ("known", c_int64))


class Moving(ctypes.Structure):
    """A kernel of a product, and the places of addresses in its arguments."""

    _fields_ = (("launch", KernelNode), ("node", c_void_p), ("places", c_void_p), ("count", c_int64))


class Place(ctypes.Structure):
    """Where a word of a product is, or a sum of it and a number."""

    _fields_ = (("address", c_void_p), ("word", c_int64))


LIBRARY = Library()
#: a launch's blocks, threads and bytes of shared memory
GRID = dict.fromkeys(("gx", "gy", "gz", "bx", "by", "bz", "shared"), "i32")
SHOWN = {"kernel": "ptr", **GRID, "state": "ptr", "arguments": "ptr", "extra": "ptr"}


def at(f: Native, structure: V, type_: type[ctypes.Structure], name: str) -> V:
    """The address of a field."""
    offset: int = getattr(type_, name).offset
    return f.at(structure, offset, "i8")


def get(f: Native, state: V, name: str, elem: str = "i64") -> V:
    """A field of the state."""
    return f.load(at(f, state, State, name), elem=elem)


def put(f: Native, state: V, name: str, value: V) -> None:
    f.store(value, at(f, state, State, name))


def directly(f: Native, state: V, name: str, before: Sequence[V], behind: Sequence[V] = ()) -> None:
    """In the mode DIRECT do what the driver's function does, with the state's stream."""
    with f.when(get(f, state, "mode").eq(DIRECT)):
        stream = get(f, state, "stream", "ptr")
        f.leave(f.through(get(f, state, name, "ptr"), "i32", *before, stream, *behind))


def in_turn(f: Native, state: V, ask: Callable[[], None]) -> V:
    """The node to compare with; where there is none, `ask`."""
    position = get(f, state, "next")
    with f.when(get(f, state, "mode").ne(SAME) | (position >= get(f, state, "count"))):
        ask()
    return f.at(get(f, state, "nodes", "ptr"), position * ctypes.sizeof(Node), "i8")


def differ(f: Native, a: V, b: V, size: V) -> V:
    return f.call("memcmp", "i32", 1, a, b, size).ne(0)


def advance(f: Native, state: V) -> None:
    put(f, state, "next", get(f, state, "next") + 1)


def done(f: Native) -> None:
    f.leave(f.number(0, "i32"))


def answer(f: Native, state: V, kind: int, what: V) -> V:
    """Ask `replay.py`."""
    return f.through(get(f, state, "other", "ptr"), "i32", state, f.number(kind), what)


#: what `jg_replay_moved` returns where another graph is needed; what it else returns is the driver's
CANNOT = -1


@LIBRARY.function("i32", graph="ptr", node="ptr", words="ptr", update="ptr")
def jg_replay_moved(f: Native, graph: V, node: V, words: V, update: V) -> V:
    """Make a product of a graph one of other addresses that are as well aligned; `update` sets a kernel's arguments."""
    cannot, old = f.number(CANNOT, "i32"), f.load(at(f, node, Node, "words"), elem="ptr")
    known = f.load(at(f, node, Node, "known"))
    with f.when(known.eq(0)):
        f.leave(cannot)
    for k in range(WORDS):
        apart = f.load(old, k).op("xor", f.load(words, k))
        with f.when((apart & (ALIKE - 1) if k in ADDRESSES else apart).ne(0)):
            f.leave(cannot)
    kernels = f.load(at(f, node, Node, "kernels"), elem="ptr")
    with f.each(known) as i:
        kernel = f.at(kernels, i * ctypes.sizeof(Moving), "i8")
        changed, places = f.variable(f.number(0, "i1")), f.load(at(f, kernel, Moving, "places"), elem="ptr")
        with f.each(f.load(at(f, kernel, Moving, "count"))) as j:
            place = f.at(places, j * ctypes.sizeof(Place), "i8")
            word = f.load(at(f, place, Place, "word"))
            by = f.load(words, word) - f.load(old, word)
            with f.when(by.ne(0)):
                target = f.load(at(f, place, Place, "address"), elem="ptr")
                f.store(f.load(target) + by, target)
                changed.value = f.number(1, "i1")
        with f.when(changed.value):
            told = f.through(update, "i32", graph, f.load(at(f, kernel, Moving, "node"), elem="ptr"), kernel)
            with f.when(told.ne(0)):
                f.leave(told)
    f.call("memcpy", "ptr", 1, old, words, f.number(8 * WORDS))
    return f.number(0, "i32")


def compared(f: Native, state: V, kind: int, words: V, count: int) -> V:
    """What a call of so many words returns: 0 where the node in turn has the same, or can be given them."""
    with f.part() as ask:
        node = in_turn(f, state, ask)
        with f.when(f.load(at(f, node, Node, "kind")).ne(kind)):
            ask()
        with f.when(differ(f, f.load(at(f, node, Node, "words"), elem="ptr"), words, f.number(8 * count))):
            if kind == PRODUCT:
                told = f.call("jg_replay_moved", "i32", 1, get(f, state, "graph", "ptr"), node, words,
                              get(f, state, "update", "ptr"))
                with f.when(told.eq(0)):
                    put(f, state, "updates", get(f, state, "updates") + 1)
                    advance(f, state)
                    done(f)
                with f.when(told.ne(CANNOT)):
                    put(f, state, "failed", told.cast("sext", "i64"))
            ask()
        advance(f, state)
        done(f)
    return answer(f, state, kind, words)


def launch(f: Native, name: str, kind: int, kernel: V, *rest: V) -> V:
    """The function for a kind of launch, which the field `name` does directly."""
    *grid, state, arguments, extra = rest
    directly(f, state, name, (kernel, *grid), (arguments, extra))
    what = f.room(ctypes.sizeof(KernelNode), "i8")
    for k, number in enumerate(grid):
        f.store(number, at(f, what, KernelNode, "grid"), k)
    with f.part() as ask:
        node = in_turn(f, state, ask)
        with f.when(f.load(at(f, node, Node, "kind")).ne(kind) | f.load(node, elem="ptr").compare("ne", kernel)):
            ask()
        handle = f.load(at(f, node, Node, "node"), elem="ptr")
        changed = f.variable(f.number(0, "i1"))

        def take(to: V, source: V, size: V) -> None:
            with f.when(differ(f, to, source, size)):
                f.call("memcpy", "ptr", 1, to, source, size)
                changed.value = f.number(1, "i1")

        take(at(f, node, KernelNode, "grid"), at(f, what, KernelNode, "grid"), f.number(4 * len(grid)))
        values = f.load(at(f, node, KernelNode, "parameters"), elem="ptr")
        sizes = f.load(at(f, node, Node, "sizes"), elem="ptr")
        with f.each(f.load(at(f, node, Node, "count"))) as i:
            take(f.load(values, i, "ptr"), f.load(arguments, i, "ptr"), f.load(sizes, i))
        advance(f, state)
        with f.when(~changed.value):
            done(f)
        put(f, state, "updates", get(f, state, "updates") + 1)
        told = f.through(get(f, state, "update", "ptr"), "i32", get(f, state, "graph", "ptr"), handle, node)
        with f.when(told.eq(0)):
            done(f)
        put(f, state, "next", get(f, state, "next") - 1)
        put(f, state, "failed", told.cast("sext", "i64"))
    f.store(kernel, what)
    parameters = at(f, what, KernelNode, "parameters")
    rest_of = ctypes.sizeof(KernelNode) - KernelNode.parameters.offset
    f.do("llvm.memset.p0.i64", parameters, f.number(0, "i8"), f.number(rest_of), f.number(0, "i1"))
    f.store(arguments, parameters)
    return answer(f, state, kind, what)


@LIBRARY.function("i32", **SHOWN)
def jg_replay_launch(f: Native, *arguments: V) -> V:
    return launch(f, "launch", LAUNCH, *arguments)


@LIBRARY.function("i32", **SHOWN)
def jg_replay_together(f: Native, *arguments: V) -> V:
    return launch(f, "together", TOGETHER, *arguments)


@LIBRARY.function("i32", state="ptr", words="ptr")
def jg_replay_matmul(f: Native, state: V, words: V) -> V:
    directly(f, state, "matmul", (), (words,))
    return compared(f, state, PRODUCT, words, WORDS)


@LIBRARY.function("i32", to="i64", source="i64", size="i64", state="ptr")
def jg_replay_copy(f: Native, to: V, source: V, size: V, state: V) -> V:
    directly(f, state, "copy", (to, source, size))
    return compared(f, state, COPY, described(f, to, source, size), 3)


def described(f: Native, *words: V) -> V:
    """The address of words that tell of a call."""
    place = f.room(len(words))
    for k, word in enumerate(words):
        f.store(word, place, k)
    return place


@LIBRARY.function("i32", host="ptr", device="i64", size="i64", state="ptr")
def jg_replay_read(f: Native, host: V, device: V, size: V, state: V) -> V:
    directly(f, state, "read", (host, device, size))
    return answer(f, state, READ, described(f, host, device, size))


@cache
def functions() -> SimpleNamespace:
    """Addresses of the functions by what follows `jg_replay_`, compiled at the first call; `code` holds them."""
    code = engine.load(engine.compile_module(LIBRARY.text()), {})
    addresses = {name.removeprefix("jg_replay_"): code.address(name) for name in LIBRARY.functions}
    return SimpleNamespace(**addresses, code=code)
