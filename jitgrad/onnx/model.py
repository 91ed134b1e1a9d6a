"""A specialisation as an ONNX model: arguments become inputs, what else it reads becomes constants.

Parameters and buffers are initializers under their names in the state_dict; other tensors, and floats and ints of
attributes and closures, are constants with the values that they have now.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

import jitgrad
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.errors import UnsupportedOnnx
from jitgrad.onnx.emitter import Emitter, numpy_type, tensor, value_info
from jitgrad.onnx.structure import Writer
from jitgrad.onnx.table import ROWS
from jitgrad.ops.types import OptionalType, TensorType
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import describe, resolve
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.graph.ir import Graph, Node, Value, symbol_axes
from jitgrad.script.graph.irops import infer
from jitgrad.script.passes.cse import cse
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.decompose import decompose

#: the versions of the operator set in which every row of the table means what it says
OPSETS = range(18, 24)
_RESULTS = "return tensors and numbers, in tuples, dicts, dataclasses, and lists of a length that is known"


class ModelWriter:
    """Builds the model of one specialisation.

    Args:
        specialisation: compiled for the call whose parameters are `values`.
        values: parameter name -> value at that call.
        root: the parameter that is the module or instance itself, or None.
        dynamic: input name -> axis -> name of the size; None: every size that varies.
        opset: version of the operator set.
    """

    def __init__(self, specialisation: Specialisation, values: dict[str, Any], root: str | None,
                 argument_names: Mapping[sig.Source, str], dynamic: Mapping[str, Mapping[int, str]] | None, opset: int):
        if opset not in OPSETS:
            raise ValueError(f"opset_version is from {OPSETS[0]} to {OPSETS[-1]}, not {opset}")
        self.script = specialisation.script
        self.values, self.root, self.dynamic = values, root, dynamic
        self.argument_names = argument_names
        self.e = Emitter(opset)
        self.writer = Writer(self.e)
        graph = specialisation.function.graph
        self.graph: Graph = dce(cse(decompose(graph, keep=frozenset(ROWS))))
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.names: dict[Symbol, str] = {}

    def model(self, input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> onnx.ModelProto:
        """The model. Raises UnsupportedOnnx."""
        e, graph = self.e, self.graph
        wanted = list(input_names or ())
        self._fix_sizes()
        for source, value in zip(self.script.inputs, graph.inputs, strict=True):
            self._input(source, value, wanted)
        if wanted:
            raise ValueError(f"there are fewer inputs than `input_names`: {wanted} are left over")
        self.writer.bind_sizes(graph.block.binds, graph.inputs)
        self.writer.block(graph.block)
        e.node = None
        self._results(list(output_names) if output_names is not None else None)
        used = _names_read(e.nodes)
        constants = [constant for name, constant in e.initializers.items() if name in used]
        made = helper.make_graph(e.nodes, graph.name, self.inputs, self.outputs, constants)
        opsets = [helper.make_opsetid("", e.opset)]
        return helper.make_model(made, opset_imports=opsets, producer_name="jitgrad",
                                 producer_version=jitgrad.__version__,
                                 ir_version=helper.find_min_ir_version_for(opsets))

    def _fix_sizes(self) -> None:
        """The sizes of parameters are constants: arguments that must fit them are declared so."""
        for source, value in zip(self.script.inputs, self.graph.inputs, strict=True):
            if not self._is_argument(source):
                for axis, symbol in symbol_axes(value.type):
                    self.e.known[symbol] = int(resolve(source, self.values).shape[axis])

    def _is_argument(self, source: sig.Source) -> bool:
        origin = _root(source)
        return isinstance(origin, sig.Arg) and origin.name != self.root

    # --- inputs ----------------------------------------------------------------------------------------------------

    def _input(self, source: sig.Source, value: Value, wanted: list[str]) -> None:
        e = self.e
        if isinstance(source, sig.RngState):
            self.writer.values[value] = (e.constant(0, np.int64),)  # read only by what is refused
        elif self._is_argument(source):
            name = e.name(wanted.pop(0) if wanted else self.argument_names.get(source) or _identifier(describe(source)))
            self.writer.values[value] = (name,)
            self.inputs.append(value_info(name, numpy_type(value.type), self._declared(name, source, value)))
        else:
            found = resolve(source, self.values)
            name = e.name(self._state_name(source))
            array = to_host(found._data) if isinstance(value.type, TensorType) else found
            e.initializers[name] = tensor(np.asarray(array, numpy_type(value.type)), name)
            self.writer.values[value] = (name,)

    def _state_name(self, source: sig.Source) -> str:
        """`body.0.weight`: the path below the root as in a state_dict."""
        parts: list[str] = []
        while isinstance(source, (sig.Attr, sig.Item)):
            key = source.name if isinstance(source, sig.Attr) else str(source.key)
            if key not in ("_modules", "_parameters", "_buffers"):
                parts.insert(0, key)
            source = source.base
        start = [] if isinstance(source, sig.Arg) else [_identifier(describe(source)) or "constant"]
        return ".".join([*start, *parts])

    def _declared(self, name: str, source: sig.Source, value: Value) -> list[Any]:
        """The declared shape of an input: a name for a size that varies, a number for one that does not."""
        if not isinstance(value.type, TensorType):
            return []
        given = resolve(source, self.values).shape
        axes = None if self.dynamic is None else self.dynamic.get(name, {})
        declared: list[Any] = []
        for axis, size in enumerate(value.type.dims):
            size = self.e.fixed(size)
            symbol = size.symbol if isinstance(size, Dim) else None
            if isinstance(size, int) or (axes is not None and axis not in axes):
                declared.append(int(given[axis]))
                if symbol is not None and symbol not in self.names:
                    self.e.known[symbol] = int(given[axis])
            elif axes is not None:
                declared.append(axes[axis])
                if symbol is not None:
                    self.names.setdefault(symbol, axes[axis])
            elif symbol is not None:
                declared.append(self.names.setdefault(symbol, f"{name}_{axis}"))
            else:
                declared.append(f"{name}_{axis}")
        return declared

    # --- results ---------------------------------------------------------------------------------------------------

    def _results(self, wanted: list[str] | None) -> None:
        leaves = list(_leaves(self.script.result, ()))
        if wanted is not None and len(wanted) != len(leaves):
            raise ValueError(f"{len(leaves)} outputs, but {len(wanted)} `output_names`")
        for i, (leaf, path) in enumerate(leaves):
            default = ".".join(path) or ("output" if len(leaves) == 1 else f"output_{i}")
            found, dtype, shape = self._leaf(leaf)
            made = self.e("Identity", found, name=wanted[i] if wanted is not None else default)
            self.outputs.append(value_info(made, dtype, [None if d is None else self._output_size(d) for d in shape]))

    def _leaf(self, leaf: sig.Result, there: bool = False) -> tuple[str, Any, Sequence[Any]]:
        """The name, dtype and sizes of one result; `there`: it is known not to be missing."""
        match leaf:
            case sig.Output(index) | sig.Same(index):
                value = (self.graph.outputs if isinstance(leaf, sig.Output) else self.graph.inputs)[index]
                names, type_ = self.writer.values[value], value.type
                if there and isinstance(type_, OptionalType):
                    names, type_ = names[1:], type_.elem
                if len(names) != 1:
                    raise UnsupportedOnnx("a result that may be None", None, hint="return a tensor on every path")
                return names[0], numpy_type(type_), getattr(type_, "dims", ())
            case sig.Static(value):
                if not isinstance(value, (bool, int, float)):
                    raise UnsupportedOnnx(f"a result of type `{type(value).__name__}`", None, hint=_RESULTS)
                array = np.asarray(value)
                return self.e.constant(array), array.dtype, ()
            case sig.ViewOf():
                return self._view(leaf)
            case sig.OneOf(tag, results):
                return self._choice(self.writer.one(self.graph.outputs[tag]), results)
        raise UnsupportedOnnx(f"a result of kind `{type(leaf).__name__}`", None, hint=_RESULTS)

    def _view(self, leaf: sig.ViewOf) -> tuple[str, Any, Sequence[Size]]:
        """A view of an input or of another output: its path, as nodes."""
        value = (self.graph.outputs if leaf.made else self.graph.inputs)[leaf.index]
        name = self.writer.one(value)
        for symbol, index in dict(leaf.sizes).items():
            self.e.bind(symbol, self.writer.one(self.graph.outputs[index]))
        type_ = value.type
        for op, attrs in leaf.path:
            (after,) = infer(op, (type_,), attrs)
            node = Node(op, (Value(type_),), attrs, (Value(after),))
            name, type_ = ROWS[op](self.e, node, name), after
        return name, numpy_type(type_), getattr(type_, "dims", ())

    def _choice(self, tag: str, results: Sequence[sig.Result]) -> tuple[str, Any, Sequence[Any]]:
        """The first of several results if the tag is 0, else one of the others by what is left of it."""
        first, *others = results
        if not others:
            return self._leaf(first, there=True)
        e, graphs, dtype, rank = self.e, [], None, 0
        for side in (first, None):
            with e.block() as nodes:
                less = e("Sub", tag, e.constant(1, np.int64)) if side is None else tag
                name, dtype, shape = self._choice(less, others) if side is None else self._leaf(side, there=True)
                rank = len(shape)
                declared = value_info(e("Identity", name), dtype, None)
                graphs.append(helper.make_graph(list(nodes), e.name("side"), [], [declared]))
        made = e("If", e("Equal", tag, e.constant(0, np.int64)), then_branch=graphs[0], else_branch=graphs[1])
        return made, dtype, [None] * rank

    def _output_size(self, size: Size) -> Any:
        """A size of a result: a number, the name of an input's size, or an expression of these."""
        size = self.e.fixed(size)
        symbol = None if isinstance(size, int) else size.symbol
        return size if isinstance(size, int) else symbol and self.names.get(symbol, symbol.name)


def _root(source: sig.Source) -> sig.Source:
    while isinstance(source, (sig.Attr, sig.Item)):
        source = source.base
    return source


def _names_read(nodes: Sequence[Any]) -> set[str]:
    """Every name that nodes, or the nodes of their subgraphs, read."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        found.update(node.input)
        for attribute in node.attribute:
            todo.extend(attribute.g.node)
    return found


def _identifier(path: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in path).strip("_")


def _leaves(result: sig.Result, path: tuple[str, ...]) -> Any:
    """The tensors and numbers in a result tree, in order, with the dict keys and field names on their way."""
    if isinstance(result, (sig.Container, sig.Object)):
        keys = result.names if isinstance(result, sig.Object) else result.keys or getattr(result.type, "_fields", None)
        for i, item in enumerate(result.items):
            step = (str(keys[i]),) if keys else (str(i),) if path else ()
            yield from _leaves(item, (*path, *step))
    elif not (isinstance(result, sig.Static) and result.value is None):
        yield result, path
