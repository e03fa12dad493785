"""The command line: `simkit run`, `sweep`, `compare`, `verify`, …; one function per command.

Exit codes: 0 success; 1 a rule is violated, a run failed or the output cannot be written; 2 wrong
usage, scenario or folder; 3 a trace cannot be read; 4 a policy broke a rule or failed; 5 a rule was
not audited (`verify --strict`); 6 a limit stopped the run; 130 interrupted, by Ctrl-C or
SIGTERM. Only light modules are imported here: a command imports what it needs when it is called, so
that `simkit --help` is quick.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

INTERRUPTED = 130

try:
    import typer

    from simkit.cli import (
        burst_times,
        calibration,
        catalogue,
        dataset,
        learn,
        reproduce,
        results,
        run,
        trace,
    )
    from simkit.cli.closed_pipes import outlive_readers, output_is_lost
    from simkit.cli.echo import echo
    from simkit.cli.help_text import WholeHelpGroup
    from simkit.cli.look import explain, plot, report
    from simkit.errors import (
        LimitError,
        PluginError,
        PolicyError,
        RunError,
        ScenarioError,
        SimkitError,
        TraceError,
    )
except KeyboardInterrupt:  # during the imports, before `main` can handle it
    sys.stderr.write("interrupted\n")
    sys.exit(INTERRUPTED)

EXIT_CODES = {
    ScenarioError: 2,
    PluginError: 2,
    RunError: 2,
    TraceError: 3,
    PolicyError: 4,
    LimitError: 6,
}
"""Kind of error → exit code; 1 for any other."""

app = typer.Typer(
    name="simkit",
    help="Replays HPC logs and cloud traces under scheduling policies.",
    cls=WholeHelpGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("init")(trace.init)
app.command("calibrate")(calibration.calibrate)
app.command("run")(run.run)
app.command("sweep")(run.sweep)
app.command("validate")(run.validate)
app.command("show")(run.show)
app.command("train")(learn.train)
app.command("evaluate")(learn.evaluate)
app.command("reproduce")(reproduce.reproduce)
app.command("compare")(results.compare)
app.command("summarise")(results.summarise)
app.command("verify")(results.verify)
app.command("explain")(explain.explain)
app.command("export")(results.export)
app.command("plot")(plot.plot)
app.command("report")(report.report)
app.command("policies")(catalogue.policies)
app.command("scenarios")(catalogue.scenarios)
app.command("schema")(catalogue.schema)
app.command("version")(catalogue.version)
app.add_typer(trace.app, name="trace")
app.add_typer(burst_times.app, name="burst-times")
app.add_typer(dataset.app, name="dataset")


def _print_version(wanted: bool) -> None:
    if wanted:
        catalogue.version()
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
    """Run the command line; a `SimkitError` is printed without a traceback."""
    outlive_readers()
    _keep_ignoring_ctrl_c()
    try:
        with _terminated_like_interrupted():
            app(prog_name="simkit")
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            echo("interrupted", err=True)  # typer ends the command, and says nothing
        sys.exit(end.code or int(output_is_lost()))
    except SimkitError as error:
        echo(error, err=True)
        sys.exit(exit_code(error))
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        echo(f"the memory does not suffice{reason}; use a smaller scenario or file", err=True)
        sys.exit(1)
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _is_interrupt(error: BaseException) -> bool:
    """Return whether an error is an interrupt, or what polars makes of one during its import."""
    panic = type(error).__name__ == "PanicException" and "KeyboardInterrupt" in str(error)
    return panic or isinstance(error, KeyboardInterrupt)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end every command as Ctrl-C does: with a sentence, and nothing half written."""
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _keep_ignoring_ctrl_c() -> None:
    """Ignore Ctrl-C if it was ignored at the start, as in a job of a script in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        import polars  # noqa: F401  which listens to Ctrl-C from its import on

        signal.signal(signal.SIGINT, signal.SIG_IGN)


def exit_code(error: SimkitError) -> int:
    """Return the exit code of an error."""
    if getattr(error, "failed_run", False):
        return 1
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
