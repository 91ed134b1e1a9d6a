"""Reading values again at every entry: one generated Python function per specialisation.

`EntryWriter` turns sources (`signature.Source`) and guards into straight-line Python that reads each object once,
returns None at the first assumption that fails, and otherwise returns the inputs. A call that hits therefore costs a
few attribute reads and comparisons, not an interpretation of the guards.
"""

import operator
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

import numpy as np

from jitgrad import dims, random
from jitgrad.codegen.run import generated
from jitgrad.codegen.run.dicts import Values
from jitgrad.device import FACTS, device
from jitgrad.dims import Atom, Size, Symbol
from jitgrad.eager.arrays.arrays import overlap
from jitgrad.ops.types import ListType, TensorType
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.list_kinds import NOTHING
from jitgrad.script.call.sources import (MISSES, REGISTRIES, Unreadable, as_parts, column_text, elem_of, memory_order,
                                         resolve, type_of_tensor)
from jitgrad.script.graph.ir import symbol_axes

#: so many tensors of one kind are checked in a loop: shorter to compile, and no slower
LOOP = 4


def is_name(text: str) -> bool:
    """Whether Python's syntax has a text for an attribute; `setattr` takes any."""
    return text.isidentifier() and not iskeyword(text)


class EntryWriter:
    """Writes the `enter` function of one specialisation. `native`: native code may help."""

    def __init__(self, params: Sequence[str], values: dict[str, Any], known: Mapping[sig.Source, str] = NOTHING,
                 native: bool = False):
        self.params, self.native = list(params), native
        self.values = values  # the parameters of the call that is being compiled
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._names = dict(known)
        self._constant_names: dict[int, str] = {}
        self._shapes: dict[str, str] = {}
        self._arrays: dict[str, str] = {}
        self._guarded: set[tuple[Any, ...]] = set()
        self._readers: dict[tuple[Any, ...], tuple[str, str]] = {}  # constants that read dicts, by their keys
        self._alike: dict[str, list[str]] = {}  # tensors, by the one that holds the same number
        self._tensors: dict[str, tuple[type, dict[sig.TensorKey, None]]] = {}  # variable -> class, guards

    def constant(self, value: Any) -> str:
        name = self._constant_names.get(id(value))
        if name is None:
            name = self._constant_names[id(value)] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def read(self, source: sig.Source) -> str:
        """The variable that holds the object at `source`."""
        return self._variable("v", self._names, source, lambda: self._expression(source))

    def _variable(self, letter: str, names: dict[Any, str], key: Any, expression: Callable[[], str]) -> str:
        """The variable that `names` has for something; one of an expression if it has none."""
        name = names.get(key)
        if name is None:
            text = expression()
            name = names[key] = f"{letter}{len(names)}"
            self.lines.append(f"{name} = {text}")
        return name

    def literal(self, value: Any) -> str:
        """`value` as Python."""
        return repr(value) if type(value) in (int, bool, str, type(None)) else self.constant(value)

    def assignment(self, source: sig.Source, value: str) -> str:
        """The statement that stores `value` at `source`."""
        if isinstance(source, sig.Attr) and not is_name(source.name):
            return f"setattr({self.read(source.base)}, {source.name!r}, {value})"
        if isinstance(source, sig.Attr):  # whatever holds it
            return f"{self.read(source.base)}.{source.name} = {value}"
        if isinstance(source, (sig.Item, sig.At)):
            return f"{self.read(source.base)}[{self._key(source)}] = {value}"
        return f"{self._expression(source)} = {value}"

    def _expression(self, source: sig.Source) -> str:
        return _EXPRESSIONS[type(source)](self, source)

    def _attribute(self, source: sig.Attr) -> str:
        holder, base = self._module_dict(source.base, source.name), self.read(source.base)
        if holder:
            return f"{base}.{holder}[{source.name!r}]"
        return f"{base}.{source.name}" if is_name(source.name) else f"getattr({base}, {source.name!r})"

    def _key(self, source: sig.Item | sig.At) -> str:
        return self.read(source.key) if isinstance(source, sig.At) else self.literal(source.key)

    def _item(self, source: sig.Item | sig.At) -> str:
        """An item, a KeyError where it is not there: to look whether it is must not make one."""
        base, key = self.read(source.base), self._key(source)
        return f"({base} if {key} in {base} else {{}})[{key}]" if self._makes_items(source.base) else f"{base}[{key}]"

    def _makes_items(self, base: sig.Source) -> bool:
        try:
            return hasattr(type(resolve(base, self.values)), "__missing__")
        except Unreadable:
            return False

    def _module_dict(self, base: sig.Source, name: str) -> str | None:
        """Parameters, buffers and submodules are read from their dict: `Module.__getattr__` is slow."""
        try:
            owner = resolve(base, self.values)
        except Unreadable:
            return None
        for holder in REGISTRIES:
            if name in owner.__dict__.get(holder, ()) if hasattr(owner, "__dict__") else False:
                return holder
        return None

    def require(self, condition: str) -> None:
        """Return None from `enter` unless `condition` holds."""
        self.lines.append(f"if not ({condition}): return None")

    def guard(self, guard: sig.Guard) -> None:
        """Emit one guard, once."""
        key = (guard.source, guard.kind, id(guard.value))
        if key in self._guarded:
            return
        self._guarded.add(key)
        if guard.kind == "absent":
            self.require(self._absent(guard.source))
        elif guard.kind == "alike":
            self._alike.setdefault(self.read(guard.value), []).append(self.read(guard.source))
        elif guard.kind == "keys" and guard.value and self.native:
            self._read_all(guard.source, guard.value)
        elif guard.kind == "tensor":
            cls = type(resolve(guard.source, self.values))
            self._tensors.setdefault(self.read(guard.source), (cls, {}))[1][guard.value] = None
        else:
            self.require(_CONDITIONS[guard.kind](self, self.read(guard.source), guard.value))

    def _read_all(self, source: sig.Source, keys: tuple[Any, ...]) -> None:
        """Read the values of a dict, which has these keys."""
        if keys not in self._readers:
            values = Values(keys)
            self._readers[keys] = self.constant(values.quick), self.constant(values.look)
        found, (quick, look) = self.read(source), self._readers[keys]
        names = [self._names.setdefault(sig.Item(source, key), f"v{len(self._names)}") for key in keys]
        self.lines.append(f"{', '.join(names)}, = {quick}({found}) or {look}({found})")

    def definitions(self, definitions: Mapping[tuple[Any, str], Any]) -> None:
        """Require classes and functions to be as they were (see `ScriptGraph.definitions`)."""
        conditions = [f"{name!r} not in {self.constant(owner.__globals__)}" if found is sig.ABSENT
                      else f"{self.constant(owner)}.{name} is {self.constant(found)}"
                      for (owner, name), found in definitions.items()]
        if conditions:
            self.require(" and ".join(dict.fromkeys(conditions)))

    def numbers(self) -> None:
        """Emit the guards of numbers in tensors: when it is known that these are some."""
        for one, names in self._alike.items():
            self.lines += [f"n = {one}._data.item()", f"for t in ({', '.join(names)},):",
                           "    if t._data.item() != n: return None"]

    def _equal(self, name: str, value: Any) -> str:
        text = self.literal(value)
        if type(value) in (bool, type(None)):
            return f"{name} is {text}"
        if isinstance(value, device):  # nearly always the one for the CPU: comparing calls Python
            return f"{name} is {text} or {name} == {text}"
        return f"type({name}) is {self.constant(type(value))} and {name} == {text}"

    def _absent(self, source: sig.Source) -> str:
        match source:
            case sig.Attr(base, name):
                return f"not hasattr({self.read(base)}, {name!r})"
            case sig.Item(base) | sig.At(base):
                return f"{self._key(source)} not in {self.read(base)}"
        raise AssertionError(source)

    def array(self, tensor: str) -> str:
        """The variable that holds the array of the tensor in variable `tensor`."""
        return self._variable("a", self._arrays, tensor, lambda: f"{tensor}._data")

    def shape(self, tensor: str) -> str:
        return self._variable("s", self._shapes, tensor, lambda: f"{self.array(tensor)}.shape")

    @property
    def guarded(self) -> Mapping[str, tuple[type, Collection[sig.TensorKey]]]:
        """By variable: the class of the tensor in it, and what guards say of it."""
        return self._tensors

    def tensors(self, shapes: Mapping[str, tuple[int, ...]], own: bool = True, arrays: bool = True,
                among: Container[str] | None = None) -> None:
        """Emit the guards of tensors: after all others, so that equal ones share a loop.

        `shapes`: of the tensors in these variables, every size is known. `own`: what tensors are themselves; `arrays`:
        what they hold. `among`: of which variables, if not of all.
        """
        kinds: dict[tuple[type, bool | None, sig.TensorKey | None, tuple[int, ...] | None], list[str]] = {}
        for name, (cls, keys) in self._tensors.items():
            for key in keys if among is None or name in among else ():
                kind = (cls, key.requires_grad if own else None, key if arrays else None,
                        shapes.get(name) if arrays else None)
                kinds.setdefault(kind, []).append(name)
        for (cls, needs, held, shape), names in kinds.items():
            if len(names) < LOOP:
                for name in names:
                    array = self.array(name) if arrays else ""
                    if own:
                        self.require(self._is_tensor(name))
                    sizes = self.shape(name) if arrays else ""
                    self.lines.append(f"if {self._differs(name, array, sizes, needs, held, shape)}: return None")
                continue
            self.lines.append(f"for t in ({', '.join(names)}):")
            if own:
                other = f"t.__class__ is not {self.constant(cls)}"  # the quick question first
                self.lines.append(f"    if {other} and not {self._is_tensor('t')}: return None")
            if arrays:
                self.lines.append("    a = t._data; s = a.shape")
            self.lines.append(f"    if {self._differs('t', 'a', 's', needs, held, shape)}: return None")

    def _is_tensor(self, name: str) -> str:
        return f"isinstance({name}, {self.constant(type_of_tensor())})"

    def _differs(self, tensor: str, array: str, shape: str, needs: bool | None, key: sig.TensorKey | None,
                 known: tuple[int, ...] | None) -> str:
        """Where a tensor needs a gradient, or not; where its array is not as `key` says, or has not the known shape."""
        conditions = []
        if needs is not None:
            gradient = f"({tensor}._needs or {tensor}._base is not None and {tensor}.requires_grad)"  # cheaper than it
            conditions.append(f"not {gradient}" if needs else gradient)
        if key is None:
            return conditions[0]
        wanted, host = self.constant(key.dtype.np), self.constant(np.ndarray)
        conditions += [f"{array}.__class__ is not {host}" if key.device.type == "cpu" else
                       f"{array}.__class__ is {host} or {array}.data.device_id != {key.device.index}",
                       f"{array}.dtype is not {wanted} and {array}.dtype != {wanted}"]
        if known is not None:
            conditions.append(f"{shape} != {known!r}")
        else:
            conditions.append(f"len({shape}) != {key.ndim}")
            if any(key.ones):
                conditions += [f"{shape}[{i}] {'!=' if one else '=='} 1" for i, one in enumerate(key.ones)]
            elif key.ndim:
                conditions.append(f"1 in {shape}")
        return " or ".join(conditions)

    @contextmanager
    def block(self, condition: str) -> Iterator[None]:
        """What is emitted inside runs where `condition` holds; variables that it makes are its own."""
        outside = self.lines, self._shapes, self._arrays
        self.lines, self._shapes, self._arrays = [], dict(self._shapes), dict(self._arrays)
        yield
        inside, (self.lines, self._shapes, self._arrays) = self.lines, outside
        if inside:
            self.lines.append(f"if {condition}:")
            self.lines += [f"    {line}" for line in inside]

    def sizes(self, script: sig.ScriptGraph, pairs: Sequence[tuple[Size, Size]],
              numbers: Mapping[Symbol, str] = NOTHING) -> None:
        """Require sizes over input symbols to be equal; `numbers`: the variables that some symbols are."""
        wanted = {s for pair in pairs for size in pair for s in dims.symbols(size)}
        symbols = {**input_symbols(self, script.inputs, script.input_types, wanted), **numbers}
        for a, b in pairs:
            self.require(f"{self.size(a, symbols)} == {self.size(b, symbols)}")

    def size(self, size: Size, symbols: dict[Symbol, str]) -> str:
        """A Python expression for a size over input symbols."""
        def atom(a: Atom) -> str:
            if isinstance(a, Symbol):
                return symbols[a]
            args = [self.size(s, symbols) for s in a.args]
            if a.fn in ("floordiv", "mod", "min", "max"):
                return dims.render_call(a.fn, args)
            return f"{self.constant(dims.FUNCTIONS[a.fn])}({', '.join(args)})"

        text = dims.render(size, atom, " * ")
        return text if isinstance(size, int) else f"({text})"

    def finish(self, result: str) -> Callable[[Sequence[Any]], Any]:
        """Compile: a function of the parameter tuple that returns None or `result`."""
        body = [f"    {line}" for line in (*self.lines, f"return {result}")]
        lines = ["try:", *body, f"except {self.constant(MISSES)}:", "    return None"]
        enter: Callable[[Sequence[Any]], Any] = function("enter", "p", lines, self.constants)
        return enter


#: what reads the object at a path of a kind
_EXPRESSIONS: dict[type, Callable[[EntryWriter, Any], str]] = {
    sig.Arg: lambda w, s: f"p[{w.params.index(s.name)}]",
    sig.Global: lambda w, s: f"{w.constant(s.function.__globals__)}[{s.name!r}]",
    sig.Cell: lambda w, s: f"{w.constant(s.function.__closure__[s.index])}.cell_contents",
    sig.Attr: EntryWriter._attribute,
    **dict.fromkeys((sig.Item, sig.At), EntryWriter._item),
    sig.Constant: lambda w, s: w.constant(s.value),
    sig.RngState: lambda w, s: f"{w.constant(random.default_generator)}.{s.attribute}",
    sig.Machine: lambda w, s: f"{w.constant(FACTS[s.fact])}()",
    sig.Column: lambda w, s: column_text(w.read(s.base), s.path),
    sig.Length: lambda w, s: f"len({w.read(s.base)})",
    sig.Extent: lambda w, s: f"{w.read(s.base)}[0]._data.shape[{s.axis}]",
    sig.Parts: lambda w, s: f"{w.constant(as_parts)}({w.read(s.base)})",
}
#: what holds of the object in a variable, by the kind of guard and what it assumes
_CONDITIONS: dict[str, Callable[[EntryWriter, str, Any], str]] = {
    "is": lambda w, name, value: f"{name} is {w.constant(value)}",
    "equal": EntryWriter._equal,
    "type": lambda w, name, value: f"type({name}) is {w.constant(value)}",
    "len": lambda w, name, value: f"len({name}) == {value}",
    "keys": lambda w, name, value: f"tuple({name}) == {w.constant(value)}" if value else f"not {name}",
    "contiguous": lambda w, name, value: f"{name}._data.flags.c_contiguous is {value}",
    "order": lambda w, name, value: f"{w.constant(memory_order)}({name}) == {w.constant(value)}",
    "optional": lambda w, name, value: (
        f"{name} is None or ({name}._data.dtype == {w.constant(value.np)} and not {name}.requires_grad)"),
    "inherited": lambda w, name, value: f"{value!r} not in {name}.__dict__",
    "unhooked": lambda w, name, value: f"not ({name}._hooks or {name}._after_hooks or {name}._grad_dtype)",
    "same": lambda w, name, value: f"{name} is {w.read(value)}",
    "other": lambda w, name, value: f"{name} is not {w.read(value)}",
    "items": lambda w, name, value: f"{w.constant(list_kinds.fit)}({name}, {w.constant(value)})",
}


def function(name: str, parameters: str, lines: Sequence[str], constants: Mapping[str, Any]) -> Any:
    """The function of these lines, which mention constants by name."""
    header = ", ".join([parameters, *(f"{n}={n}" for n in constants)])
    body = "".join(f"    {line}\n" for line in lines)
    scope = dict(constants)
    # the text is ours: names, indices and literals only
    exec(generated.code(f"def {name}({header}):\n{body}", f"<jitgrad {name}>"), scope)
    return scope[name]


def input_symbols(writer: EntryWriter, inputs: Sequence[sig.Source], types: Sequence[Any],
                  wanted: Set[Symbol]) -> dict[Symbol, str]:
    """For every wanted symbol that an input's shape binds: the expression that reads it."""
    found: dict[Symbol, str] = {}
    for source, type_ in zip(inputs, types, strict=True):
        if isinstance(type_, ListType):  # a size that all of its tensors have
            first = f"{writer.read(source)}[0]._data.shape"
        for axis, symbol in symbol_axes(elem_of(type_)):
            if symbol in wanted and symbol not in found:
                shape = first if isinstance(type_, ListType) else writer.shape(writer.read(source))
                found[symbol] = f"{shape}[{axis}]"
    return found


def known_shapes(writer: EntryWriter, script: sig.ScriptGraph) -> tuple[dict[str, tuple[int, ...]], set[int]]:
    """The shapes that guards of sizes fix wholly, by the variable of the tensor; and the guards that they stand for."""
    fixed = _fixed_sizes(script.size_guards)
    shapes: dict[str, tuple[int, ...]] = {}
    binders: dict[Symbol, str] = {}
    for source, type_ in zip(script.inputs, script.input_types, strict=True):
        if not isinstance(type_, TensorType):
            continue
        name = writer.read(source)
        symbols = [symbol for _, symbol in symbol_axes(type_)]
        for symbol in symbols:
            binders.setdefault(symbol, name)
        if name in writer.guarded and all(s in fixed for s in symbols):
            shapes[name] = tuple([d if isinstance(d, int) else fixed[d.symbol]  # type: ignore[index]
                                  for d in type_.dims])
    return shapes, {number for number, (a, b) in enumerate(script.size_guards)
                    if all(isinstance(d, int) or (d.symbol in fixed and binders.get(d.symbol) in shapes)
                           for d in (a, b))}


def _fixed_sizes(guards: Sequence[tuple[Size, Size]]) -> dict[Symbol, int]:
    """The symbols that guards make equal to a number, also by way of other symbols."""
    fixed: dict[Symbol, int] = {}
    equal: dict[Symbol, list[Symbol]] = {}
    for a, b in guards:
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int) or a.symbol is None:
            continue
        if isinstance(b, int):
            fixed[a.symbol] = b
        elif b.symbol is not None:
            equal.setdefault(a.symbol, []).append(b.symbol)
            equal.setdefault(b.symbol, []).append(a.symbol)
    pending = list(fixed)
    while pending:
        symbol = pending.pop()
        for other in equal.get(symbol, ()):
            if other not in fixed:
                fixed[other] = fixed[symbol]
                pending.append(other)
    return fixed


def separate(written: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether no array in `written` shares memory with another one of `written` or `others`.

    Arrays of different owners are separate; only for arrays of an owner met before, or not known to own its memory, are
    addresses compared.
    """
    owners = owners_of(written)
    taken = set(owners)
    if len(taken) != len(owners) or None in taken:
        for i, owner in enumerate(owners):
            if (owner is None or owner in owners[:i]) and any(
                    overlap(written[i], other) for other in (*written[:i], *written[i + 1:], *others)):
                return False
    return apart(taken, written, others)


def apart(owners: Set[int | None], written: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether no array in `others` shares memory with one in `written`, whose owners are known."""
    unknown = None in owners
    for array in others:
        owner = id(array) if (base := array.base) is None else _owner(array, base)
        if (unknown or owner is None or owner in owners) and any(overlap(array, other) for other in written):
            return False
    return True


def owners_of(arrays: Sequence[Any]) -> list[int | None]:
    """The arrays that own the memory of some, by number."""
    return [id(a) if (base := a.base) is None else _owner(a, base) for a in arrays]


def _owner(array: Any, base: Any) -> int | None:
    """The array that owns a view's memory, by number; None where that is something else than an array."""
    return id(base) if type(base) is type(array) and base.base is None else None


def distinct(tensors: Sequence[Any], listed: Iterable[Any] = ()) -> bool:
    """Whether no tensor is two of `tensors`, nor one of them and one of `listed`, where one may occur twice."""
    found = set(map(id, tensors))
    return len(found) == len(tensors) and found.isdisjoint(map(id, listed))


def picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that takes some items of a sequence."""
    if len(numbers) > 1:
        return operator.itemgetter(*numbers)
    return lambda items: [items[i] for i in numbers]
