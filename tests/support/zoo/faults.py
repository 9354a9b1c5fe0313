"""Broken mechanisms, each a fault of a line or so, and who must catch it.

A fault is a function of pytest's `monkeypatch` that runs a small training with the fault in it. What is patched is what a
person would have mistyped: the gate's clip, the weights, a mechanism's scale or key, the state of its noise, the sampler.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.privacy.gate import sums
from tacit.privacy.gate.sums import Block, BoundedSum, Gate
from tacit.privacy.noise.mechanisms import Correlated, Gaussian, Mechanism, toeplitz, tree
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.samplers import Poisson
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN
from tacit.simulation.batched import BatchedUsers
from tests.support.gate_sums import require_counted_as_zero
from tests.support.zoo.drive import ADAPTIVE, BLT, POISSON, ROUNDS, TREE, WEIGHTED, Seeing, run

AUDIT, SAMPLER, CONTRACT = "audit of the gate", "sampler check", "contract suite"
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """Its name in docs/audit.md, a training with it, and who catches it."""

    name: str
    seen: Callable[[Patch], Seeing]
    caught_by: str = AUDIT


@dataclass(frozen=True)
class Around:
    """A mechanism with something done to what goes in, comes out, or is kept."""

    inner: Mechanism
    change: Callable[[Mechanism, BoundedSum, Any, Any], tuple[Any, Any]]

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        return self.inner.noise_multipliers

    def init(self, template: Mapping[str, Any]) -> Any:
        return self.inner.init(template)

    def release(self, bounded: BoundedSum, state: Any, *, key: Any) -> tuple[Any, Any]:
        return self.change(self.inner, bounded, state, key)


def _broken(
    privacy: Mapping[str, Any],
    change: Callable[[Mechanism, BoundedSum, Any, Any], tuple[Any, Any]],
    rounds: int = ROUNDS,
) -> Any:
    return lambda patch: run(privacy, mechanism=lambda sound: Around(sound, change), rounds=rounds)


def _scaled(factor: float, blocks: tuple[str, ...] = (UPDATE, WEIGHT, WITHIN)) -> Any:
    """The noise of these blocks times a factor."""

    def change(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        noise = {name: z * (factor if name in blocks else 1) for name, z in inner.noise_multipliers.items()}
        return dataclasses.replace(inner, noise_multipliers=noise).release(bounded, state, key=key)  # type: ignore[type-var]

    return change


def _noise_changed(change: Callable[[dict[str, Any], BoundedSum], dict[str, Any]]) -> Any:
    """What is released is the sum plus a function of the noise, given by block in units of its standard deviation."""

    def changed(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        release, state = inner.release(bounded, state, key=key)
        sigma = {name: inner.noise_multipliers[name] * block.bound for name, block in bounded.blocks.items()}
        noise = {
            name: jax.tree.map(
                lambda r, t, s=sigma[name]: (np.asarray(r, np.float64) - np.asarray(t)) / s, release[name], block.total
            )
            for name, block in bounded.blocks.items()
        }
        noise = change(noise, bounded)
        return {
            name: jax.tree.map(
                lambda t, n, s=sigma[name]: jnp.asarray(np.asarray(t) + s * n, jnp.float32), block.total, noise[name]
            )
            for name, block in bounded.blocks.items()
        }, state

    return changed


def _in_update(change: Callable[[list[np.ndarray]], list[np.ndarray]]) -> Any:
    """The same for the arrays of the update."""

    def changed(noise: dict[str, Any], bounded: BoundedSum) -> dict[str, Any]:
        leaves, tree = jax.tree.flatten(noise[UPDATE])
        return {**noise, UPDATE: jax.tree.unflatten(tree, change(leaves))}

    return _noise_changed(changed)


def _admitting(patch: Patch, weigh: Callable[..., Any]) -> None:
    """The gate with another rule of clipping and weighing, compiled anew."""
    patch.setattr(sums, "weigh", weigh)
    plain = sums._admit.__wrapped__
    patch.setattr(sums, "_admit", jax.jit(lambda *a, **k: plain(*a, **k), static_argnames="style"))


def _weighed(change: Callable[[sums.Weighed, Any, float], sums.Weighed]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        plain = sums.weigh

        def weigh(updates: Any, weights: Any, present: Any, clip: Any, threshold: Any, style: Any) -> sums.Weighed:
            return change(plain(updates, weights, present, clip, threshold, style), weights, clip)

        _admitting(patch, weigh)

    return apply


def _at_the_gate(apply: Callable[[Patch], None], privacy: Mapping[str, Any] = POISSON) -> Callable[[Patch], Seeing]:
    def seen(patch: Patch) -> Seeing:
        apply(patch)
        return run(privacy)

    return seen


def _clip_after_the_sum(patch: Patch) -> None:
    no_clip(patch)
    close = Gate.close

    def clipped(self: Gate) -> BoundedSum:
        found = close(self)
        with jax.enable_x64(True):
            total = found.blocks[UPDATE].total
            norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(total)))
            factor = jnp.minimum(1.0, self.norms.clip / jnp.maximum(norm, 1e-30))
            block = Block(jax.tree.map(lambda leaf: leaf * factor, total), found.blocks[UPDATE].bound)
            return BoundedSum({**found.blocks, UPDATE: block})

    patch.setattr(Gate, "close", clipped)


no_clip = _weighed(lambda found, weights, clip: found._replace(scales=jax.tree.map(jnp.ones_like, found.scales)))


def _per_layer_without_root(patch: Patch) -> None:
    plain = sums.clip_scales

    def scales(update: Any, bound: Any, style: Any, dtype: Any) -> Any:
        return plain(update, bound * np.sqrt(len(jax.tree.leaves(update))), style, dtype)

    patch.setattr(sums, "clip_scales", scales)
    _admitting(patch, sums.weigh)


def _counted_twice(patch: Patch) -> None:
    admit = Gate.admit
    patch.setattr(Gate, "admit", lambda self, given: (admit(self, given), admit(self, given))[1])


def _merged_twice(patch: Patch) -> None:
    merge = Gate.merge
    patch.setattr(Gate, "merge", lambda self, other: (merge(self, other), merge(self, other))[1])


def _absent_counted(patch: Patch) -> None:
    admit = Gate.admit

    def everybody(self: Gate, given: Any) -> Any:
        return admit(self, dataclasses.replace(given, present=np.ones_like(given.present)))

    patch.setattr(Gate, "admit", everybody)


def _denominator_from_the_data(patch: Patch) -> None:
    collect = BatchedUsers.collect

    def averaged(self: BatchedUsers, broadcast: Any, cohort: Any, norms: Any, **others: Any) -> Any:
        bounded, diagnostics = collect(self, broadcast, cohort, norms, **others)
        factor = self.plan.cohort / max(len(cohort.users), 1)
        with jax.enable_x64(True):
            total = jax.tree.map(lambda leaf: leaf * factor, bounded.blocks[UPDATE].total)
        return BoundedSum({**bounded.blocks, UPDATE: Block(total, bounded.blocks[UPDATE].bound)}), diagnostics

    patch.setattr(BatchedUsers, "collect", averaged)


def _stale_bound(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
    """The clip was raised in the plan, and the noise is still scaled to the one before."""
    stale = {name: dataclasses.replace(each, bound=0.8 * each.bound) for name, each in bounded.blocks.items()}
    return inner.release(BoundedSum(stale), state, key=key)


def _noise_on_one_user(patch: Patch) -> Seeing:
    """A user's update gets the round's noise and is clipped with it; nothing is added to the sum."""
    admit, generator = Gate.admit, np.random.default_rng(1)

    def noised(self: Gate, given: Any) -> Any:
        if given.present.shape[0] and generator.random() < 0.5:
            first = jax.tree.map(
                lambda leaf: leaf.at[0].add(jnp.asarray(generator.normal(0, 0.3, leaf.shape[1:]), jnp.float32)),
                given.updates,
            )
            given = dataclasses.replace(given, updates=first)
        return admit(self, given)

    patch.setattr(Gate, "admit", noised)
    return run(POISSON, mechanism=lambda sound: Around(sound, _scaled(1e-6)))


def _same_key(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
    return inner.release(bounded, state, key=Randomness.from_seed(0).noise_key(round=0, attempt=0))


@dataclass
class _KeyAgain:
    """One round, and only one, gets the key of the round before."""

    made: int = 0
    last: Any = None

    def __call__(self, inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        self.made += 1
        used = self.last if self.made == 20 else key
        self.last = key
        return inner.release(bounded, state, key=used)


def _state_lost(at: int) -> Any:
    def change(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        if int(state["round"]) == at:
            fresh = inner.init({name: block.total for name, block in bounded.blocks.items()})
            state = {**state, "noise": fresh["noise"]}
        return inner.release(bounded, state, key=key)

    return change


def _tree_without_last_node(patch: Patch) -> Seeing:
    completed = tree.nodes_completed
    patch.setattr(tree, "nodes_completed", lambda round: max(1, completed(round) - 1))
    return run(TREE)


def _wrong_sign(patch: Patch) -> Seeing:
    plain = toeplitz.minus_weighted
    patch.setattr(toeplitz, "minus_weighted", lambda state, weights: plain(state, -weights))
    return run(BLT)


def _restarts_forgotten(patch: Patch) -> Seeing:
    def forgetful(sound: Mechanism) -> Mechanism:
        assert isinstance(sound, Correlated)
        return dataclasses.replace(sound, restarts=())

    return run({**TREE, "restarts": (13, 30)}, mechanism=forgetful)


def _fresh_for_correlated(patch: Patch) -> Seeing:
    """The accounting is the tree's, the noise is fresh every round: less of it than the nodes need."""

    def plain(inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        release, _ = Gaussian(inner.noise_multipliers).release(bounded, (), key=key)
        return release, state

    return run(TREE, mechanism=lambda sound: Around(sound, plain))


def _same_in_every_array(leaves: list[np.ndarray]) -> list[np.ndarray]:
    longest = max(leaves, key=np.size).ravel()
    return [longest[: leaf.size].reshape(leaf.shape) for leaf in leaves]


def _same_in_every_block(noise: dict[str, Any], bounded: BoundedSum) -> dict[str, Any]:
    first = jax.tree.leaves(noise[UPDATE])[0].ravel()[0]
    return {name: each if name == UPDATE else np.asarray(first) for name, each in noise.items()}


def _topped_up(sound: Any) -> Any:
    class ToppedUp(Poisson):
        def sample(self, draws: Any) -> Any:
            drawn = super().sample(draws)
            rest = np.setdiff1d(np.argsort(draws), drawn, assume_unique=True)
            return np.sort(np.concatenate([drawn, rest[: max(0, 15 - len(drawn))]]))

    return ToppedUp(sound.probability)


@dataclass
class _OneRoundWithout:
    """The first round after a resume, say, has no noise."""

    made: int = 0

    def __call__(self, inner: Mechanism, bounded: BoundedSum, state: Any, key: Any) -> tuple[Any, Any]:
        self.made += 1
        return (_scaled(1e-6) if self.made == 20 else _scaled(1.0))(inner, bounded, state, key)


def _nan_counted(patch: Patch) -> Seeing:
    """The audit's canaries are finite; the gate's own contract has one that is not."""
    _weighed(lambda found, weights, clip: found._replace(counted=jnp.ones_like(found.counted)))(patch)
    try:
        require_counted_as_zero(np.nan)
    except AssertionError:
        return Seeing(run(POISSON).audit, None, CONTRACT)
    return run(POISSON)


def _float32(leaves: list[np.ndarray]) -> list[np.ndarray]:
    """Noise that ends at 5.4 standard deviations."""
    key = jax.random.key(int.from_bytes(os.urandom(4), "little"))
    keys = jax.random.split(key, len(leaves))
    return [
        np.asarray(jax.random.normal(k, leaf.shape, jnp.float32), np.float64)
        for k, leaf in zip(keys, leaves, strict=True)
    ]


FAULTS = (
    Fault("half the noise", _broken(POISSON, _scaled(0.5))),
    Fault("noise 10% too small", _broken(POISSON, _scaled(0.9))),
    Fault("noise of a tree 10% too small", _broken(TREE, _scaled(0.9))),
    Fault("one round without noise", lambda patch: run(POISSON, mechanism=lambda s: Around(s, _OneRoundWithout()))),
    Fault("noise of the mean's scale on the sum", _broken(POISSON, _scaled(1 / 15))),
    Fault("noise of the sum's scale on the mean", _broken(POISSON, _scaled(15.0))),
    Fault("no clip", _at_the_gate(no_clip)),
    Fault("clip after the sum", _at_the_gate(_clip_after_the_sum)),
    Fault("per-layer bounds without √m", _at_the_gate(_per_layer_without_root, {**POISSON, "clipping": "per_layer"})),
    Fault(
        "weights above 1",
        _at_the_gate(_weighed(lambda found, weights, clip: found._replace(weights=weights.astype(jnp.float64)))),
    ),
    Fault("a user counted twice", _at_the_gate(_counted_twice)),
    Fault("a device's sum added twice", _at_the_gate(_merged_twice)),
    Fault("absent users counted", _at_the_gate(_absent_counted)),
    Fault("denominator from the data", _at_the_gate(_denominator_from_the_data)),
    Fault("the clip raised, the noise not", _broken(POISSON, _stale_bound)),
    Fault("noise before the clip, on one user", _noise_on_one_user),
    Fault("adaptive clip's count without noise", _broken(ADAPTIVE, _scaled(1e-6, (WITHIN,)))),
    Fault("sum of weights without noise", _broken(WEIGHTED, _scaled(1e-6, (WEIGHT,)))),
    Fault("one key for every round", _broken(POISSON, _same_key)),
    Fault("one key used in two rounds", lambda patch: run(POISSON, mechanism=lambda sound: Around(sound, _KeyAgain()))),
    Fault("the same noise in every array", _broken(POISSON, _in_update(_same_in_every_array))),
    # Of three blocks one pair is alike, which takes more rounds to see.
    Fault("the same noise in every block", _broken(WEIGHTED, _noise_changed(_same_in_every_block), rounds=2 * ROUNDS)),
    Fault(
        "noise on the first array only",
        _broken(POISSON, _in_update(lambda leaves: [leaves[0], *(np.zeros_like(leaf) for leaf in leaves[1:])])),
    ),
    Fault("noise cut off at 3 σ", _broken(POISSON, _in_update(lambda leaves: [np.clip(leaf, -3, 3) for leaf in leaves]))),
    Fault("uniform noise of the right variance", _broken(POISSON, _in_update(
        lambda leaves: [np.random.default_rng().uniform(-(3**0.5), 3**0.5, leaf.shape) for leaf in leaves]
    ))),
    Fault("tree without its last node", _tree_without_last_node),
    Fault("noise state lost at resume", _broken(BLT, _state_lost(20))),
    Fault("noise state of a tree lost at resume", _broken(TREE, _state_lost(21))),
    Fault("BLT coefficients with the wrong sign", _wrong_sign),
    Fault("restarts that keep old noise", _restarts_forgotten),
    Fault("fresh noise where a tree is accounted", _fresh_for_correlated),
    Fault("q off by the number of workers", lambda patch: run(POISSON, sampler=lambda s: Poisson(2 * s.probability)), SAMPLER),
    Fault("a cohort topped up to its target", lambda patch: run(POISSON, sampler=_topped_up), SAMPLER),
    Fault("a contribution of nan counted", _nan_counted, CONTRACT),
)  # fmt: skip

# What nobody here can see in so small a run, or in any: docs/audit.md says why.
UNSEEN = (
    Fault("noise from a float32 generator", _broken(POISSON, _in_update(_float32)), "nobody"),
    Fault(
        "noise that whoever knows the seed can replay",
        lambda patch: run(POISSON, randomness=Randomness.from_seed(7)),
        "nobody",
    ),
)
