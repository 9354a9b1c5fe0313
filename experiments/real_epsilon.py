"""Accuracy against epsilon on real people, everything included: words, pre-training, training.

    python experiments/corpora.py --data DATA scotus             (its top says what it needs)
    python experiments/real_epsilon.py --only scotus --minutes 8     (again, until it says that all is done)
    python experiments/real_epsilon_ngrams.py scotus
    python experiments/real_epsilon.py --report

and the same for irc, pooled and spanish. Every epsilon is that of the whole run, its words included, at delta = 1e-5, for all
the data of any one person (add or remove one), and `tacit guarantee` of the run prints it. Lines go to
docs/experiments/real_epsilon/results.jsonl.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from corpora import CORPORA, RUNS, Corpus
from grid import Case, main

HERE = Path(__file__).parent
RECIPE = HERE / "real_epsilon.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "real_epsilon" / "results.jsonl"

EPSILONS: tuple[float | None, ...] = (4, 8, 2, 1, None)
# Rounds, the first rate of the server, which falls to a quarter of it, the most people in a round, and the average's decay.
# What decides is the noise on the mean: people times epsilon. These are for the people of SCOTUS at this epsilon, and for other
# numbers of people at as much noise or less. With so much noise, drawing fewer people in more rounds costs next to nothing.
FOR_PEOPLE, MOST = 8_800, 8_400


class Settings(NamedTuple):
    rounds: int
    rate: float
    people: int = MOST
    decay: float = 0.8


SETTINGS: dict[float, Settings] = {
    6: Settings(300, 3.0, people=4_200, decay=0.9),
    3: Settings(60, 5.0),
    1.5: Settings(50, 4.0),
    0.75: Settings(40, 2.0),
    0.3: Settings(30, 1.0),
    0: Settings(20, 0.5),
}
WITHOUT_NOISE = (1_000, 3.0)
# SCOTUS is the largest corpus of one kind of text, and goes on learning for longer.
ROUNDS_WITHOUT_NOISE = {"scotus": 3_000}
# Without noise a cohort need not be large: many rounds of few people train further in the same time.
NO_NOISE = (
    "privacy.mechanism=none",
    "privacy.noise_multiplier=0.0",
    "privacy.cohort=200",
    "server.final=0.1",
    "server.average_decay=0.98",
    "run.evaluate_every=500",
    "run.checkpoint_every=500",
    "engine.chunk=256",
)


def case(corpus: Corpus, epsilon: float | None) -> Case:
    """A run. All runs of a corpus have the same words and public text, so that the first one's pre-trained model serves all."""
    name, first = name_of(corpus, epsilon), name_of(corpus, EPSILONS[0])
    chosen = without_noise(corpus) if epsilon is None else with_noise(corpus, epsilon)
    reuse = () if name == first else (f"pretrain.reuse={RUNS / first}",)
    return Case(name, RECIPE, (*corpus.changes(), *chosen, *reuse), epsilon)


def without_noise(corpus: Corpus) -> tuple[str, ...]:
    rounds, rate = WITHOUT_NOISE
    return (f"run.rounds={ROUNDS_WITHOUT_NOISE.get(corpus.name, rounds)}", f"server.learning_rate={rate}", *NO_NOISE)


def with_noise(corpus: Corpus, epsilon: float) -> tuple[str, ...]:
    """What follows from the number of people and epsilon: a choice by public numbers alone."""
    alike = epsilon * corpus.population / FOR_PEOPLE
    found = next(found for least, found in SETTINGS.items() if alike >= least)
    return (
        f"privacy.cohort={min(corpus.cohort, found.people)}",
        f"run.rounds={found.rounds}",
        f"server.learning_rate={found.rate}",
        f"server.average_decay={found.decay}",
    )


def name_of(corpus: Corpus, epsilon: float | None) -> str:
    return f"{corpus.name}-no-noise" if epsilon is None else f"{corpus.name}-eps{epsilon:g}"


CASES = [case(corpus, epsilon) for corpus in CORPORA.values() if corpus.name != "stand-ins" for epsilon in EPSILONS]


if __name__ == "__main__":
    from figures import real_epsilon_report

    main(__doc__, CASES, RESULTS, real_epsilon_report)
