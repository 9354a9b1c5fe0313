"""`tacit account` on audited runs: made-up users were drawn too, in the real users' way or at a rate of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.privacy.participation.samplers import OwnRate
from tests.support.commands import Tacit
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

REAL, HELD_OUT = 60, 4


@pytest.fixture
def audited(tacit: Tacit, here: Path) -> Any:
    """Trains on a store of sixty users with two hundred coins, most of whom come up in some round."""
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    sentences = [[[4 + (user + word) % 50 for word in range(5)]] * 4 for user in range(REAL + HELD_OUT)]
    save_users(ListUsers(sentences), here / "store", source="test", vocabulary=words, key=KEY)

    def train(*plant: object, out: str = "run", **privacy: Any) -> Path:
        plan = {"population": REAL, "cohort": 20, "delta": 1e-5, "noise_multiplier": 2.0, **privacy}
        recipe = tiny(privacy=plan, data={"world": None, "store": "store", "held_out": HELD_OUT})
        (here / "recipe.toml").write_text(recipe.to_toml())
        planted = tacit(
            "audit", "plant", "recipe.toml", "--devices", 0, "--coins", 200, "--copies", 2, "--out", f"{out}.json", *plant
        )  # fmt: skip
        assert planted.code == 0, planted.err
        trained = tacit("train", "recipe.toml", "--set", f"audit.plan={out}.json", "--out", out)
        assert trained.code == 0, trained.err
        return here / out

    return train


@pytest.mark.parametrize(
    ("plant", "privacy", "said"),
    [
        ((), {}, "the cohorts agree with the stated sampling"),
        pytest.param(
            (),
            {"sampling": "fixed", "population": REAL},
            "the cohorts agree with the stated sampling",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("--device-rate", 0.5), {}, "and those of made-up users with their own rate", marks=pytest.mark.slow
        ),
    ],
)
def test_an_audited_run_is_accounted(
    tacit: Tacit, audited: Any, plant: tuple[object, ...], privacy: dict[str, Any], said: str
) -> None:
    audited(*plant, **privacy)
    alone = tacit("account", "run", "run", "--json").object
    assert alone["epsilon"] > 0
    assert said in alone["cohorts"]
    assert tacit("account", "compose", "run", "--json").object["epsilon"] == pytest.approx(alone["epsilon"], rel=0.05)
    total = tacit("account", "odometer", "store", "--json").object
    assert alone["epsilon"] < total["epsilon"] < 1.5 * alone["epsilon"]  # what an odometer costs
    assert total["reasons_not_private"] == []
    assert tacit("guarantee", "run", "--json").object["epsilon"] is not None


@pytest.mark.parametrize(
    ("people", "others", "whose"),
    [(0.9, 0.5, "The cohorts of the real users"), (None, 0.9, "The cohorts of the made-up users")],
)
def test_a_sampler_that_did_something_else_is_caught_among_made_up_users_too(
    tacit: Tacit, audited: Any, monkeypatch: pytest.MonkeyPatch, people: float | None, others: float, whose: str
) -> None:
    """The ledger says q = 1/3 for real users and 1/2 for made-up ones; the sampler draws with other probabilities."""

    def sample(self: OwnRate, draws: Any) -> Any:
        rate = self.sampler.probability if people is None else people  # type: ignore[attr-defined]
        chances = np.where(np.arange(len(draws)) < self.people, rate, others)
        return np.flatnonzero(draws / 2.0**64 < chances).astype(np.int64)

    monkeypatch.setattr(OwnRate, "sample", sample)
    audited("--device-rate", 0.5)
    sentence = tacit("account", "run", "run").refusal(4)
    assert sentence.startswith(whose)
    assert "are not those of the sampling in the ledger" in sentence


def test_where_the_store_is_gone_made_up_users_with_their_own_rate_cannot_be_told_apart(
    tacit: Tacit, audited: Any
) -> None:
    run = audited("--device-rate", 0.5)
    (run.parent / "store").rename(run.parent / "moved")
    said = tacit("account", "run", "run", "--json").object
    assert said["epsilon"] > 0
    assert "they could not be compared with the sampling, because made-up users" in said["cohorts"]


def test_a_user_beyond_all_that_there_are_is_still_refused(tacit: Tacit, audited: Any, monkeypatch: Any) -> None:
    run = audited()
    monkeypatch.setattr("tacit.runs.evidence.training_users", lambda *_: 20)
    assert "names a user beyond the 220 there are" in tacit("account", "run", run).refusal(4)
