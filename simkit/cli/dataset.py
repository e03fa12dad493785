"""The commands `simkit dataset …`: record what policies do, for learning from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from simkit.cli.echo import echo
from simkit.cli.help_text import WholeHelpGroup
from simkit.cli.options import (
    NoCode,
    NoProgress,
    Scenario,
    Seed,
    Settings,
    overrides,
    scenario_source,
)

app = typer.Typer(
    help="Record what policies do, for learning from it.",
    cls=WholeHelpGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Written = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The .parquet file to write.")
]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A dataset that `record` or `mix` has written.")
]


@app.command("record")
def record(
    scenario: Scenario,
    output: Written,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Seeds, an episode each: 0..9 or 0,3,7.", show_default=False),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            min=1,
            help="As many seeds, from the scenario's on; default: 1.",
            show_default=False,
        ),
    ] = None,
    actions: Annotated[
        str | None,
        typer.Option(
            "--actions", help="What an action does: ready-pool, start, …", show_default=False
        ),
    ] = None,
    observation: Annotated[
        str | None, typer.Option("--observation", help="What is seen.", show_default=False)
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option("--slots", min=1, help="Tasks to choose from.", show_default=False),
    ] = None,
    max_decisions: Annotated[
        int | None,
        typer.Option(
            "--max-decisions", min=1, help="Cut episodes off after so many.", show_default=False
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward",
            help="Default: value, or bounded-slowdown of jobs without values.",
            show_default=False,
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            help="A reward, counted with the opposite sign; default: wait, in steps.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="KEY=VALUE",
            help="Another argument of SchedulingEnv, of reward or cost: "
            "--env action_arguments.max_start=12. May be repeated.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Of the policy; default: its own.", show_default=False),
    ] = None,
    seed: Seed = None,
    settings: Settings = None,
    no_code: NoCode = False,
    no_progress: NoProgress = False,
) -> None:
    """Record the decisions of a scenario's policy as those of an agent with numbered actions.

    Observations, actions and rewards are those of the Gymnasium environment with the same
    arguments, simkit.env.SchedulingEnv. The file has a row for each decision.
    """
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.learning.dataset.record import Recording
    from simkit.learning.dataset.record import record as do_record
    from simkit.progress import runs_progress
    from simkit.scenario.yaml_document import load_scenario
    from simkit.text import counted
    from simkit.training.held_out import parse_seeds

    if seeds is not None and (episodes is not None or seed is not None):
        raise typer.BadParameter("--seeds names the seeds; leave out --episodes and --seed")
    short = {
        "actions": actions, "observation": observation, "slots": slots,
        "max_decisions": max_decisions, "reward": reward, "cost": cost,
    }  # fmt: skip
    what = Recording.read(_arguments(short, env or ()))
    loaded = load_scenario(
        scenario_source(scenario), overrides=overrides(settings, seed), single=True,
        allow_code=not no_code,
    )  # fmt: skip
    chosen = [loaded.seed + number for number in range(episodes or 1)]
    if seeds is not None:
        chosen = parse_seeds(seeds)
    with (
        terminated_like_interrupted(),
        runs_progress(len(chosen), lambda last: f"seed {last}", not no_progress) as advance,
    ):
        done = do_record(loaded, output, what, chosen, name=name, on_end=advance)
    without = f"; {done.without:,} more without a decision" if done.without else ""
    echo(
        f"{output} written: {counted(done.decisions, 'decision')} of "
        f"{counted(done.episodes, 'episode')}{without}"
    )


def _arguments(short: dict[str, Any], texts: list[str] | tuple[()]) -> dict[str, Any]:
    """Return the arguments of options and of ``--env``, whose dotted keys are nested.

    Raises ScenarioError for a text that cannot be read, or if something is given twice.
    """
    from simkit.errors import ScenarioError
    from simkit.scenario.overrides import parse_overrides

    found = {key: value for key, value in short.items() if value is not None}
    for path, value in parse_overrides(texts).items():
        *outer, last = path.split(".")
        place = found
        for key in outer:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ScenarioError(
                    f"--env {path}: {key} is given as a whole as well; leave one out"
                )
        if last in place:
            raise ScenarioError(f"--env {path}: is given twice; leave one of them out")
        place[last] = value
    return found
