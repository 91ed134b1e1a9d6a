"""What the frontend gives the executor: a graph, its inputs' sources, what was assumed, how to rebuild results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.classes import HashedOnce, dataclass, field
from jitgrad.device import CPU, device as Device
from jitgrad.dims import Size, Symbol
from jitgrad.ops.types import Type
from jitgrad.script.graph.ir import Graph

# --- sources: where a value is read again at every entry -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arg(HashedOnce):
    """A parameter of the scripted function, by name (`*args` and `**kwargs` parameters give the tuple, the dict)."""

    name: str


@dataclass(frozen=True, slots=True)
class Global(HashedOnce):
    """A global variable: the dict of the function that reads it, and the name (builtins are static, not sources)."""

    function: Any
    name: str


@dataclass(frozen=True, slots=True)
class Cell(HashedOnce):
    """A closure variable of `function`: `function.__closure__[index].cell_contents`."""

    function: Any
    index: int


@dataclass(frozen=True, slots=True)
class Attr(HashedOnce):
    """`base.name`; module parameters, buffers and submodules are read as attributes too."""

    base: Source
    name: str


@dataclass(frozen=True, slots=True)
class Item(HashedOnce):
    """`base[key]` with a static key, for lists, tuples and dicts."""

    base: Source
    key: Any


@dataclass(frozen=True, slots=True)
class At(HashedOnce):
    """`base[the object at key]`, for dicts keyed by tensors."""

    base: Source
    key: Source


@dataclass(frozen=True, slots=True)
class Constant(HashedOnce):
    """An object that the compilation created or that no path leads to: a tensor literal, a default argument."""

    value: Any = field(hash=False)
    number: int = 0  # distinguishes constants; equal numbers mean the same object


@dataclass(frozen=True, slots=True)
class RngState(HashedOnce):
    """The default generator's `seed` or `offset`, both ints."""

    part: str

    @property
    def attribute(self) -> str:
        """Where a generator has it as a signed number."""
        return "key" if self.part == "seed" else self.part


@dataclass(frozen=True, slots=True)
class Machine(HashedOnce):
    """Not an object but one of `device.FACTS`: whether there is a GPU, where new tensors go, ..."""

    fact: str


@dataclass(frozen=True, slots=True)
class Column(HashedOnce):
    """What is found on a path of every item of the list or tuple at `base`, as a list."""

    base: Source
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Length(HashedOnce):
    """`len(base)`."""

    base: Source


@dataclass(frozen=True, slots=True)
class Extent(HashedOnce):
    """The size along an axis that all tensors in the column `base` have."""

    base: Source
    axis: int


@dataclass(frozen=True, slots=True)
class Parts(HashedOnce):
    """The memory of the complex tensor at `base`: a real tensor, the parts along a last axis."""

    base: Source


Source = Arg | Global | Cell | Attr | Item | At | Constant | RngState | Machine | Column | Length | Extent | Parts


@dataclass(frozen=True, slots=True)
class Content:
    """Not an object but what the list or dict at `base` holds: where the script stores its new content."""

    base: Source


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of the list at `base`: where the script appends."""

    base: Source


Place = Source | Content | Tail


# --- assumptions ---------------------------------------------------------------------------------------------------


#: what a name stands for that a module does not have
ABSENT = object()


@dataclass(frozen=True, slots=True)
class Guard:
    """What was assumed of the object at `source`.

    kind: "is" (identity with `value`), "equal" (== and same type: ints, bools, strings, devices, tuples of these),
    "type" (exact type `value`), "len" (a container's length), "keys" (a dict's keys in order), "tensor" (a `TensorKey`:
    dtype, rank, sizes of one, needs-gradient), "contiguous" (a tensor's memory is in row order, or is not), "order" (of
    the axes in a tensor's memory, see `sources.memory_order`), "optional" (None, or a tensor of dtype `value` without
    history), "absent" (attribute or key is not there), "same" (the very object that is at the source `value`), "other"
    (not that object), "alike" (a tensor with the one number of that one), "unhooked" (a tensor without hooks or a
    `grad_dtype`), "inherited" (an object without an attribute `value` of its own), "items" (a list or tuple of any
    length whose items are of the kind `value`, see `list_kinds.py`).
    """

    source: Source
    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class TensorKey:
    """What a graph knows of a tensor input: nothing with a size in it but which sizes are 1."""

    dtype: Any
    ndim: int
    ones: tuple[bool, ...]
    requires_grad: bool
    device: Device = CPU


# --- results -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """Graph output `index`: a new tensor, a number, or (Optional type) either or None."""

    index: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """Graph output `index`, a new tensor, as a leaf that requires a gradient; `grad`: what its `.grad` is."""

    index: int
    grad: Result


@dataclass(frozen=True, slots=True)
class Complex:
    """The complex tensor of whose parts `parts` is the tensor."""

    parts: Result


@dataclass(frozen=True, slots=True)
class Same:
    """The very object that graph input `index` was read from."""

    index: int


@dataclass(frozen=True, slots=True)
class ViewOf:
    """A view of the tensor that graph input `index` was read from (as it is after commits); `made`: of graph output
    `index`, a tensor that the script made and returns in parts that share memory.

    `path` is a tuple of (view op name, attrs); `sizes` maps each symbol that occurs in them to the index of the int
    output that is its value. One that occurs more than once has an `identity`.
    """

    index: int
    path: tuple[tuple[str, Mapping[str, Any]], ...]
    sizes: Mapping[Any, int] = field(default_factory=dict, hash=False)
    made: bool = False
    identity: int = -1


@dataclass(frozen=True, slots=True)
class Static:
    """A Python object known while compiling."""

    value: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class Given:
    """The very list or dict that this call finds at `source`."""

    source: Source


@dataclass(frozen=True, slots=True)
class Container:
    """A tuple, list, dict, namedtuple... rebuilt per call: `make(items)`; equal `identity` means one shared object."""

    type: type
    keys: tuple[Any, ...] | None
    items: tuple[Result, ...]
    identity: int = -1


@dataclass(frozen=True, slots=True)
class Object:
    """An object that the script made: class and attributes; equal `identity` means one shared object."""

    type: type
    names: tuple[str, ...]
    items: tuple[Result, ...]
    identity: int = -1


@dataclass(frozen=True, slots=True)
class Made:
    """What calling a class with some results makes; equal `identity` means one shared object."""

    type: type
    items: tuple[Result, ...]
    identity: int = -1


def object_of(cls: Any, attributes: dict[str, Result], identity: int = -1) -> Object | Made:
    """An object with these attributes; of a class that stands for another one, one of that."""
    if hasattr(cls, "stands_for"):
        return Made(cls.stands_for, tuple([attributes[name] for name in cls.parts]), identity)
    return Object(cls, tuple(attributes), tuple(attributes.values()), identity)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list with an item per element of the lists that the graph outputs `leaves` are, which are equally long.

    In `item`, the output k is the element of `leaves[k]`; equal `identity` means one shared object.
    """

    leaves: tuple[int, ...]
    item: Result
    identity: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """A dict of the keys and values that two lists hold; equal `identity` means one shared object."""

    keys: Result
    values: Result
    identity: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Container number `index` (an output) of a pool of the `Pools` around it; None where that is None."""

    pool: int
    index: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Containers that others refer to by number: of each, `item` is what it holds, as in `Repeated`; `make` gives an
    empty one."""

    make: Callable[[], Any]
    leaves: tuple[int, ...]
    item: Result


@dataclass(frozen=True, slots=True)
class Pools:
    """A result that refers to containers in pools; what leaves together has the same ones."""

    pools: tuple[Pool, ...]
    result: Result


@dataclass(frozen=True, slots=True)
class Reference:
    """A tensor that the caller has, by ints known at run time.

    `root` is the graph input that was read from it. With `of` 1, that is a list, and the first int is a position in
    it. With root -1, what the first `of` ints say is, with none the graph output. The other ints are the values of
    `symbols`, in order, which are in `path`: that of a view of it. `leaf`: a leaf that the script made in that memory.
    """

    root: int
    of: int
    path: tuple[tuple[str, Mapping[str, Any]], ...]
    symbols: tuple[Symbol, ...]
    leaf: bool = False


@dataclass(frozen=True, slots=True)
class Referred:
    """The tensor that the int outputs `origin` say: the first which of `references`, the others what that depends on.

    Where the first is -1 (or None), it is graph output `index`. `path` and `sizes`: a view of it, as in `ViewOf`.
    """

    index: int
    origin: tuple[int, ...]
    references: Sequence[Reference] = field(hash=False)  # those of the whole script, which are found while it is built
    path: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    sizes: Mapping[Any, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several results, by the int that is graph output `tag`."""

    tag: int
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No object: where it is to be stored, nothing is."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string: parts are strings, and (result, conversion, format)."""

    parts: tuple[Any, ...]


Result = (Output | Leaf | Same | Complex | ViewOf | Static | Given | Container | Object | Made | OneOf | Nothing | Text
          | Repeated | Pairs | Referred | Entry | Pools)


@dataclass(slots=True)
class ScriptGraph:
    """A specialised function, before passes.

    Attributes:
        graph: inputs in the order of `inputs`; outputs in the order that `result` refers to.
        inputs: one source per graph input.
        input_types: their types before sizes were unified: every size of a tensor is 1 or a symbol of its own.
        guards: assumptions on what was read besides the arguments (arguments are the caller's key).
        size_guards: pairs of sizes over input symbols that were taken to be equal.
        trip_guards: pairs of sizes over input symbols that say whether a loop runs, where that decides types.
        int_symbols: symbols in them that stand for the value of an int input.
        result: how to rebuild the Python result.
        commits: graph input -> source to which a `commit` of a number to it is stored; the program writes tensors.
        written: tensor input that is written in place and may carry a gradient -> graph output with its final value.
        differentiable: graph outputs that may depend differentiably on an input (what requires_grad would say).
        freed: graph outputs that require a gradient in eager, but whose history a `backward()` inside has freed.
        overwritten: graph outputs whose gradients need what was overwritten, each with the output that says in which
            runs (-1: in all), and eager's message: text, outputs, (graph input, writes since the call or ~output).
        recorded: graph output that requires a gradient in some runs only -> the output that says whether it does.
        results: how many graph outputs are results or stored; those behind them only say what requires a gradient.
        whose: those of them that only say which object a result is.
        alone: graph outputs that require a gradient though no input does: leaves inside the script do.
        stores: after the program has run: (attribute, item or content of a container, what it becomes), in order.
        recipes: what a `pending` node with that number stores if the program raises: as `stores`, over its inputs.
        unread: lists whose length and items do not matter (the script only appends to them).
        lists: lists and tuples of run-time length, and the kind of their items; objects that are known by their class.
        parameters: names of the function's parameters (filled in by the executor).
        functions: the Python functions that were compiled, the scripted one first (the disk cache compares their code).
        definitions: (class, method) or (function, part of it) -> what it was; (function, a builtin's name) -> `ABSENT`.
        distinct: whether no tensor may be found on two of the paths in `inputs`: each has a `.grad` of its own.
        calls_back: whether it calls ignored functions.
        modules, asked: where the library's modules were found; classes of objects whose text, hash... Python made
        gradient_state: whether the script looks at the grad mode or at what needs a gradient.
        device, device_state: where it runs; whether it looks at where tensors are, so that elsewhere it may differ.
        on_host: graph outputs that are brought from there to the CPU.
        expected: graph outputs that say which index was out of range, if any; what is raised, its text around it.
        log: human-readable decisions, shown by `explain`.
    """

    graph: Graph
    inputs: list[Source]
    input_types: list[Type]
    guards: list[Guard]
    size_guards: list[tuple[Size, Size]]
    result: Result
    commits: dict[int, Source] = field(default_factory=dict)
    trip_guards: list[tuple[Size, Size]] = field(default_factory=list)
    int_symbols: dict[Symbol, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    differentiable: tuple[int, ...] | None = None
    freed: tuple[int, ...] = ()
    overwritten: tuple[tuple[int, int, tuple[str | int | tuple[int, int], ...]], ...] = ()
    recorded: dict[int, int] = field(default_factory=dict)
    results: int = 0
    whose: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    functions: list[Any] = field(default_factory=list)
    definitions: dict[tuple[Any, str], Any] = field(default_factory=dict)
    stores: list[tuple[Place, Result]] = field(default_factory=list)
    recipes: list[tuple[tuple[Place, Result], ...]] = field(default_factory=list)
    unread: list[Source] = field(default_factory=list)
    lists: dict[Source, Any] = field(default_factory=dict)
    distinct: bool = False
    calls_back: bool = False
    asked: tuple[str, ...] = ()
    modules: dict[Source, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    gradient_state: bool = False
    device_state: bool = False
    device: Device = CPU
    on_host: tuple[int, ...] = ()
    expected: list[tuple[int, type[Exception], str, str]] = field(default_factory=list)
