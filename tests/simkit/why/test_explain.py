"""Explanations of small runs that can be worked out by hand, and of runs that cannot be explained."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import simkit
from simkit.cli import app
from simkit.dates import parse_zone
from simkit.errors import PolicyError, RunError
from simkit.why.at import queue_at
from simkit.why.causes import Cause
from simkit.why.jobs import explain, explain_jobs, longest_waits
from simkit.why.rerun import RunClock, clock_of
from simkit.why.summary import explain_summary

HEAD = "job_id,submit_time_s,run_time_s,processors,requested_time_s,user,queue"
TASKS = "job_id,task_id,submit_time,duration,instances_num,cpu,memory"


@pytest.fixture
def simulate(tmp_path):
    """Return a function that runs a table of jobs on a pool of four processors."""

    def run(rows, policy="fcfs", output=None, **sections):
        table = tmp_path / "jobs.csv"
        table.write_text("\n".join([HEAD, *rows]) + "\n")
        cluster = {"processors": 4, **sections.pop("cluster", {})}
        if "machines" in cluster:
            del cluster["processors"]
        scenario = {
            "workload": {"type": "jobs", "path": str(table)}, "cluster": cluster,
            "policy": policy, **sections,
        }  # fmt: skip
        return simkit.simulate(scenario, output=output)

    return run


def pieces(explanation):
    """Return (start, end, cause, jobs) of the intervals of the wait."""
    return [(i.start_s, i.end_s, str(i.cause), i.jobs) for i in explanation.intervals]


FULL = ["1,0,100,4,100,1,1", "2,10,50,2,50,1,1", "3,20,30,1,30,1,1"]


def test_the_head_waits_for_running_jobs_and_others_for_the_order(simulate):
    run = simulate(["1,0,100,3,100,1,1", "2,10,50,2,50,1,1", "3,20,30,1,30,1,1"])
    head, behind = explain_jobs(run, [2, 3])
    assert pieces(head) == [(10.0, 100.0, "resource", (1,))]
    assert head.intervals[0].short == {"processors": 1.0}
    assert "short by 1 processor; job 1 must end first" in head.text()
    assert pieces(behind) == [(20.0, 100.0, "order", (2,))]
    assert "behind job 2, which waits" in behind.text()


def test_neighbours_of_one_cause_are_one_span(simulate):
    rows = ["1,0,100,1,100,1,1", "2,0,300,2,300,1,1", "3,5,9,4,9,1,1", "4,400,9,1,9,1,1"]
    (span,) = explain(simulate(rows), 3).rows()
    assert span.sentence == "short by 2 to 3 processors, 2 jobs in its way one after another, " \
        "at last job 2"  # fmt: skip


def test_another_task_of_a_job_is_called_so(tmp_path):
    table = tmp_path / "jobs.csv"
    rows = ["1,1,0,100,1,4,0", "2,1,10,50,1,3,0", "2,2,10,50,1,3,0", "3,1,11,9,1,3,0"]
    table.write_text("\n".join([TASKS, *rows]))
    load = {"type": "tasks", "path": str(table)}
    pool = {"machines": [{"name": "m", "cpu": 4, "mem": 1}]}
    run = simkit.simulate({"workload": load, "cluster": pool, "policy": "fcfs"})
    own, other = explain_jobs(run, [2, 3])
    second = [i for wait in own.waits for i in wait.intervals if 2 in i.jobs]
    assert [i.sentence for i in second] == [
        "behind another task of its job, which waits; also short by 3 cpu",
        "short by 2 cpu; another task of its job must end first",
    ]
    assert "job 2" not in own.text().replace("job 2 of", "")
    assert "job 2 must end first" in other.text() or "behind job 2" in other.text()


def test_a_job_that_would_delay_the_head_waits_for_its_reservation(simulate):
    rows = ["1,0,100,3,100,1,1", "2,10,50,4,50,1,1", "3,20,500,1,500,1,1", "4,25,50,1,50,1,1"]
    run = simulate(rows, {"order": "fcfs", "backfill": "easy"})
    late, head = explain_jobs(run, [3, 2])
    assert pieces(late)[0] == (20.0, 25.0, "reservation", (2,))
    assert "would delay the start of job 2" in late.text()
    assert head.overtaken == 1
    assert head.overtakers[0].job_id == 4
    assert head.overtakers[0].why == "backfilled: by its estimate it ends before job 2 can start" \
        ", in 00:01:15"  # fmt: skip


def test_conservative_names_the_job_that_would_be_delayed(simulate):
    rows = ["1,0,100,3,100,1,1", "2,10,50,4,50,1,1", "3,20,500,1,500,1,1"]
    run = simulate(rows, {"order": "fcfs", "backfill": "conservative"})
    found = pieces(explain(run, 3))
    assert found[0] == (20.0, 100.0, "reservation", (2,))
    assert found[1:] == [(100.0, 150.0, "resource", (2,))]


def test_a_limit_of_a_user(simulate):
    rows = ["1,0,100,1,100,7,1", "2,10,50,1,50,7,1", "3,20,5,1,5,8,1"]
    partition = {"name": "all", "max_running_per_user": 1}
    run = simulate(rows, cluster={"partitions": [partition]})
    assert pieces(explain(run, 2)) == [(10.0, 100.0, "user_limit", (1,))]
    assert explain(run, 3).intervals == ()
    assert explain(run, 3).headline.endswith("started at once")
    summary = explain_summary(run)
    assert summary.limit_rows() == [("7", "", 90.0, 1.0)]
    assert [row[0] for row in summary.rows()] == [Cause.USER_LIMIT]


def test_a_span_names_the_limit_of_the_user(simulate):
    rows = [f"{n},{n},{60 + n},2,{60 + n},7,1" for n in range(1, 5)] + ["9,5,9,4,9,7,1"]
    partition = {"name": "batch", "max_running_per_user": 2}
    found = explain(simulate(rows, cluster={"partitions": [partition]}), 9)
    span = found.rows()[0]
    assert span.cause is Cause.USER_LIMIT
    limit = "at most 2 jobs of its user may run in partition batch"
    assert span.sentence.startswith(f"{limit}, ")
    assert "one after another" in span.sentence
    assert "short" not in span.sentence
    assert all(
        i.sentence.startswith(f"{limit}; in its way: job") for i in found.intervals if i.limit
    )


def test_slots_of_admission(simulate):
    rows = ["1,0,100,4,100,1,1", "2,10,50,4,50,1,1", "3,20,5,4,5,1,1"]
    run = simulate(rows, admission={"slots": 1})
    assert [i.cause for i in explain(run, 3).intervals] == [Cause.ADMISSION, Cause.RESOURCE]
    assert "1 task fills the slots" in explain(run, 3).text()


def test_a_maintenance_window_ahead_and_maintenance(simulate):
    window = {"start": 50, "duration": 100, "running": "drain"}
    run = simulate(["1,0,60,1,100,1,1", "2,60,10,4,10,1,1"], cluster={"maintenance": [window]})
    assert pieces(explain(run, 1)) == [
        (0.0, 50.0, "window_ahead", ()), (50.0, 150.0, "maintenance", ()),
    ]  # fmt: skip
    causes = {i.cause for i in explain(run, 2).intervals}
    assert causes <= {Cause.ORDER, Cause.RESOURCE, Cause.MAINTENANCE}


def test_the_machine_that_came_nearest_while_others_are_away(tmp_path):
    table = tmp_path / "tasks.csv"
    rows = ["1,1,1,300,1,3,0", "2,1,1,300,1,2,0", "3,1,30,5,1,3,0"]
    table.write_text("\n".join([TASKS, *rows]))
    machines = [{"name": "m", "count": 2, "cpu": 4, "mem": 1}, {"name": "x", "cpu": 4, "mem": 1}]
    window = {"start": 0, "duration": 100, "running": "drain", "machines": ["x"]}
    cluster = {"machines": machines, "maintenance": [window]}
    load = {"type": "tasks", "path": str(table)}
    run = simkit.simulate({"workload": load, "cluster": cluster, "policy": "fcfs"})
    assert queue_at(run, 30.0).machines[1][:3:2] == ("m-1", {"cpu": 2.0, "mem": 1.0})
    (piece,) = explain(run, 3).intervals
    assert piece.cause is Cause.MAINTENANCE
    assert piece.sentence == "no machine has room, m-1 came nearest: short by 1 cpu"


def test_a_release_and_a_clock(simulate, tmp_path):
    run = simulate(["1,5,20,1,20,1,1", "2,30,5,1,5,1,1"], scheduling={"every": 60})
    assert pieces(explain(run, 1)) == [(5.0, 60.0, "clock", ())]
    table = tmp_path / "released.csv"
    table.write_text("job_id,submit_time_s,run_time_s,processors,release_time_s\n1,0,10,1,40\n")
    scenario = {"workload": {"type": "jobs", "path": str(table)}, "cluster": {"processors": 4}}
    assert pieces(explain(simkit.simulate(scenario), 1)) == [(0.0, 40.0, "release", ())]


def test_a_clock_after_a_release_of_resources(simulate):
    run = simulate(["1,0,70,4,70,1,1", "2,10,5,4,5,1,1"], scheduling={"every": 60})
    assert pieces(explain(run, 2)) == [
        (10.0, 60.0, "clock", ()), (60.0, 70.0, "resource", (1,)), (70.0, 120.0, "clock", ()),
    ]  # fmt: skip


def test_a_preempted_job_waits_again_and_a_suspended_one_to_go_on(simulate):
    rows = ["1,0,100,4,100,1,2", "2,10,50,4,50,1,1"]
    for way, kind in (("requeue", "again"), ("suspend", "suspended")):
        parts = [
            {"name": "hot", "queues": [1], "priority": 1}, {"name": "rest", "preempt": way},
        ]  # fmt: skip
        found = explain(simulate(rows, cluster={"partitions": parts}), 1)
        second = found.waits[1]
        assert (second.kind, second.start_s, second.end_s) == (kind, 10.0, 60.0)
        assert sum(i.length_s for i in second.intervals) == 50.0
        assert second.intervals[-1].jobs == (2,)


def test_power_that_does_not_suffice(simulate):
    supply = {"limit": "power", "running": "drain"}
    signal = {"type": "levels", "high_w": 800.0, "low_w": 200.0, "high_share": 0.5}
    power = {
        "machines": {"idle_w": 50, "full_w": 200}, "align": {"zero": "2020-01-01T00:00:00Z"},
        "supply": supply, "sources": {"plant": {"signal": signal}},
    }  # fmt: skip
    rows = [f"{n},{200 * n},300,{1 + n % 4},300,1,1" for n in range(1, 60)]
    run = simulate(rows, power=power)
    shares = dict(explain_summary(run).causes)
    assert Cause.POWER in shares
    job = next(j for j in longest_waits(run, 50) if _last_cause(run, j) is Cause.POWER)
    assert "power does not suffice" in explain(run, job).text()


def _last_cause(run, job):
    return explain(run, job).intervals[-1].cause


def test_the_choice_of_a_policy_of_ones_own(simulate, tmp_path):
    policy = tmp_path / "mine.py"
    policy.write_text(
        "from simkit.policy import Place, WakeAt\n"
        "class Later:\n"
        "    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n"
        "        for task in state.queue:\n"
        "            if state.now < 50:\n"
        "                yield WakeAt(50)\n"
        "            elif on := state.fit(task):\n"
        "                yield Place(task, on)\n"
        "    def why(self, state, task): return 'it is too early'\n"
        "    def scores(self, state): return {task: 0.5 for task in state.queue}\n"
    )
    run = simulate(["1,0,10,1,10,1,1"], {"path": f"{policy}:Later"}, output=tmp_path / "run")
    found = explain(tmp_path / "run", 1)
    assert pieces(found) == [(0.0, 50.0, "policy", ())]
    assert "it is too early; its score is 0.5" in found.text()
    assert queue_at(run, 0.0).waiting[0].score == 0.5
    with pytest.raises(RunError, match="no-code|code"):
        explain(tmp_path / "run", 1, allow_code=False)


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("def scores(self, state): return [1]", r"scores returned \[1\] \(list\)"),
        ("def scores(self, state): return {1: 2.0}", r"scores has 1 \(int\) where a task is due"),
        ("def scores(self, state): return dict.fromkeys(state.queue, 'x')", "scores has 'x'"),
        ("def scores(self): return {}", "scores cannot be called: too many positional"),
        ("scores = 3", "scores is 3"),
        ("def why(self): return ''", "why cannot be called: too many positional arguments"),
        ("def planned(self): return None", "planned returned NoneType"),
    ],
)
def test_wrong_answers_of_a_policy_are_told(simulate, tmp_path, method, told):
    policy = tmp_path / "mine.py"
    policy.write_text(
        "from simkit.policy import Place\n"
        "class Mine:\n"
        "    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n"
        "        for task in state.queue:\n"
        "            if state.now > 10 and (on := state.fit(task)):\n"
        "                yield Place(task, on)\n"
        f"    {method}\n"
    )
    run = simulate(["1,10,5,1,5,1,1", "2,20,5,1,5,1,1"], {"path": f"{policy}:Mine"})
    wrong = f"^Mine at 10 s: {told}.*; explain asks for"
    with pytest.raises(PolicyError, match=wrong):
        queue_at(run, 10.0)
    if "planned" not in method:
        with pytest.raises(PolicyError, match=wrong):
            explain(run, 1)


RECORDED = """job_id,submit_time_s,run_time_s,processors,start_time_s
1,0,100,4,0
2,10,50,2,90
3,20,30,1,170
4,120,20,3,120
"""


def test_a_recorded_start_is_the_choice_until_it_comes(tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text(RECORDED)
    load = {"type": "jobs", "path": str(table)}
    run = simkit.simulate({"workload": load, "cluster": {"processors": 4}, "policy": "recorded"})
    late, waits = explain_jobs(run, [2, 3])
    assert [piece[2] for piece in pieces(late)] == ["policy", "resource"]
    assert pieces(late)[-1][:2] == (90.0, 100.0)
    (span,) = waits.rows()
    told = "its recorded start has not come; its start is planned for 00:02:50"
    assert (span.start_s, span.end_s, span.sentence) == (20.0, 170.0, told)
    assert explain_summary(run).causes[Cause.POLICY].wait_s == 230.0
    found = queue_at(run, 30.0)
    assert found.reservations == []
    assert told in found.text()


def test_summary_is_all_waiting_of_a_run(simulate):
    run = simulate(FULL, {"order": "sjf", "backfill": "easy"})
    total = explain_summary(run).total
    waits = run.jobs["wait_time_s"]
    assert total.wait_s == waits.sum()
    assert total.weighted == (waits * run.jobs["processors"]).sum()


def test_the_queue_at_a_time(simulate):
    run = simulate(FULL)
    found = queue_at(run, 25.0)
    assert (found.decided_s, found.head, found.shadow_s) == (20.0, 2, 100.0)
    assert [(w.job_id, str(w.cause)) for w in found.waiting] == [(2, "resource"), (3, "order")]
    assert found.machines[0].free == {"processors": 0.0}
    assert "job 2, can start at 00:01:40 (the shadow time)" in found.text()
    with pytest.raises(
        RunError, match="nothing is decided at 00:16:40; the run is from 0 s to 00:"
    ):
        queue_at(run, 1000.0)
    assert clock_of(run).time_of("1h30m") == 5400.0
    for text in ("soon", "3d 17:61:00", "2020-13-01", "12:3"):
        with pytest.raises(RunError, match="3d 17:33:38"):
            clock_of(run).time_of(text)
    for text in ("2020-01-01T00:00:00Z", "2020-01-01 00:00:00"):
        with pytest.raises(RunError, match="has no dates"):
            clock_of(run).time_of(text)


@pytest.mark.parametrize("zone", [None, "Europe/Stockholm", "America/Chicago"])
def test_times_are_read_as_they_are_printed(simulate, tmp_path, zone):
    rows = [f"{n},{t},{9 * 86400 + 7},4,{9 * 86400 + 7},1,1" for n, t in ((1, 700), (2, 50_262))]
    run = simulate(rows)
    assert "times since the trace's zero; the first job came at 00:11:40" in explain(run, 2).text()
    stockholm = RunClock(844_000_000.0, parse_zone(zone or "UTC"), zone or "UTC")
    for clock in (stockholm, clock_of(run)):
        for time_s in (0.0, 12.5, 59.0, 60.0, 50_262.0, 86_400.0, 322_418.0, 3e7):
            whole = time_s if clock is not stockholm else float(int(time_s))
            assert clock.time_of(clock.text(time_s)) == whole
    assert clock_of(run).time_of("13:57:42") == 50_262.0
    assert clock_of(run).time_of("-00:01:05") == -65.0
    assert queue_at(run, 50_262.0).text().splitlines()[1].startswith("times since the trace's")


def test_dates_are_on_the_clock_of_the_run(tmp_path):
    job = "{} {} 0 {} 4 -1 -1 4 {} -1 1 1 1 1 1 1 -1 -1\n"
    jobs = job.format(1, 0, 100, 100) + job.format(2, 10, 9, 9)
    for zone, begin in (("UTC", 1_578_304_800), ("Europe/Stockholm", 1_578_301_200)):
        log = tmp_path / f"log-{begin}.swf"
        log.write_text(f"; UnixStartTime: {begin}\n; TimeZoneString: {zone}\n{jobs}")
        folder = tmp_path / str(begin)
        load = {"type": "swf", "path": str(log)}
        simkit.simulate({"workload": load, "cluster": {"processors": 4}}, output=folder)
        text = _explain(str(folder), "2").output
        assert f"  times in {zone}\n  submitted at 2020-01-06 10:00:10" in text
        shown = _explain(str(folder), "--at", "2020-01-06 10:00:20")
        assert f"after the decision at 2020-01-06 10:00:10\ntimes in {zone}\n" in shown.output
        wrong = _explain(str(folder), "--at", "2020-01-06 12:00:20")
        assert "the run is from 2020-01-06 10:00:00 to" in " ".join(str(wrong.exception).split())


def test_reservations_of_a_plan_are_shown(simulate):
    run = simulate(FULL, {"order": "fcfs", "backfill": "conservative"})
    assert [(p.job_id, p.start_s) for p in queue_at(run, 25.0).reservations] == [
        (2, 100.0), (3, 100.0),
    ]  # fmt: skip


def test_a_job_that_was_rejected_and_one_that_never_started(simulate):
    run = simulate(["1,0,10,9,10,1,1", "2,0,10,1,10,1,1"])
    rejected = explain(run, 1)
    assert rejected.status == "rejected"
    assert rejected.waits == ()
    assert "was rejected: " in rejected.text()


def test_a_job_that_was_killed_says_why(simulate, tmp_path):
    run = simulate(["1,0,10,4,10,1,1", "2,5,50,4,20,1,1", "3,90,50,4,20,1,1"], walltime="kill")
    waited, at_once = explain_jobs(run, [2, 3])
    assert waited.headline.endswith("waited 5 s; it was killed at 30 s: requested time is over")
    assert waited.as_json()["end_time_s"] == 30.0
    assert "started at once; it was killed at 00:01:50: requested time is over" in at_once.text()
    assert "it was" not in explain(run, 1).text()


def test_unknown_jobs_are_told_with_what_there_is(simulate):
    run = simulate(FULL)
    with pytest.raises(
        RunError, match="there is no job 9; its jobs are 1 to 3, the nearest 1, 2, 3"
    ):
        explain(run, 9)
    with pytest.raises(RunError, match="there is no job x"):
        explain(run, "x")
    assert explain(run, "2").job_id == 2


def test_a_run_that_cannot_be_made_again(simulate, tmp_path):
    folder = tmp_path / "run"
    simulate(FULL, output=folder)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "digest": "0" * 64}))
    with pytest.raises(RunError, match="has another digest"):
        explain(folder, 2)
    (folder / "run.json").write_text(json.dumps({**info, "given": ["policy"]}))
    with pytest.raises(RunError, match="Python gave policy as objects"):
        explain(folder, 2)
    (folder / "run.json").write_text(json.dumps(info))
    (tmp_path / "jobs.csv").write_text("gone")
    with pytest.raises(RunError, match=r"jobs\.csv changed since the run or is gone"):
        explain(folder, 2)


def test_a_run_that_was_stopped_is_explained_up_to_its_end(simulate, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(simkit.SimkitError):
        simulate(FULL, output=folder, limits={"simulated_time": 60})
    with pytest.raises(RunError, match="--partial"):
        explain(folder, 2)
    found = explain(folder, 2, allow_partial=True)
    assert pieces(found) == [(10.0, found.waits[0].end_s, "resource", (1,))] or found.waits
    assert "explained up to its end" in found.text()
    assert "never started" in found.headline


def test_a_name_in_html_is_harmless(simulate):
    run = simulate(FULL)
    found = explain(run, 2)
    object.__setattr__(found, "run", "<script>alert(1)</script>")
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def folder(simulate, tmp_path):
    simulate(FULL, output=tmp_path / "run")
    return str(tmp_path / "run")


def _explain(*words):
    return CliRunner().invoke(app, ["explain", *words])


def test_the_command_prints_text_and_json(folder):
    assert "waited 00:01:30" in _explain(folder, "2").output
    assert "2 tasks waited" in _explain(folder, "--summary").output
    assert "job 3 of" in _explain(folder, "--longest", "2").output
    found = json.loads(_explain(folder, "2", "--json").output)
    assert found["waits"][0]["intervals"][0]["jobs"] == [1]
    assert found["by_cause_s"] == {"resource": 90.0}
    assert len(json.loads(_explain(folder, "--longest", "2", "--json").output)) == 2
    assert json.loads(_explain(folder, "--summary", "--json").output)["wait_s"] == 170.0
    assert json.loads(_explain(folder, "--at", "25", "--json").output)["head"] == 2


def test_the_command_wants_one_question(folder):
    for words in ([], ["2", "--summary"], ["--summary", "--at", "3"]):
        result = _explain(folder, *words)
        assert result.exit_code == 2
        assert "give the ids of jobs, or one of" in " ".join(result.output.split())
