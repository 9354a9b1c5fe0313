"""The folder of a sweep: one run a case, and `sweep.json`, which holds the cases as they were settled before the first began.

sweep.json     the cases: what was asked for, the recipe with its noise, the first record that its ledger will have
sweep.lock     held by the processes that run the sweep
NAME/          the run of the case NAME
private/       mode 0700: NAME.json (how long the case took, and why it failed), NAME.log

A case never changes. Cases that are added later are marked: they may have been chosen by looking at what the others released.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.privacy.record.records import Opened, from_json, to_json
from tacit.recipe.sweep import SweepCase
from tacit.recipe.training import Recipe
from tacit.runs.finding import is_run
from tacit.runs.folder import first_difference

FORMAT = 1
MARKER = "sweep.json"
_KEY = "tacit sweep"


@dataclass(frozen=True)
class SettledCase:
    """A case as it will run: `recipe` has its noise, `opened` is the first record that its ledger will have.

    `store` is the folder of its users, None for a world. `added` is 0 for a case that the sweep began with. `seconds` is about
    how long it takes by itself, tried on made-up users.
    """

    case: SweepCase
    recipe: Recipe
    opened: Opened
    store: Path | None
    added: int = 0
    seconds: float | None = None

    @property
    def name(self) -> str:
        return self.case.name

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.case.as_dict(),
            "recipe": self.recipe.model_dump(mode="json", exclude_none=True),
            "opened": to_json(self.opened),
            "store": None if self.store is None else str(self.store),
            "added": self.added,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> SettledCase:
        opened = from_json(found["opened"])
        if not isinstance(opened, Opened):
            raise ValueError("expected the first record of a ledger")
        store = None if found["store"] is None else Path(found["store"])
        case, recipe = SweepCase.from_dict(found["case"]), Recipe.model_validate(found["recipe"])
        return cls(case, recipe, opened, store, found["added"], found["seconds"])


@dataclass(frozen=True)
class SweepFolder:
    """A sweep: where it is, where it has been, and its cases."""

    path: Path
    cases: tuple[SettledCase, ...]
    places: tuple[str, ...]

    @classmethod
    def create(cls, path: Path, cases: Sequence[SettledCase]) -> SweepFolder:
        """Begin a sweep in a folder that is empty or not there yet; RunError if it is taken."""
        refuse_if_taken(path)
        if (taken := next((case.name for case in cases if is_run(path / case.name)), None)) is not None:
            raise RunError(
                f"The folder {path} holds a run {taken} already: choose another one for the sweep with --out."
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "private").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise RunError(f"Cannot make the folder {path} of a sweep ({error.strerror}).") from error
        made = cls.planned(path, cases)
        made.write()
        return made

    @classmethod
    def planned(cls, path: Path, cases: Sequence[SettledCase]) -> SweepFolder:
        """A sweep of which nothing is on disk yet."""
        return cls(path, tuple(cases), (str(path.resolve()),))

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        """The sweep in this folder; RunError if there is none, or one that this version cannot read."""
        try:
            found = json.loads((path / MARKER).read_text())
            version = found[_KEY]
        except (FileNotFoundError, NotADirectoryError):
            what = "which is no sweep" if path.exists() else "which does not exist"
            raise RunError(f"Expected the folder of a sweep, got {path}, {what} (no {MARKER} there).") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise RunError(f"The sweep {path} is damaged: its {MARKER} cannot be read.") from None
        if version != FORMAT:
            raise RunError(f"The sweep {path} has format {version!r}: this version of Tacit reads format {FORMAT}.")
        try:
            cases = tuple(SettledCase.from_dict(each) for each in found["cases"])
            places = tuple(str(each) for each in found["places"])
        except (ValueError, KeyError, TypeError):
            raise RunError(
                f"The sweep {path} is damaged, or was begun by another version of Tacit: its {MARKER} cannot be read."
            ) from None
        return cls(path, cases, places)

    @property
    def adaptive(self) -> bool:
        """Whether cases were added after the sweep had begun."""
        return any(case.added for case in self.cases)

    def run_path(self, case: SettledCase) -> Path:
        """The folder of this case's run."""
        return self.path / case.name

    @property
    def private_path(self) -> Path:
        return self.path / "private"

    def with_cases(self, added: Sequence[SettledCase]) -> SweepFolder:
        """The sweep with further cases; `write` makes it last."""
        generation = 1 + max(case.added for case in self.cases)
        return replace(self, cases=(*self.cases, *(replace(case, added=generation) for case in added)))

    def here(self) -> SweepFolder:
        """The sweep, knowing that it is in this place now: its runs are entered in odometers under their paths."""
        place = str(self.path.resolve())
        if place in self.places:
            return self
        moved = replace(self, places=(*self.places, place))
        moved.write()
        return moved

    def compared(self, asked: Sequence[SweepCase], *, add: bool) -> list[SweepCase]:
        """The cases that the sweep does not have yet.

        RunError if one that it has differs. Without `add` it is a mistake, too, if there are new ones or some are left out.
        """
        known = {case.name: case.case for case in self.cases}
        for case in asked:
            before = known.get(case.name)
            if before is None:
                continue
            difference = first_difference(_asked(before), _asked(case))
            if difference is not None:
                field, then, now = difference
                raise RunError(
                    f"The case {case.name} of the sweep {self.path} was begun with {field} = {then}, and now has {now}.",
                    hint="A case keeps its recipe. Give the changed one another name, or choose another folder with --out.",
                )
        missing = sorted(known.keys() - {case.name for case in asked})
        if missing and not add:
            raise RunError(
                f"The sweep {self.path} was begun with the case {missing[0]}, which is not in the list any more.",
                hint="To run a part of the cases, use --only. To go on without it, use --add: what it costs stays counted.",
            )
        new = [case for case in asked if case.name not in known]
        if new and not add:
            raise RunError(
                f"The sweep {self.path} was begun without the case {new[0].name}.",
                hint="--add adds such cases. They may have been chosen by looking at the others, so what the sweep costs is "
                "then computed by the odometer's bound, which is larger.",
            )
        return new

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the sweep; RunError if other processes do. Those that inherit the descriptor hold it until they end."""
        descriptor = os.open(self.path / "sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"Another process runs the sweep {self.path}.",
                    hint="If it was killed, its runs stop after the round under way: try again in a moment.",
                ) from None
            yield descriptor
        finally:
            os.close(descriptor)

    def notes(self, case: SettledCase) -> dict[str, Any]:
        """How long this case has taken in all, and why it failed, for the owner alone."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.private_path / f"{case.name}.json").read_text())
            return found
        return {}

    def write_notes(self, case: SettledCase, *, seconds: float, problem: str | None) -> None:
        """Add the seconds of another attempt, and why it failed, None if it did not."""
        total = float(self.notes(case).get("seconds", 0.0)) + seconds
        write_atomic(
            self.private_path / f"{case.name}.json", json.dumps({"seconds": round(total, 1), "problem": problem}) + "\n"
        )

    def write(self) -> None:
        """Put the cases into the folder, durably."""
        found = {_KEY: FORMAT, "places": list(self.places), "cases": [case.as_dict() for case in self.cases]}
        write_atomic(self.path / MARKER, json.dumps(found, allow_nan=False) + "\n")


def is_sweep(path: Path) -> bool:
    """Whether there is a sweep in this folder."""
    return (path / MARKER).is_file()


def refuse_if_taken(path: Path) -> None:
    """RunError unless `path` is free for a new folder, or one that holds nothing but runs, such as discoveries of words."""
    if is_sweep(path):
        raise RunError(f"There is a sweep in {path} already.")
    if is_run(path):
        raise RunError(f"The folder {path} holds a run: choose another one for the sweep with --out.")
    if path.exists() and not (path.is_dir() and all(is_run(each) or each.name == "private" for each in path.iterdir())):
        raise RunError(f"Expected an empty or a new folder for the sweep, got {path}: choose another one with --out.")


def reused_case(recipe: Recipe, runs: Path) -> str | None:
    """The case of this sweep whose pre-trained model the recipe takes, if it takes one's."""
    if recipe.pretrain is None or recipe.pretrain.reuse is None:
        return None
    place = Path(recipe.pretrain.reuse)
    return place.name if place.parent.resolve() == runs.resolve() else None


def _asked(case: SweepCase) -> dict[str, Any]:
    found = case.as_dict()
    return found["recipe"] | {"epsilon": found["epsilon"]}
