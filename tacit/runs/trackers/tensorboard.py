"""Runs in TensorBoard, written by tensorboardX, which needs neither TensorFlow nor PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.runs.callbacks import Callback, RunEnd, RunStart
from tacit.runs.trackers.sent import cost, numbers, settings, tracker_module


class TensorBoard(Callback):
    """Writes event files for TensorBoard under `folder`, a folder for each run: `tensorboard --logdir FOLDER` shows them.

    Needs `pip install "tacit[tensorboard]"`. How long rounds take is not public, so the wall time of a point is its round.
    A run that is resumed goes on in the same folder; points of rounds that run again are replaced.

    >>> import tacit, tempfile
    >>> from tacit.runs.callbacks import RunEnd, RunStart
    >>> folder = tempfile.TemporaryDirectory()
    >>> tensorboard = tacit.TensorBoard(folder.name)
    >>> tensorboard.on_start(RunStart("mine", "7f", {"cohort": 20.0}, rounds=16, rounds_done=0))
    >>> tensorboard.on_evaluation(4, {"top1": 0.25})
    >>> tensorboard.on_end(RunEnd("finished", 1.5, 1e-6, "ε = 1.50 at δ = 1e-06."))
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | Path) -> None:
        self._module = tracker_module("tensorboardX", "tensorboard")
        self._folder = Path(folder)
        self._writer: Any = None
        self._rounds = 0

    def on_start(self, run: RunStart) -> None:
        purge = run.rounds_done + 1 if run.rounds_done else None
        self._writer = self._module.SummaryWriter(str(self._folder / run.name), purge_step=purge)
        self._rounds = run.rounds
        if not run.rounds_done:
            rows = "".join(f"| {name} | {value} |\n" for name, value in {"run": run.run_id, **settings(run)}.items())
            self._writer.add_text("plan", f"| setting | value |\n|---|---|\n{rows}", 0, walltime=0.0)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        for name, value in numbers(metrics).items():
            self._writer.add_scalar(name, value, round, walltime=float(round))
        self._writer.flush()

    def on_end(self, end: RunEnd) -> None:
        writer, self._writer = self._writer, None
        if writer is None:  # it ended in pre-training
            return
        at = {"global_step": self._rounds, "walltime": float(self._rounds)}
        for name, value in cost(end).items():
            writer.add_scalar(f"guarantee/{name}", value, **at)
        if end.guarantee is not None:
            writer.add_text("guarantee", end.guarantee, **at)
        writer.close()
