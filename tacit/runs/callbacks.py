"""Callbacks follow a run: a progress bar, an experiment tracker, or code of your own.

Subclass `Callback` and override what you need. The order of calls is fixed: warnings and pre-training first, then the
estimate, `on_start`, rounds and evaluations, then `on_end`. Only the warning that a witness does not answer may come at any
time. After `on_start`, and when pre-training fails, `on_end` is called exactly once, whatever happens.

**What a callback gets is public.** Its arguments hold the plan's settings, the record that goes into metrics.jsonl and the
stated guarantee. They never hold who took part, how many did, norms, clipped shares, durations or the path of a file. The time
that an estimate names was taken on made-up users. The time of a call is not public: how long a round takes depends on what its
users hold, so a callback that passes on when it was called passes on something that the guarantee does not cover. For the same
reason what `on_workers` gets is not public: which worker is slow follows from times.

**An error in a callback stops the run as Ctrl-C does:** after the round under way, with a checkpoint, so that the run can be
resumed. Then the error is raised. In the last round the run finishes first. An error before the rounds (`on_warning`,
`on_pretraining`, `on_start`) prevents them: nothing is released. After an error only `on_end` is called.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tacit.errors import RecipeError

Outcome = Literal["finished", "stopped", "diverged", "failed"]


class StopRequested(Exception):
    """Somebody pressed Ctrl-C: the run has stopped and can be resumed.

    >>> import tacit
    >>> try:
    ...     raise tacit.StopRequested
    ... except tacit.StopRequested:
    ...     print("tacit.resume goes on from here")
    tacit.resume goes on from here
    """


@dataclass(frozen=True)
class RunStart:
    """A run whose rounds are about to begin.

    `name` is the name of its folder, `plan` the privacy plan's settings as the ledger has them. `rounds_done` is 0 unless the
    run is resumed.
    """

    name: str
    run_id: str
    plan: Mapping[str, Any]
    rounds: int
    rounds_done: int


@dataclass(frozen=True)
class RunEstimate:
    """What a run will cost, before its first round.

    `epsilon` and `delta` are what the guarantee will state for all planned rounds, if no round has to run again;
    `reasons_not_private` says why epsilon is infinite, where it is. `seconds_a_round` was measured on this machine with made-up
    users, all of whom have as much text as the cap of `words_a_user` allows; None where no trial is possible.
    `out_of_vocabulary` is the share of the held-out users' words that the vocabulary does not have, so that no model can guess
    them; None where there is no vocabulary. Like accuracy, it is measured on users whom the guarantee does not cover.
    """

    rounds: int
    cohort: float
    epsilon: float
    delta: float
    reasons_not_private: tuple[str, ...] = ()
    seconds_a_round: float | None = None
    words_a_user: int | None = None
    out_of_vocabulary: float | None = None

    @property
    def seconds(self) -> float | None:
        """About how long all rounds take, None where it is not known."""
        return None if self.seconds_a_round is None else self.rounds * self.seconds_a_round


@dataclass(frozen=True)
class WorkersReport:
    """How the processes do that train users for a run: how many there are, how many were lost so far, and who is slow.

    `slow` names workers that need at least half as long again as the median worker for the same work.
    """

    workers: int
    lost: int
    slow: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    A finished run states its cost: `epsilon` (infinite where nothing can be claimed), `delta`, and `guarantee`, which is the
    claim in one sentence. They are None for any other outcome: such a run has a cost too, which `tacit account` computes.
    """

    outcome: Outcome
    epsilon: float | None = None
    delta: float | None = None
    guarantee: str | None = None


class Callback:
    """Follows a run. Every method does nothing until a subclass overrides it.

    >>> import tacit
    >>> class Best(tacit.Callback):
    ...     top1 = 0.0
    ...     def on_evaluation(self, round, metrics):
    ...         self.top1 = max(self.top1, metrics["top1"])
    >>> best = Best()
    >>> best.on_round(1, 10)
    >>> best.on_evaluation(1, {"top1": 0.25})
    >>> best.top1
    0.25
    """

    # Whether `on_estimate` is to be called. The estimate takes a few seconds, so a callback asks for it.
    wants_estimate: bool = False

    def on_estimate(self, estimate: RunEstimate) -> None:
        """What the run will cost in time and privacy; before `on_start`, for callbacks that have `wants_estimate`."""

    def on_warning(self, sentence: str) -> None:
        """The settings will harm training, for example by noise that drowns the model: called before the run begins. Or a
        witness that is not required does not answer: called at any time before `on_end`."""

    def on_pretraining(self, step: int, steps: int, loss: float) -> None:
        """Pre-training on public data has made `step` of `steps` steps; `loss` is that of the last ones."""

    def on_start(self, run: RunStart) -> None:
        """The rounds are about to begin, or to go on in a run that is resumed."""

    def on_round(self, round: int, rounds: int) -> None:
        """`round` of `rounds` rounds are done, and the model is finite. Called up to two rounds late."""

    def on_workers(self, report: WorkersReport) -> None:
        """Before a round, where other processes train the users: how they do. Like time, it is not public."""

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        """The model after `round` rounds was measured; `metrics` is the line of metrics.jsonl, without its round."""

    def on_end(self, end: RunEnd) -> None:
        """The run has ended: finished, stopped, diverged or failed."""


class Callbacks(Callback):
    """Several callbacks as one. All of them are called, in order, and then the first error is raised.

    >>> import tacit
    >>> both = Callbacks([tacit.Callback(), tacit.Callback()])
    >>> both.on_round(1, 10)
    """

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        if isinstance(callbacks, Callback):
            raise RecipeError(f"Expected callbacks to be a list, got one {type(callbacks).__name__}: write [callback].")
        self._callbacks = tuple(callbacks)
        for callback in self._callbacks:
            if isinstance(callback, type) or not hasattr(callback, "on_start"):
                raise RecipeError(f"Expected objects of subclasses of tacit.Callback in callbacks, got {callback!r}.")
        self.wants_estimate = any(getattr(callback, "wants_estimate", False) for callback in self._callbacks)

    def on_estimate(self, estimate: RunEstimate) -> None:
        for callback in self._callbacks:
            if getattr(callback, "wants_estimate", False):
                callback.on_estimate(estimate)

    def on_warning(self, sentence: str) -> None:
        self._each("on_warning", sentence)

    def on_pretraining(self, step: int, steps: int, loss: float) -> None:
        self._each("on_pretraining", step, steps, loss)

    def on_start(self, run: RunStart) -> None:
        self._each("on_start", run)

    def on_round(self, round: int, rounds: int) -> None:
        self._each("on_round", round, rounds)

    def on_workers(self, report: WorkersReport) -> None:
        self._each("on_workers", report)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._each("on_evaluation", round, metrics)

    def on_end(self, end: RunEnd) -> None:
        self._each("on_end", end)

    def _each(self, method: str, *arguments: Any) -> None:
        first: Exception | None = None
        for callback in self._callbacks:
            try:
                getattr(callback, method)(*copy.deepcopy(arguments))  # a callback cannot change what the next one gets
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


class Notifier:
    """Calls the callback of one run, and keeps its first error until the run has ended."""

    def __init__(self, callback: Callback) -> None:
        self._callback, self._ended = callback, False
        self.error: Exception | None = None

    def start(self, run: RunStart) -> None:
        self._call("on_start", run)

    def warning(self, sentence: str) -> None:
        self._call("on_warning", sentence)

    def round(self, round: int, rounds: int) -> None:
        self._call("on_round", round, rounds)

    def workers(self, report: WorkersReport) -> None:
        self._call("on_workers", report)

    def evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._call("on_evaluation", round, metrics)

    def end(self, end: RunEnd) -> None:
        """Calls `on_end`, the first time only."""
        if not self._ended:
            self._ended = True
            self._call("on_end", end, even_after_error=True)

    def _call(self, method: str, *arguments: Any, even_after_error: bool = False) -> None:
        if self.error is not None and not even_after_error:
            return
        try:
            getattr(self._callback, method)(*arguments)
        except Exception as error:
            self.error = self.error or error


@contextmanager
def notifying(callback: Callback) -> Iterator[Notifier]:
    """A notifier that calls `on_end` if the block raises before it has called it.

    The block's exception is raised again; an error of the callback becomes a note on it.
    """
    notifier = Notifier(callback)
    try:
        yield notifier
    except BaseException as raised:
        stopped = isinstance(raised, StopRequested) or not isinstance(raised, Exception)
        notifier.end(RunEnd("stopped" if stopped else "failed"))
        if notifier.error not in (None, raised):
            raised.add_note(f"A callback failed, too: {notifier.error!r}")
        raise
