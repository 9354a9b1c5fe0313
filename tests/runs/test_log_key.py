"""The key of a run's log is made once, durably, and is its owner's alone."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from tacit.errors import RunError
from tacit.runs.folder import RunFolder
from tacit.runs.log_key import log_key, origin_of, public_log_key
from tacit.secagg import keys


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", 'name = "small"')


def test_it_is_made_when_it_is_asked_for_and_stays(run: RunFolder) -> None:
    path = run.private_path / "log.key"
    assert not path.exists()
    made = log_key(run.path)
    assert (len(made), stat.S_IMODE(path.stat().st_mode)) == (keys.KEY_BYTES, 0o600)
    assert log_key(run.path) == made
    assert [each.name for each in run.private_path.iterdir()] == ["log.key"]
    public = public_log_key(run.path, run.run_id)
    assert (public.name, public.key, public.witness) == (origin_of(run.run_id), keys.identity_public(made), False)
    assert public.name == f"tacit/run/{run.run_id}"


def test_those_who_ask_at_once_get_the_same_key(run: RunFolder) -> None:
    found, start = [], threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(log_key(run.path))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)


def test_a_key_that_is_damaged_or_shown_to_others_is_refused(run: RunFolder, tmp_path: Path) -> None:
    log_key(run.path)
    path = run.private_path / "log.key"
    path.chmod(0o644)
    with pytest.raises(RunError, match="owner alone"):
        log_key(run.path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(RunError, match="damaged"):
        log_key(run.path)
    (tmp_path / "copy").mkdir()
    with pytest.raises(RunError, match="no private/"):
        log_key(tmp_path / "copy")
