"""The page: data, style and scripts in one file that loads nothing else.

The data are JSON in elements that no browser runs, with every character escaped that could end such
an element. The scripts write names as text, never as HTML. A content security policy lets only
these scripts run, and nothing be loaded, sent or framed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from simkit.results.run_info import versions
from simkit.text import printable

_SCRIPTS: Final = (
    "format.js", "dom.js", "decode.js", "axes.js", "chart.js", "timeline.js", "gantt_data.js",
    "gantt_paint.js", "gantt.js", "tables.js", "distributions.js", "sweep.js", "sections.js",
    "main.js",
)  # fmt: skip
"""In the order in which they need each other."""

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="simkit {version}">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{hash}'; \
style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<noscript><p class="alert">This report is drawn by its own scripts, and needs no network. Allow \
scripts for this file to see it.</p></noscript>
<div id="page"></div>
<script type="application/json" id="data">{data}</script>
{blocks}
<script>
{script}
</script>
</body>
</html>
"""


def page_text(title: str, data: Mapping[str, Any], blocks: Sequence[str]) -> str:
    """Return the page.

    Args:
        title: of the window.
        data: what the scripts read, as JSON: plain numbers and texts. Numbers that are not finite
            become null.
        blocks: base64 texts of packed columns, one a run.
    """
    version = versions()["simkit"]
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    return _PAGE.format(
        version=escape(version), hash=f"sha256-{digest}", title=escape(printable(title)),
        style=_asset("style.css"), data=embedded({**data, "version": version}), script=script,
        blocks="\n".join(
            f'<script type="application/octet-stream" id="block-{n}">{block}</script>'
            for n, block in enumerate(blocks)
        ),
    )  # fmt: skip


def embedded(data: Any) -> str:
    """Return JSON that is harmless within a script element, whatever the texts are."""
    text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    """Return a value with texts that no reader can be misled by, and numbers that JSON has."""
    if isinstance(value, str):
        return "\n".join(printable(line) for line in value.split("\n"))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {printable(str(key)): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def _asset(name: str) -> str:
    return files("simkit.report.assets").joinpath(name).read_text(encoding="utf-8").strip()
