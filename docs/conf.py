"""Settings of the documentation's build: sphinx-build -W -b html docs docs/_build/html."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generate import stale_pages

if _stale := [page.name for page in stale_pages()]:
    raise RuntimeError(f"{', '.join(_stale)}: stale; run `python docs/generate.py`")

project = "simkit"
author = "the simkit authors"
copyright = "the simkit authors"
release = version = version_of("simkit-cluster")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build", "reproductions/templates"]
default_role = "code"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]
suppress_warnings = ["myst.strikethrough"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "simkit"
html_static_path = ["_static"]
html_css_files = ["simkit.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "navigation_depth": 2,
}
