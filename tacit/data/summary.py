"""What `tacit data show` says about a store: counts and quantiles, never a text and never an id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import Store
from tacit.data.users import OOV, in_blocks

# What is said wherever figures of a store are shown.
NOT_COVERED = "These are exact figures about private users. No guarantee covers them."
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def summarise(store: Store) -> dict[str, Any]:
    """A dictionary of plain numbers and strings, ready for JSON. Reads the word ids or labels of every user once."""
    info = store.info
    summary: dict[str, Any] = {
        "store": str(store.path),
        "store_id": store.store_id,
        "kind": info.kind,
        "users": info.users,
        "held_out": {"share": info.held_out, "users": len(store.held_out_users())},
        "examples": info.examples,
        "sources": list(info.sources),
        "caps": info.caps.model_dump(),
        "skipped": dict(info.skipped),
        "examples_per_user": quantiles(store.example_counts()),
    }
    if info.kind == "image":
        summary["classes"] = _classes(store)
        return summary
    lengths, unknown = _lengths_and_unknown(store)
    summary["tokens"] = info.items
    summary["tokens_per_user"] = quantiles(store.token_counts())
    summary["tokens_per_example"] = quantiles(lengths)
    summary["out_of_vocabulary"] = unknown / max(info.items, 1)
    if info.vocabulary is not None and store.vocabulary is not None:
        summary["vocabulary"] = {**info.vocabulary.model_dump(), "public": store.vocabulary.is_public}
    return summary


def quantiles(counts: NDArray[np.int64]) -> dict[str, int]:
    """The quantiles by name ("p0", "p10", ...), each a count that really occurs; empty for no counts."""
    if len(counts) == 0:
        return {}
    values = np.quantile(counts, QUANTILES, method="lower")
    return {f"p{round(100 * q)}": int(value) for q, value in zip(QUANTILES, values, strict=True)}


def _lengths_and_unknown(store: Store) -> tuple[NDArray[np.int64], int]:
    """How long each example is, and how many words are out of the vocabulary."""
    lengths, unknown = [np.empty(0, np.int64)], 0
    for numbers in in_blocks(len(store)):
        block = store.gather(numbers)
        lengths.append(np.diff(block.example_offsets))
        unknown += int(np.count_nonzero(block.items == OOV))
    return np.concatenate(lengths), unknown


def _classes(store: Store) -> int:
    seen: set[int] = set()
    for numbers in in_blocks(len(store)):
        block = store.gather(numbers)
        assert block.labels is not None
        seen.update(np.unique(block.labels).tolist())
    return len(seen)
