"""The house: storeys without circles, folders that can be read at a glance, modules of one idea."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.layers import PACKAGE, arrows, circles, files, names, upwards

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
    found = {(name.partition(".")[0], module) for module, path in files().items() for name, _ in names(path)}
    assert {module for root, module in found if root == "llvmlite"} == {"codegen.llvm.engine"}
    assert {module for root, module in found if root == "cupy"} == {"device", "codegen.cuda.driver.libraries"}


def test_imports_by_name_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import_module('jitgrad.ops')\ndef f(n):\n  __import__('jitgrad.nn')\n"
                    "  importlib.import_module(f'jitgrad.optim.ad{n}')\n  import_module('jitgrad.optim.s' + n)\n"
                    "  import_module(n)\n")
    assert {(name.removeprefix("jitgrad."), line) for name, line in names(file)} == {
        ("ops", 1), ("nn", 3), ("optim.adam", 4), ("optim.adam_kin", 4), ("optim.adaptive", 4), ("optim.sgd", 5),
        ("optim.swa_utils", 5)}
