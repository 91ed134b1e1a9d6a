"""Profiles: what they see, the steps of a schedule, the tables and files, and that nothing stays behind."""

from __future__ import annotations

import gzip
import json
import re
import threading

import pytest

import jitgrad
from jitgrad.autograd import profiler as older
from jitgrad.eager import profiling
from jitgrad.eager.backend import EagerBackend
from jitgrad.profiler import (ProfilerAction, ProfilerActivity, profile, record_function, schedule,
                              supported_activities, tensorboard_trace_handler)


def work(x):
    with record_function("forward"):
        y = (x * 2).exp().sum()
    y.backward()
    return y


def names(taken):
    return [e.name for e in taken.events()]


def leaf():
    return jitgrad.ones(2, 3, requires_grad=True)


def test_operations_and_gradients_are_events():
    with profile(record_shapes=True) as taken:
        work(leaf())
    found = names(taken)
    assert found[found.index("forward"):][:4] == ["forward", "aten::mul", "aten::exp", "aten::sum"]
    assert [n.rpartition(" ")[2] for n in found if "evaluate_function" in n] == ["SumBackward", "ExpBackward",
                                                                                "MulBackward"]
    events = {e.name: e for e in taken.events()}
    assert [c.name for c in events["forward"].cpu_children] == ["aten::mul", "aten::exp", "aten::sum"]
    assert events["aten::exp"].cpu_parent is events["forward"]
    assert events["aten::exp"].input_shapes == [[2, 3]]
    assert events["forward"].is_user_annotation
    assert 0 <= events["forward"].self_cpu_time_total < events["forward"].cpu_time_total


def test_nothing_stays_behind():
    before = {(owner, name): vars(owner)[name] for owner, name, _ in profiling.POINTS}
    taken = profile()

    def fail():
        with taken:
            assert vars(EagerBackend)["apply"] is not before[EagerBackend, "apply"]
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert {(owner, name): vars(owner)[name] for owner, name, _ in profiling.POINTS} == before
    assert profiling.current() is None
    count = len(taken.events())
    work(leaf())
    assert len(taken.events()) == count


def test_errors_of_operations_end_their_events():
    with profile() as taken:
        with pytest.raises(RuntimeError):
            jitgrad.ones(2) @ jitgrad.ones(3)
        jitgrad.ones(2).add_(1)
        jitgrad.ones(2).exp()
    assert {e.cpu_parent for e in taken.events() if e.name == "aten::exp"} == {None}
    assert names(taken).count("aten::add_") == 1


def test_scripted_calls_are_events():
    @jitgrad.script
    def scripted(x):
        with record_function("inside"):
            y = x * 3
        return y.sum()

    with profile() as taken:
        for _ in range(3):
            scripted(leaf()).backward()
    count = {e.key: e.count for e in taken.key_averages()}
    assert count["script::scripted"] == 3
    assert count["script::compile scripted"] == 1
    assert count["autograd::engine::evaluate_function: scriptedBackward"] == 3
    assert "inside" not in count
    assert scripted(leaf()) == 18


def test_other_threads_have_events_of_their_own():
    with profile() as taken, record_function("outside"):
        thread = threading.Thread(target=lambda: jitgrad.ones(3).exp())
        thread.start()
        thread.join()
    event = next(e for e in taken.events() if e.name == "aten::exp")
    assert event.cpu_parent is None
    assert event.thread != taken.events()[0].thread


def test_functions_may_be_recorded():
    @record_function("mine")
    def twice(n):
        return n if n == 0 else twice(n - 1)

    with profile() as taken:
        twice(2)
    assert names(taken) == ["mine"] * 3
    mine = taken.key_averages()[0]
    assert mine.count == 3
    assert mine.cpu_time_total == taken.events()[0].cpu_time_total  # the inner ones are in the outermost
    assert mine.is_user_annotation
    assert twice(1) == 0


# --- sums and tables -----------------------------------------------------------------------------------------------


def test_averages_and_tables():
    with profile(record_shapes=True, with_stack=True) as taken:
        for n in (2, 2, 3):
            jitgrad.ones(n).exp()
    found = taken.key_averages()
    exp = next(e for e in found if e.key == "aten::exp")
    assert exp.count == 3
    assert exp.cpu_time == exp.cpu_time_total / 3
    assert abs(found.self_cpu_time_total - sum(e.cpu_time_total for e in taken.events())) < 1e-6
    assert found.total_average().count == len(taken.events())
    shapes = [(e.input_shapes, e.count) for e in taken.key_averages(group_by_input_shape=True) if e.key == "aten::exp"]
    assert shapes == [([[2]], 2), ([[3]], 1)]
    lines = [e.stack for e in taken.key_averages(group_by_stack_n=1) if e.key == "aten::exp"]
    assert len(lines) == 1
    assert re.fullmatch(r".*test_profiler\.py\(\d+\): test_averages_and_tables", lines[0][0])
    text = found.table(sort_by="cpu_time_total", row_limit=1)
    assert len(text.splitlines()) == 6
    assert re.search(r"Name +Self CPU % +Self CPU +CPU total % +CPU total +CPU time avg +# of Calls", text)
    assert re.search(r"Self CPU time total: [\d.]+(us|ms)", text)
    assert "Input Shapes" in taken.key_averages(group_by_input_shape=True).table()
    by_line = taken.key_averages(group_by_stack_n=2).table(header="Lines", row_limit=-1, max_src_column_width=30)
    assert "Source Location" in by_line
    assert by_line.splitlines()[1] == "Lines"
    assert str(found) == found.table()
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        found.table(sort_by="colour")
    assert "count=3" in repr(exp)


def test_columns_are_those_of_torch():
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        torch.ones(2).exp()
    with profile() as ours:
        jitgrad.ones(2).exp()
    a, b = (t.key_averages().table(row_limit=1).splitlines()[1].split() for t in (ours, theirs))
    assert a == b
    assert [x.name for x in ProfilerAction] == [x.name for x in torch.profiler.ProfilerAction][:4]


# --- steps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 1, "active": 3, "repeat": 2},
    {"wait": 2, "warmup": 0, "active": 1, "repeat": 1, "skip_first": 3},
    {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1}], ids=str)
@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_schedules_are_those_of_torch(options):
    torch = pytest.importorskip("torch")
    ours, theirs = schedule(**options), torch.profiler.schedule(**options)
    assert [ours(k).name for k in range(20)] == [theirs(k).name for k in range(20)]


def test_steps():
    seen = []

    def ready(taken):
        seen.append((taken.step_num, [n for n in names(taken) if n.startswith("ProfilerStep")]))

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as taken:
        for _ in range(10):
            jitgrad.ones(2).exp()
            taken.step()
    assert seen == [(4, ["ProfilerStep#2", "ProfilerStep#3"]), (8, ["ProfilerStep#6", "ProfilerStep#7"])]
    assert all(e.cpu_parent is not None for e in taken.events() if e.name == "aten::exp")


def test_a_cycle_that_is_cut_short_is_ready():
    seen = []
    with profile(schedule=schedule(wait=0, warmup=1, active=5), on_trace_ready=seen.append) as taken:
        for _ in range(3):
            taken.step()
    assert seen == [taken]
    assert profiling.current() is None


def test_what_is_refused():
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=0, active=0)
    with pytest.warns(UserWarning, match="Profiler won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with profile() as taken, pytest.raises(RuntimeError, match="Profiler is already enabled on this thread"):
        profile().start()
    assert names(taken) == []
    with pytest.raises(AssertionError, match="Profiler must be initialized"):
        profile().key_averages()
    with pytest.raises(ValueError, match="metric should be one of"):
        taken.export_stacks("nowhere", "self_cuda_time_total")
    assert ProfilerActivity.CPU in supported_activities()


# --- files ---------------------------------------------------------------------------------------------------------


def test_traces_are_written(tmp_path):
    with profile(record_shapes=True, with_stack=True) as taken:
        work(leaf())
    taken.add_metadata("who", "me")
    taken.add_metadata_json("numbers", "[1, 2]")
    for name, opened in (("trace.json", open), ("trace.json.gz", gzip.open)):
        taken.export_chrome_trace(str(tmp_path / name))
        with opened(tmp_path / name, "rt") as file:
            trace = json.load(file)
        assert (trace["who"], trace["numbers"]) == ("me", [1, 2])
        events = {e["name"]: e for e in trace["traceEvents"]}
        assert events["forward"]["cat"] == "user_annotation"
        outer, inner = events["forward"], events["aten::exp"]
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3
        assert inner["args"]["Input Dims"] == [[2, 3]]
    taken.export_stacks(tmp_path / "stacks.txt")
    assert re.search(r"test_profiler\.py.*;aten::exp \d+$", (tmp_path / "stacks.txt").read_text(), re.MULTILINE)
    tensorboard_trace_handler(str(tmp_path / "logs"), "worker")(taken)
    assert [p.name.startswith("worker.") for p in (tmp_path / "logs").glob("*.pt.trace.json")] == [True]


# --- the older form ------------------------------------------------------------------------------------------------


def test_the_older_form(tmp_path):
    with older.profile(record_shapes=True) as taken:
        work(leaf())
    assert "aten::exp" in taken.table(sort_by="self_cpu_time_total")
    assert str(taken) == taken.table()
    assert taken.total_average().count == len(taken.function_events)
    assert taken.self_cpu_time_total == pytest.approx(taken.key_averages().self_cpu_time_total)
    taken.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with older.profile(enabled=False) as off:
        jitgrad.ones(2).exp()
    with pytest.raises(AssertionError, match="Profiler must be initialized"):
        off.key_averages()
    assert older.record_function is record_function is jitgrad.autograd.profiler.record_function
