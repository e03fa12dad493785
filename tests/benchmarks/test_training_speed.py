"""How long trainings take: DeepRM's iteration, natural gradients, and chunks of a cloud trace.

    pytest tests/benchmarks/test_training_speed.py -m slow -s

One process, one thread; the figures are recorded in docs/benchmarks.md. Processor time is asserted,
which other work on the machine lengthens less than wall time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

from simkit.learners import deepjs, recipes
from simkit.learners.scorers.pair_model import chunks, play
from simkit.learners.scorers.pair_scorer import RULES
from simkit.learners.studies.deepjs.trainings import FULL, scenarios
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.trainings import COST, costs
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.task_table import read_task_table

SHARED = Path(__file__).resolve().parents[3] / "shared"
DATA = Path(os.environ.get("SIMKIT_DATA", SHARED / "data"))
TABLE = DATA / "alibaba" / "cloudsimpy_jobs.csv.gz"

pytestmark = pytest.mark.slow
needs_table = pytest.mark.skipif(not TABLE.is_file(), reason="no table; set SIMKIT_DATA")


@pytest.mark.parametrize(("load", "rate"), [(70, 0.379), (130, 0.705)])
def test_a_paper_iteration(load: int, rate: float) -> None:
    """A hundred job sets, twenty rollouts of each, and the update; the paper states 80 s on 24 cores."""
    scenario = load_scenario(
        scenario_path("deeprm"), overrides={"workload": {"type": "deeprm", "rate": rate}}
    )
    training = recipes.deeprm(scenario, {"held_out_sets": 1}, seed=0)
    taken = []
    for _ in range(6):
        before = time.process_time()
        decisions = training.step()["decisions"]
        taken.append((time.process_time() - before, decisions))
    processor_s, decisions = min(taken)
    print(f"\n{load} %: {processor_s:.2f} s of processor time, {decisions:,.0f} decisions")
    assert load != 70 or processor_s < 1.5


def test_a_natural_iteration_costs_at_most_twice_a_plain_one() -> None:
    """The study's own attempt took four times."""
    found = Results(costs(load_scenario(scenario_path("sofia")), {}, iterations=10))
    each, decisions = (
        {arm: found.mean(metric, arm, COST) for arm in ("gradient", "natural")}
        for metric in ("processor_ms", "decisions")
    )
    whole = each["natural"] / each["gradient"]
    decision = whole * decisions["gradient"] / decisions["natural"]
    print(f"\nplain {each['gradient']:.0f} ms, natural {each['natural']:.0f} ms an iteration")
    print(f"natural / plain: {whole:.2f} an iteration, {decision:.2f} a decision")
    assert whole < 2.0
    assert decision < 2.0


@needs_table
def test_deepjs_protocol_takes_less_than_an_hour_of_two_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """73.5 million decisions, rollouts and updates together: 17 minutes of a quiet core."""
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    scenario = scenarios(FULL)["deepjs-paper"][0]
    training = deepjs.begin(scenario, {"repeats": 4, "held_out": 0.0}, seed=0)
    training.step()  # numba compiles
    before = time.process_time()
    made = sum(training.step()["decisions"] for _ in range(7))
    per_s = made / (time.process_time() - before)
    whole_s = 73_500_000 / per_s
    print(f"\n{per_s:,.0f} decisions/s: the protocol takes {whole_s / 60:.0f} minutes")
    assert whole_s < 2 * 3600


@needs_table
def test_a_rule_places_instances() -> None:
    """390,000 instances a second of a quiet core."""
    workload = read_task_table(TABLE, submit="last").workload
    some = list(chunks(workload, np.array([[64.0, 1.0]] * 5)))[:40]
    play(some[0], RULES["balance"], 8)
    before = time.process_time()
    for chunk in some:
        play(chunk, RULES["balance"], 8)
    per_s = sum(chunk.total_instances for chunk in some) / (time.process_time() - before)
    print(f"\n{per_s:,.0f} instances/s")
    assert per_s > 50_000
