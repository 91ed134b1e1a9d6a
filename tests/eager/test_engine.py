"""The backward engine: values, order, errors, hooks, memory, threads."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from jitgrad.eager.autograd.node import AccumulateGrad, Node
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from tests.eager.both import check, error, jt, torch

PROGRAMS = {}
MISSING = "appears to not have been used in the graph"


def program(fn):
    assert fn.__name__ not in PROGRAMS
    PROGRAMS[fn.__name__] = fn
    return fn


def leaf(t, *shape, scale=1.0):
    n = int(np.prod(shape))
    return t.tensor(np.arange(1, n + 1, dtype=np.float64).reshape(shape) * scale).requires_grad_()


# --- values --------------------------------------------------------------------------------------------------------


@program
def polynomial(t):
    x = leaf(t, 3)
    (3 * x ** 3 - x / 2 + 1).sum().backward()
    return [x.grad, x.grad.requires_grad, x.grad.is_leaf]


@program
def broadcast_operands(t):
    a, b, c = leaf(t, 2, 3), leaf(t, 3), leaf(t, 1, 1)
    ((a * b + c) * a.sum(0) / c).sum().backward()
    return [a.grad, b.grad, c.grad]


@program
def used_many_times(t):
    x = leaf(t, 2, scale=0.3)
    y = x
    for _ in range(6):
        y = y * x + x
    y.sum().backward()
    return [x.grad]


@program
def diamond(t):
    x = leaf(t, 3, scale=0.2)
    a = x.exp()
    b, c = a.sin(), a * 2
    (b * c + a).sum().backward()
    return [x.grad]


@program
def vector_output(t):
    x = leaf(t, 3)
    y = x * x
    y.backward(t.tensor([1.0, 0.1, 0.01], dtype=t.float64))
    return [x.grad]


@program
def one_element_of_any_rank(t):
    x = leaf(t, 1, 1)
    (x * 3).backward()
    return [x.grad]


@program
def leaf_is_the_root(t):
    x = leaf(t, 1)
    x.backward()
    y = leaf(t, 3)
    y.backward(t.ones(3, dtype=t.float64))
    y.backward(t.ones(3, dtype=t.float64))
    return [x.grad, y.grad]


@program
def several_roots(t):
    x = leaf(t, 3)
    a, b = (x * x).sum(), x.exp()
    t.autograd.backward([a, b], [None, t.ones(3, dtype=t.float64)])
    return [x.grad]


@program
def gradient_of_a_wider_dtype_is_cast(t):
    x = t.tensor([1.0, 2.0]).requires_grad_()
    (x.double() * 3).sum().backward()
    y = t.tensor([1.0, 2.0]).requires_grad_()
    (y.half() * t.tensor([2.0, 3.0], dtype=t.float16)).sum().backward()
    return [x.grad, y.grad]


@program
def integers_and_bools_have_no_gradient(t):
    x = leaf(t, 3)
    i = x.argmax()
    m = x > 1
    n = (x * 2).long()
    return [i.requires_grad, m.requires_grad, n.requires_grad,
            error(lambda: t.tensor([1]).requires_grad_(), "only Tensors of floating point"),
            error(lambda: n.sum().backward(), "does not require grad and does not have a grad_fn")]


@program
def several_outputs(t):
    x = t.tensor([[3.0, 1.0, 2.0], [0.5, 7.0, 1.0]]).requires_grad_()
    values, indices = x.sort(1)
    out = [values.requires_grad, indices.requires_grad]
    (values * t.tensor([1.0, 10.0, 100.0])).sum().backward()
    top = x.topk(2)[0]
    top.sum().backward()
    return [*out, x.grad, x.max(1)[0]]


@program
def matmul_only_one_side(t):
    x, w = t.tensor(np.arange(6.0).reshape(2, 3)), leaf(t, 3, 4)
    (x @ w).pow(2).sum().backward()
    y = leaf(t, 5, 2, 3, scale=0.1)
    (y @ w.detach()).pow(2).sum().backward()
    return [w.grad, y.grad]


@program
def where_and_infinities(t):
    x = t.tensor([0.0, 1.0, 4.0], dtype=t.float64).requires_grad_()
    t.where(x > 0, x.sqrt(), x * 2).sum().backward()
    return [str(x.grad.tolist())]


@program
def empty_tensors(t):
    x = t.zeros(0, 3, dtype=t.float64).requires_grad_()
    (x * 2).sum().backward()
    return [x.grad]


@program
def composites(t):
    x = leaf(t, 2, 3, scale=0.3)
    y = x.softmax(1) * x.relu() + x.sigmoid() * x.log_softmax(0) + x.logsumexp(1, True) + x.var(0)
    y.sum().backward()
    return [x.grad, y]


# --- accumulation ----------------------------------------------------------------------------------------------------


@program
def accumulation_and_reset(t):
    x = leaf(t, 2)
    for _ in range(3):
        (x * x).sum().backward()
    out = [x.grad.clone()]
    x.grad = None
    (x * x).sum().backward()
    out.append(x.grad.clone())
    x.grad.zero_()
    out.append(x.grad)
    del x.grad
    return [*out, x.grad]


@program
def grad_can_be_assigned(t):
    x = leaf(t, 2)
    x.grad = t.ones(2, dtype=t.float64)
    (x * x).sum().backward()

    def put(value):
        x.grad = value

    return [x.grad, error(lambda: put(t.ones(3, dtype=t.float64)), "attempting to assign a gradient of size '[3]'"),
            error(lambda: put(t.ones(2)), "attempting to assign a gradient"), error(lambda: put(3), "got grad of type"),
            error(lambda: put(x), "can't assign Variable as its own grad")]


@program
def unreached_leaf_keeps_none(t):
    x, y = leaf(t, 2), leaf(t, 2)
    (x * 2).sum().backward()
    y.grad = t.ones(2, dtype=t.float64)
    (x * 2).sum().backward()
    return [leaf(t, 2).grad, y.grad, x.grad]


# --- the graph's life ----------------------------------------------------------------------------------------------


@program
def second_backward(t):
    x = leaf(t, 2)
    y = (x * x).sum()
    y.backward()
    out = [error(y.backward, "Trying to backward through the graph a second time")]
    z = (x + 1).sum()
    z.backward()
    z.backward()  # nothing was saved
    return [*out, x.grad]


@program
def second_backward_through_a_shared_part(t):
    x = leaf(t, 2)
    h = x.exp()
    a, b = h.sum(), (h * 2).sum()
    a.backward()
    return [error(b.backward, "Trying to backward through the graph a second time")]


@program
def retained(t):
    x = leaf(t, 2)
    y = (x * x).exp().sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, error(y.backward, "a second time")]


@program
def not_differentiable(t):
    x = leaf(t, 2)
    return [error(lambda: t.ones(2).sum().backward(), "element 0 of tensors does not require grad"),
            error(lambda: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
            error(lambda: (x * 2).backward(t.ones(3)), "Mismatch in shape"),
            error(lambda: (x.detach() * 2).sum().backward(), "does not require grad")]


@program
def attributes(t):
    x = leaf(t, 2)
    y = x * 2
    with t.no_grad():
        z = x * 2

    def change():
        y.requires_grad = False

    return [x.is_leaf, y.is_leaf, z.is_leaf, x.requires_grad, y.requires_grad, z.requires_grad, x.grad_fn is None,
            "Mul" in type(y.grad_fn).__name__, "Mul" in y.grad_fn.name(), len(y.grad_fn.next_functions),
            y.grad_fn.next_functions[0][0].variable is x, y.grad_fn.next_functions[1][0] is None,
            "AccumulateGrad" in y.grad_fn.next_functions[0][0].name(),
            error(change, "you can only change requires_grad flags of leaf variables"), y.detach().requires_grad,
            x.requires_grad_(False) is x, x.requires_grad, x.retains_grad]


# --- autograd.grad -------------------------------------------------------------------------------------------------


@program
def grad_of_leaves_and_others(t):
    x, w = leaf(t, 3), leaf(t, 3, scale=0.5)
    h = x * w
    y = (h * h).sum()
    return [*t.autograd.grad(y, [x, h, w, y]), x.grad, w.grad]


@program
def grad_outputs(t):
    x = leaf(t, 3)
    y, z = x * x, x.exp()
    g = t.autograd.grad([y, z], x, [t.ones(3, dtype=t.float64), t.zeros(3, dtype=t.float64)], retain_graph=True)
    h = t.autograd.grad(outputs=y, inputs=[x], grad_outputs=t.tensor([1.0, 0.0, 0.0], dtype=t.float64))
    return [*g, *h]


@program
def unused_inputs(t):
    x, y = leaf(t, 2), leaf(t, 2)
    z = (x * x).sum()
    out = [error(lambda: t.autograd.grad(z, [x, y], retain_graph=True), MISSING, "index 1")]
    out += t.autograd.grad(z, [x, y], allow_unused=True, retain_graph=True)
    out += t.autograd.grad(z, [x, y], materialize_grads=True)
    out.append(error(lambda: t.autograd.grad(z, t.ones(2)), "One of the differentiated Tensors does not require grad"))
    return out


@program
def grad_stops_at_inputs(t):
    x = leaf(t, 2)
    h = x.exp()
    y = (h * h).sum()
    (g,) = t.autograd.grad(y, h)  # x.exp() was not run backward, so it is still there
    h.sum().backward()
    return [g, x.grad]


@program
def backward_with_inputs(t):
    x, w = leaf(t, 2), leaf(t, 2)
    y = (x * w * w).sum()
    y.backward(inputs=[x], retain_graph=True)
    out = [x.grad, w.grad]
    y.backward(inputs=w)
    return [*out, w.grad, x.grad, error(lambda: y.backward(inputs=[]), "cannot be empty")]


# --- higher order --------------------------------------------------------------------------------------------------


@program
def third_order(t):
    x = leaf(t, 3, scale=0.5)
    y = (x ** 4).sum()
    out = []
    for _ in range(4):
        (g,) = t.autograd.grad(y, x, create_graph=True)
        out.append(g)
        y = g.sum()
    return out


@program
def hessian_vector_product(t):
    x = leaf(t, 3, scale=0.3)
    v = t.tensor([1.0, -1.0, 2.0], dtype=t.float64)
    y = (x.exp() * x.sin()).sum() * x.prod()
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad(g, x, v)
    return [g, h]


@program
def gradient_penalty(t):
    x, w = leaf(t, 2, 3, scale=0.2), leaf(t, 3, 2, scale=0.1)
    y = (x @ w).tanh()
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    ((g.pow(2).sum(1).sqrt() - 1) ** 2).mean().backward()
    return [w.grad, x.grad]


@program
def backward_with_create_graph(t):
    x = leaf(t, 2)
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a reference cycle
        (x ** 3).sum().backward(create_graph=True)
    out = [x.grad.requires_grad, x.grad.clone()]
    (g,) = t.autograd.grad(x.grad.sum(), x)
    x.grad = None
    return [*out, g]


@program
def second_order_of_views_and_reductions(t):
    x = leaf(t, 2, 4, scale=0.3)
    y = (x.view(4, 2).t()[:, 1:].mean(1) ** 3).sum() + x.max() ** 2 + t.cat([x, x * x]).sum(0)[::2].prod()
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), x)
    return [g, h]


@program
def second_order_with_given_cotangent(t):
    x, c = leaf(t, 3), leaf(t, 3, scale=0.1)
    (g,) = t.autograd.grad(x ** 3, x, c, create_graph=True)
    (g * g).sum().backward()
    return [x.grad, c.grad]


# --- hooks ---------------------------------------------------------------------------------------------------------


@program
def tensor_hooks(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    handle = y.register_hook(lambda g: g * 100)
    handle.remove()
    handle.remove()
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    return [str(seen), x.grad, error(lambda: t.ones(1).register_hook(print), "doesn't require gradient")]


@program
def leaf_hook_sees_the_sum_once(t):
    x, seen = leaf(t, 2), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3 + x).sum().backward()
    (x * 2).sum().backward()
    return [str(seen), x.grad]


@program
def post_accumulate_hooks(t):
    x, seen = leaf(t, 2), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return [str(seen), error(lambda: (x * 1).register_post_accumulate_grad_hook(print), "non-leaf")]


@program
def optimizer_in_backward(t):
    x = leaf(t, 2)

    def step(p):
        with t.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (x * x).sum().backward()
    return [x, x.grad]


@program
def node_hooks(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.grad_fn.register_prehook(lambda g: seen.append(("pre", len(g))))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post", len(go), gi[0].tolist())))
    y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 5 for g in gi))
    y.sum().backward()
    return [str(seen), x.grad]


@program
def retain_grad(t):
    x = leaf(t, 2)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward(retain_graph=True)
    out = [y.grad, y.retains_grad, x.grad]
    x.retain_grad()
    return [*out, x.retains_grad, error(lambda: t.ones(1).retain_grad(), "requires_grad=False")]


@program
def hook_on_captured_gradient(t):
    x = leaf(t, 2)
    y = x * 2
    y.register_hook(lambda g: g * 7)
    x.register_hook(lambda g: g * 3)
    return [*t.autograd.grad((y * y).sum(), [x, y], retain_graph=True), *t.autograd.grad((y * y).sum(), y)]


@program
def hook_with_create_graph(t):
    x = leaf(t, 2)
    y = x * x
    y.register_hook(lambda g: g * g)
    (g,) = t.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    return [g, h]


@program
def wrong_hook(t):
    x = leaf(t, 2)
    y = x * 2
    y.register_hook(lambda g: g.sum())
    return [error(lambda: y.sum().backward(), "hook '<lambda>' has changed the size of value")]


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    check(PROGRAMS[name])


# --- scale ---------------------------------------------------------------------------------------------------------


def chain(n):
    x = jt.tensor([1.0, 2.0]).requires_grad_()
    y = x
    for _ in range(n):
        y = y + 1
    return x, y


def test_long_chain():
    x, y = chain(100_000)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_long_chain_dies_without_recursion():
    _, y = chain(100_000)
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_long_chain_on_a_small_stack():
    failures = []

    def work():
        try:
            x, y = chain(20_000)
            y.sum().backward()
            del y
            assert x.grad.tolist() == [1, 1]
        except BaseException as e:
            failures.append(e)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not failures


def test_graph_dies_by_reference_counting():
    gc.disable()
    try:
        x = jt.tensor([1.0, 2.0]).requires_grad_()
        y = x.exp() * x
        z = y.view(2, 1).t()
        z[0] *= 2
        nodes = [weakref.ref(v.grad_fn) for v in (y, z)]
        z.sum().backward()
        del y, z
        assert [n() for n in nodes] == [None, None]
    finally:
        gc.enable()


def test_memory_is_constant():
    import tracemalloc

    w = jt.tensor(np.ones(64, np.float32)).requires_grad_()
    gc.disable()
    tracemalloc.start()

    def steps(n):
        for _ in range(n):
            loss = (w.view(8, 8).t()[1:] * w.exp()[0]).pow(2).sum()
            loss.backward()
            with jt.no_grad():
                w.sub_(w.grad, alpha=1e-9)
            w.grad = None

    try:
        steps(50)
        before = tracemalloc.get_traced_memory()[0]
        steps(1000)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 20_000


def test_threads_record_and_differentiate_at_once():
    w = jt.tensor(np.ones(8)).requires_grad_()
    results = {}

    def work(k):
        jt.set_grad_enabled(k % 2 == 0)
        for _ in range(50):
            y = (w * k).exp().sum()
            results.setdefault(k, []).append(
                jt.autograd.grad(y, w)[0].numpy()[0] if y.requires_grad else None)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert jt.is_grad_enabled()
    assert all(v is None for v in results[1] + results[3])
    np.testing.assert_allclose(results[2], 2 * np.exp(2))


def test_partial_graph_is_not_computed():
    calls = []

    def rule(name):
        def backward(cotangents):
            calls.append(name)
            return [cotangents[0]]
        return backward

    x, w = jt.ones(2).requires_grad_(), jt.ones(2).requires_grad_()
    a = Node("A", [x], rule("a")).attach(jt.ones(2))
    b = Node("B", [w], rule("b")).attach(jt.ones(2))
    jt.autograd.grad((a * b).sum(), x)
    assert calls == ["a"]


# --- nodes made by hand ----------------------------------------------------------------------------------------------


def made(x, w, seen, tape=True, saved=()):
    """(x * w, x + w) as one node."""
    def backward(cotangents):
        seen.append([None if c is None else c.tolist() for c in cotangents])
        a, b = (np.zeros(2) if c is None else c for c in cotangents)
        return [a * w._data + b, None if cotangents[0] is None else a * x._data + b]

    def on_tape(cotangents):
        a, b = (jt.zeros(2, dtype=jt.float64) if c is None else c for c in cotangents)
        return [a * w + b, a * x + b]

    node = Node("Pair", [x, w], backward, on_tape if tape else None, n_outputs=2, saved=saved)
    return node.attach(wrap(x._data * w._data), 0), node.attach(wrap(x._data + w._data), 1)


def test_node_by_hand():
    x, w, seen = leaf(jt, 2), leaf(jt, 2, scale=3.0), []
    product, total = made(x, w, seen)
    assert product.grad_fn.name() == "Pair"
    assert (product.requires_grad, total.is_leaf) == (True, False)
    (product * total).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x._data * w._data + w._data ** 2)
    with pytest.raises(RuntimeError, match="a second time"):
        total.sum().backward()


def test_absent_cotangent_and_unreached_input():
    x, w, seen = leaf(jt, 2), leaf(jt, 2), []
    _, total = made(x, w, seen)
    total.sum().backward()
    assert seen == [[None, [1.0, 1.0]]]
    assert w.grad is None
    assert x.grad.tolist() == [1, 1]


def test_node_by_hand_to_second_order():
    x, w = leaf(jt, 2), leaf(jt, 2, scale=3.0)
    product, total = made(x, w, [])
    (g,) = jt.autograd.grad((product * total).sum(), x, create_graph=True)
    (h,) = jt.autograd.grad(g.sum(), w)
    np.testing.assert_allclose(h.numpy(), 2 * x._data + 2 * w._data)
    product, _ = made(x, w, [], tape=False)
    with pytest.raises(RuntimeError, match="no derivative of its own"):
        jt.autograd.grad(product.sum(), x, create_graph=True)


def test_node_by_hand_checks_versions():
    x, w = leaf(jt, 2), leaf(jt, 2)
    product, _ = made(x, w, [], saved=[x])
    with jt.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_gradients_of_a_node_are_fitted():
    x = jt.ones(1, 3).requires_grad_()
    y = Node("Wide", [x], lambda c: [np.ones((4, 2, 3))]).attach(jt.ones(2))
    y.sum().backward()
    assert x.grad.shape == (1, 3)
    assert x.grad.dtype is jt.float32
    assert x.grad.tolist() == [[8.0, 8.0, 8.0]]


def test_rebase_of_a_tensor_written_by_other_means():
    w = leaf(jt, 2)
    x = jt.zeros(2, 2, dtype=jt.float64)
    v = x[0]
    value = w * 2
    v._data[...] = value._data
    v._rebase(value)
    (x * x).sum().backward()
    assert w.grad.tolist() == [8.0, 16.0]
    assert x._version == 1


def test_repr_of_nodes():
    y = leaf(jt, 2) * 2
    assert repr(y.grad_fn).startswith("<MulBackward object at 0x")
    assert isinstance(y.grad_fn.next_functions[0][0], AccumulateGrad)
    assert isinstance(y, Tensor)


# --- whose memory a gradient is --------------------------------------------------------------------------------------


def test_a_fresh_gradient_is_taken_over():
    addresses = []

    def backward(cotangents):
        result = np.full(4, 2.0, np.float32)
        addresses.append(result.ctypes.data)
        return [result]

    x = jt.ones(4).requires_grad_()
    Node("Fresh", [x], backward).attach(jt.ones(4)).sum().backward()
    assert x.grad.data_ptr() == addresses[0]


def test_a_gradient_that_others_know_is_copied():
    known = np.full((2, 2), 2.0, np.float32)
    for gradient in (known, known[:, :], known.T):
        x = jt.ones(2, 2).requires_grad_()
        Node("Known", [x], lambda c, g=gradient: [g]).attach(jt.ones(2, 2)).sum().backward()
        x.grad.zero_()
        assert x.grad.is_contiguous()
        assert known.sum() == 8


def test_sums_do_not_change_what_was_summed():
    kept = []

    def backward(cotangents):
        kept.append((cotangents[0], cotangents[0].copy()))
        return [cotangents[0]] * 3

    x = jt.ones(3).requires_grad_()
    y = x * 1
    for _ in range(3):
        y = Node("Three", [y, x, y], backward).attach(jt.ones(3))
    (y.sum() + y.sum() + x.sum()).backward()
    for now, before in kept:
        np.testing.assert_array_equal(now, before)
    assert x.grad.tolist() == [2 * (1 + 2 + 4 + 8) + 1] * 3


def test_gradients_with_history_are_distinct():
    a, b = jt.ones(2).requires_grad_(), jt.ones(2).requires_grad_()
    (a + b).sum().backward(create_graph=True)
    assert a.grad is not b.grad
    with jt.no_grad():
        a.grad.zero_()
    assert b.grad.tolist() == [1, 1]
