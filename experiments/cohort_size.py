"""Does accuracy depend on the noise on the mean alone? Small and large rounds with the same noise on the mean.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary-private 10000 --key-file experiments/people.key --out stores/scotus
    python experiments/cohort_size.py --only scotus --minutes 8              (DP-FedAvg, Figure 7)
    python experiments/cohort_size.py --only world --at-once 5 --minutes 8   (Gboard, section 2.2)
    python experiments/cohort_size.py --report

An epsilon "at scale" stands on this assumption: a run with few people a round shows the accuracy of a run with more people a
round and as much more noise. Real text: 100 against 1,250 people a round. The keyboard world, a million people, of whom nobody
takes part more than five times: 500 against 6,500 a round. Lines go to docs/experiments/cohort_size/results.jsonl.
"""

from __future__ import annotations

from pathlib import Path

from grid import Case, main

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "cohort_size" / "results.jsonl"
SCOTUS, WORLD = HERE / "cohort_size_scotus.toml", HERE / "cohort_size_world.toml"


def scotus(cohort: int, z: float, seed: int = 1) -> Case:
    """People a round and the noise multiplier; the noise on the mean is z · S / cohort."""
    noise = ["privacy.mechanism=none", "privacy.noise_multiplier=0.0"] if z == 0 else [f"privacy.noise_multiplier={z}"]
    changes = (f"privacy.cohort={cohort}", *noise, f"run.seed={seed}")
    return Case(f"scotus-{cohort}-z{z:g}-s{seed}", SCOTUS, changes)


def world(cohort: int, z: float, repeat: int = 1) -> Case:
    """The same for the keyboard world. Noise is fresh in every run, so each states a guarantee of its own."""
    noise = ["privacy.mechanism=none", "privacy.noise_multiplier=0.0"] if z == 0 else [f"privacy.noise_multiplier={z}"]
    changes = (f"privacy.cohort={cohort}", *noise, f"engine.chunk={min(cohort, 1_625)}")
    return Case(f"world-{cohort}-z{z:g}-r{repeat}", WORLD, changes)


# The most wanted first; the long ones begin first where several run at a time.
CASES = [
    scotus(100, 0.08),
    scotus(1_250, 1.0),
    scotus(100, 0.0),
    scotus(100, 1.0),
    scotus(100, 0.08, seed=2),
    scotus(1_250, 1.0, seed=2),
    scotus(1_250, 0.0),
    world(6_500, 7.0),
    world(6_500, 7.0, repeat=2),
    world(6_500, 35.0),
    world(6_500, 0.0),
    world(500, 0.54),
    world(500, 0.54, repeat=2),
    world(500, 2.7),
    world(500, 7.0),
    world(500, 0.0),
]


if __name__ == "__main__":
    from figures import cohort_size_report

    main(__doc__, CASES, RESULTS, cohort_size_report)
