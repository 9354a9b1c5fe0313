"""Stores in object storage: a store that is named by a URL is copied to this machine once, and opened from there.

    $XDG_DATA_HOME/tacit/stores/NAME/     the copy, for its owner alone; NAME is a hash of the URL
        origin.json                       the URL, and the SHA-256 of each file of the store

It is no cache that may be cleared: the copy has the list of the runs on these users, like every store. A copy appears under its
name when it is whole. Processes that open the same URL on one machine at a time copy it once. Each later opening compares
store.json, in which the store's random id is, and refuses another store under the same URL. A worker of Ray makes a copy of its
own, and refuses one whose files are not the driver's.

fsspec reads the URL (`pip install 'tacit[remote]'`), and the package for the kind of storage, such as s3fs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tacit.data.folders import disk_errors, new_folder
from tacit.errors import StoreError

INFO, ORIGIN = "store.json", "origin.json"
_BLOCK = 8 << 20


@dataclass(frozen=True)
class Origin:
    """Where a copy of a store comes from, and the SHA-256 of each of its files."""

    url: str
    files: dict[str, str]


def is_url(named: str | Path) -> bool:
    """Whether this names a store in object storage, and not a folder.

    >>> is_url("s3://bucket/chat"), is_url("stores/chat")
    (True, False)
    """
    return isinstance(named, str) and "://" in named


def place_of(named: str | Path) -> Path:
    """The folder on this machine of the store that is named by a path or a URL, whether or not it is there."""
    if not is_url(named):
        return Path(named)
    given = os.environ.get("XDG_DATA_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".local" / "share"
    return base / "tacit" / "stores" / hashlib.sha256(str(named).encode()).hexdigest()[:32]


def origin_of(folder: Path) -> Origin | None:
    """Where the store in this folder was copied from; None for any other store."""
    try:
        return Origin(**json.loads((folder / ORIGIN).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise StoreError(f"The copy of a store in {folder} is damaged: {ORIGIN} cannot be read.") from None


class Storage:
    """The folder behind a URL. What goes wrong there is one sentence."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            import fsspec
        except ImportError:
            raise StoreError(
                f"The store {url} is in object storage, which needs fsspec.", hint="pip install 'tacit[remote]'"
            ) from None
        with self._told():
            self._files, self._root = fsspec.core.url_to_fs(url.rstrip("/"))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        with self._told():
            try:
                found: bytes = self._files.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None
        return found

    def copy(self, name: str, to: Path) -> str:
        """Copy a file, and return its SHA-256."""
        digest = hashlib.sha256()
        with open(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            for block in self._blocks(name):
                digest.update(block)
                copy.write(block)
        return digest.hexdigest()

    def _blocks(self, name: str) -> Iterator[bytes]:
        with self._told(name):
            file = self._files.open(f"{self._root}/{name}", "rb")
        with file:
            while True:
                with self._told(name):
                    block = file.read(_BLOCK)
                if not block:
                    return
                yield block

    @contextmanager
    def _told(self, name: str = "") -> Iterator[None]:
        """Whatever a package for object storage raises, as one sentence; `name` is the file that is read."""
        try:
            yield
        except FileNotFoundError as error:
            raise StoreError(f"The store {self.url} is damaged: it has no {name}.") from error
        except Exception as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise StoreError(f"The store {self.url} cannot be read: {said}.") from error


def copied(
    storage: Storage, info: bytes, names: Sequence[str], maybe: Sequence[str], check: Callable[[Path], object]
) -> Path:
    """The copy on this machine of a store whose store.json is `info`; made now, if it is not there yet.

    The store has the files of these names, and those of `maybe` if they are there. `check` raises for a copy that is not whole.
    """
    place = place_of(storage.url)
    with _alone(place):
        if not place.exists():
            with new_folder(place) as filling:
                files = {name: storage.copy(name, filling / name) for name in names}
                for name in maybe:
                    if storage.read(name) is not None:
                        storage.copy(name, filling / name)
                origin = json.dumps(asdict(Origin(storage.url, files)), indent=2)
                (filling / ORIGIN).write_text(origin + "\n", encoding="utf-8")
                try:
                    check(filling)
                except StoreError as error:
                    raise StoreError(error.sentence.replace(str(filling), storage.url)) from None
    try:
        known = (place / INFO).read_bytes()
    except OSError as error:
        raise StoreError(f"The copy of {storage.url} in {place} cannot be read: {error.strerror}.") from None
    if known != info:
        raise StoreError(
            f"The store {storage.url} is another one than its copy in {place}, which has the list of the runs on its users.",
            hint="Give the new store a name of its own.",
        )
    return place


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """This process alone may make the copy at this place, and waits for another one that is making it."""
    with disk_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(place.parent / f".{place.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
