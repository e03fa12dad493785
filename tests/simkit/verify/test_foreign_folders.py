"""A run folder from elsewhere names files; the auditor opens only those in known folders."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from simkit.errors import RunError
from simkit.verify import verify_run


@pytest.fixture
def elsewhere(good: Any, tmp_path: Path) -> tuple[Path, Path]:
    """A run folder, and the log that it read, outside the folders that verify reads."""
    folder, log = good.save(tmp_path / "run"), tmp_path / "logs" / "log.swf"
    log.parent.mkdir()
    (folder / "log.swf").rename(log)
    rename(folder, "log.swf", str(log))
    return folder, log


def rename(folder: Path, old: str, new: str) -> None:
    """Let run.json name another input, in the inputs and in the scenario."""
    text = (folder / "run.json").read_text().replace(f'"{old}"', f'"{new}"')
    info = json.loads(text)
    scenario = json.dumps(info["scenario"], sort_keys=True, separators=(",", ":"))
    info["scenario_sha256"] = hashlib.sha256(scenario.encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps(info))


def reason(folder: Path, **options: Any) -> str:
    """Why the rule about inputs was not audited; empty if it was, and holds."""
    audit = verify_run(folder, **options)
    assert audit.ok
    return audit.not_audited.get("inputs", "")


def test_an_input_outside_the_known_folders_is_not_read(elsewhere: Any) -> None:
    folder, log = elsewhere
    assert reason(folder).startswith(f"{log} is outside the folders that verify reads")
    assert "--inputs" in reason(folder)


def test_inputs_are_read_in_the_named_data_and_working_folder(
    elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = elsewhere
    assert reason(folder, inputs=[log.parent]) == ""
    with monkeypatch.context() as patch:
        patch.setenv("SIMKIT_DATA", str(log.parent))
        assert reason(folder) == ""
    monkeypatch.chdir(log.parent)
    assert reason(folder) == ""


def test_a_link_counts_as_the_file_that_it_leads_to(elsewhere: Any) -> None:
    folder, log = elsewhere
    (folder / "log.swf").symlink_to(log)
    rename(folder, str(log), "log.swf")
    assert "outside" in reason(folder)
    assert reason(folder, inputs=[log.parent]) == ""


def test_a_pipe_or_a_device_is_not_read(elsewhere: Any) -> None:
    folder, log = elsewhere
    log.unlink()
    os.mkfifo(log)
    assert reason(folder, inputs=[log.parent]) == f"{log} is not a regular file"
    rename(folder, str(log), "/dev/zero")
    assert reason(folder, inputs=["/dev"]) == "/dev/zero is not a regular file"


@pytest.mark.parametrize("name", ["run.json", "metrics.json", "jobs.parquet"])
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_pipe_or_a_link_that_leads_out_of_the_run_is_refused(
    good: Any, tmp_path: Path, name: str, is_pipe: bool
) -> None:
    folder = good.save(tmp_path / "run")
    (folder / name).rename(tmp_path / name)
    if is_pipe:
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(RunError, match=f"{name}: is not a regular file in the run folder"):
        verify_run(folder)


def test_a_folder_of_inputs_must_exist(good: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="missing: there is no such folder of inputs"):
        verify_run(good.save(tmp_path / "run"), inputs=[tmp_path / "missing"])
