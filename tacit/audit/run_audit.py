"""Audit a run: search its model for the planted canaries, and compare the proven epsilon with the attacks' lower bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.audit.exposures import SettingExposure, by_setting, exposures
from tacit.audit.lower_bound import CONFIDENCE, LowerBound, lower_bound
from tacit.audit.membership import loss_scores, task_loss_scores, trajectory_scores
from tacit.audit.outcome import BY_LOSS, BY_TRAJECTORY, Attacked, AuditOutcome, Proven
from tacit.audit.secret_sharer import BEAM_WIDTH, COMPARISONS, extraction, random_sampling
from tacit.data.canaries.plan import CanaryPlan, CoinUser, encode
from tacit.data.canaries.synthetic_users import WithCoinUsers
from tacit.data.ragged import offsets_of
from tacit.data.users import Examples, Users
from tacit.data.views import View
from tacit.errors import AuditError
from tacit.learning.batches import TextBatches
from tacit.learning.work import LocalWork, reads_one_batch_at_a_time
from tacit.models.word_lm import WordLM
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.participation.log import participations, verified
from tacit.privacy.plan import ADJACENCY, PrivacyPlan
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.planned import charged_for
from tacit.recipe.training import parse_recipe
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.training.calls import CallSetup
from tacit.training.recipes import RecipeSetup, verified_setup
from tacit.training.setup import TrainingSetup
from tacit.training.trained import load_trained

PREFIX = 2
SUFFIXES_ON_CPU = 20_000


def audit_run(
    path: Path,
    *,
    prefix: int = PREFIX,
    suffixes: int | None = None,
    width: int = BEAM_WIDTH,
    seed: int = 0,
    on_progress: Callable[[str], None] = lambda doing: None,
) -> AuditOutcome:
    """Attack the run's last model, given the first `prefix` words of each canary.

    AuditError if the run has no canaries or its plan was made for other data; PrivacyError if the plan, the data or anything
    else differs from the ledger's first record. `on_progress` is called with each step's name.
    """
    folder = RunFolder.open(path)
    section = parse_recipe(folder.recipe()).audit
    if section is None or section.plan is None:
        raise AuditError(
            f"Expected a run with planted canaries, got {path}, whose recipe has no audit.plan.",
            hint="tacit audit plant makes a plan; train with --set audit.plan=PLAN",
        )
    on_progress("opening the data")
    setup, ledger = verified_setup(folder)
    plan = setup.dataset.canaries
    assert plan is not None
    trained = load_trained(path)
    model, words = trained.model, trained.words
    on_progress("attacking the model")
    attacked = attack_canaries(model, plan, words, prefix=prefix, suffixes=suffixes, width=width, seed=seed)
    on_progress("counting exposures")
    cohorts = list(verified(folder.participation_path, ledger))
    times = participations(cohorts, len(setup.dataset.train))
    seen = _exposures(setup, plan, times, len(cohorts), words)
    bounds, proven = {}, None
    if len(plan.coin_canaries()):
        on_progress("guessing membership")
        bounds = _bounds(setup, plan, model, words)
    if plan.synthetic_users:
        proven = _proven(folder, ledger, plan)
    return AuditOutcome(prefix, comparison_count(suffixes), width, attacked, seen, bounds, proven)


def audit_call(setup: CallSetup, folder: RunFolder, model: Any) -> AuditOutcome:
    """Hold the proven epsilon of a run of `tacit.train` against what its canary users let an attacker guess.

    The secret sharer's attacks are for word models and are left out: only the users of the plan's coins are guessed.
    AuditError for a run without such users.
    """
    plan = setup.dataset.canaries
    if plan is None or not len(plan.coin_canaries()):
        raise AuditError(
            f"Expected a run with canary users, got {folder.path}, which has none.",
            hint="Make a plan with tacit.canaries(...) and train with tacit.train(..., canaries=plan).",
        )
    ledger = folder.accountable_ledger()
    bounds = _bounds(setup, plan, model, setup.dataset.words)
    return AuditOutcome(PREFIX, 0, BEAM_WIDTH, [], [], bounds, _proven(folder, ledger, plan))


def attack_canaries(
    model: Any,
    plan: CanaryPlan,
    words: Sequence[str],
    *,
    prefix: int = PREFIX,
    suffixes: int | None = None,
    width: int = BEAM_WIDTH,
    seed: int = 0,
) -> list[Attacked]:
    """Both attacks of the secret sharer on the plan's canaries, except those of canary users."""
    numbers = [i for i, canary in enumerate(plan.canaries) if not isinstance(canary.sharing, CoinUser)]
    if not numbers:
        return []
    canaries = [plan.canaries[i] for i in numbers]
    ranks = random_sampling(model, canaries, words, prefix=prefix, seed=seed, size=comparison_count(suffixes))
    places = extraction(model, canaries, words, prefix=prefix, width=width)
    return [
        Attacked(i, c.text, str(c.sharing), rank.rank, rank.candidates, rank.exposure, place)
        for i, c, rank, place in zip(numbers, canaries, ranks, places, strict=True)
    ]


def comparison_count(suffixes: int | None) -> int:
    """The number of random suffixes a canary is compared with: the given one, or one that suits this machine."""
    if suffixes is not None:
        return suffixes
    return SUFFIXES_ON_CPU if jax.default_backend() == "cpu" else COMPARISONS


class AsTrained(View):
    """Users as a recipe's rows truncate them: an example is kept if training reads it to its last word."""

    def __init__(self, users: Users, shape: TextBatches) -> None:
        super().__init__(users)
        self._shape = shape

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users that training reads completely."""
        full, shape = self._users.gather(users), self._shape
        counts, rows = np.diff(full.user_offsets), shape.steps * shape.batch_size
        owner = np.repeat(np.arange(len(counts)), counts)
        first = full.user_offsets[owner]
        place = np.arange(len(first)) - first
        if shape.layout == "sentences":
            keep = (place < rows) & (np.diff(full.example_offsets) <= shape.length)
        else:  # one stream of bos, words, eos, of which training reads the first rows * length + 1 tokens
            words = full.example_offsets[1:] - full.example_offsets[first]
            keep = words + 2 * place + 1 <= rows * shape.length + 1
        lengths = np.diff(full.example_offsets)
        items = full.items[np.repeat(keep, lengths)]
        return Examples(items, offsets_of(lengths[keep]), offsets_of(np.bincount(owner[keep], minlength=len(counts))))


def _exposures(
    setup: RecipeSetup, plan: CanaryPlan, times: NDArray[np.int64], rounds: int, words: Sequence[str]
) -> list[SettingExposure]:
    users, recipe = setup.dataset.train, setup.recipe
    rows = exposures(
        plan,
        AsTrained(users, setup.batches),
        words,
        times,
        rounds=rounds,
        rate=_rate(recipe.privacy, setup.dataset.people if plan.device_rate is not None else len(users)),
        epochs=recipe.work.epochs if recipe.work.kind == "fedavg" else 1,
        dealt_anew=recipe.data.iid,
    )
    return by_setting([row for row in rows if not isinstance(plan.canaries[row.canary].sharing, CoinUser)])


def _rate(plan: PrivacyPlan, drawn_from: int) -> float:
    """The probability that a user takes part in a round: the plan's q, or cohort size / number of users drawn from."""
    return plan.sampling_probability if plan.sampling in ("poisson", CYCLIC) else plan.cohort / drawn_from


def _bounds(setup: TrainingSetup, plan: CanaryPlan, model: Any, words: Sequence[str]) -> dict[str, LowerBound]:
    """One bound for each kind of score; all of them hold together with probability CONFIDENCE."""
    start = setup.start.model
    supposed = WithCoinUsers(setup.dataset.train, plan, words, all_in=True)
    numbers = len(setup.dataset.train) + np.arange(len(plan.coin_canaries()))
    laid_out = setup.batches.lay_out(supposed.gather(numbers))
    coins, work = np.arange(len(numbers)), setup.work
    assert isinstance(work, LocalWork)  # a run that finds words has no model to attack
    by_batch = reads_one_batch_at_a_time(work)
    batches = laid_out.as_needed(coins, setup.batches.batch_size) if by_batch else laid_out.batches(coins)
    steps = np.maximum(-(-laid_out.sizes // setup.batches.batch_size), 1)
    phrases = encode([plan.canaries[i] for i in plan.coin_canaries()], words)
    if isinstance(model, WordLM):
        by_loss = loss_scores(start, model, phrases)
    else:
        by_loss = task_loss_scores(work.task, start, model, batches)
    scores = {BY_LOSS: by_loss, BY_TRAJECTORY: trajectory_scores(work, start, model, batches, steps)}
    each = 1 - (1 - CONFIDENCE) / len(scores)
    delta = setup.plan.delta
    return {name: lower_bound(score, plan.coins(), delta=delta, confidence=each) for name, score in scores.items()}


def _proven(folder: RunFolder, ledger: Ledger, plan: CanaryPlan) -> Proven:
    """The proven epsilon of synthetic users: that of all users, or that of their own rate.

    Where people are not sampled, amplification has no proof for the noise; synthetic users with a rate of their own, whom no
    limit holds back, are then charged for every round.
    """
    if plan.device_rate is None:
        return _as_proven(cost_of(folder, ledger).stated)
    opened, charged = ledger.opened, charged_for(ledger.opened, ledger.intents, start=ledger.next_round).releases
    if opened.plan["sampling"] == "check_in":
        limits = {"min_separation": 0, "max_participation": opened.rounds}
        law = {**opened.plan, **limits}
        return _as_proven(spent_by(dataclasses.replace(opened, plan=law), charged))
    opened = dataclasses.replace(opened, plan={**opened.plan, "sampling": "poisson"}, adjacency=ADJACENCY["poisson"])
    rate = {"kind": "poisson", "probability": plan.device_rate}
    return _as_proven(spent_by(opened, [dataclasses.replace(each, sampling=rate) for each in charged]))


def _as_proven(spent: Spent) -> Proven:
    return Proven(spent.epsilon, spent.delta, spent.reasons_not_private)
