"""What the statement discloses beside the proof: one answer for each kind of run, and none where nothing is known."""

from __future__ import annotations

from tacit.privacy.record.facts import DataRecord, FleetRecord, GateAuditRecord
from tests.support.first_record import NO_NOISE
from tests.support.planned_ledgers import NONE, POISSON, guarantee_of, ledger_of

FLEET = FleetRecord("https", False, True, 1.3, 86400.0, None, None)


def part_of(found, title):
    (part,) = [each for each in found.parts if each.title == title]
    return "\n".join(line.text for line in part.lines)


def test_measured_accuracy_stands_in_the_statement_beside_whom_noise_hurts(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON), accuracy=["It guesses 26.0% of the words."])
    said = part_of(found, "Accuracy and bias")
    assert said.startswith("It guesses 26.0% of the words.")
    assert "small groups" in said
    (tmp_path / "bare").mkdir()
    assert "no measured accuracy" in part_of(guarantee_of(ledger_of(tmp_path / "bare", POISSON)), "Accuracy and bias")


def test_a_run_without_noise_has_no_bias_of_noise_and_draws_none(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, NONE, reasons_not_private=(NO_NOISE,)))
    assert "small groups" not in part_of(found, "Accuracy and bias")
    assert "No noise is drawn." in part_of(found, "Arithmetic, randomness and side channels")


def test_a_seed_is_named_where_it_lets_people_subtract_the_noise(tmp_path):
    said = part_of(guarantee_of(ledger_of(tmp_path, POISSON, seeded=True)), "Arithmetic, randomness and side channels")
    assert "whoever knows the seed" in said
    assert "operating system" not in said


def test_what_the_network_sees_is_named_where_there_is_one(tmp_path):
    title = "Arithmetic, randomness and side channels"
    for name, changes, seen in (("devices", {"fleet": FLEET}, True), ("simulation", {}, False)):
        (tmp_path / name).mkdir()
        found = part_of(guarantee_of(ledger_of(tmp_path / name, POISSON, **changes)), title)
        assert ("whoever watches the network" in found) == seen


def test_who_may_ask_what_is_said(tmp_path):
    assert "Any other question is another run." in part_of(
        guarantee_of(ledger_of(tmp_path, POISSON)), "Data accesses covered"
    )


def test_the_audit_of_the_gate_is_named_where_there_was_one(tmp_path):
    ledger = ledger_of(tmp_path, POISSON, gate_audit=GateAuditRecord(4))
    assert "tested its own clip and noise" in part_of(guarantee_of(ledger), "Arithmetic, randomness and side channels")


def test_where_data_lay_depends_on_whose_data_they_are(tmp_path):
    said = {}
    for name, changes in {
        "store": {"data": DataRecord(store="ab12")},
        "world": {"data": DataRecord(world="keyboard", seed=1, users=10)},
        "memory": {"data": DataRecord(memory="ab")},
        "fleet": {"data": DataRecord(), "fleet": FLEET},
    }.items():
        (tmp_path / name).mkdir()
        said[name] = part_of(guarantee_of(ledger_of(tmp_path / name, POISSON, **changes)), "Collection of the data")
    assert "whoever can read the store reads the text" in said["store"]
    assert "made up" in said["world"]
    assert "not recorded" in said["memory"]
    assert "stays on their devices" in said["fleet"]
    assert "The server sees each device's before it adds them up" in said["fleet"]
    assert len(set(said.values())) == 4


def test_the_statement_keeps_the_order_of_the_guidelines(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON))
    titles = [part.title for part in found.parts]
    assert titles.index("The formal statement") < titles.index("Unit of privacy and neighbours")
    assert (
        titles.index("Mechanism and accounting") < titles.index("Accuracy and bias") < titles.index("Setting and trust")
    )
    assert titles.index("Security and access") < titles.index("Collection of the data")
