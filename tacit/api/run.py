"""A run as an object: commands, pages and scripts ask a `Run`, and nothing else computes a cost or loads a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.api.own_objects import HELD_OUT, HOW, objects_of, require_known
from tacit.errors import AuditError, RunError
from tacit.numbers import rounded_up
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.cost import RunCost, cohorts_for_owner, cost_of
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import last_metrics, read_metrics
from tacit.runs.other_runs import runs_listed_with
from tacit.runs.report.reading import state_of

if TYPE_CHECKING:
    from tacit.audit.outcome import AuditOutcome
    from tacit.export.model_files import Exportable
    from tacit.runs.checkpoints import Checkpoint
    from tacit.runs.gate_audit.outcome import GateOutcome
    from tacit.training.calls import CallSetup


@dataclass(frozen=True)
class StatedCost:
    """What a run costs any one of its users. `epsilon` is infinite exactly when `reasons_not_private` says why.

    `epsilon` and `rho` are computed from the participation that the plan promises, so every reader gets the same numbers. For
    a run without sampling, the owner also gets `epsilon_of_what_happened`, computed from the participation on record.

    >>> import tacit
    >>> cost = tacit.open_run("runs/mine").cost()  # doctest: +SKIP
    >>> cost.epsilon, cost.delta  # doctest: +SKIP
    >>> print(cost)  # a bound: rounded up  # doctest: +SKIP
    epsilon = 0.43 at delta = 0.0001 (add or remove one user; pld)
    """

    epsilon: float
    delta: float
    rho: float | None
    unit: str
    adjacency: str
    accountant: str
    reasons_not_private: tuple[str, ...]
    epsilon_of_what_happened: float | None = None

    def __str__(self) -> str:
        how = f"({self.adjacency}; {self.accountant})"
        if self.reasons_not_private:
            return f"epsilon is infinite: {'; '.join(self.reasons_not_private)} {how}"
        rho = "" if self.rho is None else f", rho = {rounded_up(self.rho)}"
        return f"epsilon = {epsilon_text(self.epsilon)} at delta = {self.delta:g}{rho} {how}"

    @classmethod
    def of(cls, cost: RunCost) -> StatedCost:
        """The figures of a cost."""
        stated = cost.stated
        return cls(
            epsilon=stated.epsilon,
            delta=stated.delta,
            rho=stated.rho,
            unit=stated.unit,
            adjacency=cost.ledger.opened.adjacency,
            accountant=stated.accountant,
            reasons_not_private=tuple(reason.sentence for reason in stated.reasons_not_private),
            epsilon_of_what_happened=None if cost.happened is None else cost.happened.epsilon,
        )


class Run:
    """A run on disk: what it trained, what it released, and what that costs.

    `tacit.train` and `tacit.open_run` return one. Nothing is read before it is asked for.

    >>> import tacit
    >>> run = tacit.open_run("runs/demo-1")  # doctest: +SKIP
    >>> run.cost().epsilon  # doctest: +SKIP
    3.27
    """

    def __init__(
        self, folder: RunFolder, *, objects: Mapping[str, Any] | None = None, setup: CallSetup | None = None
    ) -> None:
        self.folder = folder
        self._given = dict(objects or {})
        self._setup = setup

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.state}, {self.rounds_done} rounds>"

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def run_id(self) -> str:
        """The random id that the run got when it was made."""
        return self.folder.run_id

    @property
    def state(self) -> str:
        """ "not begun", "running", "interrupted", "stopped", "finished" or "diverged"."""
        return state_of(self.folder, self.ledger if self.folder.begun else None)

    @property
    def rounds_done(self) -> int:
        """How many rounds have been run."""
        return self.ledger.next_round if self.folder.begun else 0

    @property
    def settings(self) -> dict[str, Any]:
        """The recipe that the run follows, or the settings of the call that made it."""
        return self.folder.recipe()

    @property
    def summary(self) -> dict[str, Any]:
        """The result of a run that has ended; empty before that."""
        return self.folder.summary() or {}

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The evaluations, one dictionary each, in order of their rounds. They are measured on held-out users."""
        return list(read_metrics(self.folder.metrics_path))

    @property
    def ledger(self) -> Ledger:
        """What was released, as it was recorded; RunError before the first round."""
        if not self.folder.begun:
            raise RunError(f"The run {self.path} has no ledger yet: its first round has not begun.")
        return self.folder.accountable_ledger()

    @property
    def words(self) -> list[str]:
        """The vocabulary: the word of each number, reserved entries first; empty for a run without text."""
        return self.folder.vocabulary() or []

    @cached_property
    def model(self) -> Any:
        """The model of the last checkpoint, checked against the ledger; of a run that averages its models, the average."""
        from tacit.learning.state import load_model
        from tacit.training.trained import load_trained

        if not self._is_call and "model" not in self._given:
            return load_trained(self.path).model
        if (template := self._objects.get("model")) is not None:
            return load_model(template, self._checkpoint().arrays)
        raise RunError(
            f"The run {self.path} was begun with a model of your own, whose class the folder does not hold.", hint=HOW
        )

    @cached_property
    def _objects(self) -> Mapping[str, Any]:
        """The objects that the run was begun with: of its call, as given, or as a registered function builds them."""
        if self._setup is not None:
            return {"model": self._setup.start.model, "task": self._setup.task}
        if self._given.get("model") is not None or not self._is_call:
            return self._given
        return {**objects_of(self.folder), **self._given}

    @property
    def _is_call(self) -> bool:
        """Whether `tacit.train` was called with objects rather than with a recipe."""
        from tacit.training.calls import CALLED

        return CALLED in self.settings

    def _checkpoint(self) -> Checkpoint:
        found = self.folder.last_checkpoint()
        if found is None:
            raise RunError(f"The run {self.path} has no checkpoint yet.")
        return found

    def cost(self) -> StatedCost:
        """What the run costs any one of its users."""
        return StatedCost.of(self._cost(owner=True))

    def guarantee(self) -> Guarantee:
        """The statement that a reviewer can sign. It reads nothing private, so every reader sees the same numbers."""
        measured = last_metrics(self.folder.metrics_path)
        return self._cost(owner=False).guarantee(listed=runs_listed_with(self.folder), metrics=measured)

    def _cost(self, *, owner: bool) -> RunCost:
        ledger = self.ledger
        return cost_of(self.folder, ledger, cohorts=cohorts_for_owner(self.folder, ledger) if owner else None)

    def report(self, out: str | Path | None = None, *, share: bool = False) -> Path:
        """Write the run as one HTML page and return its path.

        Without `share` it is the owner's copy, which also shows participation and diagnostics, and which others cannot read.
        """
        from tacit.runs.gate_audit.outcome import write_gate_section
        from tacit.runs.report import write_report

        if not share:
            write_gate_section(self.folder)
        return write_report(self.folder, None if out is None else Path(out), share=share)

    def plot(self, out: str | Path = "training.png") -> Path:
        """Draw the metrics and the privacy budget over the rounds, as .png or .svg; returns the path."""
        from tacit.runs.plots import plot_training

        plot_training(self.folder, Path(out))
        return Path(out)

    def gate_audit(self) -> GateOutcome | None:
        """What the audit of the gate found, for the owner alone; None where there was none."""
        from tacit.runs.gate_audit.outcome import read_outcome

        return read_outcome(self.folder)

    def audit(self, **options: Any) -> AuditOutcome:
        """Attack the model with the canaries that were planted among its users; for the owner alone.

        Takes the options of `tacit.audit.run_audit.audit_run`. AuditError for a run without canaries.
        """
        from tacit.audit.run_audit import audit_call, audit_run

        if self._is_call:
            return audit_call(self._setup or self._built_again(), self.folder, self.model)
        return audit_run(self.path, **options)

    def _built_again(self) -> CallSetup:
        """The setup of this run of `tacit.train`, from the objects that it was begun with."""
        from tacit.runs.driver import require_same_promise
        from tacit.training.calls import resumed_call

        needed = ("model", "task", "users", "work", "server")
        if missing := [name for name in needed if self._objects.get(name) is None]:
            raise AuditError(
                f"The run {self.path} was begun with objects of your own, and its audit needs {', '.join(missing)} again.",
                hint="In Python: tacit.open_run(path, model=..., task=..., users=..., work=..., server=..., canaries=...). For "
                "a command: tacit --import MODULE ..., where MODULE calls tacit.register_objects.",
            )
        setup = resumed_call(self.folder, **{"held_out": HELD_OUT, **self._objects})
        require_same_promise(self.ledger.opened, setup.opened(self.folder))
        return setup

    def predict(self, text: str = "", count: int = 3) -> list[tuple[str, float]]:
        """The `count` most likely next words after this text, with their probabilities.

        For a model of your own the task needs a method scores(model, tokens): tokens [rows, length] to logits [rows, length,
        vocabulary].
        """
        from tacit.data.text import tokenize
        from tacit.data.users import OOV
        from tacit.learning.next_word import suggest

        words = self.words
        if not words:
            raise RunError(f"The run {self.path} has no vocabulary, so there are no words to predict.")
        number = {word: index for index, word in enumerate(words)}
        typed = [number.get(word, OOV) for word in tokenize(text)]
        options: dict[str, Any] = {"longest": self._longest}
        if self._is_call:
            scores = getattr(self._objects.get("task"), "scores", None)
            if scores is None:
                raise RunError(
                    f"To predict with {self.path}, a task with a method scores(model, tokens) is needed, as NextWord has.",
                    hint=HOW,
                )
            options["scores"] = scores
        return [(words[word], each) for word, each in suggest(self.model, typed, count, **options)]

    def export(self, out: str | Path) -> Path:
        """Write the model with its card to one file, .safetensors (any model) or .onnx (word models); returns the path."""
        from tacit.export.model_files import export_onnx, export_safetensors

        path = Path(out)
        if path.suffix not in (".safetensors", ".onnx"):
            raise RunError(f"Expected a file that ends in .safetensors or .onnx, got {path}.")
        if path.suffix == ".onnx":
            export_onnx(self.exportable(), path)
        else:
            export_safetensors(self.exportable(), path)
        return path

    def certify(self, out: str | Path = "certificate.json", *, files: Sequence[str | Path] = ()) -> Path:
        """Write the run's certificate, which others can check without Tacit; returns the path. For the run's owner alone.

        `files` are exports of the model that the certificate is to name. It is signed with the key of the run's log.
        """
        from tacit.runs.certify import write_certificate

        write_certificate(
            self.folder, self.guarantee(), self._released(), Path(out), files=[Path(file) for file in files]
        )
        return Path(out)

    def _released(self) -> Mapping[str, Any] | None:
        """The arrays that `export` would write; None without a checkpoint, or where the model's class is not at hand."""
        if self.ledger.committed is None or self.ledger.opened.finds_words:
            return None
        from tacit.learning.state import model_arrays

        try:
            return model_arrays(self.model)
        except RunError:
            if self._is_call and "model" not in self._objects:
                return None
            raise

    def exportable(self) -> Exportable:
        """The model with its words and its card, which `export` writes."""
        from tacit.export.model_files import exportable, open_for_export

        if self._is_call:
            about = self.settings["model"]
            return exportable(self.model, self.folder, self._checkpoint(), about, longest=self._longest)
        return open_for_export(self.path)

    @property
    def _longest(self) -> int | None:
        """How many tokens the model is given at most; None for a model of a recipe, which reads any number."""
        longest = self.settings["data"]["batches"].get("length") if self._is_call else None
        return None if longest is None else int(longest)

    @property
    def predicts_as_tacit(self) -> bool:
        """Whether suggestions are the softmax of the model's own scores: not under a task that computes scores otherwise."""
        from tacit.learning.next_word import NextWord

        return not self._is_call or type(self._objects.get("task")) is NextWord


def open_run(path: str | Path, **objects: Any) -> Run:
    """The run in this folder, or of this name in runs/.

    For a run that trained a model of your own, pass `model`, a model of the same shape that is filled with the trained arrays,
    and, to predict, `task`. To audit it, pass everything that `tacit.resume` takes too: `users`, `work`, `server`, `canaries`.
    What `tacit.register_objects` registered need not be passed.

    >>> import tacit
    >>> tacit.open_run("runs/mine").state  # doctest: +SKIP
    'finished'
    """
    require_known(objects, "the arguments of tacit.open_run")
    return Run(RunFolder.open(by_name(Path(path))), objects=objects)
