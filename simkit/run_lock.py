"""The lock of a run folder: two processes never write into one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from simkit.errors import RunError
from simkit.output_place import unwritable


def claim(folder: Path) -> int | None:
    """Make the folder and lock it for this process; return the lock, None where there is none.

    The lock is a file descriptor; closing it frees the folder, and so does the process's end.

    Raises RunError if the folder cannot be made, or another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    if os.name != "posix":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise RunError(
                f"{folder}: another process is writing a run there; wait for it, or choose another "
                "folder with --output"
            ) from error
        return None  # a file system without locks
    return lock
