"""Check that held-out users were not trained on by another run that is compared with them."""

from __future__ import annotations

from typing import Protocol

from tacit.errors import DataError
from tacit.privacy.record.facts import DataRecord
from tacit.runs.folder import RunFolder


class HeldOutSplit(Protocol):
    """The part of a recipe's [data] that determines who is held out."""

    users: int


def require_held_out(data: HeldOutSplit, here: DataRecord, run: RunFolder) -> None:
    """DataError if the finished run was trained on users whom `data` holds out.

    `here` is the ledger's record of the data. A store holds out the same users for every run, and different stores and worlds
    have different users. So this can only happen within one world, whose held-out users come after `data.users`.
    """
    trained, there = run.recipe()["data"], run.ledger().opened.data
    if here.world is None or here.name != there.name:
        return
    if data.users < trained["users"]:
        raise DataError(
            f"Expected held-out users whom the run {run.path} was not trained on, data.users ≥ {trained['users']}, "
            f"got {data.users}."
        )
