"""Downloads of gzipped logs that are whole or not there at all, with errors for people."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from simkit.errors import TraceError

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
