"""The checker's ε of random sampled rounds, beside the true δ: never below the truth, and a thousandth above it at most.

So it is at most a thousandth above every other upper bound, such as Tacit's. With `--accountants` Tacit's ε is computed too: it
is no smaller than the truth, and the checker's is at most a thousandth above it. The tests check some. To check many:

    python -m tests.support.checker_truth --settings 3000
    python -m tests.support.checker_truth --settings 600 --accountants
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter

import numpy as np
from scipy import special

from tacit.privacy.accounting.sampled_gaussian import SampledRounds, sampled_epsilon
from tests.support.checker import checker
from tests.support.contour import Sampled

# Settings of a larger ε are not drawn again: nobody states one.
LARGEST_EPSILON = 50.0
# Of how many users a round of fixed size draws.
POPULATION = 1_000_000
# How well δ has to be known. Around one round, or where hardly anybody is drawn, the integral converges slowly.
KNOWN = 1e-6


def epsilon_of(setting: Sampled, delta: float) -> float:
    """The checker's, for one order of the neighbours."""
    reach = min(-float(special.ndtri(delta * 1e-7 / (setting.rounds + 1))), 36.0)
    pieces = [checker.Round(setting.order, setting.q, setting.z, setting.rounds, reach)]
    pieces += [checker.Round(0, 1.0, 1 / math.sqrt(2 * setting.rho), 1, reach)] if setting.rho else []
    with np.errstate(all="ignore"):
        return float(checker.composed_epsilon(pieces, delta))


def objection(setting: Sampled, delta: float) -> str | None:
    """What is wrong with the checker's answer; "unknown" where the truth is not known well enough, None if nothing is."""
    found = epsilon_of(setting, delta)
    if not 1e-2 < found < LARGEST_EPSILON:
        return "unknown"
    true, error = setting.delta(found)
    if error > KNOWN:
        return "unknown"
    if true > delta * (1 + KNOWN):
        return f"ε = {found:.9g} is too small: its δ is {true:.9g}"
    less = found - 1e-3 * max(1.0, found)
    if less > 0 and setting.delta(less)[0] < delta * (1 - KNOWN):
        return f"ε = {found:.9g} is too large: {less:.9g} has room to spare"
    return None


def disagreement(setting: Sampled, delta: float) -> str | None:
    """How Tacit's ε of both orders is below the truth, or the checker's of one of them above it; None if it is not."""
    kind: dict[str, object] = {"kind": "poisson", "probability": setting.q}
    if setting.order == 2:
        kind = {"kind": "fixed", "population": POPULATION, "size": round(setting.q * POPULATION)}
    tacits, _ = sampled_epsilon([SampledRounds(kind, setting.z, setting.rounds)], delta, rho=setting.rho)
    found = epsilon_of(setting, delta)
    if found > tacits + 1e-3 * max(1.0, tacits):
        return f"ε = {found:.9g} is above Tacit's {tacits:.9g}"
    true, error = setting.delta(tacits)
    if error < KNOWN and true > delta * (1 + KNOWN):
        return f"Tacit's ε = {tacits:.9g} is too small: its δ is {true:.9g}"
    return None


def random_setting(chance: random.Random) -> tuple[Sampled, float]:
    """Rounds of any kind, and a δ."""
    order, rho = chance.choice([0, 1, 2]), chance.choice([0.0, 0.0, 0.02])
    q, z = round(10 ** chance.uniform(-4, -0.05), 6), 10 ** chance.uniform(-0.3, 1.3)
    return Sampled(order, q, z, int(10 ** chance.uniform(0.5, 5.7)), rho), 10 ** chance.uniform(-12, -2)


def answers(seed: int, many: int, *, accountants: bool = False) -> Counter[str]:
    """How many of so many random settings are right, and how many are unknown; AssertionError at the first that is wrong."""
    chance, seen = random.Random(seed), Counter[str]()
    for _ in range(many):
        setting, delta = random_setting(chance)
        wrong = objection(setting, delta)
        if wrong is None and accountants:
            wrong = disagreement(setting, delta)
        assert wrong in (None, "unknown"), (setting, delta, wrong)
        seen[wrong or "right"] += 1
    return seen


def main() -> None:
    """Draw settings until so many are known; fails at the first that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--settings", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--accountants", action="store_true", help="compare with Tacit's, too")
    given = parser.parse_args()
    seen, seed = Counter[str](), given.seed
    while seen["right"] < given.settings:
        seen += answers(seed, 50, accountants=given.accountants)
        seed += 1
        print(f"{seen['right']:,} settings are right, {seen['unknown']:,} were left out", flush=True)
    print(f"{seen['right']:,} settings: never below the truth, and a thousandth above it at most.")


if __name__ == "__main__":
    main()
