"""The runs of docs/experiments/keyboard.md: FedAvg, DP-FedAvg and DP-FTRL on real people, at the size of the papers' models.

    python experiments/corpora.py --data DATA scotus                     (its top says what it needs)
    python experiments/real_epsilon.py --only scotus-eps4 scotus-eps8    (the private run, and the pre-trained model)
    python experiments/keyboard.py --minutes 8                           (again, until it says that all is done)
    python experiments/keyboard_replay.py                                (then everybody types with each model)

Every run has the words, the public pre-training and the people of experiments/real_epsilon.py. dp_fedavg and dp_ftrl have
the noise on the mean that 6,500 of 4 million devices a round would have at epsilon 2, delta 1e-7, over as many rounds, words
not counted; fedavg is clipped as they are and has no noise. The number at the end of a name tells repeated runs apart.
"""

from __future__ import annotations

from pathlib import Path

from corpora import CORPORA
from corpora import RUNS as REAL_EPSILON_RUNS
from grid import Case, main
from real_epsilon import NO_NOISE, RECIPE

CORPUS = CORPORA["scotus"]
RUNS = Path("runs/keyboard")
RESULTS = Path(__file__).parent.parent / "docs" / "experiments" / "keyboard" / "results.jsonl"

ROUNDS, COHORT = 4_000, 100
DEVICES, DEVICES_A_ROUND = 4_000_000, 6_500
# Of the large fleet at epsilon 2, delta 1e-7 and 4,000 rounds; docs/experiments/keyboard.md gives the commands.
BLT_NOISE, POISSON_NOISE = 16.03, 0.7363
AT_SCALE = (f"scale.population={DEVICES}", f"scale.cohort={DEVICES_A_ROUND}", "scale.delta=1e-7")
# 8,800 people take turns of 88 rounds; a fleet of 4 million has 400 rounds between two participations without waiting.
TURNS = ("privacy.sampling=check_in", "privacy.min_separation=80", "engine.chunk=100")
TURNS_AT_SCALE = ("scale.min_separation=400", "scale.max_participation=10")


def scaled(noise: float) -> str:
    """The same noise on the mean of the small cohort."""
    return f"privacy.noise_multiplier={noise * COHORT / DEVICES_A_ROUND!r}"


# Without noise, many rounds of few people: the settings of experiments/real_epsilon.py.
BASE = (*NO_NOISE, f"privacy.cohort={COHORT}", f"run.rounds={ROUNDS}", "server.learning_rate=2.5", "engine.chunk=130")
METHODS: dict[str, tuple[str, ...]] = {
    "fedavg": (),
    "dp_ftrl": ("privacy.mechanism=blt", scaled(BLT_NOISE), *TURNS, *AT_SCALE, *TURNS_AT_SCALE),
    "dp_fedavg": ("privacy.mechanism=gaussian", "privacy.sampling=poisson", scaled(POISSON_NOISE), *AT_SCALE),
}
FIRST_PRODUCTION = "production-fedavg-1"


def cases() -> list[Case]:
    """The runs, the most wanted first. All runs of a model start from the same pre-trained one."""
    made = []
    for repeat in (1, 2):
        for method, changes in METHODS.items():
            reuse = f"pretrain.reuse={REAL_EPSILON_RUNS / 'scotus-eps4'}"
            made.append(Case(f"{method}-{repeat}", RECIPE, (*CORPUS.changes(), *BASE, *changes, reuse)))
    for repeat in (1, 2):
        for method, changes in METHODS.items():
            name = f"production-{method}-{repeat}"
            reuse = () if name == FIRST_PRODUCTION else (f"pretrain.reuse={RUNS / FIRST_PRODUCTION}",)
            preset = "model.preset=production"
            made.append(Case(name, RECIPE, (*CORPUS.changes(), *BASE, *changes, preset, *reuse)))
    return made


CASES = cases()


if __name__ == "__main__":
    from keyboard_replay import print_runs

    main(__doc__, CASES, RESULTS, print_runs)
