"""Build canary plans: Production's devices, Memorization's sharers, the coins of a lower bound, or all in one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tacit.data.canaries.plan import Canary, CanaryDevices, CanaryPlan, CoinUser, Sharers, word_phrases
from tacit.errors import AuditError

# The number of users in the Memorization paper, and the expected sharers of its p_u of 1/50,000, 3/50,000 and 1/5,000.
PAPER_USERS = 392_000
PAPER_SHARERS = tuple(PAPER_USERS * p for p in (1 / 50_000, 3 / 50_000, 1 / 5_000))

SETTINGS = 9  # of Production's grid, and of Memorization's


def device_plan(
    phrases: Sequence[tuple[str, ...]],
    data: Mapping[str, str | int],
    *,
    seed: int,
    devices: Sequence[int] = (1, 4, 16),
    copies: Sequence[int] = (1, 14, 200),
    template: str | None = None,
    examples_per_device: int = 200,
    device_rate: float | None = None,
) -> CanaryPlan:
    """Production's plan: the phrases are split evenly over all n_u × n_e; 27 phrases make 3 per setting on 189 devices."""
    if max(copies) > examples_per_device:
        raise AuditError(f"Expected at most {examples_per_device} copies on a device, got {max(copies)}.")
    grid = [CanaryDevices(devices=n_u, copies=n_e) for n_u, n_e in itertools.product(devices, copies)]
    return CanaryPlan(
        data=dict(data),
        seed=seed,
        examples_per_device=examples_per_device,
        device_rate=device_rate,
        canaries=_dealt(phrases, grid, template),
    )


def sharer_plan(
    phrases: Sequence[tuple[str, ...]],
    data: Mapping[str, str | int],
    *,
    population: int,
    seed: int,
    expected_sharers: Sequence[float] = PAPER_SHARERS,
    example_probabilities: Sequence[float] = (0.01, 0.1, 1.0),
    template: str | None = None,
) -> CanaryPlan:
    """Memorization's plan: the phrases are split evenly over all p_u × p_e; 90 phrases make 10 per setting.

    p_u = expected_sharers / population, where `population` is a public estimate; in a population smaller than the paper's, p_u
    is larger than the paper's.
    """
    for sharers in expected_sharers:
        if not 0 < sharers <= population:
            raise AuditError(
                f"Expected more than 0 and at most {population} sharers of a canary (the population), got {sharers:g}.",
                hint="--expected-sharers A,B,C says how many users share a canary",
            )
    for probability in example_probabilities:
        if not 0 < probability <= 1:
            raise AuditError(f"Expected example probabilities above 0 and at most 1, got {probability:g}.")
    grid = [
        Sharers(user_probability=sharers / population, example_probability=p_e)
        for sharers, p_e in itertools.product(expected_sharers, example_probabilities)
    ]
    return CanaryPlan(data=dict(data), seed=seed, canaries=_dealt(phrases, grid, template))


def coin_plan(
    phrases: Sequence[tuple[str, ...]],
    data: Mapping[str, str | int],
    *,
    seed: int,
    copies: int = 20,
    device_rate: float | None = None,
) -> CanaryPlan:
    """The plan of a lower bound on epsilon: one canary user per phrase."""
    return CanaryPlan(
        data=dict(data),
        seed=seed,
        device_rate=device_rate,
        canaries=tuple(Canary(units=phrase, sharing=CoinUser(copies=copies)) for phrase in phrases),
    )


def mixed_plan(
    words: Sequence[str],
    data: Mapping[str, str | int],
    *,
    population: int,
    seed: int,
    devices: int = 0,
    sharers: int = 0,
    coins: int = 0,
    length: int = 5,
    copies: int = 20,
    expected_sharers: Sequence[float] = PAPER_SHARERS,
    examples_per_device: int = 200,
    device_rate: float | None = None,
) -> CanaryPlan:
    """One plan of distinct random phrases: `devices` and `sharers` phrases per setting, and `coins` canary users.

    `population` is a public estimate of how many users there are; only the sharers' probabilities depend on it.
    """
    if not devices + sharers + coins:
        raise AuditError("There are no canaries to plant: ask for devices, sharers or coins.")
    if not 0 <= seed < 2**64:
        raise AuditError(f"Expected a seed from 0 to 2⁶⁴ - 1, got {seed}.")
    if device_rate is not None and not 0 < device_rate <= 1:
        raise AuditError(f"Expected a rate of synthetic users above 0 and at most 1, got {device_rate:g}.")
    phrases = word_phrases(words, length=length, count=SETTINGS * (devices + sharers) + coins, seed=seed)
    on_devices, rest = phrases[: SETTINGS * devices], phrases[SETTINGS * devices :]
    shared, tossed = rest[: SETTINGS * sharers], rest[SETTINGS * sharers :]
    canaries: tuple[Canary, ...] = ()
    if on_devices:
        if examples_per_device < 3:
            raise AuditError(
                f"Expected at least 3 examples a device, so that one, some and all of them differ, got {examples_per_device}."
            )
        few, some = 1, max(2, round(0.07 * examples_per_device))  # the paper's 14 of 200
        grid = device_plan(
            on_devices,
            data,
            seed=seed,
            copies=(few, some, examples_per_device),
            examples_per_device=examples_per_device,
        )
        canaries += grid.canaries
    if shared:
        shares = sharer_plan(shared, data, population=population, seed=seed, expected_sharers=expected_sharers)
        canaries += shares.canaries
    if tossed:
        canaries += coin_plan(tossed, data, seed=seed, copies=copies).canaries
    return CanaryPlan(
        data=dict(data),
        seed=seed,
        examples_per_device=examples_per_device,
        device_rate=device_rate,
        canaries=canaries,
    )


def _dealt(
    phrases: Sequence[tuple[str, ...]], grid: Sequence[CanaryDevices] | Sequence[Sharers], template: str | None
) -> tuple[Canary, ...]:
    if not phrases or len(phrases) % len(grid):
        raise AuditError(f"Expected a multiple of {len(grid)} canaries (one a setting), got {len(phrases)}.")
    each = len(phrases) // len(grid)
    return tuple(
        Canary(units=phrase, template=template, sharing=grid[number // each]) for number, phrase in enumerate(phrases)
    )
