"""The pictures of the README and of how-fast.md show what the code computes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pictures():
    sys.path.insert(0, str(DOCS))
    try:
        import pictures
    finally:
        sys.path.remove(str(DOCS))
    return pictures


@pytest.mark.thorough
@pytest.mark.long
def test_their_data_is_what_the_code_computes(pictures, tmp_path):
    kept = json.loads(pictures.HASHES.read_text("utf-8"))
    assert pictures.draw(tmp_path) == kept, "run python docs/pictures.py and look at the pictures"
    shown = "".join((DOCS / page).read_text("utf-8") for page in ("../README.md", "how-fast.md"))
    for name in kept:
        assert (pictures.PLACE / name).is_file()
        assert f"_static/{name}" in shown


def test_other_data_has_another_hash(pictures):
    from matplotlib.figure import Figure

    def of(*numbers):
        figure = Figure()
        axes = figure.subplots()
        axes.plot(numbers)
        axes.stairs(numbers)
        return pictures.data_sha256(figure)

    assert of(1, 2, 3) == of(1, 2, 3) != of(1, 2, 3.001)
