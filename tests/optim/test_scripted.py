"""Whole steps with every optimizer in one script: eager's parameters after ten steps."""

import numpy as np
import pytest

import jitgrad
from jitgrad import optim

OPTIMIZERS = [
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}), ("Adadelta", {"lr": 0.5}), ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}), ("Rprop", {}), ("Adamax", {"lr": 0.02}), ("NAdam", {"lr": 0.02}),
    ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}), ("ASGD", {"lr": 0.02, "t0": 3}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(OPTIMIZERS)])
def test_ten_steps(name, options):
    found = []
    for scripted in (False, True):
        rng = np.random.default_rng(0)
        w, b = (jitgrad.from_numpy(rng.standard_normal(s).astype(np.float32)).requires_grad_() for s in ((3, 4), (4,)))
        x = jitgrad.from_numpy(rng.standard_normal((5, 3)).astype(np.float32))
        optimizer = getattr(optim, name)([w, b], **options)

        def step(x):
            optimizer.zero_grad()  # noqa: B023
            loss = ((jitgrad.tanh(x @ w + b) - 0.3) ** 2).sum()  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023
            return loss.detach()

        call = jitgrad.script(step) if scripted else step
        losses = [call(x).item() for _ in range(10)]
        found.append((losses, w.detach().numpy(), b.detach().numpy()))
        if scripted:
            assert call.cache_info().compilations == 1
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5)
