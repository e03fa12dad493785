"""The committed pages of the studies: each number follows from the committed tables."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from simkit import plugins
from simkit.learners.studies.study import PAGES, Study

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "reproductions"
STUDIES = [
    study
    for name in plugins.names("simkit.reproductions")
    if isinstance(study := plugins.find("simkit.reproductions", name), Study)
]
NAMES = [study.name for study in STUDIES]


@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_the_page_is_what_its_committed_tables_give(study):
    results = study.read(COMMITTED)
    for page in study.pages or (study.name,):
        text = study.filled(page, results)
        assert text == (COMMITTED / f"{page}.md").read_text("utf-8")
        assert not re.findall(r"\b(?:nan|None)\b|\{\{", text)
        links = re.findall(r"\]\(([\w-]+\.\w+)\)", text)
        assert all((COMMITTED / link).is_file() for link in links)
        assert {f"{name}.svg" for name in study.pictures} <= set(
            re.findall(
                r"\(([\w-]+\.svg)\)", "".join(p.read_text("utf-8") for p in PAGES.glob("*.md"))
            )
        )


@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_the_committed_means_are_those_of_the_items(study, tmp_path):
    study.read(COMMITTED).write(tmp_path, study.name)
    for ending in ("csv", "json"):
        file = f"{study.name}.{ending}"
        assert (tmp_path / file).read_bytes() == (COMMITTED / file).read_bytes()


@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_no_function_hides_a_fact_or_a_metric(study):
    results = study.read(COMMITTED)
    assert study.functions
    assert not set(study.functions) & {*results.facts, *results.metrics, *results.rows["metric"]}


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
    from simkit.analysis.intervals import set_interval

    again = set_interval(*map(np.array, sums))
    page = study.read(COMMITTED).ask("bounded_slowdown | sjf | HPC2N, others | over=f2")
    assert (page.low, page.high) == (pytest.approx(again.low), pytest.approx(again.high))
