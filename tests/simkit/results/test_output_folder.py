"""A place for results is tried before the work, refused in words, and left as it was."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from simkit.errors import RunError
from simkit.results.output_folder import check_file, check_run_folder, reason
from simkit.results.run_info import file_sha256, identity
from simkit.scenario import Scenario


def wanted(name, *given, **scenario):
    workload = {"type": "lublin", "jobs": 5, "processors": 4}
    made = Scenario.model_validate({"name": name, "workload": workload, **scenario})
    return identity(made, given)


MINE = wanted("mine")


def run_of(folder, name, status="complete", **scenario):
    folder.mkdir(parents=True)
    info = {**wanted(name, **scenario), "status": status}
    (folder / "run.json").write_text(json.dumps(info))
    return folder


def test_a_good_place_is_left_as_it_was(tmp_path):
    check_run_folder(tmp_path / "new" / "deep" / "run", MINE)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    check_run_folder(tmp_path / "empty", MINE)
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("status", ["complete", "interrupted"])
def test_a_run_of_the_same_scenario_may_be_replaced(tmp_path, status):
    check_run_folder(run_of(tmp_path / "run", "mine", status), MINE)


@pytest.mark.parametrize("status", ["complete", "interrupted"])
def test_another_scenarios_run_may_not(tmp_path, status):
    folder = run_of(tmp_path / "run", "other", status)
    with pytest.raises(RunError, match=r"run of another scenario, 'other'.*'mine'.*--force"):
        check_run_folder(folder, MINE)
    check_run_folder(folder, MINE, force=True)


DIFFERENT = [
    # the scenario of the run that is there, the difference that is told
    ({"policy": {"order": "sjf"}}, r'policy.order \("sjf" there, "fcfs" here\)'),
    ({"seed": 3}, r"seed \(3 there, 0 here\)"),
    (
        {"workload": {"type": "lublin", "jobs": 6, "processors": 4}},
        r"workload.jobs \(6 there, 5 here\)",
    ),
    ({"policy": {"fitness": "tetris"}}, r"policy.backfill \(null there"),
    ({"seed": 1, "walltime": "kill", "metrics": {"tau": "5s", "warmup": "1h"}}, "1 other key"),
]


@pytest.mark.parametrize(("scenario", "text"), DIFFERENT)
def test_a_run_of_the_same_name_that_differs_is_not_replaced(tmp_path, scenario, text):
    folder = run_of(tmp_path / "run", "mine", **scenario)
    with pytest.raises(RunError, match=rf"another run of 'mine', which differs in .*{text}.*--fo"):
        check_run_folder(folder, MINE)
    check_run_folder(folder, MINE, force=True)


def test_defaults_that_are_written_out_make_no_difference(tmp_path):
    folder = run_of(tmp_path / "run", "mine", policy={"order": "fcfs"}, walltime="ignore")
    check_run_folder(folder, MINE)


def test_a_run_of_an_earlier_simkit_with_fewer_keys_is_the_same(tmp_path):
    folder = run_of(tmp_path / "run", "mine")
    info = json.loads((folder / "run.json").read_text())
    del info["scenario"]["metrics"]["warmup"]
    (folder / "run.json").write_text(json.dumps(info | {"scenario_sha256": "of fewer keys"}))
    check_run_folder(folder, MINE)


@pytest.mark.parametrize("change", ["edited", "grown", "gone", "a device"])
def test_a_run_that_read_other_files_is_not_replaced(tmp_path, change):
    policy = tmp_path / "mine.py"
    policy.write_text("class Mine: one = 1")
    folder = run_of(tmp_path / "run", "mine")
    info = json.loads((folder / "run.json").read_text())
    entry = {"path": str(policy), "sha256": file_sha256(policy), "bytes": policy.stat().st_size}
    (folder / "run.json").write_text(json.dumps(info | {"inputs": [entry]}))
    check_run_folder(folder, MINE)
    if change == "gone":
        policy.unlink()
    elif change == "a device":
        (folder / "run.json").write_text(
            json.dumps(info | {"inputs": [entry | {"path": "/dev/zero", "bytes": 0}]})
        )
    else:
        policy.write_text("class Mine: two = 2" + " # more" * (change == "grown"))
    with pytest.raises(RunError, match=r"run of 'mine' with another content of /.*--force"):
        check_run_folder(folder, MINE)
    check_run_folder(folder, MINE, force=True)


def test_a_run_that_did_not_end_is_replaced_when_its_policy_was_mended(tmp_path):
    folder = run_of(tmp_path / "run", "mine", "failed")
    info = json.loads((folder / "run.json").read_text())
    gone = {"path": str(tmp_path / "mine.py"), "sha256": "", "bytes": 1}
    (folder / "run.json").write_text(json.dumps(info | {"inputs": [gone]}))
    check_run_folder(folder, MINE)


@pytest.mark.parametrize(("there", "here"), [(("policy",), ()), ((), ("policy",))])
def test_objects_of_python_are_never_known_to_be_the_same(tmp_path, there, here):
    folder = run_of(tmp_path / "run", "mine")
    (folder / "run.json").write_text(json.dumps(wanted("mine", *there)))
    with pytest.raises(RunError, match="does not record what Python gave as policy; .*force=True"):
        check_run_folder(folder, wanted("mine", *here))


def test_a_damaged_run_json_names_no_scenario(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="a run.json that is damaged"):
        check_run_folder(tmp_path, MINE)


def test_files_left_by_a_full_disk_do_not_block_the_next_run(tmp_path):
    (tmp_path / "run.json.part").write_text("")
    check_run_folder(tmp_path, MINE)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deep" / "run"):
        with pytest.raises(RunError, match="file is a file, but a run is a folder; choose another"):
            check_run_folder(folder, MINE)


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(RunError, match="cannot be written: the name is too long"):
        check_run_folder(tmp_path / ("x" * 300), MINE)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_place_where_nothing_can_be_made():
    with pytest.raises(RunError, match="/proc/x: cannot be written: nothing can be made at that"):
        check_run_folder(Path("/proc/x"), MINE)


FILES = [
    # the file, what the message says
    ("missing/log.swf", "there is no folder .*missing; make it"),
    ("folder", "is a folder; name a file in it"),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_a_file_that_cannot_be_written(tmp_path, name, text):
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=text):
        check_file(tmp_path / name)


def test_a_file_that_can_be_written_is_left_as_it_was(tmp_path):
    (tmp_path / "old.swf").write_text("old")
    for name in ("old.swf", "new.swf"):
        check_file(tmp_path / name)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old.swf", "old")]


def test_the_systems_own_words_stay_where_there_are_no_better():
    assert reason(OSError(errno.EROFS, "EROFS")) == "the file system is read-only"
    assert reason(OSError(errno.EIO, "Input/output error")) == "Input/output error"
