"""`jg_arrays`: whether NumPy arrays are what a program was compiled for, asked of their memory by native code.

    jg_arrays(items: the arrays, one pointer each; table: int64 words) -> 1: all as the table says, 0: look closer

The table (`codegen/run/arrays.py` makes it) has a head, a record for each array, and pairs of sizes:

    head     address of the class ndarray, byte offset of `nd` in an array, number of records, number of pairs,
             address of the scratch memory, its number of entries - 1, number of the call
    record   number of the item, address of the dtype, rank, part, sizes: a number, or -1 for any but 1
    pair     item, axis, item, axis: two equal sizes; with -1 for the second item its number instead

An array's part is 1 where it is written, 0 where it is not, 2 where memory does not matter. The owner of what is
written (the array, or its base) must be nobody else's: the scratch memory is a hash table of owners that are written,
emptied by counting calls. So records of part 1 come first.
"""

from __future__ import annotations

#: byte offsets from `nd`, and of an object's class; `codegen/run/arrays.py` looks whether they are so here
SHAPE, BASE, DTYPE, CLASS = 8, 24, 32, 8
#: words of the head, and of a record without its sizes
HEAD, RECORD, PAIR = 7, 4, 4

TEXT = f"""
define i64 @jg_arrays(ptr %items, ptr %table) nounwind {{
entry:
  %class = load ptr, ptr %table
  %nd_at = getelementptr i64, ptr %table, i64 1
  %nd = load i64, ptr %nd_at
  %n_at = getelementptr i64, ptr %table, i64 2
  %n = load i64, ptr %n_at
  %pairs_at = getelementptr i64, ptr %table, i64 3
  %pairs = load i64, ptr %pairs_at
  %scratch_at = getelementptr i64, ptr %table, i64 4
  %scratch = load ptr, ptr %scratch_at
  %mask_at = getelementptr i64, ptr %table, i64 5
  %mask = load i64, ptr %mask_at
  %call_at = getelementptr i64, ptr %table, i64 6
  %before = load i64, ptr %call_at
  %call = add i64 %before, 1
  store i64 %call, ptr %call_at
  %first = getelementptr i64, ptr %table, i64 {HEAD}
  br label %records

records:
  %k = phi i64 [ 0, %entry ], [ %k_next, %next ]
  %record = phi ptr [ %first, %entry ], [ %record_next, %next ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %class_of, label %sizes

class_of:
  %item = load i64, ptr %record
  %array_at = getelementptr ptr, ptr %items, i64 %item
  %array = load ptr, ptr %array_at
  %own_at = getelementptr i8, ptr %array, i64 {CLASS}
  %own = load ptr, ptr %own_at
  %is_array = icmp eq ptr %own, %class
  br i1 %is_array, label %kind, label %no

kind:
  %fields = getelementptr i8, ptr %array, i64 %nd
  %dtype_at = getelementptr i8, ptr %fields, i64 {DTYPE}
  %dtype = load i64, ptr %dtype_at
  %wanted_at = getelementptr i64, ptr %record, i64 1
  %wanted = load i64, ptr %wanted_at
  %same = icmp eq i64 %dtype, %wanted
  %rank32 = load i32, ptr %fields
  %rank = sext i32 %rank32 to i64
  %ranked_at = getelementptr i64, ptr %record, i64 2
  %ranked = load i64, ptr %ranked_at
  %as_ranked = icmp eq i64 %rank, %ranked
  %fits = and i1 %same, %as_ranked
  br i1 %fits, label %shape, label %no

shape:
  %shape_at = getelementptr i8, ptr %fields, i64 {SHAPE}
  %sizes_of = load ptr, ptr %shape_at
  %expected = getelementptr i64, ptr %record, i64 {RECORD}
  br label %axes

axes:
  %axis = phi i64 [ 0, %shape ], [ %axis_next, %good ]
  %in = icmp ult i64 %axis, %rank
  br i1 %in, label %one, label %memory

one:
  %size_at = getelementptr i64, ptr %sizes_of, i64 %axis
  %size = load i64, ptr %size_at
  %known_at = getelementptr i64, ptr %expected, i64 %axis
  %known = load i64, ptr %known_at
  %any = icmp eq i64 %known, -1
  %is_one = icmp eq i64 %size, 1
  %is_known = icmp eq i64 %size, %known
  %not_one = xor i1 %is_one, true
  %ok = select i1 %any, i1 %not_one, i1 %is_known
  br i1 %ok, label %good, label %no

good:
  %axis_next = add i64 %axis, 1
  br label %axes

memory:
  %part_at = getelementptr i64, ptr %record, i64 3
  %part = load i64, ptr %part_at
  %free = icmp eq i64 %part, 2
  br i1 %free, label %next, label %owner

owner:
  %base_at = getelementptr i8, ptr %fields, i64 {BASE}
  %base = load ptr, ptr %base_at
  %owns = icmp eq ptr %base, null
  br i1 %owns, label %owned, label %borrowed

borrowed:
  %base_class_at = getelementptr i8, ptr %base, i64 {CLASS}
  %base_class = load ptr, ptr %base_class_at
  %base_array = icmp eq ptr %base_class, %class
  br i1 %base_array, label %deep, label %no

deep:
  %base_fields = getelementptr i8, ptr %base, i64 %nd
  %deeper_at = getelementptr i8, ptr %base_fields, i64 {BASE}
  %deeper = load ptr, ptr %deeper_at
  %is_owner = icmp eq ptr %deeper, null
  br i1 %is_owner, label %owned, label %no

owned:
  %who = phi ptr [ %array, %owner ], [ %base, %deep ]
  %word = ptrtoint ptr %who to i64
  %short = lshr i64 %word, 4
  %mixed = mul i64 %short, 11400714819323198485
  %hash = lshr i64 %mixed, 32
  %written = icmp eq i64 %part, 1
  br label %probe

probe:
  %at = phi i64 [ %hash, %owned ], [ %at_next, %other ]
  %place = and i64 %at, %mask
  %twice = shl i64 %place, 1
  %entry_at = getelementptr i64, ptr %scratch, i64 %twice
  %stamp = load i64, ptr %entry_at
  %used = icmp eq i64 %stamp, %call
  %holder_at = getelementptr i64, ptr %entry_at, i64 1
  br i1 %used, label %compare, label %absent

compare:
  %holder = load i64, ptr %holder_at
  %shared = icmp eq i64 %holder, %word
  br i1 %shared, label %no, label %other

other:
  %at_next = add i64 %place, 1
  br label %probe

absent:
  br i1 %written, label %insert, label %next

insert:
  store i64 %call, ptr %entry_at
  store i64 %word, ptr %holder_at
  br label %next

next:
  %k_next = add i64 %k, 1
  %words = add i64 %rank, {RECORD}
  %record_next = getelementptr i64, ptr %record, i64 %words
  br label %records

sizes:
  %p = phi i64 [ 0, %records ], [ %p_next, %right_size ]
  %pair = phi ptr [ %record, %records ], [ %pair_next, %right_size ]
  %another = icmp ult i64 %p, %pairs
  br i1 %another, label %left, label %yes

left:
  %a_item = load i64, ptr %pair
  %a_axis_at = getelementptr i64, ptr %pair, i64 1
  %a_axis = load i64, ptr %a_axis_at
  %b_item_at = getelementptr i64, ptr %pair, i64 2
  %b_item = load i64, ptr %b_item_at
  %b_axis_at = getelementptr i64, ptr %pair, i64 3
  %b_axis = load i64, ptr %b_axis_at
  %a_array_at = getelementptr ptr, ptr %items, i64 %a_item
  %a_array = load ptr, ptr %a_array_at
  %a_fields = getelementptr i8, ptr %a_array, i64 %nd
  %a_shape_at = getelementptr i8, ptr %a_fields, i64 {SHAPE}
  %a_shape = load ptr, ptr %a_shape_at
  %a_at = getelementptr i64, ptr %a_shape, i64 %a_axis
  %a = load i64, ptr %a_at
  %number = icmp eq i64 %b_item, -1
  br i1 %number, label %right_size, label %right

right:
  %b_array_at = getelementptr ptr, ptr %items, i64 %b_item
  %b_array = load ptr, ptr %b_array_at
  %b_fields = getelementptr i8, ptr %b_array, i64 %nd
  %b_shape_at = getelementptr i8, ptr %b_fields, i64 {SHAPE}
  %b_shape = load ptr, ptr %b_shape_at
  %b_at = getelementptr i64, ptr %b_shape, i64 %b_axis
  %b_read = load i64, ptr %b_at
  br label %right_size

right_size:
  %b = phi i64 [ %b_axis, %left ], [ %b_read, %right ]
  %p_next = add i64 %p, 1
  %pair_next = getelementptr i64, ptr %pair, i64 {PAIR}
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %sizes, label %no

yes:
  ret i64 1

no:
  ret i64 0
}}
"""
