"""The passes in order, for all to see.

`prepare` runs before differentiation and keeps the rows that have a derivative of their own; `run` ends with a graph of
primitives for the backends. A pass returns the graph itself where it changes nothing, and is not run again on a graph
that it made. With JITGRAD_VERIFY=1 the graph is verified before and after each pass that changed it, with 2 it is also
printed, parsed and compared. JITGRAD_DEBUG=3 shows the graph before and after, 5 after each pass that changed it.
"""

from collections import Counter
from collections.abc import Callable

from jitgrad import config
from jitgrad.ops import OPS
from jitgrad.script.autodiff.regions import unmark
from jitgrad.script.graph.ir import Graph, Node
from jitgrad.script.passes.canonicalize import canonicalize
from jitgrad.script.passes.cse import cse
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.decompose import decompose
from jitgrad.script.passes.joined import joined, joined_bare
from jitgrad.script.passes.loops.ahead import products_ahead
from jitgrad.script.passes.loops.behind import products_behind
from jitgrad.script.passes.loops.invariant import invariant
from jitgrad.script.passes.loops.licm import licm
from jitgrad.script.passes.loops.unroll import unroll
from jitgrad.script.passes.picks import picks
from jitgrad.script.passes.products import transpose_products
from jitgrad.script.passes.slices import slices

Pass = Callable[[Graph], Graph]


def decompose_partly(graph: Graph) -> Graph:
    """`decompose`, but for the rows that have a derivative of their own."""
    return decompose(graph, keep_vjp=True)


def decompose_for_cpu(graph: Graph) -> Graph:
    """`decompose`, but for the rows that NumPy runs without memory for all pairs."""
    return decompose(graph, keep=frozenset(name for name, op in OPS.items() if "in_library" in op.traits))


#: before differentiation
PREPARE: tuple[Pass, ...] = (decompose_partly, unroll, canonicalize, cse, invariant, licm, dce)

#: for the backends; rules may say something by a row that is composed (`overwrite`)
RUN: tuple[Pass, ...] = (unmark, decompose_for_cpu, canonicalize, decompose_for_cpu, cse, picks, joined, cse,
                         transpose_products, invariant, licm, products_ahead, products_behind, slices, dce)

_ON_DEVICES: dict[Pass, Pass] = {joined: joined_bare, decompose_for_cpu: decompose}

#: for those of devices
RUN_DEVICE: tuple[Pass, ...] = tuple(_ON_DEVICES.get(p, p) for p in RUN if p is not products_behind)


def prepare(graph: Graph, *, verify: int | None = None) -> Graph:
    """`graph` simplified, ready for `differentiate`. `verify` overrides JITGRAD_VERIFY."""
    return apply(PREPARE, graph, verify)


def run(graph: Graph, *, device: bool = False, verify: int | None = None) -> Graph:
    """`graph` simplified and in primitives, ready for code generation. `verify` overrides JITGRAD_VERIFY."""
    return apply(RUN_DEVICE if device else RUN, graph, verify)


def apply(passes: tuple[Pass, ...], graph: Graph, verify: int | None = None) -> Graph:
    """`graph` after `passes`."""
    knobs = config.current()
    level = knobs.verify if verify is None else verify
    if level or knobs.debug >= 3:
        return _watched(passes, graph, level, knobs.debug)
    made: dict[Pass, Graph] = {}
    for p in passes:
        if made.get(p) is not graph:
            graph = made[p] = p(graph)
    return graph


def _watched(passes: tuple[Pass, ...], graph: Graph, level: int, debug: int) -> Graph:
    """The same with verification and output."""
    from jitgrad.script.graph.parse import parse
    from jitgrad.script.graph.text import equal, to_text
    from jitgrad.script.graph.verify import InvalidGraph, verify

    known: set[Node] = set()

    def inspect(after: str) -> None:
        try:
            if level:
                verify(graph, known=known)
        except InvalidGraph as error:
            error.add_note(f"found after {after}")
            raise
        if level > 1:
            objects: dict[str, object] = {}
            text = to_text(graph, objects=objects)
            assert equal(parse(text, objects), graph), f"the text after {after} reads back differently:\n{text}"

    inspect("building")
    text = to_text(graph) if debug >= 3 else ""
    config.log(3, f"graph before passes\n{text}")
    made: dict[Pass, Graph] = {}
    for p in passes:
        if made.get(p) is graph:
            continue
        fired: Counter[str] = Counter()
        old, graph = graph, canonicalize(graph, fired) if p is canonicalize else p(graph)
        made[p] = graph
        if graph is old:
            continue
        inspect(f"`{p.__name__}`")
        if debug >= 5:
            before, text = text, to_text(graph)
            if text != before:
                rules = ", ".join(f"{name} x{n}" for name, n in fired.items())
                config.log(5, f"graph after {p.__name__}{f' ({rules})' if rules else ''}\n{text}")
    if debug >= 3:
        config.log(3, f"graph after passes\n{to_text(graph)}")
    return graph
