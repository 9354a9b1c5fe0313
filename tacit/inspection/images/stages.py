"""The models of an inspection of images, each ready to be trained as a run of its own.

    classifier   the primary model, on users' images before the fault: local SGD
    sound        the histogram of users' accuracies before the fault, from which percentiles are read: one round
    accuracy     the histogram of users' accuracies, on their images with the fault: one round
    high, low    DP-FedAvg-GAN on the selected examples, for high and for low accuracy of the classifier
    all          DP-FedAvg-GAN on all images, instead of everything above

All of them use the same loop with different work and server steps; sampling, gate, noise, ledger and checkpoints are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tacit.data.users import Examples, Users
from tacit.inspection.example_scores import image_judge
from tacit.inspection.fault_scores import inversion_score, to_bytes
from tacit.inspection.images.accuracy_histogram import AccuracyWork
from tacit.inspection.images.data import ImageUsers
from tacit.inspection.record import InspectionRecord, Threshold, fault_record
from tacit.inspection.selection import Criterion, Everything, Judged, Selected, Unlabelled, UserAccuracy
from tacit.learning.adversarial import Adversaries, DiscriminatorWork, GeneratorSteps, adversarial_server, adversaries
from tacit.learning.batches import ImageBatches
from tacit.learning.loop import TrainingState
from tacit.learning.server import Server, build_optimizer
from tacit.learning.work import FedAvg, LocalWork, UserWork, learned_by
from tacit.models import classifier as classifiers
from tacit.models import gan
from tacit.models.classifier import Classifier, Classify, predict
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.noise_warnings import warnings_of
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.notes import notes_of
from tacit.privacy.record.reasons import Reason
from tacit.privacy.record.records import Opened
from tacit.recipe.engine import Ray
from tacit.recipe.image_inspection import ClassifierSection, GanSection, ImageInspection, ImageRun, ImageTraining
from tacit.recipe.reading import toml_of
from tacit.recipe.training import reasons_of_settings
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.runs.opening import opening
from tacit.simulation.choice import engine_for
from tacit.simulation.engine import Engine
from tacit.simulation.program import SimulatedProgram
from tacit.training.recipes import server_optimizer

Side = Literal["high", "low", "all"]
SIDES: tuple[Side, Side] = ("high", "low")
EVERYBODY: tuple[Side] = ("all",)
# Images per step of the histogram's work.
_BATCH = 32
_MADE_UP = "generated images, which cost nothing more"


@dataclass(frozen=True)
class ImageStage:
    """One model of an inspection: its users, what is learned from them and how. Nothing is on disk yet.

    `evaluate` computes a model's metrics; `outcome` gives further entries of the run's summary, from the last model.
    `rests_on` are the reasons why nothing may be claimed of the runs that it builds on.
    """

    name: str
    recipe_text: str
    plan: PrivacyPlan
    run: ImageRun
    users: Users
    data: DataRecord
    record: InspectionRecord
    store: Path | None
    model: Any
    work: UserWork
    server: Server
    shape: ImageBatches
    chunk: int | None
    ray: Ray | None
    evaluate: Callable[[Any], Mapping[str, Any]]
    outcome: Callable[[Any], Mapping[str, Any]]
    rests_on: tuple[Reason, ...] = ()

    def opened(self, folder: RunFolder) -> Opened:
        """The ledger's first record."""
        return opening(
            folder,
            self.plan,
            learned_by(self.work, self.model),
            rounds=self.run.rounds,
            recipe_text=self.recipe_text,
            seeded=self.run.seed is not None,
            reasons_not_private=(*self.rests_on, *reasons_of_settings(self.plan, self.run.seed)),
            data=self.data,
            gate_audit=True,
            selected_by=self._selected_by(),
            notes=notes_of(self.record),
        )

    def engine(self) -> Engine:
        """The engine that trains the stage's users."""
        return engine_for(
            self.ray,
            self.users,
            self.work,
            self.plan,
            self.shape,
            parameters=parameter_count(self.model),
            chunk=self.chunk,
        )

    def program(self, folder: RunFolder, engine: Engine | None = None) -> SimulatedProgram:
        """The stage as a program, for `tacit.runs.driver`; with `engine`, one that is open already."""
        plan, learned = self.plan, learned_by(self.work, self.model)

        def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
            metrics = {name: each for name, each in self.evaluate(state.model).items() if isinstance(each, float)}
            return {
                "rounds": self.run.rounds,
                "parameters": parameter_count(learned),
                "metrics": metrics,
                "privacy": spent.as_dict(),
                **self.outcome(state.model),
            }

        return SimulatedProgram(
            plan=plan,
            schedule=Schedule(self.run.rounds, self.run.evaluate_every, self.run.checkpoint_every),
            seed=self.run.seed,
            opened=self.opened(folder),
            store=self.store,
            start=TrainingState(0, self.model, self.server.init(self.model), plan.build_clipping().init(), ()),
            users=self.engine() if engine is None else engine,
            sampler=plan.build_sampler(),
            mechanism=plan.build_mechanism(self.run.rounds, None),
            server=self.server,
            evaluate=self.evaluate,
            finish=finish,
        )

    def warnings(self) -> list[str]:
        """Warnings about noise that would prevent learning."""
        learned = learned_by(self.work, self.model)
        norm = float(np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(learned))))
        found = warnings_of(self.plan, parameters=parameter_count(learned), model_norm=max(norm, 1.0), server_rate=1.0)
        return [f"{self.name}: {sentence}" for sentence in found]

    def _selected_by(self) -> tuple[str, ...]:
        """The runs whose releases decide which users this one reads: the classifier's, and that of a private quantile."""
        selection = self.record.selection
        threshold = None if selection is None else selection.threshold
        found = (self.record.classifier, None if threshold is None else threshold.released_by)
        return tuple(run_id for run_id in found if run_id is not None)


def classifier_stage(recipe: ImageInspection, users: ImageUsers) -> ImageStage:
    """The primary model, trained before the fault."""
    section = recipe.classifier
    config = classifiers.preset(section.preset, recipe.data.classes)
    return ImageStage(
        name="classifier",
        recipe_text=_text(recipe, "classifier", section, {**_network(section), "classes": recipe.data.classes}),
        users=users.before,
        data=users.description,
        record=InspectionRecord("classifier"),
        model=classifiers.build(config, key=jax.random.key(section.init_seed)),
        work=LocalWork(
            FedAvg(
                epochs=section.work.epochs,
                batch_size=section.work.batch_size,
                learning_rate=section.work.learning_rate,
            ),
            Classify(recipe.engine.precision),
        ),
        server=Server.build(_optimizer(section), section.privacy.denominator),
        evaluate=lambda model: {"accuracy": right_share(model, users.held_out)},
        outcome=lambda model: {},
        **_of_training(recipe, users, section),
    )


def accuracy_stage(
    recipe: ImageInspection,
    users: ImageUsers,
    classifier: Classifier,
    trained_by: str,
    rests_on: Sequence[Reason],
    *,
    sound: bool = False,
) -> ImageStage:
    """The histogram of accuracies, with the fault or before it (`sound`): one round, whose updates are users' one-hot bins."""
    selection, name = recipe.selection, "sound" if sound else "accuracy"
    run = ImageRun(rounds=1, seed=recipe.classifier.run.seed)
    sections = {"privacy": selection.privacy, "run": run}
    return ImageStage(
        name=name,
        recipe_text=_text(recipe, name, None, {"bins": selection.bins, "classifier": trained_by}, sections),
        plan=selection.privacy,
        run=run,
        users=users.before if sound else users.now,
        data=users.description,
        record=InspectionRecord(name, trained_by, fault=None if sound else fault_record(recipe.fault)),
        store=users.store,
        model=jnp.zeros((selection.bins,), jnp.float32),
        work=AccuracyWork(classifier),
        server=Server.build(build_optimizer("sgd", 1.0, 0.0), selection.privacy.denominator),
        shape=ImageBatches(_BATCH, -(-recipe.data.most_images // _BATCH)),
        chunk=recipe.engine.chunk,
        ray=recipe.engine.ray(),
        evaluate=lambda model: {"accuracy": right_share(classifier, users.held_out if sound else users.held_out_now)},
        outcome=lambda model: {"histogram": [float(each) for each in model]},
        rests_on=tuple(rests_on),
    )


def gan_stage(
    recipe: ImageInspection,
    users: ImageUsers,
    classifier: Classifier | None,
    trained_by: str | None,
    side: Side,
    threshold: Threshold | None,
    rests_on: Sequence[Reason],
) -> ImageStage:
    """The generative model of one side of the selection, or of all users."""
    section, precision = recipe.gan.of_side(side), recipe.engine.precision
    selected = _selected(recipe, users, classifier, side, threshold)
    generator = section.generator
    steps = GeneratorSteps(
        build_optimizer(generator.optimizer, generator.learning_rate, generator.momentum),
        generator.steps,
        generator.batch_size,
        precision,
    )
    # One seed for both sides, so that their images differ because of the users and not because of the initialisation.
    network_key, public_key = jax.random.split(jax.random.key(section.init_seed))
    model = jax.jit(lambda: adversaries(gan.build(gan.preset(section.preset), key=network_key), key=public_key))()
    look = recipe.look

    def evaluate(model: Adversaries) -> dict[str, Any]:
        score = inversion_score(generated_images(model, look.made, look.seed))
        return {"brightness": score.brightness, "inverted": score.inverted, "measured_on": _MADE_UP}

    return ImageStage(
        name=side,
        recipe_text=_text(
            recipe,
            side,
            section,
            {**_network(section), "penalty": section.penalty, "selection": selected.description.settings()},
        ),
        users=selected,
        data=users.description,
        record=InspectionRecord(side, trained_by, selected.description, fault_record(recipe.fault)),
        model=model,
        work=DiscriminatorWork(section.work.learning_rate, section.work.epochs, section.penalty, precision),
        server=adversarial_server(_optimizer(section), section.privacy.denominator, steps),
        evaluate=evaluate,
        outcome=lambda model: {},
        rests_on=tuple(rests_on),
        **_of_training(recipe, users, section),
    )


def _selected(
    recipe: ImageInspection, users: ImageUsers, classifier: Classifier | None, side: Side, threshold: Threshold | None
) -> Selected | Unlabelled:
    """The users with the examples that the model of this side learns from."""
    if recipe.selection.by == "unlabelled":
        return Unlabelled(users.now)
    criterion: Criterion = Everything()
    if side != "all":
        assert classifier is not None
        assert threshold is not None
        judge = image_judge(classifier)
        by_user: Criterion = UserAccuracy(judge, threshold, side)
        criterion = by_user if recipe.selection.by == "user" else Judged(judge, right=side == "high")
    return Selected(users.now, criterion, minimum_examples=recipe.selection.minimum_examples)


def generated_images(model: Adversaries, count: int, seed: int) -> np.ndarray:
    """Generate `count` images, uint8 [count, 28, 28]: a function of releases and a public seed."""
    return to_bytes(gan.generate(model.generator, count, key=jax.random.key(seed)))


def right_share(model: Classifier, examples: Examples) -> float:
    """The share of images whose class is the most likely one."""
    return float(np.mean(predict(model, examples.items) == examples.labels))


def _of_training(recipe: ImageInspection, users: ImageUsers, section: ImageTraining) -> dict[str, Any]:
    """The fields of a stage that follow from its section alone."""
    batch = section.work.batch_size
    return {
        "plan": section.privacy,
        "run": section.run,
        "store": users.store,
        "shape": ImageBatches(batch, -(-recipe.data.most_images // batch)),
        "chunk": recipe.engine.chunk,
        "ray": recipe.engine.ray(),
    }


def _network(section: ClassifierSection | GanSection) -> dict[str, Any]:
    """The network's preset and seed, for the stage's recipe."""
    return {"preset": section.preset, "init_seed": section.init_seed}


def _optimizer(section: ImageTraining) -> Any:
    return server_optimizer(section.server, section.run.rounds)


def _text(
    recipe: ImageInspection,
    stage: str,
    section: ImageTraining | None,
    model: Mapping[str, Any],
    sections: Mapping[str, Any] | None = None,
) -> str:
    """The recipe of one stage's run, for its folder; the inspection's whole recipe is in the parent folder."""
    shown = sections or {name: getattr(section, name) for name in ("work", "privacy", "server", "run")}
    if stage in (*SIDES, *EVERYBODY):
        shown = {"generator": recipe.gan.generator, **shown}
    dumped = {name: each.model_dump(mode="json", exclude_none=True) for name, each in shown.items()}
    data = recipe.data.model_dump(mode="json", exclude_none=True)
    fault = (
        {}
        if recipe.fault is None or stage in ("classifier", "sound")
        else {"fault": recipe.fault.model_dump(mode="json")}
    )
    head = {"inspect": "images", "name": f"{recipe.name}-{stage}", "stage": stage}
    return toml_of({**head, "data": data, **fault, "model": dict(model), **dumped})
