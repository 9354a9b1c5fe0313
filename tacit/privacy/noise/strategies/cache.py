"""Optimised strategies, kept in the user's cache folder so that each is searched for once.

Nothing depends on the cache being right. A file that is damaged, foreign or for other rounds is ignored and written again; the
cost of a strategy is always computed from its coefficients. If the folder cannot be written to, the next search only takes its
second again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tacit.errors import PrivacyError
from tacit.files import user_cache
from tacit.privacy.noise.strategies.base import Strategy
from tacit.privacy.noise.strategies.optimise import Progress, optimise_banded, optimise_buffered, widest_band
from tacit.privacy.noise.strategies.toeplitz import BandedToeplitz, BufferedToeplitz
from tacit.privacy.noise.strategies.tree import Tree
from tacit.privacy.outside import Registry
from tacit.privacy.participation.limits import Gap, most_participations

# By name; one line adds another. Those from outside come with `register_strategy`.
STRATEGIES: Registry[type[Any]] = Registry(
    "strategy", {"tree": Tree, "blt": BufferedToeplitz, "banded": BandedToeplitz}
)

# Part of every key: raise it when the search improves, so that older results are not used.
_SEARCH = 1


def optimised(
    name: str,
    rounds: int,
    gap: Gap,
    max_participation: int,
    *,
    most_bands: int | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> Strategy:
    """The strategy of this name, Tacit's own or from outside, for so many rounds without a restart, this gap and this MaxP.

    `most_bands` caps the memory of a band. `folder` replaces the user's cache folder.
    """
    if rounds < 1 or max_participation < 1:
        raise PrivacyError(f"Expected at least 1 round and 1 participation, got {rounds} and {max_participation}.")
    if most_bands is not None and most_bands < 1:
        raise PrivacyError(f"Expected at least 1 band, got {most_bands}.")
    outside = None if name in STRATEGIES.own else STRATEGIES.find(name)
    if outside is not None:
        return outside.fitted(rounds, gap, max_participation)
    if name == "tree":
        return Tree()
    most = most_participations(rounds, gap, max_participation)
    search: Callable[[], Strategy]
    key: dict[str, Any] = {
        "search": _SEARCH,
        "strategy": name,
        "rounds": rounds,
        "rounds_between": gap.rounds_between,
        "participations": most,
    }
    if name == "blt":
        search = partial(optimise_buffered, rounds, gap, most, progress=progress)
    elif name == "banded":
        key["bands"] = widest_band(rounds, gap, most, most_bands)
        search = partial(optimise_banded, rounds, gap, most, most_bands=most_bands, progress=progress)
    else:
        raise PrivacyError(f"Expected a noise strategy that is known here, got {name!r}: {STRATEGIES.missing(name)}.")
    path = (folder or user_cache("strategies")) / ("-".join(str(each) for each in key.values()) + ".json")
    found = _load(path, key)
    if found is None:
        found = search()
        _save(path, key, found)
    return found


def from_description(description: Mapping[str, Any]) -> Strategy:
    """The strategy with this description; PrivacyError if there is none."""
    name = description.get("strategy")
    found = STRATEGIES.find(name) if isinstance(name, str) else None
    if found is None:
        raise PrivacyError(
            f"Expected a noise strategy that is known here, got {name!r}: {STRATEGIES.missing(str(name))}."
        )
    return found.from_description(description)


def _load(path: Path, key: Mapping[str, Any]) -> Strategy | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["key"] != key or stored["description"]["horizon"] != key["rounds"]:
            return None
        found = from_description(stored["description"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, PrivacyError):
        return None
    if found.name != key["strategy"]:
        return None
    if isinstance(found, BandedToeplitz) and len(found.coefficients) != key["bands"]:
        return None
    return found


def _save(path: Path, key: Mapping[str, Any], strategy: Strategy) -> None:
    """Whole or not at all, whoever else writes the same file; silent where the folder cannot be written to."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"key": dict(key), "description": strategy.describe()}, file)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
