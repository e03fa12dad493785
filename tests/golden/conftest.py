"""Lets the tests import the modules beside them, and the makers of damaged scenarios."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "fuzz"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
