"""`python -m jitgrad`: what is installed and how fast it starts, the disk cache, programs run and explained."""

import argparse
import importlib.abc
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def info(_: argparse.Namespace) -> int:
    """Versions, machine, BLAS, CUDA, cache and the measured cost of a cold compile."""
    import jitgrad
    from jitgrad import config, dtypes
    from jitgrad.codegen.cuda.driver import toolkit
    from jitgrad.codegen.llvm import engine
    from jitgrad.codegen.run import runtime
    from jitgrad.kernels import blas

    rows: list[tuple[str, str]] = [
        ("jitgrad", jitgrad.__version__), ("python", platform.python_version()), ("numpy", _version("numpy")),
        ("llvmlite", _version("llvmlite")), ("astunparse", _version("astunparse")),
    ]
    started = time.perf_counter()
    host = engine.host()
    llvm_ms = 1e3 * (time.perf_counter() - started)
    started = time.perf_counter()
    runtime.symbols()
    runtime_ms = 1e3 * (time.perf_counter() - started)
    gemm = blas.gemm_symbol(dtypes.float32)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    rows += [("cpu", f"{host.cpu}, {host.lanes} float32 lanes"), ("cores", str(cores)),
             ("blas", f"{gemm.name} ({gemm.kind})"), *toolkit.rows()]
    rows += [("disk cache", _cache_line()),
             ("llvm loads in", f"{llvm_ms:.0f} ms"),
             ("runtime ready in", f"{runtime_ms:.0f} ms (built once per machine and version, then read from disk)")]
    rows.append(("cold compile", f"{_compile_ms():.0f} ms for a layer with loss, forward and backward"))
    rows += [(f"knob {name}", value) for name, value in sorted(os.environ.items()) if name.startswith("JITGRAD_")]
    width = max(len(label) for label, _ in rows)
    print("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    if config.jit is False:
        print("\nJITGRAD_JIT=0: decorated functions run as plain Python")
    return 0


def _compile_ms() -> float:
    """Cold compile of a small net's forward and backward, the disk cache left out."""
    import jitgrad
    from jitgrad import config

    def loss(x, w, b, y):  # type: ignore[no-untyped-def]
        return ((x @ w + b).tanh() - y).pow(2).mean()

    with config.override(cache=""):
        scripted = jitgrad.script(loss)
        scripted(jitgrad.ones(4, 8), jitgrad.ones(8, 3, requires_grad=True), jitgrad.ones(3, requires_grad=True),
                 jitgrad.ones(4, 3)).backward()
    return float(scripted.compile_ms)


def cache(args: argparse.Namespace) -> int:
    """Show or clear the disk cache."""
    from jitgrad.codegen.run import runtime, store, tiled

    disk = store.current()
    if disk is not None and args.clear:
        removed = disk.clear(keep={runtime.key(), *tiled.keys()} if args.keep_runtime else set())
        print(f"removed {removed} entries")
        return 0
    print(_cache_line())
    if disk is not None:
        print("clear it with: python -m jitgrad cache --clear")
    return 0


def _cache_line() -> str:
    from jitgrad.codegen.run import store

    disk = store.current()
    if disk is None:
        return "off (JITGRAD_CACHE=off, or a folder that others may write to)"
    held = disk.stats()
    return f"{held.directory}: {held.entries} entries, {held.bytes / 1e6:.1f} MB of at most {held.limit / 1e6:.0f} MB"


class AsTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `jitgrad.x` where a program imports `torch.x`: the very same module."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        root, _, rest = name.partition(".")
        if root != "torch" or importlib.util.find_spec("jitgrad." + rest if rest else "jitgrad") is None:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module("jitgrad" + spec.name[len("torch"):])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # it stays the module that it was


def check(program: str) -> int:
    """Tell which names of torch a program uses that jitgrad lacks; 1 where there are any."""
    from pathlib import Path

    from jitgrad.utils._missing import missing

    found = missing(Path(program))
    for name in found:
        print(name)
    distinct = len({m.name for m in found})
    print(f"jitgrad lacks {distinct} of the names of torch that {program} uses" if found else
          f"jitgrad has every name of torch that {program} uses")
    return 1 if found else 0


def run(args: argparse.Namespace) -> int:
    """Run a Python program with `torch` meaning jitgrad."""
    import runpy

    if args.check:
        return check(args.program)
    if args.as_torch:
        sys.meta_path.insert(0, AsTorch())
    sys.argv = [args.program, *args.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(args.program))  # as `python prog.py` has it
    reports: list[str] = []
    if args.explain:
        from jitgrad.script import executor
        from jitgrad.script.inspect.explain import explain

        def observe(function: Any, params: Any) -> None:
            try:
                reports.append(str(explain(function, params)))
            except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
                reports.append(f"{function.__qualname__}\n  not measured: {type(error).__name__}: {error}")

        executor.observers.append(observe)
    try:
        runpy.run_path(args.program, run_name="__main__")
    finally:
        print("\n\n".join(reports), end="\n" if reports else "")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Entry point of the `jitgrad` command."""
    parser = argparse.ArgumentParser(prog="jitgrad", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    about_run = ("run a program; with --as-torch its `import torch` finds jitgrad, "
                 "with --explain it tells what scripts cost")
    add("info", info, "versions, machine, BLAS, CUDA, disk cache, and how long a compile takes here")
    cache_command = add("cache", cache, "show or clear the disk cache of compiled programs")
    cache_command.add_argument("--clear", action="store_true", help="remove every entry")
    cache_command.add_argument("--keep-runtime", action="store_true", help="with --clear: keep the run-time library")
    run_command = add("run", run, about_run)
    run_command.add_argument("--as-torch", action="store_true", help="let `import torch` mean jitgrad")
    run_command.add_argument("--check", action="store_true", help="run nothing: list the names of torch, with "
                             "their lines, that the program and its imports use and jitgrad lacks")
    run_command.add_argument("--explain", action="store_true", help="afterwards print, for every scripted function and "
                             "each signature that it was compiled for, what each source line costs, why ops were not "
                             "fused, guards and decisions (each is measured at the call that compiled it)")
    run_command.add_argument("program", help="a Python file")
    run_command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    args = parser.parse_args(argv)
    status: int = args.function(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
