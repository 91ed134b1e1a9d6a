"""The executor that emits: library functions run on symbolic tensors append nodes to the graph.

Preconditions on sizes (`check` of the rows) are proven by form, assumed for the whole graph where the first call's
arguments satisfy them (what is assumed of sizes), or become `check` nodes in front of the op.
"""

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from jitgrad import dims
from jitgrad.device import device
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.dtypes import dtype, from_numpy, int64
from jitgrad.errors import TypeMismatch, UnsupportedCall
from jitgrad.ops.backend import Batched, own_view
from jitgrad.ops.batching.backend import ESCAPED, ITEM as NUMBER
from jitgrad.ops.complex.pairs import makes_pair
from jitgrad.ops.library.keywords import require_call
from jitgrad.ops.library.sizes import require, require_equal, text
from jitgrad.ops.opdef import OPS, POINTWISE, OpDef, backward_name, has_trait
from jitgrad.ops.types import TensorType
from jitgrad.random import Generator, default_generator
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.batches import complex
from jitgrad.script.frontend.batches.complex import SymComplex, complex_of
from jitgrad.script.frontend.boundary import placement, streams
from jitgrad.script.frontend.gradients import tape
from jitgrad.script.frontend.state import copies, layout, versions
from jitgrad.script.frontend.state.context import NUMBERS, RANDOM, Context, Restart
from jitgrad.script.frontend.state.paths import paths_equal, require_apart
from jitgrad.script.frontend.values import checks, heap, numbers, writing
from jitgrad.script.frontend.values.values import Number, SymTensor, size_number
from jitgrad.script.graph.ir import Value
from jitgrad.script.graph.namespace import GraphNamespace

#: the class of Python's numbers, whose name a module has here
COMPLEX = builtins.complex


class SymbolicBackend(complex.Conjugates):
    """See `ops.backend.Backend`."""
    own_view = own_view

    def __init__(self, context: Context):
        self.context = context
        self.checker = checks.SymbolicChecker(context)

    # --- ops -------------------------------------------------------------------------------------------------------

    def apply(self, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        context = self.context
        if makes_pair(op, attrs) or any(isinstance(x, SymComplex) for x in operands):
            return self._of_pairs(op, operands, attrs)
        if any(isinstance(x, Batched) for x in operands):
            raise RuntimeError(ESCAPED)
        attrs = {k: self.attribute(a) for k, a in attrs.items()}
        types = [x.type_ for x in operands]
        if op.check is not None:
            op.check(self.checker, *types, **attrs)
            if context.sizes.changed:
                types = [x.type_ for x in operands]
                attrs = {k: self.attribute(a) for k, a in attrs.items()}
        made: Any = None
        if op.spec is not None and op.name != "nonzero":
            made = op.spec(*types, **attrs)
            made = made if isinstance(made, tuple) else (made,)
            given = {n for t in types for n in t.dims}
            for type_ in made:
                self.checker.made(type_.dims, given)
        if "view" in op.traits:
            return heap.view(context, operands[0], op.name, attrs, made[0])
        where = placement.together(op, operands)
        values = [heap.read(context, x) for x in operands]
        compose = op.compose if op.spec is None else None
        outputs: Sequence[Value]
        if compose is not None:
            namespace = GraphNamespace(context.builder)
            composed = compose(namespace, *map(namespace.wrap, values), **attrs)
            outputs = [y.value for y in (composed if isinstance(composed, tuple) else (composed,))]
        elif op.name == "nonzero":  # the node brings its count into scope
            count = Symbol("n")
            type_ = TensorType(int64, (dims.dim(count), types[0].ndim))
            outputs = context.builder.emit(op.name, values, types=[type_], binds=(count,))
        else:
            outputs = context.builder.emit(op.name, values, types=made, **attrs)
        results = tuple([heap.new_tensor(context, v) for v in outputs])
        for y in results:
            y.storage.made, y.storage.device = backward_name(op) if compose is None else "", where
        if context.grad and any(map(context.has_history, values)):
            tape.note(context, op, operands, values, results, attrs)
        return results if len(results) > 1 else self._ordered(op, operands, *results)

    def _ordered(self, op: OpDef, operands: tuple[Any, ...], result: SymTensor) -> SymTensor:
        """A result, noted whether in eager's memory it lies in row order, as what is computed of each element may not.
        """
        each = op.kind is POINTWISE or (op.compose is not None and op.spec is None)
        of = operands[:1] if "keeps_order" in op.traits else operands if each else ()
        if of and result.ndim > 1 and "in_rows" not in op.traits:
            *given, made = [x.value if isinstance(x, SymComplex) else x for x in (*of, result)]
            made.storage.ordered = layout.joined_order(*[layout.keeps_order(self.context, x) for x in given])
        if op.name == "contiguous":
            layout.brought_in_rows(self.context, operands[0], result)
        return result

    def _of_pairs(self, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """One operation of eager's on complex numbers, of several on their parts."""
        with tape.one_operation(self.context):
            found = complex.apply(self, op, operands, attrs)
        return found if isinstance(found, tuple) else self._ordered(op, operands, found)

    def attribute(self, value: Any) -> Any:
        """An attr with symbolic ints as sizes, canonical."""
        if isinstance(value, Number):
            return numbers.bind_size(self.context, value)
        if isinstance(value, Dim):
            return self.context.sizes.canonical(value)
        if isinstance(value, (tuple, list)):
            return tuple([self.attribute(v) for v in value])
        return value.item() if isinstance(value, np.generic) else value

    def create(self, op: OpDef, where: Any, attrs: dict[str, Any]) -> Any:
        """A new tensor on a device, or where another one is."""
        return placement.put(self.context, self.apply(op, (), attrs), where)

    def move(self, tensor: SymTensor, where: device) -> SymTensor:
        """The tensor itself if it is there, else a copy with its history."""
        if tensor.device == where:
            return tensor
        if isinstance(tensor, SymComplex):
            return complex_of(self.move(tensor.value, where))
        context = self.context
        copied = heap.new_tensor(context, context.one("reshape", heap.read(context, tensor), shape=tensor.type_.dims))
        return placement.put(context, copied, where)

    def pin(self, tensor: SymTensor) -> SymTensor:
        """Scripts have no pinned memory."""
        raise NotImplementedError("pin_memory() is not available in a script: pin the tensor before the call")

    def is_pinned(self, tensor: SymTensor) -> bool:
        """Scripts have no pinned memory."""
        raise NotImplementedError("is_pinned() is not available in a script: ask before the call")

    def lift(self, number: Any, d: dtype) -> SymTensor:
        context = self.context
        if d.is_complex:
            parts = (number, 0) if isinstance(number, Number) else (number.real, number.imag)
            return cast(SymTensor, self.apply(OPS["complex"], tuple([self.lift(x, d.to_real()) for x in parts]), {}))
        at_run_time = isinstance(number, Number)
        key = ("lift", number.value if at_run_time else (type(number), repr(number)), d)
        value = context.recall(key)
        if value is None:
            value = context.remember(key, context.one("fill", number.value, shape=(), dtype=d) if at_run_time else
                                     context.one("full", value=number, shape=(), dtype=d))
        return heap.holding(context, value)

    def from_data(self, data: Any, d: dtype | None, where: Any = None) -> SymTensor:
        made = self._from_data(data, d)
        return made if where is None else placement.put(self.context, made, where)

    def _from_data(self, data: Any, d: dtype | None) -> SymTensor:
        context = self.context
        if d is None and isinstance(data, (np.ndarray, np.generic)):
            d = from_numpy(data.dtype)
        shape, leaves = _flatten(data)
        if not any(isinstance(x, (Number, SymTensor)) for x in leaves):
            return self._constant(np.asarray(data), d)
        if any(isinstance(x, SymTensor) for x in leaves):
            leaves = [self.item(x) if isinstance(x, SymTensor) else x for x in leaves]
        if d is None:
            from jitgrad.dtypes import result_type

            d = result_type((), (), [numbers.kind_of(x) for x in leaves])
        if d.is_complex:
            raise UnsupportedCall("a complex tensor of numbers that the script computes", context.span(),
                                  hint="make two real tensors, and `torch.complex` of them")
        items = [heap.read(context, self.lift(x, d)) for x in leaves]
        if len(items) == 1:
            return heap.new_tensor(context, context.one("reshape", items[0], shape=shape))
        rows = [context.one("reshape", v, shape=(1,)) for v in items]
        return heap.new_tensor(context, context.one("reshape", context.one("cat", *rows, axis=0), shape=shape))

    def _constant(self, array: np.ndarray[Any, Any], d: dtype | None) -> SymTensor:
        from jitgrad.dtypes import get_default_dtype, of_number

        context = self.context
        if d is None:
            d = {"float64": get_default_dtype(), "complex128": of_number(COMPLEX)}.get(
                array.dtype.name) or from_numpy(array.dtype)
        array = array.astype(d.np)
        if d.is_complex:
            parts = np.stack([array.real, array.imag], -1)
            return complex_of(self._constant(parts, d.to_real()))
        if array.size and (array == array.flat[0]).all():
            return heap.new_tensor(context, context.one("full", value=array.flat[0].item(), shape=array.shape, dtype=d))
        inputs = context.inputs
        source = sig.Constant(array, len(inputs.values) + 1)
        value = inputs.add(TensorType(d, array.shape), source, "")
        inputs.constants.append((len(inputs.values) - 1, array, d))
        return heap.new_tensor(context, value)

    def mark(self, target: Any = None, *call: Any) -> int:
        if call and target.requires_grad:
            require_call(target, *call)
        if target is not None:
            self.require_writable(target, memory=False)
        return next(NUMBERS)

    def assign(self, target: SymTensor, value: SymTensor, since: int | None = None) -> SymTensor:
        context = self.context
        if isinstance(target, SymComplex):
            assert isinstance(value, SymComplex)  # the library has cast it
            made = self.assign(target.value, value.value, since)
            return target if made.storage is target.storage else SymTensor(
                made.storage, (*made.path, target.path[-1]), made.type_)
        assert not isinstance(value, SymComplex)  # the library has cast it
        content = heap.read(context, value)
        if since is not None:
            versions.of(context).keep(context, target, since)
        return writing.write(context, target, content, versions.lacking(context, value))

    @staticmethod
    def apart(target: SymTensor, operands: Sequence[SymTensor]) -> bool:
        """Whether none is the target, or all of its memory (one element is); other views are taken to be apart."""
        def steps(x: SymTensor) -> list[Any]:
            return [step for step in x.path if not has_trait(step[0], "in_order")]

        one = all(isinstance(n, int) and n == 1 for n in target.storage.type.dims)
        return not any(x.storage is target.storage and (one or steps(x) == steps(target)) for x in operands)

    def _is_own(self, target: SymTensor) -> bool:
        """Whether the script made a tensor, and no loop around this place goes on with it."""
        storage, path = target.storage, self.context.path
        if storage.input >= 0 or storage.alias or storage.block not in path:
            return False
        return not any(b in self.context.bodies_open for b in path[path.index(storage.block) + 1:])

    def reinterpret(self, tensor: SymTensor, to: dtype) -> SymTensor:
        """A view without history; the last axis of numbers of another size must be in order, as layouts say it is."""
        if tensor.dtype.is_complex or to.is_complex:
            raise UnsupportedCall(f"view({to.name}) of {tensor.dtype.name}", self.context.span(),
                                  hint="write `torch.view_as_real` or `torch.view_as_complex`")
        old, new = tensor.dtype.itemsize, to.itemsize
        if old != new:
            about = f"to view {tensor.dtype.word} as {to.word} (different element sizes), but got "
            if not tensor.ndim:
                raise RuntimeError(f"self.dim() cannot be 0 {about}0")
            if not tensor.is_contiguous():
                raise UnsupportedCall(f"view({to.name}) of numbers of another size that are not in row order",
                                      self.context.span(), hint="write `.contiguous()` first")
            if new > old and any(not has_trait(op, "in_order") and op != "view_dtype" for op, _ in tensor.path):
                raise UnsupportedCall(f"view({to.name}) of a part of a tensor of smaller numbers", self.context.span(),
                                      hint="write `.clone()` first: where the part begins decides whether there is one")
            if new > old:
                ratio, last = new // old, tensor.shape[-1]
                require(last % ratio == 0, RuntimeError, f"self.size(-1) must be divisible by {ratio} {about}", last)
        made: SymTensor = self.apply(OPS["view_dtype"], (tensor.detach(),), {"dtype": to})
        return made

    def require_writable(self, target: SymTensor, memory: bool = True) -> None:
        """What `assign` says of leaves, and of memory in which elements overlap."""
        writing.require_no_leaf(self.context, target)
        if memory:
            require_apart(target.path)

    def become(self, target: SymTensor, view: Callable[[], SymTensor]) -> SymTensor:
        """Every name of a tensor of the script has another shape from here on; its views stay what they are."""
        if self._is_own(target) and not (target.requires_grad and (target.is_leaf or target.storage.retains_grad)):
            copies.identify(self.context, target)
            found, storage = view(), target.storage
            writing.renamed(self.context, target, found, one=True)
            if paths_equal(target.path, storage.seen):
                storage.seen = found.path
            return found
        raise UnsupportedCall("a tensor that changes its own shape", self.context.span(),
                              hint="assign the view to a name: `x = x.unsqueeze(0)` instead of `x.unsqueeze_(0)`")

    def resize(self, target: SymTensor, result: Any, operands: Sequence[Any] = ()) -> SymTensor:
        """A tensor of the script without elements becomes one of that shape, under all its names. Else sizes that may
        be equal are checked at run time: a script does not give a tensor other memory."""
        context, shape = self.context, tuple(result.shape)
        if 0 in target.type_.dims and self._is_own(target) and not target.path:
            made = heap.new_tensor(context, context.one(
                "full", value=0, shape=tuple(map(self.attribute, shape)), dtype=target.dtype))
            made.storage.device = target.storage.device
            if not writing.renamed(context, target, made):
                return made
        elif 0 not in target.type_.dims and len(shape) == target.ndim and not any(
                isinstance(m, int) and isinstance(n, int) and m != n
                for m, n in zip(target.shape, shape, strict=True)):
            for m, n in zip(target.shape, shape, strict=True):
                require_equal(m, n, lambda: "in a script `out` must have the shape of the result")
            return target
        raise UnsupportedCall(f"`out` of shape {text(target.shape)} for a result of shape {text(shape)}",
                              self.context.span(), hint="give an `out` of the result's shape, or leave it out")

    @staticmethod
    def composite(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], short: bool) -> Any:
        """None: passes fuse what there is."""
        return NotImplemented

    @staticmethod
    def update(name: str, target: SymTensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Scripts have no shorter way: fusion removes the copy."""
        return NotImplemented

    def alias(self, tensor: SymTensor) -> SymTensor:
        """A view that changes nothing."""
        tensor.storage.made = None
        if isinstance(tensor, SymComplex):
            return complex_of(self.alias(tensor.value))
        return heap.view(self.context, tensor, "alias", {}, tensor.type_)

    def own(self, view: SymTensor) -> SymTensor:
        """What a view shows as memory of its own, which takes the place of the view's."""
        if isinstance(view, SymComplex):
            return complex_of(self.own(view.value))
        if not view.path:
            return view
        context, old = self.context, view.storage
        made = heap.new_tensor(context, heap.shown(context, view))
        made.storage.ordered, made.storage.device = layout.keeps_order(context, view), old.device
        made.storage.made = tape.view_word(context, view)
        versions.moved(context, old, made.storage)
        return made

    def item(self, tensor: SymTensor) -> Any:
        context = self.context
        if isinstance(tensor, SymComplex):
            tensor.item()
        if isinstance(tensor, Batched):
            raise RuntimeError(NUMBER)
        type_ = tensor.type_
        n = dims.product(type_.dims)
        words = f"a Tensor with {n} elements cannot be converted to Scalar"
        if isinstance(n, int):
            if n != 1:
                raise RuntimeError(words)
        else:
            self.checker.equal(n, 1, lambda: words)
        value = heap.read(context, tensor)
        if type_.dims:
            value = context.one("reshape", value, shape=())
        known = ("item", value)
        return numbers.wrap(context, context.recall(known) or context.remember(known, context.one("item", value)))

    # --- random numbers --------------------------------------------------------------------------------------------

    def draw(self, kind: str, shape: tuple[Any, ...], d: dtype, where: Any, generator: Any = None,
             **params: Any) -> Any:
        generator = default_generator if generator is None else generator
        sizes = tuple(self.attribute(s) for s in shape)
        if kind == "uniform":
            made = self._words(generator, "random.uniform", sizes, d, 2 if d.name == "float64" else 1)
            return placement.put(self.context, made, where)
        if kind == "bits":
            return placement.put(self.context, self._words(generator, "random.bits", sizes, None, 1), where)
        from jitgrad.ops.library import random

        return random.compose(kind, shape, d, where, generator, **params)

    def _words(self, generator: Generator, op: str, shape: tuple[Size, ...], d: dtype | None, per_element: int,
               ) -> SymTensor:
        """Draw from the stream, which advances by a block for every four words."""
        context = self.context
        self.checker.made(shape, ())
        if context.called_back and RANDOM not in context.decisions:
            raise Restart(RANDOM, "ignored functions may draw random numbers between those of the script")
        seed, offset = (streams.read(context, generator, part) for part in ("seed", "offset"))
        attrs = {"shape": shape} if d is None else {"shape": shape, "dtype": d}
        value = context.one(op, seed.value, offset.value, **attrs)
        words = dims.product(shape) * per_element
        blocks = dims.floordiv(words + 3, 4)
        count = numbers.value_of(context, size_number(blocks))
        after = numbers.wrap(context, context.one("num.add", offset.value, count))
        streams.write(context, generator, "offset", after)
        return heap.new_tensor(context, value)

    # --- checks ----------------------------------------------------------------------------------------------------

    def in_range(self, indices: SymTensor, n: Any) -> bool:
        """Whether indices are an `arange` of just this length."""
        length, size = self.context.builder.counts.get(heap.read(self.context, indices).id), numbers.size_of(n)
        return length is not None and size is not None and self.context.sizes.equal(length, size)

    def expect_range(self, indices: SymTensor, low: Any, high: Any, error: type[Exception], head: str,
                     tail: str) -> SymTensor | None:
        """On a GPU, outside of branches and loops, the worst index becomes a result, at which the host looks when it
        next waits; the program uses the nearest index that is in range. None, and nothing done, elsewhere.
        """
        if not (indices.is_cuda or self.context.late_checks) or self.context.depth:
            return None
        return placement.expect(self.context, indices, low, high, (error, head, tail))

    def check(self, condition: Any, error: type[Exception], message: str | tuple[Any, ...]) -> None:
        parts = (message,) if isinstance(message, str) else message
        if not isinstance(condition, Number):
            if condition:
                return
            if error is RuntimeError or not any(isinstance(p, Number) for p in parts):
                raise error("".join(str(p) for p in parts))
            condition = False
        checks.emit_check(self.context, condition, error, parts)

    def check_equal(self, a: Any, b: Any, error: type[Exception], message: Callable[[], str]) -> None:
        self.checker.equal(numbers.bind_size(self.context, a), numbers.bind_size(self.context, b), message, error)

    def select_number(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return numbers.select(self.context, condition, if_true, if_false)

    def pieces(self, n: Any, size: Any) -> int:
        """The number of parts at the first call: guarded as a ratio where it is one, else by both sizes."""
        sizes = self.context.sizes
        a, b = numbers.size_of(n), numbers.size_of(size)
        if a is not None and b is not None:
            total, part = sizes.hint(a), sizes.hint(b)
            if total and part and total % part == 0 and sizes.assume_equal(a, b * (total // part)):
                return total // part
        return -(-operator.index(n) // operator.index(size))

    def on_device(self, tensor: SymTensor) -> bool:
        return not isinstance(tensor, Batched) and (tensor.is_cuda or self.context.late_checks)

    def on_host(self, tensor: SymTensor) -> bool:
        return not isinstance(tensor, Batched) and not self.on_device(tensor)

    def take_equal(self, pairs: Sequence[tuple[Any, Any]]) -> bool:
        return self.context.sizes.take_equal([
            (numbers.bind_size(self.context, a), numbers.bind_size(self.context, b)) for a, b in pairs])

    def take_zero(self, number: Any) -> bool:
        return self.context.inputs.is_zero(number) if isinstance(number, Number) else bool(number == 0)

    def is_grad_enabled(self) -> bool:
        return self.context.grad


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and leaves of nested sequences."""
    if isinstance(data, np.ndarray):
        return data.shape, list(data.reshape(-1))
    if isinstance(data, (list, tuple)):
        parts = [_flatten(d) for d in data]
        if parts and any(p[0] != parts[0][0] for p in parts):
            raise TypeMismatch("the rows of a tensor literal have different lengths")
        return (len(parts), *(parts[0][0] if parts else ())), [x for _, leaves in parts for x in leaves]
    return (), [data]
