"""The data card: where a table of programs comes from, what is in it, and how noisy it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from simkit.traces.elf_bursts.plan import CLASSES, HEAP_SHARE, LONGEST_S
from simkit.traces.elf_bursts.table import noise_of


def write_card(path: Path, table: pl.DataFrame, made_by: Mapping[str, Any], left_out: int) -> None:
    """Write the card of a table.

    Args:
        path: of the Markdown file.
        table: as `bursts_table` returns it.
        made_by: seed, machine and compiler.
        left_out: programs that took too long.
    """
    noise, kinds, name = noise_of(table), table["kind"].n_unique(), path.resolve().parent.name
    lines = [
        "# Burst times of small programs", "",
        f"{table.height:,} C++ programs of {kinds} kinds: the sizes of the sections of their ELF "
        "files, and how long they run. Each was compiled for one size of its input, at one level "
        "of optimisation.", "",
        f"- Made by: `simkit trace generate elf-bursts {name} --jobs {table.height} "
        f"--seed {made_by['seed']}`",
        f"- Machine: {made_by['machine']}; compiler: {made_by['compiler']}",
        "- Run time: processor time (user and system) of the process, pinned to a processor; the "
        "smallest of three runs",
        f"- Classes: {CLASSES}, each {LONGEST_S / CLASSES:g} s wide; sizes were chosen so that run "
        f"times are spread evenly; {left_out:,} programs took longer and were left out",
        f"- {HEAP_SHARE:.0%} of the programs have their arrays on the heap (`heap`): their "
        "section sizes do not depend on the size of the input",
        f"- Noise: relative standard deviation of a run time {noise.sigma:.2%} ({noise.pairs:,} "
        f"programs measured again at the end); {noise.flips:.1%} of them changed their class, and "
        f"{noise.single_flips:.1%} did between two single runs", "",
        "## Rows by class", "", "| class | run time, s | rows | most frequent kind | its share |",
        "|---|---|---|---|---|", *_classes(table), "",
        "## Rows by kind", "", "| kind | rows | on the heap |", "|---|---|---|", *_kinds(table), "",
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")


def _classes(table: pl.DataFrame) -> list[str]:
    width, lines = LONGEST_S / CLASSES, []
    for number in range(CLASSES):
        rows = table.filter(pl.col("class") == number)
        span = f"{number * width:.2f}-{(number + 1) * width:.2f}"
        if not rows.height:
            lines.append(f"| {number} | {span} | 0 | | |")
            continue
        kind, most = rows["kind"].value_counts().sort("count", "kind").row(-1)
        share = most / rows.height
        lines.append(f"| {number} | {span} | {rows.height:,} | {kind} | {share:.1%} |")
    return lines


def _kinds(table: pl.DataFrame) -> list[str]:
    counts = table.group_by("kind").agg(pl.len(), pl.col("heap").sum()).sort("kind")
    return [f"| {kind} | {rows:,} | {heap:,} |" for kind, rows, heap in counts.rows()]
