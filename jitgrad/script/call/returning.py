"""Rebuilding what the Python function returns from graph outputs: one generated function per specialisation."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any

from jitgrad.dims import Dim, Size, substitute
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter, function
from jitgrad.script.call.sources import as_complex
from jitgrad.script.graph.ir import map_attr

#: what a result is that is none
NOTHING = sig.Nothing()
#: the line that begins with no tensors by number (`_referrer`)
OWN = "own = {}"


def result_writer(result: sig.Result) -> Callable[[Sequence[Any], Sequence[Any], Any, dict[int, Any]], Any]:
    """`leave(objects, outputs, pools, own)`: an item of a result, where nothing in it is read from the parameters.

    Args:
        result: the result tree; its indices refer to the graph's inputs (as objects) and outputs.
    """
    writer = ResultWriter(EntryWriter((), {}), inside=True)
    expression = writer.expression(result)
    leave: Callable[[Sequence[Any], Sequence[Any], Any, dict[int, Any]], Any] = writer.finish(
        "leave", "i, o, pools, own", [f"return {expression}"])
    return leave


class ResultWriter:
    """Writes expressions for results over `i`, the objects of the graph's inputs, and `o`, its outputs.

    Attributes:
        reader: reads, before all else, what is found by path from the parameters `p`.
        inside: whether what is written makes an item of a result.
        lines: what the expressions refer to: an object that occurs twice is made once.
        first, part: results may be parts with outputs and identities of their own: the number of the first output, and
            the part's.
    """

    def __init__(self, reader: EntryWriter, inside: bool = False):
        self.reader, self.inside = reader, inside
        self.lines: list[str] = []
        self.first = self.part = 0
        self._shared: dict[tuple[int, Any], str] = {}
        self._pooled: set[int] = set()  # the parts of which the pools are made
        self._certain = True  # whether what is written is there in every run: else nothing may be read before all else
        self.constant = reader.constant

    def finish(self, name: str, parameters: str, last: Sequence[str]) -> Any:
        """The function that reads, makes and then does `last`."""
        return function(name, parameters, [*self.reader.lines, *self.lines, *last], self.reader.constants)

    def _output(self, index: int) -> str:
        return f"o[{index + self.first}]"

    def _viewed(self, text: str, path: tuple[tuple[str, Any], ...], sizes: Mapping[Any, int]) -> str:
        """A view of a tensor; its sizes are outputs."""
        viewer = _viewer(path, {symbol: index + self.first for symbol, index in sizes.items()})
        return f"{self.constant(viewer)}({text}, o)"

    def _once(self, identity: Any, make: Callable[[], str]) -> str:
        """What stands for an object that may occur more than once, by its identity; -1: it occurs here alone."""
        name = self._shared.get((self.part, identity))
        if name is not None:
            return name
        text = make()
        if identity == -1:
            return text
        name = self._shared[self.part, identity] = f"r{len(self._shared)}"
        self.lines.append(f"{name} = {text}")
        return name

    def expression(self, result: sig.Result) -> str:
        """An expression for a result."""
        match result:
            case sig.Entry(pool, index):
                return f"{self.constant(_entry)}({self._pools}[{pool}], {self._output(index)})"
            case sig.Given(source):
                return self.reader.read(source)
            case sig.Output(index):
                return self._output(index)
            case sig.Complex(parts):
                return f"{self.constant(as_complex)}({self.expression(parts)})"
            case sig.Same(index):
                return f"i[{index}]"
            case sig.Static() | sig.Nothing():
                return self.reader.literal(result.value) if isinstance(result, sig.Static) else self.constant(NOTHING)
            case sig.ViewOf(index, path, sizes, made, identity):
                base = self._output(index) if made else f"i[{index}]"
                return self._once(identity, lambda: self._viewed(base, path, sizes))
            case sig.Referred(index, origin, references, path, sizes):
                text = self._once((index, *origin) if self._certain else -1,
                                  lambda: self._found(index, origin, references))
                return self._viewed(text, path, sizes) if path else text
            case sig.Leaf(index, grad):
                return f"{self.constant(_leaf)}({self._output(index)}, {self.expression(grad)})"
            case sig.OneOf(tag, results):
                around, self._certain = self._certain, False
                choices = ", ".join(f"lambda: {self.expression(r)}" for r in results)
                self._certain = around
                return f"({choices},)[{self._output(tag)}]()"
            case sig.Text(parts):
                return f"''.join(({''.join(self._piece(p) + ', ' for p in parts)}))"
            case sig.Made(cls, items, identity):
                return self._once(identity, lambda: f"{self.constant(cls)}({', '.join(map(self.expression, items))})")
            case sig.Container() | sig.Object():
                return self._once(result.identity, lambda: self._container(result))
            case sig.Repeated(leaves, item, identity):
                return self._once(identity, lambda: self._repeated([self._output(k) for k in leaves], item))
            case sig.Pairs(keys, values, identity):
                return self._once(identity, lambda: f"dict(zip({self.expression(keys)}, {self.expression(values)}))")
        raise AssertionError(result)

    def _found(self, index: int, origin: Sequence[int], references: Sequence[sig.Reference]) -> str:
        ints = "".join(f"{self._output(k)}, " for k in origin)
        return f"{self.constant(_referrer(references))}(i, {self._output(index)}, ({ints}), {self._own})"

    @property
    def _own(self) -> str:
        """The tensors that the script made, by number: those of items are those of what they are in."""
        if not self.inside and OWN not in self.lines:
            self.lines.insert(0, OWN)
        return "own"

    @property
    def _pools(self) -> str:
        return "pools" if self.inside else f"pools{self.part}"

    def within_pools(self, result: sig.Result) -> sig.Result:
        """What is in a `Pools`. Their containers are made once for all that leaves together: they may refer to one
        another."""
        if isinstance(result, sig.Pools):
            if self.part not in self._pooled:
                self._pooled.add(self.part)
                self._make(result.pools)
            return result.result
        return result

    def _make(self, pools: Sequence[sig.Pool]) -> None:
        columns = [f"list(zip({', '.join(map(self._output, pool.leaves))}))" for pool in pools]
        self.lines.append(f"e = ({', '.join(columns)},)")
        makers = [self.constant(pool.make) for pool in pools]
        self.lines.append(f"{self._pools} = [[make() for _ in c] for c, make in zip(e, ({', '.join(makers)},))]")
        for k, pool in enumerate(pools):
            leave = self.constant(result_writer(pool.item))
            self.lines.append(f"for one, c in zip({self._pools}[{k}], e[{k}]): "
                              f"{self.constant(_fill)}(one, {leave}(i, c, {self._pools}, {self._own}))")

    def _piece(self, part: Any) -> str:
        if isinstance(part, str):
            return repr(part)
        value, conversion, spec = part
        text = self.expression(value)
        if isinstance(conversion, tuple):
            text = f"{conversion!r}[{text}]"
        elif conversion[1:]:
            text = f"{text}._text({conversion[1:]!r})"
        elif conversion:
            text = f"{ {'s': 'str', 'r': 'repr', 'a': 'ascii'}[conversion]}({text})"
        return f"format({text}, {spec!r})"

    def _repeated(self, leaves: Sequence[str], item: sig.Result) -> str:
        if item == sig.Output(0):
            return f"list({leaves[0]})"
        pools = self._pools if self.inside or self.part in self._pooled else "None"
        return f"[{self.constant(result_writer(item))}(i, e, {pools}, {self._own}) for e in zip({', '.join(leaves)})]"

    def _container(self, result: sig.Container | sig.Object) -> str:
        items = [self.expression(item) for item in result.items]
        if isinstance(result, sig.Object):
            named = ", ".join(f"{n!r}: {v}" for n, v in zip(result.names, items, strict=True))
            return f"{self.constant(_made)}({self.constant(result.type)}, {{{named}}})"
        if result.keys is not None:
            pairs = ", ".join(f"{self.reader.literal(k)}: {v}" for k, v in zip(result.keys, items, strict=True))
            return "{" + pairs + "}" if result.type is dict else f"{self.constant(result.type)}({{{pairs}}})"
        listed = ", ".join(items)
        if result.type is list:
            return f"[{listed}]"
        if result.type is tuple:
            return f"({listed},)" if items else "()"
        if hasattr(result.type, "_fields"):  # a namedtuple takes its items one by one
            return f"{self.constant(result.type)}({listed})"
        return f"{self.constant(result.type)}([{listed}])"


def _leaf(tensor: Any, grad: Any) -> Any:
    tensor.requires_grad_()
    tensor.grad = grad
    return tensor


def _made(cls: Any, attributes: dict[str, Any]) -> Any:
    """An instance with these attributes, `__init__` not called: the script has done what it does."""
    made = cls.__new__(cls)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


def _entry(pool: Sequence[Any], index: int | None) -> Any:
    """The container of a pool with a number, or the None that stands in its place; None, too, where it would be part of
    what the run did not choose."""
    return None if index is None or index >= len(pool) else pool[index]


def _fill(container: Any, made: Any) -> None:
    """Give a new container what another one holds."""
    if isinstance(container, (dict, set)):
        container.update(made)
        if isinstance(container, defaultdict):
            container.default_factory = made.default_factory
    elif isinstance(container, MutableSequence):
        container.extend(made)
    else:
        for name in (*getattr(made, "__dict__", ()), *_slots(type(made))):
            object.__setattr__(container, name, object.__getattribute__(made, name))


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield name


def _referrer(references: Sequence[sig.Reference]
              ) -> Callable[[Sequence[Any], Any, Sequence[Any], dict[int, Any]], Any]:
    """A function that finds the tensor that some ints say, among the objects of the graph's inputs, or in `own`, those
    that the script made, by their numbers, which are below -1."""
    views = [_viewer(r.path, {s: k for k, s in enumerate(r.symbols)}) for r in references]

    def find(objects: Sequence[Any], made: Any, ints: Sequence[Any], own: dict[int, Any]) -> Any:
        number = ints[0] if ints else None
        if number is None or number < 0:
            return made if number is None or number == -1 else own.setdefault(number, made)
        reference = references[number]
        known, sizes = ints[1:1 + reference.of], ints[1 + reference.of:]
        if reference.root < 0:
            tensor = find(objects, made, known, own)
        else:
            tensor = objects[reference.root]
            tensor = tensor[known[0]] if reference.of else tensor
        tensor = views[number](tensor, sizes) if reference.path else tensor
        if reference.leaf:
            return (tensor.detach_() if tensor is made else tensor).requires_grad_()
        return tensor

    return find


def _viewer(path: tuple[tuple[str, Any], ...], sizes: dict[Any, int]) -> Callable[[Any, Sequence[Any]], Any]:
    """A function that applies a view path to an eager tensor; sizes come from the program's int outputs."""

    def view(tensor: Any, outputs: Sequence[Any]) -> Any:
        from jitgrad.ops import OPS
        from jitgrad.ops.backend import backend

        values: dict[Any, Size] = {symbol: outputs[index] for symbol, index in sizes.items()}

        def size(d: Dim) -> Size:
            return substitute(d, values)

        for op, attrs in path:
            known = {key: map_attr(value, size) for key, value in attrs.items()}
            tensor = backend().apply(OPS[op], (tensor,), known)
        return tensor

    return view
