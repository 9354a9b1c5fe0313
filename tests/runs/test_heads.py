"""Heads of a run's ledger at its witness: signed in order, refused for copies, waited for or not, and compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import LedgerError, PrivacyError, RunError, WitnessError
from tacit.runs import heads as heads_module
from tacit.runs.folder import RunFolder
from tacit.runs.heads import HEAD, Heads, WitnessedLog, held_head, submit
from tacit.runs.log_key import log_key, origin_of
from tacit.runs.public import public_files
from tacit.runs.witness import Witness
from tacit.runs.witness_check import check_witness
from tacit.transparency.checkpoint import Checkpoint
from tacit.transparency.client import WitnessClient, WitnessSilent
from tacit.transparency.merkle import leaf_hash, root
from tacit.transparency.witness import STATE
from tacit.transparency.witness import Witness as Server
from tests.support.forging import forge
from tests.support.witnessed_runs import add_rounds, begun
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import TIME, witness_in


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return witness_in(tmp_path_factory.mktemp("witness"))


@pytest.fixture(scope="module")
def witness(server: Server) -> Iterator[Witness]:
    with listening(server) as address:
        yield Witness(address=address, key=server.key.public.text())


@pytest.fixture
def run(tmp_path: Path, witness: Witness) -> RunFolder:
    return begun(tmp_path / "run", witness)


def heads_of(run: RunFolder, witness: Witness | None) -> Heads:
    return Heads(None, run, witness, run.ledger().opened)


def recorded(run: RunFolder, witness: Witness) -> str | None:
    """Record the head of the ledger as it is."""
    with run.open_ledger() as ledger:
        return heads_of(run, witness).record(ledger)


def is_silent(monkeypatch: pytest.MonkeyPatch, times: int = 10**6) -> list[Any]:
    """The witness does not answer so many times; the calls."""
    asked: list[Any] = []
    countersign = WitnessClient.countersign

    def silent(self: WitnessClient, *arguments: Any) -> Any:
        asked.append(arguments)
        if len(asked) <= times:
            raise WitnessSilent("The witness does not answer.") from OSError()
        return countersign(self, *arguments)

    monkeypatch.setattr(WitnessClient, "countersign", silent)
    return asked


def test_each_head_is_signed_and_the_last_one_is_in_the_folder(
    run: RunFolder, witness: Witness, server: Server
) -> None:
    for size in (3, 5):
        assert recorded(run, witness) is None
        found = held_head(run.path)
        assert found is not None
        assert found == server.latest(found.origin)
        assert found.size == size
        add_rounds(run, 2)
    checked = check_witness(run)
    assert (checked.records, checked.signed, checked.in_folder, checked.at_witness) == (7, 5, 5, 5)


def test_the_public_file_says_nothing_but_what_follows_from_the_ledger_two_keys_and_the_time(
    run: RunFolder, witness: Witness, server: Server
) -> None:
    recorded(run, witness)
    hashes = [leaf_hash(line) for line in run.ledger_path.read_bytes().splitlines()]
    origin = origin_of(run.run_id)
    signed = Checkpoint(origin, len(hashes), root(hashes)).signed(origin, log_key(run.path))
    expected = signed.countersigned(server.key.name, server.key.private, time=TIME)
    assert (run.path / HEAD).read_text(encoding="utf-8") == expected.text()
    assert HEAD in public_files(run)
    assert not any("log.key" in name for name in public_files(run))


def test_a_head_that_is_signed_already_is_not_asked_for_again(
    run: RunFolder, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = is_silent(monkeypatch, times=0)
    with run.open_ledger() as ledger:
        heads = heads_of(run, witness)
        heads.record(ledger)
        heads.record(ledger)
    assert len(asked) == 1


@pytest.mark.parametrize("kept", [HEAD, None])
def test_a_run_whose_last_head_was_lost_goes_on(
    run: RunFolder, witness: Witness, tmp_path: Path, kept: str | None
) -> None:
    """Killed after the witness had signed and before the head was written down."""
    recorded(run, witness)
    if kept is not None:
        shutil.copy(run.path / HEAD, tmp_path / HEAD)
    add_rounds(run, 1)
    recorded(run, witness)
    (run.path / HEAD).unlink()
    if kept is not None:
        shutil.copy(tmp_path / HEAD, run.path / HEAD)
    assert heads_of(run, witness).require_extended() is None
    add_rounds(run, 1)
    recorded(run, witness)
    assert check_witness(run).signed == 5


@pytest.mark.parametrize("more", [0, 1, 2, 3])
@pytest.mark.parametrize("required", [False, True])
def test_an_older_copy_is_refused_however_long_it_has_become(
    tmp_path: Path, witness: Witness, more: int, required: bool
) -> None:
    witness = replace(witness, required=required)
    run = begun(tmp_path / "run", witness)
    recorded(run, witness)
    shutil.copytree(run.path, tmp_path / "copy")
    add_rounds(run, 2)
    recorded(run, witness)
    copy = RunFolder.open(tmp_path / "copy")
    add_rounds(copy, more, cohorts="cd")
    before = {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()}
    with pytest.raises(LedgerError, match="does not continue"):
        heads_of(copy, witness).require_extended()
    assert {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()} == before
    with pytest.raises(LedgerError, match="does not agree with the head that"):
        check_witness(copy)


def test_a_copy_of_the_newest_state_is_refused_when_the_other_one_has_gone_on(run: RunFolder, witness: Witness) -> None:
    recorded(run, witness)
    shutil.copytree(run.path, run.path.with_name("copy"))
    copy = RunFolder.open(run.path.with_name("copy"))
    assert heads_of(copy, witness).require_extended() is None
    for folder, cohorts in ((run, "ab"), (copy, "cd")):
        add_rounds(folder, 1, cohorts=cohorts)
    recorded(run, witness)
    with pytest.raises(LedgerError, match="does not continue"):
        recorded(copy, witness)


def test_a_required_witness_is_waited_for(run: RunFolder, witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    is_silent(monkeypatch, times=3)
    pauses: list[float] = []
    WitnessedLog.of(run, witness).countersign(sleep=pauses.append, patience_s=60)
    assert pauses == [0.5, 1.0, 2.0]
    add_rounds(run, 1)
    asked = is_silent(monkeypatch)
    with pytest.raises(WitnessSilent):
        WitnessedLog.of(run, witness).countersign(sleep=pauses.append, patience_s=60)
    assert sum(pauses[3:]) == 60
    assert len(asked) == len(pauses[3:]) + 1


def test_a_required_witness_that_stays_silent_stops_the_run(
    run: RunFolder, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads_module, "PATIENCE_S", 0.0)
    is_silent(monkeypatch)
    with pytest.raises(
        WitnessError, match=r"^The witness does not answer\. The run has stopped, .* required\.$"
    ) as caught:
        recorded(run, witness)
    assert "--resume" in str(caught.value.hint)
    assert isinstance(caught.value.__cause__, OSError)
    assert held_head(run.path) is None


def test_without_required_the_run_goes_on_and_says_so_once(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = replace(witness, required=False)
    run = begun(tmp_path / "run", witness)
    asked = is_silent(monkeypatch)
    with run.open_ledger() as ledger:
        heads = heads_of(run, witness)
        assert "The run goes on" in str(heads.record(ledger))
        assert heads.record(ledger) is None
        assert len(asked) == 1  # it is left alone for a while
        monkeypatch.setattr(heads_module.time, "monotonic", lambda: 1e12)
        assert heads.record(ledger) is None
        assert len(asked) == 2
        assert "tacit witness submit" in str(heads.record_end(ledger))
    monkeypatch.undo()
    assert submit(run, witness).size == 3
    assert check_witness(run).signed == 3


def test_the_witness_must_be_the_one_that_the_ledger_names(tmp_path: Path, run: RunFolder, witness: Witness) -> None:
    with pytest.raises(PrivacyError, match="the ledger's first record names"):
        heads_of(run, None)
    with pytest.raises(PrivacyError, match="the ledger's first record names"):
        heads_of(run, replace(witness, required=False))
    with pytest.raises(PrivacyError, match="the ledger's first record names"):
        heads_of(begun(tmp_path / "without", None), witness)


def test_a_key_of_the_log_that_was_lost(run: RunFolder, witness: Witness) -> None:
    recorded(run, witness)
    (run.private_path / "log.key").unlink()
    add_rounds(run, 1)
    with pytest.raises(WitnessError, match="not signed with the key"):
        recorded(run, witness)


def test_a_ledger_that_is_shorter_than_the_head_in_its_folder(run: RunFolder, witness: Witness) -> None:
    recorded(run, witness)
    forge(run.path, lambda records: records.pop())
    with pytest.raises(LedgerError, match="cut off"):
        heads_of(run, witness).require_extended()


# What a reader finds.


@pytest.fixture
def signed(run: RunFolder, witness: Witness, tmp_path: Path) -> RunFolder:
    """A run with five records, the first three of which are in a head that a reader kept, and all in the witness's."""
    recorded(run, witness)
    shutil.copy(run.path / HEAD, tmp_path / "kept.txt")
    add_rounds(run, 2)
    recorded(run, witness)
    return run


def _cut(records: list[dict[str, Any]]) -> None:
    del records[2:]


def _fork(records: list[dict[str, Any]]) -> None:
    del records[-1]
    records.append({**records[-1], "round": 3, "participation": "cd" * 32})


def _other_noise(records: list[dict[str, Any]]) -> None:
    for record in records[1:]:
        record["blocks"]["update"]["noise_multiplier"] = 30.0


@pytest.mark.parametrize("attack", [_cut, _fork, _other_noise])
def test_a_forged_ledger_with_every_digest_made_again_does_not_agree(
    signed: RunFolder, tmp_path: Path, attack: Any
) -> None:
    kept = [tmp_path / "kept.txt"]
    assert check_witness(signed, heads=kept).given == (3,)
    forge(signed.path, attack)
    (signed.path / HEAD).unlink()
    with pytest.raises(LedgerError, match="does not agree with the head that"):
        check_witness(signed)
    if attack is not _fork:  # the fork is behind what this reader has
        with pytest.raises(LedgerError, match=r"does not agree with the head in .*kept\.txt"):
            check_witness(signed, ask=False, heads=kept)


def test_a_head_of_another_run_or_of_another_witness_does_not_count(
    signed: RunFolder, witness: Witness, tmp_path: Path
) -> None:
    other = begun(tmp_path / "other", witness, rounds=4)
    recorded(other, witness)
    shutil.copy(other.path / HEAD, signed.path / HEAD)
    with pytest.raises(LedgerError, match="a head of the log"):
        check_witness(signed, ask=False)
    stranger = witness_in(tmp_path / "stranger").key.public
    shutil.copy(tmp_path / "kept.txt", signed.path / HEAD)
    with pytest.raises(LedgerError, match="did not sign it"):
        check_witness(signed, key=stranger, ask=False)
    (signed.path / HEAD).write_text("nonsense")
    with pytest.raises(LedgerError, match="damaged"):
        check_witness(signed, ask=False)
    (signed.path / HEAD).unlink()
    with pytest.raises(LedgerError, match="There is no head"):
        check_witness(signed, ask=False)


def test_a_run_that_goes_on_while_it_is_checked_is_no_forgery(
    signed: RunFolder, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = WitnessClient.latest

    def meanwhile(self: WitnessClient, origin: str) -> Checkpoint | None:
        add_rounds(signed, 1)
        recorded(signed, witness)
        return latest(self, origin)

    monkeypatch.setattr(WitnessClient, "latest", meanwhile)
    found = check_witness(signed)
    assert (found.records, found.in_folder, found.at_witness) == (6, 5, 6)


# A witness that goes on with an older copy of its folder.


def test_a_witness_that_forgot_what_it_signed_is_found_by_the_run_and_by_a_reader(tmp_path: Path) -> None:
    """Its older copy would sign another history."""
    home = tmp_path / "home"
    for forgets in ("some", "all"):
        server = witness_in(home)
        with listening(server) as address:
            witness = Witness(address=address, key=server.key.public.text())
            run = begun(tmp_path / forgets, witness)
            older = (home / STATE).read_bytes()
            recorded(run, witness)
            if forgets == "some":
                older = (home / STATE).read_bytes()
            add_rounds(run, 2)
            recorded(run, witness)
            (home / STATE).write_bytes(older)
            holds = 3 if forgets == "some" else 0
            with pytest.raises(LedgerError, match=f"holds a head of {holds} records, and has signed one of 5"):
                check_witness(run)
            with pytest.raises(WitnessError, match=f"signed a head of 5 .* signed {holds} last: it has forgotten"):
                heads_of(run, witness).require_extended()


def test_a_run_without_a_witness_has_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="without a witness"):
        check_witness(begun(tmp_path / "alone", None))
