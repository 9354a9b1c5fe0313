"""A device's folder, readable by its owner alone.

    identity.key      the Ed25519 private key (32 bytes); it never leaves the device
    identity.certificate   with which somebody vouches for the key (`vouching.py`); may be absent
    device.json       the server's address, the device's number, the key of the application that ships the policy
    policy.json       the owner's policy (`policy.py`) and its signature, policy.json.signature; absent if it is a built-in one
    plans.json        the plans that the device may run (`plan_registry.py`) and their signature; may be absent
    state.json        what the device remembers of its server, tasks and rounds (`memory.py`)
    account.jsonl     what it took part in and sent, and the server's receipts (`account.py`)
    left.json         the server's confirmation that the device has left; only then there is no identity.key
    examples.jsonl    the device's sentences, one JSON object a line
    conditions.json   whether the device is idle, charging and on an unmetered network; may be absent
    report.bin        a report that may not have arrived yet
    blobs/            downloads, named by their SHA-256

If state.json is missing or damaged, the device stops. With an empty memory it would forget how often it took part.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import FleetError
from tacit.files import write_atomic
from tacit.fleet.device.memory import Memory
from tacit.fleet.device.plan_registry import PlanRegistry, read_registry
from tacit.fleet.device.policy import OwnerPolicy, built_in, read_policy
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import PublicKey
from tacit.secagg import keys
from tacit.secagg.messages import NO_CERTIFICATE

_PRIVATE, _FOLDER = 0o600, 0o700
_NO_LOCK = -1
_Read = TypeVar("_Read", bound=BaseModel)


class DeviceConfig(BaseModel):
    """`device.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    server: str
    ca: str | None = None
    device: int | None = Field(default=None, ge=0, description="its number at the server; none until it is enrolled")
    application: PublicKey | None = Field(
        default=None, description="the key that signs the owner's policy; none: the policy is a built-in one"
    )


class Home:
    """An open home folder. While it is open, no other process can open it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self._lock = path, lock
        self.examples_path, self.conditions_path = path / "examples.jsonl", path / "conditions.json"
        self.policy_path, self.registry_path = path / "policy.json", path / "plans.json"
        self.account_path, self.left_path = path / "account.jsonl", path / "left.json"
        self._report, self._blobs = path / "report.bin", path / "blobs"
        self._known: Memory | None = None

    @classmethod
    def create(cls, path: Path) -> Home:
        """A home with a new identity and an empty memory, or the existing home in this folder."""
        path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
        home = cls(path, _locked(path))
        home._blobs.mkdir(mode=_FOLDER, exist_ok=True)
        if not home._identity.exists():
            if (path / "device.json").exists():
                home.close()
                raise FleetError(
                    f"Expected an empty folder or a device's home, got {path}, whose identity.key is missing."
                )
            # The memory first: an identity without a memory looks like a device that lost its memory.
            if not home._memory.exists():
                home.remember(Memory())
            write_atomic(home._identity, os.urandom(keys.KEY_BYTES), mode=_PRIVATE)
        return home

    @classmethod
    def open(cls, path: Path, *, or_left: bool = False, to_read: bool = False) -> Home:
        """The home of an enrolled device; FleetError if the folder is not one, or another process has it open.

        A device that has left cannot take part; `or_left` opens its home to look at what remains. `to_read` looks at what a
        device has written that may be running: nothing may be changed, and nobody is kept out.
        """
        if (path / "left.json").is_file():
            if or_left:
                return cls(path, _NO_LOCK if to_read else _locked(path))
            raise FleetError(f"The device in {path} has left its server.", hint="Enrol again with a new --home.")
        if not (path / "identity.key").is_file() or not (path / "device.json").is_file():
            raise FleetError(
                f"Expected the home of an enrolled device, got {path}.", hint="Make one with: tacit device enrol"
            )
        return cls(path, _NO_LOCK if to_read else _locked(path))

    def close(self) -> None:
        """Release the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = _NO_LOCK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def identity(self) -> bytes:
        """The private key."""
        found = self._identity.read_bytes()
        if len(found) != keys.KEY_BYTES:
            raise FleetError(f"Expected {keys.KEY_BYTES} bytes in {self._identity}, got {len(found)}.")
        return found

    @property
    def certificate(self) -> bytes:
        """With which somebody other than the server vouches for the identity; zeros if nobody does."""
        try:
            found = bytes.fromhex((self.path / "identity.certificate").read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return NO_CERTIFICATE
        except (OSError, ValueError):
            found = b""
        if len(found) != len(NO_CERTIFICATE):
            raise FleetError(f"The file {self.path / 'identity.certificate'} does not hold a certificate.")
        return found

    @property
    def config(self) -> DeviceConfig:
        """`device.json`."""
        return _read(self.path / "device.json", DeviceConfig)

    def configure(self, config: DeviceConfig) -> None:
        """Write `device.json`."""
        write_atomic(self.path / "device.json", config.model_dump_json(indent=2), mode=_PRIVATE)

    @property
    def policy(self) -> OwnerPolicy:
        """The owner's policy; FleetError if the application's key did not sign it."""
        config = self.config
        if config.application is None:
            return built_in(config.server)
        return read_policy(self.policy_path, config.application)

    def registry(self, policy: OwnerPolicy) -> PlanRegistry | None:
        """The plans that the device may run; None if the policy asks for no registry."""
        return None if policy.plan_registry is None else read_registry(self.registry_path, policy.plan_registry)

    @property
    def memory(self) -> Memory:
        """The last saved memory; FleetError, never an empty memory, if it cannot be read."""
        if self._known is None:
            self._known = _read(self._memory, Memory)
        return self._known

    def remember(self, memory: Memory) -> None:
        """Save the memory; it is on disk when this returns."""
        write_atomic(self._memory, memory.model_dump_json(), mode=_PRIVATE)
        self._known = memory

    def keep_report(self, report: bytes) -> None:
        """Save a report before it is sent, so that the same bytes can be sent again."""
        write_atomic(self._report, report, mode=_PRIVATE)

    def report(self) -> bytes | None:
        """The saved report, if there is one."""
        with suppress(FileNotFoundError):
            return self._report.read_bytes()
        return None

    def drop_report(self) -> None:
        """Delete the saved report."""
        self._report.unlink(missing_ok=True)

    def blob_path(self, sha256: str) -> Path:
        """The path of a download, which may not exist."""
        return self._blobs / sha256

    def blob(self, sha256: str) -> bytes | None:
        """A download; None if it is missing or does not have its hash."""
        with suppress(FileNotFoundError):
            content = self.blob_path(sha256).read_bytes()
            return content if sha256_of(content) == sha256 else None
        return None

    def keep_blob(self, sha256: str, content: bytes) -> None:
        """Save a download; FleetError if it does not have this hash."""
        if sha256_of(content) != sha256:
            raise FleetError(f"Expected a download with the SHA-256 {sha256}, got {sha256_of(content)}.")
        write_atomic(self.blob_path(sha256), content, mode=_PRIVATE)

    def drop_blobs(self, *, but: Iterable[str]) -> None:
        """Delete all downloads except these."""
        kept = set(but)
        for path in self._blobs.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def forget(self, *, keep_text: bool) -> None:
        """Delete what the device needs to take part: its text, unless that is kept, downloads and reports, last the key."""
        if not keep_text:
            self.examples_path.unlink(missing_ok=True)
        self.drop_report()
        shutil.rmtree(self._blobs, ignore_errors=True)
        (self.path / "identity.certificate").unlink(missing_ok=True)
        self._identity.unlink(missing_ok=True)

    @property
    def _identity(self) -> Path:
        return self.path / "identity.key"

    @property
    def _memory(self) -> Path:
        return self.path / "state.json"


def _locked(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, _PRIVATE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FleetError(f"Another process is using the device's home {path}.") from None
    return lock


def _read(path: Path, kind: type[_Read]) -> _Read:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise FleetError(f"The file {path} is missing.") from None
    except ValidationError:
        raise FleetError(
            f"The file {path} is damaged; the device takes part in no round until it is repaired."
        ) from None
