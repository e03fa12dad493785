"""Finds the tables of an Alibaba trace: in a folder, in a tar archive, or as a single file."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from simkit.errors import TraceError

from .alibaba2017_layout import NAMES_OF_2018, TABLES
from .files import BLOCK_BYTES, LONGEST_LINE_BYTES, Block, opened, text_blocks

_PLAIN: Final = (".csv", ".csv.gz")
_ARCHIVES: Final = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True)
class TableFile:
    """Where a table lies: a file, or a member of an archive."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        """Return the place as messages name it: ``folder/trace.tgz:batch_task.csv``."""
        return str(self.path) if self.member is None else f"{self.path}:{self.member}"

    def blocks(self) -> Iterator[Block]:
        """Yield the table's lines; raise TraceError, with the line, for damaged or binary data."""
        if self.member is None:
            yield from text_blocks(self.path)
            return
        with _archive(self.path) as archive:
            for member in archive:
                if member.name == self.member and (stream := archive.extractfile(member)):
                    yield from _lines(stream, str(self))
                    return


def find_tables(path: Path, table: str) -> dict[str, TableFile]:
    """Return where each table lies: table → file.

    Args:
        path: a folder, a tar archive (plain or gzipped), or a single table.
        table: which table a single file is, whatever its name.

    Raises TraceError if there is nothing to read at `path`, or `table` is not in it.
    """
    if path.is_dir():
        found = _in_folder(path)
    elif _is_archive(path):
        found = _in_archive(path)
    else:
        name = _stem(path.name, _PLAIN)
        found = {name if name in TABLES else table: TableFile(path)}
    if table not in found:
        raise _missing(path, table, found)
    return found


def _in_folder(folder: Path) -> dict[str, TableFile]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        reason = error.strerror or error
        raise TraceError(f"{folder}: cannot be listed: {reason}; check its permissions") from None
    found: dict[str, TableFile] = {}
    for ending in _PLAIN:
        for name in names:
            if name.endswith(ending) and (table := name.removesuffix(ending)) in TABLES:
                found.setdefault(table, TableFile(folder / name))
    for name in names:  # an archive is gone through only for what does not lie beside it
        if name.endswith(_ARCHIVES) and not set(TABLES) <= set(found):
            found = _in_archive(folder / name) | found
    return found


def _in_archive(path: Path) -> dict[str, TableFile]:
    found: dict[str, TableFile] = {}
    with _archive(path) as archive:
        for member in archive:
            table = _stem(member.name.rpartition("/")[2], (".csv",))
            if member.isfile() and table in TABLES:
                found.setdefault(table, TableFile(path, member.name))
    return found


def _stem(name: str, endings: tuple[str, ...]) -> str:
    """Return the name without the longest of these endings that it has."""
    return name.removesuffix(max((e for e in endings if name.endswith(e)), key=len, default=""))


def _is_archive(path: Path) -> bool:
    """Tell tar archives by content; what is no file, or cannot be unpacked, is an error."""
    with opened(path) as stream:
        try:
            return stream.read(512)[257:262] == b"ustar"
        except (EOFError, OSError, zlib.error):
            return path.name.endswith(_ARCHIVES)  # reading it says, with the line, what is wrong


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive to be gone through once, from start to end."""
    with opened(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield archive
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise TraceError(
                f"{path}: the archive is cut off or damaged ({error}); fetch or copy it again"
            ) from None


def _lines(stream: IO[bytes], place: str) -> Iterator[Block]:
    """Yield whole lines of an archive's member."""
    line, rest = 1, b""
    while piece := stream.read(BLOCK_BYTES):
        if b"\0" in piece:
            raise TraceError(f"{place}:{line}: holds zero bytes from here on, so it is no text")
        lines, newline, tail = piece.rpartition(b"\n")
        if newline:
            block = Block(line, b"".join((rest, lines, newline)))
            yield block
            line, rest = line + block.text.count(b"\n"), tail
        else:
            rest += tail
        if len(rest) > LONGEST_LINE_BYTES:
            raise TraceError(
                f"{place}:{line}: no line end in {LONGEST_LINE_BYTES >> 20} MiB; check the file"
            )
    if rest:
        yield Block(line, rest + b"\n")


def _missing(path: Path, table: str, found: dict[str, TableFile]) -> TraceError:
    has = f"it has {', '.join(sorted(found))}" if found else "it has no table of the trace"
    newer = ""
    if path.is_dir():
        stems = {_stem(entry.name, (*_PLAIN, *_ARCHIVES)) for entry in path.iterdir()}
        if later := sorted(stems & set(NAMES_OF_2018)):
            newer = f"; {', '.join(later)} belongs to cluster-trace-v2018, simkit reads v2017"
    return TraceError(
        f"{path}: no table {table}; {has}{newer}; put {table}.csv, {table}.csv.gz or an archive "
        "(.tar.gz, .tgz) that holds it there"
    )
