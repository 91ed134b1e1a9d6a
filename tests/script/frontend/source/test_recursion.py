"""The loop that stands for functions which call one another does what they do, as Python runs it."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from jitgrad.script.frontend.source.recursion import NotALoop, as_loop
from jitgrad.script.frontend.source.source import source_of


def looped(*functions: Callable[..., Any]) -> Callable[..., Any]:
    """The loop, as a Python function."""
    source = as_loop([source_of(f) for f in functions])
    module = ast.Module([ast.FunctionDef(source.node.name, source.node.args, source.node.body, [])], [])
    scope = dict(globals())
    exec(compile(ast.fix_missing_locations(module), "<loop>", "exec"), scope)
    made: Callable[..., Any] = scope[source.node.name]
    return made


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def hanoi(n: int, a: str, b: str, c: str, moves: list[Any]) -> int:
    if n == 0:
        return 0
    before = hanoi(n - 1, a, c, b, moves)
    moves.append((n, a, c))
    return before + 1 + hanoi(n - 1, b, a, c, moves)


def permutations(chosen: tuple[int, ...], left: tuple[int, ...], out: list[Any], *, most: int = 100) -> None:
    if not left:
        out.append(chosen)
    for k in range(len(left)):
        if len(out) >= most:
            break
        permutations((*chosen, left[k]), left[:k] + left[k + 1:], out, most=most)


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def depth(tree: Any) -> int:
    deepest = 0
    for part in tree:
        deepest = max(deepest, depth(part))
    return deepest + 1


def in_order(n: int, log: list[str]) -> int:
    log.append(f"in {n}")
    value = len(log) + (in_order(n - 1, log) if n > 0 else 0) + len(log)
    log.append(f"out {n} {value}")
    return value


@pytest.mark.parametrize("n", range(8))
def test_results(n: int) -> None:
    assert looped(fibonacci)(n) == fibonacci(n)
    assert looped(even, odd)(n) == even(n)
    assert looped(odd, even)(n) == odd(n)


def test_changed_arguments() -> None:
    for function, args in ((hanoi, (4, "a", "b", "c")), (in_order, (3,))):
        mine: list[Any] = []
        theirs: list[Any] = []
        assert looped(function)(*args, mine) == function(*args, theirs)
        assert mine == theirs


def test_loops_with_calls() -> None:
    tree = [[], [[], [[[]], []]], []]
    assert looped(depth)(tree) == depth(tree)
    for most in (100, 4):
        mine: list[Any] = []
        theirs: list[Any] = []
        looped(permutations)((), (1, 2, 3), mine, most=most)
        permutations((), (1, 2, 3), theirs, most=most)
        assert mine == theirs


def in_a_comprehension(n: int) -> list[Any]:
    return [in_a_comprehension(k) for k in range(n)]


def in_comprehensions(n: Any, log: list[str]) -> Any:
    log.append(f"in {n}")
    k = n * 2
    if n < 1:
        return n
    found = [k, [in_comprehensions(n - k - 1, log) for k in range(n) if k % 2 == 0 for m in [k, str(in_comprehensions(
        k, log))] if m != 1], [(k, in_comprehensions(n - 2, log)) for n in [n, n - 1]], k, n]
    log.append(f"out {n}")
    return found


@pytest.mark.parametrize("n", range(5))
def test_comprehensions(n: int) -> None:
    assert looped(in_a_comprehension)(n) == in_a_comprehension(n)
    mine: list[Any] = []
    theirs: list[Any] = []
    assert looped(in_comprehensions)(n, mine) == in_comprehensions(n, theirs)
    assert mine == theirs


def test_python_s_limit() -> None:
    def endless(n: int) -> int:
        return endless(n + 1)

    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        looped(endless)(0)


def in_a_generator(n: int) -> int:
    return sum(in_a_generator(k) for k in range(n))


def in_a_try(n: int) -> int:
    try:
        return in_a_try(n - 1)
    except ValueError:
        return n


def seen_by_a_closure(n: int) -> int:
    later = lambda: n  # noqa: E731
    return seen_by_a_closure(n - 1) + later() if n else 0


def with_any_arguments(*n: int) -> int:
    return with_any_arguments(*n[1:]) if n else 0


@pytest.mark.parametrize("function", [in_a_generator, in_a_try, seen_by_a_closure, with_any_arguments])
def test_what_is_no_jump(function: Callable[..., Any]) -> None:
    with pytest.raises(NotALoop):
        looped(function)


def test_places_are_those_of_the_functions() -> None:
    source = as_loop([source_of(even), source_of(odd)])
    lines = {n.lineno + source.first for s in source.node.body for n in ast.walk(s) if isinstance(n, ast.BinOp)}
    first = inspect.getsourcelines(even)[1]
    assert lines == {first + 1, first + 5}
    assert textwrap.dedent(inspect.getsource(odd)).splitlines()[1].strip().endswith("even(n - 1)")
