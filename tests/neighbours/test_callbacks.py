"""Callbacks on D and D′: every call, with every argument, is the same whether or not a silent user was there."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.simulation.training import start_run
from tests.support.neighbours import World, compared, people, write_text_store
from tests.support.tiny_recipe import tiny

EVERYBODY = people()
PRIVACY = {"population": 60, "cohort": 8, "clip_norm": 0.3, "noise_multiplier": 1.1, "delta": 1e-3}
KINDS: dict[str, dict[str, Any]] = {
    "poisson": {},
    "adaptive": {"adaptive": {"quantile": 0.5, "count_noise": 2.0}},
    "check_in": {"sampling": "check_in", "cohort": 6, "min_separation": 2, "max_participation": 2},
}


class Calls(tacit.Callback):
    """Every call as bytes."""

    def __init__(self) -> None:
        self.pickled: list[bytes] = []


for _name in ("on_warning", "on_pretraining", "on_start", "on_round", "on_evaluation", "on_end"):
    setattr(Calls, _name, lambda self, *arguments, _name=_name: self.pickled.append(pickle.dumps((_name, arguments))))


def write(folder: Path, who: Sequence[str]) -> None:
    write_text_store(folder, {user: EVERYBODY[user] for user in who})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_calls_do_not_depend_on_a_silent_user(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = {"world": None, "store": "store", "users": 1, "held_out": 9}
    recipe = tiny(data=data, privacy={**PRIVACY, **KINDS[kind]}, run={"rounds": 4})

    def commands(world: World) -> None:
        calls = Calls()
        with chdir(world.folder):
            start_run(recipe, Path("runs/one"), calls)
        assert len(calls.pickled) >= 8  # the start, four rounds, two evaluations, the end
        world.printed["calls of the callback"] = b"\n".join(calls.pickled)

    found = compared(tmp_path, capfd, write, list(EVERYBODY), commands)
    assert not found, "\n".join(found)
