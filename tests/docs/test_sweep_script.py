"""The script of the page on sweeps does what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, blocks


@pytest.mark.thorough
def test_a_class_is_swept_in_worker_processes(tmp_path: Path) -> None:
    for block in blocks(DOCS / "howto" / "sweep-and-compare.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "sweep_my_policy.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert all(label in done.stdout for label in ("Shortest", "sjf", "fcfs+easy"))
