"""Writes the report of runs or of a sweep: one HTML file.

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
from os import PathLike
from pathlib import Path
from typing import Any, Final

from simkit.analysis.runs import runs_below
from simkit.errors import RunError
from simkit.report.facts import (
    compare_with_first,
    distributions_of,
    groups_of,
    log_waits,
    longest_waits,
    missing_tables,
    recorded_waits,
    run_facts,
    sweep_facts,
)
from simkit.report.gantt import MOST_JOBS, MOST_RECTANGLES, chart_of
from simkit.report.over_time import Clock, Packed, charts_over_time, clock_of
from simkit.results.output_folder import check_file, write_text
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.run_info import versions
from simkit.text import counted, printable
from simkit.why.causes import MEANINGS
from simkit.why.jobs import Progress, explain_jobs

MOST_RUNS: Final = 6
"""Runs that are shown side by side; of more, a table and curves are shown, as of a sweep."""

Explanations = Mapping[Any, Sequence[tuple[float, float, str, str]]]
"""Job id → why it waited, in order: start (s, on the trace's clock), end (s), cause, sentence."""


def write_report(
    runs: RunOrFolder | Sequence[RunOrFolder],
    target: str | PathLike[str],
    *,
    explanations: Sequence[Explanations] = (),
    allow_partial: bool = False,
) -> Path:
    """Write the report of runs or of a sweep into one HTML file; return the file.

    The file loads nothing: it opens from disk, without a network. The same runs give the same
    bytes.

    Args:
        runs: a run or its folder, up to `MOST_RUNS` of them; or folders with runs below them, such
            as a sweep's.
        target: the file, ``.html``; it is replaced when the new one is whole.
        explanations: why jobs waited, one mapping a run in their order; `longest_waits` names the
            jobs that the page lists.
        allow_partial: also take runs that were interrupted or failed.

    Raises RunError for folders without runs, for runs among folders of runs, and for a file that
    cannot be written.
    """
    given = [runs] if isinstance(runs, (Run, str, PathLike)) else list(runs)
    if not given:
        raise RunError("report: no run is given; name at least one run folder, or a sweep's folder")
    path = Path(target)
    if path.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"{path}: a report is an .html file; name it so")
    _check_not_mixed(given)
    is_sweep = len(given) > MOST_RUNS or any(_holds_runs(one) for one in given)
    if is_sweep:
        opened = [one for one in given if isinstance(one, Run)]
        opened += runs_below(one for one in given if not isinstance(one, Run))
    else:
        opened = [open_run(one, allow_partial=allow_partial) for one in given]
    check_file(path)
    text = _of_sweep(opened) if is_sweep else _of_runs(opened, explanations)
    write_text(path, text)
    return path


def _holds_runs(one: RunOrFolder) -> bool:
    """Return whether a folder is none of a run, but may have runs below it."""
    return not isinstance(one, Run) and Path(one).is_dir() and not (Path(one) / "run.json").exists()


def _is_run(one: RunOrFolder) -> bool:
    return isinstance(one, Run) or (Path(one) / "run.json").exists()


def _check_not_mixed(given: Sequence[RunOrFolder]) -> None:
    """Raise RunError for runs among folders of runs, which have no table and curves in common."""
    folders = [Path(one) for one in given if not isinstance(one, Run) and _holds_runs(one)]
    above = [folder for folder in folders if next(folder.rglob("run.json"), None) is not None]
    runs = [one.folder if isinstance(one, Run) else one for one in given if _is_run(one)]
    if above and runs:
        run = runs[0]
        raise RunError(
            f"report: {run} is a run, but {above[0]} a folder of runs; a report compares "
            f"single runs, or shows a sweep; write two: `simkit report {run}` and "
            f"`simkit report {above[0]}`"
        )


def _of_sweep(runs: Sequence[Run]) -> str:
    sweep = sweep_facts(runs)
    data = {"sweep": sweep, "runs": []}
    return page_text(f"{sweep['name']}: {counted(len(runs), 'run')}", data, ())


def _of_runs(runs: Sequence[Run], explanations: Sequence[Explanations]) -> str:
    clock = clock_of([run for run in runs if run.resources and not missing_tables(run)])
    shown, blocks = [], []
    for number, run in enumerate(runs):
        why = explanations[number] if number < len(explanations) else {}
        packed = Packed()
        facts = _of_run(run, clock, packed, why, share=len(runs))
        columns = packed.finish()
        blocks.append(columns.pop("block"))
        shown.append({**facts, **columns})
    data = {
        "runs": shown,
        "clock": clock.as_json() if clock else None,
        "comparisons": compare_with_first(runs) if len(runs) > 1 else [],
    }
    names = " · ".join(dict.fromkeys(run.name for run in runs))
    return page_text(names, data, blocks)


def _of_run(
    run: Run, clock: Clock | None, packed: Packed, why: Explanations, share: int
) -> dict[str, Any]:
    """Return all that the page shows of a run; its columns go into `packed`."""
    facts = run_facts(run)
    if missing := missing_tables(run):
        return {**facts, "empty": f"it has no table of {', '.join(missing)}"}
    if clock is None or not run.resources or not facts["counts"]["submitted"]:
        return {**facts, "empty": "no job was ever submitted"}
    longest = [
        {**job, "explanation": [list(part) for part in why.get(job["job_id"], ())]}
        for job in longest_waits(run)
    ]
    return {
        **facts,
        "charts": charts_over_time(run, clock, packed),
        "gantt": chart_of(
            run, clock, packed, rectangles=MOST_RECTANGLES // share, jobs=MOST_JOBS // share
        ),
        "groups": groups_of(run),
        "distributions": distributions_of(run),
        "recorded": recorded_waits(run, log_waits(run)),
        "longest": longest,
    }


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


def explanations_of(
    run: Run,
    *,
    allow_partial: bool = False,
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Explanations:
    """Return the explanations of the jobs that the report lists; the run is made again for them.

    Args:
        run: the run.
        allow_partial: also explain a run that did not finish, up to its end.
        allow_code: also run code that the scenario names, such as a policy of one's own. By default
            it is not run: a report may be of a stranger's run.
        progress: is called after every decision of the rerun.

    Raises SimkitError if the run cannot be made again, or names code that is not allowed.
    """
    ids = [row["job_id"] for row in longest_waits(run)]
    if not ids:
        return {}
    found = explain_jobs(
        run, ids, allow_partial=allow_partial, allow_code=allow_code, progress=progress
    )
    return {
        each.job_id: [
            (start, end, MEANINGS[cause].title, sentence)
            for start, end, cause, sentence in each.rows()
        ]
        for each in found
    }
