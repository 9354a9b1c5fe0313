"""Every case of a sweep built in advance: its noise found, its data opened, its model and work made, its cost computed.

Whatever is wrong with any case is told before the first one runs, in a sentence that begins with the case. Cases with the same
recipe are built once. How long a round takes is tried on made-up users (`tacit.simulation.trial`), for a few kinds of rounds;
the others are taken to take as long a user as the slowest of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tacit.data.remote import place_of
from tacit.privacy.record.facts import VocabularyRecord
from tacit.privacy.record.records import Opened
from tacit.recipe.sweep import SweepCase, naming
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe
from tacit.simulation.sweep.folder import SettledCase, reused_case
from tacit.simulation.training import built_in_advance, planned_opening
from tacit.simulation.trial import seconds_a_round
from tacit.training.datasets import reasons_of_data

# How many kinds of rounds are tried for time.
MOST_TRIALS = 3
DISCOVERIES = (
    "each of these cases discovers its words by itself, and every discovery costs again. Discover them once with `tacit data "
    "vocabulary --private`, and name that run in vocabulary.run."
)


@dataclass(frozen=True)
class Prepared:
    """The cases as they will run, and the warnings that they would begin with, each with the names of its cases."""

    cases: list[SettledCase]
    warnings: dict[str, list[str]]


def prepare(
    cases: Sequence[SweepCase],
    *,
    timed: bool = True,
    runs: Path,
    on_progress: Callable[[str], None] = lambda said: None,
) -> Prepared:
    """Settle these cases, whose runs will lie in the folder `runs`; the first mistake is raised, and names its case."""
    work = _Preparing(timed, runs)
    settled = []
    for number, case in enumerate(cases, start=1):
        with naming(case.name):
            settled.append(work.settle(case))
        if number % 10 == 0:
            on_progress(f"{number} of {len(cases)} cases are checked")
    return Prepared([replace(case, seconds=work.seconds(case)) for case in settled], work.warnings)


class _Preparing:
    def __init__(self, timed: bool, runs: Path) -> None:
        self._timed, self._runs = timed, runs
        self._noise: dict[str, float] = {}
        self._built: dict[str, tuple[Opened, list[str]]] = {}
        self._seconds: dict[str, float | None] = {}  # a round, by its kind
        self._cohorts: dict[str, float] = {}
        self._discovering: list[str] = []
        self._warnings: dict[str, list[str]] = {}

    @property
    def warnings(self) -> dict[str, list[str]]:
        """What harms cases, with the names of these."""
        more = {DISCOVERIES: self._discovering} if len(self._discovering) > 1 else {}
        return self._warnings | more

    def settle(self, case: SweepCase) -> SettledCase:
        recipe = case.recipe if case.epsilon is None else self._with_noise(case.recipe, case.epsilon)
        text = json.dumps(recipe.model_dump(mode="json", exclude={"name"}), sort_keys=True)
        if text not in self._built:
            self._built[text] = self._build(recipe)
        opened, warnings = self._built[text]
        for warning in warnings:
            self._warnings.setdefault(warning, []).append(case.name)
        if recipe.vocabulary is not None and recipe.vocabulary.run is None:
            self._discovering.append(case.name)
        store = None if recipe.data.store is None else place_of(recipe.data.store).resolve()
        return SettledCase(case, recipe, _named(opened, case.name), store)

    def seconds(self, case: SettledCase) -> float | None:
        """About how long this case takes by itself."""
        kind, rounds = _kind(case.recipe), case.recipe.run.rounds
        if (found := self._seconds.get(kind)) is not None:
            return rounds * found
        rates = [each / self._cohorts[kind] for kind, each in self._seconds.items() if each is not None]
        return None if kind in self._seconds or not rates else rounds * max(rates) * case.recipe.privacy.cohort

    def _with_noise(self, recipe: Recipe, epsilon: float) -> Recipe:
        tree = recipe.model_dump(mode="json", include={"data", "vocabulary", "privacy", "run", "scale"})
        key = json.dumps([tree, epsilon], sort_keys=True)
        if key not in self._noise:
            found = at_epsilon(recipe, epsilon, reasons_of_data(recipe)).recipe
            self._noise[key] = found.privacy.noise_multiplier
        whole = recipe.model_dump(mode="json", exclude_none=True)
        whole["privacy"]["noise_multiplier"] = self._noise[key]
        return Recipe.model_validate(whole)

    def _build(self, recipe: Recipe) -> tuple[Opened, list[str]]:
        if recipe.pretrain is not None and reused_case(recipe, self._runs) is not None:
            # Another case of this sweep makes the model, which is not there yet.
            recipe = recipe.model_copy(update={"pretrain": recipe.pretrain.model_copy(update={"reuse": None})})
        with built_in_advance(recipe) as (setup, program, words):
            kind = _kind(recipe)
            if self._timed and kind not in self._seconds and len(self._seconds) < MOST_TRIALS:
                self._seconds[kind] = seconds_a_round(program, len(setup.dataset.words))
                self._cohorts[kind] = recipe.privacy.cohort
            return planned_opening(program, words), list(setup.warnings())


def _kind(recipe: Recipe) -> str:
    """What decides how long a round takes."""
    sections = recipe.model_dump(mode="json", include={"data", "model", "letters", "engine"})
    work, plan = recipe.work.model_dump(exclude={"learning_rate"}), recipe.privacy
    return json.dumps([sections, work, plan.cohort, plan.sampling, plan.mechanism], sort_keys=True)


def _named(opened: Opened, case: str) -> Opened:
    """The first record under a name of its own, and with another name a discovery of words that this case will make.

    The two names differ: a discovery with the name of a run is taken for that run, and is not counted beside it.
    """
    words = opened.vocabulary
    if isinstance(words, VocabularyRecord) and words.run == "planned":
        words = replace(words, run=f"words planned for {case}")
    return replace(opened, run_id=f"planned for {case}", vocabulary=words)
