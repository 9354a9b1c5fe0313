"""Compiles the work of a recipe into the task that devices download: a compiled plan, its description and the vocabulary.

A compiled plan is the client work of `tacit.learning.work` exported as StableHLO, with batches of fixed sizes. It runs without
Tacit's model code, on any processor that XLA supports, and its SHA-256 fixes every operation. It is a pure function

    (the model's arrays, one user's batches [steps, rows, length + 1], number of steps to run, clip norm) → arrays

and devices check that it is (`device/compiled_plans.py`). There are three kinds. ``train`` returns the update of every array of
the model. ``evaluate`` returns how well the model predicts this user, as one vector of norm at most 1, so that metrics cross
the gate in the same way as updates. ``discover`` takes a tree of prefixes in place of a model, and returns which extensions of
them this user's words have (`tacit.learning.prefix_tree`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import FIRST_WORD
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import RecipeError
from tacit.fleet.wire.blobs import leaves_of, packed_leaves, sha256_of
from tacit.fleet.wire.task import DeviceTask, LetterTerms, NoiseTerms, SecAggTerms
from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord, score_sums
from tacit.learning.prefix_tree import PrefixWork
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.noise.kinds.gaussian import GaussianKind, NoNoiseKind
from tacit.privacy.participation.limits import most_participations
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE
from tacit.training.datasets import Dataset
from tacit.training.letter_discovery import LettersSetup
from tacit.training.recipes import RecipeSetup, build_work

__all__ = [
    "PreparedTask",
    "checkpoint_bytes",
    "leaves_of",
    "metrics_of",
    "prepare",
    "prepare_discovery",
    "prepare_evaluation",
]

PLATFORMS = ("cpu", "cuda", "tpu")
# In nats: the cap on a user's mean loss in an evaluation. A uniform guess among 20,000 words has a loss of 9.9.
LOSS_CAP = 10.0
# The most that the padded batches of one device may take.
MOST_BATCH_BYTES = 1 << 30
# For so many participations a task says how far they move what is released; devices bound what more of them do.
_MOST_STATED = 8
# (the model's arrays, batches, steps, clip norm) → arrays
_Plan = Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, ...]]


@dataclass(frozen=True)
class PreparedTask:
    """A task, its description as bytes, and all files that devices download for it except checkpoints."""

    task: DeviceTask
    task_bytes: bytes
    blobs: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The task's name: the SHA-256 of its description."""
        return sha256_of(self.task_bytes)

    def of_run(self, run: str) -> PreparedTask:
        """The same task for one run, so that runs of the same recipe count participation separately."""
        task = self.task.model_copy(update={"run": run})
        content = task.model_dump_json().encode()
        blobs = {name: self.blobs[name] for name in (task.plan, task.vocabulary)}
        return PreparedTask(task, content, {**blobs, sha256_of(content): content})


def prepare(setup: RecipeSetup, *, timer_s: float) -> PreparedTask:
    """The training task of a recipe's word model. The same recipe gives the same bytes."""
    recipe, model = setup.recipe, setup.start.model
    # Without the GPU kernels of the server's own device: a plan with them would run only there.
    work, tree = build_work(recipe, NextWord(recipe.engine.precision, kernels=False)), jax.tree.structure(model)

    def plan(leaves: Any, batches: jax.Array, steps: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, ...]:
        update = work(jax.tree.unflatten(tree, leaves), batches, steps, clip_norm)
        return tuple(jax.tree.leaves(update))

    return _prepared(
        setup,
        plan,
        setup.secure,
        name=recipe.name,
        kind="train",
        update_shapes=_shapes(model),
        clipping=recipe.privacy.clipping,
        example_cap=recipe.privacy.example_cap,
        timer_s=timer_s,
    )


def prepare_evaluation(setup: RecipeSetup, *, timer_s: float) -> PreparedTask:
    """The task that evaluates the recipe's model on devices' own text: clip norm 1, equal weights."""
    recipe, tree = setup.recipe, jax.tree.structure(setup.start.model)

    def plan(leaves: Any, batches: jax.Array, steps: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, ...]:
        model = jax.tree.unflatten(tree, leaves)
        sums = jax.lax.map(lambda tokens: score_sums(model, tokens), batches)
        words, _, top1, *_, loss, predictions = jnp.sum(sums, axis=0)
        accuracy = top1 / jnp.maximum(words, 1.0)
        surprise = jnp.minimum(loss / jnp.maximum(predictions, 1.0), LOSS_CAP) / LOSS_CAP
        return (jnp.stack([accuracy, surprise]) / math.sqrt(2),)

    return _prepared(
        setup,
        plan,
        SecureSums.of_plan(recipe.privacy, 2),
        name=f"{recipe.name}: evaluation",
        kind="evaluate",
        update_shapes=((2,),),
        clipping="flat",
        example_cap=None,
        timer_s=timer_s,
    )


def prepare_discovery(setup: LettersSetup, *, timer_s: float) -> PreparedTask:
    """The task that finds devices' words letter by letter."""
    tree, work = setup.start.model.tree, PrefixWork(setup.shape)

    def plan(leaves: Any, batches: jax.Array, steps: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, ...]:
        return (work.of_tree(jax.tree.unflatten(jax.tree.structure(tree), leaves), batches),)

    return _prepared(
        setup,
        plan,
        setup.secure,
        model=tree,
        words=_as_file(setup.known),
        name=f"{setup.recipe.name}: words",
        kind="discover",
        update_shapes=((setup.shape.coordinates,),),
        clipping="flat",
        example_cap=None,
        timer_s=timer_s,
        letters=LetterTerms(alphabet=setup.spelling.alphabet, most_words=setup.spelling.most_words),
    )


def metrics_of(mean: NDArray[np.float64]) -> dict[str, float]:
    """The metrics in a mean of evaluations: top-1, and the mean over users of their capped mean loss in nats.

    Top-1 is what a keyboard shows, ranked among words. The papers' metric is not measured on devices: a third number would
    need a share of the bound, and so make the other two noisier.
    """
    accuracy, surprise = np.asarray(mean, np.float64) * math.sqrt(2)
    return {"top1": float(accuracy), "loss": float(surprise * LOSS_CAP)}


def checkpoint_bytes(model: Any) -> bytes:
    """A model as devices download it."""
    return packed_leaves([np.asarray(leaf) for leaf in jax.tree.leaves(model)])


def _prepared(
    setup: RecipeSetup,
    plan: _Plan,
    secure: SecureSums | None,
    *,
    model: Any = None,
    words: bytes | None = None,
    **fields: Any,
) -> PreparedTask:
    """The task; `model` is what devices download, and `words` their vocabulary, if not those of the setup."""
    privacy, shape = setup.recipe.privacy, setup.batches
    model = setup.start.model if model is None else model
    if privacy.min_separation is None or privacy.max_participation is None:
        raise RecipeError(f"Expected privacy.sampling = 'check_in' for a run on devices, got {privacy.sampling!r}.")
    secagg = None
    if secure is not None:
        weighted = privacy.weighted and fields["kind"] == "train"
        secagg = SecAggTerms.of(secure.encoding, local_variance=secure.local_variance, weighted=weighted)
    _require_small_batches(shape)
    exported, words = _exported(plan, model, shape), _vocabulary(setup.dataset) if words is None else words
    task = DeviceTask(
        plan=sha256_of(exported),
        vocabulary=sha256_of(words),
        layout=shape.layout,
        length=shape.length,
        batch_size=shape.batch_size,
        steps=shape.steps,
        model_shapes=_shapes(model),
        min_separation=privacy.min_separation,
        max_participation=privacy.max_participation,
        report_goal=int(privacy.cohort),
        clip_norm=_largest_clip(privacy, at_least=0.0 if fields["kind"] == "train" else 1.0),
        noise_multiplier=privacy.noise_multipliers[UPDATE],
        noise=_noise(setup),
        secagg=secagg,
        **fields,
    )
    content = task.model_dump_json().encode()
    return PreparedTask(task, content, {sha256_of(blob): blob for blob in (exported, words, content)})


def _noise(setup: RecipeSetup) -> NoiseTerms | None:
    """What the server says about its noise; None if devices add it, or if nothing is known about what it proves."""
    privacy, rounds = setup.recipe.privacy, setup.schedule.rounds
    if privacy.kind.on_devices or not (setup.strategy is not None or type(privacy.kind) in (GaussianKind, NoNoiseKind)):
        return None
    moved: tuple[float, ...] = ()
    if setup.strategy is not None:
        assert privacy.max_participation is not None
        most = min(most_participations(rounds, privacy.gap, privacy.max_participation), _MOST_STATED)
        found = (setup.strategy.sensitivity(rounds, privacy.gap, n + 1, privacy.restarts) for n in range(most))
        moved = tuple(each.squared for each in found)
    return NoiseTerms(mechanism=privacy.mechanism, multiplier=privacy.combined_noise_multiplier, moved_squared=moved)


def _largest_clip(privacy: PrivacyPlan, *, at_least: float) -> float | None:
    """The largest clip norm of any round, with room for rounding; None if there is no bound on it beforehand."""
    if privacy.clip_norm is None or privacy.adaptive is not None:
        return None
    return max([at_least, privacy.clip_norm, *(change.clip_norm for change in privacy.clip_schedule)]) * (1 + 1e-9)


def _require_small_batches(shape: TextBatches) -> None:
    """RecipeError if padded batches do not fit on a device: a compiled plan has one shape, that of the cap, for all devices."""
    size = 4 * shape.steps * shape.batch_size * (shape.length + 1)
    if size > MOST_BATCH_BYTES:
        raise RecipeError(
            f"Expected data.tokens_per_user for which a device's padded batches take at most {MOST_BATCH_BYTES >> 20} MiB, got "
            f"one for which they take {size / 2**20:,.0f} MiB."
        )


def _exported(plan: _Plan, model: Any, shape: TextBatches) -> bytes:
    """The compiled plan as bytes, without the names and lines of source files, so that its hash depends on the code alone."""
    arguments = (
        tuple(jax.ShapeDtypeStruct(leaf.shape, np.float32) for leaf in jax.tree.leaves(model)),
        jax.ShapeDtypeStruct((shape.steps, shape.batch_size, shape.length + 1), np.int32),
        jax.ShapeDtypeStruct((), np.int32),
        jax.ShapeDtypeStruct((), np.float32),
    )
    with _no_source_lines():
        return bytes(jax.export.export(jax.jit(plan), platforms=PLATFORMS)(*arguments).serialize())


@contextmanager
def _no_source_lines() -> Iterator[None]:
    setting = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, setting)
    jax.config.update(setting, 0)
    try:
        yield
    finally:
        jax.config.update(setting, before)


def _vocabulary(dataset: Dataset) -> bytes:
    """The vocabulary in the format that `load_vocabulary` reads."""
    provenance = dataset.description.vocabulary or word_list("a built-in world")
    return _as_file(Vocabulary(dataset.words[FIRST_WORD:], provenance))


def _as_file(vocabulary: Vocabulary) -> bytes:
    return vocabulary.as_text().encode()


def _shapes(model: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(leaf.shape) for leaf in jax.tree.leaves(model))
