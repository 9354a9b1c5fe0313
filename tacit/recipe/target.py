"""A recipe for a target epsilon: the least noise with which everything that the run releases stays within it.

The cost of a try is the one that the run itself will state (`accounting.spent`), for all planned rounds, the discovery of its
words included. So nothing that a run counts can be forgotten here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tacit import __version__
from tacit.errors import RecipeError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.discovered_words import with_vocabulary
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.calibration import rounded_up
from tacit.privacy.planning.scaling import scaled_up
from tacit.privacy.planning.search import LEAST_SEARCHED_NOISE, largest_within
from tacit.privacy.planning.word_noise import THRESHOLD_SHARE, word_noise
from tacit.privacy.record.facts import DataRecord, ReleaseSize, VocabularyRecord
from tacit.privacy.record.reasons import Reason, in_words
from tacit.privacy.record.records import FORMAT, UNIT, Opened
from tacit.privacy.statement.wording import round_up
from tacit.recipe.sections import VocabularySection
from tacit.recipe.training import Recipe
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder

_MOST_NOISE = 10_000.0
# More coordinates than any model here has: the tail of the noise is charged for them.
_LARGEST_RELEASE = ReleaseSize(10**12, 10**6)


@dataclass(frozen=True)
class Targeted:
    """The recipe with its noise, and what it will cost."""

    recipe: Recipe
    planned: Spent


def at_epsilon(recipe: Recipe, target: float, reasons_of_data: tuple[Reason, ...] = ()) -> Targeted:
    """The recipe with the least noise, to four digits, with which the run costs at most `target` at its δ.

    `reasons_of_data`: why a run on these users can claim nothing (`tacit.training.datasets`).
    RecipeError if no noise does, or if the recipe can claim nothing whatever its noise is.
    """
    if not 0 < target < math.inf:
        raise RecipeError(f"Expected an epsilon above 0, got {target:g}.")
    if not recipe.privacy.claims:
        raise RecipeError(
            f"Expected a recipe with noise for epsilon {target:g}, got privacy.mechanism = {recipe.privacy.mechanism!r}.",
            hint="Say privacy.mechanism=gaussian, for example.",
        )
    if recipe.privacy.kind.on_devices:
        raise RecipeError(
            f"Expected a mechanism whose noise the server adds, got {recipe.privacy.mechanism!r}: choose its noise with "
            "`tacit plan`."
        )
    if reasons := (*recipe.reasons_not_private(), *reasons_of_data):
        raise RecipeError(f"No noise reaches epsilon {target:g}, because {in_words(reasons)}.")
    words = planned_words(recipe)
    shaped_for = recipe.privacy if recipe.scale is None else scaled_up(recipe.privacy, recipe.scale)
    strategy = shaped_for.build_strategy(recipe.run.rounds)
    described = {} if strategy is None else strategy.describe()

    def spent(noise: float, *, quick: bool) -> Spent:
        plan = recipe.privacy.model_copy(update={"noise_multiplier": noise})
        return spent_by(_opened(plan, recipe.run.rounds, described, words), (), quick=quick)

    if words is not None and _epsilon_of_words(words, recipe.privacy) >= target:
        raise RecipeError(
            f"The discovery of words alone costs epsilon {round_up(_epsilon_of_words(words, recipe.privacy))} at delta "
            f"{recipe.privacy.delta:g}, which leaves nothing of {target:g} for training.",
            hint="Lower vocabulary.epsilon, or ask for a larger epsilon.",
        )
    found = largest_within(
        lambda x: spent(1 / x, quick=True).epsilon, target, 1 / _MOST_NOISE, 1 / LEAST_SEARCHED_NOISE, start=1.0
    )
    noise = _MOST_NOISE if found is None else rounded_up(1 / found)
    planned = spent(noise, quick=False)
    if planned.epsilon > target:
        raise RecipeError(
            f"No noise multiplier up to {_MOST_NOISE:g} reaches epsilon {target:g} at delta {recipe.privacy.delta:g}: ask for "
            "a larger epsilon, or train for fewer rounds."
        )
    tree = recipe.model_dump(mode="json", exclude_none=True)
    tree["privacy"]["noise_multiplier"] = noise
    return Targeted(Recipe.model_validate(tree), planned)


def planned_words(recipe: Recipe) -> VocabularyRecord | None:
    """What the ledger will say of the discovery of words that the recipe asks for; None if it asks for none."""
    section = recipe.vocabulary
    if section is None:
        return None
    if section.run is not None:
        from tacit.runs.word_discovery import discovered  # loads JAX, which most recipes can do without here

        _, record, reasons = discovered(RunFolder.open(by_name(Path(section.run))))
        if record is None:
            raise RecipeError(
                f"No noise is enough: the words of {section.run} were found without privacy, {in_words(reasons)}."
            )
        return record
    delta = words_delta(section, recipe.privacy.delta)
    threshold = THRESHOLD_SHARE * delta
    return VocabularyRecord("planned", "", word_noise(section.epsilon, delta, threshold), 1, threshold)


# Of the δ of a run that trains, what the discovery of its words gets if nothing else is said.
WORDS_DELTA_SHARE = 0.01


def words_delta(section: VocabularySection, delta: float) -> float:
    """δ of the discovery by itself, as part of a run that trains with this δ."""
    return WORDS_DELTA_SHARE * delta if section.delta is None else section.delta


def _epsilon_of_words(words: VocabularyRecord, plan: PrivacyPlan) -> float:
    nothing_else = Cost.of_rho(0.0, gaussian=True)
    return with_vocabulary(nothing_else, words, plan.adjacency).epsilon(apart_from_tail(plan.delta))[0]


def _opened(plan: PrivacyPlan, rounds: int, strategy: dict[str, object], words: VocabularyRecord | None) -> Opened:
    return Opened(
        run_id="planned",
        format=FORMAT,
        tacit_version=__version__,
        plan=plan.model_dump(mode="json"),
        mechanism=plan.mechanism,
        strategy=strategy,
        population=plan.population,
        rounds=rounds,
        seeded=False,
        reasons_not_private=(),
        recipe="",
        release=_LARGEST_RELEASE,
        data=DataRecord(),
        unit=UNIT,
        adjacency=plan.adjacency,
        outside=plan.outside,
        vocabulary=words,
    )
