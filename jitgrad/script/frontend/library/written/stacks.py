"""`contextlib.ExitStack` made in a script: an object of a class written in Python."""

import contextlib
from typing import Any

from jitgrad.script.frontend.state.handlers import CONSTRUCTORS
from jitgrad.script.frontend.values.instances import instance


class ExitStack:
    stands_for, parts, instead = contextlib.ExitStack, None, "write the `with` statements"

    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.left = 0  # how many of them have been left: a branch that leaves them all keeps the list as it is

    def __enter__(self) -> Any:
        return self

    def enter_context(self, manager: Any) -> Any:
        entered = manager.__enter__()
        self.entered.append(manager)
        return entered

    def callback(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.entered.append(_Callback(function, args, kwargs))
        return function

    def push(self, exit: Any) -> Any:
        self.entered.append(exit if hasattr(exit, "__exit__") else _Exit(exit))
        return exit

    def pop_all(self) -> Any:
        found = contextlib.ExitStack()
        for one in self._taken():
            found.push(one)
        return found

    def _taken(self) -> Any:
        """What has not been left, which is left now."""
        left, self.left = self.left, len(self.entered)
        return self.entered[left:]

    def close(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        raised, taken = False, False
        for one in self._taken()[::-1]:
            try:
                if one.__exit__(kind, error, traceback):
                    kind, error, raised, taken = None, None, False, True
            except BaseException as another:  # which those that were entered before are told of
                kind, error, raised = type(another), another, True
        if raised:
            raise error
        return taken


class _Callback:
    def __init__(self, function: Any, args: Any, kwargs: Any):
        self.function, self.args, self.kwargs = function, args, kwargs

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.function(*self.args, **self.kwargs)


class _Exit:
    def __init__(self, function: Any):
        self.function = function

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        return self.function(kind, error, traceback)


CONSTRUCTORS.update(dict.fromkeys((_Callback, _Exit), instance))
CONSTRUCTORS[contextlib.ExitStack] = lambda context, cls, args, kwargs: instance(context, ExitStack, args, kwargs)
