"""Leaves out of a run what is sampled, and says so at its end, see `tests.tiers`."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests import tiers


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(kind): runs again what another test runs, see tests/tiers.py")
    given = getattr(config, "workerinput", None)  # of a worker of xdist, whose command line is another
    tiers.everything = tiers.asks_for_everything(config) if given is None else given["everything"]
    tiers.left_out.counts.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["everything"] = tiers.everything


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = tiers.select(items)
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is collected stays: no later collection of garbage looks at it again, of which tests ask for many."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = tiers.left_out.counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for kind, counts in getattr(node, "workeroutput", {}).get("left_out", {}).items():
        tiers.left_out.note(kind, *counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in tiers.left_out.lines():
        terminalreporter.write_line(line)
