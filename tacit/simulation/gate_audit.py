"""Audit the gate in a simulated run: canaries pass through the engine's own gate, and every release is measured.

`AuditedGate` wraps both sides of the gate. On the users' side the engine collects the cohort; then, before the last sums are
added up, the canaries of the round are admitted through the same `Gate.admit`, on an accelerator or by a worker that trains
users too. On the server's side the mechanism makes
its release, the audit measures it along the channels of the layout, and subtracts the canaries' known contribution. The
subtraction is a function of the release and of values that do not depend on users, so it costs no privacy, and the model
trains as if there were no canaries.

No call waits for the accelerator: measurements are fetched when the journal asks for the round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import RunError
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Contributions, Diagnostics
from tacit.privacy.noise.mechanisms import Mechanism, Release
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import GateAudit, not_audited, why_not
from tacit.runs.gate_audit.layout import WEIGHT_GIVEN, Array, Layout, Shares, canaries_for
from tacit.runs.gate_audit.outcome import plan_section
from tacit.runs.gate_audit.record import Design, Seen, read_records
from tacit.runs.metrics import MetricsWriter
from tacit.runs.report.sections import write_section
from tacit.simulation.engine import Engine

_COINS = "gate audit coins"


@dataclass
class Canaries:
    """The canaries of one round, on the users' side: they look at the sums of all users, and then join them.

    An engine may admit them in another process. `before` are the users' sums along the channels, for the audit alone.
    """

    layout: Layout
    shares: Shares
    coins: np.ndarray
    together: int
    before: list[jax.Array] | None = None

    def look(self, sums: Sequence[BoundedSum]) -> None:
        """Measure the users' sums, before there are canaries among them."""
        self.before = [_along(self.layout, _totals(each)) for each in sums]

    def admit(self, gate: Any) -> None:
        """Admit the canaries that are in, as users are admitted."""
        layout = self.layout
        leaves, tree = jax.tree.flatten(gate.close().blocks[UPDATE].total)
        shapes = tuple(leaf.shape for leaf in leaves)
        together = min(layout.canaries, self.together)
        for start in range(0, layout.canaries, together):
            number = np.arange(start, start + together)
            there = number < layout.canaries
            rows = _contributions(layout, shapes, np.where(there, number, -1), self.shares.amplitudes)
            present: Any = there & self.coins[np.minimum(number, layout.canaries - 1)]
            weights: Any = np.full(together, WEIGHT_GIVEN, np.float32)
            gate.admit(Contributions(jax.tree.unflatten(tree, rows), weights, present))

    def to_send(self) -> Canaries:
        """The same canaries without what they have seen of users, for another process."""
        return replace(self, before=None)


@dataclass(frozen=True)
class _Round:
    """The current round; the accelerator may still be computing some of its values. Without canaries, `canaries` is None."""

    cohort: Any
    norms: ClipThresholds
    coins: np.ndarray
    canaries: Canaries | None = None


class AuditedGate:
    """The users of a run and its mechanism, with the audit between them; measurements are written to `writer`."""

    def __init__(self, users: Engine, mechanism: Mechanism, design: Design, writer: MetricsWriter) -> None:
        self._users, self._mechanism, self._design, self._writer = users, mechanism, design, writer
        self._now: _Round | None = None
        self._pending: deque[tuple[_Round, jax.Array]] = deque()

    # The users' side.

    def collect(self, broadcast: Any, cohort: Any, norms: ClipThresholds) -> tuple[BoundedSum, list[Diagnostics]]:
        """The contributions of users and canaries, clipped, weighed and summed. Diagnostics are of the users alone."""
        layout, canaries = self._design.layout, None
        coins = np.zeros(layout.canaries, bool)
        if layout.has_canaries(cohort.round):
            coins = _coins(cohort.entropy(_COINS), layout.canaries)
            canaries = Canaries(layout, layout.shares(norms.clip, norms.threshold), coins, self._users.chunk)
        self._now = _Round(cohort, norms, coins, canaries)
        return self._users.collect(broadcast, cohort, norms, canaries=canaries)

    # The server's side.

    @property
    def name(self) -> str:
        return self._mechanism.name

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        return self._mechanism.noise_multipliers

    def init(self, template: Mapping[str, Any]) -> Any:
        return self._mechanism.init(template)

    def release(self, bounded: BoundedSum, state: Any, *, key: Any) -> tuple[Release, Any]:
        """The mechanism's release, minus the contribution of the canaries."""
        release, state = self._mechanism.release(bounded, state, key=key)
        now, layout = self._now, self._design.layout
        assert now is not None
        self._pending.append((now, _look(layout, _totals(bounded), release)))
        return release if now.canaries is None else _without(layout, release, now.canaries.shares, now.coins), state

    # The measurements.

    def settle(self, rounds_done: int) -> None:
        """Write the measurements of the first `rounds_done` rounds."""
        while self._pending and self._pending[0][0].cohort.round < rounds_done:
            now, looked = self._pending.popleft()
            layout = self._design.layout
            channels, arrays = len(layout.counts), len(layout.arrays)
            given, released, energy, largest = np.split(np.asarray(looked), np.cumsum([channels, channels, arrays]))
            # Without canaries the users' sum is the whole sum, and the release minus the sum is the noise.
            before = None if now.canaries is None else now.canaries.before
            users_sum = given if before is None else np.sum([np.asarray(each) for each in before], axis=0)
            seen = Seen(
                now.cohort.round,
                now.cohort.attempt,
                now.norms.clip,
                now.norms.threshold,
                now.coins,
                released - users_sum,
                given - users_sum,
                energy,
                largest,
            )
            self._writer.append(seen.as_record())


def audit_of(
    plan: PrivacyPlan,
    users: Engine,
    mechanism: Mechanism,
    *,
    model: Any,
    rounds: int,
    strategy: Mapping[str, Any],
    folder: RunFolder,
    wanted: bool,
) -> GateAudit:
    """The audit of a run's gate, continued from its records, or a `GateAudit` without canaries if it cannot be audited.

    The report says why a run is not audited. `strategy` is the ledger's description of the noise, empty if rounds are
    independent.
    """
    if reason := why_not(plan, wanted=wanted, simulated=True):
        return not_audited(users, mechanism, folder, reason)
    layout = Layout.of(
        [leaf.size for leaf in jax.tree.leaves(users.learned(model))],
        [name for name in plan.noise_multipliers if name != UPDATE],
        rounds=rounds,
        canaries=canaries_for(plan.cohort),
        per_layer=plan.clipping == "per_layer",
    )
    design = Design.of(plan, layout, from_description(strategy) if strategy else None)
    write_section(folder, plan_section(design, rounds))
    begun = read_records(folder.gate_audit_path)
    if begun is not None and begun[0] != design:
        raise RunError(f"The audit in {folder.gate_audit_path} was begun with another plan or model.")
    writer = MetricsWriter(folder.gate_audit_path, mode=0o600)
    if begun is None:
        writer.append(design.as_record())
    gate = AuditedGate(users, mechanism, design, writer)
    return GateAudit(gate, gate, folder, gate, writer)


def _coins(entropy: bytes, count: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(entropy, np.uint8))[:count].astype(bool)


def _totals(bounded: BoundedSum) -> dict[str, Any]:
    return {name: block.total for name, block in bounded.blocks.items()}


def _leaves(layout: Layout, blocks: Mapping[str, Any]) -> list[jax.Array]:
    """The arrays in the layout's order: the update's leaves, then the side blocks."""
    sides = [array.block for array in layout.arrays if array.block != UPDATE]
    return [*jax.tree.leaves(blocks[UPDATE]), *(blocks[name] for name in sides)]


def _along(layout: Layout, blocks: Mapping[str, Any]) -> jax.Array:
    """These blocks projected on each channel, float64 [channels]."""
    with jax.enable_x64(True):
        return _projected(tuple(_leaves(layout, blocks)), arrays=layout.arrays)


def _look(layout: Layout, given: Mapping[str, Any], release: Release) -> jax.Array:
    """The mechanism's input and its release along each channel; then Σ x² and max |x| of each array's noise.

    All in one row, so that one call computes it and one transfer fetches it.
    """
    with jax.enable_x64(True):
        return _looked(tuple(_leaves(layout, given)), tuple(_leaves(layout, release)), arrays=layout.arrays)


@partial(jax.jit, static_argnames="arrays")
def _looked(totals: tuple[jax.Array, ...], releases: tuple[jax.Array, ...], *, arrays: tuple[Array, ...]) -> jax.Array:
    along = [_projected(each, arrays=arrays) for each in (totals, releases)]
    noise = [one.astype(jnp.float64) - other for one, other in zip(releases, totals, strict=True)]
    energy, largest = [jnp.sum(jnp.square(x)) for x in noise], [jnp.max(jnp.abs(x)) for x in noise]
    return jnp.concatenate([*along, jnp.stack(energy), jnp.stack(largest)])


@partial(jax.jit, static_argnames="arrays")
def _projected(leaves: tuple[jax.Array, ...], *, arrays: tuple[Array, ...]) -> jax.Array:
    found = []
    for leaf, array in zip(leaves, arrays, strict=True):
        flat = leaf.reshape(-1).astype(jnp.float64)
        found.append(flat[: array.singles])
        if array.segments:
            rest = jnp.pad(flat[array.singles :], (0, array.segments * array.length - (array.size - array.singles)))
            sums = rest.reshape(array.segments, array.length).sum(axis=1)
            found.append(sums / np.sqrt(array.counts()[array.singles :].astype(np.float64)))
    return jnp.concatenate(found)


@partial(jax.jit, static_argnames=("layout", "shapes"))
def _contributions(
    layout: Layout, shapes: tuple[tuple[int, ...], ...], numbers: jax.Array, amplitudes: jax.Array
) -> list[jax.Array]:
    """The updates of the canaries with these numbers, [canaries, ...] for each array; zeros for number -1."""
    values = jnp.where(jnp.asarray(layout.owners) == numbers[:, None], amplitudes[numbers][:, None], jnp.float32(0))
    return _on_coordinates(layout, shapes, values)


def _on_coordinates(layout: Layout, shapes: tuple[tuple[int, ...], ...], values: jax.Array) -> list[jax.Array]:
    """Values [..., update channels] on every coordinate of their channels: [..., *shape] for each array."""
    found, start = [], 0
    for array, shape in zip(layout.arrays, shapes, strict=False):
        part = values[..., start : start + array.channels]
        rest = jnp.repeat(part[..., array.singles :], array.length, axis=-1)[..., : array.size - array.singles]
        whole = jnp.concatenate([part[..., : array.singles], rest], axis=-1)
        found.append(whole.reshape(*values.shape[:-1], *shape))
        start += array.channels
    return found


def _without(layout: Layout, release: Release, shares: Shares, coins: np.ndarray) -> Release:
    """The release, minus the contribution of the canaries that were in to each block."""
    values = (shares.values * coins[layout.owners]).astype(np.float32)
    leaves, tree = jax.tree.flatten(release[UPDATE])
    sides = {WEIGHT: shares.weight * coins.sum(), WITHIN: shares.bit * coins.sum()}
    taken: dict[str, Any] = {name: each - np.float32(sides[name]) for name, each in release.items() if name != UPDATE}
    return {**taken, UPDATE: jax.tree.unflatten(tree, _subtracted(layout, tuple(leaves), values))}


@partial(jax.jit, static_argnames="layout")
def _subtracted(layout: Layout, leaves: tuple[jax.Array, ...], values: jax.Array) -> list[jax.Array]:
    known = _on_coordinates(layout, tuple(leaf.shape for leaf in leaves), values)
    return [leaf - each for leaf, each in zip(leaves, known, strict=True)]
