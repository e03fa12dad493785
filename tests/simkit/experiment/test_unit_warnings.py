"""Values that look like another unit than that of the machines: what a warning says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.experiment import prepare
from simkit.scenario.yaml_document import load_scenario


def warnings(
    folder: Path, rows: list[tuple[float, ...]], machine: dict[str, float], **keys: Any
) -> list[str]:
    """Return what is said of jobs of (run time, cpu, mem) on two such machines."""
    lines = [f"{n},{n},{','.join(map(str, row))}" for n, row in enumerate(rows)]
    path = folder / "jobs.csv"
    path.write_text("\n".join(("job_id,submit_time_s,run_time_s,cpu,mem", *lines, "")))
    scenario = {
        "workload": {"type": "jobs", "path": str(path)} | keys,
        "cluster": {"machines": [{"count": 2} | machine]},
    }
    told = prepare(load_scenario(scenario, single=True)).warnings
    return [text for text in told if "look like" in text]


SHARES, GIB = {"cpu": 64, "mem": 1}, {"cpu": 64, "mem": 256}
CASES: list[tuple[list[tuple[float, ...]], dict[str, float], list[tuple[str, str]]]] = [
    # rows of (run time, cpu, mem), machine, (what is told, remedy)
    ([(9, 100, 0.5), (9, 250, 0.1)], SHARES,
     [("they look like hundredths", "workload.factors: {cpu: 0.01}")]),
    ([(9, 16000, 0.5), (9, 250, 0.1)], SHARES,
     [("they look like thousandths", "workload.factors: {cpu: 0.001}")]),
    ([(9, 1, 2e9), (9, 2, 4e9)], SHARES,
     [("like shares of the largest one", "{mem: 1 / what the largest machine has}")]),
    ([(9, 1, 2e9), (9, 2, 4e9)], GIB, [("like bytes", "{mem: 9.313225746e-10}")]),
    ([(9, 1, 2048), (9, 2, 65536)], GIB, [("like MiB", "{mem: 0.0009765625}")]),
    ([(n * 1000, 1, 1) for n in range(1, 7)], GIB,
     [("they look like milliseconds", "workload.factors: {run_time_s: 0.001}")]),
    # jobs that are only too large, a unit that is right, few run times
    ([(9, 65, 0.5), (9, 97, 0.1)], SHARES, []),
    ([(9, 1, 300), (9, 1, 400)], GIB, []),
    ([(9, 50, 0.5), (9, 100, 0.1), (9, 5, 0.2)], SHARES, []),
    ([(n * 1000, 1, 1) for n in range(1, 4)], GIB, []),
    ([(n * 1000 + 1, 1, 1) for n in range(1, 7)], GIB, []),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "machine", "expected"), CASES)
def test_a_warning_says_what_values_look_like_and_the_remedy(
    tmp_path: Path, rows: Any, machine: Any, expected: Any
) -> None:
    told = warnings(tmp_path, rows, machine)
    assert len(told) == len(expected)
    for text, (looks, remedy) in zip(told, expected, strict=True):
        assert looks in text
        assert remedy in text


def test_the_remedy_silences_the_warning(tmp_path: Path) -> None:
    rows: list[tuple[float, ...]] = [(n * 1000, 50 * n + 50, 2e9) for n in range(1, 7)]
    assert len(warnings(tmp_path, rows, GIB)) == 3
    factors = {"cpu": 0.01, "mem": 9.313225746e-10, "run_time_s": 0.001}
    assert warnings(tmp_path, rows, GIB, factors=factors) == []


def test_the_run_keeps_the_warning_and_other_readers_get_another_remedy(tmp_path: Path) -> None:
    rows = "".join(f"{n} {n} -1 {n * 1000} 1 -1 -1 1 {'-1 ' * 10}\n" for n in range(1, 9))
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 8\n{rows}")
    workload = {"type": "swf", "path": str(tmp_path / "log.swf")}
    with pytest.warns(simkit.SimkitWarning) as caught:
        told = simkit.simulate({"workload": workload}).info["warnings"]
    assert told == [f"warning: {one.message}" for one in caught]
    assert "set workload.run_time_scale: 0.001" in " ".join(told)


def test_models_are_not_suspected() -> None:
    run = simkit.simulate({"workload": {"type": "uniform", "jobs": 9, "processors": 4,
                                        "offered_load": 0.5, "run_time_scale": 1000}})  # fmt: skip
    assert not any("look like" in text for text in run.info["warnings"])


def unasked(workload: dict[str, Any], machine: dict[str, float]) -> list[str]:
    """Return what is said of resources of such a machine that no job asks for."""
    scenario = {"workload": workload, "cluster": {"machines": [machine]}}
    told = prepare(load_scenario(scenario, single=True)).warnings
    return [text for text in told if "no job of the workload asks for any" in text]


def test_a_resource_that_no_job_asks_for_is_named_with_what_would_ask(tmp_path: Path) -> None:
    table, log, swf = tmp_path / "jobs.csv", tmp_path / "sacct.txt", tmp_path / "log.swf"
    table.write_text("job_id,submit_time_s,run_time_s,processors\n1,0,9,4\n")
    log.write_text("JobID|Submit|Elapsed|AllocCPUS\n1|2024-05-01T12:00:00|01:00:00|4\n")
    swf.write_text("1 0 0 60 4 -1 -1 4 60 -1 1 1 1 -1 1 1 -1 -1\n")
    machine = {"processors": 8.0, "gpu": 4.0}
    for workload, remedy in (
        ({"type": "sacct", "path": str(log)}, "if the log says it in AllocTRES or ReqTRES"),
        ({"type": "jobs", "path": str(table)}, "name its column in workload.resources"),
        ({"type": "swf", "path": str(swf)}, "an SWF log has processors alone"),
        ({"type": "poisson", "jobs": 3, "processors": 8, "rate_per_s": 0.1}, ""),
    ):
        (told,) = unasked(workload, machine)
        assert told.startswith("warning: gpu: the machines have gpu, but no job")
        assert remedy in told
        assert not unasked(workload, {"processors": 8.0})
