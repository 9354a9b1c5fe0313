"""The search: it finds the best setting, keeps within its budget, and does not take luck for accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from tacit.errors import DivergedError, RunError
from tacit.learning.averaging import ExponentialAverage, LastAverage
from tacit.learning.trainable import EVERYTHING
from tacit.recipe.tuning import Setting, Tunable
from tacit.simulation.tuning import search
from tacit.simulation.tuning.search import Budget, Trial, Tuned, tune
from tests.support.public_text import tree_with

# How accurate a setting is: (setting, seed of the noise) -> accuracy.
Truth = Callable[[dict[str, Any], int], float]
LONG = 1e6


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tuned]:
    """A search in which accuracies are made up, and a training takes a second of a clock that stands still otherwise."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(search.time, "monotonic", lambda: clock.now)

    class Made:
        start = SimpleNamespace(model=None)

        def evaluate(self, model: Any) -> dict[str, float]:
            return {"top1": 0.01, "papers_top1": 0.01}

    stand_ins: Any = SimpleNamespace(setup=lambda recipe, seed: Made())

    def run(truth: Truth, budget: Budget, seen: list[tuple[Setting, int]] | None = None) -> Tuned:
        def train(self: Any, trial: Trial, seed: int, best: Trial | None) -> None:
            clock.now += 1.0
            self._seconds_a_round = 1.0 / dict(trial.setting)["run.rounds"]
            value = truth(dict(trial.setting), seed)
            if value < 0:
                trial.problem = "training diverged"
            else:
                plain = {"top1": value, "papers_top1": 1 - value}
                trial.runs.append({None: plain, LastAverage(5): {name: each / 2 for name, each in plain.items()}})
            if seen is not None:
                seen.append((trial.setting, seed))

        monkeypatch.setattr(search._Search, "_train", train)
        able = Tunable(tree_with("public", "private"), 4.0, ("embedding", "cell", "output_bias"))
        return tune(able, stand_ins, budget, Path("nowhere"))

    return run


def likes(setting: dict[str, Any], seed: int) -> float:
    """Best with four times the server's rate, half the clip and a cosine."""
    value = 0.1 if setting["server.learning_rate"] == 4.0 else 0.05 if setting["server.learning_rate"] == 2.0 else 0.0
    value += 0.02 if setting["privacy.clip_norm"] == 0.15 else 0.0
    return value + (0.01 if setting["server.schedule"] == "cosine" else 0.0)


def test_it_climbs_to_the_best_setting(searched: Callable[..., Tuned]) -> None:
    found = searched(likes, Budget(LONG))
    server, privacy = found.recipe.server, found.recipe.privacy
    assert (server.learning_rate, privacy.clip_norm, server.schedule) == (4.0, 0.15, "cosine")
    assert found.planned.epsilon <= 4.0
    assert found.average is None
    settings = [trial.setting for trial in found.trials]
    assert len(set(settings)) == len(settings)  # nothing is tried twice by the search itself


def test_the_metric_decides(searched: Callable[..., Tuned]) -> None:
    by_papers = searched(likes, Budget(LONG, metric="papers_top1"))
    assert by_papers.recipe.server.learning_rate not in (2.0, 4.0)


def test_the_same_seed_tries_the_same(searched: Callable[..., Tuned]) -> None:
    one, other = ([trial.setting for trial in searched(likes, Budget(LONG, trials=6, seed=3)).trials] for _ in range(2))
    assert one == other
    assert one != [trial.setting for trial in searched(likes, Budget(LONG, trials=6, seed=4)).trials]


def test_it_keeps_within_its_time_and_its_number_of_settings(searched: Callable[..., Tuned]) -> None:
    found = searched(likes, Budget(10.0))
    assert found.seconds <= 10
    assert 1 < len(found.trials) <= 6  # the rest of the time is for trying the best again
    assert len(searched(likes, Budget(LONG, trials=3)).trials) == 3
    assert len(searched(likes, Budget(0.001)).trials) == 1  # the recipe's own is always tried


def test_what_was_best_by_luck_alone_is_not_chosen(searched: Callable[..., Tuned]) -> None:
    """One setting is far ahead under the first noise, and far behind under another one."""

    def lucky(setting: dict[str, Any], seed: int) -> float:
        if setting["work.learning_rate"] == 1.0:
            return 0.30 if seed == 1 else 0.02
        return 0.22 if setting["server.learning_rate"] == 2.0 else 0.2

    seen: list[tuple[Setting, int]] = []
    found = searched(lucky, Budget(LONG, trials=40), seen)
    assert found.recipe.work.learning_rate != 1.0
    assert len(found.chosen.runs) == 2
    again = [setting for setting, seed in seen if seed != 1]
    assert found.trials[0].setting in again  # the recipe's own is measured as often as the others


def test_a_gain_that_noise_alone_can_make_is_called_that(searched: Callable[..., Tuned]) -> None:
    def truth(spread: float) -> Truth:
        return lambda setting, seed: 0.2 + spread * (seed - 1) + (0.01 if setting["run.rounds"] == 6 else 0.0)

    assert searched(truth(0.02), Budget(LONG, trials=30)).within_noise("top1")
    clear = searched(truth(0.001), Budget(LONG, trials=30))
    assert clear.gain("top1") == pytest.approx(0.01)
    assert not clear.within_noise("top1")
    nothing = searched(lambda setting, seed: 0.2, Budget(LONG, trials=3))
    assert nothing.gain("top1") == 0
    assert not nothing.within_noise("top1")


def test_if_nothing_is_better_the_recipe_stays_as_it_is(searched: Callable[..., Tuned]) -> None:
    found = searched(lambda setting, seed: 0.2 if setting["work.learning_rate"] == 0.5 else 0.1, Budget(LONG))
    assert found.chosen is found.trials[0]


def test_settings_that_diverge_are_never_chosen(searched: Callable[..., Tuned]) -> None:
    found = searched(lambda setting, seed: -1.0 if setting["run.rounds"] != 3 else 0.1, Budget(LONG, trials=12))
    assert found.recipe.run.rounds == 3
    assert any(trial.problem == "training diverged" for trial in found.trials)
    with pytest.raises(RunError, match="No setting could be trained on the stand-ins: training diverged"):
        searched(lambda setting, seed: -1.0, Budget(LONG, trials=2))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trial]:
    """Trains a setting whose model is a number, its accuracy; `models` are those after each round, None if it diverges."""

    def run(models: list[float | None], best: Trial | None = None, own: dict[str, Any] | None = None) -> Trial:
        def rounds() -> Any:
            for number, each in enumerate(models, start=1):
                if each is None:
                    raise DivergedError("Training diverged.")
                seen.append(number)
                yield SimpleNamespace(round=number, model={"a": jnp.asarray(each)})

        def setup(recipe: Any, seed: int) -> Any:
            return SimpleNamespace(
                schedule=SimpleNamespace(rounds=len(models)),
                start=SimpleNamespace(model={"a": jnp.asarray(0.0)}),
                work=SimpleNamespace(trainable=EVERYTHING),
                evaluate=lambda model: {"top1": float(model["a"]), "papers_top1": 0.0},
            )

        seen: list[int] = []
        monkeypatch.setattr(search, "first_rounds_of", lambda *given, **options: (None, rounds()))
        able = Tunable(tree_with("public", "private", server=own or {}), 4.0, ())
        stand_ins: Any = SimpleNamespace(setup=setup)
        made = search._Search(able, stand_ins, Budget(LONG), Path("nowhere"), lambda trial: None, 0.0)
        trial = Trial(able.own, 1.0)
        made.trials.append(trial)
        made._train(trial, 1, best)
        trial.seconds = len(seen)
        return trial

    return run


def test_every_average_is_measured_on_one_training(trained: Callable[..., Trial]) -> None:
    trial = trained([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], own={"average": "last", "average_rounds": 3})
    (run,) = trial.runs
    assert set(run) == {None, LastAverage(5), ExponentialAverage(0.9), LastAverage(3)}  # 20 rounds there are not
    assert run[None]["top1"] == pytest.approx(0.6)
    assert run[LastAverage(5)]["top1"] == pytest.approx(0.4)
    assert run[LastAverage(3)]["top1"] == pytest.approx(0.5)
    assert trial.best("top1") == (None, pytest.approx(0.6))


def test_a_setting_that_is_far_behind_is_given_up_after_a_third(trained: Callable[..., Trial]) -> None:
    best = Trial((), 1.0, at_look=0.4)
    behind = trained([0.2, 0.3, 0.3, 0.9, 0.9, 0.9], best)
    assert (behind.runs, behind.problem) == ([], "given up after 2 of 6 rounds, at 30.0%")
    assert behind.seconds == 2
    near = trained([0.2, 0.35, 0.3, 0.4, 0.4, 0.5], best)
    assert near.problem is None
    assert near.seconds == 6
    assert near.at_look == pytest.approx(0.35)
    assert trained([0.2, 0.3, 0.3, 0.4, 0.4, 0.5]).problem is None  # nothing to compare with


def test_a_training_that_diverges_has_no_result(trained: Callable[..., Trial]) -> None:
    trial = trained([0.1, 0.2, 0.3, None])
    assert (trial.runs, trial.problem) == ([], "training diverged")
