"""Results of `tacit recipe` and `tacit init`."""

from __future__ import annotations

from tacit.cli.results.base import OpenResult, Result, key, sometimes


class RecipeFacts(Result):
    """A recipe that commands find by name."""

    recipe: str = key("its name")
    file: str = key("its file")
    commands: list[str] = key("the commands that follow it")
    about: str | None = sometimes("what it is; if it can be read")
    problem: str | None = sometimes("what is wrong with it; if it cannot be read")


class RecipeListResult(Result):
    """The recipes that commands find by name."""

    recipes: list[RecipeFacts] = key("each recipe")


class RecipeResult(OpenResult):
    """A recipe as a run would follow it: its keys and sections. `tacit recipe schema` prints their JSON Schema."""


class SchemaResult(OpenResult):
    """The JSON Schema of a kind of recipe."""


class InitResult(Result):
    """A recipe that was written, and what it will cost."""

    recipe: str = key("the file that was written")
    store: str = key("the store that it trains on")
    population: int = key("how many people there are, as the guarantee will say")
    cohort: float = key("how many take part in a round")
    rounds: int = key("how many rounds")
    noise_multiplier: float = key("the noise on the sum, over the clip")
    epsilon: float | None = key("epsilon of all rounds; null if it is infinite")
    delta: float = key("the delta that epsilon is stated for")
    reasons_not_private: list[str] = key("why epsilon is infinite, as sentences; empty if it is finite")
    seconds: float | None = key("how long all rounds take here, with as much text as people have; null with --no-trial")
    seconds_at_most: float | None = key("how long, if everybody had the most that is read; null with --no-trial")
    warnings: list[str] = key("what may go wrong, as sentences")
