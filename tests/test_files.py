"""A file is whole or not there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.errors import RunError
from tacit.files import remove_leftovers, write_atomic


def test_it_creates_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "héllo")
    assert path.read_bytes() == "héllo".encode()
    write_atomic(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert os.listdir(tmp_path) == ["file"]


def test_the_mode_holds_even_over_a_leftover(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / ".file.tmp").write_text("left by a killed process, readable by all")
    write_atomic(path, "secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(RunError, match=r"Disk full while writing .*file: the sky is intact\."):
            write_atomic(path, "new", kept="the sky is intact")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_limit_of_the_operating_system(tmp_path: Path) -> None:
    """The real thing rather than a patched one: the kernel cuts the write at 4 KiB."""
    path = tmp_path / "file"
    write_atomic(path, "old")
    code = (
        "import resource, sys; from pathlib import Path; from tacit.files import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "write_atomic(Path(sys.argv[1]), b'x' * 10000)"
    )
    result = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert "RunError: Cannot write" in result.stderr
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_interrupted_by_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_atomic(tmp_path / "file", "new")
    assert os.listdir(tmp_path) == []


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Cannot write .*No such file"):
        write_atomic(tmp_path / "nothing" / "file", "")


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".round-000001.safetensors.tmp", "notes.tmp", ".hidden", "file"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "file", "notes.tmp"]
