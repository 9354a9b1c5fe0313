"""When a device is available: plugged in, idle and on an unmetered network, all at once (Production, section V).

Most phones meet all three conditions at night. So every device has at most one *night* window per local day, which opens around
the same hour each evening and on some evenings not at all, and on some days a short *top-up* window between 9 and 18 o'clock (a
phone that charges on a desk). Windows never overlap: a night ends by 9 o'clock, before the first top-up can begin.

Habits (hour, length, reliability, speed, time zone) are drawn once per device. The windows of a day are a hash of (seed,
device, day), so they can be computed for any device and day in any order, and are not stored.

The figures below are assumptions, chosen so that a population behaves as the papers describe (rounds are quick at night and
slow by day); they are not measurements. There is no daylight saving time and no weekend.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RecipeError

Devices = NDArray[np.int64]
Seconds = NDArray[np.int64]

MINUTE, HOUR, DAY = 60, 3_600, 86_400

# Shares of people by offset from UTC, in hours, rounded. `us` is the mainland by standard time, `world` the large blocks.
ZONES: dict[str, dict[float, float]] = {
    "one": {0: 1.0},
    "us": {-5: 0.48, -6: 0.29, -7: 0.07, -8: 0.16},
    "europe": {0: 0.15, 1: 0.60, 2: 0.25},
    "world": {
        -8: 0.02,
        -6: 0.05,
        -5: 0.06,
        -3: 0.04,
        0: 0.05,
        1: 0.11,
        2: 0.06,
        3: 0.08,
        5.5: 0.24,
        7: 0.06,
        8: 0.21,
        9: 0.02,
    },
}

NIGHT_EARLIEST, NIGHT_LATEST, NIGHT_ENDS = 18 * HOUR, 26 * HOUR, 33 * HOUR
NIGHT_OPENS_MEAN, NIGHT_OPENS_SPREAD, NIGHTLY_SPREAD = 22.0 * HOUR, 1.5 * HOUR, 0.75 * HOUR
NIGHT_LENGTH_MEAN, NIGHT_LENGTH_SPREAD, NIGHT_LENGTH_LEAST = 7.5 * HOUR, 1.25 * HOUR, 2 * HOUR
TOP_UP_EARLIEST, TOP_UP_LATEST = 9 * HOUR, 17 * HOUR
TOP_UP_LEAST, TOP_UP_MOST = 20 * MINUTE, 60 * MINUTE
MOST_TOP_UPS = 0.12
LEAST_RELIABILITY = 0.2
SPEED_SPREAD = 0.4  # standard deviation of the log of the time that devices take for the same work

_UNIT = 1 / 65_536  # windows are decided by 16-bit pieces of one hash


def parse_zones(text: str) -> dict[float, float]:
    """The shares of a named distribution, or of a list such as `-5:0.6,-6:0.4` (hours from UTC : share)."""
    if text in ZONES:
        return ZONES[text]
    try:
        shares = {float(offset): float(share) for offset, share in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise RecipeError(
            f"Expected zones to be {', '.join(ZONES)} or a list like -5:0.6,-6:0.4 (hours from UTC : share), got {text!r}."
        ) from None
    if not all(-12 <= offset <= 14 and share > 0 and np.isfinite(share) for offset, share in shares.items()):
        raise RecipeError(f"Expected zones from -12 to 14 hours from UTC with shares above 0, got {text!r}.")
    return shares


@dataclass(frozen=True)
class Habits:
    """The habits of every device, 15 bytes each; `windows` are a pure function of them, the device and the day."""

    seed: np.uint64
    offset_s: NDArray[np.int32]  # local time minus UTC
    night_opens_s: NDArray[np.int32]  # after local midnight
    night_length_s: NDArray[np.uint16]
    night_chance: NDArray[np.uint16]  # of 65,536: charging and on an unmetered network
    top_up_chance: NDArray[np.uint16]
    slowness: NDArray[np.uint8]  # time for the same work, in 32nds of the median device's

    @classmethod
    def draw(cls, devices: int, zones: dict[float, float], generator: np.random.Generator) -> Habits:
        """Draw habits for this many devices; the zones' shares determine time zones, which nothing else depends on."""
        offsets = np.array([round(hours * HOUR) for hours in zones], np.int32)
        shares = np.cumsum(list(zones.values()))
        zone = np.searchsorted(shares / shares[-1], generator.random(devices), side="right")
        opens = generator.normal(NIGHT_OPENS_MEAN, NIGHT_OPENS_SPREAD, devices)
        length = generator.normal(NIGHT_LENGTH_MEAN, NIGHT_LENGTH_SPREAD, devices)
        # The probability of charging at night times that of being on Wi-Fi.
        reliability = generator.beta(5, 2, devices) * generator.beta(4, 1, devices)
        slowness = 32 * np.exp(SPEED_SPREAD * generator.standard_normal(devices))
        return cls(
            generator.integers(0, 2**64, dtype=np.uint64),
            offsets[np.minimum(zone, len(offsets) - 1)],
            np.clip(opens, NIGHT_EARLIEST, NIGHT_LATEST).astype(np.int32),
            np.clip(length, NIGHT_LENGTH_LEAST, NIGHT_ENDS - NIGHT_EARLIEST).astype(np.uint16),
            (np.maximum(reliability, LEAST_RELIABILITY) * 65_535).astype(np.uint16),
            (generator.uniform(0, MOST_TOP_UPS, devices) * 65_535).astype(np.uint16),
            np.clip(slowness, 8, 255).astype(np.uint8),
        )

    def __len__(self) -> int:
        return len(self.offset_s)

    def next_window(self, devices: Devices, at_s: Seconds) -> tuple[Seconds, Seconds]:
        """Opening and closing time of the window each device is in at `at_s`, or of its next one; closing is excluded."""
        offset = self.offset_s[devices].astype(np.int64)
        day = (at_s + offset) // DAY - 1  # last night's window may still be open
        opens, closes = np.empty_like(at_s), np.empty_like(at_s)
        waiting = np.arange(len(devices))
        kind = self._night
        while waiting.size:
            who, local = devices[waiting], offset[waiting]
            begins, ends, there = kind(who, day[waiting])
            there &= ends - local > at_s[waiting]
            found = waiting[there]
            opens[found], closes[found] = begins[there] - local[there], ends[there] - local[there]
            waiting = waiting[~there]
            if kind == self._night:
                kind, day = self._top_up, day + 1
            else:
                kind = self._night
        return opens, closes

    def available(self, devices: Devices, at_s: Seconds) -> NDArray[np.bool_]:
        """Which of the devices are in a window at their time."""
        return self.next_window(devices, at_s)[0] <= at_s

    def _night(self, devices: Devices, day: NDArray[np.int64]) -> tuple[Seconds, Seconds, NDArray[np.bool_]]:
        luck, shift, sway, stretch = self._pieces(devices, day, 0)
        # The sum of two uniform variables approximates a normal one; its standard deviation is 1/sqrt(6).
        late = ((shift + sway) * _UNIT - 1) * (NIGHTLY_SPREAD * 6**0.5)
        opens = np.clip(self.night_opens_s[devices] + late, NIGHT_EARLIEST, NIGHT_LATEST).astype(np.int64)
        length = (self.night_length_s[devices] * (0.8 + 0.4 * _UNIT * stretch)).astype(np.int64)
        closes = np.minimum(opens + length, NIGHT_ENDS)
        return day * DAY + opens, day * DAY + closes, luck < self.night_chance[devices]

    def _top_up(self, devices: Devices, day: NDArray[np.int64]) -> tuple[Seconds, Seconds, NDArray[np.bool_]]:
        luck, shift, stretch, _ = self._pieces(devices, day, 1)
        opens = day * DAY + (TOP_UP_EARLIEST + (TOP_UP_LATEST - TOP_UP_EARLIEST) * _UNIT * shift).astype(np.int64)
        closes = opens + (TOP_UP_LEAST + (TOP_UP_MOST - TOP_UP_LEAST) * _UNIT * stretch).astype(np.int64)
        return opens, closes, luck < self.top_up_chance[devices]

    def _pieces(self, devices: Devices, day: NDArray[np.int64], kind: int) -> list[NDArray[np.uint64]]:
        """Four 16-bit numbers for this device, day and kind of window: the finaliser of SplitMix64 over a weighted sum."""
        word = devices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word += (2 * day + kind).astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + self.seed
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word ^= word >> np.uint64(shift)
            word *= np.uint64(factor)
        word ^= word >> np.uint64(31)
        return [(word >> np.uint64(16 * piece)) & np.uint64(0xFFFF) for piece in range(4)]
