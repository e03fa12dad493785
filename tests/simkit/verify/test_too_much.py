"""What a stranger's scenario derives is estimated before it is audited, and ticks have rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_records import Records, claimed, simulated

from simkit.errors import RunError
from simkit.verify.audited_run import AuditedRun
from simkit.verify.folder import scenario_of
from simkit.verify.run_info import MOST, refuse_too_much

BASE: dict[str, Any] = {
    "workload": {"type": "poisson", "jobs": 30, "processors": 8, "mean_run_time_s": 90,
                 "offered_load": 0.7, "sizes": [1, 4]},
    "cluster": {"machines": [{"name": "a", "count": 2, "processors": 4}]},
    "estimates": "actual",
}  # fmt: skip
FAILING = {"failures": {"mtbf": "1h", "mttr": "1m", "running": "requeue"}}
MAINTAINED = {"maintenance": [{"start": 60, "duration": 5, "every": "10m", "running": "requeue"}]}
POWER = {
    "machines": {"idle_w": 10, "full_w": 20},
    "sources": {"sun": {"signal": {"type": "levels", "high_w": 9, "low_w": 1, "high_share": 0.5,
                                   "step": "10m"}}},
    "grid": {"import_limit_w": 1000},
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Records:
    cluster = BASE["cluster"] | FAILING | MAINTAINED
    scenario = BASE | {"cluster": cluster, "scheduling": {"step": 30}, "power": POWER}
    return simulated(scenario, tmp_path_factory.mktemp("honest") / "run")


def test_the_honest_run_is_audited(honest: Records, tmp_path: Path) -> None:
    assert honest.copy().audit(tmp_path / "run").found == {}


Change = Callable[[dict[str, Any]], object]
TOO_MUCH: dict[str, Change] = {
    "cluster.machines": lambda s: s["cluster"]["machines"][0].update(count=MOST + 1),
    "cluster.failures": lambda s: s["cluster"]["failures"].update(mtbf=1e-5, mttr=1e-5),
    "cluster.maintenance.0.every": lambda s: s["cluster"]["maintenance"][0].update(
        every=1e-4, duration=1e-5
    ),
    "scheduling.step": lambda s: s["scheduling"].update(step=1e-6),
    "power.sources.sun.signal.step": lambda s: s["power"]["sources"]["sun"]["signal"].update(
        step=1e-12
    ),
}
"""Place that is named → what a stranger writes there."""


@pytest.mark.parametrize("place", TOO_MUCH)
def test_too_much_is_refused_at_once(honest: Records, tmp_path: Path, place: str) -> None:
    records = honest.copy()
    TOO_MUCH[place](records.info["scenario"])
    with pytest.raises(RunError, match=rf": {place} of the scenario stands for too many") as caught:
        records.audit(tmp_path / "run")
    assert "20,000,000 are audited" in str(caught.value)


@pytest.mark.parametrize("value", [5, -1.5, 1e300, "x", None, True, [], [5], [None], {}, {"a": 1}])
def test_a_section_of_another_type_is_refused_in_words(
    honest: Records, tmp_path: Path, value: object
) -> None:
    """Or it is another valid scenario, whatever it derives."""
    folder = honest.copy().save(tmp_path / "run")
    run = AuditedRun.read(folder)
    for holder, key in list(_places(run.manifest["scenario"])):
        kept, holder[key] = holder[key], value
        with suppress(RunError):
            refuse_too_much(replace(run, scenario=scenario_of(folder, run.manifest["scenario"])))
        holder[key] = kept


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list or mapping in a scenario, with each of its keys."""
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _places(below)


POOL = BASE | {"cluster": {"processors": 8}}


@pytest.mark.parametrize(
    ("did", "says"),
    [({"every": 60}, {"step": 60}), ({"step": 60}, {"every": 30}), ({"step": 60}, {"step": 30})],
)
def test_another_clock_of_the_same_ticks_is_found(
    tmp_path: Path, did: Mapping[str, int], says: Mapping[str, int]
) -> None:
    records = claimed(POOL | {"scheduling": did}, POOL | {"scheduling": says}, tmp_path)
    assert "timeline" in records.audit(tmp_path / "cheat").found
