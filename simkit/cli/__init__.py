"""The command line: `simkit run`, `sweep`, `compare`, `verify`, …; one function per command.

Exit codes: 0 success; 1 a rule is violated, a run failed or the output cannot be written; 2 wrong
usage, scenario or folder; 3 a trace cannot be read; 4 a policy broke a rule or failed; 5 a rule was
not audited (`verify --strict`); 6 a limit stopped the run; 130 interrupted, by Ctrl-C or
SIGTERM. Only light modules are imported here: the module of a command is imported when it is
called, so that every command starts quickly.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final

INTERRUPTED = 130

try:
    import typer
    from typer.main import get_command_from_info, get_group

    from simkit.cli.options import WholeHelpGroup
    from simkit.cli.text import echo, outlive_readers, output_is_lost
    from simkit.errors import (
        LimitError,
        PluginError,
        PolicyError,
        RunError,
        ScenarioError,
        SimkitError,
        TraceError,
        is_interrupt,
    )
except BaseException as error:  # during the imports, before `main` can handle it
    from simkit.errors import is_interrupt

    if not is_interrupt(error):
        raise
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

COMMANDS: Final = {
    "init": (
        "trace:init",
        "Write a first scenario for a log: its machines, estimates and a policy, with comments.",
    ),
    "calibrate": (
        "calibrate:calibrate",
        "Say which policy, estimates and limits explain the waits that a log records.",
    ),
    "run": ("run:run", "Run a scenario; write a run folder and print its metrics."),
    "sweep": (
        "run:sweep",
        "Run a scenario for every combination of the values under its `sweep` key.",
    ),
    "validate": (
        "run:validate",
        "Check a scenario and everything it names, and report all problems at once.",
    ),
    "show": ("run:show", "Print a scenario with all its defaults."),
    "train": ("learn:train", "Train an agent on a scenario, or continue an interrupted training."),
    "evaluate": (
        "learn:evaluate",
        "Compare agents and heuristics on the same held-out job sets, with confidence intervals.",
    ),
    "bound": (
        "results:bound",
        "Say how small waits, turnarounds and slowdowns can be at all, whatever the policy.",
    ),
    "reproduce": (
        "learn:reproduce",
        "Reproduce a paper's figures, from training to picture, next to its claims.",
    ),
    "compare": (
        "results:compare",
        "Compare runs, job by job or as a whole: differences B - A with confidence intervals.",
    ),
    "summarise": (
        "results:summarise",
        "Summarise a sweep: mean and interval over seeds of each metric, the best marked.",
    ),
    "verify": (
        "results:verify",
        "Audit runs against their inputs and every rule; exit 1 with the violating rows.",
    ),
    "explain": (
        "look:explain",
        "Say why jobs of a run waited, in intervals that add up to the wait.",
    ),
    "export": ("results:export", "Write a run for other tools."),
    "plot": ("look:plot", "Draw runs, a comparison, a sweep or trainings."),
    "report": (
        "look:report",
        "Write a report of runs or a sweep: one HTML file that opens from disk, without a network.",
    ),
    "policies": (
        "run:policies",
        "List the orders, backfilling and placement rules, policies and estimators by name.",
    ),
    "scenarios": ("run:scenarios", "List the bundled scenarios; `simkit run NAME` runs one."),
    "schema": ("run:schema", "Print the JSON Schema of scenario files, for editors."),
    "version": ("run:version", "Print simkit's version."),
    "trace": ("trace:app", "Inspect, check, convert, generate and download logs."),
    "burst-times": (
        "learn:burst_times",
        "Predict how long programs run from the sections of their executables.",
    ),
    "dataset": ("dataset:app", "Record what policies do, for learning from it."),
}
"""Command → where its function or group is in this room, and its help in one sentence."""


class Commands(WholeHelpGroup):
    """The commands of `COMMANDS`; the module of one is imported when it is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Built(COMMANDS)

    def short_helps(self, _ctx: Any) -> list[tuple[str, str]]:
        """Return (name, sentence) of each command, without importing any."""
        return [(name, sentence) for name, (_, sentence) in COMMANDS.items()]


class _Built(dict[str, Any]):
    """Commands by name, each built when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, tuple):
            self[name] = found = _built(name, found[0])
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  it would call itself

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


def load_command(place: str) -> Any:
    """Return the function or the group that stands at ``module:name`` of this room."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"simkit.cli.{module}"), name)


def _built(name: str, place: str) -> Any:
    found = load_command(place)
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    alone = typer.Typer()
    alone.command(name)(found)
    return get_command_from_info(
        alone.registered_commands[0], pretty_exceptions_short=False, rich_markup_mode=None
    )


app = typer.Typer(
    name="simkit",
    help="Replays HPC logs and cloud traces under scheduling policies.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        load_command("run:version")()
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
    _collect_seldom()
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
        if not is_interrupt(error):
            raise
        echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _collect_seldom() -> None:
    """Look for cyclic garbage less often, and not once more as the process ends.

    What a command imports and makes mostly stays until its end, and has been looked at in vain.
    """
    gc.set_threshold(200_000, 20, 100)  # more than imports and a scenario make
    atexit.register(gc.freeze)


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
