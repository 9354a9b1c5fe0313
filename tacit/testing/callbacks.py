"""What every callback promises; a callback's own test inherits this and says how to build it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from tacit.runs.callbacks import Callback, Outcome, RunEnd, RunStart

PLAN = {"mechanism": "gaussian", "population": 1000, "cohort": 20.0, "delta": 1e-06, "clip_norm": 0.5, "secagg": None}
METRICS = {"measured_on": "held-out users", "perplexity": 88.5, "top1": 0.25, "epsilon_if_planned_to_end_here": 1.2}


def run_of(rounds_done: int = 0, name: str = "mine") -> RunStart:
    return RunStart(name, "7f" * 16, copy.deepcopy(PLAN), rounds=8, rounds_done=rounds_done)


class CallbackContract:
    """Inherit, and define `build`, which makes a callback with nothing told yet.

    Every order of calls in which a run can be told must go through without an error, because an error stops the run.
    """

    def build(self) -> Callback:
        raise AssertionError("a callback's test says how to build it")

    def test_it_is_a_callback(self) -> None:
        assert isinstance(self.build(), Callback)

    def test_a_whole_run(self) -> None:
        callback = self.build()
        callback.on_warning("The noise is 12 times as long as the model.")
        for step in (1, 2):
            callback.on_pretraining(step, 2, 3.5)
        callback.on_start(run_of())
        callback.on_evaluation(0, dict(METRICS))  # a pre-trained model is measured before the first round
        for round in range(1, 9):
            callback.on_round(round, 8)
            if round % 4 == 0:
                callback.on_evaluation(round, dict(METRICS))
        callback.on_end(RunEnd("finished", 1.5, 1e-06, "ε = 1.50 at δ = 1e-06."))

    @pytest.mark.parametrize("outcome", ["stopped", "diverged", "failed"])
    def test_a_run_that_does_not_finish(self, outcome: Outcome) -> None:
        callback = self.build()
        callback.on_start(run_of())
        callback.on_round(1, 8)
        callback.on_end(RunEnd(outcome))

    def test_a_run_that_is_resumed_in_the_same_process(self) -> None:
        callback = self.build()
        callback.on_start(run_of())
        callback.on_evaluation(4, dict(METRICS))
        callback.on_end(RunEnd("stopped"))
        callback.on_start(run_of(rounds_done=2))
        callback.on_evaluation(4, dict(METRICS))
        callback.on_end(
            RunEnd("finished", math.inf, 1e-06, "No privacy is claimed: epsilon is infinite, because of a seed.")
        )

    def test_several_runs_one_after_another(self) -> None:
        callback = self.build()
        for name in ("classifier", "accuracy"):
            callback.on_start(run_of(name=name))
            callback.on_round(8, 8)
            callback.on_end(RunEnd("finished", 1.5, 1e-06, "ε = 1.50 at δ = 1e-06."))

    def test_an_end_before_the_start(self) -> None:
        """Pre-training fails, and there is no run."""
        callback = self.build()
        callback.on_pretraining(1, 2, 3.5)
        callback.on_end(RunEnd("failed"))

    @pytest.mark.parametrize(
        "metrics", [{}, {"loss": None}, {"loss": 0.5, "by_class": [0.1, 0.9], "note": "[bold]{x}"}]
    )
    def test_metrics_of_any_task(self, metrics: dict[str, Any]) -> None:
        """A task measures what it likes; a number that was not finite is None."""
        callback = self.build()
        callback.on_start(run_of())
        callback.on_evaluation(4, metrics)
        callback.on_end(RunEnd("stopped"))

    def test_arguments_are_left_as_they_are(self) -> None:
        callback, run, metrics = self.build(), run_of(), copy.deepcopy(METRICS)
        callback.on_start(run)
        callback.on_evaluation(4, metrics)
        callback.on_end(RunEnd("stopped"))
        assert run == run_of()
        assert metrics == METRICS
