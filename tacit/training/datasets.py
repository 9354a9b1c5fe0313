"""The users that a recipe names: who is trained on, who is held out, the words, and the best possible accuracy if known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.canaries.plan import CanaryPlan, load_plan
from tacit.data.canaries.planting import plant
from tacit.data.rows import to_rows
from tacit.data.store import Store, open_store
from tacit.data.users import Examples, Users
from tacit.data.views import Reshuffled, split_users
from tacit.data.vocabulary import PRIVATE, word_list
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import AuditError, DataError, PrivacyError
from tacit.learning.pretrain import Reworded
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, PlantedCanaries, VocabularyRecord
from tacit.privacy.record.notes import Note
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.sections import AuditSection
from tacit.recipe.training import Recipe
from tacit.training.vocabularies import found_words

# The best possible accuracy of a world is computed exactly, over so many held-out sentences: this takes about a second.
IDEAL_SENTENCES = 600
# The sentences of so many public users fill the synthetic devices of an audit.
PUBLIC_USERS = 200


@dataclass(frozen=True)
class Dataset:
    """Training users, who are behind the gate, and held-out rows, which are read freely.

    `people` is how many of the training users are real. It is not public, so nothing that others see may depend on it.
    `description` and `notes` are what the ledger says of the data, and `vocabulary` what it says of the discovery that chose
    the words, `warnings` what it warned of.
    """

    train: Users
    people: int
    held_out: NDArray[np.int32]
    words: tuple[str, ...]
    description: DataRecord
    reasons_not_private: tuple[Reason, ...] = ()
    best_possible: Callable[[], Mapping[str, float]] | None = None
    canaries: CanaryPlan | None = None
    vocabulary: VocabularyRecord | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def provenance(self) -> str:
        """Where the words come from; those of a world are made up, and those of an unknown origin count as private."""
        of_a_world = PRIVATE if self.description.world is None else word_list(f"the {self.description.world} world")
        return self.description.vocabulary or of_a_world


def open_dataset(recipe: Recipe) -> Dataset:
    """Open what the recipe's [data] names, and check it against what the plan promises."""
    dataset = _world(recipe) if recipe.data.world is not None else _store(recipe)
    if recipe.audit is not None and recipe.audit.plan is not None:
        dataset = _planted(dataset, recipe, recipe.audit)
    if recipe.data.iid:
        synthetic = recipe.privacy.population
        dealt = Reshuffled(dataset.train, synthetic, seed=recipe.data.shuffle_seed)
        dataset = replace(dataset, train=dealt, people=synthetic)
    check_population(recipe.privacy, dataset, recipe.run.rounds, counted=recipe.fleet is None)
    return dataset


def reasons_of_data(recipe: Recipe) -> tuple[Reason, ...]:
    """Why a run on the recipe's data can claim no finite epsilon, whatever its noise is; the users' text is not read."""
    reasons = []
    if recipe.data.store is not None and recipe.vocabulary is None:
        words = open_store(recipe.data.store).vocabulary
        if words is not None and not words.is_public:
            reasons.append(Reason(Why.COUNTED_VOCABULARY))
    if recipe.data.iid:
        reasons.append(Reason(Why.MIXED_USERS))
    return tuple(reasons)


def check_population(plan: PrivacyPlan, dataset: Dataset, rounds: int, *, counted: bool = True) -> None:
    """PrivacyError unless there are as many users as the plan promises; `counted`: False for devices, which nobody counts.

    With fixed-size rounds and check-ins, neighbours have the same number of users, so a refusal reveals nothing about one user.
    """
    if plan.sampling == "fixed" and dataset.people < plan.population:
        raise PrivacyError(
            f"Expected at least privacy.population = {plan.population} users for fixed-size rounds, got {dataset.people}: "
            "a smaller population is amplified less than the plan claims."
        )
    if plan.sampling == "check_in" and counted:
        try:
            plan.model_copy(update={"population": drawn_from(dataset)}).check_participation(rounds)
        except ValueError as error:
            raise PrivacyError(f"{str(error).capitalize()} (users in the data).") from None


def drawn_from(dataset: Dataset) -> int:
    """How many users the plan's sampler draws from: without synthetic users who have a rate of their own."""
    alone = dataset.canaries is not None and dataset.canaries.device_rate is not None
    return dataset.people if alone else len(dataset.train)


def _world(recipe: Recipe) -> Dataset:
    data = recipe.data
    world = KeyboardWorld(data.world_seed, data.users + data.held_out, vocabulary_size=data.vocabulary)
    held_out = np.arange(data.users, data.users + data.held_out)
    return Dataset(
        train=KeyboardWorld(data.world_seed, data.users, vocabulary_size=data.vocabulary),
        people=data.users,
        held_out=held_out_rows(world, held_out, recipe),
        words=world.words,
        description=DataRecord(world="keyboard", seed=data.world_seed, users=data.users),
        best_possible=lambda: world.best_possible(held_out, most_sentences=IDEAL_SENTENCES),
    )


def _store(recipe: Recipe) -> Dataset:
    data = recipe.data
    store = open_store(str(data.store))
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text with a vocabulary, got {data.store}, which has none.")
    found = None if recipe.vocabulary is None else found_words(recipe.vocabulary, store)
    train, held_out = split_users(store if found is None else found.users, data.held_out)
    vocabulary = store.vocabulary if found is None else found.users.vocabulary
    reasons = () if found is None else found.reasons_not_private
    return Dataset(
        train=train,
        people=len(train),
        held_out=held_out_rows(held_out, np.arange(len(held_out)), recipe),
        words=tuple(vocabulary.decode(np.arange(len(vocabulary)))),  # the reserved entries too: a word at its number
        description=DataRecord(store=store.store_id, vocabulary=vocabulary.provenance),
        reasons_not_private=(*reasons, *reasons_of_data(recipe)),
        vocabulary=None if found is None else found.record,
        warnings=() if found is None else found.warnings,
    )


def _planted(dataset: Dataset, recipe: Recipe, section: AuditSection) -> Dataset:
    """The same users with the canaries of the recipe's plan among them."""
    plan = load_plan(Path(str(section.plan)))
    require_plantable(plan, recipe.privacy, iid=recipe.data.iid)
    public = _public_sentences(dataset, recipe, section) if len(plan.device_canaries()) else None
    return planted(dataset, recipe.privacy, plan, public)


def planted(dataset: Dataset, privacy: PrivacyPlan, plan: CanaryPlan, public: Examples | None) -> Dataset:
    """The same users with a plan's canaries among them. The ledger will say how many and which plan, never which phrases."""
    require_plantable(plan, privacy, iid=False)
    train = plant(dataset.train, plan, dataset.words, dataset.description.name, public)
    return replace(dataset, train=train, canaries=plan)


def require_plantable(plan: CanaryPlan, privacy: PrivacyPlan, *, iid: bool) -> None:
    """AuditError if users who are asked as `privacy` says, or dealt out anew (`iid`), cannot have this plan's canaries."""
    if iid and plan.synthetic_users:
        raise AuditError(
            "Expected canaries shared by real users with data.iid, got synthetic users: they would be dealt out."
        )
    together = privacy.sampling == CYCLIC or privacy.secagg is not None
    if plan.device_rate is not None and together:
        raise AuditError(
            f"Expected a canary plan whose synthetic users have no rate of their own, got {plan.device_rate:g}: with "
            "cyclic sampling or secure aggregation everybody is asked in one way."
        )


def planted_canaries(plan: CanaryPlan) -> PlantedCanaries:
    """What the ledger says of planted canaries: how many, and the digest of their plan, never which phrases."""
    return PlantedCanaries(
        plan=plan.digest(),
        canaries=len(plan.canaries),
        devices=len(plan.device_canaries()),
        coin_users=len(plan.coin_canaries()),
        device_rate=plan.device_rate,
    )


def _public_sentences(dataset: Dataset, recipe: Recipe, section: AuditSection) -> Examples:
    """What synthetic devices hold beside their canaries: a public store's text, or that of another world."""
    data = recipe.data
    some = np.arange(PUBLIC_USERS)
    if section.public is None and data.world is not None:
        other = (data.world_seed + 1) % 2**32
        return KeyboardWorld(other, PUBLIC_USERS, vocabulary_size=data.vocabulary).gather(some)
    if section.public is None:
        raise AuditError("The plan's synthetic devices need public text: name a store of it in audit.public.")
    store = public_store(section.public, data.store)
    assert store.vocabulary is not None
    words = store.vocabulary.decode(np.arange(len(store.vocabulary)))
    return Reworded(store, words, dataset.words).gather(some[: len(store)])


def public_store(public: str | Path, private: str | None) -> Store:
    """The store of public text that audit.public names; refused if it has no words or is the private store itself."""
    store = open_store(public)
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text in audit.public, got {public}, which has no words.")
    if private is not None and open_store(private).store_id == store.store_id:
        raise PrivacyError(f"Expected public text in audit.public, got {public}, the private store itself.")
    return store


def held_out_rows(users: Users, chosen: NDArray[np.int64], recipe: Recipe) -> NDArray[np.int32]:
    """Held-out rows, laid out as in training, up to about run.evaluate_words predictions."""
    data = recipe.data
    rows = to_rows(
        users.gather(chosen),
        layout=data.layout,
        length=data.length,
        max_rows=-(-data.tokens_per_user // data.length),
    )
    wanted = -(-recipe.run.evaluate_words // data.length)
    picked = np.linspace(0, len(rows.tokens) - 1, min(wanted, len(rows.tokens))).astype(np.int64)
    return rows.tokens[np.unique(picked)]
