"""The audit of the gate in whole runs: it measures releases, changes no model, survives a stop, and reports to the owner."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import DivergedError
from tacit.privacy.gate.rounding import HEADROOM
from tacit.privacy.gate.sums import BoundedSum
from tacit.privacy.noise.mechanisms.gaussian import Gaussian
from tacit.recipe.training import Recipe, load_recipe, parse_recipe
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit import in_run
from tacit.runs.gate_audit.checks import measure
from tacit.runs.gate_audit.outcome import BROKEN, GateOutcome, read_outcome, write_gate_section
from tacit.runs.gate_audit.record import Design, Seen, read_records
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.report import report_html
from tacit.simulation.training import resume_run, start_run
from tests.support.run_arrays import final_arrays
from tests.support.stopping import stop_after
from tests.support.tiny_recipe import tiny

pytestmark = pytest.mark.usefixtures("cache_of_our_own")

CHECK_IN = {"sampling": "check_in", "min_separation": 3, "cohort": 12, "noise_multiplier": 4.0}
KINDS = {
    "flat": {},
    "per layer": {"clipping": "per_layer"},
    "weights": {"estimator": "clipped", "example_cap": 20.0, "total_weight": 300.0},
    "adaptive": {"adaptive": {}, "noise_multiplier": 0.5},
    "tree": {"mechanism": "tree", **CHECK_IN},
    "band, restarted": {"mechanism": "banded", **CHECK_IN, "restarts": [3]},
    "adaptive tree": {"mechanism": "tree", **CHECK_IN, "noise_multiplier": 0.5, "adaptive": {}, "restarts": [2]},
}


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records of the audit, before they are removed at the end of the run: (design, rounds)."""
    kept: list[Any] = []

    def keeping(folder: RunFolder) -> None:
        kept.append(read_records(folder.gate_audit_path))
        conclude(folder)

    conclude = in_run.conclude
    monkeypatch.setattr(in_run, "conclude", keeping)
    return kept


def outcome(run: Path) -> GateOutcome:
    found = read_outcome(RunFolder.open(run))
    assert found is not None
    return found


def without_audit(recipe: Recipe) -> Recipe:
    return parse_recipe({**recipe.model_dump(mode="json", exclude_none=True), "audit": {"gate": False}})


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param(privacy, id=kind, marks=() if kind in ("flat", "per layer") else pytest.mark.slow)
        for kind, privacy in KINDS.items()
    ],
)
def test_a_sound_run_passes_and_every_share_is_what_it_should_be(
    privacy: dict[str, Any], tmp_path: Path, scores: list[Any]
) -> None:
    start_run(tiny(privacy=privacy), tmp_path / "run", tacit.Callback())
    found = outcome(tmp_path / "run")
    assert found.verdict == "passed"
    assert (found.rounds, found.canaries, found.coins) == (6, 4, 24)
    assert found.trials > 9000
    [(design, rounds)] = scores
    assert [each.round for each in rounds] == list(range(6))
    coins = np.array([each.coins for each in rounds])
    assert 0 < coins.sum() < 24
    for each in rounds:
        lengths = design.layout.lengths(each.admitted) / each.clip
        assert lengths[~each.coins] == pytest.approx(0, abs=1e-12)
        assert lengths[each.coins] == pytest.approx(HEADROOM, rel=1e-12) or design.layout.per_layer
        assert lengths.max() <= 1


@pytest.mark.parametrize("privacy", [{}, KINDS["weights"], KINDS["adaptive tree"]], ids=["flat", "weights", "adaptive"])
def test_the_model_trains_as_if_there_had_been_no_canaries(privacy: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny(privacy=privacy, run={"seed": 4})
    one = start_run(recipe, tmp_path / "audited", tacit.Callback())
    other = start_run(without_audit(recipe), tmp_path / "plain", tacit.Callback())
    assert not (tmp_path / "plain" / "private" / "gate_audit.json").exists()
    audited, plain = final_arrays(tmp_path / "audited"), final_arrays(tmp_path / "plain")
    for name, values in plain.items():
        np.testing.assert_allclose(audited[name], values, rtol=2e-4, atol=2e-5, err_msg=name)
    assert one["metrics"]["top1"] == pytest.approx(other["metrics"]["top1"], abs=1e-3)


def test_a_seeded_run_that_was_stopped_sees_the_same_as_one_that_was_not(tmp_path: Path, scores: list[Any]) -> None:
    recipe = tiny(privacy=KINDS["tree"], run={"seed": 5, "rounds": 7})
    start_run(recipe, tmp_path / "whole", tacit.Callback())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
        with pytest.raises(StopRequested):
            start_run(recipe, tmp_path / "run", tacit.Callback())
    folder = RunFolder.open(tmp_path / "run")
    assert stat.S_IMODE(folder.gate_audit_path.stat().st_mode) == 0o600
    so_far = outcome(tmp_path / "run")  # on demand: a run that was stopped has no result yet
    assert so_far.rounds == 4
    assert not folder.gate_result_path.exists()
    resume_run(tmp_path / "run", tacit.Callback())
    (_, whole), (_, resumed) = scores
    assert len(whole) == len(resumed) == 7
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.released, other.released)
        np.testing.assert_array_equal(one.coins, other.coins)
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "run")


def test_an_unseeded_run_goes_on_with_the_same_directions(tmp_path: Path, scores: list[Any]) -> None:
    """Correlated noise is followed along each channel over the stop: taken apart there, the tests would fail."""
    recipe = tiny(privacy={**KINDS["tree"], "restarts": []}, run={"rounds": 8, "checkpoint_every": 3})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
        with pytest.raises(StopRequested):
            start_run(recipe, tmp_path / "run", tacit.Callback())
    resume_run(tmp_path / "run", tacit.Callback())
    assert outcome(tmp_path / "run").verdict == "passed"
    [(design, rounds)] = scores
    assert len(rounds) == 8
    assert measure(dataclasses.replace(design, restarts=(4,)), rounds).alarms


def halved(self: Gaussian, bounded: BoundedSum, state: Any, *, key: Any) -> Any:
    half = {name: each / 2 for name, each in self.noise_multipliers.items()}
    return plain_release(Gaussian(half), bounded, state, key=key)


plain_release = Gaussian.release


def test_half_the_noise_is_told_the_owner_and_the_shared_copy_says_the_same_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_run(tiny(), tmp_path / "sound", tacit.Callback())
    monkeypatch.setattr(Gaussian, "release", halved)
    start_run(tiny(), tmp_path / "run", tacit.Callback())
    found = outcome(tmp_path / "run")
    assert found.verdict == "broken"
    assert found.scale is not None
    assert found.scale[1] == pytest.approx(0.5, abs=0.03)
    assert BROKEN in found.words()
    folder = RunFolder.open(tmp_path / "run")
    write_gate_section(folder)
    assert BROKEN in report_html(folder, share=False)
    shared = report_html(folder, share=True)
    assert BROKEN not in shared
    assert "noise 5.67% too small would have been seen with 99.9% probability" in shared
    sections = [(tmp_path / name / "sections" / "31-gate-audit.json").read_bytes() for name in ("sound", "run")]
    assert sections[0] == sections[1]


def test_scores_are_removed_with_the_noise(tmp_path: Path) -> None:
    start_run(tiny(), tmp_path / "run", tacit.Callback())
    folder = RunFolder.open(tmp_path / "run")
    assert not folder.gate_audit_path.exists()
    assert stat.S_IMODE(folder.gate_result_path.stat().st_mode) == 0o600
    result = json.loads(folder.gate_result_path.read_text())
    assert "released" not in result
    with pytest.raises(DivergedError):
        start_run(tiny(server={"learning_rate": 1e13}), tmp_path / "diverged", tacit.Callback())
    diverged = RunFolder.open(tmp_path / "diverged")
    assert not diverged.gate_audit_path.exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": {"mechanism": "none", "noise_multiplier": 0.0}}, "no noise is added"),
        pytest.param(
            {"privacy": {"secagg": {"scheme": "server_noise"}, "sampling": "fixed"}},
            "secure aggregation",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_that_cannot_be_audited_says_why(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    start_run(tiny(**changes), tmp_path / "run", tacit.Callback())
    folder = RunFolder.open(tmp_path / "run")
    assert read_outcome(folder) is None
    shared = report_html(folder, share=True)
    assert "The gate of this run was not audited: " in shared
    assert reason in shared
    assert folder.ledger().opened.gate_audit is None


def test_the_recipe_can_leave_it_out_and_need_not_plant_anything(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(without_audit(tiny()).to_toml())
    recipe = load_recipe(tmp_path / "recipe.toml")
    assert recipe.audit is not None
    assert (recipe.audit.gate, recipe.audit.plan) == (False, None)
    start_run(recipe, tmp_path / "run", tacit.Callback())
    shared = report_html(RunFolder.open(tmp_path / "run"), share=True)
    assert "The gate of this run was not audited: the recipe says audit.gate = false." in shared


def test_canaries_are_let_in_in_as_many_chunks_as_it_takes(tmp_path: Path, scores: list[Any]) -> None:
    recipe = tiny(privacy={"cohort": 300}, engine={"chunk": 4}, run={"rounds": 2})
    start_run(recipe, tmp_path / "run", tacit.Callback())
    assert outcome(tmp_path / "run").verdict == "passed"
    assert outcome(tmp_path / "run").canaries == 9


def test_records_come_back_as_they_were(tmp_path: Path, scores: list[Any]) -> None:
    start_run(tiny(privacy=KINDS["adaptive tree"]), tmp_path / "run", tacit.Callback())
    [(design, rounds)] = scores
    again = Design.from_record(json.loads(json.dumps(design.as_record())))
    assert again == design
    one = rounds[3]
    plain = {name: np.asarray(value).tolist() for name, value in one.as_record().items()}
    copy = Seen.from_record(json.loads(json.dumps(plain)))
    for field in dataclasses.fields(Seen):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(copy, field.name))
