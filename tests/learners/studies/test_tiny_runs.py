"""Every `simkit reproduce` at its smallest: to the page, and nothing is done twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl
import pytest
from trace_files import DATA, real_file
from trainings import workplace

from simkit import plugins
from simkit.learners.run_times.burst_classifier import Settings
from simkit.learners.studies import schedqrm
from simkit.learners.studies.deepjs.judge import BOUND, TEST
from simkit.learners.studies.deepjs.trainings import DeepJSSetting
from simkit.learners.studies.deeprm.trainings import DeepRMSetting, Ours
from simkit.learners.studies.green.trainings import Size
from simkit.learners.studies.logs.trainings import LOGS
from simkit.learners.studies.logs.trainings import QUICK as QUICK_LOGS
from simkit.learners.studies.rlscheduler.logs import RLSchedulerSetting
from simkit.learners.studies.schedqrm.classifiers import SPLITS, BurstSetting
from simkit.learners.studies.schedqrm.logs import CANDIDATES, LogSetting
from simkit.learners.studies.schedqrm.trainings import PPO, WHOLE, SchedQRMSetting
from simkit.learners.studies.sofia.trainings import SofiaSetting

GREEN = Size(seeds=1, share=0.01, games=4, held_out=2, streams=6, tuning=2, hours=60, episodes=1)


class Tiny(NamedTuple):
    """How a study is made tiny, and what its means must show."""

    size: Any
    shows: Callable[[pl.DataFrame], Any]
    needs: str = ""
    """A file below SIMKIT_DATA that it reads."""
    slow: bool = True
    """Half a minute and more; the others are thorough."""


def makespans_are_above_the_bound(means: pl.DataFrame) -> bool:
    here = means.filter(pl.col("case") == TEST)
    bound = here.filter(pl.col("arm") == BOUND)["makespan"].item()
    return len(here) > 20 and bool((here["makespan"] >= bound).all())


def rules_finish_all_jobs(means: pl.DataFrame) -> bool:
    of_rules = means.filter(pl.col("seed").is_null(), pl.col("unfinished").is_not_null())
    return (
        of_rules["unfinished"].sum() == 0
        and bool((means["slowdown"].drop_nulls() >= 1).all())
        and {"SJF", "trained for completion time", "agents of 70 %"} <= set(means["arm"])
    )


def nobody_is_above_the_bound(means: pl.DataFrame) -> bool:
    here = means.filter(case="leave, 10 units")
    (bound,) = here.filter(arm="bound")["value"]
    return len(here) > 10 and bool((here["value"] <= bound).all())


TINY = {
    "cocorl": Tiny(replace(GREEN, seeds=2), lambda means: set(means["case"]) >= {20, 120}),
    "deepjs": Tiny(
        DeepJSSetting(
            trained=2, judged=(201, 205), seeds=2, ten_machines_seeds=1, program_seeds=1,
            repeats=1, alone=1, generations=1, variant_repeats=1, draws=2, machines=(7,),
            less={"deepjs": {"rollouts": 3}, "fitness": {"candidates": 4, "job_sets": 2}},
        ),
        makespans_are_above_the_bound, "alibaba/cloudsimpy_jobs.csv.gz", slow=False,
    ),
    "deeprm": Tiny(
        DeepRMSetting(
            trained=(70, 130), judged=(70, 130), seeds=1, iterations=1, long_iterations=1,
            job_sets=2, rollouts=2, held_out=2, all_loads=Ours(1, 60, 0.02),
            alone=Ours(1, 2, 0.01), choosing=2, judging=4,
        ),
        rules_finish_all_jobs, slow=False,
    ),
    "launchpad": Tiny(
        replace(GREEN, share=0.001, streams=10, episodes=2),
        lambda means: {"pool 5", "pool 15"} <= set(means["case"]), slow=False,
    ),
    "logs": Tiny(
        replace(QUICK_LOGS, windows=3, cases=(LOGS[1], LOGS[-1]), estimates=("modal",)),
        lambda means: {"bound", "SAF, modal", "ppo of KTH-SP2"} <= set(means["arm"]),
        "swf/KTH-SP2-1996-2.1-cln.swf.gz",
    ),
    "rare": Tiny(GREEN, nobody_is_above_the_bound),
    "rlscheduler": Tiny(
        RLSchedulerSetting(
            seeds=1, iterations=1, windows=4, candidates=4, units=(0,), others=3, theirs=1,
            their_iterations=1,
        ),
        lambda means: {"fcfs", "hold"} <= set(means["arm"]), "swf/HPC2N-2002-2.2-cln.swf.gz",
    ),
    "schedqrm": Tiny(
        schedqrm.Size(
            BurstSetting(
                dict.fromkeys(SPLITS, 1), (0.5,), 240, Settings(passes=2),
                Settings((8,), passes=2), {"n_estimators": 5},
            ),
            SchedQRMSetting(1, 2, 60, 6, ("paper", WHOLE, PPO), 2),
            LogSetting(1, tuple(CANDIDATES), 0.002, 0.0),
        ),
        lambda means: (means["slowdown"].drop_nulls() >= 1).all(), "swf/HPC2N-2002-2.2-cln.swf.gz",
    ),
    "sofia": Tiny(
        SofiaSetting(
            seeds=2, iterations=3, pilot_iterations=1, held_out_every=1, batches={0.7: 1, 0.4: 1},
            timed=1, arguments={"job_sets": 2, "rollouts": 2, "held_out_sets": 2},
            workload={"positions": 12},
        ),
        lambda means: means["unfinished"].drop_nulls().sum() == 0, slow=False,
    ),
}  # fmt: skip
"""Study → how it is tried."""


def test_every_study_is_tried():
    assert plugins.names("simkit.reproductions") == sorted(TINY)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=getattr(pytest.mark, "slow" if tiny.slow else "thorough"))
     for name, tiny in TINY.items()],
)  # fmt: skip
def test_a_tiny_run_to_the_page(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    tiny, study = TINY[name], plugins.find("simkit.reproductions", name)
    real_file(tiny.needs)
    said = list[str]()
    place = workplace(tmp_path, said)
    page = study.carry_out(place, tiny.size)
    for written in place.pages.glob("*.md"):
        text = written.read_text("utf-8")
        assert not re.findall(r"\b(?:nan|None)\b|\{\{", text)
        links = re.findall(r"\]\(([\w-]+\.\w+)\)", text)
        assert all((place.pages / link).is_file() for link in links)
    assert tiny.shows(pl.read_csv(place.pages / f"{name}.csv", infer_schema_length=None))
    files = [
        path for path in place.work.rglob("*.*") if path.suffix in (".safetensors", ".parquet")
    ]
    before, made = page.read_bytes(), {path: path.stat().st_mtime_ns for path in files}
    said.clear()
    study.carry_out(place, tiny.size)
    assert made
    assert page.read_bytes() == before
    assert not [line for line in said if line.startswith(("recorded", "judged"))]
    assert {path: path.stat().st_mtime_ns for path in made} == made
