"""A sealed message cannot be read, changed, or used for another purpose, round or process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import FleetError, RunError
from tacit.fleet.rounds.partial_sums import PartialSum, pack_sum, unpack_sum
from tacit.fleet.wire.sealing import make_secret, open_secret, seal, unseal

SECRET, ROUND, PROCESS = bytes(range(32)), "a" * 32, "b" * 32
SHAPES = ((3, 2), (4,))


def a_sum() -> PartialSum:
    found = PartialSum(1.0, SHAPES, False)
    found.admit(7, np.full(10, 0.1, np.float32), 0.5, 1)
    found.admit(2**40, np.full(10, -0.2, np.float32), 1.0, -1)
    return found


def test_what_is_sealed_comes_back_and_looks_different_each_time() -> None:
    sealed = [seal(SECRET, b"numbers", purpose="sum", round_id=ROUND, process=PROCESS) for _ in range(2)]
    assert sealed[0] != sealed[1]
    assert all(b"numbers" not in each for each in sealed)
    assert {unseal(SECRET, each, purpose="sum", round_id=ROUND, process=PROCESS) for each in sealed} == {b"numbers"}


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": bytes(32)},
        {"purpose": "other"},
        {"round_id": "c" * 32},
        {"process": "c" * 32},
    ],
)
def test_nothing_opens_for_another_secret_purpose_round_or_process(changes: dict) -> None:
    values = {"secret": SECRET, "purpose": "sum", "round_id": ROUND, "process": PROCESS}
    sealed = seal(SECRET, b"numbers", purpose="sum", round_id=ROUND, process=PROCESS)
    with pytest.raises(FleetError, match="not sealed"):
        unseal(sealed=sealed, **(values | changes))


def test_no_byte_can_be_changed_added_or_left_out() -> None:
    sealed = seal(SECRET, b"numbers", purpose="sum", round_id=ROUND, process=PROCESS)
    forged = [sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :] for place in range(len(sealed))]
    for each in (*forged, sealed[:-1], sealed + b"\0", b"", os.urandom(64)):
        with pytest.raises(FleetError, match="not sealed"):
            unseal(SECRET, each, purpose="sum", round_id=ROUND, process=PROCESS)


def test_a_partial_sum_survives_its_bytes() -> None:
    found, back = a_sum(), unpack_sum(pack_sum(a_sum()), PartialSum(1.0, SHAPES, False))
    np.testing.assert_array_equal(found.update, back.update)
    assert (back.weight, back.bits, back.devices) == (found.weight, found.bits, [7, 2**40])
    back.merge(PartialSum(1.0, SHAPES, False))  # it can be added to


def test_a_partial_sum_of_another_model_is_refused() -> None:
    with pytest.raises(FleetError, match="partial sum of 3 entries"):
        unpack_sum(pack_sum(a_sum()), PartialSum(1.0, ((3,),), False))


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = make_secret(path)
    assert len(made) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert make_secret(path) == open_secret(path) == made
    path.chmod(0o640)
    with pytest.raises(RunError, match="chmod 600"):
        open_secret(path)


@pytest.mark.parametrize("content", ["", "ab", "x" * 64])
def test_a_file_without_a_secret_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(FleetError, match="64 hexadecimal digits"):
        open_secret(path)
    with pytest.raises(FleetError, match="does not exist"):
        open_secret(tmp_path / "none")
