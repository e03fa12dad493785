"""The commands `simkit burst-times …`: predict how long programs run from their executables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from simkit.cli.options import WholeHelpGroup
from simkit.cli.text import Table, echo, print_blocks

app = typer.Typer(
    help="Predict how long programs run from the sections of their executables.",
    cls=WholeHelpGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Model(StrEnum):
    """The kinds of models; see `simkit.learners.run_times.burst_models`."""

    LOCAL_POWER_LAW = "local-power-law"
    TREES = "trees"
    NETWORK = "network"


@app.command("fit")
def fit(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where to write the predictor's bundle.",
            show_default=False,
        ),
    ],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="The bursts.parquet that `simkit trace generate elf-bursts` has written; default: "
            "a sample that comes with simkit.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Model, typer.Option("--model", "-m", help="What is fitted.")
    ] = Model.LOCAL_POWER_LAW,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of what is held out, and of the model.")
    ] = 0,
) -> None:
    """Fit a predictor of run times to measured programs, and say how well it does.

    It is judged by the macro F1 of ten classes, tenths of 0.3 s, on 30 % of the programs, which are
    held out at random or by ranges of their size. The bundle is then fitted to all of them.
    """
    from simkit import plugins

    done = plugins.find("simkit.tools", "burst-times.fit")(table, output, model.value, seed)
    rows = [
        [way, *("-" if score is None else f"{score:.3f}" for score in scores)]
        for way, scores in done.macro_f1.items()
    ]
    print_blocks([Table(["Macro F1, held out", "static arrays", "arrays on the heap"], rows)])
    fitted = f"fitted to {done.programs:,} programs of {done.kinds} kinds"
    echo(f"\n{output} written: {model.value}, {fitted}")


@app.command("predict")
def predict(
    bundle: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE", help="A folder that `fit` has written."),
    ],
    programs: Annotated[
        list[Path],
        typer.Argument(metavar="PROGRAM", help="Executable files in ELF.", show_default=False),
    ],
) -> None:
    """Predict how long programs run, from the section sizes of their executables.

    The time is meant for the machine on which the programs of the fit were measured. A program that
    differs from all of them is marked: what is said of it means little.
    """
    from simkit import plugins
    from simkit.cli.text import wrapped

    found = plugins.find("simkit.tools", "burst-times.predict")(bundle, programs)
    heads = ["Program", "time", "class", "from", "to", "probability", "like those fitted to"]
    rows = [[str(one.path), *_cells(one), "no" if one.unlike else "yes"] for one in found]
    print_blocks([Table(heads, rows)])
    for one in found:
        if one.unlike:
            echo()
            wrapped(
                f"{one.path} is unlike every program that the predictor was fitted to: it is "
                f"{one.times_usual:,.1f} times as far from the nearest as 99 % of them are from "
                "theirs. Do not rely on its time; measure programs like it and fit again."
            )


def _cells(one: Any) -> list[str]:
    """Return time, class, its span and its probability."""
    low, high = one.span_s
    return [
        f"{one.run_time_s:.4f} s", str(one.label), f"{low:.2f} s",
        "-" if high is None else f"{high:.2f} s",
        "-" if one.probability is None else f"{one.probability:.0%}",
    ]  # fmt: skip
