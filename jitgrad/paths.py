"""torch's modules that have no file of their own here, as programs and pickles name them: `nn.modules.batchnorm`.

A package says which of torch's modules it stands for. What a program asks of one of them is looked up in the package,
and, as for classes that are no public names (`batchnorm._BatchNorm`), in the files of the package that were imported.
"""

import sys
from types import ModuleType
from typing import Any


class _Elsewhere(ModuleType):
    """A module whose names are those of a package."""

    def __init__(self, name: str, package: str, namespace: dict[str, Any]):
        super().__init__(name, f"What torch has in `{name.partition('.')[2]}`; here in the files of `{package}`.")
        self._package, self._namespace = package, namespace

    def __getattr__(self, name: str) -> Any:
        return _found(self.__name__, self._package, self._namespace, name)


def _found(module: str, package: str, namespace: dict[str, Any], name: str) -> Any:
    if not name.startswith("__"):
        files = [vars(m) for key, m in list(sys.modules.items()) if key.startswith(package + ".") and not isinstance(
            m, _Elsewhere)]
        for names in (namespace, *files):
            if name in names:
                return names[name]
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


def stands_for(package: str, namespace: dict[str, Any], names: str) -> None:
    """Let a package, of a name and with these globals, stand for modules of torch that have other files here.

    Args:
        names: of torch's modules in that package, with blanks between. One that is a file here as well gets the names
            that torch has in it and this library elsewhere in the package.
    """
    for name in names.split():
        path = f"{package}.{name}"
        module = sys.modules.get(path)
        if module is None:
            module = sys.modules[path] = _Elsewhere(path, package, namespace)
            vars(sys.modules[package]).setdefault(name, module)  # a function may have the name
        elif not isinstance(module, _Elsewhere):
            vars(module).setdefault("__getattr__", lambda asked, path=path: _found(path, package, namespace, asked))
