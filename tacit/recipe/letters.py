"""The section [letters] of a recipe: find users' words letter by letter."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from tacit.data.spelling import checked_alphabet
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.sections import RecipeSection


class LettersSection(RecipeSection):
    """A run that finds users' words letter by letter, so that nobody sees a word of theirs. It trains no model.

    A tree of prefixes grows round by round. Users say which extensions their words have, and what too few of them have is
    dropped.
    """

    alphabet: str = Field(
        default="abcdefghijklmnopqrstuvwxyz0123456789'",
        description="the letters of the words that are looked for; words with others are left out",
    )
    longest: int = Field(default=13, ge=1, le=64, description="letters of the longest words that are looked for")
    coordinates: int = Field(
        default=65_536, ge=4, le=1 << 24, description="numbers that a user sends in a round: prefixes times extensions"
    )
    words: str | None = Field(
        default=None,
        description="a public word list, the most frequent words first: they get a place, and others are looked for",
    )
    outside: str | None = Field(
        default=None, description="a vocabulary or a run: only words that it does not have are looked for"
    )
    size: int = Field(default=10_000, gt=4, description="entries of the vocabulary, four reserved ones included")
    words_per_user: int = Field(default=1_000, ge=1, description="words of a user that count, at most")
    shown_delta: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="probability, at most, that something is shown that one user alone has; default: privacy.delta",
    )

    @field_validator("alphabet")
    @classmethod
    def _letters_of_words(cls, alphabet: str) -> str:
        return checked_alphabet(alphabet)

    @model_validator(mode="after")
    def _fits_together(self) -> LettersSection:
        if self.words is not None and self.outside is not None:
            raise ValueError("expected either letters.words or letters.outside, got both")
        return self

    def check_rounds(self, rounds: int) -> None:
        """ValueError unless so many rounds can reach the end of the longest words."""
        a_round = -(-(self.longest + 1) // rounds)
        if (len(self.alphabet) + 1) ** a_round > self.coordinates:
            raise ValueError(
                f"expected letters.coordinates ≥ {(len(self.alphabet) + 1) ** a_round:,}: to reach the end of words of "
                f"{self.longest} letters in {rounds} rounds, a round must ask for {a_round} letters, got {self.coordinates:,}"
            )

    def check_plan(self, plan: PrivacyPlan) -> None:
        """ValueError unless the plan's noise and bound are those that the threshold is proven for."""
        if plan.mechanism not in ("gaussian", "none"):
            raise ValueError(
                f"expected privacy.mechanism = 'gaussian' with [letters], for which its threshold is proven, got "
                f"{plan.mechanism!r}"
            )
        if (plan.clip_norm, plan.clipping, plan.estimator) != (1.0, "flat", "fixed"):
            raise ValueError(
                "expected privacy.clip_norm = 1, clipping = 'flat' and estimator = 'fixed' with [letters]: a user's extensions "
                f"are one vector of norm at most 1, got {plan.clip_norm}, {plan.clipping!r} and {plan.estimator!r}"
            )
        others = {"adaptive": plan.adaptive, "clip_schedule": plan.clip_schedule, "example_cap": plan.example_cap}
        if (other := next((name for name, value in others.items() if value), None)) is not None:
            raise ValueError(f"expected no privacy.{other} with [letters]: all users have the same bound and weight")
