"""The search: settings are tried on stand-ins one after another, and the best of them are tried again.

It begins with the recipe's own setting and goes on with settings next to the best so far, in an order that a seed draws. A
setting that is far behind after a third of its rounds is given up there. When the time is nearly over, the best settings and
the recipe's own are trained once more with other noise, and the choice is made by the mean over both: the best of many noisy
measurements is partly luck, and a second measurement has no part in that luck.

Averaging changes no round, so every average is measured on each training, and the best one is part of the choice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from tacit.errors import DivergedError, RunError
from tacit.learning.averaging import Averaging, ExponentialAverage, LastAverage, RunningAverage, averaging_of
from tacit.learning.work import LocalWork
from tacit.privacy.accounting.spent import Spent
from tacit.recipe.training import Recipe
from tacit.recipe.tuning import Setting, Tunable
from tacit.runs.callbacks import Callback
from tacit.simulation.training import first_rounds_of
from tacit.simulation.tuning.stand_ins import StandIns

AVERAGES: tuple[Averaging | None, ...] = (None, LastAverage(5), LastAverage(20), ExponentialAverage(0.9))
# After this share of its rounds a setting is given up if its accuracy is below this share of the best setting's there.
LOOK, BEHIND = 1 / 3, 0.85
# Of the time, what the search may use before the best settings are tried again; how many of them are, beside the recipe's own.
SEARCHING, FINALISTS = 0.6, 2

Scores = dict[str, float]


@dataclass
class Trial:
    """A setting that was tried: the noise of the private run, and the accuracy by average in each training on stand-ins.

    `problem` says why there is none: it was given up, or diverged.
    """

    setting: Setting
    noise_multiplier: float
    runs: list[dict[Averaging | None, Scores]] = field(default_factory=list)
    problem: str | None = None
    at_look: float = 0.0
    seconds: float = 0.0

    def mean(self, average: Averaging | None, metric: str) -> float:
        """The mean of a metric over the trainings."""
        return float(np.mean([run[average][metric] for run in self.runs]))

    def best(self, metric: str) -> tuple[Averaging | None, float]:
        """The average with the best mean, and that mean; the first of several that are equal."""
        if not self.runs:
            return None, -math.inf
        return max(((each, self.mean(each, metric)) for each in self.runs[0]), key=lambda found: found[1])

    def spread(self, metric: str) -> float:
        """How far apart the trainings of this setting are, with its best average: what noise alone changes."""
        found = [run[self.best(metric)[0]][metric] for run in self.runs] or [0.0]
        return max(found) - min(found)


@dataclass(frozen=True)
class Tuned:
    """What was tried, what was chosen, and the recipe for the private users with the noise for its epsilon."""

    recipe: Recipe
    planned: Spent
    trials: list[Trial]
    chosen: Trial
    average: Averaging | None
    before: Scores
    seconds: float

    def gain(self, metric: str) -> float | None:
        """How much better the choice is than the recipe's own setting; None if that could not be trained."""
        own = self.trials[0]
        return self.chosen.best(metric)[1] - own.best(metric)[1] if own.runs else None

    def within_noise(self, metric: str) -> bool:
        """Whether two trainings of one setting differ by as much as the choice is better than the recipe's own setting."""
        gain = self.gain(metric)
        return gain is not None and 0 < gain <= max(trial.spread(metric) for trial in self.trials)


@dataclass(frozen=True)
class Budget:
    """How long the search may take, and how many settings it tries at most; None: as many as the time allows."""

    seconds: float
    trials: int | None = None
    seed: int = 1
    metric: str = "top1"


def tune(
    tunable: Tunable,
    stand_ins: StandIns,
    budget: Budget,
    runs: Path,
    *,
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> Tuned:
    """Try settings within the budget; runs on stand-ins go into folders of their own below `runs`."""
    began = time.monotonic()
    search = _Search(tunable, stand_ins, budget, runs, on_trial, began)
    search.climb()
    search.try_the_best_again()
    most = max(len(trial.runs) for trial in search.trials)
    if most == 0:
        raise RunError(f"No setting could be trained on the stand-ins: {search.trials[0].problem}.")
    chosen = max((trial for trial in search.trials if len(trial.runs) == most), key=search.value)
    average, _ = chosen.best(budget.metric)
    found = tunable.targeted(chosen.setting, {} if average is None else average.settings())
    return Tuned(found.recipe, found.planned, search.trials, chosen, average, search.before, time.monotonic() - began)


class _Search:
    def __init__(
        self,
        tunable: Tunable,
        stand_ins: StandIns,
        budget: Budget,
        runs: Path,
        on_trial: Callable[[Trial], None],
        began: float,
    ) -> None:
        self._tunable, self._stand_ins, self._budget, self._runs = tunable, stand_ins, budget, runs
        self._on_trial, self._began = on_trial, began
        self._order = np.random.default_rng(budget.seed)
        self._seconds_a_round = 0.0
        self.trials: list[Trial] = []
        recipe = tunable.targeted(tunable.own).recipe
        self._averages = tuple(dict.fromkeys([*AVERAGES, averaging_of(recipe.server.model_dump())]))
        setup = stand_ins.setup(recipe, budget.seed)
        self.before: Scores = dict(setup.evaluate(setup.start.model))

    def value(self, trial: Trial) -> float:
        """What the choice is made by."""
        return trial.best(self._budget.metric)[1]

    def climb(self) -> None:
        """Try the recipe's own setting, and then settings next to the best, until the time or the settings are over."""
        best = self._new(self._tunable.own)
        tried = {best.setting}
        while True:
            near = [each for each in self._tunable.neighbours(best.setting) if each not in tried]
            for place in self._order.permutation(len(near)):
                if not self._may_try(near[place]):
                    continue
                tried.add(near[place])
                trial = self._new(near[place], best)
                if self.value(trial) > self.value(best):
                    best = trial
                    break
            else:
                return

    def try_the_best_again(self) -> None:
        """Train the best settings and the recipe's own with other noise, the best first, while there is time."""
        own, *others = self.trials
        ranked = sorted((each for each in others if each.runs), key=self.value, reverse=True)[:FINALISTS]
        if not ranked or (self.value(own) >= self.value(ranked[0]) and own.runs):
            return  # nothing is better than the recipe's own setting
        for trial in [*ranked[:1], own, *ranked[1:]]:
            if trial.runs and self._left() > self._seconds_of(trial.setting):
                self._train(trial, self._budget.seed + 1, None)
                self._on_trial(trial)

    def _may_try(self, setting: Setting) -> bool:
        if self._budget.trials is not None and len(self.trials) >= self._budget.trials:
            return False
        reserved = (1 - SEARCHING) * self._budget.seconds
        return self._left() - reserved > self._seconds_of(setting)

    def _left(self) -> float:
        return self._budget.seconds - (time.monotonic() - self._began)

    def _seconds_of(self, setting: Setting) -> float:
        return self._seconds_a_round * dict(setting)["run.rounds"]

    def _new(self, setting: Setting, best: Trial | None = None) -> Trial:
        found = self._tunable.targeted(setting)
        trial = Trial(setting, found.recipe.privacy.noise_multiplier)
        self.trials.append(trial)
        self._train(trial, self._budget.seed, best)
        self._on_trial(trial)
        return trial

    def _train(self, trial: Trial, seed: int, best: Trial | None) -> None:
        began = time.monotonic()
        recipe = self._tunable.targeted(trial.setting).recipe
        out = self._runs / f"setting-{self.trials.index(trial) + 1}-seed-{seed}"
        setup = self._stand_ins.setup(recipe, seed)
        trainable = cast(LocalWork, setup.work).trainable  # a recipe that finds words has no [pretrain], and is refused
        rounds, look = setup.schedule.rounds, math.ceil(LOOK * setup.schedule.rounds)
        usable = [each for each in self._averages if not isinstance(each, LastAverage) or each.rounds <= rounds]
        averages = {each: RunningAverage.of(each, setup.start.model, trainable) for each in usable}

        def measured(model: Any) -> dict[Averaging | None, Scores]:
            return {
                each: dict(setup.evaluate(model if kept is None else kept.model(model)))
                for each, kept in averages.items()
            }

        _, states = first_rounds_of(setup, out, Callback(), catch_interrupt=False)
        try:
            for state in states:
                averages = {each: kept and kept.after(state.model, state.round) for each, kept in averages.items()}
                if state.round == look < rounds:
                    seen = max(scores[self._budget.metric] for scores in measured(state.model).values())
                    trial.at_look = max(trial.at_look, seen)
                    if best is not None and seen < BEHIND * best.at_look:
                        trial.problem = f"given up after {look} of {rounds} rounds, at {seen:.1%}"
                        return
                if state.round == rounds:
                    trial.runs.append(measured(state.model))
        except DivergedError:
            trial.problem = "training diverged"
        finally:
            states.close()
            spent = time.monotonic() - began
            trial.seconds += spent
            if trial.runs:
                self._seconds_a_round = spent / rounds
