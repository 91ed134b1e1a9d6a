"""`jit.save` and `jit.load` on a GPU, and from one device to another."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config, nn
from jitgrad.script.loaded import NoProgram
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu
from tests.script.stored.file.test_damaged import members, pack, refused

pytestmark = host.needs_compiler
F = torch.nn.functional


@pytest.fixture(autouse=True)
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache=""):
        torch.manual_seed(0)
        yield driver


def saved(f: Any, *args: Any, **how: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.jit.save(f, file, *args, **how)
    file.seek(0)
    return file


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-5, atol=1e-6)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU())
        self.head = nn.Linear(5, 2)
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        self.seen += 1
        start = torch.zeros(x.shape[0], 5, device=x.device)
        return self.head(self.body(x) + start), x.sum().cpu(), x.device


@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("was", ["cpu", "cuda"])
@pytest.mark.parametrize("location", [None, "cpu", "cuda", "cuda:1", torch.device("cpu"),
                                      {"cpu": "cuda:1", "cuda:0": "cpu"}, lambda t, where: t.cuda(),
                                      lambda t, where: None],
                         ids=["none", "cpu", "cuda", "cuda:1", "device", "dict", "function", "leaves"])
def test_a_module_goes_where_it_is_wanted(was: str, location: Any) -> None:
    net = torch.jit.script(Net().to(was))
    x = torch.randn(4, 6)
    file = saved(net, example_inputs=(x.to(was),))
    loaded = torch.jit.load(file, map_location=location)
    (there,) = {p.device for p in loaded.parameters()}
    if location is None:
        assert there.type == was
    assert loaded.seen.device == there
    for n in (4, 9):
        x = torch.randn(n, 6)
        (a, total, _), (b, moved, where) = net(x.to(was)), loaded(x.to(there))
        same(a, b)
        same(total, moved)
        assert b.device == where == there
        assert moved.device == (there if was == "cpu" else torch.device("cpu"))
        a.pow(2).sum().backward()
        b.pow(2).sum().backward()
    for p, q in zip(net.parameters(), loaded.parameters(), strict=True):
        assert q.grad.device == there
        same(p.grad, q.grad)
    assert loaded.seen.item() == 2


def test_a_loaded_module_is_moved_as_any_other() -> None:
    net = torch.jit.script(Net().cuda())
    x = torch.randn(3, 6)
    loaded = torch.jit.load(saved(net, (x.cuda(),)))
    wanted = net(x.cuda())[0]
    for there in ("cuda", "cpu", "cuda:1", "cpu", "cuda"):
        loaded.to(there)
        assert loaded(x.to(there))[2] == torch.ones(1, device=there).device
        same(loaded(x.to(there))[0], wanted)
    again = torch.jit.load(saved(loaded), map_location="cpu")
    same(again(x)[0], wanted)
    with pytest.raises(NoProgram, match="was on cuda:0, is on cpu"):
        loaded(x)


def test_a_training_step_goes_on_elsewhere() -> None:
    class Trainer:
        def __init__(self, device: str) -> None:
            torch.manual_seed(1)
            self.net = nn.Linear(4, 3).to(device)
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.1)

        @torch.script
        def step(self, x: Any, y: Any) -> Any:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            return loss

    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    trainer, plain = Trainer("cuda"), Trainer("cpu")
    for _ in range(2):
        trainer.step(x.cuda(), y.cuda())
        plain.step(x, y)
    file = saved(trainer.step)
    for location in ("cpu", "cuda"):
        file.seek(0)
        loaded = torch.jit.load(file, map_location=location)
        reference = Trainer("cpu")
        for _ in range(2):
            reference.step(x, y)
        for _ in range(3):
            same(loaded(x.to(location), y.to(location)), reference.step(x, y))


def test_where_what_the_program_makes_goes() -> None:
    @torch.script
    def f(x: Any) -> Any:
        return x + torch.ones(3, device="cuda"), torch.zeros(2), torch.arange(3, device="cpu")

    loaded = torch.jit.load(saved(f, (torch.randn(3).cuda(),)))
    assert [t.device.type for t in loaded(torch.ones(3).cuda())] == ["cuda", "cpu", "cpu"]
    loaded = torch.jit.load(saved(f), map_location="cpu")
    assert [t.device.type for t in loaded(torch.ones(3))] == ["cpu"] * 3
    same(loaded(torch.ones(3))[0], torch.full((3,), 2.0))


def test_the_default_device_is_what_it_was_where_a_program_asks_for_it() -> None:
    @torch.script
    def f(x: Any) -> Any:
        return torch.zeros(3), x + 1

    @torch.script
    def g(x: Any) -> Any:
        return x + 1

    x = torch.ones(3)
    f_file, g_file = saved(f, (x,)), saved(g, (x,))
    asks, does_not = torch.jit.load(f_file), torch.jit.load(g_file)
    with torch.device("cuda"):
        with pytest.raises(NoProgram, match="the default device was cpu, is cuda:0"):
            asks(x)
        same(does_not(x), x + 1)
    same(asks(x)[1], x + 1)


def test_programs_that_look_at_devices_stay() -> None:
    @torch.script
    def f(x: Any) -> Any:
        return x + 1 if x.is_cuda else x - 1

    @torch.script
    def g(x: Any) -> Any:
        return x + 1 if torch.cuda.is_available() else x - 1

    x = torch.ones(3)
    f(x)
    f(x.cuda())
    loaded = torch.jit.load(saved(f))
    same(loaded(x), x - 1)
    same(loaded(x.cuda()), x + 1)
    elsewhere = torch.jit.load(saved(f), map_location={"cuda:0": "cpu"})
    same(elsewhere(x), x - 1)
    only = torch.jit.load(saved(g, (x,)), map_location="cuda")
    same(only(x.cuda()), x + 1)
    f = torch.script(f.eager)
    with pytest.raises(NoProgram, match="compiled for cpu and looks at where its tensors are"):
        torch.jit.load(saved(f, (x,)), map_location="cuda")(x.cuda())


def test_indices_out_of_range_are_found_on_either() -> None:
    @torch.script
    def f(table: Any, i: Any) -> Any:
        return table[i] * 2

    table, i = torch.randn(5, 3), torch.tensor([1, 4])
    for was in ("cpu", "cuda"):
        f = torch.script(f.eager)
        file = saved(f, (table.to(was), i.to(was)))
        for there in ("cpu", "cuda"):
            file.seek(0)
            loaded = torch.jit.load(file, map_location=there)
            same(loaded(table.to(there), i.to(there)), table[i] * 2)
            with pytest.raises(IndexError, match="index 7 is out of bounds"):
                loaded(table.to(there), (i + 3).to(there)).tolist()


def test_two_gpus_in_one_program() -> None:
    @torch.script
    def f(x: Any, y: Any) -> Any:
        return x.cuda() + y

    file = saved(f, (torch.ones(3), torch.ones(3).cuda()))
    loaded = torch.jit.load(file, map_location={"cpu": "cuda:1"})
    with pytest.raises(NoProgram, match="tensors on two GPUs, cuda:0 and cuda:1"):
        loaded(torch.ones(3, device="cuda:1"), torch.ones(3).cuda())


def test_frozen_modules_are_saved() -> None:
    net = Net().cuda().eval()
    x = torch.randn(2, 6).cuda()
    frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.script(net)))
    with torch.no_grad():
        wanted = frozen(x)[0]
        loaded = torch.jit.load(saved(frozen))
        same(loaded(x)[0], wanted)
        assert not torch.jit.load(saved(frozen), map_location="cpu").training


def test_damaged_devices() -> None:
    parts = members(saved(torch.jit.script(Net().cuda()), (torch.randn(2, 6).cuda(),)).getvalue())

    def wrong(change: Any) -> None:
        stored = json.loads(parts["program.json"])
        change(stored)
        refused(pack({**parts, "program.json": json.dumps(stored).encode()}), "damaged")

    wrong(lambda stored: stored["programs"][0].update(device="tpu:0"))
    wrong(lambda stored: stored["programs"][0].update(device="cpu"))
    wrong(lambda stored: stored["programs"][0].update(on_host=[99]))
    wrong(lambda stored: stored["programs"][0].update(expected=[[0, "IndexError", "", ""]]))
    wrong(lambda stored: next(n for n in stored["objects"] if n["kind"] == "tensor").update(device="cuda:x"))


MODULE = '''
    import jitgrad as torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)
            self.where = torch.device("cuda", 0)

        def forward(self, x):
            return self.fc(x + torch.ones(3, device=self.where)).relu()
'''


def test_without_a_gpu_a_fresh_process_loads_on_the_cpu(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(textwrap.dedent(MODULE))
    sys.path.insert(0, str(tmp_path))
    try:
        import net  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    model = torch.jit.script(net.Net().cuda())
    x = torch.arange(6.0).reshape(2, 3)
    torch.jit.save(model, tmp_path / "net.jit", (x.cuda(),))
    source.unlink()
    code = textwrap.dedent(f"""
        import sys
        sys.modules["cupy"] = None
        import jitgrad as torch
        try:
            torch.jit.load({str(tmp_path / "net.jit")!r})
        except RuntimeError as error:
            print(type(error).__name__, "map_location='cpu'" in str(error), "jitgrad[cuda13]" in str(error))
        loaded = torch.jit.load({str(tmp_path / "net.jit")!r}, map_location="cpu")
        print(loaded.where, loaded(torch.arange(6.0).reshape(2, 3)).tolist())
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert found[0] == "RuntimeError True True"
    where, _, numbers = found[1].partition(" ")
    assert where == "cpu"
    np.testing.assert_allclose(eval(numbers), model(x.cuda()).tolist(), rtol=1e-5)


def test_a_fresh_process_with_a_gpu_loads_there(tmp_path: Path) -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda())
    x = torch.arange(6.0).reshape(2, 3)
    torch.jit.save(model, tmp_path / "net.jit", (x.cuda(),))
    code = textwrap.dedent(f"""
        from tests.cuda.hosted import gpu
        import jitgrad as torch
        with gpu():
            loaded = torch.jit.load({str(tmp_path / "net.jit")!r})
            y = loaded(torch.arange(6.0, device="cuda").reshape(2, 3))
            print(y.device, y.tolist())
    """)
    where, _, numbers = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                       check=True).stdout.partition(" ")
    assert where == "cuda:0"
    np.testing.assert_allclose(eval(numbers), model(x.cuda()).tolist(), rtol=1e-5)
