"""What every accountant promises; an accountant's own test inherits this and says how to ask it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

SLACK = 1e-9  # rounding, never more


class AccountantContract:
    """Inherit, and define `epsilon`."""

    population, rounds, noise, delta = 2_000, 40, 2.0, 1e-6

    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        raise AssertionError("an accountant's test says how to ask it")

    def ask(self, **changes: float) -> float:
        settings = {"population": self.population, "rounds": self.rounds, "noise": self.noise, "delta": self.delta}
        return self.epsilon(**(settings | changes))  # type: ignore[arg-type]

    def test_epsilon_is_a_positive_number(self) -> None:
        assert type(self.ask()) is float
        assert 0 < self.ask() < math.inf

    @pytest.mark.parametrize(
        ("name", "values"),
        [("noise", (0.7, 1.0, 2.0, 2.1, 5.0)), ("delta", (1e-10, 1e-6, 2e-6, 1e-2)), ("population", (200, 2000, 9999))],
    )
    def test_more_noise_a_larger_delta_and_more_people_never_cost_privacy(
        self, name: str, values: tuple[float, ...]
    ) -> None:
        found = [self.ask(**{name: value}) for value in values]
        for before, after in pairwise(found):
            assert after <= before * (1 + SLACK)
        if name != "population":  # without sampling it does not enter
            assert found[-1] < found[0]

    def test_fewer_rounds_never_cost_privacy(self) -> None:
        found = [self.ask(rounds=rounds) for rounds in (1, 2, 7, 39, 40, 200)]
        for fewer, more in pairwise(found):
            assert fewer <= more * (1 + SLACK)
        assert found[0] < found[-1]

    def test_no_noise_is_infinite(self) -> None:
        assert self.ask(noise=0.0) == math.inf


class RhoContract(AccountantContract):
    """Inherit where there is a ρ, and define `rho` too."""

    def rho(self, *, rounds: int, noise: float) -> float:
        """ρ of rounds in which a user may take part as often as they like."""
        raise AssertionError("an accountant's test says how to ask it")

    def test_rho_adds_up(self) -> None:
        one, other, both = (self.rho(rounds=rounds, noise=self.noise) for rounds in (8, 32, 40))
        assert 0 < one < other
        assert one + other == pytest.approx(both, rel=1e-12)
