"""Recorded starts: replayed as the log has them, later only while a job does not fit, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simkit
from simkit.errors import ScenarioError, TraceError
from simkit.policy import State, SystemInfo
from simkit.traces.alibaba2017 import Alibaba2017Trace
from simkit.verify import verify_run
from simkit.workload import Workload
from simkit.workload.recorded import Recorded, with_recorded_starts

pytestmark = pytest.mark.filterwarnings("ignore::simkit.errors.SimkitWarning")

ROWS = """job_id,submit_time_s,run_time_s,processors,start_time_s
1,0,100,4,0
2,10,50,4,100
3,20,50,2,90
4,30,10,2,
5,200,10,4,190
6,210,10,4,230
"""


def table(folder: Path, text: str = ROWS, name: str = "jobs.csv") -> dict[str, Any]:
    path = folder / name
    path.write_text(text)
    return {"workload": {"type": "jobs", "path": str(path)}, "cluster": {"processors": 4}}


def starts(run: simkit.Run) -> dict[int, float | None]:
    return dict(run.jobs.sort("job_id").select("job_id", "start_time_s").iter_rows())


def test_jobs_start_as_recorded_or_as_soon_as_they_fit(tmp_path):
    run = simkit.simulate(table(tmp_path), policy="recorded", output=tmp_path / "run")
    assert starts(run) == {1: 0, 2: 150, 3: 100, 4: None, 5: 200, 6: 230}
    counts = run.info["recorded"]
    assert counts == {
        "started_as_recorded": 2,
        "started_later": {
            "no room at its recorded start": 2,
            "recorded to start before its submission": 1,
        },
        "later_s": {"mean": 70 / 3, "max": 50.0},
        "jobs_without_recorded_start": 1,
    }
    refused = run.jobs.filter(status="rejected")
    assert refused["reason"].to_list() == ["policy: the log does not tell when it started"]
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok
    assert "recorded-starts" in {check.name for check in audit.done}


def test_a_job_without_a_start_may_run_as_it_fits(tmp_path):
    policy = {"recorded": {"unknown": "fit"}}
    run = simkit.simulate(table(tmp_path), policy=policy, output=tmp_path / "run")
    assert starts(run) == {1: 0, 2: 150, 3: 100, 4: 100, 5: 200, 6: 230}
    assert run.info["recorded"]["jobs_without_recorded_start"] == 1
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok


def test_the_waits_of_swf_are_replayed(tmp_path):
    lines = [(1, 0, 0, 100, 4), (2, 10, 90, 50, 4), (3, 20, 130, 5, 2)]
    text = "; MaxProcs: 4\n" + "".join(
        f"{job} {submit} {wait} {run} {size} -1 -1 {size} 200 -1 1 1 1 1 1 1 -1 -1\n"
        for job, submit, wait, run, size in lines
    )
    (tmp_path / "log.swf").write_text(text)
    scenario = {"workload": {"type": "swf", "path": str(tmp_path / "log.swf")}}
    run = simkit.simulate(scenario, policy="recorded", output=tmp_path / "run")
    assert starts(run) == {1: 0, 2: 100, 3: 150}
    assert run.info["recorded"]["started_as_recorded"] == 3
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok


def test_the_starts_of_sacct_are_replayed(tmp_path):
    (tmp_path / "jobs.txt").write_text(
        "JobID|Submit|Start|End|State|NCPUS|Timelimit\n"
        "1|2024-05-01T00:00:00|2024-05-01T00:01:00|2024-05-01T00:11:00|COMPLETED|2|01:00:00\n"
        "2|2024-05-01T00:00:30|2024-05-01T00:20:00|2024-05-01T00:21:00|COMPLETED|2|01:00:00\n"
    )
    scenario = {
        "workload": {"type": "sacct", "path": str(tmp_path / "jobs.txt"), "time_zone": "UTC"},
        "cluster": {"processors": 2},
    }
    run = simkit.simulate(scenario, policy="recorded", output=tmp_path / "run")
    assert run.jobs.sort("job_id")["wait_time_s"].to_list() == [60, 1170]
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok
    assert audit.not_audited["recorded-starts"] == "the workload's type is 'sacct'"


def test_instances_of_bags_start_by_their_own_records(tmp_path):
    (tmp_path / "batch_task.csv").write_text("10,100,1,1,3,Terminated,50,0.01\n")
    (tmp_path / "batch_instance.csv").write_text(
        "20,40,1,1,1,Terminated,1,1,1,1,1,1\n"
        "30,60,1,1,1,Terminated,1,1,1,1,1,1\n"
        "30,70,1,1,1,Terminated,1,1,1,1,1,1\n"
    )
    _, past = Alibaba2017Trace.of(path=tmp_path).recorded()
    assert past.start_s.tolist() == [20]
    assert past.instance_start_s.tolist() == [20, 30, 30]
    scenario = {
        "workload": {"type": "alibaba2017", "path": str(tmp_path)},
        "cluster": {"machines": [{"count": 1, "cpu": 4, "mem": 1}]},
    }
    run = simkit.simulate(scenario, policy="recorded", output=tmp_path / "run")
    rows = run.allocations.sort("start_time_s", "end_time_s")
    assert rows["start_time_s"].to_list() == [20, 30, 30]
    assert rows["end_time_s"].to_list() == [40, 60, 70]
    assert run.info["recorded"]["started_as_recorded"] == 3
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok


def test_a_window_takes_the_starts_of_its_jobs(tmp_path):
    scenario = table(tmp_path)
    scenario["workload"]["window"] = {"jobs": "1..2"}
    run = simkit.simulate(scenario, policy="recorded", output=tmp_path / "run")
    assert starts(run) == {2: 140, 3: 90}
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"workload.load": 2.0}, "workload.load: moves the submissions"),
        ({"workload.resample": {}}, "workload.resample: moves"),
        ({"workload.target_load": {"offered_load": 1, "processors": 4}}, "workload.target_load: m"),
        ({"workload": {"type": "lublin", "jobs": 10, "processors": 4}}, "lublin are drawn"),
        ({"policy": {"recorded": {"unknown": "x"}}}, "policy.recorded.unknown"),
        ({"policy": {"recordde": {}}}, "recordde"),
        ({"policy": {"lookahead": ["recorded", "sjf"]}}, "is the past of a log"),
    ],
)
def test_what_has_no_recorded_starts_is_refused(tmp_path, changes, text):
    with pytest.raises(ScenarioError, match=text):
        simkit.simulate(table(tmp_path) | {"policy": "recorded"}, overrides=changes)


def test_a_log_without_any_start_is_refused(tmp_path):
    text = "job_id,submit_time_s,run_time_s,processors\n1,0,10,1\n"
    with pytest.raises(TraceError, match="does not tell when any of its jobs started"):
        simkit.simulate(table(tmp_path, text), policy="recorded")


def test_no_other_policy_sees_recorded_starts(tmp_path):
    """All that a policy reaches from `reset` and `schedule` is searched for a secret start."""
    secret = 12_345.0
    text = ROWS.replace("6,210,10,4,230", f"6,210,10,4,{secret:.0f}")

    class Spy:
        def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
            self.seen = list(_numbers((info, rng)))

        def schedule(self, state: State) -> Any:
            self.seen += _numbers(state)
            for task in state.queue:
                if (on := state.fit(task)) is not None:
                    yield simkit.policy.Place(task, on)

    spy = Spy()
    recorded = simkit.simulate(table(tmp_path, text), policy="recorded")
    assert starts(recorded)[6] == secret
    workload = with_recorded_starts(*_read(tmp_path, text))
    assert secret in workload.recorded_start_s
    simkit.simulate(table(tmp_path, text), policy=spy, workload=workload)
    assert 210 in spy.seen
    assert secret not in spy.seen
    assert secret - 210 not in spy.seen


def _read(folder: Path, text: str) -> tuple[Workload, Recorded]:
    from simkit.traces.jobs_table import JobsTable

    table(folder, text)
    trace, past = JobsTable.of(path=folder / "jobs.csv").recorded()
    return trace.workload, past


def _numbers(thing: object, seen: set[int] | None = None) -> Any:
    """Yield every number that is reached by attributes, items and closures of plain objects."""
    seen = set() if seen is None else seen
    if isinstance(thing, (int, float)):
        yield float(thing)
    elif isinstance(thing, np.ndarray):
        yield from (float(x) for x in thing.ravel().tolist() if isinstance(x, (int, float)))
    if id(thing) in seen or isinstance(thing, (str, bytes, type, int, float)) or callable(thing):
        return
    seen.add(id(thing))
    if isinstance(thing, dict):
        yield from _numbers([*thing.keys(), *thing.values()], seen)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        for part in thing:
            yield from _numbers(part, seen)
    else:
        names = [*getattr(thing, "__dict__", ())]
        names += [n for kind in type(thing).__mro__ for n in getattr(kind, "__slots__", ())]
        for name in names:
            yield from _numbers(getattr(thing, name, None), seen)


def test_the_auditor_finds_starts_that_are_not_recorded(tmp_path):
    """Runs of other tables that claim to be of this one, and counts that are not so."""
    wrong = {
        "early": ROWS.replace("4,230", "4,225"),
        "late": ROWS.replace("4,230", "4,235"),
        "known": ROWS.replace("10,2,\n", "10,2,300\n"),
        "unknown": ROWS.replace("4,230", "4,"),
    }
    honest = table(tmp_path)["workload"]["path"]
    for name, text in wrong.items():
        simkit.simulate(table(tmp_path, text), policy="recorded", output=tmp_path / name)
        Path(honest).write_text(ROWS)
        _claim(tmp_path / name, Path(honest))
        audit = verify_run(tmp_path / name, inputs=[tmp_path])
        assert audit.found.get("recorded-starts"), name
    simkit.simulate(table(tmp_path), policy="recorded", output=tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    info["recorded"]["started_as_recorded"] += 1
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).found == {"recorded-starts": 1}


def _claim(folder: Path, log: Path) -> None:
    """Let a run say that it read the log as it is now."""
    import hashlib

    info = json.loads((folder / "run.json").read_text())
    old = info["inputs"][0]["sha256"]
    new = hashlib.sha256(log.read_bytes()).hexdigest()
    text = json.dumps(info).replace(old, new)
    info = json.loads(text)
    info["inputs"][0]["bytes"] = log.stat().st_size
    (folder / "run.json").write_text(json.dumps(info))


def test_what_holds_jobs_back_is_named(tmp_path):
    text = ROWS.replace("start_time_s\n", "start_time_s,release_time_s\n", 1)
    rows = [row + "," + ("240" if row.startswith("6,") else "") for row in text.split("\n")[1:-1]]
    text = "\n".join([text.split("\n")[0], *rows, ""])
    run = simkit.simulate(table(tmp_path, text), policy="recorded", output=tmp_path / "run")
    assert starts(run)[6] == 240
    reasons = run.info["recorded"]["started_later"]
    assert sum(n for reason, n in reasons.items() if reason.startswith("not in the queue")) == 1
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok
    away = table(tmp_path) | {
        "cluster": {"processors": 4, "maintenance": [{"start": "220s", "end": "240s",
                                                      "processors": 4}]}
    }  # fmt: skip
    run = simkit.simulate(away, policy="recorded")
    assert run.info["recorded"]["started_later"]["capacity was away at its recorded start"] == 1


def test_periods_delay_starts(tmp_path):
    text = "job_id,submit_time_s,run_time_s,processors,start_time_s\n1,0,10,4,7\n2,20,10,4,33\n"
    scenario = table(tmp_path, text) | {"scheduling": {"every": "10s"}}
    run = simkit.simulate(scenario, policy="recorded", output=tmp_path / "run")
    assert starts(run) == {1: 10, 2: 40}
    reason = "no decision at its recorded start: they come at multiples of a period"
    assert run.info["recorded"]["started_later"] == {reason: 2}
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok
