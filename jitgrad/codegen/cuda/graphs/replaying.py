"""The C functions that a host function calls instead of the driver's, so that its calls can be replayed as a graph.

    int launch(void* kernel, unsigned gx, gy, gz, bx, by, bz, unsigned shared, State* state, void** arguments, void**)
    int matmul(State* state, const int64* call)
    int copy(uint64 to, uint64 from, size_t bytes, State* state)
    int read(void* host, uint64 device, size_t bytes, State* state)
    int repeat(void* host, uint64 device, size_t bytes, State* state)

They are the driver's functions (`driver.py`) with a `State` where the stream goes. In the mode `DIRECT` they call the
driver's with the state's stream. In the mode `SAME` the calls are compared with the nodes of a graph, in order: a
launch of the same kernel returns at once if its grid and the bytes of its arguments are those of the node, else it
copies them to the node and calls `cuGraphExecKernelNodeSetParams` once; a product or a copy of the same words returns
at once. Everything else, and every call in the mode `RECORD`, is a call of `state->other(state, kind, what)`, which
`replay.py` answers; `what` is a `KernelNode` for a launch and the words of the call for the rest.

A node's saved arguments are where `KernelNode.parameters` points: what the graph holds and what is compared are one. A
node without a handle (`node` is null) cannot be changed: a launch that differs from it leaves it as it is, and asks.

`repeat` reads whether a loop's body is to be called, directly as `read` does. In a graph the device decides, so the
body is called once: at the loop's begin (a node of kind `REPEAT`, whose word is the place that is asked) it is told 1,
at its end (`AGAIN`) 0.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from jitgrad.codegen.cuda.driver.blaslt import WORDS
from jitgrad.codegen.cuda.driver.driverapi import KernelNode
from jitgrad.codegen.llvm import engine

DIRECT, SAME, RECORD = 0, 1, 2
LAUNCH, PRODUCT, COPY, READ, TOGETHER, REPEAT, AGAIN = 0, 1, 2, 3, 4, 5, 6


class State(ctypes.Structure):
    """What the functions know.

    `next` of `count` nodes is compared; `updates` counts the nodes that were changed; `failed` is what the last update
    returned, if it failed: the graph is not what its nodes say; `repeating` is 1 in the body of a loop.
    """

    _fields_ = (("mode", c_int64), ("stream", c_void_p), ("next", c_int64), ("count", c_int64), ("nodes", c_void_p),
                ("graph", c_void_p), ("updates", c_int64), ("launch", c_void_p), ("matmul", c_void_p),
                ("copy", c_void_p), ("read", c_void_p), ("update", c_void_p), ("other", c_void_p),
                ("failed", c_int64), ("together", c_void_p), ("repeating", c_int64))


class Node(ctypes.Structure):
    """One call: a launch with the sizes of its arguments, or a product or a copy with its words.

    `node` is null where the graph's node cannot be changed.
    """

    _fields_ = (("launch", KernelNode), ("kind", c_int64), ("node", c_void_p), ("count", c_int64), ("sizes", c_void_p),
                ("words", c_void_p))


def _at(type_: type[ctypes.Structure], name: str) -> int:
    place: int = getattr(type_, name).offset
    return place


def _field(name: str, of: str = "ptr", result: str = "") -> str:
    """Lines that load a field of the state to a register of its name."""
    return (f"  %at.{result or name} = getelementptr i8, ptr %state, i64 {_at(State, name)}\n"
            f"  %{result or name} = load {of}, ptr %at.{result or name}")


#: the node to compare with, if there is one
_NODE = f"""
{_field("next", "i64")}
{_field("count", "i64")}
  %left = icmp slt i64 %next, %count
  br i1 %left, label %look, label %ask
look:
{_field("nodes")}
  %offset = mul i64 %next, {ctypes.sizeof(Node)}
  %node = getelementptr i8, ptr %nodes, i64 %offset
  %at.kind = getelementptr i8, ptr %node, i64 {_at(Node, "kind")}
  %kind = load i64, ptr %at.kind
"""
_GRID = ("gx", "gy", "gz", "bx", "by", "bz", "shared")


def _same_words(kind: int, words: int) -> str:
    """Compare %words with those of the node."""
    return f"""{_NODE}
  %alike = icmp eq i64 %kind, {kind}
  br i1 %alike, label %compare, label %ask
compare:
  %at.words = getelementptr i8, ptr %node, i64 {_at(Node, "words")}
  %saved = load ptr, ptr %at.words
  %difference = call i32 @memcmp(ptr %saved, ptr %words, i64 {8 * words})
  %equal = icmp eq i32 %difference, 0
  br i1 %equal, label %done, label %ask
done:
  %following = add i64 %next, 1
  store i64 %following, ptr %at.next
  ret i32 0
ask:
{_field("other")}
  %answer = call i32 %other(ptr %state, i64 {kind}, ptr %words)
  ret i32 %answer
"""


def _launch(name: str, number: int) -> str:
    """The function for a kind of launch, which the field `name` does directly."""
    grid = ", ".join(f"i32 %{g}" for g in _GRID)
    first, size = _at(KernelNode, "grid"), 4 * len(_GRID)
    stored = "\n".join(f"  %to.{g} = getelementptr i8, ptr %what, i64 {first + 4 * i}\n  store i32 %{g}, ptr %to.{g}"
                       for i, g in enumerate(_GRID))
    rest = _at(KernelNode, "parameters")
    return f"""
define i32 @jg_replay_{name}(ptr %kernel, {grid}, ptr %state, ptr %arguments, ptr %extra) {{
entry:
  %what = alloca [{ctypes.sizeof(KernelNode)} x i8], align 8
  %mode = load i64, ptr %state
  %plain = icmp eq i64 %mode, {DIRECT}
  br i1 %plain, label %direct, label %described
direct:
{_field(name, result="function.of")}
{_field("stream")}
  %status = call i32 %function.of(ptr %kernel, {grid}, ptr %stream, ptr %arguments, ptr %extra)
  ret i32 %status
described:
{stored}
  %comparing = icmp eq i64 %mode, {SAME}
  br i1 %comparing, label %same, label %ask
same:
{_NODE}
  %launched = icmp eq i64 %kind, {number}
  %function = load ptr, ptr %node
  %alike = icmp eq ptr %function, %kernel
  %go = and i1 %launched, %alike
  br i1 %go, label %compare, label %ask
compare:
  %at.handle = getelementptr i8, ptr %node, i64 {_at(Node, "node")}
  %handle = load ptr, ptr %at.handle
  %fixed = icmp eq ptr %handle, null
  %at.grid = getelementptr i8, ptr %node, i64 {first}
  %unlike = call i32 @memcmp(ptr %at.grid, ptr %to.gx, i64 {size})
  %other.grid = icmp ne i32 %unlike, 0
  br i1 %other.grid, label %resize, label %values
resize:
  br i1 %fixed, label %ask, label %resized
resized:
  %kept = call ptr @memcpy(ptr %at.grid, ptr %to.gx, i64 {size})
  br label %values
values:
  %at.length = getelementptr i8, ptr %node, i64 {_at(Node, "count")}
  %length = load i64, ptr %at.length
  %at.sizes = getelementptr i8, ptr %node, i64 {_at(Node, "sizes")}
  %sizes = load ptr, ptr %at.sizes
  %at.values = getelementptr i8, ptr %node, i64 {_at(KernelNode, "parameters")}
  %values.of = load ptr, ptr %at.values
  br label %each
each:
  %i = phi i64 [ 0, %values ], [ %following, %after ]
  %changed = phi i1 [ %other.grid, %values ], [ %now, %after ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %argument, label %compared
argument:
  %at.given = getelementptr ptr, ptr %arguments, i64 %i
  %given = load ptr, ptr %at.given
  %at.value = getelementptr ptr, ptr %values.of, i64 %i
  %value = load ptr, ptr %at.value
  %at.size = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %at.size
  %difference = call i32 @memcmp(ptr %value, ptr %given, i64 %size)
  %equal = icmp eq i32 %difference, 0
  br i1 %equal, label %after, label %differs
differs:
  br i1 %fixed, label %ask, label %take
take:
  %taken = call ptr @memcpy(ptr %value, ptr %given, i64 %size)
  br label %after
after:
  %now = phi i1 [ %changed, %argument ], [ true, %take ]
  %following = add i64 %i, 1
  br label %each
compared:
  %passed = add i64 %next, 1
  store i64 %passed, ptr %at.next
  br i1 %changed, label %tell, label %done
done:
  ret i32 0
tell:
{_field("updates", "i64")}
  %counted = add i64 %updates, 1
  store i64 %counted, ptr %at.updates
{_field("update")}
{_field("graph")}
  %told = call i32 %update(ptr %graph, ptr %handle, ptr %node)
  %good = icmp eq i32 %told, 0
  br i1 %good, label %done, label %spoilt
spoilt:
  store i64 %next, ptr %at.next
  %code = sext i32 %told to i64
  %at.failed = getelementptr i8, ptr %state, i64 {_at(State, "failed")}
  store i64 %code, ptr %at.failed
  br label %ask
ask:
  store ptr %kernel, ptr %what
  %to.rest = getelementptr i8, ptr %what, i64 {rest}
  call void @llvm.memset.p0.i64(ptr %to.rest, i8 0, i64 {ctypes.sizeof(KernelNode) - rest}, i1 false)
  store ptr %arguments, ptr %to.rest
{_field("other")}
  %answer = call i32 %other(ptr %state, i64 {number}, ptr %what)
  ret i32 %answer
}}
"""


def text() -> str:
    """The six functions as LLVM."""
    three = "\n".join(f"  %to.{k} = getelementptr i64, ptr %words, i64 {k}\n  store i64 %w{k}, ptr %to.{k}"
                      for k in range(3))
    return f"""
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{_launch("launch", LAUNCH)}{_launch("together", TOGETHER)}
define i32 @jg_replay_matmul(ptr %state, ptr %words) {{
entry:
  %mode = load i64, ptr %state
  switch i64 %mode, label %ask [ i64 {DIRECT}, label %direct i64 {SAME}, label %same ]
direct:
{_field("matmul")}
{_field("stream")}
  %status = call i32 %matmul(ptr %stream, ptr %words)
  ret i32 %status
same:
{_same_words(PRODUCT, WORDS)}}}
define i32 @jg_replay_copy(i64 %w0, i64 %w1, i64 %w2, ptr %state) {{
entry:
  %words = alloca [3 x i64]
{three}
  %mode = load i64, ptr %state
  switch i64 %mode, label %ask [ i64 {DIRECT}, label %direct i64 {SAME}, label %same ]
direct:
{_field("copy")}
{_field("stream")}
  %status = call i32 %copy(i64 %w0, i64 %w1, i64 %w2, ptr %stream)
  ret i32 %status
same:
{_same_words(COPY, 3)}}}
define i32 @jg_replay_read(ptr %host, i64 %w1, i64 %w2, ptr %state) {{
entry:
  %words = alloca [3 x i64]
  %w0 = ptrtoint ptr %host to i64
{three}
  %mode = load i64, ptr %state
  %plain = icmp eq i64 %mode, {DIRECT}
  br i1 %plain, label %direct, label %ask
direct:
{_field("read")}
{_field("stream")}
  %status = call i32 %read(ptr %host, i64 %w1, i64 %w2, ptr %stream)
  ret i32 %status
ask:
{_field("other")}
  %answer = call i32 %other(ptr %state, i64 {READ}, ptr %words)
  ret i32 %answer
}}
define i32 @jg_replay_repeat(ptr %host, i64 %w1, i64 %w2, ptr %state) {{
entry:
  %words = alloca [3 x i64]
  %w0 = ptrtoint ptr %host to i64
{three}
  %mode = load i64, ptr %state
  switch i64 %mode, label %ask [ i64 {DIRECT}, label %direct i64 {SAME}, label %same ]
direct:
{_field("read")}
{_field("stream")}
  %status = call i32 %read(ptr %host, i64 %w1, i64 %w2, ptr %stream)
  ret i32 %status
same:
{_NODE}
  switch i64 %kind, label %ask [ i64 {REPEAT}, label %begin i64 {AGAIN}, label %told ]
begin:
  %at.words = getelementptr i8, ptr %node, i64 {_at(Node, "words")}
  %saved = load ptr, ptr %at.words
  %asked = load i64, ptr %saved
  %alike = icmp eq i64 %asked, %w1
  br i1 %alike, label %told, label %ask
told:
  %again = phi i64 [ 0, %look ], [ 1, %begin ]
  store i64 %again, ptr %host
  %at.repeating = getelementptr i8, ptr %state, i64 {_at(State, "repeating")}
  store i64 %again, ptr %at.repeating
  %following = add i64 %next, 1
  store i64 %following, ptr %at.next
  ret i32 0
ask:
{_field("other")}
  %answer = call i32 %other(ptr %state, i64 {REPEAT}, ptr %words)
  ret i32 %answer
}}
"""


@dataclass(frozen=True)
class Functions:
    """Addresses of the six functions; `code` holds them."""

    launch: int
    together: int
    matmul: int
    copy: int
    read: int
    repeat: int
    code: Any


@cache
def functions() -> Functions:
    """The functions, compiled at the first call."""
    code = engine.load(engine.compile_module(text()), {})
    names = ("launch", "together", "matmul", "copy", "read", "repeat")
    launch, together, matmul, copy, read, repeat = [code.address(f"jg_replay_{name}") for name in names]
    return Functions(launch, together, matmul, copy, read, repeat, code)
