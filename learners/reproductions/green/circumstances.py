"""What is now in `simkit.learners.studies.green`, for the pages that are not ported yet."""

from simkit.learners.studies.green.circumstances import Circumstances, Late, Power

__all__ = ["Circumstances", "Late", "Power"]
