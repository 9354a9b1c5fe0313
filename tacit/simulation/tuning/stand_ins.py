"""Public people in place of private ones: who they are, and a run on them that stands for a run on private users.

Only the store of a recipe's [pretrain] is opened, which the recipe asserts to be public, and a second public store of
stand-ins if there is one. The recipe that a stand-in run follows is made here without the private store's path, so nothing
behind it can open that.

The people of the public store fall into three parts, each person by a hash of their own name: text to pre-train on, stand-ins
for the private users, and held-out stand-ins to measure accuracy on. With a store of stand-ins, all of the first store is
pre-trained on, and four fifths of the second stand in. A stand-in run has fewer people than the private one, so
its noise multiplier is smaller by as much as its cohort is: the noise on the mean update is that of the private run
(`tacit.privacy.planning.scaling`). Runs on stand-ins are seeded, so none of them claims a guarantee for anybody.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.store import Store, open_store
from tacit.data.users import Names, Users, all_names
from tacit.data.views import Subset
from tacit.data.worlds.randomness import uniform
from tacit.errors import DataError, PrivacyError, RecipeError
from tacit.learning.next_word import NextWord
from tacit.learning.pretrain import Reworded
from tacit.models.word_lm import build
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.scaling import ScaleSection, scaled_up
from tacit.privacy.record.facts import DataRecord
from tacit.recipe.sections import PretrainSection
from tacit.recipe.training import Recipe
from tacit.training.datasets import Dataset, held_out_rows
from tacit.training.pretraining import pretrain_on
from tacit.training.recipes import RecipeSetup, model_config

# The share of the public people whose text is pre-trained on; and of the others, who stand in. The rest is held out.
PRETRAINING, STANDING = 0.5, 0.8
# The key of the hash that decides who is in which part.
_KEY = 0x7075626C
FEWEST_STAND_INS = 10
# Where the private cohort is a small share of its population, at most this share of the stand-ins takes part in a round.
LARGEST_SHARE = 0.25


@dataclass(frozen=True)
class PublicPeople:
    """Public people in three parts, in the words of the store that is pre-trained on. `store` is where stand-ins lie."""

    words: tuple[str, ...]
    provenance: str
    store: str
    pretraining: Users
    stand_ins: Users
    held_out: Users


def public_section(recipe: Recipe) -> PretrainSection:
    """The recipe's [pretrain], which names a public store; RecipeError without one, PrivacyError if it is the private one."""
    section = recipe.pretrain
    if section is None or section.store is None:
        got = "no [pretrain]" if section is None else "a world"
        raise RecipeError(
            f"Expected a recipe with public text to tune on, a store in pretrain.store, got {got}.",
            hint="Add [pretrain] store = ..., public = true and epochs = 1; settings may not be chosen on private users.",
        )
    _require_public(recipe, section.store, "pretrain.store")
    return section


def _require_public(recipe: Recipe, store: str, where: str) -> None:
    private = recipe.data.store
    if private is not None and os.path.realpath(private) == os.path.realpath(store):
        raise PrivacyError(
            f"Expected public text in {where}, got {store}, which is the private store itself (data.store)."
        )


def require_public_stand_ins(recipe: Recipe, store: Path) -> None:
    """PrivacyError if this is the private store; DataError if it is the one that is pre-trained on."""
    _require_public(recipe, str(store), "--stand-ins")
    if os.path.realpath(str(public_section(recipe).store)) == os.path.realpath(store):
        raise DataError(
            f"Expected another store than pretrain.store in --stand-ins, got {store}.",
            hint="Without --stand-ins, a part of the people in pretrain.store stand in.",
        )


def trainable_parts(recipe: Recipe) -> tuple[str, ...]:
    """The parts of the recipe's model that `work.trainable` can name."""
    config = model_config(recipe, 1)
    has = {"embedding": True, "cell": True, "output": not config.tied, "output_bias": config.output_bias}
    return tuple(part for part, there in has.items() if there)


def public_people(
    section: PretrainSection, most_words: int | None = None, stand_ins: Path | None = None
) -> PublicPeople:
    """The people of the public store, in three parts; DataError if they are too few. `most_words`: keep the first words.

    `stand_ins`: a second public store, whose people stand in and are held out.
    """
    store, words = _opened(str(section.store), "pretrain.store")
    assert store.vocabulary is not None
    chosen = words if most_words is None else words[:most_words]
    read: Users = Subset(store, np.arange(min(section.users or len(store), len(store))))
    users = read if chosen == words else Reworded(read, words, chosen)
    if stand_ins is None:
        of, share, where = users, PRETRAINING, "pretrain.store"
    else:
        other, other_words = _opened(str(stand_ins), "--stand-ins")
        of, share, where = Reworded(other, other_words, chosen), 0.0, "--stand-ins"
    first, standing, aside = parts_of(all_names(of), share)
    if len(aside) == 0 or len(standing) < FEWEST_STAND_INS:
        raise DataError(
            f"Expected at least {FEWEST_STAND_INS} stand-ins among the people of {where}, which are about "
            f"{STANDING * (1 - share):.0%} of them, got {len(standing)} of {len(of):,}."
        )
    return PublicPeople(
        words=chosen,
        provenance=store.vocabulary.provenance,
        store=str(section.store if stand_ins is None else stand_ins),
        pretraining=Subset(of, first) if stand_ins is None else users,
        stand_ins=Subset(of, standing),
        held_out=Subset(of, aside),
    )


def _opened(path: str, where: str) -> tuple[Store, tuple[str, ...]]:
    """The store of text in this place, and the word of each of its ids."""
    store = open_store(path)
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text in {where}, got {path}, which has no words.")
    return store, tuple(store.vocabulary.decode(np.arange(len(store.vocabulary))))


def parts_of(
    names: Names, pretraining: float = PRETRAINING
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Who of the people with these names is pre-trained on, who is a stand-in, and who is held out.

    Each person's part is a function of their own name alone. Of those who are not pre-trained on, four fifths are stand-ins,
    in the order of their hashes, so that the first few of them are a sample.
    """
    drawn = uniform(_KEY, names[:, 0], names[:, 1])
    last = pretraining + STANDING * (1 - pretraining)
    middle = np.flatnonzero((drawn >= pretraining) & (drawn < last))
    return (
        np.flatnonzero(drawn < pretraining),
        middle[np.argsort(drawn[middle], kind="stable")],
        np.flatnonzero(drawn >= last),
    )


def stand_in_plan(plan: PrivacyPlan, people: int, rounds: int) -> PrivacyPlan:
    """The plan for so many stand-ins: the same noise on the mean, from a smaller cohort.

    The same share of people takes part in a round, or a quarter of the stand-ins if that is more, and never more people than in
    the private run: the mean over very few people would vary more than the private one does.
    """
    people = min(people, plan.population)
    cohort = min(plan.cohort, max(plan.sampling_probability * people, LARGEST_SHARE * people, 1.0))
    if plan.sampling != "poisson":
        cohort = float(int(cohort))
    scale: dict[str, Any] = {"population": people, "cohort": cohort}
    if plan.min_separation is not None:
        sustained = max(int(people // cohort) - 1, 0)
        scale |= {"min_separation": min(plan.min_separation, sustained), "max_participation": rounds}
    plain = plan.model_copy(update={"secagg": None, "participation": None})
    return scaled_up(plain, ScaleSection(**scale))


def stand_in_recipe(recipe: Recipe, store: str, people: int, seed: int) -> Recipe:
    """The recipe of a run on stand-ins who lie in this store; nothing in it names the private users."""
    rounds = recipe.run.rounds
    tree = recipe.model_dump(mode="python", exclude={"data": {"store", "world", "iid"}, "privacy": True})
    for absent in ("vocabulary", "pretrain", "population", "scale", "audit", "fleet"):
        tree.pop(absent, None)
    tree["data"]["store"] = store
    tree["privacy"] = stand_in_plan(recipe.privacy, people, rounds).model_dump(mode="python")
    tree["run"] |= {"evaluate_every": rounds, "checkpoint_every": rounds, "seed": seed}
    return Recipe.model_validate(tree)


@dataclass(frozen=True)
class StandIns:
    """Public people, and the model that their pre-training text made: what every stand-in run begins with."""

    people: PublicPeople
    model: Any

    @classmethod
    def prepared(
        cls,
        recipe: Recipe,
        stand_ins: Path | None = None,
        on_progress: Callable[[int, int, float], None] | None = None,
    ) -> StandIns:
        """Open the public store, and that of the stand-ins if there is one, and pre-train once, as the recipe says."""
        section = public_section(recipe)
        people = public_people(section, None if recipe.vocabulary is None else recipe.vocabulary.size, stand_ins)
        fresh = build(model_config(recipe, len(people.words)), key=jax.random.key(recipe.model.init_seed))
        return cls(people, pretrain_on(recipe, section, people.pretraining, fresh, on_progress).model)

    def setup(self, recipe: Recipe, seed: int) -> RecipeSetup:
        """The stand-in run of a private run with this recipe. It is entered in no odometer, and its gate is not audited."""
        followed = stand_in_recipe(recipe, self.people.store, len(self.people.stand_ins), seed)
        standing = Subset(self.people.stand_ins, np.arange(followed.privacy.population))
        dataset = Dataset(
            train=standing,
            people=len(standing),
            held_out=held_out_rows(self.people.held_out, np.arange(len(self.people.held_out)), followed),
            words=self.people.words,
            description=DataRecord(vocabulary=self.people.provenance),
        )
        shaped_for = recipe.privacy if recipe.scale is None else scaled_up(recipe.privacy, recipe.scale)
        strategy = shaped_for.build_strategy(recipe.run.rounds)
        setup = RecipeSetup.of(followed, dataset, self.model, NextWord(followed.engine.precision), strategy)
        return dataclasses.replace(setup, store=None, gate_audit=False)
