"""The study of logs: what agents have not seen, who is judged where, and its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from pool_replay import small_workload
from trace_files import DATA, needs_real
from trainings import workplace

from simkit.arrays import stream
from simkit.experiment.workload import read_trace
from simkit.learners.scorers.job_model import Hold
from simkit.learners.scorers.search import JobArguments, JobProblem
from simkit.learners.studies.logs import STUDY, judge, page
from simkit.learners.studies.logs.trainings import ALL, FULL, JOBS, LOGS, SCORER, agents, kept
from simkit.learners.studies.results import BOUND, Results
from simkit.learners.studies.rlscheduler.judge import HoldChoice
from simkit.learners.studies.trainings import digest_of
from simkit.traces.models.synthetic import ROUND_VALUES_S
from simkit.training.held_out import Unseen


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a workplace that has weights for each training of the full study."""
    (tmp_path / "swf").mkdir()
    for log in LOGS:
        (tmp_path / "swf" / f"{log.file}.swf.gz").touch()
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    monkeypatch.setattr(judge, "hold_of", lambda *_: HoldChoice("saf-p", Hold(600.0, 0.1)))
    found = workplace(tmp_path)
    for agent in agents(FULL):
        folder = kept(found, agent, FULL).folder / "agent"
        folder.mkdir(parents=True)
        (folder / "weights.safetensors").write_bytes(repr(agent).encode())
    return found


def judged(place) -> set[tuple[str, str, str]]:
    """Return arm, log and estimates of all that is judged."""
    return {
        (one.name, part.log.name, part.estimates)
        for part in judge.groups(place, FULL)
        for one in part.arms
    }


def test_agents_are_judged_at_home_and_where_none_was_trained(place):
    found = judged(place)
    trained = {log.name for log in LOGS if log.trained}
    learned = {one for one in found if one[0].startswith(("ppo", "evolution"))}
    at_home = {("ppo", log, known) for log in trained for known in judge.ESTIMATES}
    at_home |= {("evolution", log, "") for log in trained}
    away = {(f"ppo of {log}", new, "") for log in trained for new in ("CTC-SP2", "lublin_256")}
    everywhere = {(f"evolution, {ALL}", *rest) for arm, *rest in found if arm == "SAF"}
    assert learned == at_home | away | everywhere
    assert {known for arm, log, known in found if log == "lublin_256"} == {"", "modal"}


def test_other_weights_windows_or_rules_are_judged_anew(place):
    agent = next(group for group in judge.groups(place, FULL) if group.digest)
    rules = next(judge.groups(place, FULL))
    fewer = replace(rules, arms=rules.arms[1:])
    others = [agent, replace(agent, digest="0"), replace(agent, estimates="actual"), rules, fewer]
    parts = [agent.part(99), *(one.part(100) for one in others)]
    assert len({digest_of(part.depends_on) for part in parts}) == 6


@needs_real("swf", "SDSC-BLUE-2000-4.2-cln.swf.gz")
@pytest.mark.thorough
def test_nothing_is_learned_or_chosen_on_windows_that_are_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    everywhere = next(one for one in agents(FULL) if one.log == ALL)
    scenario = kept(workplace(tmp_path), everywhere, FULL).scenario
    chosen = JobArguments.model_validate(scenario.learn.all_arguments)
    problem = JobProblem(JobProblem.source_of(scenario, chosen), chosen, stream(0, "weights"))
    drawn = problem.source.draw(stream(0, "windows"), 400)
    for number, log in enumerate(FULL.trained):
        workload = read_trace(log.scenario.workload, 0).workload
        windows = Unseen(FULL.windows, JOBS, SCORER["held_out"]).windows_of(log.scenario)
        first = min(int(one["window"].partition("..")[0]) for one in windows)
        seen = [*drawn[number :: len(FULL.trained)], *judge._to_choose_on(log)]
        assert max(one.submit_s[-1] for one in seen) <= workload.submit_time_s[first]


def test_modal_requests_bound_run_times_by_round_values():
    run, modal = np.arange(1.0, 400.0), judge.Modal()
    modal.reset(small_workload([(1.0, each, 1, each, 0) for each in run]), np.random.default_rng(0))
    found = modal.estimates(0, 399)
    assert (found >= run).all()
    assert set(found.tolist()) <= set(ROUND_VALUES_S.tolist())


def results(**turnarounds) -> Results:
    """Return the results of a log: slowdowns are the turnarounds, waits and makespans alike."""
    arms = dict.fromkeys(page.ORDERS, 9.0) | turnarounds
    values = {arm: 3600.0 * value * (1 + np.arange(12) % 3) for arm, value in arms.items()}
    items = range(0, 6 * JOBS, JOBS // 2)
    bound = made_up({BOUND: values.pop(BOUND)}, "KTH-SP2", judge.TURNAROUND, items=items)
    others = made_up(values, "KTH-SP2", *judge.METRICS, items=items)
    return STUDY.results(pl.concat([others, bound]), {})


def test_shares_of_the_gap_begin_at_the_best_rule_with_requests():
    found = results(
        SAF=4.0, bound=2.0, ppo=3.0, **{"SAF, actual": 2.5, "ppo, actual": 2.5, "SAF, modal": 5.0}
    )
    known = [(row["known"], row["label"]) for row in page.knowledge(found)]
    assert known == [("", "requested, from SAF"), ("modal", "modal"), ("actual", "actual")]
    asked = [("SAF", ""), ("ppo", ""), ("SAF", "modal"), ("SAF", "actual"), ("f2", "actual")]
    shares = [page.share(found, "KTH-SP2", *each).partition(" (")[0] for each in asked]
    assert shares == ["", "50", "-50", "75", ""]
    (words,) = page.windows(found)
    counts = {"windows": "12", "blocks": "6", "gaps": "12"}
    assert words == {"log": "KTH-SP2", "best rule": "SAF", "fastest rule": "SAF", **counts}


@pytest.mark.parametrize(("turnaround", "no_worse"), [(3.0, True), (4.0, True), (5.0, False)])
def test_one_scorer_for_all_is_held_to_the_best_rule(turnaround, no_worse):
    found = results(SAF=4.0, bound=2.0, evolution=turnaround)
    assert page.is_no_worse(found, "evolution", "KTH-SP2") is no_worse
