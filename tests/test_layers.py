"""The house: storeys without circles, folders that can be read at a glance, modules of one idea."""

from __future__ import annotations

import ast
from collections import Counter

from tests.layers import PACKAGE, arrows, circles, files, upwards

#: how long a module may be, and the tables, which may be longer
LONGEST, TABLES = 450, {"onnx.table"}


def test_no_circles() -> None:
    assert circles() == []


def test_imports_point_downwards() -> None:
    assert upwards() == []


def test_a_folder_holds_at_most_15_files() -> None:
    sizes = Counter(path.parent for path in files().values() if path.name != "__init__.py")
    assert {str(folder.relative_to(PACKAGE)): n for folder, n in sizes.items() if n > 15} == {}


def test_modules_are_of_one_idea() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in files().items() if name not in TABLES}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_circles_are_found_where_they_are() -> None:
    assert "config" not in {name for circle in circles() for name in circle}
    assert "config" in arrows()["codegen.run.compile"]
    assert "script.graph.ir" in arrows()["codegen.run.compile"]


def test_cupy_and_llvmlite_stay_in_their_files() -> None:
    for name, path in files().items():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            for root in (n.split(".")[0] for n in names):
                assert root != "llvmlite" or name == "codegen.llvm.engine", name
                assert root != "cupy" or name == "device", name
