"""Several runs on the same users: read off ledgers, the missing tails charged, nothing claimed that one of them may not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.accounting.adaptive import adaptively_composed
from tacit.privacy.accounting.composition import Sampled
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.several_runs import PLANNED, THRESHOLDS, together
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.noise.tail import TAIL_SHARE
from tacit.privacy.record.facts import ReleaseSize
from tacit.privacy.record.ledger import Ledger, LedgerWriter, read_ledger
from tests.support.first_record import SEEDED
from tests.support.made_up_ledgers import intent, opened


def ledger(
    folder: Path, run_id: str, rounds: int = 20, *, sampling: dict[str, Any] | None = None, **changes: Any
) -> Ledger:
    path = folder / f"{run_id}.jsonl"
    with LedgerWriter.create(path, opened(run_id, **{"rounds": rounds, **changes})) as writer:
        for number in range(rounds):
            writer.append(intent(number, sampling))
    return read_ledger(path)


def test_runs_cost_what_one_run_of_all_their_rounds_does(tmp_path: Path) -> None:
    one, other = ledger(tmp_path, "a"), ledger(tmp_path, "b", 30)
    rounds = SampledRounds({"kind": "poisson", "probability": 0.01}, 2.0, 50)
    total = together([one, other])
    assert total.epsilon == epsilon([rounds], 1e-6 * (1 - TAIL_SHARE), "pld")
    assert (total.delta, total.releases, total.unit, total.adjacency) == (1e-6, 50, "user", "add or remove one user")
    assert together([one]).epsilon == spent_by(one.opened, one.intents).epsilon


def test_runs_that_were_chosen_by_looking_go_through_the_odometer(tmp_path: Path) -> None:
    runs = [ledger(tmp_path, "a"), ledger(tmp_path, "b", 30)]
    total = together(runs, adaptive=True)
    part = Sampled(SampledRounds({"kind": "poisson", "probability": 0.01}, 2.0, 50))
    left = (1 - THRESHOLDS) * 1e-6 * (1 - TAIL_SHARE)  # the rest is set aside for discoveries of words
    assert total.epsilon == pytest.approx(adaptively_composed([part], left).epsilon, abs=1e-6)
    assert total.epsilon > together(runs).epsilon
    assert PLANNED in together(runs).assumptions
    assert PLANNED not in total.assumptions
    refused = together([*runs, ledger(tmp_path, "c", reasons_not_private=(SEEDED,))], adaptive=True)
    assert (refused.epsilon, PLANNED in refused.assumptions) == (math.inf, False)


def test_delta_is_the_smallest_of_the_runs_or_the_one_asked_for(tmp_path: Path) -> None:
    runs = [
        ledger(tmp_path, name, plan={"delta": delta, "sampling": "poisson"})
        for name, delta in (("a", 1e-5), ("b", 1e-7))
    ]
    assert together(runs).delta == 1e-7
    assert together(runs, 1e-4).epsilon < together(runs).epsilon


def test_a_run_without_privacy_takes_it_from_all(tmp_path: Path) -> None:
    total = together([ledger(tmp_path, "a"), ledger(tmp_path, "b", reasons_not_private=(SEEDED,))])
    assert total.epsilon == math.inf
    assert total.reasons_not_private == (SEEDED.in_run("b"),)
    assert total.reasons_not_private[0].sentence.endswith("who knows the seed (run.seed) (run b)")


def test_the_missing_tails_add_up(tmp_path: Path) -> None:
    size = ReleaseSize(45 * 10**15 << 91, 1)
    one, other = (ledger(tmp_path, name, 1, release=size) for name in "ab")
    assert math.isfinite(together([one]).epsilon)
    total = together([one, other])
    perfect = epsilon([SampledRounds({"kind": "poisson", "probability": 0.01}, 2.0, 2)], 1e-6 * (1 - TAIL_SHARE), "pld")
    (reason,) = total.reasons_not_private
    assert total.epsilon == math.inf
    assert (
        f"at an epsilon of {perfect:.4g} the probability of such a draw costs more than delta allows" in reason.sentence
    )


def test_what_is_refused(tmp_path: Path) -> None:
    one = ledger(tmp_path, "a")
    with pytest.raises(PrivacyError, match="got the run a twice"):
        together([one, one])
    fixed = {"kind": "fixed", "size": 10, "population": 1000}
    other = ledger(tmp_path, "b", sampling=fixed, adjacency="replace one user")
    with pytest.raises(PrivacyError, match="Expected one adjacency"):
        together([one, other])
    with pytest.raises(PrivacyError, match="Expected one unit of privacy"):
        together([one, ledger(tmp_path, "c", unit="device")])


def test_an_unknown_sampling_claims_nothing(tmp_path: Path) -> None:
    total = together([ledger(tmp_path, "a"), ledger(tmp_path, "b", sampling={"kind": "shuffle"})])
    assert total.epsilon == math.inf
    assert "does not account for sampling of the kind shuffle (run b)" in total.reasons_not_private[0].sentence


PLAN = {"delta": 1e-6, "sampling": "check_in", "min_separation": 4, "max_participation": 5}


def unsampled(folder: Path, run_id: str) -> Ledger:
    """20 rounds of fresh noise with z = 2, in at most 4 of which one user can be."""
    return ledger(folder, run_id, sampling={"kind": "check_in"}, plan=PLAN, adjacency="zero out one user")


def test_runs_without_sampling_add_up_their_rho(tmp_path: Path) -> None:
    one, other = unsampled(tmp_path, "a"), unsampled(tmp_path, "b")
    assert together([one]).rho == 4 / 8
    total = together([one, other])
    assert total.rho == 1.0
    assert total.epsilon == epsilon_of_gaussian(1.0, 1e-6 * (1 - TAIL_SHARE))
    assert together([one]).epsilon == spent_by(one.opened, one.intents).epsilon


def test_what_the_cohorts_had_counts_in_place_of_the_promise(tmp_path: Path) -> None:
    one, other = unsampled(tmp_path, "a"), unsampled(tmp_path, "b")
    once = [np.array([round]) for round in range(20)]  # everybody came in one round
    assert together([one, other], cohorts={"a": once}).rho == 1 / 8 + 4 / 8
    often = [np.array([7]) for _ in range(20)]  # more often than promised: it shows in the number
    assert together([one, other], cohorts={"b": often}).rho == 4 / 8 + 20 / 8


def test_a_run_without_sampling_does_not_compose_with_a_sampled_one(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="'add or remove one user' and 'zero out one user'"):
        together([ledger(tmp_path, "a"), unsampled(tmp_path, "b")])
