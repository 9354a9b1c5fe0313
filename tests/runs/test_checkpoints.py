"""Checkpoints: exact, self-checking, and never lost to a newer one that failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tacit.errors import RunError
from tacit.runs import checkpoints

ARRAYS = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.array(7, dtype=np.int32)}

any_array = st.one_of(
    [
        arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        for dtype in ("float32", "float64", "float16", "int32", "int64", "uint32", "uint8", "bool")
    ]
)


@settings(max_examples=60)
@given(
    arrays=st.dictionaries(st.text(min_size=1, max_size=8), any_array, max_size=4),
    metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=3),
)
def test_any_state_round_trips(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray], metadata: dict[str, str]
) -> None:
    arrays.pop("__metadata__", None)
    folder = tmp_path_factory.mktemp("checkpoints")
    digest = checkpoints.save(folder, 12, arrays, metadata)
    read = checkpoints.load(folder / "round-000012.safetensors")
    assert (read.round, read.metadata, read.digest) == (12, metadata, digest)
    assert read.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read.arrays[name].dtype == array.dtype
        assert read.arrays[name].shape == array.shape
        assert read.arrays[name].tobytes() == array.tobytes()


def test_transposed_arrays_are_saved_as_they_look(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 0, {"t": ARRAYS["weights"].T}, {})
    latest = checkpoints.latest(tmp_path)
    assert latest is not None
    np.testing.assert_array_equal(latest.arrays["t"], ARRAYS["weights"].T)


def test_the_digest_depends_on_everything(tmp_path: Path) -> None:
    other = {"weights": ARRAYS["weights"] + 1, "step": ARRAYS["step"]}
    reshaped = {"weights": ARRAYS["weights"].reshape(3, 2), "step": ARRAYS["step"]}
    digests = {
        checkpoints.save(tmp_path, round, arrays, metadata)
        for round, arrays, metadata in [
            (1, ARRAYS, {}),
            (2, ARRAYS, {}),
            (1, ARRAYS, {"a": "b"}),
            (1, other, {}),
            (1, reshaped, {}),
        ]
    }
    assert len(digests) == 5


def test_the_last_ones_and_those_asked_for_are_kept(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path) is None
    assert checkpoints.latest(tmp_path / "nothing") is None
    for round in (5, 10, 15, 20, 1_000_000):
        checkpoints.save(tmp_path, round, ARRAYS, {}, keep_last=2, keep={10})
    assert checkpoints.rounds_kept(tmp_path) == [10, 20, 1_000_000]
    latest = checkpoints.latest(tmp_path)
    assert latest is not None
    assert latest.round == 1_000_000
    checkpoints.save(tmp_path, 30, ARRAYS, {}, keep_last=1)  # the run went back, and the later one is no longer its own
    assert checkpoints.rounds_kept(tmp_path) == [30]


def test_any_damage_is_reported_with_the_file(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, ARRAYS, {"model": "small"})
    checkpoints.save(tmp_path, 2, ARRAYS, {"model": "small"})
    path = checkpoints.path_of(tmp_path, 2)
    whole = path.read_bytes()
    damages = [whole[:end] for end in (0, 4, 50, len(whole) - 1)] + [b"not a checkpoint at all"]
    for position in range(8, len(whole), 11):
        damages.append(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"round-000002.safetensors is damaged") as caught:
            checkpoints.latest(tmp_path)
        assert "after 1 rounds" in str(caught.value.hint)
        older = checkpoints.latest(tmp_path, older_if_damaged=True)
        assert older is not None
        assert older.round == 1


def test_nothing_whole_is_left(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, ARRAYS, {})
    checkpoints.path_of(tmp_path, 1).write_bytes(b"")
    with pytest.raises(RunError, match="damaged"):
        checkpoints.latest(tmp_path, older_if_damaged=True)
    with pytest.raises(RunError, match="There is no checkpoint"):
        checkpoints.load(tmp_path / "round-000009.safetensors")


def test_a_renamed_checkpoint_is_not_taken_for_another_round(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, ARRAYS, {})
    checkpoints.path_of(tmp_path, 1).rename(checkpoints.path_of(tmp_path, 4))
    with pytest.raises(RunError, match="after 1 rounds"):
        checkpoints.latest(tmp_path)


def test_a_full_disk_leaves_the_last_one_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def fail(descriptor: int, data: memoryview) -> int:
        if len(data) > 100:
            return real(descriptor, data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(RunError, match=r"Disk full .*no older one"):
            checkpoints.save(tmp_path, 1, ARRAYS, {})
    checkpoints.save(tmp_path, 1, ARRAYS, {}, keep_last=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(RunError, match=r"the last checkpoint, round-000001.safetensors, is intact"):
            checkpoints.save(tmp_path, 2, ARRAYS, {}, keep_last=1)
    assert os.listdir(tmp_path) == ["round-000001.safetensors"]
    latest = checkpoints.latest(tmp_path)
    assert latest is not None
    assert latest.round == 1


def test_reserved_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="digest"):
        checkpoints.save(tmp_path, 1, ARRAYS, {"digest": "x"})


def test_a_private_state_is_the_owners(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, ARRAYS, {}, mode=0o600)
    assert checkpoints.path_of(tmp_path, 1).stat().st_mode & 0o777 == 0o600
