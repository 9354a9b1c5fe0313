"""The recipe, the store and the commands of runs on neighbouring data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.neighbours import WORDS, World, people, write_text_store
from tests.support.tiny_recipe import tiny

EVERYBODY = people()

# About 72 of the 90 people are trained on.
PRIVACY = {"population": 60, "cohort": 8, "clip_norm": 0.3, "noise_multiplier": 1.1, "delta": 1e-3}

DATA = {"world": None, "store": "store", "users": 1, "held_out": 9}


def recipe(**sections: dict[str, Any]) -> str:
    changes: dict[str, dict[str, Any]] = {
        "data": DATA,
        "privacy": PRIVACY,
        "run": {"rounds": 4},
        **sections,
    }
    made = tiny(**{name: section for name, section in changes.items() if name != "pretrain"})
    if "pretrain" in changes:
        made = made.model_validate({**made.model_dump(exclude_none=True), "pretrain": changes["pretrain"]})
    return made.to_toml()


def write(folder: Path, who: Sequence[str]) -> None:
    write_text_store(folder, {user: EVERYBODY[user] for user in who})


def stating(world: World, run: str) -> None:
    """Every command that says something about a run to others."""
    (world.folder / "written").mkdir(exist_ok=True)
    for form in ((), ("--json",), ("--html",)):
        world.run("guarantee", run, *form)
    world.run("report", run, "--share")
    world.run("export", run, "--safetensors", "written/model.safetensors", "--onnx", "written/model.onnx")
    world.run("runs", "show", run)
    world.run("predict", run, f"{WORDS[1]} {WORDS[2]}")
