"""The packages of MLflow and W&B as modules that write down how they are called."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Calls:
    """Whatever is called on it is remembered, and answered by what `answers` has under the name."""

    def __init__(self, **answers: Any) -> None:
        self.made: list[tuple[Any, ...]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            self.made.append((name, *arguments, named))
            return self._answers.get(name)

        return called

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.made if call[0] == name]


def fake_mlflow(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Calls:
    run = SimpleNamespace(info=SimpleNamespace(run_id="r1", start_time=99))
    client = Calls(**{"create_experiment": "e1", "search_runs": [], "create_run": run, **answers})
    module = ModuleType("mlflow")
    module.MlflowClient = lambda tracking_uri=None: client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "")
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
    return client


def fake_wandb(monkeypatch: pytest.MonkeyPatch) -> tuple[Calls, list[dict[str, Any]]]:
    run, begun = Calls(), []
    run.summary = {}

    def init(**arguments: Any) -> Calls:
        begun.append(arguments)
        return run

    module = ModuleType("wandb")
    module.Settings, module.init = lambda **fields: fields, init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    return run, begun
