"""No option of a command lets code run that --no-code refuses, whichever option names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from command_line import Simkit

from simkit.cli import app

SCENARIO = """
workload: {type: rare, jobs: 5, offered_load: 0.5}
value: {}
learn: {learner: deeprm}
"""
CODE = "mine.py:Mine"
TEXTS: dict[str, tuple[str, ...]] = {
    # option → texts in which it may name code; () takes none
    "--set": (
        f"policy.order={CODE}", f"policy.path={CODE}", f"policy={CODE}", f"estimates={CODE}",
        f"processes=[{{path: '{CODE}'}}]", f"workload={{type: plugin, reader: '{CODE}'}}",
        f"learn.learner={CODE}", f"learn.arguments={{reward: '{CODE}'}}",
        f"policy={{model: mine.py, algorithm: '{CODE}'}}",
        f"power.controller.type={CODE}", f"policy={{fitness: '{CODE}'}}",
        f"policy={{agent: deepjs, args: {{compat: '{CODE}'}}}}",
        f"policy={{agent: fitness-alibaba, args: {{compat: '{CODE}'}}}}",
    ),
    "--policy": (CODE, "mine:Mine", f"{{order: '{CODE}'}}", f"sjf+{CODE}"),
    "--agent": (CODE,),
    "--learner": (CODE,),
    "--metric": (CODE,),
    "--metrics": (CODE,),
    "--on": (CODE,),
    "--seeds": (CODE,),
    "--windows": (CODE,),
    "--checkpoint-every": (CODE,),
    "--actions": (CODE,),
    "--observation": (CODE, f"deeprm-compact+{CODE}", f"{CODE}+{CODE}"),
    "--reward": (CODE,),
    "--cost": (CODE,),
    "--env": (
        f"reward={CODE}", f"cost={CODE}", f"reward.{CODE}=1", f"cost={{'{CODE}': 2}}",
        f"actions={CODE}", f"observation={CODE}", f"unit={CODE}", f"episode={{from: '{CODE}'}}",
        f"observation_arguments={{'{CODE}': {{}}}}", f"action_arguments.of={CODE}",
    ),
    "--name": (CODE,),
    "--switch-policy": (f"1h:{CODE}", "1h:mine:Mine", f"1h:{{order: '{CODE}'}}"),
    "--at": (CODE,),
    "--sort": (CODE,),
    "--format": (CODE,),
    "--engine": (CODE,),
    "--week": (CODE,),
    "--warmup": (CODE,),
}  # fmt: skip


def commands() -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each command with --no-code, and its options that take text."""
    todo = [([], typer.main.get_command(app))]
    while todo:
        words, command = todo.pop()
        below = getattr(command, "commands", {})
        todo += [([*words, name], part) for name, part in below.items()]
        names = {option for one in command.params for option in one.opts}
        if "--no-code" in names and not below:
            text = [
                max(one.opts, key=len)
                for one in command.params
                if one.param_type_name == "option"
                and one.type_descriptor.annotation in (str, list[str])
            ]
            yield words, text


CASES = [
    pytest.param(words, option, text, id=f"{' '.join(words)} {option} {text}")
    for words, options in commands()
    for option in options
    for text in TEXTS[option]
]


def test_every_option_that_takes_text_is_tried() -> None:
    found = {" ".join(words) for words, _ in commands()}
    assert found == {
        "run", "sweep", "validate", "show", "train", "evaluate", "bound", "dataset record",
        "calibrate", "explain",
    }  # fmt: skip
    assert {option for _, options in commands() for option in options} == TEXTS.keys()


@pytest.mark.sampled
@pytest.mark.parametrize(("words", "option", "text"), CASES)
def test_no_option_runs_code(
    words: list[str],
    option: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("mine.py").write_text("open('ran', 'w').close()\nclass Mine: pass\n")
    Path("s.yaml").write_text(SCENARIO)
    file = ["-o", "d.parquet"] if words[0] == "dataset" else []
    few = {
        "evaluate": ["--sets", "1", "-j", "1"],
        "train": ["--iterations", "1"],
        "sweep": ["-j", "1"],
    }
    few["evaluate"] = [] if option in ("--seeds", "--windows") else few["evaluate"]
    plain = [] if option == "--policy" or words != ["evaluate"] else ["--policy", "sjf"]
    done = Simkit(capsys, monkeypatch)(
        *words, "s.yaml", "--no-code", *file, *few.get(words[0], []), *plain, option, text
    )
    assert not Path("ran").exists()
    assert "Traceback" not in done.err
    named = option in ("--reward", "--cost", "--policy", "--learner", "--actions")
    if named and text == CODE:
        assert done.code == 2
        assert "is code, which would run; read it, and leave --no-code out" in done.err
