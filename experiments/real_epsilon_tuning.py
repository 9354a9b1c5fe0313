"""Which settings train best under a given epsilon: tried on public stand-ins, so that no private person pays for the choice.

    python experiments/stand_ins.py DATA/commits_en.jsonl.gz > stores/stand_ins.jsonl
    python experiments/corpora.py --data DATA stand-ins          (its top says what it needs)
    python experiments/real_epsilon_tuning.py                    (again, until it says that all is done)
    python experiments/real_epsilon_tuning.py --report

Every run has the noise on the mean that the people of SCOTUS would have at the epsilon in its name, words included: there are
fewer stand-ins, so their noise multiplier is smaller in proportion. The stand-ins themselves are public and get no guarantee.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from corpora import CORPORA, RUNS
from grid import Case, Results, main
from real_epsilon import RECIPE

from tacit.recipe.target import at_epsilon
from tacit.recipe.training import load_recipe

RESULTS = Path(__file__).parent.parent / "docs" / "experiments" / "real_epsilon" / "tuning.jsonl"
PEOPLE, STAND_INS = CORPORA["scotus"], CORPORA["stand-ins"]
EVALUATION = ("run.evaluate_every=30", "run.evaluate_words=100000")

BASE = ("server.learning_rate=2.0",)
LINEAR = ("server.schedule=linear",)
# Noise on the mean is what counts here, far more than who is drawn: 250 people a round, with their share of the noise.
FEW = 250
FEW_PEOPLE = (f"privacy.cohort={FEW}", "engine.chunk=288")
CELL = ('work.trainable=["cell","output_bias"]',)
# By epsilon: a name for each variant, its rounds, and what is changed in the recipe.
VARIANTS: dict[float, dict[str, tuple[int, tuple[str, ...]]]] = {
    4: {
        "base": (60, BASE),
        "linear": (60, ("server.learning_rate=4.0", *LINEAR)),
        "cell": (60, ("server.learning_rate=2.0", *CELL)),
        "clip0.2": (60, ("privacy.clip_norm=0.2", "server.learning_rate=4.0")),
        "clip0.8": (60, ("privacy.clip_norm=0.8", "server.learning_rate=1.0")),
        "local1": (60, (*BASE, "work.learning_rate=1.0")),
        "local0.25": (60, (*BASE, "work.learning_rate=0.25")),
        "rate1": (60, ("server.learning_rate=1.0",)),
        "rounds30": (30, ("server.learning_rate=4.0", *LINEAR)),
        "adam": (60, ("server.optimizer=adam", "server.learning_rate=0.003", *LINEAR)),
    },
    8: {
        "few-rounds60": (60, (*FEW_PEOPLE, "server.learning_rate=6.0", *LINEAR)),
        "few-rounds60-rate9": (60, (*FEW_PEOPLE, "server.learning_rate=9.0", *LINEAR)),
        "few": (150, (*FEW_PEOPLE, "server.learning_rate=6.0", *LINEAR)),
        "few-cell": (150, (*FEW_PEOPLE, "server.learning_rate=6.0", *LINEAR, *CELL)),
    },
    2: {
        "few": (50, (*FEW_PEOPLE, "server.learning_rate=4.0", *LINEAR)),
        "few-rounds25": (25, (*FEW_PEOPLE, "server.learning_rate=4.0", *LINEAR)),
        "few-rounds15": (15, (*FEW_PEOPLE, "server.learning_rate=4.0", *LINEAR)),
    },
    1: {
        "few-rounds20-rate4": (20, (*FEW_PEOPLE, "server.learning_rate=4.0", *LINEAR)),
        "few-rounds10": (10, (*FEW_PEOPLE, "server.learning_rate=2.0", *LINEAR)),
        "few-rounds10-rate4": (10, (*FEW_PEOPLE, "server.learning_rate=4.0", *LINEAR)),
        "few": (40, (*FEW_PEOPLE, "server.learning_rate=2.0", *LINEAR)),
        "base": (60, ("server.learning_rate=1.0",)),
        "linear": (60, ("server.learning_rate=2.0", *LINEAR)),
        "cell": (60, ("server.learning_rate=1.0", *CELL)),
        "rounds30": (30, ("server.learning_rate=2.0", *LINEAR)),
        "rate0.5": (60, ("server.learning_rate=0.5",)),
        "average": (60, ("server.learning_rate=1.0", "server.average=exponential")),
    },
}


@cache
def noise_of(epsilon: float, rounds: int) -> float:
    """The noise multiplier a person in a round that gives the noise on the mean of SCOTUS at this epsilon."""
    recipe = load_recipe(RECIPE, [*PEOPLE.changes(), f"run.rounds={rounds}"])
    noise = at_epsilon(recipe, epsilon).recipe.privacy.noise_multiplier
    return noise / PEOPLE.cohort


def case(epsilon: float, variant: str) -> Case:
    rounds, changes = VARIANTS[epsilon][variant]
    few = FEW_PEOPLE[0] in changes
    cohort = FEW if few else STAND_INS.cohort
    noise = (f"run.rounds={rounds}", f"privacy.noise_multiplier={noise_of(epsilon, rounds) * cohort:.4g}")
    name, first = f"tune-eps{epsilon:g}-{variant}", "tune-eps8-few-rounds60" if few else "tune-eps4-base"
    reuse = () if name == first else (f"pretrain.reuse={RUNS / first}",)
    return Case(name, RECIPE, (*STAND_INS.changes(), *EVALUATION, *noise, *changes, *reuse))


def report(results: Results, folder: Path) -> None:
    """Print what every variant reached."""
    print("| run | rounds | noise multiplier | top-1, papers | top-1, keyboard | before |\n|---|---|---|---|---|---|")
    for name, record in results.items():
        if "metrics" in record:
            metrics, before = record["metrics"], record["curve"][0][1]
            reached = f"{metrics['papers_top1']:.2%} | {metrics['top1']:.2%} | {before:.2%}"
            print(f"| {name} | {record['rounds']} | {record['noise_multiplier']:.3f} | {reached} |")


if __name__ == "__main__":
    CASES = [case(epsilon, variant) for epsilon, variants in VARIANTS.items() for variant in variants]
    main(__doc__, CASES, RESULTS, report)
