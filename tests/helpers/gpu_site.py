"""The sacct output of a made-up site with gpus, and what its jobs used, counted by a plain loop."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("Europe/Berlin")
COLUMNS = (
    "JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "Submit", "Start", "End",
    "Elapsed", "Timelimit", "AllocCPUS", "ReqCPUS", "NNodes", "ReqMem", "AllocTRES", "ReqTRES",
)  # fmt: skip
Row = dict[str, str]


def made_up_site(jobs: int, seed: int) -> list[Row]:
    """Return rows as sacct prints them: jobs, tasks of arrays, steps, attempts, waiting jobs."""
    draw = random.Random(seed)
    submit = datetime(2023, 12, 28, 9, tzinfo=ZONE)  # on into January
    rows: list[Row] = []
    for number in range(1000, 1000 + jobs):
        submit += timedelta(seconds=draw.randrange(2400))
        shape = draw.choice((one_gpu_machine, one_gpu_machine, two_machines, no_gpu, all_memory))
        row = {"JobID": str(number), "JobIDRaw": str(number), "User": draw.choice("abc")}
        row |= {"Account": "physics", "QOS": "normal", "ReqTRES": ""} | shape(draw)
        row["Timelimit"] = draw.choice(("UNLIMITED", "1-00:00:00", "02:00:00"))
        if draw.random() < 0.2:
            row["JobID"] = f"{number - number % 7}_{number % 7}"  # a task of an array
        queued = submit
        if draw.random() < 0.1:  # a machine failed, and the job began again
            failed = timed(row, submit, draw, "NODE_FAIL")
            rows += with_steps(failed)
            queued = datetime.fromisoformat(failed["End"]).replace(tzinfo=ZONE)
        state = draw.choice(("COMPLETED", "TIMEOUT", "FAILED"))
        rows += with_steps(timed(row, queued, draw, state))
    waiting = dict.fromkeys(COLUMNS, "") | row
    waiting |= {"JobID": "9000_[1-9]", "JobIDRaw": "9000", "State": "PENDING", "Start": "Unknown",
                "End": "Unknown", "Submit": clock(submit), "Elapsed": "00:00:00"}  # fmt: skip
    return [*rows, waiting]


def one_gpu_machine(draw: random.Random) -> Row:
    cpus, gpus, gib = draw.choice((1, 4, 6, 7, 16)), draw.randint(1, 4), draw.choice((8, 31, 60.5))
    kind = draw.choice(("a100", "v100"))
    told = {
        "total": f"gres/gpu={gpus}",
        "type": f"gres/gpu:{kind}={gpus}",
        "both": f"gres/gpu:{kind}={gpus},gres/gpu={gpus}",
    }[draw.choice(("total", "type", "both"))]
    tres = f"billing={cpus},cpu={cpus},{told},mem={gib:.2f}G,node=1"
    return sized("gpu", cpus, 1, f"{gib:.2f}G", tres)


def two_machines(draw: random.Random) -> Row:
    cpus = draw.choice((2, 16, 32))
    tres = f"cpu={cpus},energy={draw.randrange(9**9)},gres/gpu:a100=8,gres/gpu=8,mem=64G,node=2"
    return sized("gpu", cpus, 2, "32Gn", tres)


def no_gpu(draw: random.Random) -> Row:
    cpus = draw.randint(1, 32)
    return sized("cpu", cpus, 1, f"{cpus * 4000}M", f"cpu={cpus},mem={cpus * 4000}M,node=1")


def all_memory(draw: random.Random) -> Row:
    known = draw.choice((",mem=128G", ",mem=0", ""))
    return sized("gpu", 4, 1, draw.choice(("0", "0n", "0c")), f"cpu=4,gres/gpu=2{known},node=1")


def sized(partition: str, cpus: int, machines: int, memory: str, tres: str) -> Row:
    return {"Partition": partition, "AllocCPUS": str(cpus), "ReqCPUS": str(cpus),
            "NNodes": str(machines), "ReqMem": memory, "AllocTRES": tres}  # fmt: skip


def timed(row: Row, submit: datetime, draw: random.Random, state: str) -> Row:
    seconds = draw.randrange(60, 7200)
    start = submit + timedelta(seconds=draw.randrange(9000))
    times = {"Submit": clock(submit), "Start": clock(start),
             "End": clock(start + timedelta(seconds=seconds))}  # fmt: skip
    elapsed = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return row | times | {"State": state, "Elapsed": elapsed}


def clock(when: datetime) -> str:
    return when.astimezone(ZONE).strftime("%Y-%m-%dT%H:%M:%S")


def with_steps(row: Row) -> list[Row]:
    own = {"User": "", "Partition": "", "QOS": "", "Timelimit": "", "ReqMem": ""}
    steps = [
        row | own | {"JobID": f"{row['JobID']}.{step}", "JobIDRaw": f"{row['JobIDRaw']}.{step}"}
        for step in ("batch", "extern", "0")
    ]
    return [row, *steps]


def by_hand(rows: list[Row]) -> dict[str, float]:
    """Return resource-seconds of the jobs by a plain loop over the texts."""
    used = {"jobs": 0.0, "gpu": 0.0, "processors": 0.0, "mem": 0.0}
    for row in rows:
        if "." in row["JobID"] or row["Start"] == "Unknown":
            continue
        hours, minutes, seconds = map(int, row["Elapsed"].split(":"))
        ran = hours * 3600 + minutes * 60 + seconds
        typed = total = 0
        gib = 0.0
        for entry in row["AllocTRES"].split(","):
            key, value = entry.split("=")
            if key == "gres/gpu":
                total = int(value)
            elif key.startswith("gres/gpu:"):
                typed += int(value)
            elif key == "mem" and value != "0":
                gib = float(value[:-1]) / (1024 if value.endswith("M") else 1)
        used["jobs"] += 1
        used["gpu"] += (total or typed) * ran
        used["processors"] += int(row["AllocCPUS"]) * ran
        used["mem"] += (gib or 128) * ran  # not told: all that a machine with gpus has
    return used


def write_sacct(rows: list[Row], path: Path) -> None:
    """Write rows as ``sacct --parsable2`` prints them."""
    lines = ["|".join(COLUMNS), *("|".join(row[name] for name in COLUMNS) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
