"""Appends ONNX nodes to the block that is being written: names, constants, and sizes computed from shapes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from jitgrad.dims import Call, Dim, Size, Symbol, dim, substitute
from jitgrad.errors import Span, UnsupportedOnnx
from jitgrad.ops.types import BOOL, FLOAT, INT, TensorType, Type
from jitgrad.script.graph.ir import Node

ELEMENTS = {name: getattr(TensorProto, code) for name, code in {
    "bool": "BOOL", "uint8": "UINT8", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}.items()}
_NUMPY: dict[Type, np.dtype[Any]] = {INT: np.dtype(np.int64), FLOAT: np.dtype(np.float64), BOOL: np.dtype(np.bool_)}


def numpy_type(type_: Type, span: Span | None = None) -> np.dtype[Any]:
    """The dtype of the ONNX tensor that holds a value: numbers are 0-dim int64, double and bool."""
    if isinstance(type_, TensorType):
        return type_.dtype.np
    found = _NUMPY.get(type_)
    if found is None:
        raise UnsupportedOnnx(f"a value of type `{type_}`", span)
    return found


def element(dtype: Any) -> int:
    """ONNX's code of a NumPy dtype."""
    code: int = ELEMENTS[np.dtype(dtype).name]
    return code


class Emitter:
    """One model under construction.

    Attributes:
        nodes: of the innermost block.
        initializers: the model's constants and parameters, by name.
        opset: the version of the operator set.
        node: the graph's node that is being written, for messages.
        known: sizes that the model fixes: those of parameters, and of axes that are not dynamic.
    """

    def __init__(self, opset: int):
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.node: Node | None = None
        self.known: dict[Symbol, int] = {}
        self._used: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._sizes: list[dict[Any, str]] = [{}]

    # --- names and nodes -------------------------------------------------------------------------------------------

    def name(self, wanted: str) -> str:
        """A name that no other value of the model has."""
        count = self._used.get(wanted)
        self._used[wanted] = 0 if count is None else count + 1
        return wanted if count is None else self.name(f"{wanted}_{count + 1}")

    def __call__(self, op: str, *inputs: str, name: str = "", **attrs: Any) -> str:
        """Append a node with one output; its name."""
        return self.several(op, inputs, 1, name=name, **attrs)[0]

    def several(self, op: str, inputs: Sequence[str], n: int, *, name: str = "", **attrs: Any) -> list[str]:
        """Append a node with n outputs; their names."""
        outputs = [self.name(name or op.lower()) for _ in range(n)]
        span = self.node.span if self.node is not None else None
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=self.name(f"{op}_"),
                                           doc_string=str(span) if span is not None else None, **attrs))
        return outputs

    def fail(self, message: str, hint: str = "") -> UnsupportedOnnx:
        return UnsupportedOnnx(message, self.node.span if self.node is not None else None, hint=hint)

    @contextmanager
    def block(self) -> Iterator[list[Any]]:
        """Write into a new block inside a `with`; what it computes of sizes is known there alone."""
        outer, self.nodes = self.nodes, []
        self._sizes.append({})
        try:
            yield self.nodes
        finally:
            self.nodes = outer
            self._sizes.pop()

    # --- constants -------------------------------------------------------------------------------------------------

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant, stored once per value."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.name("constant")
            self.initializers[found] = numpy_helper.from_array(array, found)
        return found

    def ints(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def cast(self, x: str, dtype: Any) -> str:
        """x in another dtype."""
        return self("Cast", x, to=element(dtype))

    # --- sizes -----------------------------------------------------------------------------------------------------

    def bind(self, symbol: Symbol, value: str, axis: int | None = None) -> None:
        """A symbol is the size of `value` along an axis; with None, the number `value`."""
        self._sizes[-1][symbol] = value if axis is None else ("shape", value, axis)  # type: ignore[assignment]

    def size(self, size: Size) -> str:
        """A size as a 0-dim int64."""
        size = self.fixed(size)
        if isinstance(size, int):
            return self.constant(size, np.int64)
        for known in reversed(self._sizes):
            found: Any = known.get(size if size.symbol is None else size.symbol)
            if isinstance(found, str):
                return found
            if found is not None:  # a shape that nobody has read yet, in this block
                _, value, axis = found
                dims = self("Shape", value)
                return self._remember(size.symbol, self("Gather", dims, self.constant(axis, np.int64), axis=0))
        return self._remember(size, self._sum(size))

    def fixed(self, size: Size) -> Size:
        """A size with what the model fixes filled in."""
        return size if isinstance(size, int) or not self.known else substitute(size, self.known)

    def _remember(self, key: Any, name: str) -> str:
        self._sizes[-1][key] = name
        return name

    def _sum(self, size: Dim) -> str:
        total = ""
        for monomial, coefficient in size.terms:
            term = "" if coefficient != 1 or not monomial else None
            product = self.size(coefficient) if term is not None else ""
            for atom in monomial:
                factor = self.size(dim(atom)) if isinstance(atom, Symbol) else self._call(atom)
                product = self("Mul", product, factor) if product else factor
            total = self("Add", total, product) if total else product
        return total

    def _call(self, atom: Call) -> str:
        a, *rest = [self.size(x) for x in atom.args]
        if atom.fn == "not_one":
            return self.cast(self("Not", self("Equal", a, self.size(1))), np.int64)
        for b in rest:
            if atom.fn == "floordiv":
                a = floor_divide(self, a, b)
            elif atom.fn == "mod":
                a = self("Mod", a, b)
            elif atom.fn == "bcast":
                a = self("Where", self("Equal", a, self.size(1)), b, a)
            else:
                a = self("Min" if atom.fn == "min" else "Max", a, b)
        return a

    def shape(self, sizes: Sequence[Size]) -> str:
        """Sizes as a 1-dim int64."""
        sizes = [self.fixed(s) for s in sizes]
        if all(isinstance(s, int) for s in sizes):
            return self.ints([int(s) for s in sizes])  # type: ignore[arg-type]
        zero = self.ints([0])
        parts = [self.ints([s]) if isinstance(s, int) else self("Unsqueeze", self.size(s), zero) for s in sizes]
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=0)

    def one_size(self, size: Size) -> str:
        """A size as an int64 vector of one element."""
        return self.shape([size])


def floor_divide(e: Emitter, a: str, b: str) -> str:
    """a // b of integers, rounded down as Python's: ONNX divides toward zero, its Mod has the divisor's sign."""
    return e("Div", e("Sub", a, e("Mod", a, b)), b)


def value_info(name: str, dtype: Any, shape: Sequence[Any] | None) -> Any:
    """The declaration of a value; no shape where it may vary from one iteration or branch to the next."""
    return helper.make_tensor_value_info(name, element(dtype), shape)


def tensor(array: np.ndarray[Any, Any], name: str) -> onnx.TensorProto:
    """An array as a named constant."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
