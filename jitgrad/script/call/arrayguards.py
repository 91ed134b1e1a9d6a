"""Guards of many arrays at once: what native code checks of them at entry (`codegen/run/arrays.py`).

A training step reads the parameters, their moments and counts: some hundred arrays, of each of which Python would ask
class, dtype and sizes, whether sizes agree, and whether what is written has memory of its own. All of that lies at
known places of the arrays' objects. Where the native check is not content, the same guards are asked in Python, which
knows more: that two dtypes are equal though not the same object, and which memories overlap.

On a device native code does not know the arrays' objects. But those of parameters and their like are nearly always the
ones of the call before: what was asked of them then is not asked again (`Held`). A training step looks at its batch.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from jitgrad import dims
from jitgrad.codegen.run.arrays import KNOWN, Check, Equal, Expected
from jitgrad.dims import Size, Symbol
from jitgrad.kernels.arrays import ANYWHERE, READ, WRITTEN
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter, apart, owners_of, picker, separate
from jitgrad.script.call.sources import elem_of
from jitgrad.script.graph.ir import symbol_axes

#: with fewer arrays the call costs more than it saves
FEWEST = 12
#: fewer than so many are asked at every call
FEW = 3


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
        return f"{writer.constant(self.check.call)}({', '.join(['*r', *[f'{name}._data' for name in self.more]])})"


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


class Held(NamedTuple):
    """Tensors on a device that are found by way of attributes.

    Attributes:
        names: their variables.
        sizes: numbers of the size guards that are about them alone.
        written: which inputs among them the program writes; none, or all that it writes.
        read, others: which of the other inputs are among them, and which are not.
    """

    names: tuple[str, ...]
    sizes: frozenset[int]
    written: list[int]
    read: list[int]
    others: list[int]

    def emit(self, writer: EntryWriter, script: sig.ScriptGraph, shapes: Mapping[str, tuple[int, ...]],
             sizes: Sequence[tuple[Size, Size]]) -> str:
        """The guards; what is left to require: that what is written has memory apart from the others' (or "").

        `r` is the list of the program's inputs. What passed is kept: the numbers of owners are those of live objects.
        """
        kept = writer.constant([((None,) * len(self.names), frozenset())])
        arrays = ", ".join(map(writer.array, self.names))
        writer.lines += [f"k = {kept}[0]", f"m = ({arrays},)"]
        written = f"{writer.constant(picker(self.written))}(r)"
        read, others = [f"{writer.constant(picker(numbers))}(r)" for numbers in (self.read, self.others)]
        with writer.block(f"not all(map({writer.constant(operator.is_)}, m, k[0]))"):
            writer.tensors(shapes, own=False, among=self.names)
            writer.sizes(script, [sizes[i] for i in sorted(self.sizes)])
            if self.written:
                writer.require(f"{writer.constant(separate)}({written}, {read})")
            writer.lines.append(f"{kept}[0] = k = (m, frozenset({writer.constant(owners_of)}({written})))")
        return f"{writer.constant(apart)}(k[1], {written}, {others})" if self.written and self.others else ""


def held(writer: EntryWriter, script: sig.ScriptGraph, names: Sequence[str], tensors: Collection[int],
         sizes: Sequence[tuple[Size, Size]], written: Collection[int]) -> Held | None:
    """What of some inputs, tensors, is asked when they change only; None where that is not worth while.

    Args:
        written: the inputs whose memory must be apart from that of all others.
    """
    inner = [i for i in tensors if names[i] in writer.guarded and _is_held(script.inputs[i])]
    if len(inner) < FEW or not set(inner).issuperset(written):
        return None
    binders: dict[Symbol, int] = {}
    for i, type_ in enumerate(script.input_types):
        for _, symbol in symbol_axes(elem_of(type_)):
            binders.setdefault(symbol, i)
    among = frozenset(number for number, pair in enumerate(sizes)
                      if all(binders.get(s) in inner for size in pair for s in dims.symbols(size)))
    return Held(tuple(dict.fromkeys(names[i] for i in inner)), among, list(written),
                [i for i in inner if i not in written], [i for i in tensors if i not in inner])


def _is_held(source: sig.Source) -> bool:
    """Whether something is found by way of an attribute, as parameters are and batches are not."""
    while isinstance(source, (sig.Item, sig.At)):
        source = source.base
    return isinstance(source, sig.Attr)
