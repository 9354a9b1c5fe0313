"""Runs in Weights & Biases, written by its own package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.runs.callbacks import Callback, RunEnd, RunStart
from tacit.runs.trackers.sent import cost, numbers, settings, tracker_module

# Everything that the package would otherwise capture by itself: code, git, packages, terminal output, machine and its load.
NOTHING_ELSE: dict[str, Any] = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "host": "",
    "program": "tacit",
    "save_code": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


class WandB(Callback):
    """Sends evaluations to a Weights & Biases project; a run that is resumed goes on in its W&B run.

    Needs `pip install "tacit[wandb]"`. `entity` and `mode` ("online", "offline") are those of `wandb.init`. Capture of code,
    git, packages, terminal output, machine and system metrics is switched off. W&B stamps every call with its time, and no
    setting prevents it: how long rounds take is not covered by the guarantee. Where that matters, use another tracker.

    >>> import tacit
    >>> tracker = tacit.WandB(project="keyboard")  # doctest: +SKIP
    >>> run = tacit.train(recipe="demo", callbacks=[tracker])  # doctest: +SKIP
    """

    def __init__(self, *, project: str = "tacit", entity: str | None = None, mode: str | None = None) -> None:
        self._module = tracker_module("wandb", "wandb")
        self._where = {"project": project, "entity": entity, "mode": mode}
        self._run: Any = None

    def on_start(self, run: RunStart) -> None:
        self._run = self._module.init(
            **self._where,
            id=run.run_id,
            name=run.name,
            resume="allow",
            config=settings(run),
            save_code=False,
            settings=self._module.Settings(**NOTHING_ELSE),
        )
        self._run.define_metric("round")
        self._run.define_metric("*", step_metric="round")  # so that a run which is resumed may repeat rounds

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._run.log({"round": round, **numbers(metrics)})

    def on_end(self, end: RunEnd) -> None:
        tracked, self._run = self._run, None
        if tracked is None:  # it ended in pre-training
            return
        for name, value in cost(end).items():
            tracked.summary[name] = value
        if end.guarantee is not None:
            tracked.summary["guarantee"] = end.guarantee
        tracked.finish(exit_code=0 if end.outcome in ("finished", "stopped") else 1)
