"""The catalogue of public logs: what there is, what is known to be odd, and how to get one.

The logs belong to the Parallel Workloads Archive and to the sites that gave them. They are not
part of simkit: `fetch` gets them from the archive. Whoever publishes results should thank the
people named in an entry and cite the archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from simkit.errors import TraceError, did_you_mean

from .download import Progress, download


@dataclass(frozen=True)
class LogEntry:
    """One log of the archive. What is not known is None.

    The facts of a log that is not `checked` are as remembered from the archive's pages: look them
    up on its `page` before relying on them.
    """

    name: str
    """Short name, by which it is fetched: ``SDSC-SP2``."""
    system: str
    """Machine and site."""
    file: str
    """Name of the file: the cleaned log where there is one."""
    url: str
    """Where the archive serves the file."""
    page: str
    """The archive's page about the log."""
    start: str
    """First month, ``1998-04``."""
    months: int
    """Length of the log."""
    processors: int | None
    """Size of the machine."""
    jobs: int | None
    """Jobs in the original log."""
    cleaned_jobs: int | None
    """Jobs in the cleaned log; None also where there is no cleaned log."""
    acknowledge: str | None
    """Whom to thank; None: see the page."""
    problems: tuple[str, ...]
    """Oddities that a user of the log should know."""
    citation: str
    """The paper to cite for the archive."""
    terms: str | None
    """Conditions of use beyond thanks and citation."""
    sha256: str | None
    """Checksum of the file as served; None where it is not known."""
    checked: bool
    """Whether jobs, cleaned jobs, processors and checksum were compared with the file itself."""


def catalogue() -> list[LogEntry]:
    """Return the known logs, oldest first."""
    return list(_entries())


def find_log(name: str) -> LogEntry:
    """Return the log called `name`, whatever the case of its letters; its file's name will do too.

    Raises TraceError, with the nearest name, if there is none.
    """
    wanted = name.lower()
    for entry in _entries():
        if wanted in (entry.name.lower(), entry.file.lower(), entry.file.lower()[: -len(".gz")]):
            return entry
    proper = {entry.name.lower(): entry.name for entry in _entries()}
    near = get_close_matches(wanted, proper, n=1)
    hint = did_you_mean(proper[near[0]] if near else name, proper.values())
    raise TraceError(f"no public log is called {name!r}{hint}")


def fetch(
    name: str,
    folder: str | Path,
    *,
    base_url: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Get a log of the catalogue, unless it is in the folder already, and return its path.

    The file appears under its name only when it is whole and, where the catalogue knows one, its
    checksum is right.

    Args:
        name: the log's name (see `find_log`).
        folder: where to put it; made if absent.
        base_url: a mirror, laid out like the archive: ``https://…/l_sdsc_sp2/….swf.gz``.
        progress: is told of the bytes that arrive.

    Raises TraceError for an unknown name, no network, a file that the server does not have, one
    that is cut off or has the wrong checksum, and a folder that cannot be written.
    """
    entry = find_log(name)
    url = entry.url
    if base_url is not None:
        url = base_url.rstrip("/") + "/" + "/".join(entry.url.rsplit("/", 2)[1:])
    return download(url, Path(folder) / entry.file, entry.sha256, progress)


@cache
def _entries() -> tuple[LogEntry, ...]:
    from ruamel.yaml import YAML

    text = resources.files(__package__).joinpath("catalogue.yaml").read_text(encoding="utf-8")
    book = YAML(typ="safe", pure=True).load(text)
    rows = sorted(book["logs"], key=lambda row: str(row["start"]))
    return tuple(_entry(row, book["archive"], book["citation"]) for row in rows)


def _entry(row: Mapping[str, Any], archive: str, citation: str) -> LogEntry:
    folder, file = row["file"].split("/")
    rest = {key: value for key, value in row.items() if key not in ("file", "problems")}
    return LogEntry(
        **{"terms": None, "checked": False} | rest,
        file=file,
        url=f"{archive}{folder}/{file}",
        page=f"{archive}{folder}/index.html",
        problems=tuple(row["problems"]),
        citation=citation,
    )
