"""Scripted programs as ONNX models: `jitgrad.onnx.export`, `f.export_onnx`.

    table.py      op of the graph -> ONNX nodes, one row per op
    numbers.py    the same for Python numbers
    emitter.py    names, constants, sizes; a node at a time
    structure.py  blocks, branches, loops
    model.py      a graph with its inputs and parameters as a model
    api.py        the public functions

Needs the packages of `pip install jitgrad[onnx]`.
"""

from jitgrad.errors import UnsupportedOnnx
from jitgrad.onnx.api import export, export_function

__all__ = ["UnsupportedOnnx", "export", "export_function"]
