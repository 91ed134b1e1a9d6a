"""Generators of random numbers in scripts: given, captured, made there; their streams go on as they do eagerly."""

import functools
from typing import Any

import pytest

import jitgrad as torch

SHARED = torch.Generator()
HIDDEN = functools.partial(torch.rand, generator=torch.Generator())


def drawn(x: Any, n: int, g: Any) -> Any:
    return torch.rand(2, generator=g) + torch.randn(3, generator=SHARED).sum() + torch.rand(1)


def seeded_by_the_run(x: Any, n: int, g: Any) -> Any:
    SHARED.manual_seed(n)
    g.manual_seed(n - 7)
    return torch.rand(2, generator=SHARED) + torch.rand(2, generator=g) + torch.rand(1, generator=SHARED)


def made(x: Any, n: int, g: Any) -> Any:
    own = torch.Generator()
    own.manual_seed(n + 3)
    return torch.rand(2, generator=own) + torch.rand(2, generator=own), own.initial_seed()


def in_a_loop(x: Any, n: int, g: Any) -> Any:
    own = torch.Generator().manual_seed(7)
    for _ in range(n):
        x = x + torch.rand(2, generator=own) * torch.rand(2, generator=g)
    return x


def in_a_branch(x: Any, n: int, g: Any) -> Any:
    y = torch.rand(2, generator=g) if n > 1 else x
    return y + torch.rand(2, generator=g)


def several(x: Any, n: int, g: Any) -> Any:
    own = [torch.Generator().manual_seed(k) for k in range(3)]
    return torch.stack([torch.rand(2, generator=one) for one in own]).sum(0) + torch.rand(2, generator=own[0])


def functions(x: Any, n: int, g: Any) -> Any:
    return (torch.randperm(5, generator=g), torch.randint(0, 9, (5,), generator=g),
            torch.multinomial(torch.ones(4), 2, generator=g), torch.empty(3).uniform_(0, 1, generator=g),
            torch.empty(3).normal_(generator=g), torch.bernoulli(torch.full((4,), 0.5), generator=g))


def that_raises(x: Any, n: int, g: Any) -> Any:
    for k in range(n):
        if k == 2:
            raise ValueError("enough")
        x = x + torch.rand(2, generator=g)
    return x


def calls(function: Any) -> list[Any]:
    """What four calls give, and where the streams are after each."""
    g = torch.Generator().manual_seed(1)
    SHARED.manual_seed(2)
    torch.manual_seed(5)
    found: list[Any] = []
    for n in (0, 1, 3, 2):
        try:
            found += _leaves(function(torch.ones(2), n, g))
        except ValueError as error:
            found.append(str(error))
        found.append((g.offset, g.key, SHARED.offset, SHARED.key, torch.rand(1).item()))
    return found


def _leaves(value: Any) -> list[Any]:
    values = value if isinstance(value, tuple) else (value,)
    return [pytest.approx(v.tolist(), abs=1e-5) if isinstance(v, torch.Tensor) else v for v in values]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("function", [drawn, seeded_by_the_run, made, in_a_loop, in_a_branch, several, functions,
                                      that_raises])
def test_streams_are_eagers(function: Any, interpret: bool) -> None:
    script = torch.script(function)
    with torch.config.override(interpret=interpret):
        found = [v.expected if hasattr(v, "expected") else v for v in calls(script)]
    assert found == calls(function)
    assert script.cache_info().compilations == 1


def test_what_scripts_do_not_do_with_generators() -> None:
    def result(x: Any) -> Any:
        return torch.Generator()

    def state(x: Any) -> Any:
        return SHARED.get_state()

    def unreachable(x: Any) -> Any:
        return x + HIDDEN(2)

    for function, reason in ((result, "a generator that the script made as its result"),
                             (state, "Generator.get_state"),
                             (unreachable, "a generator that the script cannot reach again")):
        with pytest.raises(torch.errors.UnsupportedCall, match=reason):
            torch.script(function)(torch.ones(2))


@pytest.mark.parametrize("interpret", [False, True])
def test_initial_seeds_are_exact_or_raise(interpret: bool) -> None:
    """Eagerly a negative seed is that plus 2 ** 64, which a script's ints do not hold."""
    def seeds(n: int, g: Any) -> Any:
        torch.manual_seed(n + 1)
        return torch.initial_seed(), g.initial_seed(), torch.Generator().manual_seed(n).initial_seed()

    script = torch.script(seeds)
    with torch.config.override(interpret=interpret):
        assert script(5, torch.Generator().manual_seed(7)) == seeds(5, torch.Generator().manual_seed(7)) == (6, 7, 5)
        for n, seed in ((5, -7), (-3, 7), (-1, 7)):
            with pytest.raises(OverflowError, match="too large"):
                script(n, torch.Generator().manual_seed(seed))
