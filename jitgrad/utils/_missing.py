"""Which names of PyTorch a program uses that there are not here: found in its text, without running it.

Followed are names that imports bind (`import torch.nn as nn`, `from torch import optim`) through attributes
(`nn.init.foo_`, `getattr(torch, "foo")`), in the program and in what it imports: files beside it, and packages that
import torch themselves. Of the methods of objects, whose types the text does not say, those are told that only a tensor
of PyTorch's has. What stands in a `try` that catches the error is not asked for.
"""

from __future__ import annotations

import ast
import importlib
import sys
import tokenize
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jitgrad
from jitgrad.ops.library.calls.forms import table

ROOTS = ("torch", "jitgrad")
#: classes whose methods are there: a call of `values` may be a dict's
KNOWN = (jitgrad.Tensor, dict, list, str, set, bytes)
#: errors that a program expects where it tries a name that not every version has
CAUGHT = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}


class Missing(NamedTuple):
    """A name, and where it is used."""

    file: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"


def missing(program: Path) -> list[Missing]:
    """What a program and its imports use that is missing, by file and line."""
    found: list[Missing] = []
    paths = [str(program.resolve().parent), *sys.path[1:]]
    todo, seen = [program], {program.resolve()}
    while todo:
        path = todo.pop()
        names = _Names(path)
        found += sorted(set(names.found))
        for imported in sorted(names.imported):
            for file in _files(imported, paths):
                if file.resolve() not in seen:
                    seen.add(file.resolve())
                    todo += [file] if file.parent == program.parent or _is_about_torch(file) else []
    return found


def _read(path: Path) -> str:
    with tokenize.open(path) as file:
        return file.read()


def _is_about_torch(path: Path) -> bool:
    try:
        return "import torch" in (text := _read(path)) or "from torch" in text
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False


def _files(name: str, paths: Sequence[str]) -> Iterator[Path]:
    """The files of a dotted module and of the packages above it, unless Python brings them. Nothing is imported."""
    places: Sequence[str] | None = paths
    full = ""
    for part in name.split("."):
        full = f"{full}.{part}" if full else part
        if full in (*ROOTS, *sys.stdlib_module_names) or places is None:
            return
        spec = PathFinder.find_spec(part if places is paths else full, places)
        if spec is None:
            return
        if spec.origin and spec.origin.endswith(".py"):
            yield Path(spec.origin)
        places = spec.submodule_search_locations


def resolve(name: str) -> tuple[Any, str | None]:
    """What a dotted name of torch's is here, and None; or, where there is not, the part of it that is missing."""
    parts = name.split(".")[1:]
    found: Any = jitgrad
    for number, part in enumerate(parts):
        if not isinstance(found, (ModuleType, type)):
            return found, None  # attributes of objects are theirs
        try:
            found = getattr(found, part)
        except AttributeError:
            if not isinstance(found, ModuleType):
                return None, ".".join(["torch", *parts[:number + 1]])
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return None, ".".join(["torch", *parts[:number + 1]])
    return found, None


class _Names(ast.NodeVisitor):
    """What one file names."""

    def __init__(self, path: Path):
        self.path = path
        self.found: list[Missing] = []
        self.imported: set[str] = set()  # other modules
        self._bound: dict[str, str] = {}  # what a name of the file means in torch
        self._local: list[set[str]] = []  # names that are something else in a function
        self._modules: set[str] = set()  # what imports of other modules bind
        self._methods = {name for name in table()["Tensor"] if not any(hasattr(c, name) for c in KNOWN)}
        tree = ast.parse(_read(path), str(path))
        self._methods -= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._bind(node)
        self.visit(tree)

    def _bind(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in ROOTS:
                    self._bound[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0])
                else:
                    self.imported.add(alias.name)
                    self._modules.add(alias.asname or alias.name.partition(".")[0])
        elif node.level == 0 and node.module and node.module.partition(".")[0] in ROOTS:
            self._bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif node.module:
            self._modules |= {alias.asname or alias.name for alias in node.names}
            self.imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        else:
            self.imported |= {alias.name for alias in node.names}

    def _ask(self, node: ast.stmt | ast.expr, name: str) -> None:
        absent = resolve(name)[1]
        if absent is not None:
            self.found.append(Missing(self.path, node.lineno, absent))

    def _dotted(self, node: ast.expr) -> str | None:
        """The name of torch's that an expression is."""
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if isinstance(node, ast.Name) and not any(node.id in names for names in self._local):
            return self._bound.get(node.id)
        return None

    def _is_of_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._modules | self._bound.keys()

    # --- the nodes of the text --------------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] in ROOTS:
                self._ask(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and node.module and node.module.partition(".")[0] in ROOTS:
            for alias in node.names:
                self._ask(node, node.module if alias.name == "*" else f"{node.module}.{alias.name}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._dotted(node)
        if name is not None:
            self._ask(node, name)
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr in self._methods and not self._is_of_module(method):
            self.found.append(Missing(self.path, node.lineno, f"Tensor.{method.attr}"))
        if isinstance(method, ast.Name) and method.id == "getattr" and len(node.args) == 2:
            base, name = self._dotted(node.args[0]), node.args[1]
            if base is not None and isinstance(name, ast.Constant) and isinstance(name.value, str):
                self._ask(node, f"{base}.{name.value}")
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        kinds = {getattr(kind, "id", None) for handler in node.handlers for kind in (
            handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type])}
        kept = len(self.found)
        for statement in node.body:
            self.visit(statement)
        if kinds & CAUGHT or any(handler.type is None for handler in node.handlers):
            del self.found[kept:]
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        """`if hasattr(torch, "foo")` asks for nothing in its body."""
        kept = len(self.found)
        self.visit(node.test)
        for statement in node.body:
            self.visit(statement)
        if any(isinstance(n, ast.Name) and n.id == "hasattr" for n in ast.walk(node.test)):
            del self.found[kept:]
        for statement in node.orelse:
            self.visit(statement)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        inner = list(ast.walk(node))
        imported = {alias.asname or alias.name.partition(".")[0] for n in inner
                    if isinstance(n, (ast.Import, ast.ImportFrom)) for alias in n.names}
        own = {n.arg for n in inner if isinstance(n, ast.arg)}
        own |= {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._local.append(own - imported)
        self.generic_visit(node)
        self._local.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function
