"""What `simkit verify` prints: checks, violations, and which rules were not audited."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest


def test_verify_finds_nothing_then_what_was_changed(simkit):
    simkit("run", "quickstart", "-o", "run")
    good = simkit("verify", "run")
    assert good.code == 0
    assert re.search(r"run: every rule holds \(\d+ rules hold, \d+ do not apply\)\n$", good.out)
    table = Path("run/jobs.parquet")
    jobs = pl.read_parquet(table).with_columns(start_time_s=pl.col("start_time_s") - 1e6)
    jobs.write_parquet(table)
    bad = simkit("verify", "run", "--json")
    assert bad.code == 1
    assert {c["name"] for c in json.loads(bad.out)["checks"] if c["violations"]} >= {
        "digest",
        "causality",
    }


def test_verify_says_which_rules_it_did_not_audit_and_why(simkit):
    simkit("run", "quickstart", "-o", "run", "--set", "policy.order=multifactor")
    audit = simkit("verify", "run")
    said = " ".join(audit.out.split())
    assert "not audited: because the order multifactor is not replayed" in said
    assert "does not apply" not in audit.out
    told = " ".join(simkit("verify", "run", "--verbose").out.split())
    assert "does not apply: the order is multifactor, not fcfs" in told
    said = (
        r"every rule that was audited holds \(\d+ rules hold, \d+ do not apply, 1 was not audited\)"
    )
    assert re.search(f"run: {said}\n$", audit.out)
    checks = {c["name"]: c for c in json.loads(simkit("verify", "run", "--json").out)["checks"]}
    assert checks["schedule"]["not_audited"] == "the order multifactor is not replayed"
    assert checks["schedule"]["not_applicable"] is None
    assert checks["fcfs-order"]["not_applicable"] == "the order is multifactor, not fcfs"
    assert (audit.code, simkit("verify", "run", "--strict").code) == (0, 5)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_long_reason_of_verify_cuts_no_name_and_no_count(
    simkit, monkeypatch, tmp_path_factory, width
):
    log = tmp_path_factory.mktemp("elsewhere") / "log.swf"
    rows = [f"{n} 0 -1 9 1 -1 -1 1 9 -1 1 1 -1 -1 -1 -1 -1 -1\n" for n in range(1, 1201)]
    log.write_text("; MaxProcs: 4\n" + "".join(rows))
    Path("s.yaml").write_text(f"workload: {{type: swf, path: {log}}}\n")
    simkit("run", "s.yaml", "-o", "run")
    monkeypatch.setattr("simkit.cli.results.READ_WIDTH", width)
    lines = simkit("verify", "run", "--verbose").out.splitlines()
    assert lines[0].split() == ["Check", "examined", "violations", "rule"]
    rows = [line.split()[:3] for line in lines if re.match(r"\S+ +[\d,]+ +[\d,-]+ ", line)]
    checks = json.loads(simkit("verify", "run", "--json").out)["checks"]
    skipped = [check["not_applicable"] or check["not_audited"] for check in checks]
    assert rows == [
        [check["name"], f"{check['examined']:,}", "-" if skip else f"{check['violations']:,}"]
        for check, skip in zip(checks, skipped, strict=True)
    ]
    said = " ".join(" ".join(lines).split())
    assert "if it is what the run should have read, add --inputs with its folder run-info " in said
    assert max(map(len, lines[:-1])) <= width


def test_verify_strict_passes_only_if_every_rule_was_audited_and_holds(simkit):
    simkit("run", "quickstart", "-o", "run")
    assert simkit("verify", "run", "--strict").code == 0
    manifest = Path("run/run.json").read_text(encoding="utf-8")
    Path("run/run.json").write_text(manifest.replace('"easy"', '"none"'), encoding="utf-8")
    assert simkit("verify", "run", "--strict").code == 1
