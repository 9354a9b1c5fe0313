"""Open the users with images of an inspection's recipe: before the fault, with it, and held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.faults import Inverted, Relabelled, Rotated
from tacit.data.remote import place_of
from tacit.data.store import open_store
from tacit.data.users import Examples, Users
from tacit.data.views import Capped, Subset, split_users
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError
from tacit.models.classifier import SIDE
from tacit.privacy.record.facts import DataRecord
from tacit.recipe.image_inspection import ImageInspection


@dataclass(frozen=True)
class ImageUsers:
    """`before`: the users that the classifier is trained on. `now`: the same users, with the fault in their images.

    `held_out` and `held_out_now` are the images of held-out users, before the fault and with it.
    """

    before: Users
    now: Users
    held_out: Examples
    held_out_now: Examples
    description: DataRecord
    store: Path | None


def open_images(recipe: ImageInspection) -> ImageUsers:
    """Open the recipe's [data]; DataError unless it holds images of the right size and classes."""
    data = recipe.data
    if data.store is None:
        world: Users = HandwritingWorld(data.world_seed, data.users + data.held_out, glyphs_per_writer=data.images)
        here = np.arange(data.users + data.held_out, dtype=np.int64)
        train, aside, description = (
            Subset(world, here[: data.users]),
            Subset(world, here[data.users :]),
            DataRecord(world="handwriting", seed=data.world_seed, users=data.users),
        )
    else:
        store = open_store(data.store)
        if store.info.kind != "image":
            raise DataError(f"Expected a store of images, got {data.store}, which holds text.")
        train, aside = split_users(store, data.held_out)
        description = DataRecord(store=store.store_id)
    before, others = (Capped(users, examples=data.most_images) for users in (train, aside))
    now, others_now = (_with_fault(recipe, users) for users in (before, others))
    everybody = np.arange(len(aside), dtype=np.int64)
    held_out, held_out_now = (_checked(users.gather(everybody), data.classes) for users in (others, others_now))
    return ImageUsers(
        before, now, held_out, held_out_now, description, None if data.store is None else place_of(data.store)
    )


def _with_fault(recipe: ImageInspection, users: Users) -> Users:
    fault = recipe.fault
    if fault is None:
        return users
    if fault.kind == "relabelled":
        return Relabelled(users, fault.share, recipe.data.classes, seed=fault.seed)
    return (Inverted if fault.kind == "inverted" else Rotated)(users, fault.share, seed=fault.seed)


def _checked(examples: Examples, classes: int) -> Examples:
    size: tuple[int, ...] = examples.items.shape[1:]
    if examples.labels is None or size != (SIDE, SIDE):
        got = "text" if examples.labels is None else "×".join(map(str, size))
        raise DataError(f"Expected users with images of {SIDE}×{SIDE}, got {got}.")
    if examples.labels.max(initial=0) >= classes:
        raise DataError(f"A held-out image has a class beyond data.classes = {classes}.")
    return examples
