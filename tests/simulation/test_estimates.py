"""What a run says before its first round, and what there is to see in the first ones; training is the same without it."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import tacit
from tacit.data.users import FIRST_WORD, OOV
from tacit.learning.batches import LEAST_STEPS
from tacit.learning.next_word import evaluate
from tacit.runs import checkpoints
from tacit.runs.callbacks import Callbacks, RunEstimate, RunStart
from tacit.runs.estimates import estimate_in_words
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.runs.metrics import read_metrics
from tacit.simulation import trial
from tacit.simulation.training import estimate_of, program_of, setup_of_recipe, start_run
from tests.support.tiny_recipe import tiny


class Asks(tacit.Callback):
    """Wants to know what the run will cost."""

    wants_estimate = True

    def __init__(self) -> None:
        self.order: list[str] = []
        self.estimate: RunEstimate | None = None

    def on_estimate(self, estimate: RunEstimate) -> None:
        self.order.append("estimate")
        self.estimate = estimate

    def on_start(self, run: RunStart) -> None:
        self.order.append("start")


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    found = checkpoints.latest(run / "checkpoints")
    assert found is not None
    return found.arrays


def test_a_model_is_the_same_with_and_without_estimate_and_early_evaluations(tmp_path):
    seeded = {"seed": 5, "rounds": 6}
    start_run(tiny(run=seeded), tmp_path / "plain", tacit.Callback())
    asks = Asks()
    start_run(tiny(run={**seeded, "evaluate_every": 6}), tmp_path / "asked", asks)
    assert asks.order == ["estimate", "start"]
    assert [line["round"] for line in read_metrics(tmp_path / "asked" / "metrics.jsonl")] == [0, 1, 2, 5, 6]
    assert [line["round"] for line in read_metrics(tmp_path / "plain" / "metrics.jsonl")] == [2, 4, 6]
    plain, asked = arrays_of(tmp_path / "plain"), arrays_of(tmp_path / "asked")
    assert plain.keys() == asked.keys()
    for name, array in plain.items():
        np.testing.assert_array_equal(array, asked[name])


def test_epsilon_is_the_one_that_the_guarantee_states(tmp_path):
    asks = Asks()
    start_run(tiny(run={"rounds": 2}), tmp_path / "run", asks)
    assert asks.estimate is not None
    stated = tacit.open_run(tmp_path / "run").guarantee()
    assert (asks.estimate.epsilon, asks.estimate.delta) == (stated.epsilon, stated.delta)
    assert (asks.estimate.rounds, asks.estimate.cohort, asks.estimate.words_a_user) == (2, 12, 24)
    assert asks.estimate.seconds is not None
    assert asks.estimate.seconds > 0


def program(tmp_path: Path, **sections: Any) -> Any:
    setup = setup_of_recipe(tiny(**sections), tmp_path / "run")
    return setup, program_of(setup, RunFolder.create(tmp_path / "run", setup.settings))


def test_an_estimate_reads_no_user(tmp_path):
    class Nobody:
        def __len__(self) -> int:
            raise AssertionError("users were counted")

        def gather(self, users: Any) -> Any:
            raise AssertionError("a user was read")

    setup, built = program(tmp_path)
    people, built.users.users = built.users.users, Nobody()
    assert trial.seconds_a_round(built, 300) is not None
    built.users.users = people
    seeded = estimate_of(*program(tmp_path / "seeded", run={"seed": 3}))
    assert math.isinf(seeded.epsilon)
    assert "seed" in seeded.reasons_not_private[0]
    assert setup.dataset.train is people


@pytest.mark.parametrize("layout", ["windows", "sentences"])
def test_a_made_up_user_has_as_much_text_as_the_cap_allows(tmp_path, layout):
    _, built = program(tmp_path, data={"layout": layout, "tokens_per_user": 60})
    chunk = trial._made_up_chunk(built.users, built.users.shape, 300)
    assert (chunk.own_steps == built.users.shape.steps).all()
    assert chunk.present.all()


def test_the_time_of_a_round_grows_with_the_cohort(tmp_path, monkeypatch):
    """A chunk takes two seconds and every round three more: what is extrapolated to the cohort is exact."""
    _, built = program(tmp_path)
    devices = len(built.users._devices)
    monkeypatch.setattr(trial, "_time", lambda program, chunks: 3.0 + 2.0 * len(chunks) / devices)
    expected = 3.0 + 2.0 * built.plan.cohort / (built.users.chunk * devices)
    assert trial.seconds_a_round(built, 300) == pytest.approx(expected)


def test_a_cap_that_nobody_reaches_takes_no_time_and_no_memory(tmp_path, monkeypatch):
    """The made-up users have a small part of it, and the time is extrapolated in proportion."""
    _, usual = program(tmp_path / "usual", data={"tokens_per_user": LEAST_STEPS * 12})
    _, endless = program(tmp_path / "endless", data={"tokens_per_user": LEAST_STEPS * 12 * 10**9})
    shape = usual.users.shape
    assert (shape.steps, endless.users.shape.steps) == (LEAST_STEPS, LEAST_STEPS * 10**9)
    timed = []
    monkeypatch.setattr(trial, "_time", lambda program, chunks: timed.append(chunks[0]) or 2.0 * len(chunks))
    seconds = trial.seconds_a_round(usual, 300)
    assert trial.seconds_a_round(endless, 300) == pytest.approx(10**9 * seconds)
    assert {chunk.batches.shape[1] for chunk in timed} == {LEAST_STEPS}


def test_secure_sums_are_not_timed(tmp_path):
    _, built = program(tmp_path)
    built.users.secure = object()
    assert trial.seconds_a_round(built, 300) is None


@pytest.mark.parametrize(
    ("every", "rounds", "expected"),
    [
        (20, 45, [0, 1, 2, 5, 10, 20, 40, 45]),
        (5, 10, [0, 1, 2, 5, 10]),
        (4, 8, [0, 4, 8]),
        (100, 3, [0, 1, 2, 3]),
    ],
)
def test_the_first_rounds_are_evaluated_if_evaluations_are_rare(every, rounds, expected):
    schedule = Schedule(rounds, every, 10)
    assert [round for round in range(rounds + 1) if schedule.evaluates(round)] == expected
    assert (0 in schedule.early) == (every >= 5)


def test_the_estimate_in_words():
    finite = estimate_in_words(RunEstimate(100, 500.0, 3.0449, 1e-5, (), 2.5, 400))
    assert finite.startswith(
        "Plan: 100 rounds of about 500 users. ε will be 3.05 at δ = 1e-05. They take about 4 minutes"
    )
    infinite = estimate_in_words(RunEstimate(1, 500.0, math.inf, 1e-5, ("of a seed",), None, None))
    assert infinite == "Plan: 1 round of about 500 users. ε will be infinite, because of a seed."


def test_the_estimate_says_which_words_no_model_can_guess(tmp_path):
    setup, built = program(tmp_path)
    before = estimate_of(setup, built, trial=False)
    assert before.out_of_vocabulary == evaluate(setup.start.model, setup.dataset.held_out).out_of_vocabulary
    assert 0 < before.out_of_vocabulary < 1
    plan, words = estimate_in_words(replace(before, out_of_vocabulary=0.0551)).splitlines()
    assert plan == estimate_in_words(replace(before, out_of_vocabulary=None))
    assert words == (
        "Vocabulary: 5.5% of the held-out people's words are outside the vocabulary and can never be guessed: accuracy cannot "
        "exceed 94.5%."
    )
    for nothing in (0.0, 0.0004):
        assert estimate_in_words(replace(before, out_of_vocabulary=nothing)) == plan


def test_words_outside_the_vocabulary_are_counted_on_held_out_users_alone(tmp_path):
    setup, built = program(tmp_path)
    unknown = np.where(setup.dataset.held_out >= FIRST_WORD, OOV, setup.dataset.held_out)
    aside = replace(setup, dataset=replace(setup.dataset, held_out=unknown))
    assert estimate_of(aside, built, trial=False).out_of_vocabulary == 1.0

    class Nobody:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("users who are trained on were read")

    others = replace(setup, dataset=replace(setup.dataset, train=Nobody()))
    assert estimate_of(others, built, trial=False) == estimate_of(setup, built, trial=False)


def test_only_those_who_ask_are_told():
    told: list[str] = []

    class Told(tacit.Callback):
        def on_estimate(self, estimate: RunEstimate) -> None:
            told.append("not asked")

    asks = Asks()
    both = Callbacks([Told(), asks])
    assert both.wants_estimate
    assert not Callbacks([Told()]).wants_estimate
    both.on_estimate(RunEstimate(1, 2.0, 3.0, 1e-5))
    assert asks.order == ["estimate"]
    assert told == []


def test_progress_shows_it():
    shown = io.StringIO()
    progress = tacit.Progress(console=Console(file=shown), estimate=True)
    assert progress.wants_estimate
    assert not tacit.Progress().wants_estimate
    progress.on_estimate(RunEstimate(1, 2.0, 3.0, 1e-5))
    assert shown.getvalue() == "Plan: 1 round of about 2 users. ε will be 3.00 at δ = 1e-05.\n"
