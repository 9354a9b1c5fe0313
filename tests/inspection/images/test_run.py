"""Whole inspections of images: durable like any run, accounted together, and no user's image is written."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.data.formats.npz import Fields, read_npz
from tacit.data.importing import import_images
from tacit.data.users import Examples
from tacit.errors import DataError, RecipeError, RunError
from tacit.inspection.images import run as image_run
from tacit.inspection.images.data import ImageUsers, open_images
from tacit.inspection.images.run import ImageInspectionResult, load_classifier, resume_images, start_images
from tacit.inspection.images.stages import (
    ImageStage,
    accuracy_stage,
    classifier_stage,
    gan_stage,
    generated_images,
)
from tacit.inspection.record import FaultRecord, InspectionRecord
from tacit.inspection.selection import Threshold
from tacit.learning.loop import TrainingState
from tacit.learning.state import load_model
from tacit.models import classifier as classifiers
from tacit.privacy.noise.mechanisms import NoNoise
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import UPDATE
from tacit.recipe.image_inspection import ImageInspection, parse_image_inspection
from tacit.recipe.reading import apply_change
from tacit.runs import checkpoints, odometer
from tacit.runs.driver import begin
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.plots import plot_training
from tacit.runs.report import read_sections, write_report
from tacit.runs.report.blocks import Image
from tacit.runs.report.pictures import grid, picture
from tests.support.store_keys import key_holding_out
from tests.support.tiny_images import tiny_images

pytestmark = pytest.mark.usefixtures("small_networks")

STAGES = ("classifier", "accuracy", "high", "low")
SEEDED = ("classifier.run.seed=1", "gan.run.seed=1")


def final(run: Path) -> dict[str, np.ndarray]:
    checkpoint = checkpoints.latest(run / "checkpoints")
    assert checkpoint is not None
    return checkpoint.arrays


def same(one: Path, other: Path) -> bool:
    here, there = final(one), final(other)
    return all(np.array_equal(here[name], there[name]) for name in here)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImageInspectionResult]:
    """An inspection without a seed, so that its guarantee is finite."""
    out = tmp_path_factory.mktemp("inspections") / "one"
    return out, start_images(tiny_images(), out, tacit.Callback())


@pytest.mark.slow
def test_every_model_is_a_run_and_all_are_accounted(finished: tuple[Path, ImageInspectionResult]) -> None:
    out, looked = finished
    epsilons = []
    for stage, rounds in zip(STAGES, (2, 1, 3, 3), strict=True):
        ledger = RunFolder.open(out / stage).ledger()
        assert ledger.closed is not None
        assert (ledger.closed.outcome, len(ledger.intents)) == ("finished", rounds)
        about = InspectionRecord.read(ledger.opened)
        assert about is not None
        assert about.stage == stage
        epsilons.append((RunFolder.open(out / stage).summary() or {})["privacy"]["epsilon"])
        assumed = " ".join((RunFolder.open(out / stage).summary() or {})["privacy"]["assumptions"])
        chose = () if stage == "classifier" else ("classifier",)  # with public thresholds no other run chooses users
        assert {other for other in STAGES if RunFolder.open(out / other).run_id in assumed} == set(chose)
        plot_training(RunFolder.open(out / stage), out / f"{stage}.png")
    cost = looked.findings.together
    assert cost["releases"] == 9
    assert max(epsilons) < cost["epsilon"] < sum(epsilons) * 1.01
    saved = json.loads((out / "findings.json").read_text())
    assert saved == json.loads(json.dumps(looked.findings.as_dict()))


@pytest.mark.slow
def test_public_thresholds_and_the_released_histogram_are_in_the_findings(
    finished: tuple[Path, ImageInspectionResult],
) -> None:
    out, looked = finished
    released = final(out / "accuracy")["model"]
    assert looked.findings.histogram == tuple(float(each) for each in released)
    assert looked.findings.thresholds == (0.1, 0.1)
    for stage in ("low", "high"):
        about = InspectionRecord.read(read_ledger(out / stage / "ledger.jsonl").opened)
        assert about is not None
        assert about.selection is not None
        assert about.selection.threshold == Threshold(0.1)
        assert about.fault == FaultRecord("inverted", 0.5, 1)
    assert "fault" not in RunFolder.open(out / "classifier").recipe()


def by_percentiles(*percentiles: float) -> ImageInspection:
    """The tiny inspection with thresholds from the released histogram."""
    tree = tiny_images().model_dump(mode="json", exclude_none=True)
    del tree["selection"]["thresholds"]
    return parse_image_inspection({**tree, "selection": {**tree["selection"], "percentiles": percentiles}})


def releases(monkeypatch: pytest.MonkeyPatch, **histograms: tuple[float, ...]) -> None:
    """The histograms that will be taken for those that these stages released."""
    run = image_run._run

    def counted(what: ImageStage, path: Path, callback: tacit.Callback) -> dict[str, Any]:
        summary = run(what, path, callback)
        return {**summary, "histogram": histograms[path.name]} if path.name in histograms else summary

    monkeypatch.setattr(image_run, "_run", counted)


def chosen_by(run: Path, stage: str) -> Threshold | None:
    about = InspectionRecord.read(read_ledger(run / stage / "ledger.jsonl").opened)
    assert about is not None
    assert about.selection is not None
    return about.selection.threshold


@pytest.mark.slow
def test_percentiles_are_those_of_users_before_the_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A histogram of sound users is released by a run of its own, and counted with the others; the fault is not in it."""
    sound, with_fault = (0.3, 0.2, 0.2, 0.3), (0.5, 0.2, 0.1, 0.2)
    releases(monkeypatch, sound=sound, accuracy=with_fault)
    run = tmp_path / "run"
    looked = start_images(by_percentiles(0.25, 0.75), run, tacit.Callback())
    assert looked.findings.thresholds == (0.25, 0.75)
    assert (looked.findings.histogram_before, looked.findings.histogram) == (sound, with_fault)
    counted_by = RunFolder.open(run / "sound").run_id
    for stage, value in (("low", 0.25), ("high", 0.75)):
        assert chosen_by(run, stage) == Threshold(value, 0.5, counted_by)
        assert counted_by in " ".join((RunFolder.open(run / stage).summary() or {})["privacy"]["assumptions"])
    assert "fault" not in RunFolder.open(run / "sound").recipe()
    assert set(looked.findings.privacy) == {"classifier", "sound", *STAGES[1:]}
    assert looked.findings.together["releases"] == 10
    monkeypatch.undo()  # the stage of sound users counts users without the fault, that of today with it
    recipe, users = by_percentiles(0.25, 0.75), open_images(by_percentiles(0.25, 0.75))
    stages = {sound: accuracy_stage(recipe, users, None, "a", (), sound=sound).users for sound in (True, False)}  # type: ignore[arg-type]
    assert (stages[True], stages[False]) == (users.before, users.now)
    # A later inspection may use that histogram, if it has the same classifier: without the recipe's fault there is none.
    earlier = {"sound": str(run / "sound")}
    tree = by_percentiles(0.25, 0.75).model_dump(mode="json", exclude_none=True)
    tree["selection"] |= earlier
    with pytest.raises(RunError, match="not of the accuracies of this classifier"):
        start_images(parse_image_inspection(tree), tmp_path / "other", tacit.Callback())
    tree["classifier"]["trained"] = str(run / "classifier")
    releases(monkeypatch, accuracy=with_fault)
    with monkeypatch.context() as patch:
        summary = RunFolder.summary
        patch.setattr(
            RunFolder,
            "summary",
            lambda self: (
                {**summary(self), "histogram": [0.3, 0.2, 0.2, 0.3]} if self.path.name == "sound" else summary(self)
            ),
        )
        later = start_images(parse_image_inspection(tree), tmp_path / "later", tacit.Callback())
    assert chosen_by(tmp_path / "later", "low") == Threshold(0.25, 0.5, counted_by)
    assert later.findings.together["releases"] == 10
    assert not (tmp_path / "later" / "sound").exists()


@pytest.mark.slow
def test_percentiles_of_users_without_a_known_fault_are_those_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases(monkeypatch, accuracy=(0.3, 0.2, 0.2, 0.3))
    tree = by_percentiles(0.25, 0.75).model_dump(mode="json", exclude_none=True)
    del tree["fault"]
    looked = start_images(parse_image_inspection(tree), tmp_path / "run", tacit.Callback())
    assert looked.findings.thresholds == (0.25, 0.75)
    assert looked.findings.histogram_before is None
    counted_by = RunFolder.open(tmp_path / "run" / "accuracy").run_id
    assert chosen_by(tmp_path / "run", "low") == Threshold(0.25, 0.5, counted_by)


@pytest.mark.slow
@pytest.mark.parametrize(("by", "task"), [("all", "T1"), ("unlabelled", "T5")])
def test_one_model_of_all_images_needs_no_classifier(by: str, task: str, tmp_path: Path) -> None:
    looked = start_images(tiny_images(f"selection.by={by}"), tmp_path / "run", tacit.Callback())
    assert [path.name for path in (tmp_path / "run").iterdir() if path.is_dir()] == ["all"]
    about = InspectionRecord.read(read_ledger(tmp_path / "run" / "all" / "ledger.jsonl").opened)
    assert about is not None
    assert about.selection is not None
    assert about.selection.task == task
    assert set(looked.images) == set(looked.findings.scores) == {"all"}
    saved = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert saved["scores"]["all"]["confidence"] is None
    assert (saved["accuracy"], saved["thresholds"], saved["histogram"]) == (None, None, None)
    assert "have a bright background" in saved["conclusion"]
    assert looked.findings.together["releases"] == 3
    assert resume_images(tmp_path / "run", tacit.Callback()).findings == looked.findings


def test_each_side_has_a_population_of_its_own() -> None:
    recipe = tiny_images("gan.populations=[30, 10]")
    assert [recipe.gan.of_side(side).privacy.population for side in ("low", "high")] == [30, 10]
    assert recipe.gan.of_side("low").privacy.cohort == recipe.gan.privacy.cohort
    assert tiny_images().gan.of_side("high") == tiny_images().gan
    with pytest.raises(RecipeError, match=r"gan\.populations of at least gan\.privacy\.cohort = 5, got 2"):
        tiny_images("gan.populations=[30, 2]")


@pytest.mark.slow
def test_a_low_threshold_above_the_high_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    releases(monkeypatch, sound=(0.1, 0.8, 0.1, 0.0))
    with pytest.raises(DataError) as refused:
        start_images(by_percentiles(0.25, 0.75), tmp_path / "run", tacit.Callback())
    assert refused.value.sentence == (
        "Expected a low threshold of accuracy at or below the high one, got 50.0% and 25.0% by the released histogram: users "
        "between them would be in both subpopulations."
    )
    assert not (tmp_path / "run" / "high").exists()


@pytest.mark.slow
def test_only_the_discriminator_is_released(finished: tuple[Path, ImageInspectionResult]) -> None:
    out, _ = finished
    opened = read_ledger(out / "low" / "ledger.jsonl").opened
    discriminator = [leaf for name, leaf in final(out / "low").items() if name.startswith("model.discriminator")]
    assert opened.release.coordinates == sum(leaf.size for leaf in discriminator)
    assert opened.release.arrays == len(discriminator)


@pytest.mark.slow
def test_pictures_show_what_the_generators_make_and_nothing_else(finished: tuple[Path, ImageInspectionResult]) -> None:
    """Every picture of the report is recomputed from a released generator; no file holds anybody's image."""
    out, looked = finished
    recipe = tiny_images()
    users = open_images(recipe)
    for side in ("high", "low"):
        stage = stage_of(recipe, users)
        made = generated_images(load_model(stage.model, final(out / side)), 64, 1)
        assert np.array_equal(looked.images[side], made)
        expected = picture(grid(made, 8), "").data
        shown = [b for s in read_sections(RunFolder.open(out / side), share=True) for b in s.blocks]
        assert expected in [block.data for block in shown if isinstance(block, Image)]
        assert len([block for block in shown if isinstance(block, Image)]) == 2
    everybody = np.arange(len(users.now))
    real = {image.tobytes() for view in (users.before, users.now) for image in view.gather(everybody).items}
    files = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(image in content for image in real for content in files)


@pytest.mark.slow
def test_the_report_of_either_side_opens_with_the_findings(
    finished: tuple[Path, ImageInspectionResult], tmp_path: Path
) -> None:
    out, _ = finished
    page = write_report(RunFolder.open(out / "low"), tmp_path / "page.html", share=True).read_text()
    assert page.count("data:image/png;base64,") == 2
    for part in (
        "Images, as two models generate them",
        "bright background",
        "share of users, as released",
        "All 4 models together",
    ):
        assert part in page
    assert page.index("Images, as two models") < page.index("What it learned")


def stage_of(recipe: ImageInspection, users: ImageUsers) -> ImageStage:
    """A generative model of everybody's images."""
    model = classifiers.build(classifiers.preset("small", 62), key=jax.random.key(0))
    return gan_stage(recipe, users, model, "nobody", "high", Threshold(0.0), ())


class Silence(NoNoise):
    """A mechanism whose release says nothing about anybody: zeros."""

    def release(self, bounded: Any, state: Any, *, key: jax.Array) -> tuple[Any, Any]:
        total = bounded.blocks[UPDATE].total
        return {UPDATE: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), total)}, state


@pytest.mark.slow
def test_the_generator_learns_nothing_of_users_but_releases(tmp_path: Path) -> None:
    """The engine as it runs: other users and silent releases give the same models, bit by bit; loud releases do not."""
    ends: dict[tuple[str, float], Path] = {}
    program = None
    for share in (0.0, 1.0):
        recipe = tiny_images(f"fault.share={share}", "gan.run.seed=1")
        stage = stage_of(recipe, open_images(recipe))
        for name, mechanism in (("silent", Silence({UPDATE: 0.0})), ("loud", NoNoise({UPDATE: 0.0}))):
            folder = RunFolder.create(tmp_path / f"{name}-{share}", "")
            program = program or stage.program(folder)  # one for all, so that it compiles once
            program.users.users = stage.users
            opened = dataclasses.replace(program.opened, run_id=folder.run_id)
            begin(dataclasses.replace(program, mechanism=mechanism, opened=opened), folder, tacit.Callback())
            ends[name, share] = folder.path
    assert same(ends["silent", 0.0], ends["silent", 1.0])
    here, there = final(ends["loud", 0.0]), final(ends["loud", 1.0])
    assert not np.array_equal(here["model.generator.image"], there["model.generator.image"])


@pytest.mark.slow
def test_what_was_killed_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeded: Path
) -> None:
    after: Callable[..., None] = RunJournal.after
    deaths = {("classifier", 1), ("low", 2)}

    def killed(journal: RunJournal, state: TrainingState, diagnostics: Any) -> None:
        after(journal, state, diagnostics)
        here = (journal._folder.path.name, state.round)
        if here in deaths:
            deaths.remove(here)
            raise KeyboardInterrupt

    out = tmp_path / "run"
    monkeypatch.setattr(RunJournal, "after", killed)
    with pytest.raises(KeyboardInterrupt):
        start_images(tiny_images(*SEEDED), out, tacit.Callback())
    with pytest.raises(KeyboardInterrupt):
        resume_images(out, tacit.Callback())
    looked = resume_images(out, tacit.Callback())
    assert all(same(out / each, seeded / each) for each in STAGES)
    assert (
        resume_images(out, tacit.Callback()).findings.as_dict() == looked.findings.as_dict()
    )  # and nothing is trained again


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inspection whose noise is replayable, so that it can be compared."""
    out = tmp_path_factory.mktemp("seeded") / "run"
    looked = start_images(tiny_images(*SEEDED), out, tacit.Callback())
    assert looked.findings.together["epsilon"] is None
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("share = 0.5", "share = 0.25"), "accuracy was begun with, where fault.share is 0.5, got 0.25"),
        (("penalty = 10.0", "penalty = 1.0"), "high was begun with, where model.penalty is 10.0, got 1.0"),
    ],
)
def test_what_has_finished_is_not_taken_for_what_another_recipe_says(
    change: tuple[str, str], sentence: str, seeded: Path, tmp_path: Path
) -> None:
    written = Path(shutil.copytree(seeded, tmp_path / "run")) / "inspection.toml"
    written.write_text(written.read_text().replace(*change))
    with pytest.raises(RunError, match=sentence):
        resume_images(tmp_path / "run", tacit.Callback())


@pytest.mark.slow
def test_another_classifier_is_not_put_in_the_place_of_the_first(
    seeded: Path, finished: tuple[Path, ImageInspectionResult], tmp_path: Path
) -> None:
    """The releases of the lost run would be left out of the total cost."""
    other = finished[0] / "classifier"
    written = Path(shutil.copytree(seeded, tmp_path / "run")) / "inspection.toml"
    written.write_text(
        written.read_text().replace("[classifier]\n", f"[classifier]\ntrained = {json.dumps(str(other))}\n")
    )
    with pytest.raises(RunError, match=r"accuracy was begun with, where model\.classifier is"):
        resume_images(tmp_path / "run", tacit.Callback())


@pytest.mark.slow
def test_a_run_that_is_gone_is_not_made_again(seeded: Path, tmp_path: Path) -> None:
    shutil.copytree(seeded, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "accuracy")
    with pytest.raises(RunError, match="its run accuracy/ is missing, and later runs depend on it"):
        resume_images(tmp_path / "run", tacit.Callback())
    assert not (tmp_path / "run" / "accuracy").exists()


@pytest.mark.slow
def test_a_damaged_run_is_one_sentence(seeded: Path, tmp_path: Path) -> None:
    shutil.copytree(seeded, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "low" / "checkpoints")
    with pytest.raises(RunError, match=r"The checkpoint after 3 rounds that the ledger of .*low names is missing"):
        resume_images(tmp_path / "run", tacit.Callback())
    (tmp_path / "run" / "accuracy" / "summary.json").unlink()
    with pytest.raises(RunError, match=r"accuracy is damaged: it has finished, but its summary\.json is missing"):
        resume_images(tmp_path / "run", tacit.Callback())
    stolen = tmp_path / "run" / "classifier" / "checkpoints"
    shutil.copy(stolen / "round-000001.safetensors", stolen / "round-000002.safetensors")
    with pytest.raises(RunError, match=r"classifier.* is not the one the ledger names|damaged"):
        load_classifier(tmp_path / "run" / "classifier", 62)


@pytest.mark.slow
def test_without_privacy_the_pictures_are_the_owners_alone(seeded: Path) -> None:
    folder = RunFolder.open(seeded / "low")
    assert [each.name for each in read_sections(folder, share=True)] == ["gate-audit"]
    assert len(read_sections(folder, share=False)) == 2
    reasons = read_ledger(seeded / "low" / "ledger.jsonl").opened.reasons_not_private
    assert Reason(Why.CLASSIFIER_NOT_PRIVATE) in reasons


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Digits of twelve people in a store; every image is its label's stripe."""
    labels = np.arange(96) % 4
    images = np.zeros((96, 28, 28), np.uint8)
    images[np.arange(96), labels * 5 + 3] = 255
    np.savez(tmp_path / "digits.npz", images=images, labels=labels, writers=np.repeat(np.arange(12), 8))
    key = key_holding_out({"3", "8"}, [str(writer) for writer in range(12)], 0.2)
    import_images([read_npz(tmp_path / "digits.npz", Fields())], tmp_path / "store", held_out=0.2, key=key)
    return tmp_path / "store"


def of_store(store: Path, *changes: str) -> ImageInspection:
    tree = tiny_images(*SEEDED).model_dump(mode="json", exclude_none=True)
    tree["data"] = {"store": str(store), "classes": 4, "held_out": 2, "most_images": 8}
    for change in ("selection.by=example", *changes):
        apply_change(tree, change)
    return parse_image_inspection(tree)


@pytest.mark.slow
def test_a_store_is_inspected_by_example_and_its_odometer_knows(store: Path, tmp_path: Path) -> None:
    looked = start_images(of_store(store), tmp_path / "run", tacit.Callback())
    assert looked.findings.thresholds is None
    assert "images classified wrongly" in looked.findings.conclusion()
    ids = [RunFolder.open(tmp_path / "run" / stage).run_id for stage in STAGES]
    assert list(odometer.runs_of(store)) == ids
    about = InspectionRecord.read(read_ledger(tmp_path / "run" / "low" / "ledger.jsonl").opened)
    assert about is not None
    assert about.selection is not None
    assert (about.selection.task, about.selection.predicted) == ("T2", "wrongly")


@pytest.mark.slow
def test_an_earlier_classifier_is_used_and_must_fit(store: Path, seeded: Path, tmp_path: Path) -> None:
    trained = seeded / "classifier"
    recipe = tiny_images(*SEEDED, f"classifier.trained={json.dumps(str(trained))}", "fault.share=0")
    looked = start_images(recipe, tmp_path / "fixed", tacit.Callback())
    assert not (tmp_path / "fixed" / "classifier").exists()
    assert looked.findings.accuracy[0] == looked.findings.accuracy[1]  # no fault, the same held-out images
    assert "classifier" in looked.findings.privacy
    with pytest.raises(DataError, match=r"whom the run .*classifier was not trained on, data\.users ≥ 40, got 30"):
        start_images(
            tiny_images(f"classifier.trained={json.dumps(str(trained))}", "data.users=30"),
            tmp_path / "no",
            tacit.Callback(),
        )
    with pytest.raises(DataError, match=r"of data.classes = 4 classes, got .*, which has 62"):
        start_images(
            of_store(store, f"classifier.trained={json.dumps(str(trained))}"), tmp_path / "no", tacit.Callback()
        )
    assert not (tmp_path / "no").exists()
    with pytest.raises(RunError, match="the finished run of a classifier"):
        load_classifier(seeded / "low", 62)


@pytest.mark.slow
def test_a_subpopulation_that_is_empty_or_too_small_is_refused(tmp_path: Path, seeded: Path) -> None:
    trained = f"classifier.trained={json.dumps(str(seeded / 'classifier'))}"
    quiet = ("selection.privacy.mechanism=none", "selection.privacy.noise_multiplier=0.0", trained)
    by_value = tiny_images(*quiet).model_dump(mode="json", exclude_none=True)
    by_value["selection"]["thresholds"] = [0.5, 0.999]
    with pytest.raises(DataError, match=r"no users with an accuracy of at least 99\.9%: the subpopulation is empty"):
        start_images(parse_image_inspection(by_value), tmp_path / "empty", tacit.Callback())
    by_value["selection"]["thresholds"] = [0.001, 0.002]
    by_value["gan"]["privacy"] |= {"population": 4000, "cohort": 50, "delta": 1e-5}
    with pytest.raises(DataError, match=r"gan.privacy.cohort = 50 users .* smaller than the cohort"):
        start_images(parse_image_inspection(by_value), tmp_path / "small", tacit.Callback())
    by_example = tiny_images(*quiet, "selection.by=example", "selection.minimum_examples=8")  # all that anybody has
    with pytest.raises(DataError, match=r"no users with 8 images or more classified correctly"):
        start_images(by_example, tmp_path / "right", tacit.Callback())


def test_images_that_do_not_fit_are_refused(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"a class beyond data\.classes = 3\.$"):
        start_images(of_store(store, "data.classes=3"), tmp_path / "no", tacit.Callback())
    whole = Examples(np.zeros((1, 14, 28), np.uint8), np.arange(2), np.array([0, 1, 1]), np.zeros(1, np.int32))
    monkeypatch.setattr("tacit.data.store.Store.gather", lambda self, users: whole)
    with pytest.raises(DataError, match="28×28, got 14×28"):
        start_images(of_store(store), tmp_path / "no", tacit.Callback())
    assert not (tmp_path / "no").exists()


def test_stopping_in_between_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: Callable[..., None] = RunJournal.before

    def stops(journal: RunJournal, cohort: Any, norms: Any) -> None:
        before(journal, cohort, norms)
        journal.stop_requested = True

    monkeypatch.setattr(RunJournal, "before", stops)
    with pytest.raises(StopRequested):
        start_images(tiny_images(*SEEDED), tmp_path / "run", tacit.Callback())
    with pytest.raises(RunError, match="holds an inspection already"):
        start_images(tiny_images(*SEEDED), tmp_path / "run", tacit.Callback())
    assert image_run.FINDINGS not in [path.name for path in (tmp_path / "run").iterdir()]


def test_the_classifier_is_trained_before_the_fault() -> None:
    recipe = tiny_images("fault.share=1")
    users = open_images(recipe)
    everybody = np.arange(len(users.before))
    assert np.array_equal(users.now.gather(everybody).items, 255 - users.before.gather(everybody).items)
    stage = classifier_stage(recipe, users)
    assert stage.users is users.before
