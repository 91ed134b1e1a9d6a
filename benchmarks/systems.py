"""Who is measured: each system turns a workload into a step function, or says why it cannot run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.workloads import Workload

Step = Callable[[], Any]


class CannotRun(Exception):
    """The system cannot run here; the message is the row's reason."""


def _torch_like(module: Any, workload: Workload, transform: Callable[[Any], Any]) -> Step:
    if workload.training is not None:
        function, arguments = workload.training(module)
        train = transform(function)
        return lambda: train(*arguments)
    data = [module.from_numpy(a.copy()) for a in workload.data]
    weights = [module.from_numpy(a.copy()).requires_grad_() for a in workload.weights]
    assert workload.loss is not None
    loss_of = transform(workload.loss)

    def step() -> Any:
        for w in weights:
            w.grad = None
        loss = loss_of(*data, *weights)
        loss.backward()
        return loss

    return step


def jitgrad_eager(workload: Workload) -> Step:
    import jitgrad

    return _torch_like(jitgrad, workload, lambda f: f)


def jitgrad_script(workload: Workload) -> Step:
    import jitgrad

    return _torch_like(jitgrad, workload, jitgrad.script)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise CannotRun("torch is not installed (pip install 'jitgrad[peers]')") from error
    return torch


def torch_eager(workload: Workload) -> Step:
    return _torch_like(_torch(), workload, lambda f: f)


def torch_compile(workload: Workload) -> Step:
    torch = _torch()
    step = _torch_like(torch, workload, torch.compile)
    try:
        step()
    except Exception as error:  # whatever a peer raises becomes the reason in its row
        raise CannotRun(f"torch.compile: {str(error).strip().splitlines()[0][:90]}") from error
    return step


def jax_jit(workload: Workload) -> Step:
    if workload.jax_loss is None:
        raise CannotRun("not written for JAX")
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise CannotRun("jax is not installed (pip install 'jitgrad[peers]')") from error
    data = [jnp.asarray(a) for a in workload.data]
    weights = [jnp.asarray(a) for a in workload.weights]
    wrt = tuple(range(len(data), len(data) + len(weights)))
    value_and_grad = jax.jit(jax.value_and_grad(workload.jax_loss(jnp), argnums=wrt))

    def step() -> Any:
        loss, gradients = value_and_grad(*data, *weights)
        jax.block_until_ready(gradients)
        return loss

    return step


SYSTEMS: dict[str, Callable[[Workload], Step]] = {
    "jitgrad eager": jitgrad_eager, "jitgrad script": jitgrad_script, "torch eager": torch_eager,
    "torch.compile": torch_compile, "jax.jit": jax_jit,
}


def first_call_ms(make: Callable[[Workload], Step], workload: Workload) -> tuple[Step, float]:
    """The step function and the milliseconds of building and running it once."""
    started = time.perf_counter()
    step = make(workload)
    step()
    return step, 1e3 * (time.perf_counter() - started)
