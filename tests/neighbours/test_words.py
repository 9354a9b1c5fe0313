"""Discoveries of words on D and D′: somebody who contributes nothing, or only words of their own, leaves no trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.discovery import release
from tests.support.neighbour_runs import DATA, EVERYBODY, PRIVACY, recipe, stating
from tests.support.neighbours import WORDS, World, compared, trained_on, write_text_store

SURE = WORDS[:20]
# Somebody whose words all get a place unasked, and who is trained on.
SILENT = trained_on("silent")
# Somebody who also has words that nobody else has; they are the last in the alphabet, so nobody else's draw moves.
ALONE = trained_on("alone")
# Somebody who has one word for which there is a contest.
LISTED = trained_on("listed")
SAID = {
    SILENT: [f"{SURE[1]} {SURE[2]}", SURE[3]],
    ALONE: [f"{SURE[1]} zzzpin zzzpassword", "zzzpin zzzname"],
    LISTED: [f"{WORDS[30]} {SURE[1]}"],
}
DISCOVER = ("data", "vocabulary", "--private", "store", "--words", "words.txt", "--sure", 20, "--size", 40)


def write(folder: Path, who: Sequence[str]) -> None:
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    write_text_store(folder, {user: (EVERYBODY | SAID)[user] for user in who})


def discovering(world: World, out: str = "runs/words", *more: object) -> None:
    world.run(*DISCOVER, *more, "--population", 60, "--epsilon", 20, "--delta", 1e-3, "--out", out)
    for form in ((), ("--json",), ("--html",)):
        world.run("guarantee", out, *form)
    world.run("report", out, "--share")
    world.run("runs", "show", out)
    world.run("runs", "list", "runs")


@pytest.mark.parametrize("gone", [SILENT, ALONE])
def test_a_discovery(gone: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = compared(tmp_path, capfd, write, [*EVERYBODY, gone], discovering, gone=gone)
    assert not found, "\n".join(found)
    words = (tmp_path / "with" / "runs" / "words" / "vocabulary.txt").read_text().split()
    assert "qqz" in words  # a word on no list was found
    assert not any(word.startswith("zzz") for word in words)


def test_one_word_moves_one_total_and_nothing_that_does_not_follow_from_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = compared(tmp_path, capfd, write, [*EVERYBODY, LISTED], discovering, gone=LISTED)
    totals: list[dict[str, Any]] = [
        json.loads((tmp_path / place / "runs" / "words" / "totals.json").read_text()) for place in ("with", "without")
    ]
    moved = [word for word in totals[0]["listed"] if totals[0]["listed"][word] != totals[1]["listed"][word]]
    assert moved == [WORDS[30]]
    assert totals[0]["listed"][WORDS[30]] - totals[1]["listed"][WORDS[30]] == pytest.approx(0.5, abs=1e-5)
    assert totals[0]["found"] == totals[1]["found"]
    # Only what is computed from the totals.
    assert any(each.startswith("runs/words/totals.json") for each in found)
    allowed = ("runs/words/totals.json", "runs/words/vocabulary.txt")
    assert all(each.startswith(allowed) for each in found), found


def test_words_outside_a_vocabulary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def commands(world: World) -> None:
        command = (
            "data",
            "vocabulary",
            "--private",
            "store",
            "--rare",
            "words.txt",
            "--population",
            60,
            "--epsilon",
            20,
        )
        assert "qqz" in world.run(*command, "--delta", 1e-3, "--out", "runs/new")
        world.run("guarantee", "runs/new")
        world.run("report", "runs/new", "--share")

    found = compared(tmp_path, capfd, write, [*EVERYBODY, ALONE], commands, gone=ALONE)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("gone", [SILENT, ALONE])
def test_words_letter_by_letter(gone: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody looks for words of the list, nor for words with letters outside the alphabet: these two contribute nothing."""

    def commands(world: World) -> None:
        command = ("data", "vocabulary", "--private", "store", "--letters", "--rare", "words.txt", "--population", 60)
        more = ("--alphabet", "abcdefghijklmnopqrstuvwxy", "--longest", 7, "--epsilon", 20, "--delta", 1e-3)
        world.run(*command, *more, "--out", "runs/words")
        for form in ((), ("--json",), ("--html",)):
            world.run("guarantee", "runs/words", *form)
        world.run("report", "runs/words", "--share")
        world.run("runs", "show", "runs/words")

    found = compared(tmp_path, capfd, write, [*EVERYBODY, gone], commands, gone=gone)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_training_with_discovered_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Everybody takes part, and nobody's update moves anything; the discovery lies at one path, which recipes name."""
    words = tmp_path / "words"
    sections = {"privacy": {**PRIVACY, "cohort": 60.0}, "work": {"learning_rate": 1e-30}, "data": DATA}

    def commands(world: World) -> None:
        shutil.rmtree(words, ignore_errors=True)
        discovering(world, str(words))
        shutil.copytree(words, world.folder / "runs" / "words")
        (world.folder / "recipe.toml").write_text(f'{recipe(**sections)}\n[vocabulary]\nrun = "{words}"\n')
        world.run("train", "recipe.toml", "--out", "runs/one")
        stating(world, "runs/one")

    found = compared(tmp_path, capfd, write, [*EVERYBODY, SILENT], commands, gone=SILENT)
    assert not found, "\n".join(found)


def test_the_harness_sees_a_word_of_one_person(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "threshold_for", lambda *_: 0.0)
    found = compared(tmp_path, capfd, write, [*EVERYBODY, ALONE], discovering, gone=ALONE)
    assert any("runs/words/totals.json" in each and "zzz" in each for each in found), found
