"""`simkit.learners`: what an algorithm needs, imported when it is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import simkit.learners


@pytest.mark.parametrize("name", simkit.learners.__all__)
def test_every_name_is_there(name):
    assert getattr(simkit.learners, name).__name__ == name
    assert name in dir(simkit.learners)


def test_another_name_is_not():
    with pytest.raises(ImportError, match="no_such_name"):
        from simkit.learners import no_such_name  # noqa: F401


def test_importing_it_imports_no_torch():
    code = "import sys, simkit.learners; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
