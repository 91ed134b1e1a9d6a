"""`Module`: attributes, walking, state, hooks, repr; and torch's words for what goes wrong."""

# ruff: noqa: E501  (messages)

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import Parameter


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.scale = Parameter(jitgrad.ones(1))
        self.register_buffer("seen", jitgrad.zeros(2))
        self.register_buffer("scratch", jitgrad.zeros(2), persistent=False)
        self.note = "text"

    def forward(self, x):
        return self.second(self.first(x).relu()) * self.scale


def test_attributes_go_where_they_belong():
    net = Net()
    assert list(net._parameters) == ["scale"]
    assert list(net._modules) == ["first", "second"]
    assert list(net._buffers) == ["seen", "scratch"]
    assert net.__dict__["note"] == "text"
    net.seen = jitgrad.ones(2)
    assert net._buffers["seen"].tolist() == [1, 1]
    net.scale = None
    assert net.scale is None
    net.first = None
    assert net.first is None
    net.note = nn.ReLU()
    assert "note" in net._modules
    assert "note" not in net.__dict__
    net.note = Parameter(jitgrad.ones(1))
    assert "note" in net._parameters
    assert "note" not in net._modules
    del net.note
    assert not hasattr(net, "note")
    assert {"second", "seen", "scale", "forward"} <= set(dir(net))


@pytest.mark.parametrize(("action", "kind", "message"), [
    (lambda n: n.missing, AttributeError, "'Net' object has no attribute 'missing'"),
    (lambda n: setattr(n, "scale", jitgrad.ones(1)), TypeError,
     "cannot assign 'torch.FloatTensor' as parameter 'scale' (torch.nn.Parameter or None expected)"),
    (lambda n: setattr(n, "first", 3), TypeError, "cannot assign 'int' as child module 'first' (torch.nn.Module or None expected)"),
    (lambda n: setattr(n, "seen", 3), TypeError,
     "cannot assign 'int' as buffer 'seen' (torch.nn.Buffer, torch.Tensor or None expected)"),
    (lambda n: n.register_parameter("a.b", None), KeyError, "'parameter name can\\'t contain \".\"'"),
    (lambda n: n.register_parameter("", None), KeyError, "'parameter name can\\'t be empty string \"\"'"),
    (lambda n: n.register_parameter("note", None), KeyError, "\"attribute 'note' already exists\""),
    (lambda n: n.register_parameter("p", jitgrad.ones(1)), TypeError,
     "cannot assign 'torch.FloatTensor' object to parameter 'p' (torch.nn.Parameter or None required)"),
    (lambda n: n.register_buffer("b", 3), TypeError, "cannot assign 'int' object to buffer 'b' (torch Tensor or None required)"),
    (lambda n: n.add_module("m", 3), TypeError, "int is not a Module subclass"),
    (lambda n: n.add_module("a.b", nn.ReLU()), KeyError, "'module name can\\'t contain \".\", got: a.b'"),
    (lambda n: n.get_submodule("first.x"), AttributeError, "Linear has no attribute `x`"),
    (lambda n: n.get_submodule("first.weight"), AttributeError, "`weight` is not an nn.Module"),
    (lambda n: n.get_parameter("seen"), AttributeError, "`seen` is not an nn.Parameter"),
    (lambda n: n.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
    (lambda n: n.train(1), ValueError, "training mode is expected to be boolean"),
    (lambda n: n.to(jitgrad.int64), TypeError,
     "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=jitgrad.int64"),
    (lambda n: nn.Module()(1), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
])
def test_errors(action, kind, message):
    with pytest.raises(kind) as error:
        action(Net())
    assert str(error.value) == message


def test_assignments_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early(nn.ReLU())
    with pytest.raises(AttributeError, match=r"cannot assign parameter before Module.__init__\(\) call"):
        Early(Parameter(jitgrad.ones(1)))


def test_walking_finds_shared_things_once():
    net = Net()
    net.third = net.first
    net.second.alias = net.scale
    assert [n for n, _ in net.named_children()] == ["first", "second"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "first", "second", "third"]
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert len(list(net.parameters())) == 5
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert net.get_submodule("second") is net.second
    assert net.get_submodule("") is net
    assert net.get_parameter("first.weight") is net.first.weight
    assert net.get_buffer("seen") is net.seen


def test_modes_and_casts():
    net = Net()
    assert net.eval() is net
    assert not net.first.training
    assert net.train().second.training
    weight = net.first.weight
    net.double()
    assert net.first.weight is weight
    assert net.first.weight.dtype == jitgrad.float64
    assert net.seen.dtype == jitgrad.float64
    assert net.to(jitgrad.float32).scale.dtype == jitgrad.float32
    assert net.to("cpu", jitgrad.float64).scale.dtype == jitgrad.float64
    assert net.float().half().scale.dtype == jitgrad.float16
    assert net.type(jitgrad.float64).scale.dtype == net.type('torch.DoubleTensor').scale.dtype == jitgrad.float64
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Linear", "Net"]


def test_casts_keep_gradients_with_their_parameters():
    net = nn.Linear(2, 1)
    net(jitgrad.ones(1, 2)).sum().backward()
    net.double()
    assert net.weight.grad.dtype == jitgrad.float64
    assert net.weight.grad.tolist() == [[1, 1]]
    assert net.weight.is_leaf


def test_zero_grad():
    net = Net()
    net(jitgrad.ones(2, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.first.weight.grad.abs().sum().item() == 0
    net.zero_grad()
    assert net.first.weight.grad is None


# --- state ---------------------------------------------------------------------------------------------------------


def test_state_dict_and_back():
    net, other = Net(), Net()
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert state._metadata["first"] == {"version": 1}
    assert not state["scale"].requires_grad
    assert net.state_dict(keep_vars=True)["scale"] is net.scale
    result = other.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>"
    assert (other.first.weight == net.first.weight).all().item()
    assert other.first.weight is not net.first.weight
    arrays = {k: v.numpy() + 1 for k, v in state.items()}
    other.load_state_dict(arrays)
    np.testing.assert_array_equal(other.scale.detach().numpy(), [2.0])
    other.load_state_dict({k: jitgrad.tensor(v) for k, v in arrays.items()}, assign=True)
    assert isinstance(other.scale, Parameter)


def test_load_state_dict_lists_everything_that_does_not_fit():
    state = dict(Net().state_dict())
    del state["second.bias"], state["scale"]
    state["second.extra"] = state["more"] = jitgrad.ones(1)
    state["first.weight"] = jitgrad.ones(3, 3)
    state["first.bias"] = "text"
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict(state)
    assert str(error.value) == (
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "scale", "second.bias". \n\t'
        'Unexpected key(s) in state_dict: "more", "second.extra". \n\tsize mismatch for first.weight: copying a param with '
        f"shape {jitgrad.ones(3, 3).shape} from checkpoint, the shape in current model is {jitgrad.ones(4, 3).shape}.\n\t"
        'While copying the parameter named "first.bias", expected torch.Tensor or Tensor-like object from checkpoint but '
        "received <class 'str'>")
    del state["first.weight"], state["first.bias"]
    result = Net().load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "first.weight", "first.bias", "second.bias"]
    assert result.unexpected_keys == ["more", "second.extra"]
    assert repr(Net().load_state_dict(Net().state_dict(), strict=False)) == "<All keys matched successfully>"
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>"):
        Net().load_state_dict([])


def test_a_state_from_before_batches_were_counted():
    norm = nn.Sequential(nn.BatchNorm1d(2))
    norm(jitgrad.ones(3, 2))
    state = nn.Sequential(nn.BatchNorm1d(2)).state_dict()
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.num_batches_tracked"'):
        norm.load_state_dict(state)
    assert repr(norm.load_state_dict(dict(state))) == "<All keys matched successfully>"
    assert norm[0].num_batches_tracked.item() == 1
    assert norm[0].running_mean.tolist() == [0.0, 0.0]


def test_extra_state_and_hooks_of_the_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 3

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    net = nn.Sequential(Counter())
    net[0].count = 7
    state = net.state_dict()
    assert state == {"0._extra_state": 7}
    other = nn.Sequential(Counter())
    other.load_state_dict(state)
    assert other[0].count == 7
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        other.load_state_dict({})
    net.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update(extra=1))
    assert net.state_dict()["extra"] == 1
    net.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("extra"))
    assert not net.load_state_dict(net.state_dict()).unexpected_keys


def test_copies_and_pickles():
    net = Net()
    net.second.weight = net.second.weight
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net.first))):
        weight = other.first.weight if isinstance(other, Net) else other.weight
        assert isinstance(weight, Parameter)
        assert weight is not net.first.weight
        assert (weight == net.first.weight).all().item()
    tied = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    tied[1].weight = tied[0].weight
    copied = copy.deepcopy(tied)
    assert copied[1].weight is copied[0].weight


# --- hooks ---------------------------------------------------------------------------------------------------------


def test_forward_hooks_in_order():
    net, calls = nn.ReLU(), []
    first = net.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] + 1,))
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True)
    net.register_forward_pre_hook(lambda m, args: calls.append("early"), prepend=True)
    after = net.register_forward_hook(lambda m, args, out: calls.append("post") or out * 10)
    assert net(jitgrad.tensor([1.0])).item() == 20
    assert calls == ["early", "pre", "post"]
    first.remove()
    after.remove()
    after.remove()
    assert net(jitgrad.tensor([1.0])).item() == 1
    with net.register_forward_hook(lambda m, args, kwargs, out: out + 5, with_kwargs=True):
        assert net(jitgrad.tensor([1.0])).item() == 6
    assert net(jitgrad.tensor([1.0])).item() == 1


def test_hooks_that_are_always_called():
    class Bad(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    net, calls = Bad(), []
    net.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    net.register_forward_hook(lambda m, args, out: calls.append("never"))
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert calls == [None]


def test_full_backward_hooks():
    class Product(nn.Module):
        def forward(self, a, b):
            return a * b

    net, calls = Product(), []
    net.register_full_backward_pre_hook(lambda m, grads: calls.append(("pre", [g.tolist() for g in grads])))
    net.register_full_backward_hook(
        lambda m, inputs, outputs: calls.append(("post", [g.tolist() for g in inputs], [g.tolist() for g in outputs])))
    a, b = jitgrad.tensor([2.0], requires_grad=True), jitgrad.tensor([3.0], requires_grad=True)
    (net(a, b) * 2).sum().backward()
    assert calls == [("pre", [[2.0]]), ("post", [[6.0], [4.0]], [[2.0]])]
    assert (a.grad.item(), b.grad.item()) == (6, 4)
    net.register_full_backward_hook(lambda m, inputs, outputs: tuple(g * 10 for g in inputs))
    a.grad = b.grad = None
    net(a, b).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (30, 20)
    seen = []
    linear = nn.Linear(1, 1)
    linear.register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs[0].tolist())))
    linear(jitgrad.ones(1, 1)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_full_backward_hooks_where_gradients_are_missing():
    class Parts(nn.Module):
        def forward(self, a, b):
            asked.append((a.requires_grad, b.requires_grad))
            return a * b, a + 1, b * 2

    net, asked, seen = Parts(), [], []

    def show(module, inputs, outputs):
        seen.append([None if g is None else g.tolist() for g in (*inputs, *outputs)])

    net.register_full_backward_hook(show)
    a = jitgrad.tensor([2.0], requires_grad=True)
    results = net(a, jitgrad.tensor([3.0]))
    assert [y.requires_grad for y in results] == [True, True, False]
    results[0].sum().backward()
    assert asked == [(True, False)]
    assert seen == [[[3.0], [0.0], [1.0], None, None]]
    linear = nn.Linear(1, 1)
    linear.register_full_backward_hook(lambda module, inputs, outputs: (None,))
    linear(jitgrad.ones(1, 1)).sum().backward()


def test_full_backward_hooks_are_for_gradients_that_come_through_the_result():
    net = nn.Linear(1, 1, bias=False)
    net.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    x = jitgrad.tensor([[3.0]], requires_grad=True)
    gradients = jitgrad.autograd.grad(net(x * 1).sum(), (net.weight, x), create_graph=True)
    gradients[0].sum().backward()  # leads to x past the result
    assert x.grad.tolist() == [[1.0]]


# --- text and containers -------------------------------------------------------------------------------------------


def test_repr():
    net = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3, bias=False), act=nn.GELU("tanh")))
    net.add_module("tail", nn.Sequential(nn.Dropout(0.1), nn.Embedding(4, 2, padding_idx=0)))
    assert repr(net) == """Sequential(
  (fc): Linear(in_features=2, out_features=3, bias=False)
  (act): GELU(approximate='tanh')
  (tail): Sequential(
    (0): Dropout(p=0.1, inplace=False)
    (1): Embedding(4, 2, padding_idx=0)
  )
)"""
    assert repr(nn.Module()) == "Module()"
    layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()])
    assert repr(layers) == """ModuleList(
  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)
  (2): ReLU()
)"""
    assert repr(nn.ModuleList()) == "ModuleList()"
    assert repr(Parameter(jitgrad.ones(2))).startswith("Parameter containing:\ntensor([1., 1.], requires_grad=True)")


def test_sequential_is_a_list():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    assert net.append(c) is net
    assert (len(net), net[0], net[-1], list(net)) == (3, a, c, [a, b, c])
    assert list(net[1:]) == [b, c]
    assert list((nn.Sequential(a) + nn.Sequential(b))._modules) == ["0", "1"]
    net[1] = c
    assert net[1] is c
    del net[0]
    assert list(net._modules.items()) == [("0", c), ("1", c)]
    net.insert(0, a)
    assert net.pop(0) is a
    assert list(net.extend([a])) == [c, c, a]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        net[5]


def test_module_list_and_dict():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    layers = nn.ModuleList([a])
    layers += [b]
    layers.append(c)
    layers.insert(0, c)
    assert list(layers) == [c, a, b, c]
    assert list(layers[1:3]) == [a, b]
    del layers[0]
    assert layers.pop(-1) is c
    assert list(layers._modules) == ["0", "1"]
    both = layers + [c]  # noqa: RUF005
    assert list(both) == [a, b, c]
    table = nn.ModuleDict({"a": a})
    table["b"] = b
    table.update([("c", c)])
    assert list(table) == ["a", "b", "c"]
    assert "b" in table
    assert table.pop("b") is b
    assert dict(table.items()) == {"a": a, "c": c}
    assert (len(table), list(table.keys()), list(table.values())) == (2, ["a", "c"], [a, c])
    del table["a"]
    table.clear()
    assert len(table) == 0


def test_parameter_list_and_dict():
    values = nn.ParameterList([Parameter(jitgrad.ones(2)), jitgrad.zeros(3)])
    assert [n for n, _ in values.named_parameters()] == ["0", "1"]
    values.append(jitgrad.ones(1, 1))
    values[0] = Parameter(jitgrad.zeros(1))
    assert [tuple(p.shape) for p in values] == [(1,), (3,), (1, 1)]
    assert len(values[1:]) == 2
    assert "(2): Parameter containing: [jitgrad.float32 of size 1x1]" in repr(values)
    table = nn.ParameterDict({"w": jitgrad.ones(2)})
    table["b"] = jitgrad.zeros(1)
    assert [n for n, _ in table.named_parameters()] == ["w", "b"]
    assert ("w" in table, len(table), list(table), [k for k, _ in table.items()]) == (True, 2, ["w", "b"], ["w", "b"])
    assert "(b): Parameter containing: [torch.FloatTensor of size 1]" in repr(table)
    del table["w"]
    assert list(table.keys()) == ["b"]
    assert list(nn.ParameterDict({"v": jitgrad.ones(1), "a": jitgrad.ones(2)})) == ["a", "v"]  # as torch sorts a dict
    table.update([("z", jitgrad.ones(1)), ("c", 3)])
    assert (list(table), table.get("d"), table.setdefault("c", 4), table.pop("c")) == (["b", "z", "c"], None, 3, 3)
    assert list(table.copy()) == ["b", "z"]
    assert table.popitem()[0] == "z"
    table.clear()
    assert not list(table.parameters())
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        values()
