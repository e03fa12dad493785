"""The shell of trainings in torch: seeds, checkpoints and one thread, whatever is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from trainings import deeprm_scenario

from simkit.errors import RunError
from simkit.learners.common.arguments import check_device
from simkit.learners.common.torch_training import TorchTraining, one_thread
from simkit.learners.networks.build import build, seeded
from simkit.learners.networks.shapes import PerceptronShape
from simkit.sections import Section

SHAPE = PerceptronShape(type="perceptron", layers=(2, 4, 1), activation="relu")


class Arguments(Section):
    iterations: int = 4
    rate: float = 0.01


class Fit(TorchTraining):
    """Fits the sum of two numbers that are drawn."""

    learner = "fit"

    def __init__(self, seed: int = 0, arguments: Arguments | None = None) -> None:
        super().__init__(deeprm_scenario(), arguments or Arguments(), seed, ("numbers",))
        with seeded(self.stream("weights")):
            self.network = build(SHAPE)
        self.optimiser = torch.optim.Adam(self.network.parameters(), 0.01)
        self.threads: list[int] = []

    def _error(self, rng: np.random.Generator) -> torch.Tensor:
        self.threads.append(torch.get_num_threads())
        numbers = torch.from_numpy(rng.random((8, 2)).astype(np.float32))
        return (self.network(numbers)[:, 0] - numbers.sum(dim=1)).square().mean()

    def iterate(self):
        error = self._error(self.generators["numbers"])
        self.optimiser.zero_grad()
        error.backward()
        self.optimiser.step()
        return {"error": float(error.detach())}

    def evaluate(self):
        with torch.inference_mode():
            return {"slowdown": float(self._error(self.stream("held_out")))}

    def write_agent(self, folder, curve_end):
        how = {"architecture": {}, "observation": {}, "actions": {}}
        self.write_network(folder, self.network, {**how, "kind": "of a test"}, curve_end)


def test_iterations_and_evaluations_run_on_one_thread_and_the_number_is_set_back():
    before = torch.get_num_threads()
    made = Fit()
    torch.set_num_threads(2)
    made.step()
    made.held_out()
    assert (made.threads, torch.get_num_threads()) == ([1, 1], 2)
    torch.set_num_threads(before)


def test_the_number_of_threads_is_set_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == before


def test_what_is_drawn_has_a_stream_of_its_own():
    made = Fit()
    assert made.stream("a").random() == made.stream("a").random()
    assert made.stream("a").random() != made.stream("b").random()


def test_a_damaged_checkpoint_is_refused(tmp_path, monkeypatch):
    made = Fit()
    monkeypatch.setattr(made, "network", build(SHAPE.model_copy(update={"layers": (2, 5, 1)})))
    made.save(tmp_path)
    with pytest.raises(RunError, match="holds a damaged checkpoint .*start the training over"):
        Fit().load(tmp_path)


def test_a_device_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setattr("simkit.learners.common.arguments.find_spec", lambda _name: None)
    assert check_device("cpu") == []
    (problem,) = check_device("cuda")
    assert problem.startswith("device: ")
    assert "simkit-cluster[learn]" in problem
