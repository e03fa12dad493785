"""The programs of the data set: what they are called, how they are compiled, and how large.

Each is a file in the folder `programs`, compiled for one size of its input. The size is in the
sizes of its static arrays, and so in the sections of the ELF file; with arrays on the heap it is
not, which makes programs that no classifier of sections can tell apart.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Final

from simkit.errors import TraceError

_FOLDER: Final = Path(str(resources.files(__package__).joinpath("programs")))
_SUFFIX: Final = ".cpp"

KINDS: Final = tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))
"""Names of the programs."""
LEVELS: Final = ("O0", "O1", "O2", "O3")
"""Levels of optimisation."""


@dataclass(frozen=True)
class Program:
    """A program for one size of its input."""

    kind: str
    level: str
    heap: bool
    """Whether its arrays are on the heap."""
    size: int

    def compile(self, compiler: str, target: Path) -> None:
        """Write its ELF file; raises TraceError with the compiler's first message."""
        command = [
            compiler, f"-{self.level}", f"-DSIZE={self.size}", *(["-DHEAP"] if self.heap else []),
            str(_FOLDER / f"{self.kind}{_SUFFIX}"), "-o", str(target),
        ]  # fmt: skip
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, process_group=0
        )
        if found.returncode:
            message = next(iter(found.stderr.splitlines()), f"exit status {found.returncode}")
            raise TraceError(
                f"elf-bursts: {compiler} cannot compile {self.kind} of size {self.size}: {message}"
            )


def sources_hash() -> str:
    """Return a hash of the programs' sources, so that rows of different ones are not mixed."""
    found = sha256()
    for path in sorted(_FOLDER.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def find_compiler(name: str = "g++") -> str:
    """Return the compiler's path; raises TraceError if there is none."""
    path = shutil.which(name)
    if path is None:
        raise TraceError(
            f"elf-bursts: {name} is not on the PATH, and the programs are compiled by it; install "
            "GCC (Debian: apt install g++)"
        )
    return path


def compiler_version(compiler: str) -> str:
    """Return the first line of what the compiler says of itself."""
    found = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()[0]
