"""Training programs beside PyTorch and JAX: the best peer's time over ours.

    python -m benchmarks.peers [--quick] [--only RNN] [--json FILE] [--compile] [--floors]

All systems take turns in one process, so that a noisy moment hits all alike; what each computes is compared before it
is measured. Ours is the faster of a scripted loss and a scripted step. Figures are medians over rounds; x is the median
of each round's best peer over ours. `--floors` puts beside them what this machine takes at least (`floors.py`).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import operator
import statistics
import sys
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import floors
from benchmarks.machine import alternate, tell
from benchmarks.programs import Program, programs
from jitgrad.script.inspect.explain.ceilings import Ceilings

#: one step; gives the loss and a gradient (or an updated weight) to compare
Run = Callable[[], tuple[Any, Any]]
FUSED = ("Adam", "AdamW")  # PyTorch's optimizers whose fused form is the best of theirs on the CPU


def torch_step(torch: Any, program: Program, script: Callable[[Any], Any], whole: bool
               ) -> tuple[Callable[..., Any], list[Any], list[tuple[Any, ...]]]:
    """A step of a program for a torch-like module, its weights, and its arguments in turn; `whole`: see `torch_like`.
    """
    def given(a: Any) -> Any:
        return torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a

    weights = [torch.from_numpy(a.copy()).requires_grad_() for a in program.weights]
    loss_of = program.loss(torch)
    optimizer = None
    if program.optimizer is not None:
        name, arguments = program.optimizer
        best = {"fused": True} if torch.__name__ == "torch" and name in FUSED else {}
        optimizer = getattr(torch.optim, name)(weights, **arguments, **best)

    def step(loss_of: Any, optimizer: Any, *data: Any) -> Any:
        if optimizer is None:
            for w in weights:
                w.grad = None
        else:
            optimizer.zero_grad()
        loss = loss_of(*data, *weights)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss

    if whole:
        step = script(step)
    else:
        loss_of = script(loss_of)
    return step, weights, [(loss_of, optimizer, *map(given, data)) for data in program.data]


def torch_like(torch: Any, program: Program, script: Callable[[Any], Any], whole: bool = False) -> Run:
    """A step of a program for a torch-like module; `whole`: all of it is what `script` compiles."""
    step, weights, arguments = torch_step(torch, program, script, whole)
    turns = itertools.cycle(arguments)

    def run() -> tuple[Any, Any]:
        loss = step(*next(turns)).detach()
        return loss, weights[0].grad if program.optimizer is None else weights[0].detach()

    return run


def update(jnp: Any, optimizer: tuple[str, Any]) -> Callable[..., Any]:
    """(weights, gradients, state) -> (weights, state), as torch.optim has them; a state is two moments and a count."""
    name, arguments = optimizer
    rate = arguments["lr"]
    decay = 0.01 if name == "AdamW" else 0.0

    def sgd(ws: Any, gs: Any, state: Any) -> Any:
        return [w - rate * g for w, g in zip(ws, gs, strict=True)], state

    def adam(ws: Any, gs: Any, state: Any) -> Any:
        ms, vs, k = state
        k = k + 1
        ms = [0.9 * m + 0.1 * g for m, g in zip(ms, gs, strict=True)]
        vs = [0.999 * v + 0.001 * g * g for v, g in zip(vs, gs, strict=True)]
        speed, scale = rate / (1 - 0.9**k), jnp.sqrt(1 - 0.999**k)
        ws = [w * (1 - rate * decay) - speed * m / (jnp.sqrt(v) / scale + 1e-8)
              for w, m, v in zip(ws, ms, vs, strict=True)]
        return ws, (ms, vs, k)

    return sgd if name == "SGD" else adam


def jax_run(program: Program) -> Run:
    """A step of a program in JAX: one jitted function, weights and state donated."""
    import jax
    import jax.numpy as jnp

    turns = itertools.cycle([tuple(jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in data)
                             for data in program.data])
    weights: Any = [jnp.asarray(a) for a in program.weights]
    first = len(program.data[0])
    wrt = tuple(range(first, first + len(weights)))
    value_and_grad = jax.value_and_grad(program.jax_loss(jnp), argnums=wrt)
    if program.optimizer is None:
        compiled = jax.jit(value_and_grad)

        def run() -> tuple[Any, Any]:
            loss, gradients = compiled(*next(turns), *weights)
            jax.block_until_ready(gradients)
            return loss, gradients[0]

        return run
    change = update(jnp, program.optimizer)
    state: Any = (*([jnp.zeros_like(w) for w in weights] for _ in range(2)), jnp.zeros(()))

    def step(weights: Any, state: Any, *data: Any) -> Any:
        loss, gradients = value_and_grad(*data, *weights)
        weights, state = change(weights, gradients, state)
        return weights, state, loss

    compiled = jax.jit(step, donate_argnums=(0, 1))

    def train() -> tuple[Any, Any]:
        nonlocal weights, state
        weights, state, loss = compiled(weights, state, *next(turns))
        jax.block_until_ready(weights)
        return loss, weights[0]

    return train


def torch_run(program: Program, script: str = "") -> Run:
    """A step of a program in PyTorch, its loss given to the function of this name; eagerly without one."""
    import torch

    torch.set_flush_denormal(True)
    return torch_like(torch, program, operator.attrgetter(script)(torch) if script else lambda f: f)


def systems(program: Program, compiled: bool) -> dict[str, Callable[[], Run]]:
    """Who runs a program, by name; the first two are ours. What is not installed raises when it is asked for a run."""
    import jitgrad

    jitgrad.set_flush_denormal(True)  # as XLA computes, always: for the others this is a mode of the thread
    found: dict[str, Callable[[], Run]] = {
        "jitgrad loss": lambda: torch_like(jitgrad, program, jitgrad.script),
        "jitgrad step": lambda: torch_like(jitgrad, program, jitgrad.script, whole=True),
        "jitgrad eager": lambda: torch_like(jitgrad, program, lambda f: f),
        "torch eager": lambda: torch_run(program)}
    for script in ("jit.script", *["compile"] * compiled):
        found[f"torch.{script}"] = functools.partial(torch_run, program, script)
    found["jax.jit"] = lambda: jax_run(program)
    return found


def different(a: tuple[Any, Any], b: tuple[Any, Any], tolerance: float) -> float:
    """The largest difference, relative to the largest number; 0 within the tolerance."""
    worst = 0.0
    for p, q in zip(a, b, strict=True):
        p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
        worst = max(worst, float(np.max(np.abs(p - q))) / max(1e-30, float(np.max(np.abs(q)))))
    return worst if worst > tolerance else 0.0


def measure(program: Program, rounds: int, seconds: float, compiled: bool = False,
            only: Container[str] | None = None) -> dict[str, Any]:
    """Microseconds of every system, or of those in `only`; `x`, the best peer's over ours; `lost`: who cannot, and why.

    Raises AssertionError where results differ.
    """
    runs: dict[str, Run] = {}
    first: dict[str, float] = {}
    lost: dict[str, str] = {}
    expected = None
    for name, make in systems(program, compiled).items():
        if only is not None and name not in only:
            continue
        try:
            run = make()
            started = time.perf_counter()
            got = run()
            first[name] = 1e3 * (time.perf_counter() - started)
        except Exception as failure:  # a peer that cannot is told, and the rest goes on
            lost[name] = f"{type(failure).__name__}: {(str(failure).strip().splitlines() or [''])[0]}"[:100]
            continue
        got = tuple(np.array(v.tolist()) for v in got)
        if expected is None:
            expected = got
        wrong = different(got, expected, program.tolerance)
        if wrong:
            raise AssertionError(f"{program.name}: {name} differs by {wrong:.1e} from {next(iter(runs))}")
        runs[name] = run
    turns = len(program.data)
    samples = alternate(runs, rounds, seconds, warm=max(3, 2 * turns), turns=turns)
    ours = [n for n in ("jitgrad loss", "jitgrad step") if n in runs]
    theirs = [n for n in runs if not n.startswith("jitgrad")]
    us = {n: statistics.median(v) for n, v in samples.items()}
    found: dict[str, Any] = {"us": us, "first_ms": first, "lost": lost, "x": None, "peer": None}
    if theirs and ours:
        found["peer"] = min(theirs, key=us.__getitem__)
        mine = min(ours, key=us.__getitem__)
        found["x"] = statistics.median(min(samples[n][k] for n in theirs) / samples[mine][k] for k in range(rounds))
    return found


def floor(program: Program, rates: Ceilings) -> float:
    """Microseconds that a whole step of ours takes at least."""
    import jitgrad

    step, _, arguments = torch_step(jitgrad, program, jitgrad.script, whole=True)
    step(*arguments[0])  # an optimizer makes its state
    return floors.floor([step.explain(*given) for given in arguments], rates)


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown."""
    beside = any("floor" in r for r in results.values())
    lines = ["| program | ours µs | eager µs | best peer | its µs | x | x wanted |" + " floor µs | of it |" * beside,
             "| --- | ---: | ---: | --- | ---: | ---: | ---: |" + " ---: | ---: |" * beside]
    for name, r in results.items():
        us = r["us"]
        ours = min(v for n, v in us.items() if n in ("jitgrad loss", "jitgrad step"))
        peer = f"{r['peer']} | {us[r['peer']]:.0f} | {r['x']:.2f}" if r["peer"] else "none | |"
        least = f" {r['floor']:.0f} | {ours / r['floor']:.2f} |" if "floor" in r else ""
        lines.append(f"| {name} | {ours:.0f} | {us['jitgrad eager']:.0f} | {peer} | {r['wanted']} |{least}")
    xs = [r["x"] for r in results.values() if r["x"]]
    if xs:
        lines.append(f"| **geometric mean** | | | | | **{statistics.geometric_mean(xs):.2f}** | 2.2 |")
    return "\n".join(lines)


def measure_all(only: str = "", quick: bool = False, compiled: bool = False, beside_floors: bool = False
                ) -> dict[str, dict[str, Any]]:
    """What `measure` finds of each program whose name contains `only`; says on the way what it does."""
    rates = floors.best() if beside_floors else None
    results: dict[str, dict[str, Any]] = {}
    for program in (p for p in programs() if only in p.name):
        print(f"measuring {program.name} ...", file=sys.stderr, flush=True)
        found = measure(program, 3 if quick else 9, 0.03 if quick else 0.15, compiled)
        found["wanted"] = program.wanted
        if rates is not None:
            found["floor"] = floor(program, rates)
        for name, why in found["lost"].items():
            print(f"  {name} cannot run: {why}", file=sys.stderr)
        results[program.name] = found
    return results


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, which needs a C++ compiler")
    parser.add_argument("--floors", action="store_true", help="what this machine takes at least beside each program")
    args = parser.parse_args()
    results = measure_all(args.only, args.quick, args.compile, args.floors)
    tell(results, table(results), args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
