"""Arguments and options that several commands share, and how their help is laid out.

The help is plain text of at most 80 columns. Typer's boxes leave the text of an option 26 columns
of 80, and break choices inside words.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer import BadParameter
from typer.core import TyperGroup

if TYPE_CHECKING:
    from simkit.cli.run_text import Groups
    from simkit.scenario.yaml_document import ScenarioText


_ENDINGS: Final = (".yaml", ".yml", ".json")


def complete_scenario(incomplete: str) -> list[str]:
    """Return the bundled scenarios, files and folders whose names begin like this.

    Files and folders are those of the working folder. Without a bundled scenario there is nothing
    to return: then the shell completes files itself, in any folder.
    """
    from simkit.scenario.bundled import scenario_names

    names = [name for name in scenario_names() if name.startswith(incomplete)]
    if not names:
        return []
    try:
        found = (entry for entry in Path().iterdir() if entry.name.startswith(incomplete))
        entries = [entry for entry in found if not entry.name.startswith(".")]
    except OSError:
        entries = []
    return [*names, *sorted(filter(None, map(_shown, entries)))]


def _shown(entry: Path) -> str:
    """Return a folder with a slash, and a file that may be a scenario; empty for others."""
    if entry.is_dir():
        return f"{entry.name}/"
    return entry.name if entry.name.endswith(_ENDINGS) else ""


class WholeHelpGroup(TyperGroup):
    """A group that lists its commands with all of their first sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Carry a command out; an error about a choice loses pydantic's prefix."""
        try:
            return super().invoke(ctx)
        except BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, which Typer would cut after one line each."""
        with formatter.section("Commands"):
            formatter.write_dl(self.short_helps(ctx))

    def short_helps(self, ctx: Any) -> list[tuple[str, str]]:
        """Return (name, first sentence) of each command."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return [
            (name, command.short_help or first_paragraph(command.help or ""))
            for name, command in commands.items()
            if command is not None and not command.hidden
        ]


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a text in one line."""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


Group = Literal["partition", "queue", "user", "group", "size", "length"]
"""What jobs are grouped by; see `simkit.results.group_metrics.By`."""


def _scenario(more: str = "") -> Any:
    return typer.Argument(
        metavar="SCENARIO",
        help="A scenario file, the name of a bundled one (see `simkit scenarios`), or - for "
        f"standard input{more}.",
        autocompletion=complete_scenario,
    )


Scenario = Annotated[str, _scenario()]
ScenarioOrFork = Annotated[str | None, _scenario("; left out with --fork")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Use this seed.")]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="auto|simpy|compiled",
        help="What replays the run, with the same result; auto: compiled where it can be.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the scenario: --set policy.order=sjf. May be repeated; "
        "relative paths in it start from the working folder.",
    ),
]
SwitchPolicy = Annotated[
    list[str] | None,
    typer.Option(
        "--switch-policy",
        metavar="TIME:POLICY",
        help="Let another policy decide from TIME on, a duration after the first submission or a "
        "date: 30d:sjf+easy. May be repeated.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Level = Annotated[float, typer.Option(help="Confidence level.")]
Workers = Annotated[
    int | None, typer.Option("--workers", "-j", min=1, help="Processes; default: all cores.")
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")]


def _heed_no_code(context: typer.Context, no_code: bool) -> bool:
    """Refuse code for the rest of the command, whichever option or file names it."""
    from simkit.plugins import code_refused

    if no_code:
        context.with_resource(code_refused())
    return no_code


NoCode = Annotated[
    bool,
    typer.Option(
        "--no-code",
        help="Refuse what names code, my_policy.py:Mine or module:Mine: a scenario or an option.",
        callback=_heed_no_code,
    ),
]
By = Annotated[
    Group | None,
    typer.Option(
        "--by",
        help="Also by group of jobs. The partition is the scenario's, or else the log's; the size "
        "is what a job asks for, the length its run time.",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="METRIC",
        help="With --by: order groups by this metric, largest first, such as wait_time_s; in a "
        "comparison, by its largest difference.",
    ),
]
Top = Annotated[
    int | None,
    typer.Option("--top", min=1, help="With --by: how many groups are printed; default: 20."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print uninformative rows.")]
Partial = Annotated[bool, typer.Option("--partial", help="Accept a run that did not finish.")]


def groups_of(by: Group | None, sort: str | None, top: int | None) -> Groups | None:
    """Return how groups of jobs are printed; raises BadParameter for a sort or top of none."""
    from simkit.cli.run_text import MOST, Groups

    if by is None:
        if sort is not None or top is not None:
            raise typer.BadParameter("--sort and --top order groups of jobs; add --by user or so")
        return None
    return Groups(by, sort, MOST if top is None else top)


def overrides(
    settings: list[str] | None, seed: int | None, engine: str | None = None
) -> dict[str, Any]:
    """Return dotted key → value of ``--set``, ``--seed`` and ``--engine``, with absolute paths.

    Raises ScenarioError for a setting that cannot be read, or if two give the same key.
    """
    from simkit.errors import ScenarioError
    from simkit.scenario.overrides import anchor_paths, parse_overrides

    laid_over = anchor_paths(parse_overrides(settings or ()), Path.cwd())
    for key, value, what in (("seed", seed, "a seed"), ("engine", engine, "an engine")):
        if value is None:
            continue
        if key in laid_over:
            raise ScenarioError(
                f"both --{key} and --set {key}=… give {what}; leave one of them out"
            )
        laid_over[key] = value
    return laid_over


def swept(settings: list[str] | None) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the settings of one value, and dotted key → values of the others.

    Raises ScenarioError for a setting that cannot be read.
    """
    from simkit.scenario.overrides import anchor_swept, parse_sweep

    single, found = parse_sweep(settings or ())
    return single, anchor_swept(found, Path.cwd())


def scenario_source(text: str) -> Path | ScenarioText:
    """Return what the argument SCENARIO names; for ``-``, what standard input holds.

    Raises ScenarioError if it is neither a file nor a bundled scenario, or cannot be read.
    """
    from simkit.errors import ScenarioError
    from simkit.experiment.api import scenario_file
    from simkit.scenario.yaml_document import ScenarioText
    from simkit.scenario.yaml_lines import LARGEST_FILE

    if text != "-":
        return scenario_file(text)
    if sys.stdin is None:
        raise ScenarioError("<stdin>: standard input is closed; pipe a scenario in, or name a file")
    try:
        return ScenarioText(sys.stdin.buffer.read(LARGEST_FILE + 1), "<stdin>")
    except OSError as error:
        raise ScenarioError(f"<stdin>: cannot be read: {error.strerror}") from error
