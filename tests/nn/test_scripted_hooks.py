"""Forward hooks run inside scripts, come and go without stale code; no backward hook is lost."""

from __future__ import annotations

import jitgrad
from jitgrad import nn


def test_forward_hooks_of_a_scripted_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    scripted = jitgrad.script(model)
    x = jitgrad.ones(2, 3)
    plain = model(x)
    assert jitgrad.allclose(scripted(x), plain)
    handles = [model[0].register_forward_hook(lambda module, args, result: result * 2),
               model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))]
    hooked = model(x)
    assert not jitgrad.allclose(hooked, plain)
    assert jitgrad.allclose(scripted(x), hooked)
    for handle in handles:
        handle.remove()
    assert jitgrad.allclose(scripted(x), plain)
