"""Two data sets that differ in one training user, and everything public that a command makes of each.

D is a store of people; D′ is the same store without one of them, somebody who is trained on and contributes exactly nothing:
they are in no cohort, or they have no examples. Both are imported with the same key, and both runs draw the same secret
randomness, so whatever differs between the two in public differs because that user is there. A proof of privacy
accounts for what the gate lets through, and for nothing else: there must be no difference at all.

What may differ is named in `ALLOWED`, each with its reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.app import main
from tacit.data.build import pseudonym, save_users
from tacit.data.ragged import offsets_of
from tacit.data.store import open_store
from tacit.data.users import Examples, is_held_out
from tacit.data.views import Subset, View, split_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.runs.public import public_files
from tests.support.list_users import ListUsers

KEY = b"\5" * 32
# Words of the keyboard world, so that its text can serve as public data.
WORDS = tuple(word for word in KeyboardWorld(1, 1, vocabulary_size=120).words[4:] if word.isalpha())[:60]
PEOPLE = 90
SHARE = 0.2

# What may differ between the two, and why. Everything else must be equal, byte by byte.
ALLOWED = {
    "times": "when a run was begun and how long it took depend on the machine",
    "salted digests": "a cohort's digest in the ledger has a random salt, which every process draws anew; whoever lacks the "
    "salt learns nothing from the digest, and the digests of the chain follow from it",
    "order of names": "safetensors writes the names of a file's metadata in an order that it draws at random",
}
_TIMES = (
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?( UTC)?"), b"<time>"),
    (re.compile(rb"\b(a second|\d+(\.\d+)? ?(s|seconds|minutes|min|hours|days))\b"), b"<time>"),
)


@dataclass(frozen=True)
class Public:
    """Everything public that commands left behind: files of runs, and what the commands wrote and printed."""

    parts: dict[str, bytes] = field(default_factory=dict)

    def differences(self, other: Public) -> list[str]:
        """The names of what is not equal, with the first place where it is not."""
        found = [f"{name} is there once only" for name in sorted(self.parts.keys() ^ other.parts.keys())]
        for name in sorted(self.parts.keys() & other.parts.keys()):
            one, two = self.parts[name], other.parts[name]
            if one != two:
                at = next(
                    (i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
                )
                around = slice(max(0, at - 60), at + 60)
                found.append(f"{name} at byte {at}: {one[around]!r} against {two[around]!r}")
        return found


@dataclass
class World:
    """A folder with a store, in which commands are run one after another."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    printed: dict[str, bytes] = field(default_factory=dict)

    def run(self, *arguments: object, code: int = 0) -> str:
        """A command as a person types it; what it prints is public, like any log."""
        self.capture.readouterr()
        with chdir(self.folder), pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = self.capture.readouterr()
        assert (ended.value.code or 0) == code, err
        self.printed[f"printed by tacit {' '.join(map(str, arguments))}"] = (out + err).encode()
        return out

    def run_folders(self) -> list[RunFolder]:
        return [RunFolder.open(marker.parent) for marker in sorted(self.folder.glob("runs/**/run.json"))]

    def public(self) -> Public:
        """Every public byte, without what may differ."""
        parts = dict(self.printed)
        salted: set[bytes] = set()
        for run in self.run_folders():
            name = run.path.relative_to(self.folder)
            parts |= {f"{name}/{path}": content for path, content in public_files(run).items()}
            salted |= _salted(run)
        # What commands wrote where they were told to, and what an inspection leaves beside its runs.
        parts |= {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in [*self.folder.glob("written/**/*"), *self.folder.glob("runs/*/*")]
            if path.is_file() and not is_run(path.parent)
        }
        return Public({name: _without_allowed(name, content, salted) for name, content in parts.items()})

    def never_drawn(self) -> list[int]:
        """The numbers of training users in no cohort of any run, ascending."""
        seen: set[int] = set()
        for run in self.run_folders():
            for cohort in verified(run.participation_path, read_ledger(run.ledger_path)):
                seen |= set(cohort.users.tolist())
        people = len(split_users(open_store(self.folder / "store"))[0])
        return [number for number in range(people) if number not in seen]


def _salted(run: RunFolder) -> set[bytes]:
    """The digests of the ledger that hang on a random salt.

    The digest of a checkpoint does where the ledger's first record names another run's ledger; what a checkpoint holds is
    compared byte by byte.
    """
    lines = [json.loads(line) for line in run.ledger_path.read_text().splitlines()]
    names = ("digest", "previous", "participation", "checkpoint")
    return {line[name].encode() for line in lines for name in names if line.get(name)}


def _without_allowed(name: str, content: bytes, salted: set[bytes]) -> bytes:
    if name.endswith(".safetensors"):
        size = int.from_bytes(content[:8], "little")
        header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True).encode()
        return _masked(header, salted) + content[8 + size :]
    return _masked(content, salted)


def _masked(content: bytes, salted: set[bytes]) -> bytes:
    for pattern, instead in _TIMES:
        content = pattern.sub(instead, content)
    return re.sub(rb"[0-9a-f]{64}", lambda found: b"<salted>" if found[0] in salted else found[0], content)


def people(number: int = PEOPLE) -> dict[str, list[str]]:
    """What each person wrote: words of a public list, and some that are in no list."""
    rng = np.random.default_rng(3)
    return {
        f"person {user}": [
            " ".join(
                [WORDS[w] for w in rng.integers(0, 60, rng.integers(2, 7))] + (["qqz"] if rng.random() < 0.3 else [])
            )
            for _ in range(int(rng.integers(2, 9)))
        ]
        for user in range(number)
    }


def trained_on(name: str) -> str:
    """A name that begins like this, of somebody who is not held out."""
    for number in range(100):
        found = f"{name} {number}"
        if not is_held_out(np.frombuffer(pseudonym(found.encode(), KEY), "<u8").reshape(1, 2), SHARE)[0]:
            return found
    raise AssertionError


def write_text_store(folder: Path, wrote: dict[str, list[str]]) -> None:
    """Import these people's texts, as `tacit data import` does, with a key that both worlds share."""
    from tacit.data.importing import import_text
    from tacit.data.sources import TextSource

    rows = [
        (place, user, text) for place, (user, text) in enumerate((u, t) for u, texts in wrote.items() for t in texts)
    ]
    source = TextSource("people", "made up", "row", iter(rows))
    import_text(
        [source],
        folder / "store",
        vocabulary=Vocabulary(WORDS, word_list("made up")),
        held_out=SHARE,
        key=KEY,
    )
    _named_alike(folder)


def write_image_store(folder: Path, writers: Sequence[int], silent: int) -> None:
    """The store of some writers of the handwriting world, one of whom has drawn nothing."""

    class WithoutImages(View):
        def gather(self, users: Any) -> Examples:
            full = self._users.gather(users)
            assert full.labels is not None
            counts = np.diff(full.user_offsets)
            keep = np.repeat(users != silent, counts)
            kept = np.where(users == silent, 0, counts)
            singles = np.arange(keep.sum() + 1)
            return Examples(full.items[keep], singles, offsets_of(kept), full.labels[keep])

    world = WithoutImages(HandwritingWorld(1, PEOPLE, glyphs_per_writer=6))
    chosen = Subset(world, np.array(writers))
    save_users(chosen, folder / "store", source="made up", vocabulary=None, held_out=SHARE, key=KEY)
    _named_alike(folder)


def write_listed_store(folder: Path, users: dict[int, list[list[int]]]) -> None:
    """A store of word numbers, in which somebody may have nothing at all."""

    class Named(ListUsers):
        def names(self, numbers: Any) -> Any:
            own = np.array(sorted(users))[numbers].astype(np.uint64)
            return np.stack([np.zeros_like(own), own], axis=1)

    listed = Named([users[user] for user in sorted(users)])
    vocabulary = Vocabulary(WORDS, word_list("made up"))
    save_users(listed, folder / "store", source="made up", vocabulary=vocabulary, held_out=SHARE, key=KEY)
    _named_alike(folder)


def _named_alike(folder: Path) -> None:
    """A store's random name says nothing about users; with the same name in both worlds nothing has to be masked."""
    path = folder / "store" / "store.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "store_id": "0" * 32}))


def fix_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same secret root for every run that begins, and the same names for runs: the run still claims to be private."""
    count = iter(range(10**6))

    def fresh() -> Randomness:
        return Randomness(hashlib.sha256(b"neighbours %d" % next(count)).digest())

    ids = iter(range(10**6))
    monkeypatch.setattr(Randomness, "fresh", staticmethod(fresh))
    monkeypatch.setattr("tacit.runs.folder.secrets.token_hex", lambda size: f"{next(ids):0{2 * size}x}")


def compared(
    tmp_path: Path,
    capture: pytest.CaptureFixture[str],
    write: Callable[[Path, Sequence[Any]], None],
    everybody: Sequence[Any],
    commands: Callable[[World], None],
    *,
    gone: Any = None,
) -> list[str]:
    """Run the commands with everybody and without one training user, and list what differs in public.

    `gone` is who is missing in D′; where it is None, it is the first training user who is in no cohort.
    """
    one = _world(tmp_path / "with", capture, write, everybody, commands)
    if gone is None:
        drawn = one.never_drawn()
        assert drawn, "everybody was drawn: fewer rounds, please"
        train = split_users(open_store(one.folder / "store"))[0]
        gone = everybody[int(train.members[drawn[0]])]
    rest = [each for each in everybody if each != gone]
    assert len(rest) == len(everybody) - 1
    two = _world(tmp_path / "without", capture, write, rest, commands)
    with_, without = one.public(), two.public()
    assert len(with_.parts) > 5
    return with_.differences(without)


def _world(
    folder: Path,
    capture: pytest.CaptureFixture[str],
    write: Callable[[Path, Sequence[Any]], None],
    who: Sequence[Any],
    commands: Callable[[World], None],
) -> World:
    folder.mkdir()
    write(folder, who)
    with pytest.MonkeyPatch.context() as monkeypatch:
        fix_randomness(monkeypatch)
        world = World(folder, capture)
        commands(world)
    return world
