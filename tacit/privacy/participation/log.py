"""Who took part in each round: a file that only the run's owner can read. The ledger holds digests of its records.

Amplification by sampling holds against somebody who does not know the sample, so the cohorts stay in a file of mode
0600 in the run's private folder; the ledger, which anybody may read, holds for each intent the SHA-256 digest of its
cohort's record. Given both files, a reviewer can check that they belong together; the ledger alone reveals nothing about
cohorts.

**Why each record has a salt.** Users are numbered 0, 1, ..., so a cohort is easily guessed: with 40 users there are
2⁴⁰ cohorts to try, and somebody who knows everyone in a round but one person needs two hashes to learn whether that
person was there. The record therefore begins with 16 bytes from the operating system that are written nowhere else,
and the digest covers them: without the salt a guess cannot be checked.

One record: magic, round, attempt, salt, number of users, width and size of the packed numbers, the numbers, SHA-256 of
all that. The numbers are those of the users in the store (pseudonyms), ascending, as differences in the fewest whole
bytes, byte plane by byte plane, deflated.

A record is durable before its intent is appended to the ledger. So a crash can leave a torn record at the end, or a
whole one without its intent; both are harmless, since that cohort's users were never asked. `repair_torn_tail` cuts
the first, `verify` accepts the second exactly where the ledger shows that a run was resumed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import LedgerError, PrivacyError, RunError
from tacit.files import GrowingFile, disk_error, keep_torn_bytes, refuse_if_others_can_read, sync_folder
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Intent, Resumed

_MAGIC = b"TPR1"
_HEADER = struct.Struct("<4sII16sIBI")  # magic, round, attempt, salt, users, bytes a difference, size of what follows
_DIGEST_SIZE = 32


@dataclass(frozen=True)
class RecordedCohort:
    """Who took part in one attempt of a round. `digest` is what the ledger's intent holds."""

    round: int
    attempt: int
    users: NDArray[np.int64]
    digest: str


def _pack(round: int, attempt: int, users: NDArray[np.int64], salt: bytes) -> bytes:
    gaps = np.diff(users, prepend=0).astype("<u8")
    width = max(1, (int(gaps.max(initial=0)).bit_length() + 7) // 8)
    planes = gaps.view(np.uint8).reshape(-1, 8)[:, :width].T  # the high bytes are mostly zero, and deflate to nothing
    packed = zlib.compress(planes.tobytes())
    content = _HEADER.pack(_MAGIC, round, attempt, salt, len(users), width, len(packed)) + packed
    return content + hashlib.sha256(content).digest()


def _next_record(file: BinaryIO) -> RecordedCohort | None:
    """The record that begins here, None at the end of the file; ValueError if there is something else."""
    header = file.read(_HEADER.size)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise ValueError("it is cut short")
    magic, round, attempt, _, count, width, size = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise ValueError("it does not begin as one")
    rest = file.read(size + _DIGEST_SIZE)
    packed, digest = rest[:size], rest[size:]
    if len(digest) < _DIGEST_SIZE:
        raise ValueError("it is cut short")
    if hashlib.sha256(header + packed).digest() != digest:
        raise ValueError("its digest does not fit, so it was changed")
    gaps = np.zeros((count, 8), dtype=np.uint8)
    gaps[:, :width] = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(width, count).T
    return RecordedCohort(round, attempt, np.cumsum(gaps.view("<u8").reshape(-1).astype(np.int64)), digest.hex())


class ParticipationWriter(GrowingFile):
    """Adds cohorts to a run's participation record."""

    def __init__(self, path: Path) -> None:
        """Open the record of a run, or begin it. A torn tail must have been repaired before."""
        new = not path.exists()
        try:
            super().__init__(path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
            if new:
                sync_folder(path.parent)
        except OSError as error:
            raise disk_error(error, path, "nothing was changed") from error
        try:
            refuse_if_others_can_read(path)
        except RunError:
            self.close()
            raise

    def append(self, round: int, attempt: int, users: ArrayLike) -> str:
        """Write down who takes part in an attempt; when this returns the digest for its intent, it is on disk.

        PrivacyError if somebody is named twice: no sampler of Tacit draws with replacement. RunError if the disk fails;
        then the record is as before, or ends in a torn one, and this writer takes no more.
        """
        numbers = np.sort(np.asarray(users, dtype=np.int64))
        if (np.diff(numbers) == 0).any() or (numbers < 0).any():
            raise PrivacyError(f"Expected distinct users in the cohort of round {round}, got one twice or below zero.")
        record = _pack(round, attempt, numbers, os.urandom(16))
        self._grow(record)
        return record[-_DIGEST_SIZE:].hex()


def read(path: Path) -> Iterator[RecordedCohort]:
    """Every record in the order it was written, those without an intent included; LedgerError at the first bad one."""
    with _open(path) as file:
        for number in itertools.count(1):
            try:
                cohort = _next_record(file)
            except ValueError as error:
                raise LedgerError(f"The participation record {path} is damaged at record {number}: {error}.") from None
            if cohort is None:
                return
            yield cohort


def verified(path: Path, ledger: Ledger) -> Iterator[RecordedCohort]:
    """The cohort of each of the ledger's intents, in order, each checked against its digest before it is given out.

    LedgerError if an intent has no record or another one, and if there are cohorts the ledger does not account for:
    more records without an intent than crashes could have left. Such a ledger was cut.
    """
    return _match(read(path), path, ledger)


def verify(path: Path, ledger: Ledger) -> None:
    """LedgerError unless the record and the ledger belong together (see `verified`)."""
    for _ in verified(path, ledger):
        pass


def repair_torn_tail(path: Path, ledger: Ledger) -> str | None:
    """Cut off what follows the last whole record, if the ledger needs none of it; returns a sentence, None if nothing was cut.

    The bytes are kept in a sidecar of mode 0600. LedgerError, and nothing touched, if the whole records before do not
    fit the ledger: then it is damage. Call it under the ledger's lock.
    """
    if not path.exists() and not ledger.intents:
        return None  # killed before the first round
    good = 0
    whole: list[RecordedCohort] = []
    with _open(path) as file:
        with suppress(ValueError):
            while (cohort := _next_record(file)) is not None:
                good = file.tell()
                whole.append(RecordedCohort(cohort.round, cohort.attempt, cohort.users[:0], cohort.digest))
        file.seek(good)
        torn = file.read()
    for _ in _match(iter(whole), path, ledger):
        pass
    if not torn:
        return None
    try:
        sidecar = keep_torn_bytes(path, torn, mode=0o600)
        os.truncate(path, good)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise disk_error(error, path, "its records are intact") from error
    return (
        f"The last {len(torn)} bytes of {path} were a record cut short by a crash, on which nothing depended; "
        f"they were moved to {sidecar.name}."
    )


def participations(cohorts: Iterable[RecordedCohort], population: int) -> NDArray[np.int64]:
    """How often each of `population` users took part, every attempt counted."""
    counts = np.zeros(population, dtype=np.int64)
    for cohort in cohorts:
        if cohort.users.size and cohort.users[-1] >= population:
            raise LedgerError(f"The cohort of round {cohort.round} names a user beyond the population of {population}.")
        counts[cohort.users] += 1
    return counts


def _match(cohorts: Iterator[RecordedCohort], path: Path, ledger: Ledger) -> Iterator[RecordedCohort]:
    crashes = 0  # since the last intent: each may have left one record without an intent
    for record in ledger.records:
        if isinstance(record, Resumed):
            crashes += 1
        if not isinstance(record, Intent):
            continue
        for cohort in cohorts:
            if cohort.digest == record.participation:
                break
            crashes -= 1
            if crashes < 0:
                raise LedgerError(
                    f"The participation record {path} does not fit the ledger at round {record.round}, attempt "
                    f"{record.attempt}: it holds another cohort."
                )
        else:
            raise LedgerError(
                f"The participation record {path} lacks the cohort of round {record.round}, attempt {record.attempt}."
            )
        if (cohort.round, cohort.attempt) != (record.round, record.attempt):
            raise LedgerError(f"The cohort of round {record.round} in {path} was recorded for round {cohort.round}.")
        crashes = 0
        yield cohort
    crashes += 1  # the one after which nobody has resumed yet
    unknown = sum(1 for _ in cohorts)
    if unknown > crashes:
        raise LedgerError(
            f"The participation record {path} holds {unknown} cohorts after the ledger's last intent: "
            f"the ledger was cut, or it is another run's."
        )


def _open(path: Path) -> BinaryIO:
    try:
        refuse_if_others_can_read(path)
        return path.open("rb")
    except FileNotFoundError:
        raise LedgerError(f"There is no participation record in {path}.") from None
    except PermissionError:
        raise RunError(f"The participation record {path} can be read by the run's owner alone.") from None
