"""The ledger: nothing that was appended is lost, nothing that was changed goes unnoticed."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.errors import LedgerError, PrivacyError, RunError
from tacit.files import is_being_written
from tacit.privacy.record import ledger as module
from tacit.privacy.record.ledger import LedgerWriter, read_ledger, repair_torn_tail
from tacit.privacy.record.records import (
    FRESH_NOISE,
    Closed,
    Committed,
    Record,
    Resumed,
    canonical,
    to_json,
)
from tests.support.ledger_records import intent, opened

STORY: list[Record] = [
    opened(),
    intent(0),
    intent(1),
    Committed(2, "c" * 64),
    intent(2),
    Resumed(2, [[2, 0]], FRESH_NOISE),
    intent(2, 1),
    Closed(3, "stopped"),
    Resumed(3, [], FRESH_NOISE),
    Committed(3, "d" * 64),
    Closed(3, "finished"),
]


def write(path: Path, records: list[Record]) -> Path:
    with LedgerWriter.create(path, records[0]) as writer:  # type: ignore[arg-type]
        for record in records[1:]:
            writer.append(record)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_a_story_is_read_as_it_was_written(path: Path) -> None:
    ledger = read_ledger(write(path, STORY))
    assert list(ledger.records) == STORY
    assert ledger.torn == 0
    assert [json.loads(line)["seq"] for line in path.read_bytes().splitlines()] == list(range(len(STORY)))
    assert ledger.opened == STORY[0]
    assert ledger.closed == STORY[-1]
    assert ledger.next_round == 3


def test_a_round_that_ran_twice_is_released_twice(path: Path) -> None:
    ledger = read_ledger(write(path, STORY))
    assert [(each.round, each.attempt) for each in ledger.releases()] == [(0, 0), (1, 0), (2, 0), (2, 1)]
    assert ledger.attempts(2) == 2
    assert ledger.attempts(7) == 0
    assert [(each.round, each.attempt) for each in ledger.uncommitted()] == [(2, 0)]


def test_going_back_to_an_older_checkpoint_gives_up_what_was_committed(path: Path) -> None:
    records: list[Record] = [opened(), intent(0), Committed(1, "a"), intent(1), intent(2), Committed(3, "b")]
    with LedgerWriter.create(path, opened()) as writer:
        for record in records[1:]:
            writer.append(record)
        assert writer.ledger.uncommitted() == ()
        assert writer.ledger.lost_from(1) == [[1, 0], [2, 0]]
        before = writer.ledger
        writer.append(Resumed(1, writer.ledger.lost_from(1), FRESH_NOISE))
        assert [(each.round, each.attempt) for each in writer.ledger.uncommitted()] == [(1, 0), (2, 0)]
        assert writer.ledger.rounds_committed == 1
        assert before.rounds_committed == 3  # a snapshot stays what it was
        writer.append(intent(1, 1))
        assert writer.ledger.next_round == 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.dictionaries(st.text(), json_values, max_size=4),
    bound=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    denominator=st.floats(allow_nan=False, allow_infinity=False),
    name=st.text(),
)
def test_any_record_round_trips_exactly(
    path: Path, plan: dict[str, Any], bound: float | None, denominator: float, name: str
) -> None:
    path.unlink(missing_ok=True)
    blocks = {name: {"bound": bound, "noise_multiplier": 0.1 + 0.2}}
    records = [opened(plan=plan, unit=name), intent(0, sampling=plan, blocks=blocks, denominator=denominator)]
    ledger = read_ledger(write(path, records))
    assert list(ledger.records) == records
    read = ledger.intents[0]
    assert math.copysign(1, read.denominator) == math.copysign(1, denominator)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinite_numbers_are_refused_and_nothing_is_written(path: Path, value: float) -> None:
    with LedgerWriter.create(path, opened()) as writer:
        before = path.read_bytes()
        with pytest.raises(PrivacyError, match="finite"):
            writer.append(intent(0, denominator=value))
        assert path.read_bytes() == before
        writer.append(intent(0))


def test_a_field_of_the_wrong_type_is_a_bug() -> None:
    with pytest.raises(TypeError, match=r"Intent.round"):
        intent(True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lost"):
        Resumed(0, [(1, 2)], FRESH_NOISE)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (opened(), "begins with"),
        (intent(4), "expected an intent of round 3"),
        (intent(1, 1), "expected an intent of round 3"),
        (intent(3, 1), "attempt 0"),
        (intent(2, 0), "attempt 1"),
        (intent(3, blocks={"update": {"bound": 1.0}}), "noise_multiplier"),
        (Committed(4, "c"), "at most 3"),
        (Resumed(4, [], FRESH_NOISE), "resume at round 3"),
        (Resumed(1, [[2, 0]], FRESH_NOISE), "lost"),
        (Resumed(3, [], "the same noise again"), "policy"),
        (Closed(3, "gave up"), "outcome"),
        (Closed(2, "finished"), "round 3"),
    ],
)
def test_records_that_cannot_be_true_are_refused(path: Path, record: Record, reason: str) -> None:
    write(path, [opened(), intent(0), intent(1), intent(2)])
    before = path.read_bytes()
    with LedgerWriter.open(path) as writer, pytest.raises(LedgerError, match=reason):
        writer.append(record)
    assert path.read_bytes() == before


def test_a_cohort_that_was_given_up_counts_and_its_round_is_tried_again(path: Path) -> None:
    ledger = read_ledger(write(path, [opened(), intent(0), intent(0, 1), intent(1)]))
    assert len(ledger.releases()) == 3
    assert ledger.lost_from(0) == [[0, 1], [1, 0]]


@pytest.mark.parametrize("outcome", ["finished", "diverged"])
def test_an_ended_run_takes_no_more(path: Path, outcome: str) -> None:
    write(path, [opened(), Closed(0, outcome)])
    with LedgerWriter.open(path) as writer, pytest.raises(LedgerError, match="closed"):
        writer.append(Resumed(0, [], FRESH_NOISE))


@pytest.mark.parametrize("line", range(len(STORY)))
def test_a_changed_byte_in_any_line_is_found(path: Path, line: int) -> None:
    lines = write(path, STORY).read_bytes().splitlines(keepends=True)
    for position in range(0, len(lines[line]) - 1, 7):
        changed = bytearray(lines[line])
        changed[position] ^= 1
        damaged = b"".join([*lines[:line], bytes(changed), *lines[line + 1 :]])
        path.write_bytes(damaged)
        with pytest.raises(LedgerError, match=rf"line {line + 1}\b"):
            read_ledger(path)
        with pytest.raises(LedgerError):
            repair_torn_tail(path)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("line", range(len(STORY) - 1))
def test_a_missing_repeated_or_moved_line_is_found(path: Path, line: int) -> None:
    lines = write(path, STORY).read_bytes().splitlines(keepends=True)
    swapped = [*lines[:line], lines[line + 1], lines[line], *lines[line + 2 :]]
    for damaged in ([*lines[:line], *lines[line + 1 :]], [*lines[: line + 1], *lines[line:]], swapped):
        path.write_bytes(b"".join(damaged))
        where = rf"line ({line + 1}|{line + 2}): expected seq .* missing, repeated or moved"
        with pytest.raises(LedgerError, match=where):
            read_ledger(path)


def test_a_line_exchanged_for_a_well_formed_one_is_found(path: Path, tmp_path: Path) -> None:
    lines = write(path, [opened(), intent(0), intent(1)]).read_bytes().splitlines(keepends=True)
    milder = intent(0, blocks={"update": {"bound": 0.1, "noise_multiplier": 9.0}})
    others = write(tmp_path / "other", [opened(), milder, intent(1)]).read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + others[1] + lines[2])
    with pytest.raises(LedgerError, match="line 3"):
        read_ledger(path)


def test_other_whitespace_is_damage_too(path: Path) -> None:
    lines = write(path, STORY).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b",", b", ", 1), *lines[2:]]))
    with pytest.raises(LedgerError, match="line 2"):
        read_ledger(path)


def test_a_last_line_cut_anywhere_is_torn_and_repaired(path: Path) -> None:
    whole = write(path, STORY[:5]).read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for end in range(start + 1, len(whole) - 1, 5):
        path.write_bytes(whole[:end])
        ledger = read_ledger(path)
        assert list(ledger.records) == STORY[:4]
        assert ledger.torn == end - start
        assert path.read_bytes() == whole[:end]  # reading changes nothing
        sentence = repair_torn_tail(path)
        assert sentence is not None
        assert f"{end - start} bytes" in sentence
        assert path.read_bytes() == whole[:start]
        sidecar = path.with_name("ledger.jsonl.torn")
        assert sidecar.read_bytes() == whole[start:end]
        sidecar.unlink()
        assert repair_torn_tail(path) is None
    with LedgerWriter.open(path) as writer:
        writer.append(STORY[4])
    assert path.read_bytes() == whole


def test_a_whole_record_without_its_line_end_is_kept(path: Path) -> None:
    whole = write(path, STORY[:5]).read_bytes()
    path.write_bytes(whole[:-1])
    assert list(read_ledger(path).records) == STORY[:5]
    assert "line end" in str(repair_torn_tail(path))
    assert path.read_bytes() == whole


def test_a_last_line_with_holes_is_torn(path: Path) -> None:
    whole = write(path, STORY[:5]).read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    path.write_bytes(whole[:start] + b"\0" * 50 + whole[start + 50 :])
    assert list(read_ledger(path).records) == STORY[:4]
    assert repair_torn_tail(path) is not None
    assert path.read_bytes() == whole[:start]


def test_a_creation_cut_short_begins_again_and_a_begun_one_does_not(path: Path) -> None:
    path.write_bytes(b'{"adjacency":"add')
    with pytest.raises(LedgerError, match="never began"):
        read_ledger(path)
    write(path, [opened()])
    with pytest.raises(RunError, match="has begun"):
        LedgerWriter.create(path, opened())
    assert list(read_ledger(path).records) == [opened()]
    with pytest.raises(LedgerError, match="There is no ledger"):
        LedgerWriter.open(path.with_name("nothing"))
    with pytest.raises(LedgerError, match="There is no ledger"):
        read_ledger(path.with_name("nothing"))


def test_two_processes_cannot_write_the_same_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    with LedgerWriter.create(path, opened()):
        assert is_being_written(path)
        code = "import pathlib, sys, tacit.privacy.record.ledger as ledger; ledger.LedgerWriter.open(pathlib.Path(sys.argv[1]))"
        other = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert "RunError: Another process is writing" in other.stderr
        with pytest.raises(RunError, match="Another process"):
            repair_torn_tail(path)
        assert read_ledger(path).next_round == 0
    assert not is_being_written(path)
    LedgerWriter.open(path).close()


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize(("number", "word"), [(errno.ENOSPC, "Disk full"), (errno.EIO, "Cannot write")])
def test_a_disk_that_fails_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, word: str
) -> None:
    writer = LedgerWriter.create(path, opened())
    writer.append(intent(0))
    before = path.read_bytes()
    real = os.write

    def fail(descriptor: int, data: Any = b"") -> int:
        if call == "write" and len(data) > 10:
            return real(descriptor, data[:10])  # half a line gets through
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(RunError, match=word):
            writer.append(intent(1))
    assert path.read_bytes() == before
    with pytest.raises(LedgerError, match="closed"):
        writer.append(intent(1))
    with LedgerWriter.open(path) as again:
        again.append(intent(1))


def test_append_syncs_before_it_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real_write, real_sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda d, b: (order.append("write"), real_write(d, b))[1])
    monkeypatch.setattr(os, "fsync", lambda d: (order.append("fsync"), real_sync(d))[1])
    with LedgerWriter.create(path, opened()) as writer:
        assert order == ["fsync", "write", "fsync"]  # the folder's entry, then the line
        writer.append(intent(0))
    assert order == ["fsync", "write", "fsync", "write", "fsync"]


VICTIM = """
import sys
from pathlib import Path
from tests.support.ledger_records import intent
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.records import FRESH_NOISE, Resumed

writer = LedgerWriter.open(Path(sys.argv[1]))
ledger = writer.ledger
writer.append(Resumed(ledger.next_round, [], FRESH_NOISE))
round = ledger.next_round
while True:
    writer.append(intent(round, sampling={"kind": "poisson", "padding": "x" * 20000}))
    print(round, flush=True)
    round += 1
"""


@pytest.mark.process
def test_kill_9_in_the_middle_of_appends(path: Path) -> None:
    write(path, [opened()])
    shown: list[int] = []
    root = Path(__file__).parents[3]
    for _ in range(6):
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, path],
            stdout=subprocess.PIPE,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            text=True,
        )
        assert victim.stdout is not None
        shown.append(int(victim.stdout.readline()))
        time.sleep(0.02)
        victim.send_signal(signal.SIGKILL)
        shown += [int(line) for line in victim.stdout.read().splitlines()]
        victim.stdout.close()
        victim.wait()
        assert [each.round for each in read_ledger(path).intents][: len(shown)] == shown
        repair_torn_tail(path)
        rounds = [each.round for each in read_ledger(path).intents]
        assert rounds[: len(shown)] == shown
        assert len(rounds) <= len(shown) + 1  # one that was durable, and killed before it was shown
        shown = rounds
    assert len(shown) > 12


def test_the_ledger_needs_no_jax() -> None:
    code = "import sys, tacit.privacy.record.ledger, tacit.privacy.participation.log; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_ledger_of_a_later_format_is_not_read_as_if_it_were_ours(path: Path) -> None:
    with pytest.raises(LedgerError, match="its format is 99"):
        LedgerWriter.create(path, opened(format=99))
    content = to_json(opened(format=99)) | {"seq": 0, "previous": "0" * 64}
    digest = hashlib.sha256(canonical(content)).hexdigest()
    path.write_bytes(canonical(content | {"digest": digest}) + b"\n")
    with pytest.raises(LedgerError, match="its format is 99"):
        read_ledger(path)
