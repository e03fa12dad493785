"""Makes the sample year of a site: ``python -m simkit.traces.samples.regenerate_site [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

from simkit.traces.power.site import write_sample_site

if __name__ == "__main__":
    print(write_sample_site(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
