"""Metrics: each round once, whatever was killed."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.runs.metrics import MetricsWriter, last_metrics, read_metrics, truncate_after


def write(path: Path, rounds: range) -> None:
    with MetricsWriter(path) as writer:
        for round in rounds:
            writer.append({"round": round, "top1": round / 10})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_records_are_read_as_written_and_while_writing(path: Path) -> None:
    assert list(read_metrics(path)) == []
    assert last_metrics(path) is None
    with MetricsWriter(path) as writer:
        writer.append({"round": 0, "top1": 0.1, "name": "é"})
        assert list(read_metrics(path)) == [{"round": 0, "top1": 0.1, "name": "é"}]
    write(path, range(1, 3))
    assert [record["round"] for record in read_metrics(path)] == [0, 1, 2]
    assert last_metrics(path) == {"round": 2, "top1": 0.2}


def test_values_become_plain_json(path: Path) -> None:
    with MetricsWriter(path) as writer:
        writer.append(
            {
                "round": np.int64(3),
                "loss": np.float32(0.5),
                "inf": np.inf,
                "deep": {"nan": [np.nan, 1.0]},
                "quantiles": np.array([1.0, np.nan]),
            }
        )
    record = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert record == {"round": 3, "loss": 0.5, "inf": None, "deep": {"nan": [None, 1.0]}, "quantiles": [1.0, None]}


@pytest.mark.parametrize("record", [{}, {"round": 0.5}, {"round": None}])
def test_a_record_has_its_round(path: Path, record: dict[str, Any]) -> None:
    with MetricsWriter(path) as writer, pytest.raises(ValueError, match="round"):
        writer.append(record)


def test_truncation_keeps_each_round_once(path: Path) -> None:
    truncate_after(path, 5)  # no file: nothing to do
    write(path, range(10))
    truncate_after(path, 5)
    assert [record["round"] for record in read_metrics(path)] == [0, 1, 2, 3, 4, 5]
    write(path, range(6, 8))
    assert [record["round"] for record in read_metrics(path)] == list(range(8))
    truncate_after(path, -1)
    assert list(read_metrics(path)) == []


@pytest.mark.parametrize("torn", [b'{"round": 3, "to', b'{"round": 3, "top1": 0.3}', b"\0\0\0\n"])
def test_a_torn_last_line_is_left_out_and_cut_off(path: Path, torn: bytes) -> None:
    write(path, range(3))
    with path.open("ab") as file:
        file.write(torn)
    assert [record["round"] for record in read_metrics(path)] == [0, 1, 2]
    write(path, range(3, 5))
    assert [record["round"] for record in read_metrics(path)] == [0, 1, 2, 3, 4]
    with path.open("ab") as file:
        file.write(torn)
    truncate_after(path, 9)
    assert path.read_bytes().endswith(b"}\n")
    assert [record["round"] for record in read_metrics(path)] == [0, 1, 2, 3, 4]


def test_other_damage_is_reported(path: Path) -> None:
    write(path, range(3))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"[1]\n" + lines[2])
    with pytest.raises(RunError, match="line 2"):
        list(read_metrics(path))


def test_a_full_disk_is_one_sentence(path: Path) -> None:
    """The kernel cuts the file at 100 bytes, in the middle of a line."""
    code = (
        "import resource, sys; from pathlib import Path; from tacit.runs.metrics import MetricsWriter\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "with MetricsWriter(Path(sys.argv[1])) as writer:\n"
        "    for round in range(20): writer.append({'round': round})"
    )
    result = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert result.stderr.splitlines()[-1].startswith("tacit.errors.RunError: Cannot write")
    assert path.stat().st_size == 100
    assert [record["round"] for record in read_metrics(path)] == list(range(7))
    truncate_after(path, 7)
    write(path, range(7, 9))
    assert [record["round"] for record in read_metrics(path)] == list(range(9))


def test_what_only_the_owner_may_read_stays_so(path: Path) -> None:
    with MetricsWriter(path, mode=0o600) as writer:
        writer.append({"round": 0})
        writer.append({"round": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    truncate_after(path, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b"{torn")
    with MetricsWriter(path, mode=0o600):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [record["round"] for record in read_metrics(path)] == [0]
