"""What a graph gets at entry: tensors and numbers, each by the source on which a call finds it, and what is guarded.

Ints and bools at entry are known by what they are in the first call, for what has to decide by them while it compiles.
"""

import types
from typing import Any

from jitgrad.dims import Assumed, Size, Symbol, dim
from jitgrad.ops.numbers import NUMBERS
from jitgrad.ops.types import BOOL, FLOAT, INT, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import as_parts, memory_order, tensor_key
from jitgrad.script.frontend.batches.complex import complex_of
from jitgrad.script.frontend.boundary import placement
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.memory import SHARED, Memory
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import Number, Storage, SymTensor
from jitgrad.script.graph.ir import Value
from jitgrad.script.graph.numbers import compute

KINDS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}
_TRUSTED = ("jitgrad", "math", "numpy", "builtins", "functools", "operator", "typing", "collections", "itertools",
            "warnings")


def trusted(module_name: str | None) -> bool:
    """Whether the objects of a module are taken to be constant."""
    return module_name is not None and module_name.split(".")[0] in _TRUSTED


class Entries:
    """Graph inputs and guards.

    Attributes:
        values: the graph's inputs.
        sources: where each comes from.
        guards: what was assumed of objects read on the way.
        tensors: graph input -> the tensor of the first call.
        memory: which tensor inputs are one tensor, or share memory.
        int_symbols: symbols that stand for int inputs in guards, and the inputs.
        given: lists of tensors that ask for gradients, as graph inputs.
        extents: symbols for a size that all tensors of a list have, and where it is read.
        definitions, modules: see `ScriptGraph`.
    """

    def __init__(self, context: Context):
        self.context = context
        self.values: list[Value] = []
        self.entered: set[Value] = set()  # the same
        self.sources: list[sig.Source] = []
        self.guards: dict[tuple[Any, ...], sig.Guard] = {}
        self.tensors: dict[int, Any] = {}
        self.memory = Memory(context, self.tensors)
        self.int_symbols: dict[Symbol, int] = {}
        self.given: list[Value] = []
        self.extents: dict[Symbol, sig.Extent] = {}
        self.definitions: dict[tuple[Any, str], Any] = {}
        self.modules: dict[sig.Source, types.ModuleType] = {}
        self.found: dict[sig.Source, Any] = {}  # what has been read, as the script sees it
        self.entry_types: dict[int, TensorType] = {}  # of inputs whose sizes are constants: symbols for these
        self._alike: dict[tuple[Any, Any], int] = {}  # dtype and number of a tensor -> the first graph input like that
        self._numbers: dict[Value, tuple[int, Any]] = {}  # numbers at entry -> graph input, value at the first call

    def guard(self, source: sig.Source, kind: str, value: Any) -> None:
        """Assume something of the object at `source`, once."""
        key = (source, kind, id(value) if kind == "is" else repr(value))
        if key not in self.guards:
            self.guards[key] = sig.Guard(source, kind, value)

    def define(self, owner: Any, name: str) -> None:
        """Guard that a class's method, or a function's code and defaults, stay what they are."""
        if trusted(owner.__module__):
            return
        found = getattr(owner, name)
        if isinstance(found, types.MethodType):  # bound anew whenever it is asked for
            name, found = f"{name}.__func__", found.__func__
        if isinstance(owner, types.FunctionType) or isinstance(found, types.FunctionType):
            self.definitions[owner, name] = found

    def undefined(self, function: Any, name: str) -> None:
        """Guard that the module of a function goes on without a variable that has a builtin's name."""
        if not trusted(function.__module__):
            self.definitions[function, name] = sig.ABSENT

    def add(self, type_: Type, source: sig.Source, name: str) -> Value:
        """A new graph input."""
        value = Value(type_, name)
        self.values.append(value)
        self.entered.add(value)
        self.sources.append(source)
        return value

    def tensor(self, tensor: Any, source: sig.Source, name: str, guarded: bool) -> SymTensor:
        """The tensor at `source`, an input."""
        if tensor.dtype.is_complex:
            return self._complex(tensor, source, name, guarded)
        found = self.found.get(source)
        if found is None and SHARED in self.context.decisions:
            found = self._twin(tensor, source)
        if found is None:
            context = self.context
            placement.see(context, tensor.device)
            shape = tuple(tensor.shape)
            entry = type_ = TensorType(tensor.dtype, tuple(context.sizes.argument(n) for n in shape))
            index = len(self.values)
            if context.sizes.assumed is Assumed.PARAMETERS and not guarded and tensor._is_param:
                context.sizes.hold(entry.dims, shape)
                type_ = TensorType(tensor.dtype, shape)
                self.entry_types[index] = entry
            value = self.add(type_, source, name)
            self.tensors[index] = tensor
            self.memory.add(index)
            needs = bool(tensor.requires_grad)
            if not guarded:
                key = sig.TensorKey(tensor.dtype, len(shape), tuple(n == 1 for n in shape), needs, tensor.device)
                self.guard(source, "tensor", key)
            if needs:
                context.builder.history.add(value.id)
            storage = Storage(type_, index, requires_grad=needs and bool(tensor.is_leaf))
            storage.device = tensor.device
            found = self.found[source] = SymTensor(storage, (), type_)
            if needs:
                heap.of(context).leaves[storage] = None
        result: SymTensor = found
        return result

    def _complex(self, tensor: Any, source: sig.Source, name: str, guarded: bool) -> SymTensor:
        """The complex tensor at `source`: its memory is an input."""
        if not guarded:
            self.guard(source, "tensor", tensor_key(tensor))
        parts = self.tensor(as_parts(tensor), sig.Parts(source), name, guarded=False)
        parts.storage.of_leaf = bool(tensor.requires_grad and tensor.is_leaf)
        whole: SymTensor = complex_of(parts)
        return whole

    def _twin(self, tensor: Any, source: sig.Source) -> SymTensor | None:
        """The tensor input that is the very object found at `source`: one value, and a guard that it stays so."""
        index = self.memory.place(tensor)
        if index is None:
            return None
        twin: SymTensor = self.found[self.sources[index]]
        self.guard(source, "same", self.sources[index])
        self.found[source] = twin
        return twin

    def one_each(self) -> None:
        """From now on a tensor that is found on two paths is one."""
        self.memory.one_each()

    def one_object(self, a: Storage, b: Storage) -> bool:
        """Whether two tensor inputs are one object, guarded."""
        one = self.tensors[a.input] is self.tensors[b.input]
        self.guard(self.sources[a.input], "same" if one else "other", self.sources[b.input])
        return one

    def one_number(self, storage: Storage) -> Value:
        """What a tensor input of one number holds at entry: of those that hold the same, the first, guarded."""
        index, tensor = storage.input, self.tensors[storage.input]
        first = self._alike.setdefault((tensor.dtype, tensor.item()), index)
        if first != index:
            self.guard(self.sources[index], "alike", self.sources[first])
        return self.values[first]

    def contiguous(self, storage: Storage) -> bool:
        """Whether a tensor input lies in row order, guarded: a reshape of it shares memory only then."""
        found = self.memory.contiguous(storage.input)
        self.guard(self.sources[storage.input], "contiguous", found)
        return found

    def memory_order(self, storage: Storage) -> tuple[tuple[int, str], ...]:
        """How the axes of a tensor input lie in memory, guarded."""
        found = memory_order(self.tensors[storage.input])
        self.guard(self.sources[storage.input], "order", found)
        return found

    def number(self, value: Any, source: sig.Source, name: str) -> Number:
        """The number at `source`, an input."""
        found = self.found.get(source)
        if isinstance(found, Number):
            return found
        number = Number(self.context, self.add(KINDS[type(value)], source, name), type(value))
        self.found[source] = number
        self._numbers[number.value] = (len(self.values) - 1, value)
        return number

    def number_of_items(self, value: Any, source: sig.Source) -> Value:
        """The length of a list of any length, an int that is known at entry."""
        return self.number(len(value), sig.Length(source), f"{name_of(source)}_len").value

    def assumed(self, number: Number) -> Any:
        """What a number that is computed from numbers and sizes at entry is at the first call: these must be what they
        are then from now on. None for other numbers."""
        read: list[tuple[sig.Source, Any]] = []
        sizes: list[tuple[Size, int]] = []
        failure: ArithmeticError | None = None
        try:
            found = self._at_entry(number.value, read, sizes, {})
        except ArithmeticError as error:
            failure = error
        if failure is None and found is None:
            return None
        for source, value in read:
            self.guard(source, "equal", value)
            self.context.log.append(f"guarded `{name_of(source)}` == {value}: a constant is needed")
        for size, value in sizes:
            self.context.sizes.fix(size, value)
            self.context.log.append(f"guarded the size {size} == {value}")
        if failure is not None:  # so does the arithmetic before it, at run time
            raise effects.raise_now(self.context, type(failure), (str(failure),))
        return found

    def is_zero(self, number: Number) -> bool:
        """Whether such a number is zero at the first call: only then must it be so from now on."""
        try:
            return bool(self._at_entry(number.value, [], [], {}) == 0) and self.assumed(number) == 0
        except ArithmeticError:
            return False

    def _at_entry(self, value: Value, read: list[tuple[sig.Source, Any]], sizes: list[tuple[Size, int]],
                  known: dict[Value, Any]) -> Any:
        """A number at the first call, and which inputs and sizes it is computed from; None where others are needed."""
        if value not in known:
            known[value] = self._computed(value, read, sizes, known)
        return known[value]

    def _computed(self, value: Value, read: list[tuple[sig.Source, Any]], sizes: list[tuple[Size, int]],
                  known: dict[Value, Any]) -> Any:
        if value in self._numbers:
            index, found = self._numbers[value]
            source = self.sources[index]
            if isinstance(source, sig.RngState) or found != found:
                return None
            read.append((source, found))
            return found
        node = next((n for block in self.context.path for n in block.nodes if value in n.outputs), None)
        if node is None:
            return None
        if node.op == "dim.value":
            size = self.context.sizes.canonical(node.attrs["dim"])
            hint = self.context.sizes.hint(size)
            if hint is not None:
                sizes.append((size, hint))
            return hint
        if node.op == "num.const":
            return node.attrs["value"]
        if node.op not in NUMBERS:
            return None
        operands = tuple([self._at_entry(v, read, sizes, known) for v in node.inputs])
        return None if None in operands else compute(node.op, operands, node.attrs, node.output.type)

    def entry_size(self, number: Number) -> tuple[Size, int] | None:
        """An int that is known at entry, as a size for guards and its value at the first call; None for others."""
        number = number if number.span is None else number.span
        size = number.size
        if size is not None:
            hint = self.context.sizes.hint(size)
            return None if hint is None else (size, hint)
        found = self._numbers.get(number.value)
        if found is None or type(found[1]) is not int:
            return None
        index, value = found
        symbol = next((s for s, i in self.int_symbols.items() if i == index), None)
        if symbol is None:
            symbol = Symbol()
            self.int_symbols[symbol] = index
        return dim(symbol), value

    def random_state(self, part: str) -> Number:
        """The generator's seed or offset."""
        return self.number(0, sig.RngState(part), f"rng_{part}")


def name_of(source: sig.Source) -> str:
    """What the graph calls the object at a source; "" where nothing names it."""
    match source:
        case sig.Attr(_, name) | sig.Global(_, name) | sig.Arg(name):
            return name
        case sig.Item(base, key):
            return f"{name_of(base)}_{key}"
        case sig.Cell(function, index):
            return str(function.__code__.co_freevars[index])
    return ""
