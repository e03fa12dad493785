"""The command `simkit train`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli_options import AsJson, NoProgress, Output, Scenario, Seed, Settings, overrides

if TYPE_CHECKING:
    from simkit.train import Trained

TRAININGS = Path("trainings")
"""Where trainings go if nobody says otherwise."""


class Device(StrEnum):
    """Where a learner calculates."""

    CPU = "cpu"
    CUDA = "cuda"


def train(
    scenario: Scenario,
    output: Output = None,
    learner: Annotated[
        str | None,
        typer.Option("--learner", help="Use this learner: deeprm, …", show_default=False),
    ] = None,
    seed: Seed = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help="Train for so many.", show_default=False),
    ] = None,
    settings: Settings = None,
    device: Annotated[
        Device, typer.Option("--device", help="Where the learner calculates.")
    ] = Device.CPU,
    checkpoint_every: Annotated[
        str,
        typer.Option(
            "--checkpoint-every", metavar="TIME", help="From one checkpoint to the next: 30s, 5m."
        ),
    ] = "60s",
    force: Annotated[
        bool,
        typer.Option("--force", help="Begin anew, whatever is in that folder."),
    ] = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Train an agent on a scenario, or go on with an interrupted training.

    The folder is trainings/NAME-HASH unless --output names one; FOLDER/agent is the agent, which a
    scenario names: `policy: {agent: FOLDER}`. The same command goes on where it was interrupted,
    and comes to the same agent as without an interruption.
    """
    from simkit.cli_text import print_json
    from simkit.mistaken_scenario import scenario_file
    from simkit.scenario import scenario_hash
    from simkit.scenario_file import load_scenario
    from simkit.train import stands_at
    from simkit.train import train as do_train
    from simkit.train_progress import training_progress

    laid_over = overrides([*(settings or ()), *_short(learner, iterations)], seed)
    loaded = load_scenario(scenario_file(scenario), overrides=laid_over, single=True)
    folder = output or TRAININGS / f"{loaded.name}-{scenario_hash(loaded)[:8]}"
    every_s = _seconds(checkpoint_every)
    try:
        with training_progress(enabled=not no_progress) as watch:
            done = do_train(
                loaded,
                folder,
                device=device.value,
                checkpoint_every_s=every_s,
                force=force,
                watch=watch,
            )
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; {stands_at(folder)}: the same command goes on from there", err=True
        )
        raise typer.Exit(130) from None
    if as_json:
        print_json(_as_json(done))
    else:
        _print(done)


def _short(learner: str | None, iterations: int | None) -> list[str]:
    """Return the settings that options stand for."""
    given = {"learn.learner": learner, "learn.iterations": iterations}
    return [f"{key}={value}" for key, value in given.items() if value is not None]


def _seconds(text: str) -> float:
    from simkit.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--checkpoint-every: {error}") from error
    if seconds <= 0:
        raise typer.BadParameter(f"--checkpoint-every is {text}; it must be more than 0")
    return seconds


def _as_json(done: Trained) -> dict[str, Any]:
    keys = ("learner", "seed", "iteration", "iterations", "stopped", "best")
    return {
        "training": str(done.folder),
        "agent": str(done.agent),
        **{key: done.info.get(key) for key in keys},
        "last": dict(done.rows[-1]) if done.rows else {},
        "was_finished": done.was_finished,
    }


def _print(done: Trained) -> None:
    from simkit.cli_text import say
    from simkit.units import format_duration

    info = done.info
    if done.was_finished:
        say("Training", f"{done.folder} was finished already; --force begins anew")
    seconds = sum(row.get("wall_time_s", 0.0) for row in done.rows)
    say("Learner", f"{info['learner']}, seed {info['seed']}, {info['device']}")
    say("Iterations", f"{info['iteration']:,} of {info['iterations']:,} in "
        f"{format_duration(seconds)}: {info.get('stopped', '')}")  # fmt: skip
    shown = {k: v for k, v in done.rows[-1].items() if k not in ("iteration", "wall_time_s")}
    say("Last", ", ".join(f"{name} {value:,.6g}" for name, value in shown.items()))
    if best := info.get("best"):
        name, value = next(iter(best.items()))
        say("Least", f"{name} {value:,.6g} at iteration {best['iteration']:,}")
    say("Agent", f"{done.agent} ({_kept(info)})")


def _kept(info: Any) -> str:
    best = info.get("best")  # a learner may judge nothing
    if best and info["scenario"]["learn"]["keep"] == "best":
        return f"of iteration {best['iteration']:,}, the least criterion"
    return "of the last iteration"
