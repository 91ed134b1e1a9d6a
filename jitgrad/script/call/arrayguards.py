"""Guards of many arrays at once: what native code checks of them at entry (`codegen/run/arrays.py`).

A training step reads the parameters, their moments and counts: some hundred arrays, of each of which Python would ask
class, dtype and sizes, whether sizes agree, and whether what is written has memory of its own. All of that lies at
known places of the arrays' objects. Where the native check is not content, the same guards are asked in Python, which
knows more: that two dtypes are equal though not the same object, and which memories overlap.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jitgrad.codegen.run.arrays import KNOWN, Check, Equal, Expected
from jitgrad.codegen.run.launch import TUPLE_ITEMS
from jitgrad.dims import Size, Symbol
from jitgrad.kernels.arrays import ANYWHERE, READ, WRITTEN
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter
from jitgrad.script.graph.ir import symbol_axes

#: with fewer arrays the call costs more than it saves
FEWEST = 12


class Plan(NamedTuple):
    """What one call of native code checks.

    Attributes:
        check: the call.
        more: variables of tensors that are guarded, but no inputs of the program.
        sizes: numbers of the size guards among it.
        separates: whether it also says that what is written has memory of its own.
    """

    check: Check
    more: tuple[str, ...]
    sizes: frozenset[int]
    separates: bool

    def condition(self, writer: EntryWriter) -> str:
        """The expression that is true where all is as it should be; `r` is the list of the program's inputs."""
        writer.lines.append(f"q = ({', '.join(['*r', *[f'{name}._data' for name in self.more]])},)")
        writer.constant(self.check)  # whose memory the address is of
        check, address = writer.constant(self.check.call), writer.constant(self.check.address)
        return f"{check}(id(q) + {TUPLE_ITEMS}, {address})"  # no numbers of this process: the text is a key on disk


def plan(writer: EntryWriter, script: sig.ScriptGraph, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]],
         sizes: Sequence[tuple[Size, Size]], written: Mapping[str, bool]) -> Plan | None:
    """What native code can check; None where there is too little, or a tensor that is not on the CPU.

    Args:
        writer: of whose variables the tensors are guarded.
        script: the program.
        names: the variables of its inputs.
        shapes: of the tensors in these variables, every size is known.
        sizes: what must be equal.
        written: whether the program writes the tensors in these variables, if it writes any.
    """
    if not KNOWN or len(writer.guarded) < FEWEST:
        return None
    place = {name: i for i, name in enumerate(names)}
    more = tuple(name for name in writer.guarded if name not in place)
    place |= {name: len(names) + i for i, name in enumerate(more)}
    separates = bool(written) and all(name in writer.guarded for name in written)
    expected = {}
    for name, (_, keys) in writer.guarded.items():
        if len(keys) != 1 or (key := next(iter(keys))).device.type != "cpu":
            return None
        part = ANYWHERE if not separates or name not in written else WRITTEN if written[name] else READ
        known: tuple[int | None, ...] = shapes.get(name) or tuple([1 if one else None for one in key.ones])
        expected[place[name]] = Expected(key.dtype.np, known, part)
    axes = _axes(writer, script, names)
    found = {number: pair for number, (a, b) in enumerate(sizes) if (pair := _equal(a, b, axes)) is not None}
    return Plan(Check(expected, list(found.values())), more, frozenset(found), separates)


def _axes(writer: EntryWriter, script: sig.ScriptGraph, names: Sequence[str]) -> dict[Symbol, tuple[int, int]]:
    """For symbols that stand alone in the type of a guarded tensor: the number of the input, and the axis."""
    found: dict[Symbol, tuple[int, int]] = {}
    for i, type_ in enumerate(script.input_types):
        if names[i] in writer.guarded:
            for axis, symbol in symbol_axes(type_):
                found.setdefault(symbol, (i, axis))
    return found


def _equal(a: Size, b: Size, axes: Mapping[Symbol, tuple[int, int]]) -> Equal | None:
    """Two sizes of arrays, or one and a number."""
    if isinstance(a, int):
        a, b = b, a
    left = None if isinstance(a, int) or a.symbol is None else axes.get(a.symbol)
    if left is None:
        return None
    right = (-1, b) if isinstance(b, int) else None if b.symbol is None else axes.get(b.symbol)
    return None if right is None else Equal(*left, *right)
