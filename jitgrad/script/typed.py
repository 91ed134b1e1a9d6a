"""What type checkers are told of `script`: a function keeps its parameters and its result, a module its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from jitgrad.nn.module import Module
from jitgrad.script.inspect.face import ScriptFunction

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Module)

if TYPE_CHECKING:
    class Scripted(ScriptFunction, Generic[P, R]):
        """A `ScriptFunction` that is called as the function it was made of."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class Decorator:
        """`script(check=True)`, which scripts what it is given."""

        @overload
        def __call__(self, obj: M) -> M: ...
        @overload
        def __call__(self, obj: Callable[P, R]) -> Scripted[P, R]: ...
        def __call__(self, obj: Any) -> Any: ...

    @overload
    def script(obj: M, *, check: bool = ..., remat: Any = ...) -> M: ...
    @overload
    def script(obj: Callable[P, R], *, check: bool = ..., remat: Any = ...) -> Scripted[P, R]: ...
    @overload
    def script(obj: None = None, *, check: bool = ..., remat: Any = ...) -> Decorator: ...
    def script(obj: Any = None, *, check: bool = False, remat: Any = None) -> Any: ...
