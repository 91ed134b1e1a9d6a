"""What becomes of a graph before it is printed for a device, in order."""

from collections.abc import Collection

from jitgrad import config
from jitgrad.codegen.cuda.schedule.grouping import grouped
from jitgrad.codegen.cuda.schedule.poison import poisoned
from jitgrad.codegen.cuda.schedule.regions import resident
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.program import Program
from jitgrad.script.graph.ir import Graph


def prepared(name: str, graph: Graph, hosted: Collection[int] = (), ordered: bool = False,
             tiles: bool = True) -> Program:
    """A graph after passes as the program of a device. `hosted`, `ordered`, `tiles`: see `lower`."""
    program = grouped(resident(lower(name, graph, True, hosted, ordered, tiles)))
    return poisoned(program) if config.current().debug_arena else program
