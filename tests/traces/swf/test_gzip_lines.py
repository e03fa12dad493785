"""How many whole lines a damaged gzip file still gives, and the error that names them."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.traces.files import text_blocks, whole_lines

TEXT = b"".join(b"line %d of the log, %d\n" % (n, n * n % 7919) for n in range(3000))


def lines_of(packed: bytes) -> int:
    """Return the line ends that zlib gives out, handed one byte after the other."""
    member, text = zlib.decompressobj(31), b""
    for byte in packed:
        text += member.decompress(bytes([byte]))
    return text.count(b"\n")


@given(st.integers(0, len(gzip.compress(TEXT)) - 1))
def test_a_cut_file_has_the_lines_before_the_cut(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("cut") / "a.gz"
    path.write_bytes(gzip.compress(TEXT)[:size])
    assert whole_lines(path) == lines_of(gzip.compress(TEXT)[:size])


DAMAGED = [
    # content, whole lines
    (gzip.compress(TEXT) + gzip.compress(TEXT)[:-4], 6000),  # several members, the last one cut
    (gzip.compress(TEXT) + b"rubbish", 3000),  # what follows is no gzip
    (gzip.compress(TEXT)[:-8] + bytes(8), 3000),  # all there, but the checksum is wrong
    (gzip.compress(b"no line end", mtime=0)[:-1], 0),
    (b"\x1f\x8b", 0),
]


@pytest.mark.parametrize(("content", "lines"), DAMAGED)
def test_the_error_names_the_last_whole_line(tmp_path, content, lines):
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    assert whole_lines(path) == lines
    with pytest.raises(TraceError) as caught:
        list(text_blocks(path))
    reached = "this is the last whole line" if lines else "no line is whole"
    expected = f"{path}:{max(lines, 1)}: the gzip data are cut off or damaged, {reached} ("
    assert str(caught.value).startswith(expected)


def test_bytes_that_break_the_packing_end_the_lines_there(tmp_path):
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(TEXT) + packer.flush(zlib.Z_FULL_FLUSH)
    path = tmp_path / "a.gz"
    path.write_bytes(packed + b"\xff" * 100)  # a kind of block that does not exist
    assert whole_lines(path) == 3000
    with pytest.raises(TraceError, match=":3000: the gzip data are cut off"):
        list(text_blocks(path))


def test_a_file_that_is_gone_has_no_lines(tmp_path):
    assert whole_lines(tmp_path / "gone.gz") == 0
