"""The pre-trained model, kept in the run folder: made once from public data before the run begins, and then only read.

The ledger's first record names the data and the digest of the model, so a run goes on from this model or not at all. The
public data is not read again: it may have changed or be gone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import Store, open_store
from tacit.data.users import Users
from tacit.data.views import Subset
from tacit.data.worlds.definition import STYLE_SHARES, STYLES
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError, PrivacyError, RunError
from tacit.files import disk_error, sync_folder
from tacit.learning.central import Descent
from tacit.learning.next_word import NextWord
from tacit.learning.pretrain import (
    OnProgress,
    PretrainingSchedule,
    Reworded,
    predictions_in,
    pretrain,
    public_rows,
    unknown_share,
)
from tacit.learning.state import load_model, model_arrays
from tacit.privacy.record.codec import from_json
from tacit.privacy.record.facts import PretrainingRecord
from tacit.recipe.sections import PretrainSection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs import checkpoints
from tacit.runs.callbacks import Callback, notifying
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder, first_difference
from tacit.training.datasets import Dataset

WORLD_USERS = 2_000
_DESCRIPTION = "public data"


@dataclass(frozen=True)
class Pretrained:
    """The model, and what the ledger says about where it came from."""

    model: Any
    record: PretrainingRecord


@dataclass(frozen=True)
class PublicText:
    """Public users in the model's own words, and what they are; `asserted`: the recipe says that they are public."""

    users: Users
    public: str
    asserted: bool


def open_public(recipe: Recipe, dataset: Dataset) -> PublicText | None:
    """Open what the recipe's [pretrain] names; None if it has none. Every mistake that shows before reading is an error."""
    section = recipe.pretrain
    if section is None:
        return None
    asserted = section.store is not None
    users, words, public = _store(section, dataset) if asserted else _world(section, dataset)
    if section.reuse is not None:
        _model_to_reuse(recipe, dataset, section.reuse, public)
    reworded = Reworded(users, words, dataset.words)
    if reworded.shared == 0:
        raise DataError(
            f"Expected public text with words that the model knows, got {public}, which shares none of its "
            f"{len(dataset.words):,}."
        )
    return PublicText(reworded, public, asserted)


def pretrained(
    recipe: Recipe, dataset: Dataset, model: Any, folder: RunFolder, callback: Callback | None = None
) -> Pretrained | None:
    """The model that the run's rounds start from; None if that is `model` itself.

    It is read from the folder. A run that has not begun yet makes it, if it is not there; one that has begun must have it
    (RunError). Whether it is the one the ledger names is for the caller to compare.
    """
    if recipe.pretrain is None:
        return None
    path = checkpoints.path_of(folder.pretrained_path, 0)
    if not path.exists():
        if folder.begun:
            raise RunError(f"The pre-trained model {path}, with which the run {folder.path} began, is missing.")
        public = open_public(recipe, dataset)
        assert public is not None
        if recipe.pretrain.reuse is None:
            _make(recipe, public, model, folder, callback or Callback())
        else:
            kept = _model_to_reuse(recipe, dataset, recipe.pretrain.reuse, public.public)
            _make_folder(folder)
            checkpoints.save(folder.pretrained_path, 0, kept.arrays, kept.metadata)
    kept = checkpoints.load(path)
    return Pretrained(load_model(model, kept.arrays), _record(kept, path))


def _record(kept: checkpoints.Checkpoint, path: Path) -> PretrainingRecord:
    try:
        return from_json(PretrainingRecord, {**json.loads(kept.metadata[_DESCRIPTION]), "digest": kept.digest})
    except (KeyError, TypeError, ValueError):
        raise RunError(f"The file {path} is a checkpoint, and no pre-trained model.") from None


def _make(recipe: Recipe, public: PublicText, model: Any, folder: RunFolder, callback: Callback) -> None:
    section = recipe.pretrain
    assert section is not None
    with notifying(callback):
        made = pretrain_on(recipe, section, public.users, model, callback.on_pretraining)
    description = {
        "public": public.public,
        "asserted": public.asserted,
        "predictions": predictions_in(made.rows),
        "unknown_words": round(unknown_share(made.rows), 4),
        "steps": made.steps,
    }
    _make_folder(folder)
    metadata = {_DESCRIPTION: json.dumps(description, sort_keys=True)}
    checkpoints.save(folder.pretrained_path, 0, model_arrays(made.model), metadata)


@dataclass(frozen=True)
class MadeOnRows:
    """A model, and the rows of public text and the steps that made it."""

    model: Any
    rows: NDArray[np.int32]
    steps: int


def pretrain_on(
    recipe: Recipe, section: PretrainSection, users: Users, model: Any, on_progress: OnProgress | None = None
) -> MadeOnRows:
    """The model after pre-training on these users' text, as the section says."""
    rows = public_rows(users, layout=recipe.data.layout, length=recipe.data.length)
    schedule = PretrainingSchedule(section.batch_size, section.epochs, section.steps, section.order_seed)
    descent = Descent(
        NextWord(recipe.engine.precision), section.optimizer, section.learning_rate, momentum=section.momentum
    )
    trained = pretrain(model, rows, schedule, descent, on_progress=on_progress)
    return MadeOnRows(trained, rows, schedule.steps_of(len(rows)))


def _model_to_reuse(recipe: Recipe, dataset: Dataset, path: str, public: str) -> checkpoints.Checkpoint:
    """The pre-trained model of another run, if it is the one that this recipe would make of `public`; RunError if it is not.

    The name of a store in a recipe may stand for other data in another folder or on another day. So what the model says
    that it was trained on is compared with the public data of this recipe, which is never the private store.
    """
    other = RunFolder.open(by_name(Path(path)))
    if other.vocabulary() != list(dataset.words):
        raise RunError(f"Expected a run with the same words in pretrain.reuse, got {other.path}, whose words differ.")
    wanted, there = (_what_decides(each) for each in (recipe, parse_recipe(other.recipe())))
    if (difference := first_difference(there, wanted)) is not None:
        name, theirs, ours = difference
        raise RunError(
            f"Expected a run with the same pre-training in pretrain.reuse, got {other.path}, where {name} is {theirs} and not "
            f"{ours}."
        )
    kept_path = checkpoints.path_of(other.pretrained_path, 0)
    kept = checkpoints.load(kept_path)
    if (theirs := _record(kept, kept_path).public) != public:
        raise RunError(
            f"Expected a model that was pre-trained on {public} in pretrain.reuse, got that of {other.path}, which was "
            f"trained on {theirs}."
        )
    return kept


def _what_decides(recipe: Recipe) -> dict[str, Any]:
    """The settings that a pre-trained model follows from, beside the words."""
    section = None if recipe.pretrain is None else recipe.pretrain.model_dump(mode="json", exclude={"reuse"})
    rows = recipe.data.model_dump(mode="json", include={"layout", "length"})
    precision = recipe.engine.precision
    return {"pretrain": section, "model": recipe.model.model_dump(mode="json"), "data": rows, "engine": precision}


def _make_folder(folder: RunFolder) -> None:
    try:
        folder.pretrained_path.mkdir(exist_ok=True)
        sync_folder(folder.path)
    except OSError as error:
        raise disk_error(error, folder.pretrained_path, "the run has not begun") from error


def _world(section: PretrainSection, dataset: Dataset) -> tuple[Users, Sequence[str], str]:
    """Writers of one style, of a world with another seed."""
    private = dataset.description
    if private.world == section.world and private.seed == section.world_seed:
        raise PrivacyError(
            f"Expected pretrain.world_seed other than data.world_seed = {section.world_seed}, got the same: these are the "
            "very users who are to be protected."
        )
    return writers_of_world(section)


def writers_of_world(section: PretrainSection) -> tuple[Users, Sequence[str], str]:
    """The made-up people of [pretrain], the words of their world, and what the ledger calls them."""
    count, style = section.users or WORLD_USERS, STYLES.index(section.style or STYLES[0])
    # Enough users that at least `count` of them have the style.
    drawn = KeyboardWorld(section.world_seed, int(2 * count / STYLE_SHARES[style]) + 200, vocabulary_size=None)
    chosen = np.flatnonzero(drawn.styles(np.arange(len(drawn))) == style)[:count]
    name = (
        f"the keyboard world with seed {section.world_seed}, {count:,} users who write in the style {STYLES[style]!r}"
    )
    return Subset(drawn, chosen), drawn.words, name


def _store(section: PretrainSection, dataset: Dataset) -> tuple[Users, Sequence[str], str]:
    """The users of a store that the recipe asserts to be public."""
    store = open_store(str(section.store))
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text in pretrain.store, got {section.store}, which has no words.")
    if dataset.description.store == store.store_id:
        raise PrivacyError(
            f"Expected public data in pretrain.store, got {section.store}, which is the private store itself (data.store)."
        )
    count = min(section.users or len(store), len(store))
    if count == 0:
        raise DataError(f"Expected a store of text in pretrain.store, got {section.store}, which has no users.")
    words = store.vocabulary.decode(np.arange(len(store.vocabulary)))
    return Subset(store, np.arange(count)), words, public_store_name(store, count)


def public_store_name(store: Store, users: int) -> str:
    """What the ledger calls the text of the first so many users of a public store."""
    return f"store {store.store_id} ({', '.join(store.info.sources)}), {users:,} users"
