"""A first scenario drops no job, whatever columns a sacct table has."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import simkit
from simkit.scenario.first_scenario import first_scenario
from simkit.traces.sacct import SacctLog

ALWAYS = ["JobID", "Partition", "Submit", "Elapsed", "Timelimit", "AllocCPUS", "AllocTRES"]
SOMETIMES = ["Start", "End", "NNodes", "NodeList", "ReqMem"]


def made_up_table(draw: random.Random) -> str:
    """Return jobs of one to four partitions on some of twenty machines, with random columns."""
    columns = ALWAYS + [name for name in SOMETIMES if draw.random() < 0.7]
    tells_gpus, tells_memory = draw.random() < 0.7, draw.random() < 0.7
    unnamed = draw.choice((0, 0.1, 0.5, 0.95))
    partitions = draw.choice((["a"], ["a", "b"], ["a", "b", "c", ""]))
    now, lines = datetime(2023, 12, 1), ["|".join(columns)]
    for number in range(60):
        now += timedelta(seconds=draw.randrange(900))
        start = now + timedelta(seconds=draw.randrange(5000))
        seconds, machines = draw.randrange(1, 9000), draw.choice((1, 1, 2, 3, 5))
        first, gpus = draw.randrange(1, 20), draw.choice((0, 0, 1, 2, 3, 4, 7))
        processors = draw.randrange(machines, 40)
        tres = f"cpu={processors}" + f",gres/gpu={gpus}" * (tells_gpus and gpus > 0)
        memory = draw.choice(("", ",mem=0", f",mem={draw.randrange(1, 90_000)}M", ",mem=7.5G"))
        tres += memory * tells_memory + f",node={machines}" * (draw.random() < 0.95)
        row = {
            "JobID": str(number), "Partition": draw.choice(partitions), "Submit": now.isoformat(),
            "Start": start.isoformat(), "End": (start + timedelta(seconds=seconds)).isoformat(),
            "Elapsed": f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}",
            "Timelimit": draw.choice(("UNLIMITED", "01:00:00", "")), "AllocCPUS": str(processors),
            "NNodes": str(machines) if draw.random() < 0.9 else "",
            "NodeList": f"n[{first}-{first + machines - 1}]",
            "AllocTRES": tres, "ReqMem": draw.choice(("0", "4G", "2Gc", "0n")),
        }  # fmt: skip
        if draw.random() < unnamed:
            row["NodeList"] = draw.choice(("None assigned", "", "n[1-"))
        lines.append("|".join(row[name] for name in columns))
    return "\n".join(lines) + "\n"


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_no_job_is_dropped(tmp_path: Path, seed: int) -> None:
    log, target = tmp_path / "sacct.txt", tmp_path / "first.yaml"
    log.write_text(made_up_table(random.Random(seed)))
    target.write_text(first_scenario(SacctLog.of(path=log), target).text)
    run = simkit.simulate(target)
    assert run.jobs["status"].to_list() == ["finished"] * 60
