"""What the host function of a device program calls: a library around the C functions of a driver.

Its LLVM text is compiled once per machine, like the CPU's library of functions (`run/runtime.py`), and linked
once per driver; programs hold declarations alone.

`jg_repeat(block, to, from)` stores at `to` whether a loop's body is to be called (again): the word at `from`, for which
the host waits; or, where the calls become a graph, in which the device decides, 1 and then 0 (`replaying.py`). The body
reads nothing, its calls are the same in each iteration, and one of its kernels writes the word.

An error of the driver is kept in the block, the first one; launches after it do no harm, and the function reports it at
its end or where it waits for the device.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from jitgrad.codegen.cuda.kernels.geometry import Form
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import CHUNK, CHUNK_SIZE, CHUNK_USED, CHUNKS, ERROR, SHARED, STREAM
from jitgrad.codegen.run import store

#: words with which a product is described (`driver.py`)
PRODUCT_WORDS = 20
#: bytes of which pieces of chunks are multiples
ALIGNMENT = 256


def handles(count: int) -> str:
    """The table of kernels and the number of multiprocessors, which the loader fills."""
    return f"@jg_handles = global [{max(1, count)} x ptr] zeroinitializer\n@jg_machine = global i64 1"


#: words of a launch in a table of forms: what `geometry.grid` computes with, and where the function's handle is
LAUNCH_WORDS = 8


def table(name: str, forms: Sequence[Form], numbers: Mapping[str, int]) -> str:
    """A kernel's forms as a constant that `jg_launch` reads; `numbers`: handles by symbol."""
    words: list[int | str] = []
    for form in forms:
        words += [form.bound, len(form.launches)]
        for launch in form.launches:
            slot = f"ptrtoint (ptr getelementptr (ptr, ptr @jg_handles, i64 {numbers[launch.symbol]}) to i64)"
            words += [slot, launch.threads, launch.each, launch.most, launch.split, launch.blocks, launch.shared,
                      launch.unit]
    return f"@{name} = internal constant [{len(words)} x i64] [{', '.join(f'i64 {w}' for w in words)}]"


TEXT = f"""
declare i32 @jg_cuda_launch(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @jg_cuda_together(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @jg_cuda_read(ptr, i64, i64, ptr)
declare i32 @jg_cuda_repeat(ptr, i64, i64, ptr)
declare i32 @jg_cuda_copy(i64, i64, i64, ptr)
declare i32 @jg_cuda_matmul(ptr, ptr)
declare ptr @jg_cuda_memory(ptr, i64, i64)
define ptr @jg_stream(ptr %block) nounwind {{
entry:
  %place = getelementptr i64, ptr %block, i64 {STREAM}
  %stream = load ptr, ptr %place
  ret ptr %stream
}}
define void @jg_note(ptr %block, i32 %status) nounwind {{
entry:
  %place = getelementptr i64, ptr %block, i64 {ERROR}
  %before = load i64, ptr %place
  %none = icmp eq i64 %before, 0
  %code = zext i32 %status to i64
  %first = select i1 %none, i64 %code, i64 %before
  store i64 %first, ptr %place
  ret void
}}
define void @jg_launch(ptr %block, ptr %table, i64 %outer, i64 %inner, ptr %arguments) nounwind {{
entry:
  %some = icmp sgt i64 %outer, 0
  br i1 %some, label %find, label %done
find:
  %form = phi ptr [ %table, %entry ], [ %following, %skip ]
  %bound = load i64, ptr %form
  %countat = getelementptr i64, ptr %form, i64 1
  %count = load i64, ptr %countat
  %first = getelementptr i64, ptr %form, i64 2
  %fits = icmp sle i64 %inner, %bound
  br i1 %fits, label %room, label %skip
room:
  %bytes = call i64 @jg_shared_bytes(ptr %first, i64 %inner)
  %limit = call i64 @jg_word(ptr %block, i64 {SHARED})
  %enough = icmp sle i64 %bytes, %limit
  br i1 %enough, label %each, label %skip
skip:
  %words = mul i64 %count, {LAUNCH_WORDS}
  %following = getelementptr i64, ptr %first, i64 %words
  br label %find
each:
  %k = phi i64 [ 0, %room ], [ %next, %launch ]
  %launch.at = phi ptr [ %first, %room ], [ %launch.next, %launch ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %launch, label %done
launch:
  call void @jg_launch_one(ptr %block, ptr %launch.at, i64 %outer, i64 %inner, ptr %arguments)
  %next = add i64 %k, 1
  %launch.next = getelementptr i64, ptr %launch.at, i64 {LAUNCH_WORDS}
  br label %each
done:
  ret void
}}
define i64 @jg_word(ptr %words, i64 %k) nounwind {{
entry:
  %place = getelementptr i64, ptr %words, i64 %k
  %word = load i64, ptr %place
  ret i64 %word
}}
define i64 @jg_up(i64 %a, i64 %b) nounwind {{
entry:
  %less = sub i64 %b, 1
  %more = add i64 %a, %less
  %result = sdiv i64 %more, %b
  ret i64 %result
}}
define i64 @jg_shared_bytes(ptr %launch, i64 %inner) nounwind {{
entry:
  %shared = call i64 @jg_word(ptr %launch, i64 6)
  %unit = call i64 @jg_word(ptr %launch, i64 7)
  %units = call i64 @jg_up(i64 %inner, i64 %unit)
  %elements = mul i64 %units, %unit
  %bytes = mul i64 %elements, %shared
  ret i64 %bytes
}}
define void @jg_launch_one(ptr %block, ptr %launch, i64 %outer, i64 %inner, ptr %arguments) nounwind {{
entry:
  %slot = call i64 @jg_word(ptr %launch, i64 0)
  %threads = call i64 @jg_word(ptr %launch, i64 1)
  %of.each = call i64 @jg_word(ptr %launch, i64 2)
  %most = call i64 @jg_word(ptr %launch, i64 3)
  %split = call i64 @jg_word(ptr %launch, i64 4)
  %blocks = call i64 @jg_word(ptr %launch, i64 5)
  %wanted = call i64 @jg_up(i64 %outer, i64 %of.each)
  %few = icmp slt i64 %wanted, %most
  %x = select i1 %few, i64 %wanted, i64 %most
  %whole = icmp eq i64 %split, 0
  br i1 %whole, label %ready, label %divide
divide:
  %parts = call i64 @jg_up(i64 %inner, i64 %split)
  %room = sdiv i64 %blocks, %x
  %fewer = icmp slt i64 %parts, %room
  %chosen = select i1 %fewer, i64 %parts, i64 %room
  %none = icmp slt i64 %chosen, 1
  %least = select i1 %none, i64 1, i64 %chosen
  br label %ready
ready:
  %y = phi i64 [ 1, %entry ], [ %least, %divide ]
  %bytes = call i64 @jg_shared_bytes(ptr %launch, i64 %inner)
  %place = inttoptr i64 %slot to ptr
  %function = load ptr, ptr %place
  %stream = call ptr @jg_stream(ptr %block)
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %t32 = trunc i64 %threads to i32
  %b32 = trunc i64 %bytes to i32
  %status = call i32 @jg_cuda_launch(ptr %function, i32 %x32, i32 %y32, i32 1, i32 %t32, i32 1, i32 1, i32 %b32,
                                      ptr %stream, ptr %arguments, ptr null)
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define void @jg_together(ptr %block, ptr %function, i64 %wanted, i64 %most, i64 %threads, ptr %arguments) nounwind {{
entry:
  %few = icmp slt i64 %wanted, %most
  %fewer = select i1 %few, i64 %wanted, i64 %most
  %none = icmp slt i64 %fewer, 1
  %blocks = select i1 %none, i64 1, i64 %fewer
  %stream = call ptr @jg_stream(ptr %block)
  %b32 = trunc i64 %blocks to i32
  %t32 = trunc i64 %threads to i32
  %status = call i32 @jg_cuda_together(ptr %function, i32 %b32, i32 1, i32 1, i32 %t32, i32 1, i32 1, i32 0,
                                        ptr %stream, ptr %arguments, ptr null)
  call void @jg_note(ptr %block, i32 %status)
  ret void
}}
define void @jg_alone(ptr %block, ptr %function, ptr %arguments) nounwind {{
entry:
  %stream = call ptr @jg_stream(ptr %block)
  %status = call i32 @jg_cuda_launch(ptr %function, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 0, ptr %stream,
                                      ptr %arguments, ptr null)
  call void @jg_note(ptr %block, i32 %status)
  ret void
}}
define void @jg_product(ptr %block, ptr %words) nounwind {{
entry:
  %stream = call ptr @jg_stream(ptr %block)
  %status = call i32 @jg_cuda_matmul(ptr %stream, ptr %words)
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define void @jg_copy(ptr %block, ptr %to, ptr %from, i64 %bytes) nounwind {{
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %done, label %go
go:
  %stream = call ptr @jg_stream(ptr %block)
  %target = ptrtoint ptr %to to i64
  %source = ptrtoint ptr %from to i64
  %status = call i32 @jg_cuda_copy(i64 %target, i64 %source, i64 %bytes, ptr %stream)
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define i1 @jg_read(ptr %block, ptr %to, ptr %from, i64 %bytes) nounwind {{
entry:
  %errorat = getelementptr i64, ptr %block, i64 {ERROR}
  %before = load i64, ptr %errorat
  %fine = icmp eq i64 %before, 0
  br i1 %fine, label %go, label %bad
go:
  %stream = call ptr @jg_stream(ptr %block)
  %source = ptrtoint ptr %from to i64
  %status = call i32 @jg_cuda_read(ptr %to, i64 %source, i64 %bytes, ptr %stream)
  call void @jg_note(ptr %block, i32 %status)
  %good = icmp eq i32 %status, 0
  ret i1 %good
bad:
  ret i1 false
}}
define i1 @jg_repeat(ptr %block, ptr %to, ptr %from) nounwind {{
entry:
  %errorat = getelementptr i64, ptr %block, i64 {ERROR}
  %before = load i64, ptr %errorat
  %fine = icmp eq i64 %before, 0
  br i1 %fine, label %go, label %bad
go:
  %stream = call ptr @jg_stream(ptr %block)
  %source = ptrtoint ptr %from to i64
  %status = call i32 @jg_cuda_repeat(ptr %to, i64 %source, i64 8, ptr %stream)
  call void @jg_note(ptr %block, i32 %status)
  %good = icmp eq i32 %status, 0
  ret i1 %good
bad:
  ret i1 false
}}
define i1 @jg_reserve(ptr %block, i64 %word, i64 %bytes) nounwind {{
entry:
  %next = add i64 %word, 1
  %place = getelementptr i64, ptr %block, i64 %next
  %have = load i64, ptr %place
  %enough = icmp uge i64 %have, %bytes
  br i1 %enough, label %good, label %grow
grow:
  %new = call ptr @jg_cuda_memory(ptr %block, i64 %word, i64 %bytes)
  %null = icmp eq ptr %new, null
  br i1 %null, label %bad, label %good
good:
  ret i1 true
bad:
  ret i1 false
}}
define ptr @jg_take(ptr %block, i64 %bytes) nounwind {{
entry:
  %none = icmp eq i64 %bytes, 0
  %least = select i1 %none, i64 1, i64 %bytes
  %padded = add i64 %least, {ALIGNMENT - 1}
  %need = and i64 %padded, -{ALIGNMENT}
  %usedat = getelementptr i64, ptr %block, i64 {CHUNK_USED}
  %used = load i64, ptr %usedat
  %sizeat = getelementptr i64, ptr %block, i64 {CHUNK_SIZE}
  %size = load i64, ptr %sizeat
  %end = add i64 %used, %need
  %fits = icmp ule i64 %end, %size
  br i1 %fits, label %take, label %grow
take:
  store i64 %end, ptr %usedat
  %chunkat = getelementptr i64, ptr %block, i64 {CHUNK}
  %chunk = load ptr, ptr %chunkat
  %result = getelementptr i8, ptr %chunk, i64 %used
  ret ptr %result
grow:
  %new = call ptr @jg_cuda_memory(ptr %block, i64 {CHUNK}, i64 %need)
  ret ptr %new
}}
define void @jg_chunks_reset(ptr %block) nounwind {{
entry:
  %countat = getelementptr i64, ptr %block, i64 {CHUNKS}
  %count = load i64, ptr %countat
  %several = icmp ugt i64 %count, 1
  br i1 %several, label %drop, label %reset
drop:
  %kept = call ptr @jg_cuda_memory(ptr %block, i64 {CHUNK}, i64 -1)
  br label %reset
reset:
  %usedat = getelementptr i64, ptr %block, i64 {CHUNK_USED}
  store i64 0, ptr %usedat
  ret void
}}
define void @jg_chunks_release(ptr %block, i64 %chunks, i64 %used) nounwind {{
entry:
  %countat = getelementptr i64, ptr %block, i64 {CHUNKS}
  %count = load i64, ptr %countat
  %same = icmp eq i64 %count, %chunks
  br i1 %same, label %reset, label %done
reset:
  %usedat = getelementptr i64, ptr %block, i64 {CHUNK_USED}
  store i64 %used, ptr %usedat
  br label %done
done:
  ret void
}}
"""

_HEADS = re.findall(r"^define (\w+) @(\w+)\(([^)]*)\)", TEXT, re.MULTILINE)
#: the library's functions
NAMES = tuple(name for _, name, _ in _HEADS)
#: what a program says of them
DECLARATIONS = "\n".join(f"declare {result} @{name}({', '.join(p.split()[0] for p in given.split(', '))})"
                         for result, name, given in _HEADS)


@functools.cache
def _object() -> bytes:
    """The library's object, from the disk cache if it is there."""
    disk = store.current()
    key = store.key_of("device runtime", engine.version(), engine.host().identity, TEXT)
    found = None if disk is None else disk.get(key)
    if found is None:
        found = engine.compile_module(TEXT)
        if disk is not None:
            disk.put(key, found)
    return found


@functools.cache
def _linked(driver: tuple[tuple[str, int], ...]) -> tuple[engine.Loaded, dict[str, int]]:
    loaded = engine.load(_object(), dict(driver), NAMES)
    return loaded, {name: loaded.address(name) for name in NAMES}


def symbols(driver: Mapping[str, int]) -> dict[str, int]:
    """Addresses of the functions, around those of a driver: jg_cuda_launch and its like."""
    return _linked(tuple(driver.items()))[1]
