"""Times of jobs are exact on the clock, up to 2**33 s after the trace's zero; beyond, a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.experiment.api import simulate
from simkit.traces.swf import read_swf
from simkit.units import LATEST_S, LONGEST_S, TIME_GRID
from simkit.verify import verify_run
from simkit.workload import Workload

ROW = "{job} {submit} -1 {run} 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"


def workload(submit: list[float], run: list[float]) -> Workload:
    return Workload.from_jobs({
        "job_id": np.arange(len(submit)), "submit_time_s": np.array(submit, dtype=np.float64),
        "run_time_s": np.array(run, dtype=np.float64), "processors": np.ones(len(submit)),
    })  # fmt: skip


def test_the_grid_is_exact_up_to_the_latest_instant() -> None:
    assert LATEST_S - TIME_GRID < LATEST_S
    assert (LATEST_S - TIME_GRID) + TIME_GRID == LATEST_S
    assert LATEST_S + TIME_GRID == LATEST_S  # here it ends


@pytest.mark.parametrize(
    ("submit", "run"),
    [([0.0, LATEST_S - 1], [1.0, 1.0]), ([-LONGEST_S], [LONGEST_S]), ([LONGEST_S], [LONGEST_S])],
)
def test_jobs_within_the_clock(submit: list[float], run: list[float]) -> None:
    assert len(workload(submit, run)) == len(submit)


@pytest.mark.parametrize(
    ("submit", "run", "remedy"),
    [
        ([0.0, LATEST_S + 1], [1.0, 1.0], "take fewer jobs, or compress the arrivals"),
        ([0.0, LATEST_S - 1], [1.0, 2.0], "take fewer jobs, or compress the arrivals"),
        ([-LONGEST_S - 1], [1.0], "take fewer jobs"),
        ([1e12, 1e12 + 5], [1.0, 1.0], "look like Unix times: subtract that of the first"),
    ],
)
def test_jobs_beyond_the_clock(submit: list[float], run: list[float], remedy: str) -> None:
    with pytest.raises(TraceError, match=rf"times are exact from .* \(272 years\) .* {remedy}"):
        workload(submit, run)


LONG: dict[str, Any] = {
    # as long as five million jobs of the Lublin-Feitelson model, which last 144 years
    "workload": {"type": "poisson", "jobs": 200, "processors": 8, "rate_per_s": 4.4e-8},
}


def test_a_generated_log_of_more_than_a_century_runs_and_is_audited(tmp_path: Path) -> None:
    run = simulate(LONG, output=tmp_path / "run")
    assert run.jobs["submit_time_s"].max() > LONGEST_S
    assert run.jobs["status"].unique().to_list() == ["finished"]
    audit = verify_run(tmp_path / "run")
    assert audit.ok, audit


def test_the_same_log_as_swf(tmp_path: Path) -> None:
    log = tmp_path / "long.swf"
    rows = [
        (1, 0, 10),
        (2, 2**32 + 10, 10),
        (3, 2**33 - 10, 10),
        (4, 2**33 - 10, 11),
        (5, 5, 2**32 + 1),
    ]
    log.write_text("".join(ROW.format(job=j, submit=s, run=r) for j, s, r in rows))
    assert read_swf(log).workload.job_id.tolist() == [1, 2, 3]
    simulate({"workload": {"type": "swf", "path": str(log)}, "cluster": {"processors": 4}},
             output=tmp_path / "run")  # fmt: skip
    assert verify_run(tmp_path / "run", inputs=[tmp_path]).ok
