"""Run an inspection of images from end to end (Debugging, section 6): a folder of runs, one after another.

    inspection.toml    the recipe
    classifier/        the run of the primary model, unless that of an earlier run is used
    sound/             the run of the histogram of users' accuracies before the fault, if percentiles are read from it
    accuracy/          the run of the histogram of users' accuracies
    high/, low/        the runs of the two generative models
    all/               the run of the generative model of all users, instead of these
    findings.json      the findings

Each is a run like any other, with its own ledger, checkpoints and guarantee, and its own entry in the store's odometer.
Resuming continues the first run that is not finished. Finished runs must match the recipe, and no run may be missing before one
that exists: the releases of a lost run would be left out of the total cost.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError, RunError
from tacit.files import write_atomic
from tacit.inspection.costs import cost_together
from tacit.inspection.fault_scores import inversion_score
from tacit.inspection.held_out import require_held_out
from tacit.inspection.images.accuracy_histogram import percentile, share_beyond
from tacit.inspection.images.data import ImageUsers, open_images
from tacit.inspection.images.findings import ImageFindings
from tacit.inspection.images.stages import (
    EVERYBODY,
    SIDES,
    ImageStage,
    Side,
    accuracy_stage,
    classifier_stage,
    gan_stage,
    generated_images,
)
from tacit.inspection.record import InspectionRecord, Threshold
from tacit.learning.state import load_model
from tacit.models import classifier as classifiers
from tacit.models.classifier import Classifier
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.image_inspection import RECIPE, ImageInspection, image_inspection_of, refuse_if_inspected
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on, require_same_promise
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.runs.report.sections import write_section
from tacit.simulation.choice import use_accelerators

FINDINGS = "findings.json"


@dataclass(frozen=True)
class ImageInspectionResult:
    """A finished inspection: its findings, and the generated images of both sides."""

    findings: ImageFindings
    images: dict[str, NDArray[np.uint8]]


def start_images(recipe: ImageInspection, out: Path, callback: Callback) -> ImageInspectionResult:
    """Inspect in a new folder. The folder is made only if the recipe and the data have no mistake."""
    refuse_if_inspected(out)
    use_accelerators(recipe.engine.ray())
    users = open_images(recipe)
    if recipe.classifier.trained is not None:
        load_classifier(Path(recipe.classifier.trained), recipe.data.classes)
        require_held_out(recipe.data, users.description, RunFolder.open(Path(recipe.classifier.trained)))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"Cannot make the folder {out} ({error.strerror}).") from None
    write_atomic(out / RECIPE, recipe.to_toml())
    return _follow(recipe, users, out, callback)


def resume_images(folder: Path, callback: Callback) -> ImageInspectionResult:
    """Resume an inspection; a finished one returns its result."""
    recipe = image_inspection_of(folder)
    use_accelerators(recipe.engine.ray())
    return _follow(recipe, open_images(recipe), folder, callback)


def load_classifier(run: Path, classes: int) -> Classifier:
    """The classifier of a finished run; DataError if it has another number of classes."""
    folder = RunFolder.open(run)
    shape = folder.recipe().get("model", {})
    if folder.recipe().get("stage") != "classifier" or folder.summary() is None:
        raise RunError(f"The run {run} is not the finished run of a classifier.")
    if shape["classes"] != classes:
        raise DataError(
            f"Expected a classifier of data.classes = {classes} classes, got {run}, which has {shape['classes']}."
        )
    config = classifiers.preset(shape["preset"], classes)
    model: Classifier = load_model(classifiers.build(config, key=jax.random.key(0)), _trained(folder))
    return model


def _follow(recipe: ImageInspection, users: ImageUsers, out: Path, callback: Callback) -> ImageInspectionResult:
    if recipe.selection.by in ("all", "unlabelled"):
        return _follow_everybody(recipe, users, out, callback)
    before = [] if recipe.classifier.trained else ["classifier"]
    _require_whole(out, [*before, *(["sound"] if recipe.counts_sound_users else []), "accuracy", *SIDES])
    classifier_run = Path(recipe.classifier.trained or out / "classifier")
    if recipe.classifier.trained is None:
        _run(classifier_stage(recipe, users), classifier_run, callback)
    classifier = load_classifier(classifier_run, recipe.data.classes)
    trained_by = RunFolder.open(classifier_run).run_id
    rests_on = _without_privacy(classifier_run, Why.CLASSIFIER_NOT_PRIVATE)
    runs = {"classifier": classifier_run}
    sound = None
    if recipe.counts_sound_users:
        runs["sound"] = out / "sound"
        sound = _run(
            accuracy_stage(recipe, users, classifier, trained_by, rests_on, sound=True), runs["sound"], callback
        )
    elif recipe.selection.sound is not None and recipe.selection.by == "user":
        runs["sound"] = Path(recipe.selection.sound)
        sound = _earlier_histogram(runs["sound"], trained_by)
    if sound is not None:
        rests_on += _without_privacy(runs["sound"], Why.ACCURACIES_NOT_PRIVATE)
    counted = _run(accuracy_stage(recipe, users, classifier, trained_by, rests_on), out / "accuracy", callback)
    rests_on += _without_privacy(out / "accuracy", Why.ACCURACIES_NOT_PRIVATE)
    histogram = np.array(counted["histogram"])
    runs["accuracy"] = out / "accuracy"
    images: dict[str, NDArray[np.uint8]] = {}
    ranked = histogram if sound is None else np.array(sound["histogram"])
    ranked_by = RunFolder.open(runs["accuracy" if sound is None else "sound"]).ledger()
    thresholds = {side: _threshold(recipe, ranked, side, ranked_by) for side in SIDES}
    _require_apart(recipe, thresholds)
    for side in SIDES:
        _require_users(recipe, histogram, side, thresholds[side].value)
    for side in SIDES:
        stage = gan_stage(recipe, users, classifier, trained_by, side, thresholds[side], rests_on)
        _run(stage, out / side, callback)
        runs[side] = out / side
        images[side] = _images(stage, out / side, recipe)
    findings = _findings(recipe, runs, histogram, thresholds, classifier, images)
    if sound is not None:
        findings = dataclasses.replace(findings, histogram_before=tuple(sound["histogram"]))
    return _finished(findings, images, out)


def _follow_everybody(
    recipe: ImageInspection, users: ImageUsers, out: Path, callback: Callback
) -> ImageInspectionResult:
    """One model of all users' images: nothing is selected, so neither a classifier nor a histogram is needed."""
    (side,) = EVERYBODY
    stage = gan_stage(recipe, users, None, None, side, None, ())
    _run(stage, out / side, callback)
    images: dict[str, NDArray[np.uint8]] = {side: _images(stage, out / side, recipe)}
    return _finished(_findings(recipe, {side: out / side}, None, None, None, images), images, out)


def _finished(findings: ImageFindings, images: dict[str, NDArray[np.uint8]], out: Path) -> ImageInspectionResult:
    for side in images:
        write_section(RunFolder.open(out / side), findings.section(images))
    write_atomic(out / FINDINGS, json.dumps(findings.as_dict(), indent=2, allow_nan=False) + "\n")
    return ImageInspectionResult(findings, images)


def _earlier_histogram(run: Path, trained_by: str) -> dict[str, Any]:
    """The summary of the finished run of a histogram; RunError unless it is one of this classifier's accuracies."""
    folder = RunFolder.open(run)
    summary = folder.summary()
    if folder.recipe().get("stage") not in ("sound", "accuracy") or summary is None:
        raise RunError(f"The run {run} is not the finished run of a histogram of accuracies.")
    about = InspectionRecord.read(folder.ledger().opened)
    if about is None or about.classifier != trained_by:
        raise RunError(
            f"The histogram of the run {run} is not of the accuracies of this classifier, the run {trained_by}.",
            hint="Use the classifier of the same inspection: tacit inspect images --classifier RUN",
        )
    return summary


def _require_whole(out: Path, names: Sequence[str]) -> None:
    """RunError if a run is missing before one that exists: its releases would be forgotten."""
    there = [is_run(out / name) for name in names]
    if there != sorted(there, reverse=True):
        gone = names[there.index(False)]
        raise RunError(f"The inspection {out} is damaged: its run {gone}/ is missing, and later runs depend on it.")


def _run(stage: ImageStage, path: Path, callback: Callback) -> dict[str, Any]:
    """Train a stage's model, resume it, or read its result; returns the run's summary.

    RunError or PrivacyError if the existing run, finished or not, is not that of the stage.
    """
    if not is_run(path):
        engine = stage.engine()
        engine.open()  # so that what is wrong with workers is told before there is a folder
        for sentence in stage.warnings():
            callback.on_warning(sentence)
        folder = RunFolder.create(path, stage.recipe_text)
        return begin(stage.program(folder, engine), folder, callback)
    folder = RunFolder.open(path)
    folder.require_same_recipe(tomllib.loads(stage.recipe_text))
    if not folder.begun:
        return begin(stage.program(folder), folder, callback)
    ledger, summary = folder.ledger(), folder.summary()
    if ledger.closed is None or ledger.closed.outcome != "finished":
        return go_on(stage.program(folder), folder, callback)
    require_same_promise(ledger.opened, stage.opened(folder))
    if summary is None:
        raise RunError(f"The run {path} is damaged: it has finished, but its summary.json is missing.")
    return summary


def _trained(folder: RunFolder) -> Mapping[str, np.ndarray]:
    """The arrays of the last model of a finished run, which must be the one that its ledger names."""
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None  # the ledger of a finished run names one
    return checkpoint.arrays


def _without_privacy(run: Path, why: Why) -> list[Reason]:
    """The reason, if the run cannot claim privacy: then runs that depend on it cannot either."""
    return [Reason(why)] if (RunFolder.open(run).summary() or {})["privacy"]["epsilon"] is None else []


def _threshold(recipe: ImageInspection, histogram: NDArray[np.float64], side: Side, counted_by: Ledger) -> Threshold:
    selection = recipe.selection
    if selection.thresholds is not None:
        return Threshold(selection.thresholds[side == "high"])
    assert selection.percentiles is not None
    assert side != "all"
    value = percentile(histogram, selection.percentiles[side == "high"], side=side)
    return Threshold(value, counted_by.opened.plan["noise_multiplier"], counted_by.opened.run_id)


def _require_apart(recipe: ImageInspection, thresholds: dict[Side, Threshold]) -> None:
    """DataError if the low threshold is above the high one: users between them would be in both subpopulations."""
    low, high = thresholds["low"].value, thresholds["high"].value
    if recipe.selection.by == "user" and low > high:
        raise DataError(
            f"Expected a low threshold of accuracy at or below the high one, got {low:.1%} and {high:.1%} by the released "
            "histogram: users between them would be in both subpopulations.",
            hint="Set selection.percentiles further apart, more selection.bins, or selection.thresholds.",
        )


def _require_users(recipe: ImageInspection, histogram: NDArray[np.float64], side: Side, threshold: float) -> None:
    """DataError if, by the released histogram, no users or too few users meet the selection. This costs no privacy."""
    assert side != "all"
    selection, cohort = recipe.selection, recipe.gan.privacy.cohort
    what = f"an accuracy of at {'most' if side == 'low' else 'least'} {threshold:.1%}"
    if selection.by == "example":
        least = selection.minimum_examples / recipe.data.most_images  # users with fewer of them have none
        threshold = least if side == "high" else 1 - least
        what = f"{selection.minimum_examples} images or more classified {'correctly' if side == 'high' else 'wrongly'}"
    there = share_beyond(histogram, threshold, side=side) * selection.privacy.population
    if there < 0.5:
        raise DataError(f"The released histogram has no users with {what}: the subpopulation is empty.")
    if there < cohort:
        raise DataError(
            f"Expected at least gan.privacy.cohort = {cohort:g} users with {what}, got about {there:.0f} by the released "
            "histogram: the subpopulation is smaller than the cohort."
        )


def _images(stage: ImageStage, run: Path, recipe: ImageInspection) -> NDArray[np.uint8]:
    return generated_images(load_model(stage.model, _trained(RunFolder.open(run))), recipe.look.made, recipe.look.seed)


def _findings(
    recipe: ImageInspection,
    runs: dict[str, Path],
    histogram: NDArray[np.float64] | None,
    thresholds: dict[Side, Threshold] | None,
    classifier: Classifier | None,
    images: dict[str, NDArray[np.uint8]],
) -> ImageFindings:
    folders = {name: RunFolder.open(path) for name, path in runs.items()}
    summaries = {name: folder.summary() or {} for name, folder in folders.items()}
    limits = thresholds if thresholds is not None and recipe.selection.by == "user" else None
    accuracy = None
    if classifier is not None:
        accuracy = tuple(summaries[name]["metrics"]["accuracy"] for name in ("classifier", "accuracy"))
    return ImageFindings(
        by=recipe.selection.by,
        scores={side: inversion_score(made, classifier) for side, made in images.items()},
        made=recipe.look.made,
        histogram=None if histogram is None else tuple(histogram.tolist()),
        thresholds=None if limits is None else (limits["low"].value, limits["high"].value),
        accuracy=accuracy,
        privacy={name: summary["privacy"] for name, summary in summaries.items()},
        together=cost_together([folder.accountable_ledger() for folder in folders.values()]),
    )
