"""What the objects of a saved program are where it is loaded; `LoadedModule` is what `jitgrad.jit.load` returns."""

import io
from typing import Any

from jitgrad.nn import Module
from jitgrad.script.executor import Scripted, Shown


class SavedObject:
    """An object of the saved program that a file cannot hold: a function, a class, an instance of a user's class.

    It has the attributes that the program reads, and cannot be called.
    """

    def __init__(self, title: str):
        self.__dict__["_saved_title"] = title

    def __repr__(self) -> str:
        return f"<saved: {self._saved_title}>"  # type: ignore[attr-defined]


class OwnDefault:
    """A parameter's default that a file cannot hold; the program was compiled for it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class LoadedPart(Module):
    """A submodule of a loaded program: its state, without its code."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: the code of a submodule was compiled into the whole."""
        raise TypeError(f"`{self._get_name()}` is a part of a loaded program and has no code of its own: call the "
                        "loaded module")

    def _get_name(self) -> str:
        return str(self.__dict__.get("_saved_name", "LoadedPart"))


class LoadedModule(LoadedPart):
    """A saved module or function: call it as what was saved; its state can be read, trained, loaded and saved again.

    Attributes:
        graph, code: the graph of the program that ran last, or of the first; that graph as Python.
        graph_for, cache_info, save, export_onnx: as of a `ScriptFunction`.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call: hooks were compiled into the programs."""
        return self._function()(self, *args, **kwargs)

    __call__ = forward

    def _function(self) -> Any:
        """The `LoadedFunction` that runs it."""
        return self.__dict__["_loaded_function"]

    def _bound(self) -> Any:
        """The function as a method of this module."""
        return self._function().__get__(self)

    def _scripted(self) -> Scripted:
        return Scripted(self._function(), self, self._get_name())

    save, export_onnx, graph, graph_for = Shown(), Shown(), Shown(), Shown()
    code, cache_info = Shown(), Shown()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        buffer = io.BytesIO()
        self.save(buffer)
        return self._function().from_bytes, (buffer.getvalue(),)
