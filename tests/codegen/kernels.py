"""Running one kernel natively, and the same kernel in NumPy: every statement over the whole space at once."""

import ctypes

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.llvm import chunks, engine, kernel as llvm_kernel
from jitgrad.codegen.program.kernel import Operand, Stmt
from jitgrad.codegen.run import runtime
from jitgrad.dims import Symbol, dim
from jitgrad.ops import OPS

CTYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
          "i8": ctypes.c_int8, "i1": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double}
_compiled = {}


def native(kernel):
    """The kernel as a ctypes function; equal kernels compile once."""
    key = llvm_kernel.body_key(kernel)
    if key not in _compiled:
        text = llvm_kernel.emit(kernel, "kernel")
        module = "\n".join([*text.declares.values(), text.text.replace("define internal", "define")])
        loaded = engine.load(engine.compile_module(module), runtime.symbols(), ["kernel"])
        types = [CTYPES["i64" if p.kind == "scalar" else p.llvm_type] for p in chunks.parameters(kernel)]
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *types)
        _compiled[key] = loaded, function(loaded.address("kernel"))
    return _compiled[key][1]


def run(kernel, sizes, arrays, scalars=(), values=None):
    """Run natively. `sizes` of outer and inner axes; `values`: Symbol -> int for strides that are Dims."""
    from jitgrad.dims import evaluate

    arguments = []
    where = iter(sizes)
    for p in chunks.parameters(kernel):
        if p.kind == "size":
            arguments.append(next(where))
        elif p.kind == "operand":
            arguments.append(arrays[p.value].ctypes.data)
        elif p.kind == "stride":
            arguments.append(evaluate(p.value, values))
        else:
            floating = p.llvm_type in ("float", "double")
            arguments.append(int.from_bytes(CTYPES["double" if floating else p.llvm_type](scalars[p.value]), "little"))
    native(kernel)(None, 0, *arguments)


class Space:
    """Builds kernels over a space from NumPy arrays that are views of their operands."""

    def __init__(self, outer, inner=(), unknown_strides=()):
        self.sizes = (*outer, *inner)
        self.outer = tuple(dim(Symbol()) for _ in outer)
        self.inner = tuple(dim(Symbol()) for _ in inner)
        self.unknown = set(unknown_strides)
        self.operands, self.arrays, self.values = [], [], {}

    def operand(self, view, role="in"):
        """An operand from an array broadcast to the space (axes of stride 0 repeat). Non-unit strides are Dims."""
        strides = []
        for axis, (step, size) in enumerate(zip(view.strides, view.shape, strict=True)):
            stride = 0 if size == 1 and self.sizes[axis] != 1 else step // view.itemsize
            if stride in (0, 1) and axis not in self.unknown:
                strides.append(stride)
            else:
                symbol = Symbol()
                self.values[symbol] = stride
                strides.append(dim(symbol))
        self.operands.append(Operand(dtypes.from_numpy(view.dtype), tuple(strides), role))
        self.arrays.append(view)
        return len(self.operands) - 1


def impl(name, d, *args, attr=0):
    """A row of the op table on arrays."""
    row = OPS[name]
    if name == "cast":
        return row.impl(np, *args, dtype=d)
    return row.impl(np, *args)


def stmt(op, *args, **fields):
    return Stmt(op, args, **fields)
