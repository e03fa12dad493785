"""The command line: `simkit run`, `sweep`, `compare`, `verify`, … one function a command.

Exit codes: 0 all is well; 1 a rule is violated or a run failed; 2 wrong usage, scenario or folder;
3 a trace cannot be read; 4 a policy broke a rule; 130 interrupted. Only light modules are imported
here; each command imports what it needs when it is called.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

INTERRUPTED = 130

try:
    import typer

    from simkit.cli import catalogue as cli_catalogue
    from simkit.cli import catalogue as cli_reproduce
    from simkit.cli import learn as cli_evaluate
    from simkit.cli import learn as cli_train
    from simkit.cli import results as cli_results
    from simkit.cli import run as cli_run
    from simkit.cli import trace as cli_trace
    from simkit.errors import (
        PluginError,
        PolicyError,
        RunError,
        ScenarioError,
        SimkitError,
        TraceError,
    )
except KeyboardInterrupt:  # in the first moments, before `main` can take care of it
    print("interrupted", file=sys.stderr)
    sys.exit(INTERRUPTED)

EXIT_CODES = {ScenarioError: 2, PluginError: 2, RunError: 2, TraceError: 3, PolicyError: 4}
"""Kind of error → exit code; what is not listed is 1."""

app = typer.Typer(
    name="simkit",
    help="Replays HPC logs and cloud traces under scheduling policies.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("run")(cli_run.run)
app.command("sweep")(cli_run.sweep)
app.command("validate")(cli_run.validate)
app.command("show")(cli_run.show)
app.command("train")(cli_train.train)
app.command("evaluate")(cli_evaluate.evaluate)
app.command("reproduce")(cli_reproduce.reproduce)
app.command("compare")(cli_results.compare)
app.command("verify")(cli_results.verify)
app.command("export")(cli_results.export)
app.command("plot")(cli_results.plot)
app.command("policies")(cli_catalogue.policies)
app.command("scenarios")(cli_catalogue.scenarios)
app.command("schema")(cli_catalogue.schema)
app.command("version")(cli_catalogue.version)
app.add_typer(cli_trace.app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        cli_catalogue.version()
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Replays HPC logs and cloud traces under scheduling policies."""


def main() -> None:
    """Run the command line; errors of the user's are told in words, without a traceback."""
    try:
        app()
    except SimkitError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output, such as `head`, is gone: that is no error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def exit_code(error: SimkitError) -> int:
    """Return the exit code of an error."""
    if getattr(error, "failed_run", False):
        return 1
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
