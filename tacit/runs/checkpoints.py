"""Checkpoints: the state of a run after some round, as safetensors files that are complete or absent.

``round-000123.safetensors`` is the state after 123 rounds; resuming from it, round 123 (counted from 0) runs next. A
checkpoint holds arrays by name, text by name, and a digest over all of them, which the ledger's `Committed` repeats:
safetensors itself would not notice a changed number. It holds no key: no key is ever on disk. The digest covers the text and
a digest of the arrays, so that `header` can verify the text without reading the arrays.

**A damaged checkpoint is reported, not skipped.** Going back to an older one is possible, but it has a price: the
rounds since then run again, on users who were already asked, and every repeated round is accounted for again (`Resumed`
lists them as lost). Nobody should spend privacy without being asked, so `latest` does it only on request.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from tacit.errors import RunError
from tacit.files import sync_folder, write_atomic

_NAME = re.compile(r"round-(\d{6,})\.safetensors")
_RESERVED = ("rounds", "arrays", "digest")


@dataclass(frozen=True)
class Header:
    """A checkpoint without its arrays: the number of rounds done, its text, and the digest that `save` returned."""

    round: int
    metadata: dict[str, str]
    digest: str


@dataclass(frozen=True)
class Checkpoint(Header):
    """The state after `round` rounds, as it was given to `save`."""

    arrays: dict[str, NDArray[np.generic]]


def path_of(folder: Path, round: int) -> Path:
    """The path of the checkpoint after `round` rounds."""
    return folder / f"round-{round:06d}.safetensors"


def rounds_kept(folder: Path) -> list[int]:
    """The rounds that have a checkpoint, ascending."""
    found = (_NAME.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(match[1]) for match in found if match)


def save(
    folder: Path,
    round: int,
    arrays: Mapping[str, NDArray[np.generic]],
    metadata: Mapping[str, str],
    *,
    keep_last: int = 2,
    keep: Collection[int] = (),
    mode: int = 0o644,
) -> str:
    """Write the state after `round` rounds and return its digest; when this returns, it is on disk.

    Then older checkpoints are removed, except the last `keep_last` (including this one) and those of the rounds in `keep`.
    Later ones are removed too: they are left over from before the run went back to an older checkpoint. RunError if the disk
    is full: every older checkpoint is then intact. Do not save a round again whose checkpoint the ledger names: its digest
    would differ.
    """
    if reserved := [name for name in _RESERVED if name in metadata]:
        raise ValueError(f"The name {reserved[0]!r} is reserved in the metadata of a checkpoint.")
    # C order without np.ascontiguousarray, which would turn a scalar into a vector of length one.
    contiguous = {name: np.array(array, order="C", copy=None) for name, array in arrays.items()}
    inner = _arrays_digest(contiguous)
    digest = _digest(round, metadata, inner)
    older = rounds_kept(folder)
    kept = f"the last checkpoint, {path_of(folder, older[-1]).name}, is intact" if older else "there was no older one"
    content = to_safetensors(contiguous, {**metadata, "rounds": str(round), "arrays": inner, "digest": digest})
    write_atomic(path_of(folder, round), content, mode=mode, kept=kept)

    there = rounds_kept(folder)
    past = [each for each in there if each <= round]
    _remove(folder, [each for each in there if each > round or (each not in past[-keep_last:] and each not in keep)])
    return digest


def header(path: Path) -> Header:
    """The header of the checkpoint in `path`, verified; its arrays are not read. RunError as in `load`."""
    return _header(_read(path, with_arrays=False)[0], path)[0]


def load(path: Path) -> Checkpoint:
    """The checkpoint in `path`, its digest verified; RunError names the file if it is missing or damaged."""
    metadata, arrays = _read(path, with_arrays=True)
    found, inner = _header(metadata, path)
    if inner != _arrays_digest(arrays):
        raise RunError(f"The checkpoint {path} is damaged (its digest does not fit its content).")
    return Checkpoint(found.round, found.metadata, found.digest, arrays)


def _read(path: Path, *, with_arrays: bool) -> tuple[dict[str, str], dict[str, NDArray[np.generic]]]:
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys() if with_arrays else ()  # not a mapping
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise RunError(f"There is no checkpoint {path}.") from None
    except (SafetensorError, OSError) as error:
        raise RunError(f"The checkpoint {path} is damaged ({type(error).__name__}).") from None


def _header(metadata: dict[str, str], path: Path) -> tuple[Header, str]:
    """The header of a file with this metadata, and the digest of its arrays."""
    try:
        round, inner, digest = int(metadata.pop("rounds")), metadata.pop("arrays"), metadata.pop("digest")
    except (KeyError, ValueError) as error:
        raise RunError(f"The checkpoint {path} is damaged ({type(error).__name__}).") from None
    if digest != _digest(round, metadata, inner):
        raise RunError(f"The checkpoint {path} is damaged (its digest does not fit its content).")
    if path.name != path_of(path.parent, round).name:
        raise RunError(
            f"The checkpoint {path} holds the state after {round} rounds: expected {path_of(path, round).name}."
        )
    return Header(round, metadata, digest), inner


def latest(folder: Path, *, older_if_damaged: bool = False) -> Checkpoint | None:
    """The newest checkpoint; None if there is none. RunError names the file if it is damaged.

    With `older_if_damaged` the newest one that is not damaged is returned instead. The rounds since then will run again and
    cost again, so this happens only on request.
    """
    rounds = rounds_kept(folder)
    for position, round in enumerate(reversed(rounds), start=1):
        try:
            return load(path_of(folder, round))
        except RunError as error:
            if not older_if_damaged or position == len(rounds):
                if position < len(rounds):
                    error.hint = (
                        f"--older-checkpoint goes on after {rounds[-position - 1]} rounds; the rounds since then run again "
                        f"and cost again."
                    )
                raise
    return None


def remove_all(folder: Path) -> None:
    """Remove every checkpoint in `folder`."""
    _remove(folder, rounds_kept(folder))


def _digest(round: int, metadata: Mapping[str, str], arrays: str) -> str:
    content = {"rounds": round, "metadata": dict(metadata), "arrays": arrays}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _arrays_digest(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    shapes = {name: [arrays[name].dtype.str, list(arrays[name].shape)] for name in sorted(arrays)}
    digest = hashlib.sha256(json.dumps(shapes, sort_keys=True).encode() + b"\n")
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _remove(folder: Path, rounds: Collection[int]) -> None:
    if rounds:
        with suppress(OSError):  # what could not be removed is removed next time
            for round in rounds:
                path_of(folder, round).unlink(missing_ok=True)
            sync_folder(folder)
