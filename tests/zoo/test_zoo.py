"""Every broken mechanism is caught by whom docs/audit.md says, and 50 sound runs raise no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.zoo.drive import ADAPTIVE, BLT, CHECK_IN, POISSON, TREE, WEIGHTED, run
from tests.support.zoo.faults import AUDIT, FAULTS, UNSEEN, Fault, no_clip

SOUND = {
    "Poisson": POISSON,
    "per layer": {**POISSON, "clipping": "per_layer"},
    "weights": WEIGHTED,
    "adaptive": ADAPTIVE,
    "check-ins": CHECK_IN,
    "tree": TREE,
    "tree, restarted": {**TREE, "restarts": (16, 32)},
    "BLT": BLT,
    "little noise": {**POISSON, "noise_multiplier": 0.3},
    "much noise": {**POISSON, "noise_multiplier": 30.0},
}
# One run on the fast loop shows that the zoo opens; the others are a fault each.
QUICK = ("no clip",)


@pytest.fixture(autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "strategies"))


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=() if fault.name in QUICK else pytest.mark.slow) for fault in FAULTS],
)
def test_a_broken_mechanism_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault.caught_by in fault.seen(monkeypatch).caught_by


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNSEEN, ids=lambda fault: fault.name)
def test_what_is_said_to_go_unseen_does(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault.seen(monkeypatch).caught_by == set()


@pytest.mark.slow
@pytest.mark.parametrize("privacy", SOUND.values(), ids=SOUND)
def test_five_sound_runs_of_each_kind_raise_no_alarm(privacy: dict) -> None:
    for _ in range(5):
        found = run(privacy)
        assert found.caught_by == set(), (found.sampler, found.audit.alarms)


@pytest.mark.slow
@pytest.mark.parametrize("privacy", SOUND.values(), ids=SOUND)
def test_a_sound_run_of_each_kind_raises_no_alarm(privacy: dict) -> None:
    found = run(privacy)
    assert found.caught_by == set(), (found.sampler, found.audit.alarms)


def test_the_zoo_is_large_enough() -> None:
    assert len(FAULTS) >= 20
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert sum(fault.caught_by == AUDIT for fault in FAULTS) >= 19


def test_the_documentation_lists_every_fault_and_who_catches_it() -> None:
    table = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    for fault in (*FAULTS, *UNSEEN):
        assert f"| {fault.name} | {fault.caught_by} |" in table, fault.name


@pytest.mark.slow
def test_canaries_in_some_of_many_rounds_see_what_the_gate_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run has canaries in every second to fourth round; noise is looked at in all of them."""
    sound = run(POISSON, rounds=66).audit
    assert sound.coins == 33 * 4
    assert not sound.alarms
    no_clip(monkeypatch)
    assert run(POISSON, rounds=66).audit.alarms
