"""The house has storeys: a module imports only from its own and from those below."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jitgrad"

GROUND = ("config", "errors", "determinism", "dtypes", "dims", "device", "random")

#: storey -> what it may import, besides itself and the ground floor. Imports inside functions count too, except for
#: the few seams of `LATE`, where a lower storey hands over at run time.
ALLOWED = {
    "ground": (),
    "ops": (),
    "eager": ("ops",),
    "script.graph": ("ops",),
    "script.callback": ("ops", "eager", "script.graph"),
    "script.passes": ("ops", "script.graph"),
    "script.frontend": ("ops", "script.graph", "script.callback", "eager", "public"),
    "kernels": ("ops", "codegen"),
    "codegen": ("ops", "script.graph", "kernels"),
    "script.top": ("ops", "eager", "script.graph", "script.callback", "script.passes", "script.frontend", "codegen",
                   "kernels", "public"),
    "public": ("ops", "eager", "script.top", "script.graph", "codegen", "kernels"),
}

TOP = ("api", "arrayguards", "callnode", "check", "diskcache", "elsewhere", "entry", "executor", "explain",
       "gradfunction", "locate", "mismatch", "persist", "pushforward", "pycode", "pyeffects", "pyexpr", "pyhelpers",
       "pynames", "results", "saved", "sources", "specialisation", "state", "stores", "tracebacks")


def storey(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts:
        return "public"
    if parts[0] in GROUND:
        return "ground"
    if parts[0] in ("ops", "eager", "codegen", "kernels"):
        return parts[0]
    if parts[0] == "onnx":
        return "script.top"
    if parts[0] == "script":
        if len(parts) > 1 and parts[1] in ("frontend", "passes"):
            return f"script.{parts[1]}"
        if parts[1:] == ["callback"]:
            return "script.callback"
        return "script.top" if len(parts) > 1 and parts[1] in TOP else "script.graph"
    return "public"


def _executed(tree: ast.AST) -> list[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`: types may point upwards."""
    found, stack = [], [tree]
    while stack:
        node = stack.pop()
        found.append(node)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            stack.extend(node.orelse)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return found


def imports(path: Path, name: str) -> set[str]:
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / (full.replace(".", "/") + ".py")).exists() or (
                    PACKAGE.parent / full.replace(".", "/")).is_dir()
                found.add(full if is_module else node.module)
    return {f for f in found if f == "jitgrad" or f.startswith("jitgrad.")}


def modules() -> list[tuple[str, Path]]:
    result = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE.parent).with_suffix("")
        parts = list(relative.parts)
        if parts[-1] == "__init__":
            parts.pop()
        result.append((".".join(parts), path))
    return result


def test_imports_point_downwards() -> None:
    wrong = []
    for name, path in modules():
        own = storey(name)
        for imported in imports(path, name):
            target = storey(imported)
            if target not in (own, "ground", *ALLOWED[own]):
                wrong.append(f"{name} ({own}) imports {imported} ({target})")
    assert not wrong, "\n".join(wrong)


def test_cupy_and_llvmlite_stay_in_their_files() -> None:
    for name, path in modules():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            for imported in names:
                root = imported.split(".")[0]
                assert root != "llvmlite" or name == "jitgrad.codegen.llvm.engine", name
                assert root != "cupy" or name == "jitgrad.device", name
