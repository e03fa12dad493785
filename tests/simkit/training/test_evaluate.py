"""`simkit evaluate`: the same job sets for everybody, and every job counted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simkit.analysis.intervals import set_interval
from simkit.errors import PluginError, RunError, ScenarioError, SimkitError
from simkit.experiment.api import simulate
from simkit.results.run_writer import claimed
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training.evaluate import (
    Candidate,
    evaluate,
    policy_candidate,
)
from simkit.training.held_out import held_out, metric_of_agents, parse_seeds
from simkit.training.judge import judge, judged_metric

NEVER = '''
class Never:
    """Starts short jobs alone; the others wait for ever."""
    def reset(self, info, rng):
        pass
    def schedule(self, state):
        from simkit.policy import Place
        for task in list(state.queue):
            if task.estimate_s < 2000 and (on := state.fit(task)):
                yield Place(task, on)
'''


@pytest.fixture
def scenario():
    return load_scenario(
        {
            "name": "small",
            "workload": {"type": "lublin", "jobs": 40, "processors": 16},
            "cluster": {"processors": 16},
            "estimates": "actual",
        }
    )


def judged(found):
    return {one.label: one for one in found.candidates}


def test_means_and_differences_are_those_of_the_runs(scenario):
    names = ("sjf", "fcfs", "fcfs+easy")
    found = evaluate(scenario, [*map(policy_candidate, names)], seeds=range(5), workers=1)
    sums = {
        name: [
            simulate(scenario, policy=dict(policy_candidate(name).policy), seed=seed)
            .jobs["turnaround_time_s", "run_time_s"]
            .select(pl.col("turnaround_time_s") / pl.col("run_time_s"))
            .to_series()
            .to_numpy()
            for seed in range(5)
        ]
        for name in names
    }
    by_label = judged(found)
    for name, sets in sums.items():
        assert by_label[name].set_mean == pytest.approx(np.mean([s.mean() for s in sets]))
        assert by_label[name].pooled_mean == pytest.approx(np.concatenate(sets).mean())
    best = min(names, key=lambda name: by_label[name].set_mean)
    assert found.reference == best
    for name in set(names) - {best}:
        apart = [a.mean() - b.mean() for a, b in zip(sums[name], sums[best], strict=True)]
        assert by_label[name].difference == pytest.approx(np.mean(apart))
        assert by_label[name].wins == sum(x < 0 for x in apart)
    assert by_label[best].difference is None


def test_the_log_ratio_is_paired_set_by_set(scenario):
    found = evaluate(
        scenario, [policy_candidate("sjf"), policy_candidate("fcfs")], sets=6, workers=1
    )
    rows = found.frame().select("label", mean=pl.col("sum") / pl.col("jobs"))
    means = {name: rows.filter(label=name)["mean"].to_numpy() for name in ("sjf", "fcfs")}
    (one,) = (c for c in found.candidates if c.label != found.reference)
    ratios = np.log(means[one.label] / means[found.reference])
    assert one.log_ratio == pytest.approx(ratios.mean())
    assert one.log_ratio_interval == set_interval(ratios, np.ones(6))
    apart = means[one.label] - means[found.reference]
    assert (one.wins, one.losses) == ((apart < 0).sum(), (apart > 0).sum())
    assert judged(found)[found.reference].log_ratio is None


def test_jobs_that_never_end_count_with_their_slowdown_so_far(tmp_path, scenario):
    (tmp_path / "never.py").write_text(NEVER)
    text = f"{tmp_path}/never.py:Never"
    found = judged(evaluate(scenario, [policy_candidate(text)], sets=5, workers=1))["Never"]
    assert 0 < found.unfinished < found.submitted == 5 * 40
    run = simulate(scenario, policy={"path": text}, seed=0)
    jobs = run.jobs
    last = max(run.timeline["time_s"].max(), jobs["end_time_s"].max())
    end = jobs["end_time_s"].fill_null(last)
    slowdown = (end - jobs["submit_time_s"]) / jobs["trace_run_time_s"]
    assert jobs["end_time_s"].null_count() > 0
    told = judge(run, judged_metric("slowdown"), 10.0)
    assert told["sum"] == pytest.approx(slowdown.sum())
    assert told["unfinished"] == jobs["end_time_s"].null_count()
    bounded = judge(run, judged_metric("bounded_slowdown"), 10.0)
    wait = jobs["wait_time_s"].fill_null(last - jobs["submit_time_s"])
    least = jobs["trace_run_time_s"].clip(lower_bound=10.0)
    expected = ((wait + jobs["trace_run_time_s"]) / least).clip(lower_bound=1.0)
    assert (bounded["jobs"], bounded["sum"]) == (len(jobs), pytest.approx(expected.sum()))


def test_numbers_of_a_distribution_count_jobs_that_never_end(tmp_path, scenario):
    (tmp_path / "never.py").write_text(NEVER)
    run = simulate(scenario, policy={"path": f"{tmp_path}/never.py:Never"}, seed=0)
    jobs, last = run.jobs, max(run.timeline["time_s"].max(), run.jobs["end_time_s"].max())
    assert jobs["end_time_s"].null_count() > 0
    wait = jobs["wait_time_s"].fill_null(last - jobs["submit_time_s"]).to_numpy()
    for name, value in (("p99", np.quantile(wait, 0.99)), ("max", wait.max())):
        told = judge(run, judged_metric(f"wait_time_s.{name}"), 10.0)
        assert (told["sum"], told["jobs"]) == (pytest.approx(value), 1)


def test_further_metrics_stand_beside_the_first(scenario):
    further = ("wait_time_s.p99", "makespan_s", "utilisation_processors", "jobs.finished")
    rules = [policy_candidate("sjf"), policy_candidate("fcfs")]
    found = evaluate(scenario, rules, sets=3, beside=further, workers=1)
    plain = evaluate(scenario, rules, sets=3, workers=1)
    assert dict(found.beside) == dict(zip(further, ("s", "s", "1", "jobs"), strict=True))
    assert [one.set_mean for one in found.candidates] == [o.set_mean for o in plain.candidates]
    for rule in ("sjf", "fcfs"):
        runs = [simulate(scenario, policy=rule, seed=seed).metrics for seed in range(3)]
        mine = judged(found)[rule].beside
        assert mine["wait_time_s.p99"] == pytest.approx(
            np.mean([run["wait_time_s"]["p99"] for run in runs])
        )
        for name, key in (("makespan_s", "value"), ("utilisation_processors", "value")):
            assert mine[name] == pytest.approx(np.mean([run[name][key] for run in runs]))
        assert mine["jobs.finished"] == 40
    assert plain.identity != found.identity
    assert set(further) <= set(found.frame().columns)


def test_a_metric_that_its_runs_lack_is_refused(scenario):
    with pytest.raises(RunError, match=r"--metric carbon_kg: a run of this scenario has no carbon"):
        evaluate(scenario, [policy_candidate("sjf")], sets=1, metric="carbon_kg", workers=1)


def test_agents_are_judged_by_what_their_training_selected_by(tmp_path):
    for name, told in (("old", {}), ("new", {"judged_by": "bounded_slowdown"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.json").write_text(json.dumps(told))
    assert metric_of_agents([]) == metric_of_agents([tmp_path / "old"]) == "slowdown"
    assert metric_of_agents([tmp_path / "old", tmp_path / "new"]) == "bounded_slowdown"


def test_rejected_jobs_are_counted(scenario):
    crowded = load_scenario(
        {**scenario.model_dump(mode="json"), "admission": {"slots": 1, "backlog": 0}}
    )
    found = judged(evaluate(crowded, [policy_candidate("fcfs")], sets=2, workers=1))["fcfs"]
    assert 0 < found.rejected <= found.unfinished


def test_the_reference_is_a_heuristic_even_if_an_agent_is_better(scenario):
    better = Candidate("agent", {"order": "sjf"}, "agent")
    worse = Candidate("policy", {"order": "ljf"})
    found = evaluate(scenario, [better, worse], sets=5, workers=1)
    assert found.reference == "ljf"
    one = judged(found)["agent"]
    assert one.difference is not None
    assert one.difference < 0
    assert one.difference_interval is not None
    assert one.difference_interval.low is not None
    assert one.difference_interval.low <= one.difference <= one.difference_interval.high  # type: ignore[operator]


def test_processes_give_the_same_as_one(scenario):
    candidates = [policy_candidate("sjf"), policy_candidate("fcfs")]
    alone = evaluate(scenario, candidates, sets=2, workers=1)
    assert evaluate(scenario, candidates, sets=2, workers=2) == alone


def test_a_log_gives_one_job_set_only():
    log = load_scenario({"workload": {"type": "swf", "path": "sample:lublin_1000"}})
    with pytest.raises(ScenarioError, match="the 3 job sets are the same"):
        evaluate(log, [policy_candidate("sjf")], sets=3, workers=1)
    assert evaluate(log, [policy_candidate("sjf")], sets=1, workers=1).sets == 1


def test_a_run_that_fails_is_told_with_its_set(tmp_path, scenario):
    (tmp_path / "bad.py").write_text(NEVER.replace("from simkit", "1 / 0; from simkit"))
    with pytest.raises(RunError, match=r"label Never, set 0, seed 0: .*ZeroDivisionError"):
        evaluate(scenario, [policy_candidate(f"{tmp_path}/bad.py:Never")], sets=2, workers=1)


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("sjf", {"order": "sjf"}),
        # an order before a fitness of that name; a fitness where there is no such order
        ("tetris", {"fitness": "tetris"}),
        ("fcfs+easy", {"order": "fcfs", "backfill": "easy"}),
        ("sjf+none+best-fit", {"order": "sjf", "backfill": "none", "placement": "best-fit"}),
        ("{fitness: packer}", {"fitness": "packer"}),
        ("package.module:Mine", {"name": "package.module:Mine"}),
    ],
)
def test_what_a_policy_may_be_called(text, section):
    assert policy_candidate(text) == Candidate("policy", section)


def test_a_policys_file_is_relative_to_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert policy_candidate("mine.py:Mine").policy == {"path": f"{tmp_path}/mine.py:Mine"}


def test_an_unknown_policy_is_told():
    with pytest.raises(PluginError, match="did you mean 'sjf'"):
        policy_candidate("sfj")


def test_equal_labels_are_numbered(scenario):
    twice = [policy_candidate("fcfs"), policy_candidate("fcfs")]
    assert [c.label for c in evaluate(scenario, twice, sets=1, workers=1).candidates] == [
        "fcfs", "fcfs#2",
    ]  # fmt: skip


def test_job_sets(scenario):
    assert held_out(scenario) == [{"seed": seed} for seed in range(10)]
    assert held_out(scenario, seeds=[3, 7]) == [{"seed": 3}, {"seed": 7}]
    assert parse_seeds("0..3, 7") == [0, 1, 2, 3, 7]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda s: held_out(s, sets=0), "at least 1"),
        (lambda s: held_out(s, seeds=[1, 1]), "must occur once"),
        (lambda s: held_out(s, sets=2, seeds=[1]), "both given"),
        (lambda s: parse_seeds("0-9"), "'0-9' is not a seed; write 0..9"),
        (lambda s: evaluate(s, []), "no candidate"),
        (lambda s: evaluate(s, [policy_candidate("sjf")], level=1.0), "lies between 0 and 1"),
        (lambda s: evaluate(s, [policy_candidate("sjf")], metric="slowdwn"), "mean 'slowdown'"),
    ],
)
def test_what_cannot_be_evaluated_is_told(scenario, call, text):
    with pytest.raises(SimkitError, match=text):
        call(scenario)


def test_set_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    one = np.ones(30)
    hits = 0
    for number in range(300):
        interval = set_interval(rng.exponential(size=30), one, resamples=400, seed=number)
        hits += interval.low <= 1.0 <= interval.high  # type: ignore[operator]
    assert 0.90 <= hits / 300 <= 0.985
    assert set_interval(one[:4], one[:4]).low is None


@pytest.fixture
def command(simkit):
    """Return a function that evaluates a scenario of thirty jobs."""
    Path("s.yaml").write_text(
        "workload: {type: lublin, jobs: 30, processors: 16}\ncluster: {processors: 16}\n"
    )
    return partial(simkit, "evaluate", "s.yaml", "-j", "1")


def test_the_command(command):
    words = ("-p", "sjf", "-p", "fcfs", "--seeds", "0..5")
    shown = command(*words).out
    assert "Reference" in shown
    assert "bootstrap over 6 job sets" in shown
    told = json.loads(command(*words, "--json", "-o", "out").out)
    assert told == json.loads(Path("out/evaluation.json").read_text())
    assert len(pl.read_parquet("out/sets.parquet")) == 12


OTHERS = [["-p", "sjf"], ["-p", "sjf", "-p", "fcfs", "--level", "0.9"], ["-p", "fcfs", "-p", "sjf"]]


def test_another_evaluation_is_replaced_by_force_alone(command):
    seeds = ("--seeds", "0..2", "-o", "out")
    mine = ["-p", "sjf", "-p", "fcfs", *seeds]
    assert [command(*mine).code for _ in range(2)] == [0, 0]
    before = Path("out/evaluation.json").read_bytes()
    others = [[*other, *seeds] for other in OTHERS]
    for other in (*others, [*mine, "--set", "walltime=kill"], [*mine, "-m", "wait_time_s"]):
        refused = command(*other)
        assert refused.code == 2
        assert "out: holds another evaluation" in refused.err
        assert Path("out/evaluation.json").read_bytes() == before
    assert command(*others[0], "--force").code == 0


def test_a_second_evaluation_into_a_folder_is_told_so_at_once(command):
    words = ("-p", "sjf", "-p", "fcfs", "--sets", "2", "-o", "out")
    with claimed(Path("out"), "an evaluation"):
        done = command(*words)
        assert done.code == 2
        assert done.err.startswith("out: another process is writing an evaluation there; wait")
        assert [*Path("out").iterdir()] == []
    assert not Path("out").exists()  # nothing was written, so nothing stays
    assert command(*words).code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "evaluation.json", "sets.parquet",
    ]  # fmt: skip


def test_sets_without_a_job_are_counted_and_left_out():
    found = evaluate(
        load_scenario(
            scenario_path("deeprm"), overrides={"workload": {"type": "deeprm", "rate": 0.0542}}
        ),
        [Candidate("policy", {"name": "slotted-sjf"}, "SJF")],
        sets=17,
        workers=1,
    )
    assert (found.sets, found.empty_sets) == (16, 1)
    assert found.candidates[0].submitted == sum(row["jobs"] for row in found.rows)


def test_the_bound_is_below_every_candidate_and_says_how_near_each_comes():
    scenario = load_scenario(scenario_path("quickstart"), overrides={"workload.window.jobs": 60})
    candidates = [policy_candidate(text) for text in ("fcfs", "fcfs+easy", "sjf+easy")]
    found = evaluate(
        scenario, candidates, windows=range(3), metric="turnaround_time_s", bound=True, workers=1
    )
    assert found.bound is not None
    best = min(one.set_mean for one in found.candidates)
    assert 0 < found.bound <= best
    for one in found.candidates:
        if one.label == found.reference:
            assert one.of_gap is None
        else:
            assert one.of_gap == pytest.approx((best - one.set_mean) / (best - found.bound))
    sets = found.frame().group_by("set").agg(pl.col("bound").unique().len().alias("bounds"))
    assert sets["bounds"].to_list() == [1, 1, 1]
    with pytest.raises(ScenarioError, match="carbon_kg: no bound is known"):
        evaluate(scenario, candidates, windows=range(3), metric="carbon_kg", bound=True)
