"""uint16, uint32 and uint64: to hold data in, as in torch."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.errors import ScriptError
from jitgrad.ops import OPS
from jitgrad.ops.opdef import COMPUTING

TYPES = pytest.mark.parametrize("name", [d.name for d in dtypes.BAREBONES])

#: of `u`, [1, 2] of the dtype, and `big`, its largest number twice; what each gives is torch's
EXPRESSIONS = (
    "u * 2", "u * 2.5", "u / 2", "u & 3", "u | u", "u ^ u", "u == u", "u != 2", "u.eq(-1)", "u + u", "u + 1", "-u",
    "~u",
    "u < 2", "u // 2", "u % 2", "u ** 2", "u << 1", "u + 1.5", "big * 2", "u * -1", "u.sum()", "u.prod()", "big.sum()",
    "u.cumsum(0)", "u.any()", "u.all()", "u.sum(dtype=d)", "u.max()", "u.argmax()", "u.sort()[0]", "big.argsort()",
    "u.unique()", "u.bool()", "big.float()", "big.double()", "big.long()", "big.int()", "big.to(t.uint8)", "u.short()",
    "u[0]", "u[t.tensor([1])]", "u[u == 1]", "t.arange(5)[u]", "t.cat([u, u])", "t.stack([u, u]).T", "u.repeat(2)",
    "t.where(u == 1, u, big)", "u.view(t.uint8)", "big.view(t.int64 if d is t.uint64 else t.int16)", "u.tolist()",
    "big[0].item()", "str(big)", "repr(u[0])", "u.type()", "[5, 6, 7][u[1]]", "u.is_signed()", "u.element_size()",
    "t.zeros(2, dtype=d)", "t.ones(2, dtype=d)", "t.full((2,), 7, dtype=d)", "t.tensor(3, dtype=d)", "u.fill_(-1)",
    "t.tensor([3, 4], dtype=d)", "u.fill_(2 ** 16)", "u.fill_(-70000)", "u.copy_(t.tensor([-1.0, 3.0]))", "u.floor()",
    "t.tensor([3.9, -1.5, 1e6, 1e10, 1e20, float('nan'), float('inf')]).to(d)", "t.tensor([-1, -2 ** 40]).to(d)",
    "t.isnan(u)", "t.signbit(u)", "t.isfinite(u)", "t.nan_to_num(u)", "u.sqrt()", "u.abs()", "u.clamp(1, 2)",
    "u.relu()",
    "u.float().mean()", "u.mean()", "u @ u", "u.equal(u)", "t.allclose(u, u)", "u + t.tensor(3)", "u * t.tensor([3])",
    "u * t.tensor([3.0])", "u == t.tensor([1, 2])", "t.tensor(3, dtype=d) + t.tensor([1])", "t.cat([u, t.tensor([1])])",
    "t.promote_types(d, t.uint8)", "t.promote_types(d, t.bool)", "t.promote_types(d, t.complex64)", "d.to_complex()",
    "t.promote_types(d, d)", "t.promote_types(d, t.float16)", "t.result_type(u, 1)", "t.result_type(u, t.tensor([1]))",
    "t.can_cast(d, t.int32)", "t.can_cast(t.float32, d)", "t.iinfo(d).max", "t.iinfo(d).min", "t.iinfo(d).bits",
    "t.arange(3, dtype=d)", "u.random_()", "t.randint(5, (2,), dtype=d) * 0",
    "t.randint(0, 2 ** 16 + 1, (1,), dtype=d) * 0", "t.rand(2, dtype=d)", "u.requires_grad_()", "u.new_zeros(2)",
    "t.zeros_like(big)", "u.mul_(2)", "u.add_(1)", "u.div_(2)",
    "t.tensor([-1, 3], dtype=t.uint8)", "t.tensor([-300], dtype=t.uint8)", "t.tensor([1.5, -3], dtype=t.uint8)",
)


def _seen(t: Any, name: str, expression: str) -> Any:
    d = getattr(t, name)
    names = {"t": t, "d": d, "u": t.tensor([1, 2]).to(d), "big": t.tensor([-1, -1]).to(d)}
    try:
        found = eval(expression, names)
    except Exception as error:
        return type(error)
    if isinstance(found, t.Tensor):
        return str(found.dtype).partition(".")[2], found.tolist()
    return str(found).replace("jitgrad.", "torch.")


@TYPES
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_torch(name: str, expression: str) -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_equal(_seen(jitgrad, name, expression), _seen(torch, name, expression))


@TYPES
def test_numpy_and_files(name: str, tmp_path: Path) -> None:
    d = dtypes.by_name(name)
    array = np.array([0, 1, np.iinfo(name).max], name)
    x = jitgrad.from_numpy(array)
    assert x.dtype is jitgrad.tensor(array).dtype is jitgrad.from_dlpack(x).dtype is d
    assert np.shares_memory(x.numpy(), array)
    for suffix in ("pt", "safetensors"):
        jitgrad.save({"x": x}, tmp_path / f"x.{suffix}")
        back = jitgrad.load(tmp_path / f"x.{suffix}")["x"]
        assert back.dtype is d
        assert back.tolist() == array.tolist()
    assert pickle.loads(pickle.dumps(d)) is d


@TYPES
def test_files_of_torch(name: str) -> None:
    torch, file = pytest.importorskip("torch"), io.BytesIO()
    torch.save({"x": torch.tensor([1, 2]).to(getattr(torch, name)), "d": getattr(torch, name)}, file)
    file.seek(0)
    back = jitgrad.load(file)
    assert back["x"].tolist() == [1, 2]
    assert back["x"].dtype is back["d"] is dtypes.by_name(name)


@TYPES
def test_many_elements(name: str) -> None:
    """Those that programs of kernels would take are NumPy's too."""
    x = jitgrad.arange(200_000).to(dtypes.by_name(name))
    want = np.arange(200_000).astype(name)
    np.testing.assert_equal((x * 3).numpy(), want * np.array(3, name))
    chosen = np.where(want == 5, want, want * 2).astype("f")
    np.testing.assert_equal(jitgrad.where(x == 5, x, x * 2).float().numpy(), chosen)
    assert x.sum().item() == want.sum()
    assert x.sort()[0][-1].item() == want.max()
    with pytest.raises(NotImplementedError, match=f"not implemented for '{dtypes.by_name(name).word}'"):
        x + 1


@TYPES
@pytest.mark.parametrize("made", [
    lambda x, d: x * 2, lambda x, d: x.float().to(d).float(), lambda x, d: x.float().view(d),
    lambda x, d: x.float() + jitgrad.zeros(2, dtype=d)], ids=["argument", "cast", "bits", "created"])
def test_scripts_refuse(name: str, made: Any) -> None:
    d = dtypes.by_name(name)
    x = jitgrad.tensor([1, 2]).to(d) if made(jitgrad.ones(2).to(d), d).dtype is d else jitgrad.ones(2)
    with pytest.raises((ScriptError, NotImplementedError), match=name):
        jitgrad.script(lambda x: made(x, d))(x)


def test_rows_that_move_elements_have_them() -> None:
    assert all("barebones" not in op.traits for op in OPS.values() if op.kind not in COMPUTING)
