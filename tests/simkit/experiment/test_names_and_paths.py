"""Names, paths, mappings and policies mean the same to every command and every call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.env import SchedulingEnv
from simkit.scenario import Scenario, scenario_hash
from simkit.scenario.bundled import sample_path

SMALL: dict[str, Any] = {"workload": {"type": "lublin", "jobs": 9, "processors": 8}}
LOG = sample_path("lublin_1000")


def simulated(source: Any) -> None:
    simkit.simulate(source)


def swept(source: Any) -> None:
    simkit.run_sweep(source, "swept", workers=1, force=True)


CALLS = [simkit.load_scenario, simulated, swept, SchedulingEnv]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("workload: {type: lublin, jobs: 9, processors: 8}\npolicy: sjf\n")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("named", ["p.yaml", "quickstart"])
def test_a_scenario_is_named_by_text_or_path(call: Callable[[Any], object], named: str) -> None:
    for source in (named, Path(named)):
        call(source)
    call(simkit.load_scenario(named))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("quickstrt", "no such file and no scenario of that name; did you mean 'quickstart'"),
        (Path("quickstrt"), "no such file and no scenario of that name; did you mean 'quickst"),
        (5, "a scenario is a YAML file, the name of a bundled one, a mapping .* not 5"),
    ],
)
def test_what_is_no_scenario_is_told_alike(
    call: Callable[[Any], object], source: Any, text: str
) -> None:
    with pytest.raises(simkit.SimkitError, match=text):
        call(source)


@pytest.mark.parametrize("as_given", [str, Path])
def test_paths_given_in_python_start_from_the_working_folder(as_given: type) -> None:
    Path("log.swf.gz").write_bytes(LOG.read_bytes())
    log = {"workload.path": as_given("log.swf.gz")}
    assert simkit.simulate("quickstart", overrides=log).jobs.height == 1000
    assert simkit.run_sweep("quickstart", "a", overrides=log, workers=1)[0].state == "done"
    grid = {key: [value] for key, value in log.items()}
    assert simkit.run_sweep("quickstart", "b", sweep=grid, workers=1)[0].state == "done"


TEXTS = [
    # text, the section it stands for
    ("sjf", {"order": "sjf"}),
    ("tetris", {"fitness": "tetris"}),
    ("slotted-sjf", {"name": "slotted-sjf"}),
    ("sjf+easy", {"order": "sjf", "backfill": "easy"}),
    ("fcfs+none+best-fit", {"order": "fcfs", "backfill": "none", "placement": "best-fit"}),
]


@pytest.mark.parametrize(("text", "section"), TEXTS)
def test_a_text_stands_for_a_policy(text: str, section: dict[str, Any]) -> None:
    found, expected = (simkit.load_scenario({**SMALL, "policy": each}) for each in (text, section))
    assert scenario_hash(found) == scenario_hash(expected)
    assert Scenario.model_validate(found.model_dump(mode="json")) == expected


WRONG = [
    ("random", "write {order: random} or {fitness: random}"),
    ("easy", "'easy' is a backfilling rule; write {backfill: easy}"),
    ("deeprm-70", "write {agent: deeprm-70}"),
    ("tetriss", "did you mean 'tetris'"),
    ("sjf+easy+best-fit+more", "has 4 parts; write order"),
    ("sjf+eazy", "did you mean 'easy'"),
    ("mine.py:Mine", "there is no file"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_a_text_that_stands_for_none_or_several(text: str, told: str) -> None:
    calls = (
        lambda: simkit.simulate(SMALL, policy=text),
        lambda: simkit.run_sweep(SMALL, "swept", policy=text, workers=1),
        lambda: simkit.run_sweep(SMALL, "swept", sweep={"policy": [text]}, workers=1),
        lambda: simkit.load_scenario({**SMALL, "policy": text}),
    )
    for call in calls:
        with pytest.raises(simkit.SimkitError, match="policy.*" + told.replace("{", "\\{")):
            call()


def test_a_file_of_a_policy_starts_from_where_the_text_stands(tmp_path: Path) -> None:
    code = (
        "class Mine:\n    def reset(self, info, rng): pass\n"
        "    def schedule(self, state): return ()\n"
    )
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "mine.py").write_text(code)
    scenario = tmp_path / "below" / "s.yaml"
    scenario.write_text("workload: {type: lublin, jobs: 2, processors: 8}\npolicy: mine.py:Mine\n")
    place = os.fspath(tmp_path / "below" / "mine.py")
    loaded = simkit.load_scenario(scenario)
    assert loaded.model_dump(mode="json")["policy"]["path"] == f"{place}:Mine"
    with pytest.warns(simkit.SimkitWarning, match="all 2 jobs still wait"):
        run = simkit.simulate("quickstart", overrides={"workload": SMALL["workload"] | {"jobs": 2}},
                              policy="below/mine.py:Mine")  # fmt: skip
    assert run.info["scenario"]["policy"]["path"] == f"{place}:Mine"
