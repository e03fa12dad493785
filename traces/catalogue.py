"""The catalogue of public logs: what there is, known oddities, and downloads that are complete.

The logs belong to the Parallel Workloads Archive and to the sites that gave them. They are not
part of simkit: `fetch` downloads them from the archive. If you publish results, thank the
people named in an entry and cite the archive.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from http.client import HTTPException, IncompleteRead
from importlib import resources
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from simkit.errors import TraceError, did_you_mean

TIMEOUT_S = 30.0
"""How long a silent server is waited for."""
_PIECE = 1 << 16


class Progress(Protocol):
    """Is told how a download goes on."""

    def __call__(self, received: int, total: int | None) -> None:
        """Take the bytes received so far and the file's size, None where the server is silent."""


def download(url: str, target: Path, sha256: str | None, progress: Progress | None = None) -> Path:
    """Download `url` to `target` unless it is there, and return `target`.

    The bytes go to a temporary file in the same folder, which is checked (size, gzip, checksum)
    and then renamed; an existing file with another checksum is replaced.

    Raises TraceError if the network, the server, the file or the folder is at fault.
    """
    import pooch

    def get(url: str, file: Any, _pooch: Any) -> None:
        _receive(url, Path(file), progress)

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                url,
                known_hash=sha256,
                fname=target.name,
                path=target.parent,
                downloader=get,
            )
        if target.stat().st_mode & 0o777 == 0o600:
            target.chmod(0o644)  # the temporary file was private, the log is public
    except HTTPError as error:
        error.close()  # it holds the connection
        raise TraceError(
            f"{url}: the server answers {error.code} {error.reason}; see whether the archive has "
            "moved the file, and give the new place with base_url"
        ) from error
    except URLError as error:
        raise _no_answer(url, error.reason) from error
    except (ValueError, IncompleteRead) as error:
        raise TraceError(_wrong_bytes(url, sha256, error)) from error
    except (TimeoutError, HTTPException, ConnectionError) as error:
        raise _no_answer(url, error) from error
    except OSError as error:
        raise TraceError(
            f"{target.parent}: cannot write {target.name} there ({error.strerror or error}); "
            "choose another folder or free some space"
        ) from error
    return target


def _receive(url: str, file: Path, progress: Progress | None) -> None:
    """Write the bytes as served: a server that calls a .gz an encoding must not get it unpacked."""
    try:
        request = Request(url, headers={"User-Agent": "simkit", "Accept-Encoding": "identity"})
    except ValueError as error:
        raise TraceError(f"{url}: {error}; base_url must begin with https:// or http://") from error
    with urlopen(request, timeout=TIMEOUT_S) as answer, file.open("wb") as out:
        size = answer.headers.get("Content-Length")
        total = int(size) if size is not None else None
        received = 0
        while piece := answer.read(_PIECE):
            out.write(piece)
            received += len(piece)
            if progress is not None:
                progress(received, total)
    if total is not None and received != total:
        raise _CutOffError(f"{received:,} of {total:,} bytes arrived")
    _check_gzip(file)


def _check_gzip(file: Path) -> None:
    """Raise _CutOffError unless the file unpacks to its end."""
    try:
        with gzip.open(file) as unpacked:
            while unpacked.read(1 << 20):
                pass
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _CutOffError(f"it does not unpack: {error}") from error


class _CutOffError(ValueError):
    """The bytes that arrived are not the whole file."""


def _wrong_bytes(url: str, sha256: str | None, error: Exception) -> str:
    if isinstance(error, (_CutOffError, IncompleteRead)):
        return f"{url}: what arrived is not a whole gzipped log ({error}); try again"
    return (
        f"{url}: the checksum is not {sha256}; the archive has published another version, or the "
        "download was altered on its way: compare with the log's page, and use the file by its "
        "path if you trust it"
    )


def _no_answer(url: str, reason: object) -> TraceError:
    return TraceError(
        f"{url}: no answer ({reason}); check the network, or give a mirror with base_url, or get "
        "the file on another machine and use it by its path"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's notes, which would mix with the command line's own, for a moment."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


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
