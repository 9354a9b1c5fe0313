"""The summary of a finished run: its accuracy, its cost, and examples of what it predicts."""

from __future__ import annotations

from typing import Any

from tacit.learning.next_word import evaluate, suggest, unigram_guess
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.planning.scaling import ESTIMATE, cost_at_scale, scaled_up
from tacit.privacy.record.records import Opened
from tacit.recipe.training import Recipe
from tacit.training.datasets import Dataset

EXAMPLE_CONTEXTS = ("see you", "i am on my", "do you want to", "thank you so", "what time")


def summary_of(dataset: Dataset, model: Any, recipe: Recipe, opened: Opened, spent: Spent) -> dict[str, Any]:
    """The run's summary.json."""
    baselines: dict[str, Any] = {"unigram_top1": unigram_guess(dataset.held_out)}
    if dataset.best_possible is not None:
        baselines["best_possible"] = dict(dataset.best_possible())
    summary = {
        "rounds": opened.rounds,
        "parameters": parameter_count(model),
        "metrics": evaluate(model, dataset.held_out).as_dict(),
        "baselines": baselines,
        "privacy": spent.as_dict(),
        "examples": _examples(model, dataset.words),
    }
    if recipe.scale is not None:
        summary["at_scale"] = at_scale(recipe, opened)
    return summary


def _examples(model: Any, words: tuple[str, ...]) -> dict[str, Any]:
    number = {word: index for index, word in enumerate(words)}
    examples = {}
    for context in EXAMPLE_CONTEXTS:
        if all(word in number for word in context.split()):
            top = suggest(model, [number[word] for word in context.split()])
            examples[context] = [[words[word], probability] for word, probability in top]
    return examples


def at_scale(recipe: Recipe, opened: Opened) -> dict[str, Any]:
    """The guarantee that the same run would have at a larger scale, and the label that says it is an estimate."""
    assert recipe.scale is not None
    plan = scaled_up(recipe.privacy, recipe.scale)
    settings = plan.model_dump(
        mode="json", include={"population", "cohort", "noise_multiplier", "min_separation", "max_participation"}
    )
    return {"label": ESTIMATE, **settings, "privacy": cost_at_scale(opened, plan, opened.rounds).as_dict()}
