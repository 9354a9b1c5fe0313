"""A witness signs only what continues everything it signed before: forged ledgers, races and kills included."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.errors import LedgerError, RunError
from tacit.secagg import keys
from tacit.transparency import witness as witness_module
from tacit.transparency.checkpoint import Checkpoint, PublicKey, signatures_in
from tacit.transparency.merkle import consistency_proof, is_consistent, leaf_hash, root
from tacit.transparency.submission import Submission
from tacit.transparency.witness import KEY, STATE, Refused, Witness, WitnessKey, allowed_keys
from tests.support.forging import records_of, write_records
from tests.support.made_runs import made_run
from tests.support.witnesses_at_rest import LOG, PRIVATE, TIME, leaves, submission, witness_in

RECORDS = leaves(*"abcdefgh")


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    found = witness_in(tmp_path / "home")
    found.introduce(LOG.text())
    return found


def status(witness: Witness, text: str) -> int:
    """What HTTP says of a submission."""
    try:
        witness.add_checkpoint(text)
    except Refused as why:
        return why.status
    return 200


def test_what_continues_is_signed_and_kept(witness: Witness) -> None:
    for old, new in ((0, 3), (3, 3), (3, 8)):
        sent = submission(RECORDS, old, size=new)
        signed = sent.head.with_signatures(signatures_in(witness.add_checkpoint(sent.text())))
        assert signed.is_signed_by(witness.key.public)
        assert signed.is_signed_by(LOG)
        assert signed.signatures[-1].time == TIME
        assert witness.latest(LOG.name) == signed
    assert witness.latest("tacit/run/other") is None


def test_every_refusal_has_the_status_of_the_specification(witness: Witness) -> None:
    assert status(witness, submission(RECORDS, 0, size=3).text()) == 200
    good = submission(RECORDS, 3, size=6)
    other = replace(good.head, origin="tacit/run/other").signed(LOG.name, PRIVATE)
    stranger = Checkpoint(LOG.name, 6, good.head.root).signed(LOG.name, bytes(32))
    assert status(witness, "nonsense") == 400
    assert status(witness, Submission(7, (), good.head).text()) == 400
    assert status(witness, Submission(3, good.proof, other).text()) == 404
    assert status(witness, Submission(3, good.proof, stranger).text()) == 403
    assert status(witness, Submission(3, good.proof, replace(good.head, signatures=())).text()) == 403
    assert status(witness, submission(RECORDS, 0, size=6).text()) == 409
    assert status(witness, submission(leaves(*"abx"), 3).text()) == 409  # the same size, another root
    assert status(witness, Submission(3, (), good.head).text()) == 422
    assert status(witness, Submission(3, good.proof[::-1], good.head).text()) == 422
    assert status(witness, submission(leaves(*"abxdef"), 3).text()) == 422
    assert status(witness, Submission(3, (*good.proof, bytes(32)), good.head).text()) == 422
    assert witness.latest(LOG.name).size == 3  # type: ignore[union-attr]
    assert status(witness, good.text()) == 200


def test_a_wrong_old_size_is_answered_with_the_right_one(witness: Witness) -> None:
    witness.add_checkpoint(submission(RECORDS, 0, size=4).text())
    with pytest.raises(Refused) as why:
        witness.add_checkpoint(submission(RECORDS, 2, size=6).text())
    assert why.value.size == 4


def test_an_empty_log_has_one_root(witness: Witness) -> None:
    assert status(witness, submission([], 0).text()) == 200
    forged = Checkpoint(LOG.name, 0, bytes(32)).signed(LOG.name, PRIVATE)
    assert status(witness, Submission(0, (), forged).text()) == 409
    assert status(witness, submission(RECORDS, 0).text()) == 200


def test_a_proof_from_nothing_must_be_empty(witness: Witness) -> None:
    assert status(witness, replace(submission(RECORDS, 0), proof=(bytes(32),)).text()) == 422


def test_signatures_of_strangers_are_left_out(witness: Witness) -> None:
    sent = submission(RECORDS, 0)
    forged = sent.head.countersigned(witness.key.name, bytes(32), time=TIME)  # in the witness's name
    witness.add_checkpoint(replace(sent, head=forged.signed("stranger", bytes(32))).text())
    found = witness.latest(LOG.name)
    assert found is not None
    assert [each.name for each in found.signatures] == [LOG.name, witness.key.name]


def test_the_log_of_somebody_else(tmp_path: Path) -> None:
    """With spaces in its origin, lines below its root and a signature of a kind that is not known here."""
    log = PublicKey("sum.example", keys.identity_public(PRIVATE))
    (tmp_path / "logs").write_text(f"# logs we sign for\n\n{log.text()} go.sum database tree\n{LOG.text()}\n")
    witness = witness_in(tmp_path / "home", first_use=False)
    for key, origin in allowed_keys([str(tmp_path / "logs")]):
        witness.allow(key, origin)
    head = Checkpoint("go.sum database tree", 8, root(RECORDS), (), ("a line of the log's own",)).signed(
        log.name, PRIVATE
    )
    text = Submission(0, (), head).text() + "— other.example AAAAAP8=\n"
    signed = head.with_signatures(signatures_in(witness.add_checkpoint(text)))
    assert signed.is_signed_by(witness.key.public)
    assert not replace(signed, extensions=()).is_signed_by(witness.key.public)
    assert status(witness, submission(RECORDS, 0).text()) == 200


def test_which_logs_may_introduce_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, open_ = witness_in(tmp_path / "closed", first_use=False), witness_in(tmp_path / "open")
    other = PublicKey(LOG.name, keys.identity_public(bytes(32)))
    for witness, text, expected in (
        (closed, LOG.text(), 403),
        (open_, "nonsense", 400),
        (open_, replace(LOG, name="example.com/log").text(), 403),
        (open_, replace(LOG, witness=True).text(), 403),
    ):
        with pytest.raises(Refused) as why:
            witness.introduce(text)
        assert why.value.status == expected
    open_.introduce(LOG.text())
    open_.introduce(LOG.text())
    with pytest.raises(Refused, match="by another key"):
        open_.introduce(other.text())
    monkeypatch.setattr(witness_module, "MOST_FIRST_USES", 1)
    with pytest.raises(Refused, match="no more logs"):
        open_.introduce(replace(LOG, name="tacit/run/2").text())
    with pytest.raises(RunError, match="key of a log"):
        open_.allow(open_.key.public)


def test_the_key_stays_and_is_its_owners_alone(tmp_path: Path) -> None:
    made = WitnessKey.of(tmp_path, "example.com/witness")
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    assert WitnessKey.of(tmp_path) == made
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, KEY]
    with pytest.raises(RunError, match="a name is part of a key"):
        WitnessKey.of(tmp_path, "another")
    with pytest.raises(RunError, match="without spaces"):
        WitnessKey.of(tmp_path / "two", "a name")
    (tmp_path / KEY).chmod(0o644)
    with pytest.raises(RunError, match="owner alone"):
        WitnessKey.of(tmp_path)
    (tmp_path / KEY).chmod(0o600)
    text = (tmp_path / KEY).read_text()
    for wrong in ("", "x+y", text.replace("example", "exemple"), text[:-4]):
        (tmp_path / KEY).write_text(wrong)
        with pytest.raises(RunError, match="no private key"):
            WitnessKey.of(tmp_path)


# Attacks on a real ledger, by a forger who makes every digest of the chain fit again and has the log's key.


def _cut(records: list) -> None:
    del records[-3:]


def _replaced(records: list) -> None:
    records[2]["denominator"] = records[2]["denominator"] + 1


def _dropped(records: list) -> None:
    del records[3]


def _swapped(records: list) -> None:
    records[2], records[3] = records[3], records[2]


def _rewritten(records: list) -> None:
    for record in records:
        if record["kind"] == "intent":
            record["blocks"]["update"]["noise_multiplier"] = 9.0


def _forked(records: list) -> None:
    del records[-2:]
    records += records[-2:] * 3


@pytest.mark.parametrize("attack", [_cut, _replaced, _dropped, _swapped, _rewritten, _forked])
@pytest.mark.parametrize("longer", [False, True])
def test_a_forged_ledger_is_evident_from_two_heads_and_refused(
    tmp_path: Path, witness: Witness, attack: Callable[[list], None], longer: bool
) -> None:
    run = made_run(tmp_path / "run", rounds=6).path
    true = [leaf_hash(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    witness.add_checkpoint(submission(true, 0).text())
    records = records_of(run)
    attack(records)
    if longer:  # with so many records more that the forged ledger is the longer one
        records += records[-1:] * 4
    write_records(run, records)
    forged = [leaf_hash(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    if len(forged) >= len(true):
        proof = consistency_proof(forged, len(true))
        assert not is_consistent(len(true), root(true), len(forged), root(forged), proof)
        assert status(witness, submission(forged, len(true)).text()) in (409, 422)
    else:  # a log that got shorter
        assert attack in (_cut, _dropped)
    assert status(witness, submission(forged, 0).text()) == 409
    assert witness.latest(LOG.name).root == root(true)  # type: ignore[union-attr]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=6), st.integers(0, 6)), max_size=10))
def test_whatever_is_submitted_every_two_signed_heads_are_of_one_history(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[str, int]]
) -> None:
    witness = witness_in(tmp_path_factory.mktemp("witness"))
    witness.introduce(LOG.text())
    signed: list[str] = []
    for history, old in sent:
        if status(witness, submission(leaves(*history), old).text()) == 200:
            signed.append(history)
    assert all(later.startswith(earlier) for earlier, later in pairwise(signed))


def test_of_two_histories_at_once_only_one_is_signed(tmp_path: Path) -> None:
    """Eight threads with connections of their own, as processes have; four for each of two histories."""
    witness, signed, start = witness_in(tmp_path), [], threading.Barrier(8)
    witness.introduce(LOG.text())
    witness.add_checkpoint(submission(RECORDS, 0, size=2).text())

    def submit(history: str, own: Witness) -> None:
        start.wait()
        for size in range(3, 8):
            made = submission(leaves(*history), size - 1, size=size)
            if status(own, made.text()) == 200:
                signed.append((made.head.size, made.head.root))

    threads = [
        threading.Thread(target=submit, args=(history, witness_in(tmp_path)))
        for history in ("abcdefgh", "abxyzuvw") * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heads = [{(size, root(leaves(*history)[:size])) for size in range(3, 8)} for history in ("abcdefgh", "abxyzuvw")]
    assert signed
    assert sum(bool(set(signed) & of_one) for of_one in heads) == 1


def test_a_state_that_cannot_be_written_signs_nothing(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_module, "_PATIENCE_S", 0.0)
    with witness._writing(), pytest.raises(sqlite3.OperationalError):
        witness.add_checkpoint(submission(RECORDS, 0).text())
    assert witness.latest(LOG.name) is None


@pytest.mark.process
def test_killed_at_any_moment_it_never_signs_two_histories(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.killed_witness", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    *killed, finished, after = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(killed) >= 4  # begin, read, read, write, commit
    assert not any(each["left"] for each in (*killed, after))
    assert all(each["other"] for each in killed)  # nothing was on disk, and nothing had left
    assert finished == {"killed": False, "left": True, "other": False}
    assert after == {"killed": True, "left": False, "other": False}  # on disk, though nobody got it


@pytest.mark.parametrize("left", [None, b"", b"no database"])
def test_a_key_whose_witness_forgot_what_it_signed_does_not_sign_again(tmp_path: Path, left: bytes | None) -> None:
    found = witness_in(tmp_path)
    found.introduce(LOG.text())
    found.add_checkpoint(submission(RECORDS, 0, size=5).text())
    (tmp_path / STATE).unlink()
    with pytest.raises(sqlite3.Error):  # also while it runs
        found.add_checkpoint(submission(leaves(*"other"), 0).text())
    if left is not None:
        (tmp_path / STATE).write_bytes(left)
    with pytest.raises(RunError, match="it could sign another history"):
        witness_in(tmp_path)
    with pytest.raises(RunError, match="it could sign another history"):
        Witness(tmp_path, WitnessKey.of(tmp_path), first_use=True)


def test_the_key_of_a_log_that_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"name\+id\+key"):
        allowed_keys(["nonsense"])
