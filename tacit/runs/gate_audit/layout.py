"""Which directions the audit of the gate looks at, what its made-up contributions are, and what the gate must make of them.

**Channels.** A channel is a unit vector on one array of one block. The first few coordinates of an array are channels of their
own; the rest is cut into segments, and a segment's channel is the same on all its coordinates. Channels have disjoint supports,
so N(0, σ²) noise on coordinates is independent N(0, σ²) noise on channels. They are the same in every round and every run:
they need not be secret, and correlated noise has to be followed along the same directions in all rounds.

**Canaries.** Each channel of the update belongs to one of a few made-up users. Such a user's update is the same number on all
coordinates of their channels, with a norm of `TIMES_TOO_LONG` times the clip and a weight of `WEIGHT_GIVEN`, both of which the
gate must reduce. In each round a coin decides for each canary whether it takes part.

What the gate must add for a canary is computed here from the definition (DP-FedAvg, equation 1, and the headroom of
`privacy.rounding`) in NumPy's float64, and shares no code with the gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.gate.rounding import HEADROOM, LARGEST_NORM
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN

Floats = NDArray[np.float64]

# Channels × rounds: with so many trials, noise that is 6% too small is detected nearly always.
TRIALS = 10_000
# The first coordinates of each array, whose channels show whether two arrays got the same noise.
SINGLES = 4
# Canaries in a round: a share of the cohort, because each costs what clipping and adding one user's update costs.
USERS_A_CANARY, FEWEST_CANARIES, MOST_CANARIES = 32, 4, 16
# Canaries cost some milliseconds per round: a long run has them in every fourth round, a short one in every round.
MOST_ROUNDS_APART, ROUNDS_WITH_CANARIES = 4, 32
TIMES_TOO_LONG = 10.0
WEIGHT_GIVEN = 2.0


@dataclass(frozen=True)
class Array:
    """One array of a block, cut into channels: `singles` coordinates, then segments of `length`, the last one shorter."""

    block: str
    size: int
    singles: int
    length: int

    @property
    def segments(self) -> int:
        return -(-(self.size - self.singles) // self.length) if self.size > self.singles else 0

    @property
    def channels(self) -> int:
        return self.singles + self.segments

    def counts(self) -> NDArray[np.int64]:
        """How many coordinates each channel has."""
        found = np.ones(self.channels, np.int64)
        found[self.singles :] = self.length
        if self.segments:
            found[-1] = self.size - self.singles - (self.segments - 1) * self.length
        return found


@dataclass(frozen=True)
class Shares:
    """What canaries put in and what the gate must make of it. `amplitudes` [canaries]: the number on every coordinate of
    a canary's update. `values` [update channels]: what a coordinate of the channel gains if its canary is in."""

    amplitudes: NDArray[np.float32]
    values: Floats
    weight: float
    bit: float


@dataclass(frozen=True)
class Layout:
    """All channels of a run: the arrays of the update in the order of its leaves, then the side blocks.

    Canaries take part in every `every`-th round, from the first on. The noise is tested in all rounds.
    """

    arrays: tuple[Array, ...]
    canaries: int
    per_layer: bool
    every: int = 1

    @classmethod
    def of(
        cls, sizes: Sequence[int], side_blocks: Sequence[str], *, rounds: int, canaries: int, per_layer: bool
    ) -> Layout:
        """For updates whose arrays have these sizes: about `TRIALS` trials in so many rounds, some in every array."""
        whole = sum(sizes)
        arrays = []
        for size in sizes:
            singles = min(size, SINGLES)
            segments = max(1, min(size - singles, round(TRIALS / rounds * size / whole)))
            arrays.append(Array(UPDATE, size, singles, max(1, -(-(size - singles) // segments))))
        few = min(canaries, sum(array.channels for array in arrays))
        every = max(1, min(MOST_ROUNDS_APART, rounds // ROUNDS_WITH_CANARIES))
        return cls((*arrays, *(Array(name, 1, 1, 1) for name in sorted(side_blocks))), few, per_layer, every)

    def has_canaries(self, round: int) -> bool:
        """Whether canaries go into this round."""
        return round % self.every == 0

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """[channels] how many coordinates each has."""
        return np.concatenate([array.counts() for array in self.arrays])

    @cached_property
    def array_of(self) -> NDArray[np.int64]:
        """[channels] which array each is on."""
        return np.repeat(np.arange(len(self.arrays)), [array.channels for array in self.arrays])

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """[channels] which block each is in."""
        return tuple(self.arrays[each].block for each in self.array_of)

    @cached_property
    def in_update(self) -> NDArray[np.bool_]:
        """[channels] whether each is in the update; those come first."""
        return np.array([name == UPDATE for name in self.blocks])

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """[update channels] the canary that each belongs to: in turn, so that every canary is on all larger arrays."""
        return np.arange(int(self.in_update.sum())) % self.canaries

    def shares(self, clip: float, threshold: float | None) -> Shares:
        """π(Δ, S) of every canary by its definition, over all arrays together or over each of them with S/√m."""
        update = self.in_update
        counts, arrays = self.counts[update].astype(np.float64), self.array_of[update]
        number = int(arrays.max()) + 1
        coordinates = np.zeros((self.canaries, number))  # [canary, array] coordinates of its support
        np.add.at(coordinates, (self.owners, arrays), counts)
        length = min(TIMES_TOO_LONG * max(clip, threshold or 0.0), LARGEST_NORM / 2)
        amplitudes = (length / np.sqrt(coordinates.sum(axis=1))).astype(np.float32)
        norms = amplitudes.astype(np.float64)[:, None] * np.sqrt(coordinates)  # [canary, array] of its update
        if not self.per_layer:
            norms = np.broadcast_to(np.sqrt((norms**2).sum(axis=1, keepdims=True)), norms.shape)
        bound = clip / np.sqrt(number) if self.per_layer else clip
        kept = np.minimum(1.0, bound / np.where(norms > 0, norms, np.inf))
        values = (HEADROOM * kept * amplitudes.astype(np.float64)[:, None])[self.owners, arrays]
        # The norm is above the threshold, so the bit is -1/2; the weight is cut to 1.
        return Shares(amplitudes, values, HEADROOM, -HEADROOM / 2)

    def added(self, shares: Shares, coins: NDArray[np.bool_]) -> Floats:
        """[channels] what the canaries that take part must add to the sums, along each channel."""
        found = np.zeros(len(self.counts))
        update = self.in_update
        found[update] = shares.values * np.sqrt(self.counts[update]) * coins[self.owners]
        for name, each in ((WEIGHT, shares.weight), (WITHIN, shares.bit)):
            found[np.array(self.blocks) == name] = each * coins.sum()
        return found

    def lengths(self, along: Floats) -> Floats:
        """[canaries] the norm of each canary's part of a vector that is given along the channels."""
        return np.sqrt(np.bincount(self.owners, along[self.in_update] ** 2, minlength=self.canaries))

    def as_dict(self) -> dict[str, Any]:
        """As JSON; `from_dict` gives an equal layout back."""
        return {
            "arrays": [asdict(array) for array in self.arrays],
            "canaries": self.canaries,
            "per_layer": self.per_layer,
            "every": self.every,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Layout:
        return cls(
            tuple(Array(**each) for each in found["arrays"]), found["canaries"], found["per_layer"], found["every"]
        )


def canaries_for(cohort: float) -> int:
    """How many canaries can be added to a cohort of this expected size at little cost."""
    return max(FEWEST_CANARIES, min(MOST_CANARIES, int(cohort) // USERS_A_CANARY))
