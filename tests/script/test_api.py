"""`@script` on everything that can be called."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.script.inspect.face import BoundScript, ScriptFunction


@jitgrad.script
def double(x):
    return x * 2


def plain(x):
    return x + 1


class Holder:
    """Methods of every kind."""

    factor = 3

    def __init__(self, value):
        self.value = jitgrad.tensor(value)

    @jitgrad.script
    def method(self, x):
        return x * self.value

    @jitgrad.script
    @staticmethod
    def static(x):
        return x + 1

    @staticmethod
    @jitgrad.script
    def static_inside(x):
        return x + 2

    @jitgrad.script
    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    @jitgrad.script
    @property
    def squared(self):
        return self.value * self.value

    def bare(self, x):
        return x - self.value


class Net(nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.drop = nn.Dropout(0.5)
        self.gain = 2

    def forward(self, x, scale: float = 1.0):
        return self.drop(self.fc(x)) * self.gain * scale


class ScriptedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    @jitgrad.script
    def forward(self, x):
        return self.fc(x).tanh()


def compiled(function):
    return function.cache_info().compilations


# --- functions and methods -----------------------------------------------------------------------------------------


def test_a_function_keeps_its_name_and_doc():
    assert double.__name__ == "double"
    assert double.__module__ == __name__
    assert double.eager(1.5) == 3.0
    assert repr(double).startswith("<ScriptFunction double: ")


def test_decorator_without_and_with_parentheses():
    assert isinstance(jitgrad.script(plain), ScriptFunction)
    assert isinstance(jitgrad.script()(plain), ScriptFunction)
    assert jitgrad.jit.script(double) is double
    assert jitgrad.script(jitgrad.script(plain)).eager is plain


def test_a_lambda():
    scripted = jitgrad.script(lambda x, y=2.0: x * y + 1)
    assert scripted(jitgrad.tensor([1.0])).tolist() == [3.0]
    assert scripted(jitgrad.tensor([1.0]), y=4.0).tolist() == [5.0]
    assert compiled(scripted) == 1


def test_methods_of_every_kind():
    x, holder, other = jitgrad.tensor([2.0]), Holder([5.0]), Holder([7.0])
    assert holder.method(x).tolist() == [10.0]
    assert other.method(x).tolist() == [14.0]
    assert isinstance(holder.method, BoundScript)
    assert Holder.method(other, x).tolist() == [14.0]
    assert Holder.static(x).tolist() == holder.static(x).tolist() == [3.0]
    assert Holder.static_inside(x).tolist() == [4.0]
    assert Holder.of_class(x).tolist() == [6.0]
    assert holder.squared.tolist() == [25.0]
    bound = jitgrad.script(holder.bare)
    assert bound(x).tolist() == [-3.0]
    assert bound.cache_info().compilations == 1
    assert "x - value" in bound.code
    assert str(bound.graph_for(x)).startswith("graph bare")
    assert bound.kernels(x) == bound.kernels()


@pytest.mark.parametrize(("wrong", "name"), [(3, "int"), (len, "builtin_function_or_method"), ("f", "str")])
def test_what_cannot_be_scripted(wrong, name):
    with pytest.raises(TypeError, match=f"cannot script an object of type `{name}`: expected a Python function"):
        jitgrad.script(wrong)


def test_a_class_cannot_be_scripted():
    with pytest.raises(TypeError, match="cannot script the class `Holder`: script an instance of it"):
        jitgrad.script(Holder)


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2), {}), ((1,), {"x": 2}), ((), {"z": 1})])
def test_wrong_arguments_raise_python_s_error(arguments):
    args, kwargs = arguments
    with pytest.raises(TypeError) as eager:
        plain(*args, **kwargs)
    with pytest.raises(TypeError) as scripted:
        jitgrad.script(plain)(*args, **kwargs)
    assert str(scripted.value) == str(eager.value)


def test_every_kind_of_parameter():
    def f(a, /, b, *rest, c=2.0, **named):
        return a + b * 10 + sum(rest) * 100 + c * 1000 + named["d"] * 10000

    one = jitgrad.tensor(1.0)
    scripted = jitgrad.script(f)
    assert scripted(one, one, one, one, d=one).item() == f(one, one, one, one, d=one).item() == 12211.0
    assert scripted(one, b=one, c=3.0, d=one).item() == 13011.0


def test_is_scripting_and_annotate():
    def f(x):
        scale = jitgrad.jit.annotate(float, 2.0)
        if jitgrad.jit.is_scripting():
            return x * scale
        return x * -scale

    x = jitgrad.tensor([1.0])
    scripted = jitgrad.script(f)
    assert f(x).tolist() == [-2.0]
    assert scripted(x).tolist() == [2.0]
    with jitgrad.jit.eager_mode():
        assert scripted(x).tolist() == [-2.0]
    assert not jitgrad.jit.is_scripting()


# --- modules -------------------------------------------------------------------------------------------------------


def test_a_scripted_module_is_the_module():
    net = Net()
    scripted = jitgrad.script(net)
    assert isinstance(scripted, Net)
    assert isinstance(scripted, nn.Module)
    assert all(a is b for a, b in zip(scripted.parameters(), net.parameters(), strict=True))
    assert scripted.state_dict().keys() == net.state_dict().keys()
    assert jitgrad.script(scripted) is scripted
    net.eval()
    x = jitgrad.ones(2, 3)
    assert jitgrad.allclose(scripted(x), net(x))
    assert jitgrad.allclose(scripted(x, scale=3.0), net(x, scale=3.0))
    scripted.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
    assert jitgrad.allclose(scripted(x), net(x))


def test_train_and_eval_switch_the_compiled_call():
    scripted = jitgrad.script(Net(64))
    x = jitgrad.ones(4, 3)
    assert bool((scripted(x) == 0).any())
    scripted.eval()
    assert not bool((scripted(x) == 0).any())
    assert "`self.drop.training` was True, is False" in scripted.recompilations
    scripted.train()
    assert bool((scripted(x) == 0).any())
    assert compiled(scripted) == 2


def test_an_attribute_that_changes_is_seen_at_once():
    scripted = jitgrad.script(Net().eval())
    x = jitgrad.ones(2, 3)
    before = scripted(x)
    scripted.gain = 4
    assert jitgrad.allclose(scripted(x), before * 2)
    assert scripted.recompilations == ["`self.gain` was 2, is 4"]
    scripted.fc = nn.Linear(3, 5)
    assert scripted(x).shape == (2, 5)
    scripted.fc.weight.requires_grad_(False)
    scripted(x)
    assert scripted.recompilations[-1] == "`self.fc.weight` required grad, does not now"


def test_instances_do_not_share_state_or_programs():
    a, b = ScriptedForward(), ScriptedForward()
    x = jitgrad.ones(1, 3)
    assert jitgrad.allclose(a(x), jitgrad.tanh(a.fc(x)))
    assert jitgrad.allclose(b(x), jitgrad.tanh(b.fc(x)))
    assert jitgrad.allclose(a(x), jitgrad.tanh(a.fc(x)))
    first, second = jitgrad.script(Net().eval()), jitgrad.script(Net().eval())
    first(x), first(x)
    assert compiled(first) == 1
    assert compiled(second) == 0


def test_a_scripted_module_inside_a_module():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jitgrad.script(Net().eval())
            self.twin = self.inner

        def forward(self, x):
            return (self.inner(x) + self.twin(x)).sum()

    outer, x = Outer(), jitgrad.ones(1, 3)
    expected = outer(x)
    assert jitgrad.allclose(jitgrad.script(outer)(x), expected)
    assert len(list(outer.parameters())) == 2
    copied = copy.deepcopy(outer)
    assert copied.inner is copied.twin
    assert copied.inner.fc.weight is not outer.inner.fc.weight
    assert jitgrad.allclose(copied(x), expected)


def test_tied_weights_accumulate_one_gradient():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).tanh()).pow(2).sum()

    net, x = Tied(), jitgrad.ones(2, 3)
    net(x).backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    jitgrad.script(net)(x).backward()
    for p, g in zip(net.parameters(), expected, strict=True):
        assert jitgrad.allclose(p.grad, g, rtol=1e-5, atol=1e-5)


# --- copies --------------------------------------------------------------------------------------------------------


def test_functions_are_copied_and_pickled_by_name():
    assert copy.copy(double) is copy.deepcopy(double) is double
    assert pickle.loads(pickle.dumps(double)) is double
    hidden = jitgrad.script(plain)
    with pytest.raises(TypeError, match="cannot pickle the scripted function `plain`"):
        pickle.dumps(hidden)


def test_copies_of_a_scripted_module_are_scripted_copies():
    net = jitgrad.script(Net().eval())
    x = jitgrad.ones(1, 3)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(other, Net)
        assert other.fc.weight is not net.fc.weight
        assert jitgrad.allclose(other(x), net(x))
        assert compiled(other) == 1
        with jitgrad.no_grad():
            other.fc.weight.zero_()
        assert not jitgrad.allclose(other(x), net(x))


def test_bound_methods_are_copied_with_their_instance():
    bound = jitgrad.script(Net().eval().forward)
    other = copy.deepcopy(bound)
    assert other.__self__ is not bound.__self__
    x = jitgrad.ones(1, 3)
    assert jitgrad.allclose(other(x), bound(x))


DOUBLES = np.arange(4.0).reshape(2, 2)


def test_arrays_of_numpy_keep_their_dtype():
    """`tensor` of an ndarray has its dtype; of Python floats the default one."""
    def made(x):
        return jitgrad.tensor(DOUBLES), jitgrad.as_tensor(DOUBLES), jitgrad.tensor([1.5]) + x

    eager, scripted = made(jitgrad.ones(1)), jitgrad.script(made)(jitgrad.ones(1))
    assert [t.dtype for t in scripted] == [t.dtype for t in eager]
    assert [t.tolist() for t in scripted] == [t.tolist() for t in eager]
