"""Native code as built-in functions of Python, which pass their arguments as they lie on its stack.

    run(workspace: its address, *arrays) -> the status of a program, without Python's lock
    check(*arrays) -> whether they are what a table says (`jg_arrays`)
    values(a dict) -> a tuple of its values, where its keys are those of a table, in their order; else False
    results(*arrays) -> a tuple of new arrays, whose sizes are those of the arguments; False where one is large
    words(*arrays and ints) -> what a loop returns, an int64, without Python's lock

The table of `values`: the class `dict`, the number of keys, the keys. Equal keys may be other objects, and a dict of
another class: then Python looks closer.

The table of `results`: NumPy's `PyArray_Empty`, the byte offset of the address of an array's sizes, bytes that are
many, the number of arrays; of each its dtype, the bytes of an element, the rank, and by axis an argument and its axis,
or -1 and the size.

The table of `words`: the class `ndarray`, the byte offset of the address of an array's elements, the address of the
loop. That has one argument, the address of words: of each array the address of its elements, and the ints.

Such a function is one of the library's here with an address of its own (`codegen/run/runtime.py`): of a program, of a
table. ctypes would turn each number into another one first (`python -m benchmarks.bench_call` is what calls cost).
"""

from jitgrad.kernels.arrays import CLASS
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

#: what is called of Python
PYTHON = ("PyLong_AsVoidPtr", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyBool_FromLong", "PyEval_SaveThread",
          "PyEval_RestoreThread", "PyDict_Size", "PyDict_Next", "PyTuple_New", "PyTuple_SetItem", "Py_IncRef",
          "Py_DecRef")
#: of a NumPy array
MOST_AXES = 64
#: words at most of a loop
MOST_WORDS = 16

LIBRARY = Library()


@LIBRARY.function("ptr", own="ptr", given="ptr", count="i64")
def jg_run(f: Native, own: V, given: V, count: V) -> V:
    program, workspace = f.call("PyLong_AsVoidPtr", "ptr", 1, own), f.load(given, elem="ptr")
    workspace = f.call("PyLong_AsVoidPtr", "ptr", 1, workspace)
    thread = f.call("PyEval_SaveThread", "ptr", 1)
    status = f.through(program, "i64", workspace, f.at(given, 1))
    f.do("PyEval_RestoreThread", thread)
    return f.call("PyLong_FromLongLong", "ptr", 1, status)


@LIBRARY.function("ptr", own="ptr", given="ptr", count="i64")
def jg_check(f: Native, own: V, given: V, count: V) -> V:
    holds = f.call("jg_arrays", "i64", 1, given, f.call("PyLong_AsVoidPtr", "ptr", 1, own))
    return f.call("PyBool_FromLong", "ptr", 1, holds)


@LIBRARY.function("ptr", own="ptr", given="ptr", count="i64")
def jg_values(f: Native, own: V, given: V, count: V) -> V:
    table, found = f.call("PyLong_AsVoidPtr", "ptr", 1, own), f.load(given, elem="ptr")
    _false_unless(f, f.field(found, CLASS).eq(f.load(table)))
    length = f.load(table, 1)
    _false_unless(f, f.call("PyDict_Size", "i64", 1, found).eq(length))
    values = f.call("PyTuple_New", "ptr", 1, length)
    with f.when(values.eq(f.null)):
        f.leave(f.null)
    place, key, value = [f.room(1) for _ in range(3)]
    f.store(f.number(0), place)
    with f.each(length) as k:
        f.call("PyDict_Next", "i32", 1, found, place, key, value)
        _false_unless(f, f.load(key).eq(f.load(table, k + 2)), values)
        f.do("Py_IncRef", f.load(value, elem="ptr"))
        f.call("PyTuple_SetItem", "i32", 1, values, k, f.load(value, elem="ptr"))
    return values


@LIBRARY.function("ptr", own="ptr", given="ptr", count="i64")
def jg_results(f: Native, own: V, given: V, count: V) -> V:
    table = f.call("PyLong_AsVoidPtr", "ptr", 1, own)
    make, (shape, large, number) = f.load(table, elem="ptr"), [f.load(table, k) for k in (1, 2, 3)]
    arrays = f.call("PyTuple_New", "ptr", 1, number)
    with f.when(arrays.eq(f.null)):
        f.leave(f.null)
    place, sizes = f.variable(f.at(table, 4)), f.room(MOST_AXES)
    with f.each(number) as k:
        record = place.value
        dtype, rank = f.load(record, elem="ptr"), f.load(record, 2)
        length = f.variable(f.load(record, 1))
        with f.each(rank) as axis:
            argument, size = f.load(record, axis * 2 + 3), f.variable(f.load(record, axis * 2 + 4))
            with f.when(argument.ne(-1)):
                size.value = f.load(f.field(f.load(given, argument), shape), size.value)
            f.store(size.value, sizes, axis)
            length.value = length.value * size.value
        _false_unless(f, length.value.compare("ult", large), arrays)
        f.do("Py_IncRef", dtype)
        array = f.through(make, "ptr", rank.cast("trunc", "i32"), sizes, dtype, f.number(0, "i32"))
        with f.when(array.eq(f.null)):
            f.do("Py_DecRef", arrays)
            f.leave(f.null)
        f.call("PyTuple_SetItem", "i32", 1, arrays, k, array)
        place.value = f.at(record, rank * 2 + 3)
    return arrays


@LIBRARY.function("ptr", own="ptr", given="ptr", count="i64")
def jg_words(f: Native, own: V, given: V, count: V) -> V:
    table, words = f.call("PyLong_AsVoidPtr", "ptr", 1, own), f.room(MOST_WORDS)
    kind, data, loop = f.load(table), f.load(table, 1), f.load(table, 2, "ptr")
    with f.each(count) as k:
        argument = f.load(given, k, "ptr")
        is_array = f.field(argument, CLASS).eq(kind)
        with f.when(is_array):
            f.store(f.field(argument, data), words, k)
        with f.unless(is_array):
            f.store(f.call("PyLong_AsLongLong", "i64", 1, argument), words, k)
    thread = f.call("PyEval_SaveThread", "ptr", 1)
    found = f.through(loop, "i64", words)
    f.do("PyEval_RestoreThread", thread)
    return f.call("PyLong_FromLongLong", "ptr", 1, found)


def _false_unless(f: Native, good: V, made: V | None = None) -> None:
    with f.unless(good):
        if made is not None:
            f.do("Py_DecRef", made)
        f.leave(f.call("PyBool_FromLong", "ptr", 1, f.number(0)))
