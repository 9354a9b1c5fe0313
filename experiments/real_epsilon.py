"""Accuracy against epsilon on real people, everything included: words, pre-training, training.

    python experiments/public_words.py en > stores/english.txt
    tacit data import commits_en.jsonl.gz irc_ubuntu_en.jsonl.gz stackexchange_small_en.jsonl.gz \\
        --user user --text sentences --vocabulary stores/english.txt --out stores/public_text
    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences --vocabulary stores/english.txt \\
        --held-out 0.0432 --key-file experiments/people.key --out stores/scotus
    tacit data vocabulary --private stores/scotus --words stores/english.txt --epsilon 0.4 --population 8800 \\
        --out runs/real_epsilon/scotus-words
    python experiments/real_epsilon.py --minutes 8        (again, until it says that all is done)
    python experiments/real_epsilon.py --report

Every epsilon is that of the whole run, its words included, at delta = 1e-5, for all the data of any one person (add or remove
one), and `tacit guarantee` of the run prints it. Lines go to docs/experiments/real_epsilon/results.jsonl.
"""

from __future__ import annotations

from pathlib import Path

from grid import Case, main

HERE = Path(__file__).parent
RECIPE = HERE / "real_epsilon.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "real_epsilon" / "results.jsonl"

NO_NOISE = ("privacy.mechanism=none", "privacy.noise_multiplier=0.0")
# By epsilon: rounds, and the rate of the server.
TARGETS = {1: (60, 1.5), 2: (60, 2.0), 4: (90, 2.0), 8: (120, 2.0)}
FIRST = "scotus-eps8"


def scotus(epsilon: float | None, rounds: int, rate: float) -> Case:
    """The pre-trained model is that of the first case: words and public text are the same in all."""
    name = "scotus-no-noise" if epsilon is None else f"scotus-eps{epsilon:g}"
    changes = (f"run.rounds={rounds}", f"server.learning_rate={rate}", *(NO_NOISE if epsilon is None else ()))
    reuse = () if name == FIRST else (f"pretrain.reuse=runs/real_epsilon/{FIRST}",)
    return Case(name, RECIPE, (*changes, *reuse), epsilon)


CASES = [scotus(epsilon, *settings) for epsilon, settings in sorted(TARGETS.items(), reverse=True)] + [
    scotus(None, 200, 3.0)
]


if __name__ == "__main__":
    from figures import real_epsilon_report

    main(__doc__, CASES, RESULTS, real_epsilon_report)
