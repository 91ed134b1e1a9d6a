"""Who imports whom: the arrows between the files of `jitgrad/`, inside functions, under TYPE_CHECKING or by name.

    python -m tests.layers          # the circles, and the arrows that point upwards
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jitgrad"

#: `jitgrad/__init__.py`: it looks names up when they are asked for, so that anybody may ask
NAMESPACE = ""

#: From the ground up: a file may import files of its own storey and of those above it in this list (those are lower).
#: An entry names files by the start of their module's name; the longest one that fits counts. Modules, optimizers and
#: kin are eager programs: they import nothing of the compiler, which reads them. What no entry names is on top.
STOREYS = (
    ("classes", "config", "errors", "determinism", "dtypes", "dims", "device", "locks", "paths", "random",
     NAMESPACE),
    ("ops",),
    ("eager",),
    ("script.graph",),
    ("amp", "autograd", "cuda", "func", "multiprocessing", "nn", "optim", "profiler", "serialization", "sparse",
     "utils"),
    ("script.passes.dce",),  # a backward of some outputs is rid of dead code before it is known what it asks for
    ("script.autodiff",),
    ("script.passes",),
    ("kernels",),
    ("codegen.program",),
    ("codegen.lower",),
    ("codegen.llvm",),
    ("codegen.run",),
    ("codegen.cuda", "cuda.elementwise", "cuda.products"),
    ("script.call",),
    ("script.frontend.source",),
    ("script.frontend.state",),
    ("script.frontend.batches", "script.frontend.values", "script.frontend.templates", "script.frontend.containers"),
    ("script.frontend.evaluate",),
    ("script.frontend.gradients",),
    ("script.frontend.boundary",),
    ("script.frontend.library",),
    ("script.frontend.build",),
    ("script.stored",),
    ("script.executor",),
    ("script.stored.file",),  # files hold what was executed, the cache what will be
    ("onnx",),  # what compiled programs show, `inspect/face.py`, has all exports
    ("script.inspect",),
    ("script.api", "script.loaded"),
)


def module_of(path: Path) -> str:
    """`script.graph.ir` of `jitgrad/script/graph/ir.py`; a package is named as its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def files() -> dict[str, Path]:
    return {module_of(p): p for p in sorted(PACKAGE.rglob("*.py"))}


def by_name(node: ast.Call) -> list[str]:
    """What `import_module("jitgrad...")` or `__import__` may import: all that begins as written."""
    function, name = node.func, node.args[0] if node.args else None
    if getattr(function, "attr", getattr(function, "id", "")) not in ("import_module", "__import__"):
        return []
    while isinstance(name, ast.BinOp):  # "jitgrad." + name
        name = name.left
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return []  # the user's modules
    if name is node.args[0]:
        return [name.value]
    return [f"jitgrad.{own}" for own in files() if f"jitgrad.{own}".startswith(name.value)]


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those inside others included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, ()))


@functools.cache
def names(path: Path) -> list[tuple[str, int]]:
    """What a file imports, wherever that stands, by its full name, and on which line."""
    text = path.read_text()
    tree, found = ast.parse(text), []
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = ".".join(path.relative_to(ROOT).parts[:-node.level]) if node.level else ""
            start = ".".join(filter(None, (folder, node.module)))
            found += [(f"{start}.{alias.name}", node.lineno) for alias in node.names]
    if "import_module" in text or "__import__" in text:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [(name, call.lineno) for call in calls for name in by_name(call)]
    return found


def imported(path: Path) -> dict[str, int]:
    """The modules of ours that a file imports from, and on which line."""
    found: dict[str, int] = {}
    for name, line in names(path):
        root, _, own = name.partition(".")
        if root == "jitgrad":
            while own not in files():
                own = own.rpartition(".")[0]
            found.setdefault(own, line)
    found.pop(module_of(path), None)
    return found


@functools.cache
def arrows() -> dict[str, dict[str, int]]:
    """Per file. `jitgrad/__init__.py` names everything for type checkers; counted is what it imports."""
    found = {name: imported(path) for name, path in files().items()}
    found[NAMESPACE] = {"device": found[NAMESPACE]["device"]}
    return found


def circles() -> list[list[str]]:
    """The strongly connected parts of more than one file (Tarjan 1972, without recursion), the largest first."""
    graph, found = arrows(), []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    open_: set[str] = set()
    for root in graph:
        if root in number:
            continue
        work = [(root, iter(graph[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        open_.add(root)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    open_.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in open_:
                    low[name] = min(low[name], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    part = stack[stack.index(name):]
                    del stack[stack.index(name):]
                    open_ -= set(part)
                    if len(part) > 1:
                        found.append(sorted(part))
    return sorted(found, key=lambda part: (-len(part), part))


def storey(module: str) -> int:
    fits = [(len(start), k) for k, starts in enumerate(STOREYS) for start in starts
            if module == start or (start and module.startswith(start + "."))]
    return max(fits)[1] if fits else len(STOREYS)


def upwards() -> list[str]:
    """The arrows from a lower storey to a higher one."""
    return [f"{name} (line {line}) imports {other}" for name, others in arrows().items()
            for other, line in others.items() if storey(other) > storey(name)]


if __name__ == "__main__":
    for circle in circles():
        print(len(circle), "files in a circle:", *(f"{n} -> {', '.join(m for m in arrows()[n] if m in circle)}"
                                                   for n in circle), sep="\n    ")
    print(*upwards(), sep="\n")
