"""Canaries, phrases that nobody would write, planted to test whether a model memorises them; and the plan of an audit.

A canary of words is drawn uniformly from the vocabulary's real words ("Training Production Language Models without
Memorizing User Data", section IV-A); a canary of characters fills the # of a template with random digits. It is shared in
one of three ways:

- `CanaryDevices`: synthetic devices beside the real users hold copies of it among sentences of a public corpus (Production,
  section IV-A);
- `Sharers`: every user is a sharer with probability p_u, and every example of a sharer is replaced by it with probability p_e
  (the federated secret sharer of "Understanding Unintended Memorization in Language Models Under Federated Learning", section
  1);
- `CoinUser`: a synthetic user of its own is in the training data or not, by a fair coin; hundreds of these give a lower
  bound on epsilon (`tacit.audit.lower_bound`).

The plan holds canaries, their sharing and one seed. It holds nobody's text and not the number of users. Every random choice is
a hash of the seed and of the names it concerns, so a user's share depends on that user alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from tacit.data.users import FIRST_WORD
from tacit.data.worlds.randomness import uniform
from tacit.errors import AuditError
from tacit.files import refuse_if_others_can_read, write_atomic

# The purposes of hashes under the plan's seed: the first number that is hashed.
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
        """The canary as text."""
        return ("" if self.template is not None else " ").join(self.units)

    @property
    def known_prefix(self) -> int:
        """The number of units that an attacker knows from the form alone: all before a template's first blank."""
        return 0 if self.template is None else self.template.index(BLANK)


class CanaryPlan(BaseModel):
    """Which canaries are planted where.

    `data` names the population that the plan was made for: the store's id, or the world and its seed.

    `device_rate` is the probability with which a synthetic user takes part in a round (Production's devices ignore pace
    steering and take part far more often than real users); None: as often as real users.

    >>> import tacit
    >>> people = tacit.users({"ann": ["see you"], "bob": ["soon"]}, vocabulary=["see", "you", "soon", "on", "my", "way"])
    >>> tacit.canaries(people, coins=4, copies=3).synthetic_users
    4
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
        """The number of the canary that each synthetic device holds; devices come directly after the real users."""
        held = [c.sharing.devices if isinstance(c.sharing, CanaryDevices) else 0 for c in self.canaries]
        return np.repeat(np.arange(len(held), dtype=np.int64), held)

    def coin_canaries(self) -> NDArray[np.int64]:
        """The number of the canary that each canary user holds; canary users come after the devices."""
        return np.array([i for i, c in enumerate(self.canaries) if isinstance(c.sharing, CoinUser)], np.int64)

    def coins(self) -> NDArray[np.bool_]:
        """Whether each canary user is in."""
        return uniform(self.seed, COIN, self.coin_canaries()) < 0.5

    @property
    def synthetic_users(self) -> int:
        """The number of synthetic users: devices, and canary users whether in or out."""
        return len(self.device_canaries()) + len(self.coin_canaries())

    def digest(self) -> str:
        """The SHA-256 of the plan, for the ledger. It reveals no canary to anybody who does not know the seed."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def require(self, data: Mapping[str, str | int]) -> None:
        """AuditError unless this plan was made for the users with this name."""
        if data != self.data:
            raise AuditError(f"Expected a canary plan for {_named(data)}, got one for {_named(self.data)}.")

    def save(self, path: str | Path) -> None:
        """Write the plan to a file that only its owner can read: anybody who knows it can win every attack."""
        write_atomic(Path(path), self.model_dump_json(indent=1) + "\n", mode=0o600)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan that `save` wrote; AuditError if it is not a plan."""
        return cls.model_validate(load_plan(Path(path)).model_dump())


def load_plan(path: Path) -> CanaryPlan:
    """Read the plan in this file; AuditError if it is not a plan."""
    try:
        refuse_if_others_can_read(path)
        return CanaryPlan.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise AuditError(f"There is no canary plan {path}.") from None
    except OSError as error:
        raise AuditError(f"Cannot read the canary plan {path} ({error.strerror}).") from None
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise AuditError(f"The file {path} is not a canary plan, or it is damaged: {field}.") from None


def word_phrases(words: Sequence[str], *, length: int, count: int, seed: int) -> list[tuple[str, ...]]:
    """Distinct phrases of `length` words, each word uniform over the real words (`words[FIRST_WORD:]`)."""
    real = len(words) - FIRST_WORD
    if length < 1 or real < 1 or real**length < count:
        raise AuditError(
            f"Expected room for {count} distinct canaries, got a length of {length} words out of {max(real, 0)}."
        )
    phrases: dict[tuple[str, ...], None] = {}
    for attempt in itertools.count():
        if len(phrases) == count:
            return list(phrases)
        numbers = FIRST_WORD + (uniform(seed, DRAW_WORD, attempt, np.arange(length)) * real).astype(np.int64)
        phrases[tuple(words[number] for number in numbers)] = None
    raise AssertionError


def digit_phrases(template: str, *, count: int, seed: int) -> list[tuple[str, ...]]:
    """Distinct fillings of a template such as "my number is ###-##-####", as characters."""
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
    """The ids of each canary's units; `words[i]` has the id i. The error does not show the word, which is a secret."""
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
    """The ids that are possible at each place after the first `prefix` units."""
    if canary.template is None:
        return (np.arange(FIRST_WORD, len(words), dtype=np.int32),) * (len(canary.units) - prefix)
    index = _index(words)
    possible = [DIGITS if unit == BLANK else unit for unit in canary.template[prefix:]]
    if not index.keys() >= set("".join(possible)):
        raise AuditError("The vocabulary lacks a digit or a character of the template.")
    return tuple(np.array([index[unit] for unit in units], np.int32) for units in possible)


def _index(words: Sequence[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words) if number >= FIRST_WORD}


def _named(data: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items()) or "no data"
