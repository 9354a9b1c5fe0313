"""The epsilons that the papers print for sampled users, by their own conventions and proven: arithmetic, without training.

    python experiments/privacy_numbers.py

Writes docs/experiments/privacy_numbers/results.json; `python experiments/pages.py` then renders the page's tables. Gboard's
Tables 1 and 2 have a script of their own, experiments/gboard_privacy.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tacit.privacy.accounting.conventions import moments_epsilon, without_replacement_epsilon
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, sampled_epsilon

RESULTS = Path(__file__).parent.parent / "docs" / "experiments" / "privacy_numbers" / "results.json"
Sampling = Literal["poisson", "fixed"]


@dataclass(frozen=True)
class Printed:
    """One epsilon of a paper, with what it was computed from. `z` is σ over the bound on one user's share."""

    item: str
    what: str
    sampling: Sampling
    users: int
    cohort: int
    z: float
    rounds: int
    delta: float
    printed: float

    def by_convention(self) -> float:
        """As the paper counts."""
        if self.sampling == "poisson":
            return moments_epsilon(self.cohort / self.users, self.z, self.rounds, self.delta)
        return without_replacement_epsilon(self.users, self.cohort, self.z, self.rounds, self.delta)

    def proven(self) -> float:
        """The bound that Tacit states for the sampling that the paper names. With rounds of a fixed size it is for replacing a
        user, whose sums differ by two bounds."""
        if self.sampling == "poisson":
            return self.if_poisson()
        return self._bound({"kind": "fixed", "size": self.cohort, "population": self.users})

    def if_poisson(self) -> float:
        """The bound if as many users were drawn by Poisson sampling, for adding or removing one."""
        return self._bound({"kind": "poisson", "probability": self.cohort / self.users})

    def _bound(self, law: dict[str, Any]) -> float:
        return sampled_epsilon([SampledRounds(law, self.z, self.rounds)], self.delta)[0]


# DP-FedAvg, Table 1: users, users a round, z, and epsilon after 1, 10, ..., 10^6 rounds, at delta = 1 / users^1.1.
TABLE_1 = (
    (10**5, 10**2, 1.0, (0.97, 0.98, 1.00, 1.07, 1.18, 2.21, 7.50)),
    (10**6, 10**1, 1.0, (0.68, 0.69, 0.69, 0.69, 0.69, 0.72, 0.73)),
    (10**6, 10**3, 1.0, (1.17, 1.17, 1.20, 1.28, 1.39, 2.44, 8.13)),
    (10**6, 10**4, 1.0, (1.73, 1.92, 2.08, 3.06, 8.49, 32.38, 187.01)),
    (10**6, 10**3, 3.0, (0.47, 0.47, 0.48, 0.48, 0.49, 0.67, 1.95)),
    (10**9, 10**3, 1.0, (0.84, 0.84, 0.84, 0.85, 0.88, 0.88, 0.88)),
)
REDDIT = 763_430
# DP-FedAvg, Table 2: σ, S, users, users a round, epsilon after 5,000 rounds at delta 1e-9; there z = σ · users a round / S.
TABLE_2 = (
    (0.003, 15, REDDIT, 5_000, 4.634),
    (0.006, 10, REDDIT, 1_667, 2.314),
    (0.012, 15, REDDIT, 1_250, 2.038),
    (0.003, 15, 10**8, 5_000, 1.152),
    (0.006, 10, 10**8, 1_667, 0.991),
    (0.012, 15, 10**8, 1_250, 0.987),
)
TEXT = "DP-FedAvg, in the text"
# Production, Table 5: millions of users.
TABLE_5 = ((2, 9.86), (3, 6.73), (4, 5.36), (5, 4.54), (10, 3.27))


# Debugging, section 5, Tables 3 and 13 ("realistic", z = 1): users in the selection, users a round, rounds, delta, epsilon.
SCENARIOS: tuple[tuple[str, int, int, int, float, float], ...] = (
    ("section 5, all users", 342_477, 5_000, 2_000, 1 / 342_477, 9.22),
    ("Figure 3a, accurate users", 250_000, 1_000, 1_000, 4e-8, 2.38),
    ("Figure 3b, inaccurate users", 1_250_000, 1_000, 1_000, 8e-9, 1.48),
    ("Figure 6, a quarter of all", 500_000, 1_000, 1_000, 2e-8, 1.79),
    ("Figure 7a, right examples", 1_708_824, 1_000, 1_000, 1 / 170_882_400, 1.47),
    ("Figure 7b, wrong examples", 1_964_706, 1_000, 1_000, 1 / 196_470_600, 1.40),
    ("Figure 8a, right, mended", 2_000_000, 1_000, 1_000, 5e-9, 1.39),
    ("Figure 8b, wrong, mended", 1_930_588, 1_000, 1_000, 1 / 193_058_800, 1.40),
)
DEBUGGING = "Debugging, section 5, Tables 3 and 13"


def numbers() -> Iterator[Printed]:
    """Every epsilon of the four papers, in their order."""
    for users, cohort, z, row in TABLE_1:
        for power, printed in enumerate(row):
            what = f"{users:,} users, {cohort:,} a round, z = {z:g}"
            yield Printed("DP-FedAvg, Table 1", what, "poisson", users, cohort, z, 10**power, users**-1.1, printed)
    for sigma, norm, users, cohort, printed in TABLE_2:
        what = f"σ = {sigma}, S = {norm}, {users:,} users, {cohort:,} a round"
        yield Printed("DP-FedAvg, Table 2", what, "poisson", users, cohort, 1.0, 5_000, 1e-9, printed)
    yield Printed(TEXT, "section 3: 1,250 users a round", "poisson", REDDIT, 1_250, 1.0, 3_000, 1e-9, 1.97)
    yield Printed(TEXT, "appendix D: FedSGD, 5,000 a round", "poisson", REDDIT, 5_000, 1.0, 3_000, 1e-9, 3.81)
    yield Printed(TEXT, "appendix D: FedSGD, 5,000 a round", "poisson", REDDIT, 5_000, 1.0, 20_000, 1e-9, 8.92)
    for millions, printed in TABLE_5:
        users = millions * 10**6
        yield Printed(
            "Production, Table 5", f"{millions} million users", "fixed", users, 20_000, 0.8, 2_000, users**-1.1, printed
        )
    for what, users, cohort, rounds, delta, printed in SCENARIOS:
        yield Printed(DEBUGGING, what, "fixed", users, cohort, 1.0, rounds, delta, printed)
    what = "392,000 users, 5,000 a round; the paper prints no z, and 1 is assumed"
    yield Printed("Memorization, Tables 2, 5, 6", what, "fixed", 392_000, 5_000, 1.0, 8_000, 1e-7, 18.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results")
    options = parser.parse_args()
    found = []
    for each in numbers():
        bounds = {"by_convention": each.by_convention(), "proven": each.proven(), "if_poisson": each.if_poisson()}
        found.append(asdict(each) | bounds)
        print(f"{each.item}: {each.what}, {each.rounds:,} rounds: {each.printed} printed,", bounds, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
