"""Canaries: phrases nobody would write, planted to see whether a model remembers them; and the plan of an audit.

A canary of words is drawn uniformly from the vocabulary's real words ("Training Production Language Models without
Memorizing User Data", section IV-A); a canary of characters fills the # of a template with random digits. It is shared in
one of three ways:

- `CanaryDevices`: synthetic devices beside the real users, each with so many copies among sentences of a public corpus
  (Production, section IV-A);
- `Sharers`: every user shares it with one probability, and every example of a sharer is replaced by it with another (the
  federated secret sharer of "Understanding Unintended Memorization in Language Models Under Federated Learning", section 1);
- `CoinUser`: a synthetic user of its own who is in the training data or not, by the toss of a fair coin: hundreds of
  these give a lower bound on epsilon (`lower_bound.py`).

The plan holds canaries, sharing and one seed, never anybody's text, and not how many users there are. Every choice the seed
stands for is a hash of the names it is about, so any user's share depends on that user alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from tacit.data.users import FIRST_WORD
from tacit.data.worlds.randomness import uniform
from tacit.errors import AuditError
from tacit.files import refuse_if_others_can_read, write_atomic

# What a hash under the plan's seed decides: the first of the numbers that name it.
DRAW_WORD, DRAW_DIGIT, IS_SHARER, IS_REPLACED, HAS_COPY, PUBLIC_SENTENCE, COIN = range(7)

DIGITS = "0123456789"
BLANK = "#"
Probability = Annotated[float, Field(gt=0, le=1)]
_STRICT = ConfigDict(extra="forbid", frozen=True)


class CanaryDevices(BaseModel):
    """Shared by n_u = `devices` synthetic devices, each with n_e = `copies`."""

    model_config = _STRICT
    kind: Literal["devices"] = "devices"
    devices: PositiveInt
    copies: PositiveInt

    def __str__(self) -> str:
        return f"n_u = {self.devices}, n_e = {self.copies}"


class Sharers(BaseModel):
    """Shared by every user with probability p_u; a sharer's examples are replaced with probability p_e each."""

    model_config = _STRICT
    kind: Literal["sharers"] = "sharers"
    user_probability: Probability
    example_probability: Probability

    def __str__(self) -> str:
        return f"p_u = {self.user_probability:.3g}, p_e = {self.example_probability:.3g}"


class CoinUser(BaseModel):
    """Held, `copies` times, by one synthetic user, who is in or out by a fair coin that the plan's seed tosses."""

    model_config = _STRICT
    kind: Literal["coin"] = "coin"
    copies: PositiveInt

    def __str__(self) -> str:
        return f"in or out by a coin, {self.copies} copies"


class Canary(BaseModel):
    """A secret phrase as the units a model reads: words, or characters if it fills a template."""

    model_config = _STRICT
    units: Annotated[tuple[str, ...], Field(min_length=1)]
    template: str | None = None
    sharing: Annotated[CanaryDevices | Sharers | CoinUser, Field(discriminator="kind")]

    @property
    def text(self) -> str:
        """The canary as somebody would have typed it."""
        return ("" if self.template is not None else " ").join(self.units)

    @property
    def known_prefix(self) -> int:
        """How many units an attacker knows from the form alone: all before a template's first blank."""
        return 0 if self.template is None else self.template.index(BLANK)


class CanaryPlan(BaseModel):
    """Which canaries are planted where. `data` names the population that the plan was made for.

    `device_rate` is the probability with which a synthetic user takes part in a round (Production's devices ignore pace
    steering and take part far more often than people do); None: as often as anybody.
    """

    model_config = _STRICT
    format: Literal["tacit-canary-plan"] = "tacit-canary-plan"
    version: Literal[2] = 2
    data: dict[str, str | int]
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    examples_per_device: PositiveInt = 200
    device_rate: Probability | None = None
    canaries: Annotated[tuple[Canary, ...], Field(min_length=1)]

    def device_canaries(self) -> NDArray[np.int64]:
        """The number of the canary that each synthetic device holds; they come right after the real users."""
        held = [c.sharing.devices if isinstance(c.sharing, CanaryDevices) else 0 for c in self.canaries]
        return np.repeat(np.arange(len(held), dtype=np.int64), held)

    def coin_canaries(self) -> NDArray[np.int64]:
        """The number of the canary of each canary user; they come after the devices."""
        return np.array([i for i, c in enumerate(self.canaries) if isinstance(c.sharing, CoinUser)], np.int64)

    def coins(self) -> NDArray[np.bool_]:
        """Whether each canary user is in."""
        return uniform(self.seed, COIN, self.coin_canaries()) < 0.5

    @property
    def synthetic_users(self) -> int:
        """How many made-up users come after the real ones: devices, and canary users whether in or out."""
        return len(self.device_canaries()) + len(self.coin_canaries())

    def digest(self) -> str:
        """What a ledger may say about the plan: it names it, and tells nobody a canary who does not have the seed."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def require(self, description: Mapping[str, Any]) -> None:
        """AuditError unless this plan was made for the data described so."""
        here = binding(description)
        if here != self.data:
            raise AuditError(f"Expected a canary plan for {_named(here)}, got one for {_named(self.data)}.")

    def save(self, path: Path) -> None:
        """Write the plan to a file that its owner alone can read: who knows it can win every attack."""
        write_atomic(path, self.model_dump_json(indent=1) + "\n", mode=0o600)


def binding(description: Mapping[str, Any]) -> dict[str, str | int]:
    """What of a dataset's description tells it from another: the store's id, or the world and its seed."""
    names = ("store",) if "store" in description else ("world", "seed")
    return {name: description[name] for name in names}


def load_plan(path: Path) -> CanaryPlan:
    """The plan in this file; AuditError if it is none."""
    try:
        refuse_if_others_can_read(path)
        return CanaryPlan.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise AuditError(f"There is no canary plan {path}.") from None
    except OSError as error:
        raise AuditError(f"The canary plan {path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise AuditError(f"The file {path} is no canary plan, or a damaged one: {field}.") from None


def word_phrases(words: Sequence[str], *, length: int, count: int, seed: int) -> list[tuple[str, ...]]:
    """Different phrases of `length` words, each word uniform over the real ones (`words[FIRST_WORD:]`)."""
    real = len(words) - FIRST_WORD
    if length < 1 or real < 1 or real**length < count:
        raise AuditError(f"Expected {count} different canaries, got a length of {length} words out of {max(real, 0)}.")
    phrases: dict[tuple[str, ...], None] = {}
    for attempt in itertools.count():
        if len(phrases) == count:
            return list(phrases)
        numbers = FIRST_WORD + (uniform(seed, DRAW_WORD, attempt, np.arange(length)) * real).astype(np.int64)
        phrases[tuple(words[number] for number in numbers)] = None
    raise AssertionError


def digit_phrases(template: str, *, count: int, seed: int) -> list[tuple[str, ...]]:
    """Different fillings of a template such as "my number is ###-##-####", character by character."""
    blanks = template.count(BLANK)
    if 10**blanks < count or blanks == 0:
        raise AuditError(f"Expected a template with room for {count} canaries, got one with {blanks} blanks (#).")
    phrases: dict[tuple[str, ...], None] = {}
    for attempt in itertools.count():
        if len(phrases) == count:
            return list(phrases)
        digits = iter((uniform(seed, DRAW_DIGIT, attempt, np.arange(blanks)) * 10).astype(np.int64).tolist())
        phrases[tuple(DIGITS[next(digits)] if unit == BLANK else unit for unit in template)] = None
    raise AssertionError


def encode(canaries: Sequence[Canary], words: Sequence[str]) -> list[NDArray[np.int32]]:
    """The ids of each canary's units, where `words[i]` is the unit with id i. The error names no word: it is a secret."""
    index = _index(words)
    for number, canary in enumerate(canaries):
        for place, unit in enumerate(canary.units):
            if unit not in index:
                raise AuditError(
                    f"Expected canaries of the vocabulary's {len(index)} words, but word {place + 1} of canary "
                    f"{number + 1} is not among them."
                )
    return [np.array([index[unit] for unit in canary.units], np.int32) for canary in canaries]


def choices(canary: Canary, words: Sequence[str], prefix: int) -> tuple[NDArray[np.int32], ...]:
    """What could have stood at each place after the first `prefix` units, as ids: the secret is one of these."""
    if canary.template is None:
        return (np.arange(FIRST_WORD, len(words), dtype=np.int32),) * (len(canary.units) - prefix)
    index = _index(words)
    possible = [DIGITS if unit == BLANK else unit for unit in canary.template[prefix:]]
    if not index.keys() >= set("".join(possible)):
        raise AuditError("Expected a vocabulary with all ten digits and the template's characters, but one is missing.")
    return tuple(np.array([index[unit] for unit in units], np.int32) for units in possible)


def _index(words: Sequence[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words) if number >= FIRST_WORD}


def _named(data: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items()) or "no data"
