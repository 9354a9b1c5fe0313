"""The odometer: no run is forgotten, no line changed unnoticed, nobody else can read it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tacit.errors import RunError
from tacit.runs.odometer import NAME, read, register, runs_of


def enter(store: Path, run_id: str, run: str = "somewhere", claims: bool = True) -> None:
    register(store, run_id=run_id, run=store / run, claims_privacy=claims)


def test_runs_are_listed_in_order_and_once(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    for run_id, claims in (("a", True), ("b", False), ("a", True)):
        enter(tmp_path, run_id, claims=claims)
    assert [(each.run_id, each.claims_privacy) for each in read(tmp_path)] == [("a", True), ("b", False)]
    assert read(tmp_path)[0].path == str(tmp_path.resolve() / "somewhere")
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_run_that_moved_is_the_same_run(tmp_path: Path) -> None:
    for run_id, place in (("a", "here"), ("b", "here"), ("a", "there")):
        enter(tmp_path, run_id, place)
    found = runs_of(tmp_path)
    assert list(found) == ["a", "b"]
    assert [Path(each.path).name for each in found["a"]] == ["here", "there"]


def test_the_path_does_not_depend_on_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    register(tmp_path, run_id="a", run=Path("runs/a"), claims_privacy=True)
    assert read(tmp_path)[0].path == str(tmp_path.resolve() / "runs" / "a")


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0].replace(b"true", b"false"), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [*lines[:2], b"{}"],
        lambda lines: [*lines[:2], b"[]"],
        lambda lines: [*lines, lines[2]],
    ],
)
def test_a_changed_missing_or_moved_line_is_reported(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    for run_id in "abc":
        enter(tmp_path, run_id)
    lines = (tmp_path / NAME).read_bytes().splitlines()
    (tmp_path / NAME).write_bytes(b"".join(line + b"\n" for line in damage(lines)))
    with pytest.raises(RunError, match=r"damaged at line \d"):
        read(tmp_path)
    with pytest.raises(RunError, match=r"damaged at line \d"):
        enter(tmp_path, "d")


def test_a_line_cut_short_by_a_crash_is_no_run_and_makes_room(tmp_path: Path) -> None:
    enter(tmp_path, "a")
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole + whole[: len(whole) // 2])
    assert [each.run_id for each in read(tmp_path)] == ["a"]
    enter(tmp_path, "b")
    assert [each.run_id for each in read(tmp_path)] == ["a", "b"]
    assert all(json.loads(line) for line in (tmp_path / NAME).read_text().splitlines())


def test_a_list_that_others_can_read_or_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    enter(tmp_path, "a")
    os.chmod(tmp_path / NAME, 0o644)
    with pytest.raises(RunError, match="readable by its owner alone"):
        enter(tmp_path, "b")
    with pytest.raises(RunError, match="the run was not begun"):
        enter(tmp_path / "nowhere", "a")
    assert [each.run_id for each in read(tmp_path)] == ["a"]


def test_a_run_that_moved_back_is_where_it_is_now(tmp_path: Path) -> None:
    for place in ("here", "there", "here", "here"):
        enter(tmp_path, "a", place)
    assert [Path(each.path).name for each in read(tmp_path)] == ["here", "there", "here"]
