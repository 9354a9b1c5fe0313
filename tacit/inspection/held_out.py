"""Check that held-out users were not trained on by another run that is compared with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tacit.errors import DataError
from tacit.runs.folder import RunFolder


class HeldOutSplit(Protocol):
    """The part of a recipe's [data] that determines who is held out."""

    users: int


def require_held_out(data: HeldOutSplit, about: Mapping[str, Any], run: RunFolder) -> None:
    """DataError if the finished run was trained on users whom `data` holds out.

    `about` is the description of the data in the ledger. A store holds out the same users for every run, and different stores
    and worlds have different users. So this can only happen within one world, whose held-out users come after `data.users`.
    """
    trained, there = run.recipe()["data"], run.ledger().opened.data
    if "world" not in about or (about["world"], about["seed"]) != (there.get("world"), there.get("seed")):
        return
    if data.users < trained["users"]:
        raise DataError(
            f"Expected held-out users whom the run {run.path} was not trained on, data.users ≥ {trained['users']}, "
            f"got {data.users}."
        )
