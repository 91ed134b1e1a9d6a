"""`loss.backward()`, `autograd.grad` and `.grad` inside a script.

The gradient is written where the call stands (`autodiff.inner`). A leaf's `.grad` is a slot of the state, as any
attribute: None, a tensor, or what a branch decided; it is stored when the call ends. A leaf that is overwritten under
`no_grad` stays a leaf: `leaf(content, root)` passes gradients on to the leaf as it was first met.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.errors import Span, UnsupportedCall
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff import inner
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.batches.items import check_none
from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.gradients import carried_leaves, hooks, record, requires_grad, tape
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import locations, unions
from jitgrad.script.frontend.templates.tensors import ARGUMENT
from jitgrad.script.frontend.values import checks, heap, numbers, writing
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import argument, items_of, type_name, type_word
from jitgrad.script.frontend.values.tensors import getter, method, setter
from jitgrad.script.frontend.values.values import Storage, SymTensor
from jitgrad.script.graph.ir import Block, Value

UNUSED = ("The differentiated Tensor at index {} appears to not have been used in the graph. Set allow_unused=True if "
          "this is the desired behavior.")
NO_GRAPH = "element {} of tensors does not require grad and does not have a grad_fn"

NO_HISTORY = "One of the differentiated Tensors does not require grad"


# --- the two calls -------------------------------------------------------------------------------------------------


@method("backward")
def backward(context: Context, tensors: Any, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False,
             inputs: Any = None) -> None:
    """`tensor.backward(...)`; also of several tensors."""
    context.inputs.one_each()
    outputs, seeds = _outputs(context, tensors, gradient)
    create, retain = _flags(context, create_graph, retain_graph)
    if inputs is None:
        leaves = [s for s in heap.of(context).leaves if root_of(context, s) is not None]
    else:
        leaves = [_leaf(context, t) for t in _tensors(context, inputs)]
    wrt = [root_of(context, s) for s in leaves]
    given = context.inputs.given if inputs is None else []
    found = differentiate(context, outputs, seeds, [*(v for v in wrt if v is not None), *given], create, retain,
                          inputs is None)
    if any(c is not None for c in found[len(wrt):]):
        raise UnsupportedCall("this gradient reaches tensors in a list of run-time length, and which ones is known "
                              "only at run time", context.span(),
                              hint="use `autograd.grad`, or call `backward()` outside the script")

    def arrive(storage: Storage, value: Value) -> None:
        if create and (hooks.of_leaf(context, storage, "_hooks") or hooks.of_leaf(context, storage, "_after_hooks")):
            raise UnsupportedCall("`create_graph=True` with a hook on a leaf", context.span(),
                                  hint="do in the program what the hook does")
        _accumulate(context, storage, hooks.value_of(context, storage, value), create)
        hooks.after(context, storage)

    for storage, c in zip(leaves, found[:len(leaves)], strict=True):
        if c is None:
            continue
        if storage.input >= 0 and not storage.requires_grad and not storage.retains_grad:
            raise UnsupportedCall("this gradient reaches a tensor that was computed outside the script", context.span(),
                                  hint="pass it as `x.detach()`, or call `backward()` outside the script")
        value, reached = c
        if isinstance(reached, Value):
            condition = numbers.wrap(context, reached)
            merge.branch(context, condition,
                         lambda s=storage, v=value: arrive(s, v),  # type: ignore[misc]
                         lambda: None)
        else:
            arrive(storage, value)


def backward_of(context: Context, tensors: Any, grad_tensors: Any = None, retain_graph: Any = None,
                create_graph: Any = False, grad_variables: Any = None, inputs: Any = None) -> None:
    """`autograd.backward(...)`."""
    backward(context, tensors, grad_variables if grad_tensors is None else grad_tensors, retain_graph, create_graph,
             inputs)


def grad(context: Context, outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
         create_graph: Any = False, allow_unused: Any = None, is_grads_batched: Any = False,
         materialize_grads: Any = False) -> Any:
    """`autograd.grad(...)`: a tuple, None where nothing leads to an input."""
    context.inputs.one_each()
    if is_grads_batched:
        raise UnsupportedCall("`is_grads_batched` inside a script", context.span())
    results, seeds = _outputs(context, outputs, grad_outputs)
    create, retain = _flags(context, create_graph, retain_graph)
    targets = _tensors(context, inputs)
    wrt = []
    for t in targets:
        if t.storage.alias.startswith(ARGUMENT):
            raise UnsupportedCall("the gradient of an item of a list of run-time length", context.span(),
                                  hint="stack the list, and take the gradient of that")
        if not requires_grad.require(context, t, NO_HISTORY):
            raise effects.raise_now(context, RuntimeError, (NO_HISTORY,))
        root = root_of(context, t.storage) if not t.path and t.storage.requires_grad else None
        hooks.check_unhooked(context, t, "`autograd.grad`")
        if root is not None and hooks.of_leaf(context, t.storage, "_hooks"):
            raise UnsupportedCall("`autograd.grad` of a leaf with a hook", context.span(),
                                  hint="do in the program what the hook does")
        wrt.append(root if root is not None else heap.read(context, t))
    found = differentiate(context, results, seeds, wrt, create, retain)
    unused = bool(static(context, allow_unused, "`allow_unused`")) or bool(materialize_grads)
    return tuple([result_of(context, t, c, unused, bool(materialize_grads), create, i)
                  for i, (t, c) in enumerate(zip(targets, found, strict=True))])


def result_of(context: Context, target: SymTensor, c: Any, unused: bool, materialize: bool, create: bool,
              index: int = 0) -> Any:
    """What a gradient is for Python: a tensor, None where nothing leads to `target`, number `index` of several."""
    if c is None:
        if not unused:
            raise effects.raise_now(context, RuntimeError, (UNUSED.format(index),))
        if not materialize:
            return None
        type_ = target.type_
        return heap.new_tensor(context, context.one("full", value=0, shape=type_.dims, dtype=type_.dtype))
    value, reached = c
    if not isinstance(reached, Value) or materialize:  # the value is zero where nothing was reached
        return _tensor(context, value, create)
    if not unused:
        effects.emit(context, "check", reached, error=RuntimeError, template=(UNUSED.format(index),))
        return _tensor(context, value, create)
    return merge.branch(context, numbers.wrap(context, reached), lambda: _tensor(context, value, create), lambda: None)


# --- what they are given -------------------------------------------------------------------------------------------


def _flags(context: Context, create_graph: Any, retain_graph: Any) -> tuple[bool, bool]:
    create = bool(static(context, create_graph, "`create_graph`"))
    retain = static(context, retain_graph, "`retain_graph`")
    return create, create if retain is None else bool(retain)


def _tensors(context: Context, given: Any) -> list[SymTensor]:
    items = [given] if isinstance(given, SymTensor) or unions.undecided(given) else items_of(context, given)
    found = [argument(context, t) for t in items]
    for t in found:
        if not isinstance(t, SymTensor):
            raise UnsupportedCall(f"a gradient of {type_word(t)}", context.span(), hint="give tensors")
    check_none(context, found, "a gradient of an item, but by `func.grad` and kin,")
    return found


def _outputs(context: Context, tensors: Any, gradients: Any) -> tuple[list[Value], list[Value]]:
    """The values to differentiate and their cotangents."""
    given = _tensors(context, tensors)
    seeds: list[Any] = [None] * len(given)
    if isinstance(gradients, SymTensor) or unions.undecided(gradients):
        seeds = [argument(context, gradients)]
    elif gradients is not None:
        seeds = [argument(context, g) for g in items_of(context, gradients)]
    if len(seeds) != len(given):
        raise effects.raise_now(context, RuntimeError, (
            f"got {len(given)} tensors and {len(seeds)} gradients",))
    values, cotangents = [], []
    for i, (t, g) in enumerate(zip(given, seeds, strict=True)):
        if not requires_grad.require(context, t, NO_GRAPH.format(i)):
            raise effects.raise_now(context, RuntimeError, (NO_GRAPH.format(i),))
        before, context.grad = context.grad, True
        values.append(heap.read(context, t))
        context.grad = before
        cotangents.append(seed_of(context, t, g))
    return values, cotangents


def seed_of(context: Context, tensor: SymTensor, g: Any) -> Value:
    type_ = tensor.type_
    if g is None:
        if any(d != 1 for d in type_.dims):
            raise effects.raise_now(context, RuntimeError, ("grad can be implicitly created only for scalar outputs",))
        return context.one("full", value=1, shape=type_.dims, dtype=type_.dtype)
    theirs = g.type_.dims
    _same_sizes(context, theirs, type_.dims, lambda: (
        f"Mismatch in shape: grad_output[0] has a shape of [{', '.join(map(str, theirs))}] and output[0] has a shape "
        f"of [{', '.join(map(str, type_.dims))}]."))
    value = heap.read(context, g)
    if g.dtype is not type_.dtype:
        value = context.one("cast", value, dtype=type_.dtype)
    return value


def _same_sizes(context: Context, a: Sequence[Any], b: Sequence[Any], message: Callable[[], str]) -> None:
    """RuntimeError where two shapes differ."""
    if len(a) != len(b):
        raise effects.raise_now(context, RuntimeError, (message(),))
    checker = checks.SymbolicChecker(context)
    for m, n in zip(a, b, strict=True):
        effects.guarded(context, lambda m=m, n=n: checker.equal(m, n, message))  # type: ignore[misc]


def _leaf(context: Context, tensor: SymTensor) -> Storage:
    if tensor.path or not (tensor.storage.requires_grad or tensor.storage.retains_grad):
        raise UnsupportedCall("`inputs` that are no leaves", context.span(), hint="use `autograd.grad`")
    return tensor.storage


def root_of(context: Context, storage: Storage) -> Value | None:
    """The value that stands for a leaf, None where it is not known here."""
    return context.inputs.values[storage.input] if storage.input >= 0 else storage.root


# --- the gradient --------------------------------------------------------------------------------------------------


def differentiate(context: Context, outputs: Sequence[Value], seeds: Sequence[Value], wrt: Sequence[Value],
                  create: bool, retain: bool, all_leaves: bool = False, span: Span | None = None
                  ) -> list[tuple[Value, Value | bool] | None]:
    """For each of `wrt` its gradient and whether it was reached (True, or a bool of the graph), None if it is not.

    `all_leaves`: every leaf is asked for, also one that is not known here. `span`: the place in the user's code.
    """
    path = context.path
    if not create:
        place = record.of(context).variables.get(outputs[0]) if len(outputs) == 1 else None
        carried_ones = None if place is None else place[0].gradient_of(
            context, place[1], outputs[0], seeds[0], wrt, retain, all_leaves)
        if carried_ones is not None:
            return carried_ones
    if context.sizes.changed:
        for block in path:
            context.sizes.rewrite(block)
    known = _known(path)
    tape.refuse_overwritten(context, path, outputs)
    places = [i for i, v in enumerate(wrt) if v in known or v in context.inputs.entered]
    carried = carried_leaves.carried(context)
    sources = [v for s in heap.of(context).leaves if (v := root_of(context, s)) is not None
               and (v in known or s.input >= 0)] + [
        v for v in record.of(context).levels if v in known] + carried if create else []
    count = len(path[-1].nodes)
    found = inner.gradients(path, outputs, seeds, [wrt[i] for i in places], sources)
    reaching = any(p in found.open for p in carried)
    if reaching and all_leaves:
        raise carried_leaves.earlier(span or context.span())
    for i in places if reaching else ():
        carried_leaves.check(context, outputs, wrt[i], found.behind)
    record.of(context).asked.update((wrt[i], context.span()) for i in places if wrt[i] in carried)
    context.gradient_state = True
    tape.release(context, path, found.swept, retain)
    if create:
        context.builder.history.update(v.id for n in path[-1].nodes[count:] for v in n.outputs if v in found.varied)
    result: list[tuple[Value, Value | bool] | None] = [None] * len(wrt)
    for i, c in zip(places, found.cotangents, strict=True):
        if c is not None:
            result[i] = c.value, c.reached
    return result


def _known(path: Sequence[Block]) -> set[Value]:
    return {v for b in path for n in b.nodes for v in n.outputs}.union(*(b.params for b in path))


# --- `.grad` -------------------------------------------------------------------------------------------------------


def slot_of(storage: Storage) -> tuple[str, Storage]:
    """The location of a leaf's `.grad`."""
    return ("grad", storage)


@getter("grad")
def read_grad(context: Context, tensor: SymTensor) -> Any:
    """`tensor.grad`."""
    context.inputs.one_each()
    storage = tensor.storage
    if tensor.path:
        return None
    _own(context, storage)
    return _current(context, storage)


def _own(context: Context, storage: Storage) -> None:
    """Refuse `.grad` of a tensor that may be one of several leaves."""
    if storage.was_leaf:
        raise UnsupportedCall("`.grad` of a tensor that a branch, a loop or a list brings here: which leaf it is, only "
                              "the run knows", context.span(),
                              hint="read `.grad` where the leaf is made, by its own name, or use `autograd.grad`")


def _current(context: Context, storage: Storage) -> Any:
    """What a `.grad` holds; what may be None is in the state, where its payload will replace it."""
    slot = slot_of(storage)
    found = locations.fetch(context, context.state, slot)
    if unions.undecided(found):
        context.state.values[slot] = found
    return found


@setter("grad")
def write_grad(context: Context, tensor: SymTensor, value: Any) -> None:
    """`tensor.grad = value`."""
    check_none(context, [value], "assignment of an item to `.grad`")
    context.inputs.one_each()
    if isinstance(value, SymTensor):
        mine, theirs = tensor.type_, value.type_
        if mine.dtype is not theirs.dtype:
            raise effects.raise_now(context, RuntimeError, (
                f"attempting to assign a gradient with dtype '{theirs.dtype.name}' to a tensor with dtype "
                f"'{mine.dtype.name}'. The gradient must match the tensor's dtype",))
        _same_sizes(context, theirs.dims, mine.dims, lambda: (
            f"attempting to assign a gradient of size '[{', '.join(map(str, theirs.dims))}]' to a tensor of size "
            f"'[{', '.join(map(str, mine.dims))}]'. Please ensure that the gradient and the tensor are the same size"))
    elif value is not None and not unions.undecided(value):
        raise effects.raise_now(context, TypeError, (
            f"assigned grad expected to be a Tensor or None but got grad of type {type_name(value)}",))
    if tensor.path:
        raise UnsupportedCall("assignment to `.grad` of a view", context.span(), hint="assign to that of its base")
    _own(context, tensor.storage)
    _store(context, tensor.storage, value)


@method("retain_grad")
def retain(context: Context, tensor: SymTensor) -> None:
    """`tensor.retain_grad()`."""
    if not tensor.requires_grad:
        raise effects.raise_now(context, RuntimeError, ("can't retain_grad on Tensor that has requires_grad=False",))
    storage = tensor.storage
    if storage.requires_grad:
        return
    hooks.check_unhooked(context, tensor, "`retain_grad`")
    if tensor.path or storage.input >= 0:
        raise UnsupportedCall("`retain_grad` of a view, or of a tensor that the script did not make", context.span(),
                              hint="use `autograd.grad`")
    storage.root, storage.retains_grad = heap.current_value(context, storage), True
    heap.of(context).leaves[storage] = None


@setter("data")
def set_data(context: Context, tensor: SymTensor, value: Any) -> None:
    """`tensor.data = value`: the content is replaced, the history is not."""
    check_none(context, [value], "assignment of an item to `.data`")
    target = tensor.detach()
    if not isinstance(value, SymTensor):
        raise effects.raise_now(context, TypeError, (f"Variable data has to be a tensor, but got "
                                                   f"{type_name(value)}",))
    if value.storage is tensor.storage:
        if heap.same_reference(value, target):
            return
        named = True
    else:
        named = value.storage.input >= 0 or any(
            isinstance(v, SymTensor) and v.storage is value.storage for v in context.state.values.values())
    if named:
        raise UnsupportedCall("assignment of a tensor that has another name to `.data`", context.span(),
                              hint="write `p.data.copy_(value)`, or `.clone()` it")
    mine, theirs = tensor.type_, value.type_
    if mine.dtype is not theirs.dtype or len(mine.dims) != len(theirs.dims):
        raise UnsupportedCall("assignment of another dtype or rank to `.data`", context.span(),
                              hint="do it outside the script")
    _same_sizes(context, theirs.dims, mine.dims, lambda: "a script cannot change the size of a tensor through `.data`")
    before, context.grad = context.grad, False
    with tape.one_operation(context):
        writing.write(context, target, heap.read(context, value))
    context.grad = before


def _store(context: Context, storage: Storage, value: Any) -> None:
    slot = slot_of(storage)
    if storage.input >= 0:
        context.inputs.stores[slot] = sig.Attr(context.inputs.sources[storage.input], "grad")
    context.state.values[slot] = value


def _accumulate(context: Context, storage: Storage, value: Value, create: bool) -> None:
    """Add a gradient to a leaf's `.grad` as eager's engine does."""
    before = _current(context, storage)
    if unions.undecided(before):
        merge.branch(context, unions.is_static(context, before, None),
                     lambda: _store(context, storage, _tensor(context, value, create)),
                     lambda: unions.switch(context, unions.without(context, before, None),
                                           lambda v: _add(context, storage, v, value, create)))
    elif before is None:
        _store(context, storage, _tensor(context, value, create))
    else:
        _add(context, storage, before, value, create)


def _add(context: Context, storage: Storage, before: SymTensor, value: Value, create: bool) -> None:
    if create:
        _store(context, storage, _sum(context, before, value, create))
    else:
        grad_mode, context.grad = context.grad, False
        total = context.one("add", heap.read(context, before), context.one("detach", value))
        writing.write(context, before, total)
        context.grad = grad_mode


def _sum(context: Context, before: SymTensor, value: Value, create: bool) -> SymTensor:
    return _tensor(context, context.one("add", heap.read(context, before), value), create)


def _tensor(context: Context, value: Value, create: bool) -> SymTensor:
    assert isinstance(value.type, TensorType)
    return heap.new_tensor(context, value if create else context.one("detach", value))
