"""The participation record: exact, bound to the ledger, and for the owner's eyes."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import LedgerError, PrivacyError, RunError
from tacit.privacy.participation.log import (
    ParticipationWriter,
    _next_record,
    _pack,
    participations,
    read,
    repair_torn_tail,
    verified,
    verify,
)
from tacit.privacy.record.ledger import Ledger, LedgerWriter, read_ledger
from tacit.privacy.record.records import FRESH_NOISE, Resumed
from tests.support.ledger_records import intent, opened

COHORTS = [[3, 1, 2], [], [0, 700_000], [5]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "participation.bin"


def write_both(path: Path, cohorts: list[list[int]] = COHORTS) -> Ledger:
    ledger_path = path.with_name("ledger.jsonl")
    with LedgerWriter.create(ledger_path, opened()) as ledger, ParticipationWriter(path) as record:
        for round, users in enumerate(cohorts):
            ledger.append(intent(round, participation=record.append(round, 0, users)))
    return read_ledger(ledger_path)


@settings(max_examples=100)
@given(
    users=st.sets(st.integers(0, 2**62), max_size=50) | st.sets(st.integers(0, 300), max_size=200),
    round=st.integers(0, 2**32 - 1),
    attempt=st.integers(0, 2**32 - 1),
)
def test_any_cohort_round_trips(
    tmp_path_factory: pytest.TempPathFactory, users: set[int], round: int, attempt: int
) -> None:
    path = tmp_path_factory.mktemp("record") / "p"
    path.write_bytes(_pack(round, attempt, np.array(sorted(users), dtype=np.int64), bytes(16)))
    with path.open("rb") as file:
        cohort = _next_record(file)
        assert _next_record(file) is None
    assert cohort is not None
    assert (cohort.round, cohort.attempt, cohort.users.tolist()) == (round, attempt, sorted(users))


def test_what_is_written_is_read_in_order_and_fits_the_ledger(path: Path) -> None:
    ledger = write_both(path)
    assert [cohort.users.tolist() for cohort in read(path)] == [sorted(users) for users in COHORTS]
    assert [cohort.digest for cohort in verified(path, ledger)] == [each.participation for each in ledger.intents]
    verify(path, ledger)
    assert participations(verified(path, ledger), 700_001)[[0, 1, 5, 6, 700_000]].tolist() == [1, 1, 1, 0, 1]
    with pytest.raises(LedgerError, match="beyond the population"):
        participations(read(path), 700_000)


def test_a_cohort_is_compact(path: Path) -> None:
    users = np.flatnonzero(np.random.default_rng(0).random(500_000) < 0.01)
    with ParticipationWriter(path) as record:
        record.append(0, 0, users)
    assert path.stat().st_size < 1.6 * len(users)  # bytes a user; a gap here carries about 8 bits
    assert next(read(path)).users.tolist() == users.tolist()


def test_the_same_cohort_has_another_digest_each_time(path: Path) -> None:
    with ParticipationWriter(path) as record:
        digests = {record.append(0, 0, [1, 2, 3]) for _ in range(20)}
    assert len(digests) == 20
    content = path.read_bytes()
    unsalted = {hashlib.sha256(_pack(0, 0, np.array([1, 2, 3]), bytes(16))[:-32]).hexdigest()}
    assert digests.isdisjoint(unsalted)
    assert content.count(b"TPR1") == 20


@pytest.mark.parametrize("users", [[1, 2, 1], [-1, 2]])
def test_nobody_takes_part_twice(path: Path, users: list[int]) -> None:
    with ParticipationWriter(path) as record, pytest.raises(PrivacyError, match="distinct"):
        record.append(0, 0, users)
    assert path.stat().st_size == 0


def test_only_the_owner_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = write_both(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    for use in (lambda: list(read(path)), lambda: verify(path, ledger), lambda: ParticipationWriter(path)):
        with pytest.raises(RunError, match="chmod 600"):
            use()


def test_any_changed_byte_is_found(path: Path) -> None:
    ledger = write_both(path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(LedgerError):
            verify(path, ledger)
        with pytest.raises(LedgerError):
            repair_torn_tail(path, ledger)
        assert path.read_bytes() == damaged


def test_a_missing_moved_or_foreign_cohort_is_found(path: Path, tmp_path: Path) -> None:
    ledger = write_both(path)
    ends = _ends(path)
    whole = path.read_bytes()
    pieces = [whole[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    (tmp_path / "other").mkdir()
    write_both(tmp_path / "other" / "p")
    for changed in (
        pieces[1:],
        pieces[:-1],
        [pieces[0], pieces[2], pieces[1], pieces[3]],
        [pieces[0], *pieces],
        [(tmp_path / "other" / "p").read_bytes()],
        [],
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(LedgerError):
            verify(path, ledger)
    path.unlink()
    with pytest.raises(LedgerError, match="There is no participation record"):
        verify(path, ledger)


def test_a_cut_ledger_is_found_by_its_cohorts(path: Path) -> None:
    write_both(path)
    ledger_path = path.with_name("ledger.jsonl")
    lines = ledger_path.read_bytes().splitlines(keepends=True)
    ledger_path.write_bytes(b"".join(lines[:-1]))  # as after a crash between record and intent
    verify(path, read_ledger(ledger_path))
    ledger_path.write_bytes(b"".join(lines[:-2]))
    with pytest.raises(LedgerError, match="the ledger was cut"):
        verify(path, read_ledger(ledger_path))


def test_a_cohort_without_its_intent_is_harmless_where_a_run_was_resumed(path: Path) -> None:
    ledger_path = path.with_name("ledger.jsonl")
    with LedgerWriter.create(ledger_path, opened()) as ledger, ParticipationWriter(path) as record:
        ledger.append(intent(0, participation=record.append(0, 0, [1])))
        record.append(1, 0, [2])  # killed here
        ledger.append(Resumed(0, [[0, 0]], FRESH_NOISE))
        ledger.append(intent(0, 1, participation=record.append(0, 1, [3])))
        ledger.append(intent(1, 0, participation=record.append(1, 0, [4])))
        verify(path, ledger.ledger)
        assert [each.users.tolist() for each in verified(path, ledger.ledger)] == [[1], [3], [4]]
        record.append(2, 0, [5])  # somebody was asked without an intent
        ledger.append(intent(2, 0, participation=record.append(2, 0, [6])))
        with pytest.raises(LedgerError, match="another cohort"):
            verify(path, ledger.ledger)


def test_a_crash_excuses_nothing_after_the_next_intent(path: Path) -> None:
    with LedgerWriter.create(path.with_name("ledger.jsonl"), opened()) as ledger, ParticipationWriter(path) as record:
        ledger.append(Resumed(0, [], FRESH_NOISE))
        ledger.append(intent(0, participation=record.append(0, 0, [1])))
        record.append(1, 0, [2])
        ledger.append(intent(1, participation=record.append(1, 0, [3])))
        with pytest.raises(LedgerError, match="another cohort"):
            verify(path, ledger.ledger)


def test_a_cohort_recorded_for_another_round_is_found(path: Path) -> None:
    with LedgerWriter.create(path.with_name("ledger.jsonl"), opened()) as ledger, ParticipationWriter(path) as record:
        ledger.append(intent(0, participation=record.append(5, 0, [1])))
        with pytest.raises(LedgerError, match="recorded for round 5"):
            verify(path, ledger.ledger)


def test_a_torn_record_is_repaired_and_a_needed_one_is_not(path: Path) -> None:
    ledger = write_both(path)
    whole = path.read_bytes()
    with ParticipationWriter(path) as record:
        record.append(4, 0, [7, 8, 9])
    longer = path.read_bytes()
    for end in range(len(whole) + 1, len(longer)):
        path.write_bytes(longer[:end])
        assert f"{end - len(whole)} bytes" in str(repair_torn_tail(path, ledger))
        assert path.read_bytes() == whole
    sidecar = path.with_name("participation.bin.torn")
    assert stat.S_IMODE(sidecar.stat().st_mode) == 0o600
    assert repair_torn_tail(path, ledger) is None

    path.write_bytes(whole[:-1])
    with pytest.raises(LedgerError, match="lacks the cohort of round 3"):
        repair_torn_tail(path, ledger)
    assert path.read_bytes() == whole[:-1]


def test_a_run_killed_before_its_first_round_needs_no_record(path: Path) -> None:
    with LedgerWriter.create(path.with_name("ledger.jsonl"), opened()) as ledger:
        assert repair_torn_tail(path, ledger.ledger) is None


def test_a_full_disk_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ParticipationWriter(path)
    record.append(0, 0, [1])
    before = path.read_bytes()
    real = os.write

    def fail(descriptor: int, data: memoryview) -> int:
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(RunError, match="Disk full"):
            record.append(1, 0, [2])
    assert path.read_bytes() == before
    with pytest.raises(LedgerError, match="closed"):
        record.append(1, 0, [2])


def _ends(path: Path) -> list[int]:
    ends = []
    with path.open("rb") as file:
        while _next_record(file) is not None:
            ends.append(file.tell())
    return ends
