"""The commands `simkit dataset …`: record what policies do, for learning from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import (
    NoCode,
    NoProgress,
    Scenario,
    Seed,
    Settings,
    WholeHelpGroup,
    overrides,
    scenario_source,
)
from simkit.cli.text import Blocks, Line, Plain, Table, echo, print_blocks

if TYPE_CHECKING:
    from simkit.gym.dataset import Dataset

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


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the command with a sentence; what writes files removes them."""
    from simkit.experiment.interrupt import terminated_like_interrupted

    try:
        with terminated_like_interrupted():
            yield
    except KeyboardInterrupt:
        echo("interrupted; nothing was written", err=True)
        raise typer.Exit(130) from None


@app.command("record")
def record(
    scenario: Scenario,
    output: Written,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, an episode each: 0..9 or 0,3,7.")
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of episodes; seeds count up from the scenario's; default: 1."
        ),
    ] = None,
    actions: Annotated[
        str | None,
        typer.Option(
            help="What an action does: start, next-head, pick or classes; slots in slotted time; "
            "ready-pool; default: slots or start."
        ),
    ] = None,
    observation: Annotated[str | None, typer.Option(help="What is seen.")] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Tasks to choose from.")] = None,
    max_decisions: Annotated[
        int | None, typer.Option(min=1, help="Truncate each episode after this many decisions.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Default: value, or bounded-slowdown of jobs without values.")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="A reward, counted with the opposite sign; default: wait, in steps."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Another argument of SchedulingEnv, of reward or cost: "
            "--env action_arguments.max_start=12. May be repeated.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the policy; default: its own.")] = None,
    seed: Seed = None,
    settings: Settings = None,
    no_code: NoCode = False,
    no_progress: NoProgress = False,
) -> None:
    """Record a policy's decisions as numbered agent actions.

    Observations, actions and rewards are those of the Gymnasium environment with the same
    arguments, simkit.env.SchedulingEnv. The file has a row for each decision.
    """
    from simkit.gym.record_dataset import Recording
    from simkit.gym.record_dataset import record as do_record
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
    what = Recording(**_arguments(short, env or ()))
    loaded = load_scenario(
        scenario_source(scenario), overrides=overrides(settings, seed), single=True,
        allow_code=not no_code,
    )  # fmt: skip
    chosen = [loaded.seed + number for number in range(episodes or 1)]
    if seeds is not None:
        chosen = parse_seeds(seeds)
    with (
        _interruptible(),
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


@app.command("mix")
def mix(
    shares: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE=SHARE",
            help="Datasets, each with its share of the decisions: a.parquet=0.5.",
        ),
    ],
    output: Written,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Decisions in all; default: the most that the datasets have for these shares.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
) -> None:
    """Mix datasets: whole episodes of each, as near to the stated shares as these allow."""
    from simkit.gym.dataset import mix as do_mix

    with _interruptible():
        done = do_mix(_shares(shares), output, decisions=rows, seed=seed)
    table = [
        [str(part.path), f"{part.share:.1%}", f"{part.came:.1%}", f"{part.decisions:,}",
         f"{part.episodes:,}"]
        for part in done
    ]  # fmt: skip
    print_blocks([Table(["Dataset", "share", "came out", "decisions", "episodes"], table)])
    echo(f"\n{output} written")


def _shares(texts: list[str]) -> dict[Path, float]:
    """Return file → share; raises ScenarioError, all problems at once."""
    from simkit.errors import ScenarioError

    found: dict[Path, float] = {}
    wrong = []
    for text in texts:
        file, _, number = text.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            file = ""
        if not file:
            wrong.append(f"{text}: is no dataset with a share; write a.parquet=0.5")
        elif Path(file) in found:
            wrong.append(f"{file}: is given twice; leave one of them out")
        else:
            found[Path(file)] = share
    if wrong:
        raise ScenarioError(wrong)
    return found


@app.command("export")
def export(
    file: File,
    minari: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write a new folder that Minari reads; its name is the id, such as rare-v0.",
        ),
    ] = None,
    d3rlpy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write an .h5 file that ReplayBuffer.load of d3rlpy reads."
        ),
    ] = None,
) -> None:
    """Write a dataset in the form of other libraries; needs h5py, simkit-cluster[export]."""
    from simkit.gym.dataset import read_dataset
    from simkit.gym.export_dataset import write_d3rlpy, write_minari

    if minari is None and d3rlpy is None:
        raise typer.BadParameter("say what to write: --minari FOLDER, --d3rlpy FILE, or both")
    data = read_dataset(file)
    if minari is not None:
        write_minari(data, minari, file)
        echo(f"{minari} written (minari)")
    if d3rlpy is not None:
        write_d3rlpy(data, d3rlpy, file)
        echo(f"{d3rlpy} written (d3rlpy)")


@app.command("show")
def show(file: File) -> None:
    """Show what is in a dataset: its policies, what they earned, and the actions they took."""
    from simkit.gym.dataset import read_dataset

    print_blocks(_dataset_blocks(read_dataset(file)))


def _dataset_blocks(data: Dataset) -> Blocks:
    """Yield what each policy did and earned, then how long and how well all did."""
    from simkit.gym.dataset import summary
    from simkit.text import counted
    from simkit.units import quantity

    found = summary(data)
    heads = ["Policy", "decisions", "share", "mean reward", "mean cost", "mean probability"]
    rows = [
        [one.name, f"{one.decisions:,}", f"{one.share:.1%}",
         *(quantity(number, "1") for number in (one.reward, one.cost, one.probability))]
        for one in found.behaviours
    ]  # fmt: skip
    yield Table(heads, rows)
    yield Plain()
    yield Line("Decisions", f"{found.decisions:,} of {counted(found.episodes, 'episode')}, "
        f"{found.terminated:,} terminated and {found.truncated:,} truncated")  # fmt: skip
    yield Line("Time", f"{found.hours:,.1f} simulated hours")
    for label, mean, of_episode in (
        ("Reward", found.reward, found.reward_of_episode),
        ("Cost", found.cost, found.cost_of_episode),
    ):
        of = f"{quantity(mean, '1')} a decision, {quantity(of_episode, '1')} an episode"
        yield Line(label, f"{of}: {_named(data.facts, label.lower())}")
    actions = (f"{name} {share:.1%}" for name, share in found.actions.items())
    yield Line("Actions", ", ".join(actions))
    seen = data.facts.get("observation", {}).get("name", "not known")
    yield Line("Observation", f"{seen}, {counted(data.observation.shape[1], 'number')}")


def _named(facts: Any, key: str) -> str:
    """Return the name of the reward or cost."""
    named = facts.get(key, {}).get(key, "not known")
    return named if isinstance(named, str) else " + ".join(f"{w:g} {n}" for n, w in named.items())
