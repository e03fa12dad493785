"""The programs that are measured: sources, compiler, run time, and the signature of the file.

The run time is the processor time of the process, which others disturb least. The signature is the
sizes of the sections of the ELF file, and of the file.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module, resources
from math import ceil
from pathlib import Path
from typing import Final

from simkit.errors import PluginError, TraceError

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


__all__ = ["pin", "processors", "run_time_s"]


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(processor: int) -> None:
    """Keep this thread, and what it starts from now on, on one processor, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processor})


def run_time_s(path: Path, most_s: float, runs: int) -> list[float] | None:
    """Return the processor times, user and system, of some runs of a program, in seconds.

    None if one was killed because it took `most_s` seconds, rounded up. Raises TraceError if one
    failed.
    """
    found = []
    for _ in range(runs):
        process = subprocess.Popen(
            [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C must not look like a program that fails
        )  # fmt: skip
        if hasattr(resource, "prlimit"):
            limit = ceil(most_s)
            with suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return None
        if process.returncode:
            raise TraceError(
                f"elf-bursts: {path.name} failed with exit status {process.returncode}; it may "
                "need more memory than there is"
            )
        found.append(usage.ru_utime + usage.ru_stime)
    return found


SECTIONS: Final = (
    "interp", "gnu.hash", "dynsym", "dynstr", "gnu.version", "gnu.version_r", "rela.dyn",
    "rela.plt", "init", "plt", "plt.got", "text", "fini", "rodata", "eh_frame_hdr", "eh_frame",
    "init_array", "fini_array", "dynamic", "got", "got.plt", "data", "bss", "comment", "symtab",
    "strtab", "shstrtab",
)  # fmt: skip
"""Sections, without the dot in front of their names: those of table I in "SchedQRM" (2019), and
others that compilers make."""


def require_pyelftools() -> None:
    """Raise PluginError, which says what to install, without pyelftools."""
    try:
        import_module("elftools.elf.elffile")
    except ModuleNotFoundError as error:
        raise PluginError(
            "elf-bursts: sections are read by pyelftools, which is not installed; "
            "pip install 'simkit-cluster[elf]'"
        ) from error


def read_signature(path: Path) -> dict[str, int]:
    """Return the size in bytes of each of `SECTIONS`, 0 where it is absent, and ``file_size``.

    Raises PluginError without pyelftools, TraceError if the file cannot be read or is not in ELF.
    """
    require_pyelftools()
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    sizes = dict.fromkeys(SECTIONS, 0)
    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                name = section.name.removeprefix(".")
                if name in sizes:
                    sizes[name] = int(section["sh_size"])
        size = path.stat().st_size
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read: {error.strerror or error}; name an executable file"
        ) from None
    except (ELFError, ValueError, LookupError, TypeError, AttributeError):  # all of damaged files
        raise TraceError(
            f"{path}: is not an ELF file; compile the programs on Linux or another system that "
            "uses ELF"
        ) from None
    return {**sizes, "file_size": size}
