"""What the host function of a device program calls: LLVM text around the C functions of a driver.

An error of the driver is kept in the block, the first one; launches after it do no harm, and the function reports it at
its end or where it waits for the device.
"""

from __future__ import annotations

from jitgrad.codegen.cuda.text import BLOCKS, THREADS
from jitgrad.codegen.layout import CHUNK, CHUNK_SIZE, CHUNK_USED, CHUNKS, ERROR, STREAM

#: words with which a product is described (`driver.py`)
PRODUCT_WORDS = 20
#: names of what the driver's functions are called by
EXTERNALS = ("jg_cuda_launch", "jg_cuda_read", "jg_cuda_copy", "jg_cuda_matmul", "jg_cuda_memory")
#: bytes of which pieces of chunks are multiples
ALIGNMENT = 256


def handles(count: int) -> str:
    """The table of kernels, which the loader fills."""
    return f"@jg_handles = global [{max(1, count)} x ptr] zeroinitializer"


#: it matters little how good the code of these is
ONCE = "nounwind noinline optnone"

TEXT = f"""
declare i32 @jg_cuda_launch(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @jg_cuda_read(ptr, i64, i64, ptr)
declare i32 @jg_cuda_copy(i64, i64, i64, ptr)
declare i32 @jg_cuda_matmul(ptr, ptr)
declare ptr @jg_cuda_memory(ptr, i64, i64)
define internal ptr @jg_stream(ptr %block) {ONCE} {{
entry:
  %place = getelementptr i64, ptr %block, i64 {STREAM}
  %stream = load ptr, ptr %place
  ret ptr %stream
}}
define internal void @jg_note(ptr %block, i32 %status) {ONCE} {{
entry:
  %place = getelementptr i64, ptr %block, i64 {ERROR}
  %before = load i64, ptr %place
  %first = icmp eq i64 %before, 0
  br i1 %first, label %set, label %done
set:
  %code = zext i32 %status to i64
  store i64 %code, ptr %place
  br label %done
done:
  ret void
}}
define internal void @jg_launch(ptr %block, i64 %number, i64 %blocks, i64 %threads, ptr %arguments) {ONCE} {{
entry:
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %go, label %done
go:
  %place = getelementptr ptr, ptr @jg_handles, i64 %number
  %function = load ptr, ptr %place
  %stream = call ptr @jg_stream(ptr %block)
  %x = trunc i64 %blocks to i32
  %t = trunc i64 %threads to i32
  %status = call i32 @jg_cuda_launch(ptr %function, i32 %x, i32 1, i32 1, i32 %t, i32 1, i32 1, i32 0,
                                      ptr %stream, ptr %arguments, ptr null)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %done
fail:
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define internal void @jg_launch_elements(ptr %block, i64 %number, i64 %rows, i64 %columns, ptr %arguments) {ONCE} {{
entry:
  %more = add i64 %rows, {THREADS - 1}
  %blocks = udiv i64 %more, {THREADS}
  %few = icmp ult i64 %blocks, {BLOCKS}
  %grid = select i1 %few, i64 %blocks, i64 {BLOCKS}
  call void @jg_launch(ptr %block, i64 %number, i64 %grid, i64 {THREADS}, ptr %arguments)
  ret void
}}
define internal void @jg_launch_rows(ptr %block, i64 %number, i64 %rows, i64 %columns, ptr %arguments) {ONCE} {{
entry:
  br label %each
each:
  %threads = phi i64 [ 32, %entry ], [ %twice, %next ]
  %four = shl i64 %threads, 2
  %small = icmp ult i64 %four, %columns
  %room = icmp ult i64 %threads, 1024
  %go = and i1 %small, %room
  br i1 %go, label %next, label %done
next:
  %twice = shl i64 %threads, 1
  br label %each
done:
  %most = udiv i64 {BLOCKS * 1024}, %threads
  %few = icmp ult i64 %rows, %most
  %grid = select i1 %few, i64 %rows, i64 %most
  call void @jg_launch(ptr %block, i64 %number, i64 %grid, i64 %threads, ptr %arguments)
  ret void
}}
define internal void @jg_product(ptr %block, ptr %words) {ONCE} {{
entry:
  %stream = call ptr @jg_stream(ptr %block)
  %status = call i32 @jg_cuda_matmul(ptr %stream, ptr %words)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %done
fail:
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define internal void @jg_copy(ptr %block, ptr %to, ptr %from, i64 %bytes) {ONCE} {{
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %done, label %go
go:
  %stream = call ptr @jg_stream(ptr %block)
  %target = ptrtoint ptr %to to i64
  %source = ptrtoint ptr %from to i64
  %status = call i32 @jg_cuda_copy(i64 %target, i64 %source, i64 %bytes, ptr %stream)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %done
fail:
  call void @jg_note(ptr %block, i32 %status)
  br label %done
done:
  ret void
}}
define internal i1 @jg_read(ptr %block, ptr %to, ptr %from, i64 %bytes) {ONCE} {{
entry:
  %errorat = getelementptr i64, ptr %block, i64 {ERROR}
  %before = load i64, ptr %errorat
  %fine = icmp eq i64 %before, 0
  br i1 %fine, label %go, label %bad
go:
  %stream = call ptr @jg_stream(ptr %block)
  %source = ptrtoint ptr %from to i64
  %status = call i32 @jg_cuda_read(ptr %to, i64 %source, i64 %bytes, ptr %stream)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %done, label %fail
done:
  ret i1 true
fail:
  call void @jg_note(ptr %block, i32 %status)
  br label %bad
bad:
  ret i1 false
}}
define internal i1 @jg_reserve(ptr %block, i64 %word, i64 %bytes) {ONCE} {{
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
define internal ptr @jg_take(ptr %block, i64 %bytes) {ONCE} {{
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
define internal void @jg_chunks_reset(ptr %block) {ONCE} {{
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
define internal void @jg_chunks_release(ptr %block, i64 %chunks, i64 %used) {ONCE} {{
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

__all__ = ["EXTERNALS", "PRODUCT_WORDS", "TEXT", "handles"]
