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

from corpora import CORPORA, RUNS, Corpus
from grid import Case, main

HERE = Path(__file__).parent
RECIPE = HERE / "real_epsilon.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "real_epsilon" / "results.jsonl"

# By epsilon: rounds, and the first rate of the server, which falls to a quarter of it.
SETTINGS: dict[float | None, tuple[int, float]] = {
    4: (60, 5.0),
    8: (150, 6.0),
    2: (50, 4.0),
    1: (40, 2.0),
    None: (1_200, 3.0),
}
# Without noise a cohort need not be large: many rounds of few people train further in the same time.
NO_NOISE = (
    "privacy.mechanism=none",
    "privacy.noise_multiplier=0.0",
    "privacy.cohort=400",
    "run.evaluate_every=200",
    "run.checkpoint_every=200",
)


def case(corpus: Corpus, epsilon: float | None) -> Case:
    """A run. All runs of a corpus have the same words and public text, so that the first one's pre-trained model serves all."""
    rounds, rate = SETTINGS[epsilon]
    name, first = name_of(corpus, epsilon), name_of(corpus, next(iter(SETTINGS)))
    changes = (f"run.rounds={rounds}", f"server.learning_rate={rate}", *(NO_NOISE if epsilon is None else ()))
    reuse = () if name == first else (f"pretrain.reuse={RUNS / first}",)
    return Case(name, RECIPE, (*corpus.changes(), *changes, *reuse), epsilon)


def name_of(corpus: Corpus, epsilon: float | None) -> str:
    return f"{corpus.name}-no-noise" if epsilon is None else f"{corpus.name}-eps{epsilon:g}"


CASES = [case(corpus, epsilon) for corpus in CORPORA.values() if corpus.name != "stand-ins" for epsilon in SETTINGS]


if __name__ == "__main__":
    from figures import real_epsilon_report

    main(__doc__, CASES, RESULTS, real_epsilon_report)
