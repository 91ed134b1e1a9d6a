"""A graph as a program: its blocks as steps, its inputs and outputs."""

from collections.abc import Collection

from jitgrad.codegen.lower import interface
from jitgrad.codegen.lower.block import lower_block
from jitgrad.codegen.lower.deferred_stores import attach
from jitgrad.codegen.lower.fusing import with_copies
from jitgrad.codegen.lower.linear import linearize
from jitgrad.codegen.lower.state import Lowering, is_single
from jitgrad.codegen.program.program import Program
from jitgrad.ops.opdef import CREATE, has_trait, is_kind, is_scalar
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, Value, committed, walk


def lower(name: str, graph: Graph, device: bool = False, hosted: Collection[int] = (), ordered: bool = False,
          tiles: bool = True) -> Program:
    """The program of a graph whose composites are decomposed. Raises NotImplementedError for a row nobody can run.

    `device`: the tensors are in memory that the host does not read; kernels compute those of one element too, but for
    the inputs `hosted`, of one element in the host's memory, and what is made of these alone. `ordered`: scatters on a
    device keep a fixed order, as they always do on the host. `tiles`: it has the instructions of `cuda/kernels/tiled/`.
    """
    graph = with_copies(linearize(attach(graph)))
    state = Lowering(graph, lower_block, device, hosted, on_host(graph, hosted) if hosted else (), ordered and device,
                     tiles)
    parts = interface.bind_inputs(state)
    planned = interface.plan_outputs(state)
    lower_block(state, graph.block)
    outputs = [interface.store_output(state, v, place) for v, place in zip(graph.outputs, planned, strict=True)]
    return Program(name, tuple(v.type for v in graph.inputs), state.input_buffers, parts, state.symbols, state.steps,
                   outputs, state.sites, state.reasons, tuple(committed(graph.block)), state.origins)


def on_host(graph: Graph, inputs: Collection[int]) -> frozenset[Value]:
    """What a device program computes on the host: inputs in its memory, and one element made of these and numbers."""
    found = {graph.inputs[i] for i in inputs}
    constants: set[Value] = set()
    for node in walk(graph.block):
        tensors = [v for v in node.inputs if isinstance(v.type, TensorType)]
        if len(node.outputs) != 1 or not is_single(node.outputs[0].type):
            continue
        if is_kind(node.op, CREATE) and node.op != "arange":
            constants.add(node.outputs[0])
        elif (is_scalar(node.op) or has_trait(node.op, "affine")) and any(v in found for v in tensors) and all(
                v in found or v in constants for v in tensors):
            found.add(node.outputs[0])
    return frozenset(found)
