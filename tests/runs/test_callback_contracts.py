"""Every callback that comes with Tacit keeps the contract."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import tacit
from tacit.fleet.rounds.coordinator import _LogCallback
from tacit.runs.callbacks import Callbacks
from tacit.simulation.sweep.one_run import _Telling
from tacit.testing.callbacks import CallbackContract
from tests.support.fake_trackers import fake_mlflow, fake_wandb
from tests.support.implementations import covered, implementations


class TestCallback(CallbackContract):
    implementation = tacit.Callback

    def build(self) -> tacit.Callback:
        return tacit.Callback()


class TestCallbacks(CallbackContract):
    implementation = Callbacks

    def build(self) -> tacit.Callback:
        return Callbacks([tacit.Callback(), tacit.Progress(console=Console(file=io.StringIO()))])


class TestBar(CallbackContract):
    implementation = tacit.Progress

    def build(self) -> tacit.Callback:
        return tacit.Progress(console=Console(file=io.StringIO(), force_terminal=True, width=120))


class TestLines(CallbackContract):
    implementation = tacit.Progress

    def build(self) -> tacit.Callback:
        return tacit.Progress(console=Console(file=io.StringIO()), name_runs=True)


class TestTensorBoard(CallbackContract):
    implementation = tacit.TensorBoard

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def build(self) -> tacit.Callback:
        return tacit.TensorBoard(self.folder)


class TestMLflow(CallbackContract):
    implementation = tacit.MLflow

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_mlflow(monkeypatch)

    def build(self) -> tacit.Callback:
        return tacit.MLflow()


class TestWandB(CallbackContract):
    implementation = tacit.WandB

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_wandb(monkeypatch)

    def build(self) -> tacit.Callback:
        return tacit.WandB()


class TestLogOfAServer(CallbackContract):
    implementation = _LogCallback

    def build(self) -> tacit.Callback:
        return _LogCallback(lambda event, **fields: None)


class TestTellingOfASweep(CallbackContract):
    implementation = _Telling

    def build(self) -> tacit.Callback:
        return _Telling(lambda event: None)


def test_no_callback_is_forgotten() -> None:
    assert covered(globals(), CallbackContract) == implementations(tacit.Callback)


class TestTheContract:
    """Callbacks that would stop a run are found."""

    @pytest.mark.parametrize(
        ("source", "found_by"),
        [
            ("def on_start(self, run): run.plan.clear()", "test_arguments_are_left_as_they_are"),
            ("def on_evaluation(self, round, metrics): metrics['top1']", "test_metrics_of_any_task"),
            ("def on_end(self, end): '%.2f' % end.epsilon", "test_a_run_that_does_not_finish"),
            ("def on_end(self, end): self.run", "test_an_end_before_the_start"),
        ],
    )
    def test_it_finds(self, source: str, found_by: str) -> None:
        names: dict[str, type] = {}
        exec(f"import tacit\nclass Bad(tacit.Callback):\n    {source}", names)

        class Suite(CallbackContract):
            def build(self) -> tacit.Callback:
                return names["Bad"]()

        arguments = {"test_metrics_of_any_task": [{}], "test_a_run_that_does_not_finish": ["stopped"]}.get(found_by, [])
        with pytest.raises((AssertionError, KeyError, TypeError, AttributeError)):
            getattr(Suite(), found_by)(*arguments)
