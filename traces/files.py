"""Trace files: blocks of whole lines from plain or gzipped text; writing that is whole or nothing.

A reader sees a log through blocks of a few megabytes, so that a long log costs no more memory
than a short one. A damaged gzip file is read up to its last whole line, which the error names. A
writer fills a file next to the target and renames it at the end: no file is ever half written.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, BinaryIO, cast

import numpy as np

from simkit.errors import TraceError
from simkit.files import SpecialFileError, TooMuchError, Unpacked, refuse_special, unfinished

_PIECE = 1 << 16
_GZIP_WRAPPED = 31  # zlib's window bits for data in a gzip wrapper


def whole_lines(path: Path) -> int:
    """Return how many line ends of a gzip file can be unpacked, up to where it is damaged.

    Readers take a file in pieces of megabytes, and what was unpacked of a piece is lost when it
    breaks off; this looks again, closely. A file that cannot be read at all has 0 lines.
    """
    try:
        with path.open("rb") as packed:
            pieces = iter(lambda: packed.read(_PIECE), b"")
            return sum(text.count(b"\n") for text in _unpacked(pieces))
    except OSError:
        return 0


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text that can be had, of one member after the other."""
    member = zlib.decompressobj(_GZIP_WRAPPED)
    for piece in pieces:
        rest = piece
        while rest:
            before = member.copy()
            try:
                yield member.decompress(rest)
            except zlib.error:
                yield from _byte_by_byte(before, rest)
                return
            rest = member.unused_data if member.eof else b""
            if member.eof:
                member = zlib.decompressobj(_GZIP_WRAPPED)


def _byte_by_byte(member: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Yield what a piece holds before the byte that breaks it."""
    for position in range(len(piece)):
        try:
            yield member.decompress(piece[position : position + 1])
        except zlib.error:
            return


BLOCK_BYTES = 2 << 20
"""Text of a block; NumPy asks the system for huge pages, which are slow to get, from 4 MiB on."""
LONGEST_LINE_BYTES = 16 << 20

_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"(\xb5/\xfd": "zstd",
    b"PAR1": "Parquet",
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Whole lines of a text file."""

    first_line: int
    """Number of the first line, from 1."""
    text: bytes
    """The lines; each, also the last, ends in a newline."""


def text_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of a text file, plain or gzipped (told by content, not by name).

    Args:
        path: the file.
        block_bytes: about how much text a block holds.

    Raises TraceError, with the last whole line, if the file is missing, unreadable, binary, packed
    otherwise, or if its gzip data end early.
    """
    with opened(path) as stream:
        yield from whole_line_blocks(_pieces(stream, block_bytes, path), str(path))


def whole_line_blocks(pieces: Iterable[bytes], place: str) -> Iterator[Block]:
    """Yield the whole lines of a text that comes in pieces.

    Raises TraceError, which names `place` and the line, if it is binary or a line has no end.
    """
    line, rest = 1, b""
    for piece in pieces:
        if line == 1 and not rest:
            _refuse_utf_16(piece, place)
            piece = piece.removeprefix(_BYTE_ORDER_MARK)
        _refuse_binary(piece, place, line, all_controls=line == 1 and not rest)
        if whole := piece.rfind(b"\n") + 1:
            block = Block(line, rest + piece[:whole])
            yield block
            line, rest = line + block.text.count(b"\n"), piece[whole:]
        else:
            rest += piece
        if len(rest) > LONGEST_LINE_BYTES:
            raise TraceError(
                f"{place}:{line}: no line end in {LONGEST_LINE_BYTES >> 20} MiB, so this is no "
                "log of lines; check which file it is"
            )
    if rest:
        yield Block(line, rest + b"\n")


_TELLING = 8
"""From this many bytes on, zeros in every other place tell of UTF-16."""


def _refuse_utf_16(piece: bytes, place: str) -> None:
    """Raise TraceError for text with two bytes a character, as some spreadsheets export it."""
    some = piece[:1000]
    marked = some.startswith((b"\xff\xfe", b"\xfe\xff"))
    zeros = 2 * max(some[::2].count(0), some[1::2].count(0))
    if marked or (len(some) >= _TELLING and zeros > 0.8 * len(some)):
        raise TraceError(
            f"{place}: the text is in UTF-16, with two bytes a character; save it in UTF-8, or "
            "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        )


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does."""
    try:
        refuse_special(path)
        with path.open("rb") as stream:
            return stream.read(4) == b"PAR1"
    except (OSError, SpecialFileError):
        return False  # opening it as text says what is wrong


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacking gzip; what goes wrong is a TraceError with a remedy."""
    try:
        refuse_special(path)
        raw = path.open("rb")
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file{_near(path)}") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a folder; name a log file in it") from None
    except PermissionError:
        raise TraceError(f"{path}: may not be read; ask its owner for read permission") from None
    except SpecialFileError as error:
        raise TraceError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be opened: {error}; check the path") from None
    with raw:
        head = raw.peek(8)
        for magic, name in _OTHER_FORMATS.items():
            if head.startswith(magic):
                raise TraceError(
                    f"{path}: holds {name} data; unpack or convert it, plain text and gzip are read"
                )
        if head.startswith(_GZIP):
            with gzip.open(raw) as unpacked:
                try:
                    yield cast("IO[bytes]", Unpacked(cast("IO[bytes]", unpacked), path))
                except TooMuchError as error:
                    raise TraceError(f"{path}: {error}") from None
        else:
            yield raw


def _pieces(stream: IO[bytes], size: int, path: Path) -> Iterator[bytes]:
    try:
        while piece := stream.read(size):
            yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        lines = whole_lines(path)
        reached = "this is the last whole line" if lines else "no line is whole"
        raise TraceError(
            f"{path}:{max(lines, 1)}: the gzip data are cut off or damaged, {reached} ({error}); "
            "fetch or copy the file again"
        ) from None
    except OSError as error:
        raise TraceError(f"{path}: reading failed: {error}; check the disk") from None


def _refuse_binary(piece: bytes, place: str, line: int, *, all_controls: bool) -> None:
    """Raise TraceError for a 0 byte or, if `all_controls`, any other that is in no text."""
    if all_controls:
        letters = np.frombuffer(piece, np.uint8)
        beyond = (
            (letters < 9) | ((letters > 13) & (letters < 32)) | (letters == 127)
        )  # \t to \r are
        position = int(beyond.argmax()) if beyond.any() else -1
    else:
        position = piece.find(b"\0")
    if position >= 0:
        raise TraceError(
            f"{place}:{line + piece.count(10, 0, position)}: byte 0x{piece[position]:02x} does not "
            "occur in text, so this is a binary file; give the log as text, plain or gzipped"
        )


def _near(path: Path) -> str:
    """Return a suggestion for a missing file, from the names in its folder."""
    folder = path.parent
    if not folder.is_dir():
        return f": there is no folder {folder}; check the path"
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return "; check the path"
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"; did you mean {str(folder / near[0])!r}?" if near else f"; {folder} has no such name"


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it is written.

    A name ending in ``.gz`` is gzipped (without a time stamp: equal content, equal bytes). What
    was there before stays if anything fails.

    Raises TraceError if the file cannot be written.
    """
    try:
        with unfinished(path) as temporary:
            with temporary.open("wb") as raw:
                if path.suffix == ".gz":
                    with gzip.GzipFile("", "wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                        yield cast("BinaryIO", packed)
                else:
                    yield cast("BinaryIO", raw)
            temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise TraceError(
            f"{path}: cannot be written: {reason}; choose another place or make room"
        ) from None
