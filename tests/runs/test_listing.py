"""A list of runs reads a run again when a file of it changed, and at no other time."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import RunError
from tacit.privacy.outside import Registry
from tacit.privacy.record.ledger import LedgerWriter
from tacit.runs import listing
from tacit.runs.facts import facts_of
from tacit.runs.folder import RunFolder
from tacit.runs.listing import facts_below, print_of
from tests.support.made_runs import made_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of caches. A file counts as settled at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(listing, "SETTLED_S", -60)
    monkeypatch.setattr("tacit.privacy.outside._ADDED", set())  # other tests bring mechanisms of their own
    return tmp_path / "cache" / "tacit" / "runs"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that were read."""
    found: list[str] = []

    def counted(folder: RunFolder) -> dict[str, Any]:
        found.append(folder.path.name)
        return facts_of(folder)

    monkeypatch.setattr("tacit.runs.facts.facts_of", counted)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made_run(tmp_path / "runs" / "one")
    made_run(tmp_path / "runs" / "two", outcome=None, private=False)
    return tmp_path / "runs"


def test_a_run_that_did_not_change_is_read_once(root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch):
    first = facts_below(root)
    assert [facts["state"] for facts in first] == ["finished", "interrupted"]
    assert json.dumps(facts_below(root)) == json.dumps(first)
    monkeypatch.chdir(root.parent)  # the same folder by another name
    assert [facts["run"] for facts in facts_below(Path("runs"))] == ["runs/one", "runs/two"]
    assert reads == ["one", "two"]


def replaced(path: Path) -> None:
    """Another file with the same bytes and times under this name."""
    shutil.copy2(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def in_place(path: Path) -> None:
    """Another byte in the same file, whose size and whose time of change are as before."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"4", b"5", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [replaced, in_place])
@pytest.mark.parametrize("name", ["run.json", "recipe.toml", "ledger.jsonl", "metrics.jsonl", "summary.json"])
def test_any_change_is_seen(root: Path, reads: list[str], name: str, change: Callable[[Path], None]):
    before = facts_below(root)
    change(root / "one" / name)
    after = facts_below(root)
    assert reads == ["one", "two", "one"]
    # A run.json whose id differs, and a recipe or a ledger with another byte, contradict the rest.
    damaged = change is in_place and name in ("recipe.toml", "ledger.jsonl", "run.json")
    assert after[0]["state"] == ("damaged" if damaged else "finished")
    assert after[1] == before[1]


def test_a_file_that_came_or_went_is_seen(root: Path, reads: list[str]):
    facts_below(root)
    stray = root / "one" / "checkpoints" / "round-000009.safetensors"
    stray.write_bytes(b"")
    assert facts_below(root)[0]["state"] == "damaged"  # rounds of which the ledger knows nothing
    stray.unlink()
    (root / "one" / "summary.json").unlink()
    assert facts_below(root)[0]["metrics"]["top1"] == pytest.approx(0.3)
    shutil.rmtree(root / "two")
    assert [facts["run"] for facts in facts_below(root)] == [str(root / "one")]
    assert reads == ["one", "two", "one", "one"]


def test_the_print_covers_every_file_that_is_read(root: Path):
    (root / "one" / "checkpoints" / "notes").write_text("")
    covered = {each[0] for each in print_of(root / "one")}
    assert "checkpoints/notes" in covered
    opened: set[str] = set()
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | Path):
            opened.add(os.path.relpath(arguments[0], root / "one"))

    sys.addaudithook(watch)  # it stays for as long as the process runs
    facts_of(RunFolder.open(root / "one"))
    watching = False
    inside = {name for name in opened if not name.startswith("..")}
    assert {"ledger.jsonl", "recipe.toml", "checkpoints"} <= inside <= covered


def test_a_run_that_is_written_to_is_read_every_time(root: Path, reads: list[str]):
    facts_below(root)
    with LedgerWriter.open(root / "two" / "ledger.jsonl"):
        assert [facts_below(root)[1]["state"] for _ in range(2)] == ["running", "running"]
    assert facts_below(root)[1]["state"] == "interrupted"
    assert reads == ["one", "two", "two", "two", "two"]


def test_a_file_that_may_change_within_the_same_tick_is_not_trusted(
    root: Path, reads: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listing, "SETTLED_S", 60)
    facts_below(root)
    facts_below(root)
    assert reads == ["one", "two"] * 2
    assert not cache.exists()


def test_damage_is_told_again(root: Path, reads: list[str]):
    ledger = root / "one" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"poisson", b"Poisson", 1))
    assert [facts_below(root)[0]["state"] for _ in range(2)] == ["damaged", "damaged"]
    assert reads == ["one", "two", "one"]


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"software": 1}', '{"runs": 3}', "not json", "SOFTWARE[]", "SOFTWARE{}", 'SOFTWARE{"one": 1}'],
)
def test_a_cache_that_cannot_be_read_is_made_anew(root: Path, reads: list[str], cache: Path, content: str):
    first = facts_below(root)
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.read_text()
    software = json.dumps({"software": json.loads(whole)["software"], "runs": None}).removesuffix("null}")
    file.write_text(f"{content.replace('SOFTWARE', software)}}}" if "SOFTWARE" in content else content)
    assert json.dumps(facts_below(root)) == json.dumps(first)
    assert file.read_text() == whole
    assert reads == ["one", "two"] * 2


def test_other_software_may_come_to_another_answer(root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch):
    facts_below(root)
    monkeypatch.setattr("tacit.__version__", "9.9.9")
    facts_below(root)
    facts_below(root)
    assert reads == ["one", "two"] * 2


def test_so_may_a_mechanism_from_outside(root: Path, reads: list[str]):
    facts_below(root)
    Registry("mechanism", {}).add("somewhere:Noise", object())
    facts_below(root)
    assert reads == ["one", "two"] * 2


@pytest.fixture
def no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    yield
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.usefixtures("no_room")
def test_where_nothing_can_be_kept_every_run_is_read(root: Path, reads: list[str]):
    assert [facts["state"] for _ in range(2) for facts in facts_below(root)] == ["finished", "interrupted"] * 2
    assert reads == ["one", "two"] * 2


def test_a_folder_without_runs(tmp_path: Path, cache: Path):
    assert facts_below(tmp_path) == []
    with pytest.raises(RunError, match="not there"):
        facts_below(tmp_path / "elsewhere")
    assert not cache.exists()
