"""A recipe for somebody's own store: sensible settings for a number of people, and the noise for an epsilon.

It is recipes/own_data.toml, with the store and the lines of [privacy] and [run] that depend on how many people there are:

    cohort              a quarter of the people, and 500 at most: the larger it is, the less noise there is on the mean, and the
                        longer a round takes
    delta               a power of ten, at most a tenth of 1 / population
    noise_multiplier    the least with which all rounds together cost at most the epsilon that was asked for

If the words of the store were counted on its people, which would make epsilon infinite, the recipe discovers words of its own
under differential privacy, for a quarter of the epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.errors import RecipeError
from tacit.recipe.reading import RECIPES, read_toml
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe, parse_recipe
from tacit.recipe.writing import commented_toml

EPSILON, ROUNDS = 4.0, 100
LARGEST_COHORT = 500
FEWEST_PEOPLE = 100
# Of the epsilon, what the discovery of words may cost by itself.
WORDS_SHARE = 0.25

# What a person should see and may change. Every other key keeps its default.
_SHOWN = (
    "name",
    "data.store",
    "data.held_out",
    "data.length",
    "data.tokens_per_user",
    "vocabulary",
    "model.preset",
    "work.kind",
    "work.batch_size",
    "work.learning_rate",
    "privacy.mechanism",
    "privacy.population",
    "privacy.cohort",
    "privacy.sampling",
    "privacy.clip_norm",
    "privacy.noise_multiplier",
    "privacy.delta",
    "server",
    "run.rounds",
    "run.evaluate_every",
    "run.checkpoint_every",
)


@dataclass(frozen=True)
class Wishes:
    """What somebody wants of a run; None is chosen for them. `population` is how many people there are, a public figure.

    `words`: the recipe discovers a vocabulary of so many entries; None uses that of the store.
    """

    population: int
    epsilon: float = EPSILON
    rounds: int = ROUNDS
    cohort: float | None = None
    delta: float | None = None
    preset: str | None = None
    words: int | None = None


def suggested_recipe(store: str, name: str, wishes: Wishes) -> Recipe:
    """The recipe that trains on this store as wished; RecipeError if no noise reaches the epsilon.

    >>> recipe = suggested_recipe("stores/mine", "mine", Wishes(population=10_000))
    >>> recipe.privacy.cohort, recipe.privacy.delta, recipe.privacy.noise_multiplier
    (500.0, 1e-05, 0.9396)
    """
    population = wishes.population
    if population < FEWEST_PEOPLE:
        raise RecipeError(
            f"Expected a population of at least {FEWEST_PEOPLE} people, got {population:,}: with fewer, the noise that "
            "protects one of them hides what they have in common."
        )
    if not 0 < wishes.epsilon < math.inf:
        raise RecipeError(f"Expected --epsilon to be a number above 0, got {wishes.epsilon:g}.")
    cohort = suitable_cohort(population) if wishes.cohort is None else wishes.cohort
    delta = suitable_delta(population) if wishes.delta is None else wishes.delta
    tree = read_toml(RECIPES / "own_data.toml")
    tree["name"] = name
    tree["data"] |= {"store": store}
    tree["model"] |= {} if wishes.preset is None else {"preset": wishes.preset}
    tree["privacy"] |= {"population": population, "cohort": cohort, "delta": delta}
    tree["run"] |= {"rounds": wishes.rounds}
    if wishes.words is not None:
        tree["vocabulary"] = {"size": wishes.words, "epsilon": WORDS_SHARE * wishes.epsilon}
    return at_epsilon(parse_recipe(tree), wishes.epsilon).recipe


def suitable_cohort(population: int) -> float:
    """How many of so many people take part in a round, unless somebody wishes otherwise.

    >>> [suitable_cohort(people) for people in (100, 1_500, 1_000_000)]
    [25.0, 375.0, 500.0]
    """
    return float(min(LARGEST_COHORT, population // 4))


def suitable_delta(population: int) -> float:
    """A power of ten, at most a tenth of 1 / population.

    >>> [suitable_delta(people) for people in (100, 9_000, 10_000, 11_000)]
    [0.001, 1e-05, 1e-05, 1e-06]
    """
    return float(f"1e-{math.ceil(math.log10(population)) + 1}")


def explained(recipe: Recipe, heading: list[str]) -> str:
    """The recipe as TOML with every line explained, under a heading of comments."""
    comments = "".join(f"# {line}\n" for line in heading)
    return f"{comments}\n{commented_toml(recipe, only=_SHOWN)}\n"
