"""Runs in MLflow, written by MLflow's own client."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from tacit.runs.callbacks import Callback, RunEnd, RunStart
from tacit.runs.trackers.sent import cost, numbers, settings, tracker_module

# Under which a run is found again when it is resumed.
_RUN_ID = "tacit.run_id"
_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}


class MLflow(Callback):
    """Sends evaluations to an MLflow experiment; a run that is resumed goes on in its MLflow run.

    Needs `pip install "tacit[mlflow]"`. `tracking_uri` is a server or a database, MLflow's default where it is None. MLflow's
    client is used directly, which records no source, git commit, user or system metrics. Its usage telemetry is switched off,
    unless the environment sets MLFLOW_DISABLE_TELEMETRY itself. All times are that of the start, because how long rounds take
    is not public; a server can still see when it is called.

    >>> import tacit
    >>> tracker = tacit.MLflow(experiment="keyboard", tracking_uri="http://tracking.example")  # doctest: +SKIP
    >>> run = tacit.train(recipe="demo", callbacks=[tracker])  # doctest: +SKIP
    """

    def __init__(self, *, experiment: str = "tacit", tracking_uri: str | None = None) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
        self._client: Any = tracker_module("mlflow", "mlflow").MlflowClient(tracking_uri=tracking_uri)
        self._experiment = experiment
        self._run: str | None = None
        self._began = 0

    def on_start(self, run: RunStart) -> None:
        client = self._client
        known = client.get_experiment_by_name(self._experiment)
        experiment = client.create_experiment(self._experiment) if known is None else known.experiment_id
        found = client.search_runs([experiment], filter_string=f"tags.`{_RUN_ID}` = '{run.run_id}'", max_results=1)
        if found:
            self._run, self._began = found[0].info.run_id, found[0].info.start_time
            client.update_run(self._run, status="RUNNING")
            return
        self._began = int(1000 * time.time())
        made = client.create_run(experiment, start_time=self._began, tags={_RUN_ID: run.run_id}, run_name=run.name)
        self._run = made.info.run_id
        for name, value in settings(run).items():
            client.log_param(self._run, name, value)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._send(numbers(metrics), round)

    def on_end(self, end: RunEnd) -> None:
        if self._run is None:  # it ended in pre-training
            return
        self._send(cost(end), 0)
        if end.guarantee is not None:
            self._client.set_tag(self._run, "guarantee", end.guarantee)
        self._client.set_terminated(self._run, status=_STATUS[end.outcome], end_time=self._began)
        self._run = None

    def _send(self, values: Mapping[str, float], round: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, timestamp=self._began, step=round)
