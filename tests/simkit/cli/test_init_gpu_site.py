"""From the sacct output of a site with gpus to its utilisation: init, run, verify, by hand."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path

import pytest
from gpu_site import Row, by_hand, made_up_site, write_sacct

import simkit as package
from simkit.scenario.yaml_document import load_scenario


def last_attempts(rows):
    """Return the rows that ran, of each job that which started last."""
    last: dict[str, Row] = {}
    for row in rows:
        if "." in row["JobID"] or row["Start"] == "Unknown":
            continue
        job = row["JobIDRaw"]
        if job not in last or row["Start"] > last[job]["Start"]:
            last[job] = row
    return list(last.values())


def peak_by_hand(rows, partition):
    """Return the most processors and gpus in use at the start of any row of a partition."""
    ran = [r for r in rows if "." not in r["JobID"] and r["Start"] != "Unknown"]
    ran = [row for row in ran if row["Partition"] == partition]
    most = {"processors": 0, "gpu": 0}
    for row in ran:
        now = [r for r in ran if r["Start"] <= row["Start"] < r["End"]]
        most["processors"] = max(most["processors"], sum(int(r["AllocCPUS"]) for r in now))
        most["gpu"] = max(most["gpu"], sum(map(gpus_of, now)))
    return most


def gpus_of(row):
    texts = [text.split("=") for text in row["AllocTRES"].split(",") if "gres/gpu" in text]
    return int(texts[0][1]) if texts else 0


@pytest.mark.parametrize("attempts", ["all", "last"])
def test_init_run_and_verify_count_the_gpus_of_a_site(simkit, attempts):
    rows = made_up_site(jobs=350, seed=11)
    assert {row["Submit"][:4] for row in rows} == {"2023", "2024"}
    write_sacct(rows, Path("site.txt"))
    counted = rows if attempts == "all" else last_attempts(rows)

    zone = ("--set", "time_zone=Europe/Berlin", "--set", f"attempts={attempts}")
    assert simkit("init", "site.txt", *zone).code == 0
    machines = load_scenario(Path("site.yaml")).cluster.machines
    assert machines is not None
    groups = {group.name: group for group in machines}
    gpu, cpu = peak_by_hand(counted, "gpu"), peak_by_hand(counted, "cpu")
    assert groups["gpu"].capacity == {"processors": 16, "gpu": 4, "mem": 128}
    assert groups["gpu"].count == ceil(gpu["gpu"] / 4) >= ceil(gpu["processors"] / 16)
    assert groups["cpu"].capacity["processors"] == 32
    assert groups["cpu"].count == ceil(cpu["processors"] / 32)
    text = Path("site.yaml").read_text()
    assert f"# peak in use in the log: {gpu['gpu']} gpu on 20" in text
    assert f"# peak in use in the log: {gpu['processors']} processors on 20" in text
    assert f"# peak in use in the log: {cpu['processors']} processors on 20" in text
    facts = json.loads(simkit("trace", "info", "site.txt", *zone, "--json").out)
    peaks = {row["name"]: row["peak"] for row in facts["jobs by partition"]}
    for name, peak in (("gpu", gpu), ("cpu", cpu)):
        assert {key: peaks[name][key] for key in peak} == peak

    assert simkit("run", "site.yaml", "-o", "run").code == 0
    run = package.open_run("run")
    used = by_hand(counted)
    assert run.jobs["status"].to_list() == ["finished"] * int(used["jobs"])
    span = run.jobs["end_time_s"].max() - run.jobs["submit_time_s"].min()
    gpus = 4 * groups["gpu"].count
    found = run.metrics["utilisation_gpu"]["value"]
    assert found == pytest.approx(used["gpu"] / (gpus * span), rel=1e-9)
    assert 0.1 < found < 1
    audit = simkit("verify", "run")
    assert audit.code == 0, audit.out
