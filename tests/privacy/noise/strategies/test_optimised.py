"""Optimised strategies beat the tree on Gboard's rows, cannot be improved nearby, and a cache that is only a convenience."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.files import user_cache
from tacit.privacy.noise.strategies import BandedToeplitz, BufferedToeplitz, Strategy, Tree, optimised
from tacit.privacy.noise.strategies import cache as cache_module
from tacit.privacy.noise.strategies.optimise import _buffered_loss, _Loss, optimise_banded, optimise_buffered
from tacit.privacy.participation.limits import Gap

# Gboard, Table 1: rounds, MinS, MaxP of pt-PT and es-AR.
SMALL_ROWS = [(530, 54, 8), (640, 90, 5)]


def error(strategy: Strategy, rounds: int, gap: Gap, most: int) -> float:
    """The prefix error of a run with ρ = 1/2."""
    return strategy.prefix_rmse(rounds) * strategy.sensitivity(rounds, gap, most).squared ** 0.5


@pytest.mark.parametrize(("rounds", "between", "most"), SMALL_ROWS)
def test_at_equal_rho_the_tree_has_at_least_1_6_times_the_error(rounds: int, between: int, most: int):
    gap = Gap(between)
    tree = error(Tree(), rounds, gap, most)
    for strategy in (optimise_buffered(rounds, gap, most), optimise_banded(rounds, gap, most)):
        assert strategy.sensitivity(rounds, gap, most).exact
        assert tree / error(strategy, rounds, gap, most) >= 1.6


def test_nearby_coefficients_are_no_better():
    rounds, gap, most = 200, Gap(29), 5
    chance = np.random.default_rng(1)
    blt, band = optimise_buffered(rounds, gap, most), optimise_banded(rounds, gap, most)
    for size in (1e-1, 1e-2):
        for _ in range(20):
            theta = np.array(blt.theta) * (1 - size * chance.random(len(blt.theta)))
            omega = np.array(blt.omega) * np.exp(size * chance.standard_normal(len(blt.omega)))
            other = BufferedToeplitz(tuple(theta), tuple(omega / max(1, omega.sum())), rounds)
            assert error(other, rounds, gap, most) > error(blt, rounds, gap, most) * (1 - 1e-5)
            moved = np.array(band.coefficients[1:]) * (1 + size * chance.standard_normal(len(band.coefficients) - 1))
            near = BandedToeplitz((1.0, *moved), rounds)
            assert error(near, rounds, gap, most) > error(band, rounds, gap, most) * (1 - 1e-5)


def test_the_gradient_is_the_slope():
    loss = _Loss(60, Gap(6), 4)
    start = np.array(BandedToeplitz((1.0, 0.5, 0.4, 0.3), 60).column(60))

    def value(column: np.ndarray) -> tuple[float, np.ndarray]:
        return loss(column, BandedToeplitz(tuple(column), 60).inverse_column(60))

    for lag in (1, 3, 20, 59):
        step = np.eye(60)[lag] * 1e-6
        slope = (value(start + step)[0] - value(start - step)[0]) / 2e-6
        assert value(start)[1][lag] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_gradient_by_a_blts_free_numbers_is_the_slope():
    loss = _Loss(80, Gap(11), 5)
    free = np.array([-0.5, 1.0, 4.0, -1.0, 0.3, -2.0])
    gradient = _buffered_loss(loss, free)[1]
    for index in range(6):
        step = np.eye(6)[index] * 1e-6
        slope = (_buffered_loss(loss, free + step)[0] - _buffered_loss(loss, free - step)[0]) / 2e-6
        assert gradient[index] == pytest.approx(slope, rel=1e-5)


def test_what_is_minimised_is_sensitivity_times_error():
    for rounds, between, most in ((60, 6, 4), (61, 0, 61), (50, 80, 3)):
        blt = BufferedToeplitz((0.3, 0.95), (0.3, 0.2), rounds)
        found = _Loss(rounds, Gap(between), most)(blt.column(rounds), blt.inverse_column(rounds))[0]
        assert np.exp(found / 2) == pytest.approx(error(blt, rounds, Gap(between), most))


def test_a_cap_on_bands_is_kept_and_costs_accuracy():
    rounds, gap, most = 200, Gap(39), 4
    wide, narrow = optimise_banded(rounds, gap, most), optimise_banded(rounds, gap, most, most_bands=5)
    assert (len(wide.coefficients), len(narrow.coefficients)) == (40, 5)
    assert error(narrow, rounds, gap, most) > 1.1 * error(wide, rounds, gap, most)


@pytest.mark.parametrize("name", ["tree", "blt", "banded"])
@pytest.mark.parametrize(("rounds", "between", "most"), [(1, 0, 1), (2, 0, 2), (3, 7, 2), (25, 0, 25), (25, 30, 1)])
def test_every_shape_of_run_has_a_strategy(name: str, rounds: int, between: int, most: int, tmp_path: Path):
    strategy = optimised(name, rounds, Gap(between), most, folder=tmp_path)
    independent = BandedToeplitz((1.0,), rounds)
    if name != "tree":
        assert error(strategy, rounds, Gap(between), most) <= error(independent, rounds, Gap(between), most) * 1.001


class TestCache:
    def ask(self, folder: Path, name: str = "blt") -> Strategy:
        return optimised(name, 60, Gap(9), 3, folder=folder)

    @pytest.fixture
    def searches(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """One entry for each search made."""
        made: list[str] = []

        def counted(*args: object, **named: object) -> Strategy:
            made.append("blt")
            return optimise_buffered(*args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(cache_module, "optimise_buffered", counted)
        return made

    def test_a_second_question_is_answered_from_the_folder(self, tmp_path: Path, searches: list[str]):
        first = self.ask(tmp_path)
        assert self.ask(tmp_path) == first
        assert len(searches) == 1
        assert [each.suffix for each in tmp_path.iterdir()] == [".json"]

    def test_a_max_participation_that_the_gap_makes_no_difference_to_is_the_same_question(
        self, tmp_path: Path, searches
    ):
        assert optimised("blt", 60, Gap(9), 6, folder=tmp_path) == optimised("blt", 60, Gap(9), 600, folder=tmp_path)
        assert len(searches) == 1

    @pytest.mark.parametrize(
        "damage",
        [
            lambda text: text[: len(text) // 2],
            lambda text: "",
            lambda text: "[]",
            lambda text: "[" * 100_000,
            lambda text: text.replace('"participations": 3', '"participations": 2'),
            lambda text: text.replace('"horizon": 60', '"horizon": 61'),
            lambda text: text.replace('"theta": [', '"theta": [1.5, '),
            lambda text: json.dumps({**json.loads(text), "description": {"strategy": "tree", "horizon": 60}}),
        ],
    )
    def test_a_damaged_or_foreign_file_is_passed_over_and_mended(self, tmp_path: Path, searches, damage):
        first = self.ask(tmp_path)
        (file,) = tmp_path.iterdir()
        kept = file.read_text()
        file.write_text(damage(kept))
        assert self.ask(tmp_path) == first
        assert len(searches) == 2
        assert file.read_text() == kept

    def test_cost_comes_from_the_coefficients_whatever_a_file_says(self, tmp_path: Path):
        self.ask(tmp_path)
        (file,) = tmp_path.iterdir()
        stored = json.loads(file.read_text())
        stored["description"] |= {"theta": [0.99], "omega": [0.9], "sensitivity_squared": 1e-9}
        file.write_text(json.dumps(stored))
        worse = self.ask(tmp_path)
        assert worse == BufferedToeplitz((0.99,), (0.9,), 60)
        assert worse.sensitivity(60, Gap(9), 3).squared > 100

    def test_a_folder_that_cannot_be_written_is_no_mistake(self, tmp_path: Path):
        blocked = tmp_path / "file"
        blocked.write_text("")
        assert self.ask(blocked / "below").name == "blt"

    def test_the_folder_is_the_users(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        optimised("banded", 20, Gap(4), 2)
        assert len(list((tmp_path / "tacit" / "strategies").iterdir())) == 1
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert user_cache("strategies") == Path.home() / ".cache" / "tacit" / "strategies"

    def test_progress_is_told(self, tmp_path: Path):
        told: list[str] = []
        optimised("blt", 30, Gap(4), 2, folder=tmp_path, progress=told.append)
        assert told[0].startswith("blt, buffers: 1")


@pytest.mark.parametrize(
    ("name", "rounds", "most", "bands"),
    [("helix", 9, 1, None), ("blt", 0, 1, None), ("tree", 9, 0, None), ("banded", 9, 1, 0)],
)
def test_impossible_questions_are_refused(name: str, rounds: int, most: int, bands: int | None, tmp_path: Path):
    with pytest.raises(PrivacyError, match="Expected"):
        optimised(name, rounds, Gap(1), most, most_bands=bands, folder=tmp_path)
