"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# how long an example takes depends on what else the machine does
settings.register_profile("simkit", deadline=None)
settings.load_profile("simkit")
