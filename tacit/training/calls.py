"""From a call of `tacit.train` with a model, a task and users of your own to the setup of a run.

The run folder keeps the settings of the call as its recipe.toml. What cannot be written down (the model's class, the task, the
optimizer) is named there, and the model before the first round is named by its digest. So a call that resumes the run with
other objects is refused, as far as these names differ.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, is_dataclass
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax

from tacit.data.canaries.plan import CanaryPlan
from tacit.data.users import Examples, SplittableUsers, Users, all_names
from tacit.data.views import Reshuffled, Subset, split_users
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError, PrivacyError, RecipeError, RunError
from tacit.learning.averaging import Averaging, averaging_of
from tacit.learning.batches import Batching, ImageBatches, LaidOut, OneUserAtATime, TextBatches
from tacit.learning.loop import TrainingState
from tacit.learning.tasks import Task, as_task, mean_metrics
from tacit.learning.trainable import Filter, same_leaves
from tacit.learning.work import LocalWork, Work
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import Opened
from tacit.recipe.engine import BuiltIn, Ray, ray_of
from tacit.recipe.reading import toml_of
from tacit.recipe.training import reasons_of_settings
from tacit.runs.folder import RunFolder, first_difference
from tacit.runs.journal import Schedule
from tacit.runs.metrics import EPSILON_SO_FAR
from tacit.runs.witness import Witness
from tacit.training.arguments import require_types, whole_number
from tacit.training.datasets import Dataset, check_population, planted
from tacit.training.setup import TrainingSetup
from tacit.training.sources import data_of, layers_of, name_of, named, store_of, vocabularies_of, words_of

CALLED = "called"  # the key that marks the settings of a call
# Defaults: words per row, and the most predictions and images of one user.
ROW, MOST_PREDICTIONS, MOST_IMAGES = 10, 1_600, 100
# How many held-out users' batches are in memory together, and how many batches one compiled call measures.
MEASURED, TOGETHER = 256, 64
# Where an object lies in memory, as its text shows it.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class CallSetup(TrainingSetup):
    """What a call of `tacit.train` builds."""

    task: Task
    work: LocalWork


def setup_of_call(
    model: Any,
    task: Any,
    users: Users,
    *,
    name: str,
    held_out: int | Users,
    work: Work,
    privacy: PrivacyPlan,
    server: optax.GradientTransformation,
    rounds: int,
    batches: Batching | None = None,
    trainable: Filter = None,
    average: Averaging | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int | None = None,
    seed: int | None = None,
    canaries: CanaryPlan | None = None,
    gate_audit: bool = True,
    engine: Ray | BuiltIn | None = None,
    witness: Witness | None = None,
    strategy: Strategy | None = None,
) -> CallSetup:
    """The setup of a run that trains this model on these users; a run that goes on keeps the noise strategy it began with."""
    require_types(
        users,
        held_out=held_out,
        work=work,
        privacy=privacy,
        server=server,
        batches=batches,
        seed=seed,
        canaries=canaries,
        average=average,
        engine=engine,
        witness=witness,
    )
    if isinstance(held_out, Integral):
        held_out = whole_number("held_out", held_out, least=0)
    rounds = whole_number("rounds", rounds)
    require_rounds(privacy, rounds)
    model = same_leaves(model)
    every = max(1, rounds // 10) if evaluate_every is None else whole_number("evaluate_every", evaluate_every)
    saved = 10 if checkpoint_every is None else whole_number("checkpoint_every", checkpoint_every)
    what, cut = as_task(task), _batching(users, work, batches)
    local = LocalWork(work, what, trainable=trainable, clip_style=privacy.clipping)
    _require_a_score_for_each_word(what, model, users)
    dataset, aside = _dataset(users, held_out, privacy, canaries)
    check_population(privacy, dataset, rounds)
    measured = cut.lay_out(aside)
    schedule = Schedule(rounds, every, saved)

    def evaluate(model: Any) -> dict[str, float]:
        found = mean_metrics(what, model, _stacks(measured, work.batch_size))
        if taken := next((name for name in ("round", "measured_on", EPSILON_SO_FAR) if name in found), None):
            raise RecipeError(
                f"The task calls a metric {taken!r}, which is the name of something else in metrics.jsonl."
            )
        return found

    def summarise(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        found = {
            "rounds": opened.rounds,
            "parameters": parameter_count(local.learned(state.model)),
            "metrics": evaluate(state.result),
        }
        if average is not None:
            found["average"] = str(average)
        if privacy.adaptive is not None:
            found["clip_norm"] = float(state.clipping["estimate"])
        return {**found, "privacy": spent.as_dict()}

    return CallSetup.assemble(
        task=what,
        settings=toml_of(
            {
                CALLED: "tacit.train",
                "name": name,
                "data": {**named(users), "batches": _described(cut)},
                "model": {
                    "class": name_of(model),
                    "sha256": digest_of(model),
                    "trained": _trained(local.learned(model)),
                },
                "task": _described(what),
                "work": _described(work),
                **({} if average is None else {"server": average.settings()}),
                "privacy": privacy.model_dump(mode="json", exclude_none=True),
                **({} if witness is None else witness.settings()),
                "run": {**asdict(schedule), **({} if seed is None else {"seed": seed})},
            }
        ),
        plan=privacy,
        schedule=schedule,
        seed=seed,
        dataset=dataset,
        store=store_of(users),
        model=model,
        work=local,
        batches=cut,
        optimizer=server,
        averaging=average,
        strategy=strategy or privacy.build_strategy(rounds),
        evaluate=evaluate,
        summarise=summarise,
        reasons_not_private=(*reasons_of_settings(privacy, seed), *dataset.reasons_not_private),
        gate_audit=gate_audit,
        ray=ray_of(engine),
        witness=witness,
    )


def _require_a_score_for_each_word(task: Task, model: Any, users: Users) -> None:
    """RecipeError if the task's scores lack some of the users' words.

    JAX reads nan where an index is too large, and drops what is written there: such a model would train, and mean nothing.
    """
    words = max((len(each) for each in vocabularies_of(users)), default=0)
    scores = getattr(task, "scores", None)
    if scores is None or not words:
        return
    try:
        found = eqx.filter_eval_shape(scores, model, jax.ShapeDtypeStruct((1, ROW), np.int32)).shape[-1]
    except Exception:  # a task of somebody's own may take other batches; training calls it with those
        return
    if found < words:
        raise RecipeError(
            f"Expected a model with a score for each of the {words:,} entries of the vocabulary, got {found:,}."
        )


def require_rounds(privacy: PrivacyPlan, rounds: int) -> None:
    """RecipeError unless so many rounds can be run as planned."""
    whole_number("rounds", rounds)
    try:
        privacy.check_rounds(rounds)
    except ValueError as error:
        raise RecipeError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None


def _stacks(laid_out: LaidOut, batch_size: int) -> Iterator[Any]:
    """Some users' batches [batches, ...], a few at a time; those without examples are left out."""
    for start in range(0, len(laid_out.sizes), MEASURED):
        users = np.arange(start, min(start + MEASURED, len(laid_out.sizes)))
        batches = laid_out.as_needed(users, batch_size)
        steps = np.arange(jax.tree.leaves(batches)[0].shape[1])
        user, step = np.nonzero(steps < -(-laid_out.sizes[users] // batch_size)[:, None])
        for first in range(0, len(user), TOGETHER):
            place = user[first : first + TOGETHER], step[first : first + TOGETHER]
            yield jax.tree.map(lambda leaf, place=place: leaf[place], batches)


def digest_of(model: Any) -> str:
    """SHA-256 of a model's structure and of its arrays, the same in every process: functions count by their names."""
    leaves, tree = jax.tree.flatten(model)
    digest = hashlib.sha256(_ADDRESS.sub("", str(tree)).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        if array.dtype == object:
            digest.update(name_of(leaf).encode())
        else:
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _trained(learned: Any) -> str:
    """SHA-256 of the paths of the arrays that are trained."""
    places, _ = jax.tree_util.tree_flatten_with_path(learned)
    return hashlib.sha256("\n".join(jax.tree_util.keystr(path) for path, _ in places).encode()).hexdigest()


def _batching(users: Users, work: Work, given: Batching | None) -> Batching:
    """The batching: as given (called for one user at a time if it is not Tacit's own), or rows of ten words, or images."""
    if given is not None:
        if given.batch_size != work.batch_size:
            raise RecipeError(
                f"Expected batches of work.batch_size = {work.batch_size} rows, got batches.batch_size = {given.batch_size}."
            )
        return given if type(given) in (TextBatches, ImageBatches) else OneUserAtATime(given)
    some = users.gather(np.arange(min(1, len(users))))
    if some.labels is not None:
        return ImageBatches(work.batch_size, -(-MOST_IMAGES // work.batch_size))
    return TextBatches("windows", ROW, work.batch_size, -(-MOST_PREDICTIONS // (ROW * work.batch_size)))


def _dataset(
    users: Users, held_out: int | Users, privacy: PrivacyPlan, canaries: CanaryPlan | None
) -> tuple[Dataset, Examples]:
    """The users to train on, and the examples of those who are held out."""
    reasons, description = [], data_of(users)
    if any(not vocabulary.is_public for vocabulary in vocabularies_of(users)):
        reasons.append(Reason(Why.COUNTED_VOCABULARY))
    if description.world is None and any(isinstance(layer, Reshuffled) for layer in layers_of(users)):
        reasons.append(Reason(Why.MIXED_USERS))
    if not isinstance(held_out, int):
        _require_apart(users, held_out)
        train, aside = users, held_out
    elif isinstance(users, SplittableUsers):
        train, aside = split_users(users, held_out)
    elif isinstance(users, KeyboardWorld | HandwritingWorld):
        train, aside = users, Subset(users.with_more(held_out), len(users) + np.arange(held_out))
    else:
        raise DataError(
            f"Expected held_out to be users of their own, because {name_of(users)} holds nobody out, got {held_out}.",
            hint="Pass held_out=other_users, or make the users with tacit.users(...), which holds some out.",
        )
    dataset = Dataset(
        train=train,
        people=len(train),
        held_out=np.zeros((0, 1), np.int32),
        words=words_of(users),
        description=description,
        reasons_not_private=tuple(reasons),
    )
    if canaries is not None:
        dataset = planted(dataset, privacy, canaries, None)
    return dataset, aside.gather(np.arange(len(aside)))


def _require_apart(users: Users, held_out: Users) -> None:
    """DataError if some of the held-out users are trained on, where both come from one place and their names can tell.

    Accuracy is written down without noise, so it may be measured on nobody who is trained on.
    """
    named, other = data_of(users).name, data_of(held_out).name
    shared = {id(layer) for layer in layers_of(users)} & {id(layer) for layer in layers_of(held_out)}
    if not shared and (not named or named != other):
        return
    trained, measured = (set(map(tuple, all_names(each).tolist())) for each in (users, held_out))
    if trained & measured:
        raise DataError(
            "Expected held_out to be users who are not trained on, got some who are.",
            hint="tacit.users(...) and a store hold users out by themselves: held_out=200 measures on at most 200 of them.",
        )


def resumed_call(folder: RunFolder, model: Any, task: Any, users: Users, **settings: Any) -> CallSetup:
    """The setup of a call that goes on with the run in this folder.

    Plan, rounds, average and seed come from the folder. PrivacyError if the objects differ from those that the run was begun
    with, wherever the folder can tell.
    """
    kept = folder.recipe()
    if CALLED not in kept:
        raise RunError(
            f"The run {folder.path} follows a recipe, so it takes no model, task or users.",
            hint=f"tacit.resume({str(folder.path)!r}) is enough.",
        )
    opened = read_ledger(folder.ledger_path).opened if folder.begun else None
    described = {} if opened is None else opened.strategy
    run = kept["run"]
    setup = setup_of_call(
        model,
        task,
        users,
        name=kept["name"],
        privacy=PrivacyPlan.model_validate(kept["privacy"]),
        rounds=run["rounds"],
        average=averaging_of(kept.get("server", {})),
        witness=Witness.of_settings(kept),
        evaluate_every=run["evaluate_every"],
        checkpoint_every=run["checkpoint_every"],
        seed=run.get("seed"),
        strategy=from_description(described) if described else None,
        gate_audit=opened is None or opened.gate_audit is not None,
        **settings,
    )
    if (difference := first_difference(kept, tomllib.loads(setup.settings))) is not None:
        field, before, after = difference
        raise PrivacyError(
            f"Expected the objects that {folder.path} was begun with, where {field} is {before}, got {after}."
        )
    return setup if opened is None else setup.for_rounds(opened.rounds)


def _described(value: Any) -> dict[str, Any]:
    """The class of a value, and those of its fields that are numbers, texts or booleans."""
    fields = asdict(value) if is_dataclass(value) and not isinstance(value, type) else {}
    plain = {key: each for key, each in fields.items() if isinstance(each, str | int | float | bool)}
    return {"class": name_of(value), **plain}
