"""The first record of a ledger: typed facts, read strictly, and notes that only their owner reads."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tacit.errors import LedgerError
from tacit.privacy.record.facts import (
    DataRecord,
    FleetRecord,
    GateAuditRecord,
    PlantedCanaries,
    PretrainingRecord,
    ReleaseSize,
)
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.notes import Note, notes_of
from tacit.privacy.record.records import Opened, canonical, from_json, to_json
from tests.support.first_record import NO_NOISE, WORLD, secure_sum
from tests.support.made_up_ledgers import opened


@dataclass(frozen=True)
class Weather(Note):
    """Something that only a higher layer knows of."""

    owner: ClassVar[str] = "weather"
    sunny: bool
    winds: tuple[str, ...] = ()


FULL = opened(
    "r",
    reasons_not_private=(NO_NOISE,),
    secure_sum=secure_sum(),
    planted=PlantedCanaries("ab", 10, 2, 3, 0.5),
    gate_audit=GateAuditRecord(8),
    pretraining=PretrainingRecord("old letters", True, 10, 0.5, 3, "cd"),
    fleet=FleetRecord("https", True, False, 1.3, 60.0, 0.3, 0.1),
    evaluates="ef",
    selected_by=("one", "two"),
    notes=notes_of(Weather(True, ("north",))),
)


def written(path: Path, edit: Callable[[dict[str, Any]], Any]) -> Path:
    """A ledger whose one line is the edited record, with a digest that fits."""
    content = to_json(FULL) | {"seq": 0, "previous": "0" * 64}
    edit(content)
    digest = hashlib.sha256(canonical(content)).hexdigest()
    path.write_bytes(canonical(content | {"digest": digest}) + b"\n")
    return path


def test_a_ledger_holds_every_fact_as_it_was(tmp_path: Path) -> None:
    with LedgerWriter.create(tmp_path / "ledger.jsonl", FULL):
        pass
    found = read_ledger(tmp_path / "ledger.jsonl").opened
    assert found == FULL
    assert Weather.read(found) == Weather(True, ("north",))
    assert read_ledger(written(tmp_path / "same.jsonl", lambda content: None)).opened == FULL


def test_what_is_not_there_is_written_as_null() -> None:
    content = to_json(opened("r"))
    assert content.keys() - {"kind"} == {each.name for each in dataclasses.fields(Opened)}
    assert content["fleet"] is None
    assert from_json(json.loads(canonical(content))) == opened("r")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda record: record.update(weather="fine"), "the field 'weather' of Opened is unknown"),
        (lambda record: record.pop("fleet"), "the field 'fleet' of Opened is missing"),
        (lambda record: record["data"].update(people=5), "the field 'people' of DataRecord is unknown"),
        (lambda record: record["planted"].pop("device_rate"), "the field 'device_rate' of PlantedCanaries is missing"),
        (lambda record: record["release"].update(coordinates="10"), "ReleaseSize.coordinates to be .*int.*got str"),
        (lambda record: record["release"].update(coordinates=True), "ReleaseSize.coordinates to be .*int.*got bool"),
        (lambda record: record["release"].update(arrays=0), "at least 1 number in 1 array"),
        (lambda record: record.update(release=None), "fields of ReleaseSize, got NoneType"),
        (lambda record: record.update(fleet=[]), "fields of FleetRecord, got list"),
        (lambda record: record["fleet"].update(dropout=None), "expected dropout and corruption"),
        (lambda record: record["secure_sum"].update(scale=0.0), "expected a scale of secure sums above 0"),
        (lambda record: record["secure_sum"].update(norm_limit_squared=-1), "norm_limit_squared ≥ 1"),
        (lambda record: record.update(reasons_not_private=["no noise is added"]), "fields of Reason, got str"),
        (lambda record: record["reasons_not_private"][0].update(sentence="x"), "'sentence' of Reason is unknown"),
        (lambda record: record.update(reasons_not_private="no-noise"), "Opened.reasons_not_private"),
        (lambda record: record.update(selected_by=[1]), "Opened.selected_by"),
        (lambda record: record.update(notes={"weather": "fine"}), "Opened.notes"),
        (lambda record: record["data"].update(store="ab"), "the users of a store, of Python objects or of a world"),
        (lambda record: record["data"].update(seed=None), "a world with its seed and its number of users"),
        (lambda record: record.update(format=3), "its format is 3, and this version of Tacit reads format 7 only"),
        (lambda record: record.pop("format"), "its format is None"),
    ],
)
def test_what_is_not_exactly_a_first_record_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], said: str
) -> None:
    with pytest.raises(LedgerError, match=said):
        read_ledger(written(tmp_path / "ledger.jsonl", edit))


def test_a_note_is_read_by_its_owner_alone_and_strictly() -> None:
    assert Weather.read(opened("r")) is None
    for content in ({}, {"sunny": True}, {"sunny": "yes", "winds": []}, {"sunny": True, "winds": [], "rain": 1}):
        with pytest.raises(LedgerError, match="ledger of the run r has a note that cannot be read"):
            Weather.read(opened("r", notes={"weather": content}))
    with pytest.raises(ValueError, match="one note of each owner"):
        notes_of(Weather(True), Weather(False))


def test_users_are_named_by_store_or_world_or_not_at_all() -> None:
    assert DataRecord(store="ab", vocabulary="a list").name == {"store": "ab"}
    assert WORLD.name == {"world": "keyboard", "seed": 1}
    assert DataRecord().name == {}


def test_facts_have_the_types_that_they_say() -> None:
    with pytest.raises(TypeError, match=r"ReleaseSize\.coordinates"):
        ReleaseSize(1.5, 1)  # type: ignore[arg-type]
