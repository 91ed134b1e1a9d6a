"""Both ways of a convolution, tiny, on the stand-in's GPU."""

from __future__ import annotations

import pytest

from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tools.devcheck import benchmarks, convolutions


@host.needs_compiler
def test_rows_have_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "SERIES", 0.0)
    monkeypatch.setattr(convolutions, "LAYERS", {"one": ((2, 3, 6, 5), (4, 3, 3, 3), 1)})
    products = []
    with gpu() as device:
        timed = convolutions.timed

        def counted(*arguments):
            device.products.clear()
            found = timed(*arguments)
            products.append(len(device.products))
            return found

        monkeypatch.setattr(convolutions, "timed", counted)
        rows = convolutions.both_ways()["rows"]
    assert len(rows) == len(convolutions.MADE)
    assert all(mine == 0 < theirs for mine, theirs in zip(products[::2], products[1::2], strict=True))
    for row in rows:
        assert row["error"] < 1e-2
        assert min(row["us"], row["peers"]["columns"]) > 0
