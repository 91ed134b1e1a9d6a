"""Native code as built-in functions of Python, which pass their arguments as they lie on its stack.

    run(workspace: its address, *arrays) -> the status of a program, without Python's lock
    check(*arrays) -> whether they are what a table says (`jg_arrays`)

Such a function is one of the library's here with an address of its own (`codegen/run/runtime.py`): of a program, of a
table. ctypes takes five times as long for a call, most of it to turn numbers into numbers.
"""

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

#: what is called of Python
PYTHON = ("PyLong_AsVoidPtr", "PyLong_FromLongLong", "PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")

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
