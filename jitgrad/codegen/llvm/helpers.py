"""Functions that programs of a module call, as text: memory, tables of inputs, signals, the arena of sequences."""

from __future__ import annotations

from jitgrad.codegen.program.layout import Word

ALLOCATION = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""

#: grow a (pointer, capacity) pair; what was in it is lost. false: no memory
RESERVE = """
define internal i1 @jg_reserve(ptr %slot, i64 %bytes) nounwind noinline optnone {
entry:
  %place = getelementptr i64, ptr %slot, i64 1
  %have = load i64, ptr %place
  %enough = icmp uge i64 %have, %bytes
  br i1 %enough, label %good, label %grow
grow:
  %old = load ptr, ptr %slot
  call void @free(ptr %old)
  %half = lshr i64 %bytes, 3
  %more = add i64 %bytes, %half
  %padded = add i64 %more, 127
  %rounded = and i64 %padded, -64
  %sane = icmp ult i64 %bytes, 140737488355328
  %asked = select i1 %sane, i64 %rounded, i64 140737488355328
  %new = call ptr @aligned_alloc(i64 64, i64 %asked)
  store ptr %new, ptr %slot
  %null = icmp eq ptr %new, null
  %size = select i1 %null, i64 0, i64 %rounded
  store i64 %size, ptr %place
  br i1 %null, label %bad, label %good
good:
  ret i1 true
bad:
  ret i1 false
}
"""

#: fill a table with the data pointers of arrays, given the offsets of two fields; the flags that all of them have
GATHER = """
define internal i32 @jg_gather(ptr %items, i64 %count, ptr %table, i64 %data, i64 %flags) nounwind noinline {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %following, %each ]
  %together = phi i32 [ -1, %entry ], [ %common, %each ]
  %item.place = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.place
  %data.place = getelementptr i8, ptr %item, i64 %data
  %start = load ptr, ptr %data.place
  %table.place = getelementptr ptr, ptr %table, i64 %i
  store ptr %start, ptr %table.place
  %flags.place = getelementptr i8, ptr %item, i64 %flags
  %own = load i32, ptr %flags.place
  %common = and i32 %together, %own
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %count
  br i1 %more, label %each, label %done
done:
  ret i32 %common
}
"""

#: run pending signal handlers; an exception that one raises is kept in the block's first free words. 1: none
POLL = f"""
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
define internal i64 @jg_poll(ptr %block) nounwind noinline optnone {{
entry:
  %lock = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %none = icmp eq i32 %raised, 0
  br i1 %none, label %done, label %fetch
fetch:
  %type = getelementptr i64, ptr %block, i64 {Word.FIRST_FREE}
  %value = getelementptr i64, ptr %block, i64 {Word.FIRST_FREE + 1}
  %trace = getelementptr i64, ptr %block, i64 {Word.FIRST_FREE + 2}
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  %site = getelementptr i64, ptr %block, i64 {Word.SITE}
  store i64 -1, ptr %site
  br label %done
done:
  call void @PyGILState_Release(i32 %lock)
  %result = zext i1 %none to i64
  ret i64 %result
}}
"""

#: the arena: memory of sequences, a chain of chunks (see `sequences.py`)
ARENA_TEXT = f"""
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
define internal ptr @jg_arena(ptr %block, i64 %bytes) nounwind noinline {{
entry:
  %place = getelementptr i64, ptr %block, i64 {Word.ARENA}
  %padded = add i64 %bytes, 63
  %need = and i64 %padded, -64
  %sane = icmp ult i64 %bytes, 140737488355328
  %chunk = load ptr, ptr %place
  br i1 %sane, label %look, label %bad
look:
  %first = icmp eq ptr %chunk, null
  br i1 %first, label %grow, label %try
try:
  %roomat = getelementptr i64, ptr %chunk, i64 1
  %room = load i64, ptr %roomat
  %usedat = getelementptr i64, ptr %chunk, i64 2
  %used = load i64, ptr %usedat
  %end = add i64 %used, %need
  %fits = icmp ule i64 %end, %room
  br i1 %fits, label %take, label %grow
take:
  store i64 %end, ptr %usedat
  %result = getelementptr i8, ptr %chunk, i64 %used
  ret ptr %result
grow:
  %before = phi i64 [ 32768, %look ], [ %room, %try ]
  %twice = shl i64 %before, 1
  %least = add i64 %need, 64
  %larger = icmp ugt i64 %least, %twice
  %size = select i1 %larger, i64 %least, i64 %twice
  %new = call ptr @aligned_alloc(i64 64, i64 %size)
  %null = icmp eq ptr %new, null
  br i1 %null, label %bad, label %init
init:
  store ptr %chunk, ptr %new
  %newroom = getelementptr i64, ptr %new, i64 1
  store i64 %size, ptr %newroom
  %newused = getelementptr i64, ptr %new, i64 2
  store i64 %least, ptr %newused
  store ptr %new, ptr %place
  %data = getelementptr i8, ptr %new, i64 64
  ret ptr %data
bad:
  ret ptr null
}}
define internal void @jg_arena_release(ptr %block, ptr %keep, i64 %used) nounwind noinline optnone {{
entry:
  %place = getelementptr i64, ptr %block, i64 {Word.ARENA}
  br label %each
each:
  %chunk = load ptr, ptr %place
  %same = icmp eq ptr %chunk, %keep
  br i1 %same, label %done, label %drop
drop:
  %previous = load ptr, ptr %chunk
  store ptr %previous, ptr %place
  call void @free(ptr %chunk)
  br label %each
done:
  %none = icmp eq ptr %keep, null
  br i1 %none, label %out, label %reset
reset:
  %usedat = getelementptr i64, ptr %keep, i64 2
  store i64 %used, ptr %usedat
  br label %out
out:
  ret void
}}
define internal void @jg_arena_reset(ptr %block) nounwind noinline optnone {{
entry:
  %place = getelementptr i64, ptr %block, i64 {Word.ARENA}
  %chunk = load ptr, ptr %place
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %out, label %have
have:
  br label %each
each:
  %previous = load ptr, ptr %chunk
  %last = icmp eq ptr %previous, null
  br i1 %last, label %done, label %drop
drop:
  %before = load ptr, ptr %previous
  store ptr %before, ptr %chunk
  call void @free(ptr %previous)
  br label %each
done:
  %usedat = getelementptr i64, ptr %chunk, i64 2
  store i64 64, ptr %usedat
  br label %out
out:
  ret void
}}
"""
