"""The committed pages of the studies: each number follows from the committed tables."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from simkit import plugins
from simkit.analysis.intervals import set_interval
from simkit.learners.studies.study import PAGES, Study

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "reproductions"
STUDIES = [
    study
    for name in plugins.names("simkit.reproductions")
    if isinstance(study := plugins.find("simkit.reproductions", name), Study)
]


every_study = pytest.mark.parametrize("study", STUDIES, ids=[study.name for study in STUDIES])


@every_study
def test_the_page_is_what_its_committed_tables_give(study, tmp_path):
    results, links = study.read(COMMITTED), set()
    for page in study.pages or (study.name,):
        text = study.filled(page, results)
        assert text == (COMMITTED / f"{page}.md").read_text("utf-8")
        assert not re.findall(r"\b(?:nan|None)\b|\{\{", text)
        links |= set(re.findall(r"\]\(([\w-]+\.\w+)\)", text))
    assert all((COMMITTED / link).is_file() for link in links)
    assert {f"{name}.svg" for name in study.pictures} <= links
    results.write(tmp_path, study.name)
    for file in (f"{study.name}.csv", f"{study.name}.json"):
        assert (tmp_path / file).read_bytes() == (COMMITTED / file).read_bytes()


@every_study
def test_no_function_hides_a_fact_or_a_metric(study):
    results = study.read(COMMITTED)
    known = {*results.facts, *results.metrics, *results.rows["metric"]}
    assert study.functions
    assert not {*study.functions, *study.best} & known


def test_every_page_belongs_to_a_study():
    assert {page.stem for page in PAGES.glob("*.md")} == {
        page for study in STUDIES for page in study.pages or (study.name,)
    }


def test_an_interval_is_computed_again_in_five_lines():
    (study,) = (each for each in STUDIES if each.name == "rlscheduler")
    rows = study.read(COMMITTED).rows.filter(case="HPC2N, others", metric="bounded_slowdown")
    mine, rule = (rows.filter(arm=arm).sort("item")["value"].to_numpy() for arm in ("sjf", "f2"))
    block = rows.filter(arm="sjf").sort("item")["item"].to_numpy() // study.width
    sums = [[values[block == one].sum() for one in np.unique(block)] for values in (mine, rule)]
    again = set_interval(*map(np.array, sums))
    page = study.read(COMMITTED).ask("bounded_slowdown | sjf | HPC2N, others | over=f2")
    assert (page.low, page.high) == (pytest.approx(again.low), pytest.approx(again.high))
