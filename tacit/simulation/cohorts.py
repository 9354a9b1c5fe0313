"""Sample and gather cohorts in the background while the round before them trains.

One thread walks through the rounds: it draws a cohort from the run's secret randomness, gathers its users a few chunks at a
time and puts them into a short queue. Memory does not grow with the cohort, and the sampler never waits for the accelerator.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import Names, require_distinct
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.cyclic import CyclicPoisson
from tacit.privacy.participation.samplers import Sampler


@dataclass(frozen=True)
class SimulatedCohort:
    """One attempt at one round: the users, their examples chunk by chunk, and the key of the round's noise.

    `entropy(purpose)` gives 32 secret bytes for the users' own randomness, and for nothing else.
    """

    round: int
    attempt: int
    users: NDArray[np.int64]
    noise_key: Any
    chunks: Iterator[Any]
    entropy: Callable[[str], bytes]

    def settle(self, broadcast: Any, norms: Any) -> SimulatedCohort:
        """The cohort itself: every sampled user takes part."""
        return self


class CohortStream:
    """Iterates over the cohorts of rounds `start` to `stop` - 1; close it if you stop early."""

    def __init__(
        self,
        sampler: Sampler,
        randomness: Randomness,
        names: Names,
        prepare: Callable[[NDArray[np.int64]], Iterator[Any]],
        *,
        start: int,
        stop: int,
        attempts: Mapping[int, int] | None = None,
        ahead: int = 4,
    ) -> None:
        require_distinct(names)
        if isinstance(sampler, CyclicPoisson):
            sampler.begin(names, round=start)
        self._draw = sampler, randomness, names
        self._prepare, self._start, self._stop = prepare, start, stop
        self._attempts = dict(attempts or {})
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=ahead)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="tacit cohorts", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[SimulatedCohort]:
        randomness = self._draw[1]
        while (item := self._take())[0] == "cohort":
            round, attempt, users = item[1]
            key = randomness.noise_key(round=round, attempt=attempt)
            chunks = self._chunks()
            yield SimulatedCohort(round, attempt, users, key, chunks, _entropy(randomness, round, attempt))
            for _ in chunks:  # skip what is left of a cohort, so that its chunks are not taken for the next one's
                pass

    def close(self) -> None:
        """Stop the background thread."""
        self._stopping.set()
        self._thread.join()

    def _chunks(self) -> Iterator[Any]:
        while (item := self._take())[0] == "chunk":
            yield item[1]

    def _take(self) -> tuple[str, Any]:
        kind, value = self._queue.get()
        if kind == "error":
            raise value
        return kind, value

    def _produce(self) -> None:
        sampler, randomness, names = self._draw
        try:
            for round in range(self._start, self._stop):
                attempt = self._attempts.get(round, 0)
                # A copy: what a sampler from outside returns may be an array that it writes to again.
                users = np.array(sampler.sample(randomness.draws(names, round=round, attempt=attempt)))
                self._put("cohort", (round, attempt, users))
                for chunk in self._prepare(users):
                    self._put("chunk", chunk)
                self._put("end of cohort", None)
            self._put("end", None)
        except _Stopping:
            return
        except BaseException as error:
            with suppress(_Stopping):
                self._put("error", error)

    def _put(self, kind: str, value: Any) -> None:
        while not self._stopping.is_set():
            try:
                return self._queue.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
        raise _Stopping


def _entropy(randomness: Randomness, round: int, attempt: int) -> Callable[[str], bytes]:
    return lambda purpose: randomness.derive(f"users {purpose}", round=round, attempt=attempt, size=32)


class _Stopping(Exception):
    pass
