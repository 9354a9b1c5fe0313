"""Whole runs as `tacit train` makes them, beside rounds alone, in one process. One JSON line a cohort.

    python benchmarks/whole_runs.py                                                      100, 400 and 2,000 people a round
    python benchmarks/whole_runs.py --cohorts 400 --rounds 500 --preset benchmark --vocabulary 10000 --precision bf16

A whole run evaluates before its first rounds, after the first few, every `--evaluate-every` rounds and at the end, writes a
checkpoint as often, and keeps its ledger, its record of who took part, its diagnostics and the audit of its gate. The rounds
alone have the same users, model and noise: cohorts, local training, clip, sum, noise and the server's step, as
`benchmarks/rounds.py` times them. Both are compiled before anything is timed.

`ratio` is people a second of the whole run over those of the rounds alone, `ratio_of_rounds` the same without what happens
before the first round and after the last. `main_thread_ms` says where the main thread spends its time, in milliseconds a
round, each part without the parts inside of it. Whoever waits for the accelerator has that time: `numbers` fetches a round's
numbers two rounds later. `main_thread_processor_ms` has the processor time of the same parts, which waiting for a disk or for
other work on the machine does not change. `gathering_ms` is the thread that gathers and lays out cohorts beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.build import save_users
from tacit.data.ragged import offsets_of, ranges
from tacit.data.users import FIRST_WORD, Examples, Names, names_of_numbers
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.learning.server import Server
from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.noise.mechanisms.gaussian import Gaussian
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.record.ledger import LedgerWriter
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs import checkpoints
from tacit.runs.callbacks import Callback
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tacit.runs.odometer import Odometer
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.gate_audit import AuditedGate
from tacit.simulation.placement import use_every_core
from tacit.simulation.training import program_of, setup_of_recipe, start_run

# What the main thread does in a round, and where that is. `BatchedUsers.prepare` runs beside it.
PARTS: dict[str, list[tuple[Any, str]]] = {
    "engine": [(BatchedUsers, "collect")],
    "noise": [(Gaussian, "release")],
    "server": [(Server, "step")],
    "audit": [(AuditedGate, "collect"), (AuditedGate, "release"), (AuditedGate, "settle")],
    "participation": [(ParticipationWriter, "append")],
    "ledger": [(LedgerWriter, "append")],
    "odometer": [(Odometer, "record_head")],
    "numbers": [(RunJournal, "_settle")],
    "evaluation": [(RunJournal, "_note")],
    "checkpoints": [(RunJournal, "_save"), (checkpoints, "save")],
}


class People:
    """Users whose texts have different lengths: words of a Zipf distribution in sentences of ten, from a shared tape."""

    def __init__(self, users: int, vocabulary: int, tokens: int) -> None:
        draws = np.random.default_rng(0)
        ranks = draws.zipf(1.2, 1 << 20)
        self._tape = (FIRST_WORD + ranks % (vocabulary - FIRST_WORD)).astype(np.uint16)
        self._sentences = np.clip(tokens / 10 * draws.lognormal(-0.3, 0.6, users), 1, tokens / 5).astype(np.int64)

    def __len__(self) -> int:
        return len(self._sentences)

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        sentences = self._sentences[users]
        places = ranges(users * 7919 % (len(self._tape) - 10_000), 10 * sentences)
        offsets = np.arange(sentences.sum() + 1, dtype=np.int64) * 10
        return Examples(self._tape[places], offsets, offsets_of(sentences))


def recipe_of(arguments: argparse.Namespace, store: Path, cohort: int) -> Recipe:
    return parse_recipe(
        {
            "name": "whole",
            "data": {
                "store": str(store),
                "layout": "windows",
                "length": 10,
                "tokens_per_user": arguments.tokens,
            },
            "model": {"preset": arguments.preset},
            "work": {"kind": "fedavg", "batch_size": 8, "learning_rate": 0.5},
            "privacy": {
                "population": arguments.users,
                "cohort": cohort,
                "clip_norm": 0.5,
                "noise_multiplier": 1.0,
                "delta": 0.1 / arguments.users,
            },
            "server": {"optimizer": "momentum", "learning_rate": 1.0, "momentum": 0.9},
            "run": {
                "rounds": arguments.rounds,
                "evaluate_every": arguments.evaluate_every,
                "checkpoint_every": arguments.evaluate_every,
            },
            "engine": {"precision": arguments.precision},
        }
    )


class Watch:
    """Seconds by part, each without the parts inside of it, of the thread that made it; other threads are counted apart."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.processor: Counter[str] = Counter()
        self._thread, self._inside = threading.get_ident(), [(0.0, 0.0)]

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*arguments: Any, **settings: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*arguments, **settings)
            began, worked = time.perf_counter(), time.thread_time()
            self._inside.append((0.0, 0.0))
            try:
                return function(*arguments, **settings)
            finally:
                took, worked = time.perf_counter() - began, time.thread_time() - worked
                inside, worked_inside = self._inside.pop()
                self.seconds[part] += took - inside
                self.processor[part] += worked - worked_inside
                before, worked_before = self._inside[-1]
                self._inside[-1] = before + took, worked_before + worked

        return timed

    def around_iterator(self, part: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The function that returns an iterator, of which every step is timed, in whichever thread."""

        def timed(*arguments: Any, **settings: Any) -> Iterator[Any]:
            steps = function(*arguments, **settings)
            while True:
                began = time.thread_time()
                try:
                    item = next(steps)
                except StopIteration:
                    return
                finally:
                    self.processor[part] += time.thread_time() - began
                yield item

        return timed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time the parts of `PARTS` and the gathering of cohorts until the block ends."""
        before = [(owner, name, getattr(owner, name)) for places in PARTS.values() for owner, name in places]
        prepare = BatchedUsers.prepare
        try:
            for part, places in PARTS.items():
                for owner, name in places:
                    setattr(owner, name, self.around(part, getattr(owner, name)))
            BatchedUsers.prepare = self.around_iterator("gathering", prepare)  # type: ignore[method-assign]
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)
            BatchedUsers.prepare = prepare  # type: ignore[method-assign]


class Clock(Callback):
    """When each round's numbers were fetched."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_round(self, round: int, rounds: int) -> None:
        self.times.append(time.perf_counter())


def rounds_alone(recipe: Recipe, folder: Path, rounds: int) -> float:
    """The median seconds of a round without anything that a run does beside it."""
    setup = setup_of_recipe(recipe, folder)
    program = program_of(setup, RunFolder.create(folder, setup.settings))
    stream = program.participation(Randomness.from_seed(0), 0, {})
    model, state, noise = program.start.model, program.start.server, program.start.noise
    clip, seconds = recipe.privacy.clip_norm, []
    try:
        cohorts = iter(stream)
        for _ in range(rounds):
            began = time.perf_counter()
            cohort = next(cohorts)
            bounded, _ = program.users.collect(model, cohort, ClipThresholds(clip))
            release, noise = program.mechanism.release(bounded, noise, key=cohort.noise_key)
            model, state, finite = program.server.step(model, state, release)
            assert bool(finite)  # waits for the device
            seconds.append(time.perf_counter() - began)
    finally:
        stream.close()
    return statistics.median(seconds[len(seconds) // 4 :])


def case(arguments: argparse.Namespace, store: Path, cohort: int, here: Path) -> dict[str, Any]:
    """A whole run beside rounds alone, at one size of the cohort."""
    recipe = recipe_of(arguments, store, cohort)
    start_run(_with_rounds(recipe, 3), here / "warm", Callback())
    alone = rounds_alone(recipe, here / "alone", max(8, arguments.rounds // 4))
    watch, clock = Watch(), Clock()
    began = time.perf_counter()
    with watch.watching():
        start_run(recipe, here / "run", clock)
    whole = time.perf_counter() - began
    rounds = arguments.rounds
    of_rounds = (clock.times[-1] - clock.times[0]) / (rounds - 1)
    gathering = watch.processor.pop("gathering", 0.0)
    worked = {part: round(1e3 * seconds / rounds, 3) for part, seconds in watch.processor.most_common()}
    outside = {part: round(1e3 * seconds / rounds, 3) for part, seconds in watch.seconds.most_common()}
    outside["rest"] = round(1e3 * (whole - sum(watch.seconds.values())) / rounds, 3)
    return {
        "device": jax.devices()[0].device_kind,
        "preset": arguments.preset,
        "precision": arguments.precision,
        "cohort": cohort,
        "rounds": rounds,
        "users_per_second": round(cohort * rounds / whole, 1),
        "users_per_second_of_rounds": round(cohort / of_rounds, 1),
        "users_per_second_alone": round(cohort / alone, 1),
        "ratio": round(alone * rounds / whole, 3),
        "ratio_of_rounds": round(alone / of_rounds, 3),
        "ms_a_round_alone": round(1e3 * alone, 2),
        "ms_a_round": round(1e3 * whole / rounds, 2),
        "main_thread_ms": outside,
        "main_thread_processor_ms": worked,
        "gathering_ms": round(1e3 * gathering / rounds, 3),
    }


def _with_rounds(recipe: Recipe, rounds: int) -> Recipe:
    return recipe.model_copy(update={"run": recipe.run.model_copy(update={"rounds": rounds})})


def main() -> None:
    use_every_core()
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohorts", type=int, nargs="+", default=[100, 400, 2_000])
    parser.add_argument("--rounds", type=int, default=60 if on_cpu else 1_000)
    parser.add_argument("--evaluate-every", type=int, default=25 if on_cpu else 250)
    parser.add_argument("--users", type=int, default=20_000 if on_cpu else 100_000)
    parser.add_argument("--preset", default="tiny" if on_cpu else "benchmark")
    parser.add_argument("--vocabulary", type=int, default=500 if on_cpu else 10_000)
    parser.add_argument("--tokens", type=int, default=40 if on_cpu else 1_600, help="the most tokens a person")
    parser.add_argument("--precision", default="float32" if on_cpu else "bf16")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        words = tuple(f"w{number}" for number in range(arguments.vocabulary - FIRST_WORD))
        people = People(arguments.users, arguments.vocabulary, arguments.tokens)
        save_users(people, store, source="made up", vocabulary=Vocabulary(words, word_list("made up")))
        for cohort in arguments.cohorts:
            here = Path(folder) / str(cohort)
            here.mkdir()
            print(json.dumps(case(arguments, store, cohort, here)), flush=True)


if __name__ == "__main__":
    main()
