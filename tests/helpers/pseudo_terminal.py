"""A command of simkit on a pseudo-terminal, which Windows does not have."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path


def on_terminal(command: str, columns: int, folder: Path) -> str:
    """Return what a command prints on a pseudo-terminal of a width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    surroundings = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from simkit.cli import main; main()", *command.split()],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
        env=surroundings | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:  # Linux: the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0, printed.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode())
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n"))
