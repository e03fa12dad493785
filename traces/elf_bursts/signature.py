"""The signature of a program: the sizes of the sections of its ELF file, and of the file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from simkit.errors import PluginError, TraceError

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
