"""How the auditor reads a log, and compares it with the jobs of a run."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from simkit.traces.swf import SwfLog
from simkit.verify import verify_run
from simkit.verify.inputs import OF_JOBS, read_log


def line(job: float = 1, submit: float = 0, run: float = 10, allocated: float = 2,
         requested: float = 3, limit: float = 20) -> str:  # fmt: skip
    rest = " ".join(["-1"] * 9)
    return f"  {job} {submit} -1 {run} {allocated} -1 -1 {requested} {limit} {rest}\n"


READ = [
    # a line, the scenario's rules, the job as (submit, run, processors, requested), or None
    (line(), {}, (0.0, 10.0, 2.0, 20.0)),
    (line(allocated=-1), {}, (0.0, 10.0, 3.0, 20.0)),
    (line(), {"processors": "requested"}, (0.0, 10.0, 3.0, 20.0)),
    (line(requested=0), {"processors": "requested"}, (0.0, 10.0, 2.0, 20.0)),
    (line(allocated=1.5), {}, (0.0, 10.0, 2.0, 20.0)),
    (line(allocated=-1, requested=-1), {}, None),
    (line(limit=5), {}, (0.0, 10.0, 2.0, 10.0)),
    (line(limit=5), {"requested_time": "raw"}, (0.0, 10.0, 2.0, 5.0)),
    (line(limit=-1), {}, (0.0, 10.0, 2.0, 10.0)),
    (line(limit=-1), {"requested_time": "raw"}, (0.0, 10.0, 2.0, None)),
    (line(run=0), {}, None),
    (line(run=0), {"keep_zero_run": True}, (0.0, 0.0, 2.0, 20.0)),
    (line(run=-1), {"keep_zero_run": True}, None),
    (line(submit=-1), {}, None),
    (line(run=float("nan")), {}, None),
    (line(run=2**32), {}, (0.0, 2.0**32, 2.0, 2.0**32)),
    (line(run=2**32 + 1), {}, None),
    (line(submit=2**33), {}, None),
    (line(submit=1.6e9), {}, (0.0, 10.0, 2.0, 20.0)),
    (line(run=0.1), {}, (0.0, round(0.1 * 2**20) / 2**20, 2.0, 20.0)),
    ("; a comment\n\n", {}, None),
]


@pytest.mark.parametrize(("text", "rules", "job"), READ)
def test_the_log_is_read_by_the_scenarios_rules(
    text: str, rules: dict[str, Any], job: tuple[Any, ...] | None, tmp_path: Path
) -> None:
    for content in (text.encode(), gzip.compress(text.encode())):
        path = tmp_path / "log"
        path.write_bytes(content)
        found = read_log(path, SwfLog.of(path=path, **rules)).drop(OF_JOBS).rows()
        assert found == ([] if job is None else [(1, *job)])


BROKEN = [b"1 2 3\n", b"a b c d e f g h i\n", gzip.compress(line().encode(), mtime=0)[:-9]]


@pytest.mark.parametrize("content", BROKEN)
def test_a_log_that_cannot_be_read_is_a_violation(
    content: bytes, good: Any, tmp_path: Path
) -> None:
    good.files["log.swf"] = content
    audit = good.audit(tmp_path)
    assert [v.message for v in audit.violations] == ["the log cannot be read"]
    assert "run-info" in {*audit.not_audited, *(check.name for check in audit.done)}


MODEL = {"type": "lublin", "jobs": 9, "processors": 8}
CHANGED = [
    # key of the workload, how many jobs more than accepted the run has, whether that is right
    ({"type": "sacct"}, 0, True),
    ({"type": "sacct"}, -1, False),
    ({"window": {"jobs": 9}}, -1, True),
    ({"window": {"jobs": 9}}, 1, False),
    ({"resample": {"weeks": 2}}, 5, True),
    (MODEL, 0, True),
    (MODEL, 1, False),
]


@pytest.mark.parametrize(("workload", "extra", "right"), CHANGED)
def test_other_workloads_have_as_many_jobs_as_were_accepted(
    workload: dict[str, Any], extra: int, right: bool, good: Any, tmp_path: Path
) -> None:
    before = good.manifest["scenario"]["workload"]
    good.manifest["scenario"]["workload"] = workload if workload == MODEL else before | workload
    rows = 9 - extra
    good.manifest["trace"] |= {"read": rows, "accepted": rows - 2, "repaired": {"r": 2},
                               "dropped": {}}  # fmt: skip
    assert ("trace" not in good.audit(tmp_path).found) == right


def test_inputs_are_found_at_their_path_or_in_the_run_folder(
    good: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good.save(tmp_path / "run")
    monkeypatch.setenv("SIMKIT_TEST_LOGS", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    (tmp_path / "run" / "log.swf").rename(tmp_path / "logs" / "log.swf")
    content = good.files.pop("log.swf")
    good.files["${SIMKIT_TEST_LOGS}/log.swf"] = content
    good.manifest["scenario"]["workload"]["path"] = "${SIMKIT_TEST_LOGS}/log.swf"
    good.save(tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path / "logs"])
    assert audit.ok
    assert audit.not_audited == {}
    assert "inputs" not in audit.not_applicable


DATA = Path(os.environ.get("SIMKIT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "swf"

LOGS = [
    # log, jobs that the default rules keep
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 54_034),
    ("NASA-iPSC-1993-3.1-cln.swf.gz", 18_239 - 173),
    ("theta_2022.swf.gz", 23_911),
]


@pytest.mark.parametrize(("name", "jobs"), LOGS)
def test_real_logs_have_the_jobs_that_are_known(name: str, jobs: int) -> None:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in {DATA}; set SIMKIT_DATA to the folder of the logs")
    frame = read_log(DATA / name, SwfLog.of(path=DATA / name))
    assert frame.height == jobs
    assert frame["job_id"].is_unique().all()
