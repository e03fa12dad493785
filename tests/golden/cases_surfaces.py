"""What users meet at the edges: a recorded dataset, scenarios with their defaults, refusals."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from campaign import READY as BUNDLED
from cases import HERE, Case, digest, rounded
from mutations import damaged
from random_scenarios import random_scenario
from ruamel.yaml import YAML
from small_scenarios import DEEPRM, READY
from typer.testing import CliRunner

import simkit
from simkit.cli import app

ROOT = HERE.parents[1]


def command(*call: str) -> str:
    """Run a command of simkit; return what it printed."""
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return done.stdout


# ---- datasets ------------------------------------------------------------------------------------

DATASETS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "slots": (DEEPRM | {"policy": {"order": "sjf"}}, ("--reward", "slowdown")),
    "ready pool": (
        READY | {"policy": {"order": "qos", "backfill": {"type": "ready-pool", "horizon": "0h"}}},
        ("--actions", "ready-pool", "--env", "action_arguments.max_start=0"),
    ),
}


def dataset(name: str) -> dict[str, Any]:
    """Return digests of the columns of a dataset, recorded from three episodes."""
    stated, options = DATASETS[name]
    with TemporaryDirectory() as place:
        scenario, path = Path(place) / "scenario.yaml", Path(place) / "data.parquet"
        scenario.write_text(json.dumps({**stated, "name": "golden"}))
        command("dataset", "record", str(scenario), "-o", str(path), "--seeds", "0..2",
                "--no-progress", *options)  # fmt: skip
        table = pl.read_parquet(path)
    found: dict[str, Any] = {"decisions": len(table)}
    for column in sorted(table.columns):
        values = table[column]
        while values.dtype in (pl.List, pl.Array):
            values = values.explode()
        if values.dtype.is_float():
            found[column] = digest(rounded(values.to_numpy(), 5))
        elif values.dtype.is_numeric() or values.dtype == pl.Boolean:
            found[column] = digest(values.cast(pl.Int64).to_list())
    return found


# ---- scenarios -----------------------------------------------------------------------------------


def shown(name: str) -> str:
    """Return four digits of the digest of each section of a scenario with its defaults.

    Folders of this machine are left out.
    """
    stated = (ROOT / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMKIT_DATA", place)
        for path in re.findall(r"\$\{SIMKIT_DATA\}/([\w./-]+)", stated):
            (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / path).touch()
        text = command("show", name, "--json").replace(place, "data")
    found = json.loads(re.sub(r'"[^"]*/(traces/samples|learners/pretrained)/', r'"\1/', text))
    return " ".join(f"{section}:{digest(content)[:4]}" for section, content in found.items())


# ---- refusals ------------------------------------------------------------------------------------

SEEDS, CHUNK = 240, 40


def refusal(seed: int) -> str:
    """Return the type of error and the dotted places of a damaged scenario; ``accepted`` if none.

    Wording, line numbers and the order of the problems are left out.
    """
    rng = np.random.default_rng(20_000 + seed)
    with TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        if rng.random() < 0.4:
            path = ROOT / "scenarios" / f"{BUNDLED[int(rng.integers(len(BUNDLED)))]}.yaml"
            tree = YAML(typ="safe").load(path)
        else:
            tree = random_scenario(rng, folder)
        (folder / "scenario.yaml").write_text(
            damaged(rng, tree), encoding="utf-8", errors="surrogatepass"
        )
        try:
            simkit.prepare(simkit.load_scenario(folder / "scenario.yaml"))
        except simkit.SimkitError as error:
            places = sorted(set(map(place_of, str(error).splitlines())))
            return f"{type(error).__name__} {' '.join(places)}".strip()
    return "accepted"


def place_of(problem: str) -> str:
    """Return the dotted place in ``file:line: dotted.place: what is wrong``, or nothing."""
    text = re.sub(r"^\S*?(\.yaml|\.csv|\.swf)(:\d+)?: ", "", problem)
    before, colon, _ = text.partition(": ")
    return before if colon and " " not in before else ""


def refusals(first: int) -> str:
    """Return four digits of the digest of each case of a chunk; `told` says what they stand for."""
    return " ".join(digest(refusal(seed))[:4] for seed in range(first, first + CHUNK))


def told(first: int, expected: str, found: str) -> list[str]:
    """Return what now comes of the cases of a chunk that differ, a line each."""
    pairs = zip(expected.split(), found.split(), strict=True)
    return [f"seed {seed}: {refusal(seed)}" for seed, (a, b) in enumerate(pairs, first) if a != b]


CASES: Mapping[str, Case] = {
    **{f"dataset {name}": Case(partial(dataset, name), needs=("gymnasium",)) for name in DATASETS},
    **{
        f"show {path.stem}": Case(partial(shown, path.stem))
        for path in sorted((ROOT / "scenarios").glob("*.yaml"))
    },
    **{
        f"refusals {first}": Case(partial(refusals, first), listing=partial(told, first))
        for first in range(0, SEEDS, CHUNK)
    },
}
