"""What an audit would see of a run whose noise is drawn here, in NumPy, as the definition says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacit.privacy.noise.strategies import Strategy
from tacit.privacy.record.records import UPDATE
from tacit.runs.gate_audit.layout import Floats, Layout
from tacit.runs.gate_audit.record import Design, Seen

SIZES = (260, 40, 40, 7, 1)


def design_of(
    rounds: int = 40,
    *,
    sizes: Sequence[int] = SIZES,
    noise: float = 1.5,
    strategy: Strategy | None = None,
    restarts: tuple[int, ...] = (),
    per_layer: bool = False,
    canaries: int = 8,
) -> Design:
    layout = Layout.of(sizes, ["weight"], rounds=rounds, canaries=canaries, per_layer=per_layer)
    return Design(layout, {UPDATE: noise, "weight": 10 * noise}, strategy, restarts)


def seen_by(
    design: Design,
    rounds: int,
    seed: int,
    *,
    clip: Callable[[int], float] = lambda round: 0.5,
    change: Callable[[Floats], Floats] = lambda noise: noise,
) -> list[Seen]:
    """Each coordinate's noise over the rounds is the strategy's; `change` breaks it: [rounds, coordinates] in stated units."""
    generator = np.random.default_rng(seed)
    layout = design.layout
    coordinates = sum(array.size for array in layout.arrays)
    matrix = np.eye(rounds) if design.strategy is None else design.strategy.noise_matrix(rounds, design.restarts)
    noise = change(matrix @ generator.standard_normal((matrix.shape[1], coordinates)))
    found = []
    for round in range(rounds):
        coins = generator.random(layout.canaries) < 0.5
        added = layout.added(layout.shares(clip(round), None), coins)
        along, energy, largest, start = [], [], [], 0
        for array in layout.arrays:
            sigma = design.noise_multipliers[array.block] * (clip(round) if array.block == UPDATE else 1.0)
            part = sigma * noise[round, start : start + array.size]
            owner = np.repeat(np.arange(array.channels), array.counts())
            along.append(np.bincount(owner, part) / np.sqrt(array.counts()))
            energy.append((part**2).sum())
            largest.append(np.abs(part).max())
            start += array.size
        released = added + np.concatenate(along)
        found.append(Seen(round, 0, clip(round), None, coins, released, added, np.array(energy), np.array(largest)))
    return found
