"""The curves around a recommended row: ρ and ε over report goal, population, rounds and MinS (Gboard's Figure 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.participation.limits import Gap, most_participations
from tacit.privacy.planning.costs import MECHANISMS, independent_prefix_rmse, poisson_epsilon, rho_of_epsilon
from tacit.privacy.planning.planner import POISSON, Question, Row, widest_gap

# A curve of any other would take a search a point.
INSTANT = ("tree", "gaussian")
POINTS = 40
# A curve that takes a search for each point has fewer. Those over report goals share their searches.
SEARCHED_POINTS, FEWEST_POINTS = 13, 8
FACTORS = (0.25, 0.5, 1, 2, 4)
# Longer trees take the search for their sensitivity too long to draw a curve; the plan's own is drawn all the same.
MOST_ROUNDS_BESIDE = 8000
EPSILONS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class PlanCurves:
    """ρ and ε as functions of report goal, population, rounds and MinS, at the noise on the mean of one row."""

    def __init__(self, question: Question, row: Row) -> None:
        self.question, self.row = question, row
        self.mechanism = row.mechanism if row.mechanism in INSTANT else "tree"
        # Whether the row's mechanism has a curve of its own, a search for each point, beside those of `mechanism`.
        self.searched = row.mechanism in MECHANISMS and row.mechanism not in INSTANT
        self.population, self.rounds = question.devices.population, question.rounds
        widest = widest_gap(self.population, row.report_goal, self.rounds)
        self.gap = widest if row.min_separation is None else Gap(row.min_separation)
        sustained = self.population // row.report_goal
        self.share = 1.0 if self.gap == widest else self.gap.index_difference / sustained
        rhos = {each: rho_of_epsilon(each, question.delta) for each in EPSILONS}
        self.epsilon_marks = {each: rho for each, rho in rhos.items() if rho > 0}
        own = MECHANISMS[self.mechanism](self.rounds, self.gap, self._most(self.rounds, self.gap))
        self._noise_on_mean = row.prefix_error / own.prefix_rmse

    def noise(self, goal: int) -> float:
        """The noise multiplier at a report goal."""
        return self._noise_on_mean * goal

    def held_gap(self, goal: int, population: int, rounds: int) -> Gap:
        """The row's share of the widest gap."""
        return Gap.of_index_difference(max(1, min(rounds, round(self.share * (population // goal)))))

    def rounds_beside(self) -> Iterator[tuple[int, int, bool]]:
        """Several numbers of rounds, with their place among FACTORS and whether they are the plan's own."""
        for place, factor in enumerate(FACTORS):
            rounds = max(1, round(factor * self.rounds))
            if factor <= 1 or rounds <= MOST_ROUNDS_BESIDE:
                yield rounds, place, factor == 1

    def rho(self, goal: int, gap: Gap, rounds: int) -> float:
        """ρ of the row's mechanism with these settings and the MaxP they allow."""
        cost = MECHANISMS[self.mechanism](rounds, gap, self._most(rounds, gap))
        return gaussian_rho(self.noise(goal), cost.sensitivity_squared)

    def epsilon(self, mechanism: str, goal: int) -> float:
        """ε of another mechanism, at the noise of the same prefix error."""
        gap, delta = self.held_gap(goal, self.population, self.rounds), self.question.delta
        if mechanism == POISSON:
            z = self._error(goal, gap) / independent_prefix_rmse(self.rounds)
            return poisson_epsilon(goal / self.population, z, self.rounds, delta)
        return epsilon_of_gaussian(self.rho_of(mechanism, goal, gap), delta)

    def rho_of(self, mechanism: str, goal: int, gap: Gap) -> float:
        """ρ of another mechanism at the plan's rounds, at the noise of the same prefix error."""
        cost = MECHANISMS[mechanism](self.rounds, gap, self._most(self.rounds, gap))
        return gaussian_rho(self._error(goal, gap) / cost.prefix_rmse, cost.sensitivity_squared)

    def _error(self, goal: int, gap: Gap) -> float:
        """The noise in running sums that `mechanism` has at a report goal, in clips."""
        return self.noise(goal) * MECHANISMS[self.mechanism](self.rounds, gap, self._most(self.rounds, gap)).prefix_rmse

    def goals(self, points: int = POINTS) -> list[int]:
        """Report goals from a sixteenth of the row's to four times it, as far as there are users; the row's is one of them."""
        goal = self.row.report_goal
        return sorted({goal, *spread(max(1, goal / 16), min(4 * goal, self.population / 2), points)})

    def _most(self, rounds: int, gap: Gap) -> int:
        limit = self.question.devices.max_participation
        return most_participations(rounds, gap, rounds if limit is None else limit)


def spread(low: float, high: float, points: int = POINTS) -> list[int]:
    """Whole numbers spread evenly on a logarithmic scale."""
    spread: Iterable[float] = np.geomspace(low, max(low, high), points)
    return sorted({max(1, round(each)) for each in spread})
