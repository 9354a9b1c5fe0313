"""`tacit fleet demo`: a server and devices that end with a run, the devices as threads so that it does not take minutes."""

from __future__ import annotations

import io
import os
import re
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tacit.cli import fleet_demo
from tacit.errors import TacitError
from tacit.fleet.device.agent import Agent
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.home import Home
from tacit.fleet.server.serving import ServeSettings
from tests.support.commands import Tacit


class Thread:
    """`tacit device run` as subprocess.Popen would run it."""

    def __init__(self, command: list[str], **options: Any) -> None:
        assert command[1:-1] == ["-m", "tacit", "device", "run", "--home"]
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading)
        self._writing, self._stopping = os.fdopen(writing, "w"), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(Path(command[-1]),))
        self._thread.start()

    def _run(self, folder: Path) -> None:
        with self._writing as out, Home.open(folder) as home:
            agent = Agent(home, Connection(home), on_event=lambda sentence: print(sentence, file=out, flush=True))
            while not self._stopping.is_set():
                try:
                    wait = agent.step()
                except TacitError:
                    wait = 0.2
                self._stopping.wait(min(wait, 0.2))

    def terminate(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        self._thread.join()


@pytest.mark.slow
def test_a_demo_ends_with_a_model_that_has_learned_something_and_shows_it(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not in the module `subprocess` itself: a device's plan runs in a process of its own.
    monkeypatch.setattr(
        fleet_demo, "subprocess", SimpleNamespace(Popen=Thread, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    )
    answer = tacit("fleet", "demo", "--devices", 4, "--rounds", 4, "--out", tmp_path / "demo")
    assert answer.code == 0, answer.err
    assert "4 of 4 rounds done" in answer.out
    assert "no privacy is claimed" in answer.out
    assert "ε is infinite" in answer.out
    assert "What the model suggests" in answer.out
    (guessed,) = re.findall(r"^Next word guessed right +(\S+)%", answer.out, re.M)
    (constant,) = re.findall(r"^ +always the same word +(\S+)%", answer.out, re.M)
    assert float(guessed) > 1.5 * float(constant)
    assert f"The model guesses {guessed}% of words." in answer.out
    assert not list((tmp_path / "demo/devices").glob("*.txt"))  # a device's text is with the device alone
    assert "exists" in tacit("fleet", "demo", "--out", tmp_path / "demo").refusal(9)


@pytest.mark.parametrize("devices", [4, 7, 64])
@pytest.mark.parametrize("secagg", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_recipe_fits_any_number_of_devices(devices: int, secagg: bool, noise: float) -> None:
    recipe = fleet_demo.demo_recipe(devices, 3, secagg=secagg, noise=noise)
    assert (recipe.reasons_not_private() == ()) == (noise > 0)
    assert recipe.privacy.cohort == (max(devices // 2, 3) if secagg else devices // 2)
    ServeSettings(out=Path("server"), recipe=recipe).check()
    assert (recipe.privacy.secagg is not None) == secagg


def test_the_table_says_who_did_what() -> None:
    device = fleet_demo._Device(3, None, 2, "Took part in round 5 of [small].")  # type: ignore[arg-type]
    out = io.StringIO()
    Console(file=out, width=100).print(fleet_demo._table("2 of 5 rounds done.", [device]))
    assert "2 of 5 rounds done." in out.getvalue()
    words = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "3 2 Took part in round 5 of [small]." in words
