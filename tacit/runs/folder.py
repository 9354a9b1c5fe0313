"""A run on disk.

run.json              the marker: the run's id and when it was made; written last, so a folder that has it is complete
recipe.toml           the recipe the run follows
vocabulary.txt        where its words come from, then the words, one per line, if it has any
totals.json           what a discovery of words released, in such a run (tacit.runs.word_discovery)
ledger.jsonl          what was released (tacit.privacy.record.ledger)
head.txt              the last head of the ledger that the run's witness signed, if it has one (tacit.runs.heads)
metrics.jsonl         one record a round
checkpoints/          round-000123.safetensors
pretrained/           round-000000.safetensors: the model after pre-training on public data, if the recipe asks for it
sections/             sections of the report that other parts of Tacit write
summary.json          the result, written when the run ends
private/              mode 0700: participation.bin; the noise state, if the mechanism has one; users.sha256 and
                      diagnostics.jsonl, which only a simulation writes (norms and cohort sizes, outside the guarantee);
                      gate_audit.jsonl while the gate is audited, gate_audit.json when the run has ended; audit.json, what
                      tacit audit run found last; log.key, which signs heads of the ledger. No key of noise is ever on disk.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.data.vocabulary import PRIVATE, vocabulary_text
from tacit.errors import LedgerError, RunError
from tacit.files import disk_error, remove_leftovers, sync_folder, write_atomic
from tacit.privacy.record.ledger import Ledger, LedgerWriter, read_ledger
from tacit.privacy.record.records import Committed, Opened
from tacit.runs import checkpoints
from tacit.runs.consistency import OPENED, objection_to
from tacit.runs.finding import MARKER, refuse_if_taken
from tacit.runs.metrics import as_json

FORMAT = 1
_MARKER_KEY = "tacit run"
NOISE = "noise"  # in a checkpoint's metadata: the digest of what was saved with it in private/


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, complete and in our format. Only `create` and `open` make one.

    >>> import tempfile, tacit
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     tacit.RunFolder.create(Path(place) / "run", 'name = "mine"').recipe()
    {'name': 'mine'}
    """

    path: Path
    run_id: str
    created: str

    @classmethod
    def create(
        cls, path: Path, recipe_text: str, *, vocabulary: Sequence[str] | None = None, provenance: str = PRIVATE
    ) -> RunFolder:
        """Make the folder of a new run, in a directory that is empty or not there yet.

        `provenance` says where the words come from. The file of words begins with it, so that nobody takes words that were
        counted on private users for a public list.

        RunError if the path is taken: nothing is changed. RunError if the disk fails: nothing is left behind.
        """
        refuse_if_taken(path)
        existed = path.is_dir()
        marker = {_MARKER_KEY: FORMAT, "run_id": secrets.token_hex(8), "created": _now()}
        try:
            path.mkdir(parents=True, exist_ok=True)
            # mkdir is exclusive: of two processes that found the same empty directory, only one goes on.
            (path / "private").mkdir(mode=0o700)
        except FileExistsError:
            raise RunError(f"The folder {path} was taken by another process just now: choose another one.") from None
        except OSError as error:
            raise RunError(f"Cannot make the run folder {path} ({error.strerror}).") from error
        try:
            for name in ("checkpoints", "sections"):
                (path / name).mkdir()
            write_atomic(path / "recipe.toml", recipe_text)
            if vocabulary is not None:
                write_atomic(path / "vocabulary.txt", vocabulary_text(vocabulary, provenance))
            write_atomic(path / MARKER, json.dumps(marker) + "\n")
            sync_folder(path.parent)
        except BaseException as error:
            _remove_contents(path) if existed else shutil.rmtree(path, ignore_errors=True)
            if isinstance(error, OSError):
                raise disk_error(error, path, "nothing was left behind") from error
            raise
        return cls(path, str(marker["run_id"]), str(marker["created"]))

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in `path`; RunError if there is none, or one this version cannot read."""
        try:
            marker = json.loads((path / MARKER).read_text())
            if not isinstance(marker, dict):
                raise ValueError
            version, run_id, created = marker[_MARKER_KEY], marker["run_id"], marker["created"]
        except (FileNotFoundError, NotADirectoryError):
            what = "which is no run" if path.exists() else "which does not exist"
            raise RunError(f"Expected the folder of a run, got {path}, {what} (no {MARKER} there).") from None
        except (ValueError, KeyError):
            raise RunError(f"Expected the folder of a run, got {path}, whose {MARKER} is not one of Tacit's.") from None
        except OSError as error:
            raise RunError(f"Cannot read the run {path} ({error.strerror}).") from error
        if version != FORMAT:
            raise RunError(f"The run {path} has format {version!r}: this version of Tacit reads format {FORMAT}.")
        return cls(path, str(run_id), str(created))

    # Where things are.

    @property
    def recipe_path(self) -> Path:
        return self.path / "recipe.toml"

    @property
    def vocabulary_path(self) -> Path:
        return self.path / "vocabulary.txt"

    @property
    def ledger_path(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def diagnostics_path(self) -> Path:
        return self.private_path / "diagnostics.jsonl"

    @property
    def gate_audit_path(self) -> Path:
        return self.private_path / "gate_audit.jsonl"

    @property
    def gate_result_path(self) -> Path:
        return self.private_path / "gate_audit.json"

    @property
    def checkpoints_path(self) -> Path:
        return self.path / "checkpoints"

    @property
    def pretrained_path(self) -> Path:
        return self.path / "pretrained"

    @property
    def sections_path(self) -> Path:
        return self.path / "sections"

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    @property
    def private_path(self) -> Path:
        return self.path / "private"

    @property
    def users_path(self) -> Path:
        """The digest of the training users' names, in order, which a run that goes on is compared with."""
        return self.private_path / "users.sha256"

    @property
    def participation_path(self) -> Path:
        return self.private_path / "participation.bin"

    # The recipe, the words, the summary.

    def recipe(self) -> dict[str, Any]:
        """The recipe the run was begun with (TOML, or JSON if its text is a JSON object)."""
        try:
            text = self.recipe_path.read_text()
            return json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        except (OSError, ValueError):
            raise RunError(f"The run {self.path} is damaged: its recipe.toml cannot be read.") from None

    def require_same_recipe(self, recipe: Mapping[str, Any]) -> None:
        """RunError names the first field in which `recipe` differs from the recipe the run was begun with."""
        difference = first_difference(self.recipe(), recipe)
        if difference is not None:
            name, recorded, wanted = difference
            raise RunError(
                f"Expected the recipe the run {self.path} was begun with, where {name} is {recorded}, got {wanted}.",
                hint="Resume it without changes, or begin a new run with the changed recipe.",
            )

    def vocabulary(self) -> list[str] | None:
        """The words, None if the run has none."""
        try:
            lines = self.vocabulary_path.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return None
        return lines[1:]  # the first line says where they come from

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Numbers that are not finite are written as null."""
        write_atomic(self.summary_path, json.dumps(as_json(summary), indent=2, allow_nan=False) + "\n")

    def remove_summary(self) -> None:
        """Take away what `write_summary` wrote, because the run goes on."""
        self.summary_path.unlink(missing_ok=True)

    def summary(self) -> dict[str, Any] | None:
        """What `write_summary` wrote, None before."""
        try:
            summary = json.loads(self.summary_path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            summary = None
        if not isinstance(summary, dict):
            raise RunError(f"The run {self.path} is damaged: its summary.json cannot be read.")
        return summary

    # The ledger and what it is checked against.

    @property
    def begun(self) -> bool:
        """Whether the run has a ledger with a record in it. A run killed before that has released nothing."""
        try:
            with self.ledger_path.open("rb") as file:
                return b"\n" in file.readline()
        except FileNotFoundError:
            return False

    def create_ledger(self, opened: Opened) -> LedgerWriter:
        """Begin the run's ledger and hold its lock. RunError if it has one; LedgerError if it had one that is gone."""
        if opened.run_id != self.run_id:
            raise LedgerError(f"Expected the ledger of the run {self.run_id}, got one of {opened.run_id}.")
        recorded = self.participation_path.exists() and self.participation_path.stat().st_size > 0
        if (recorded or checkpoints.rounds_kept(self.checkpoints_path)) and not self.begun:
            raise LedgerError(f"The run {self.path} has asked users before, but its ledger is gone: it cannot go on.")
        return LedgerWriter.create(self.ledger_path, opened)

    def open_ledger(self) -> LedgerWriter:
        """Go on with the run's ledger and hold its lock; what a killed process left half-written is cleared away."""
        writer = LedgerWriter.open(self.ledger_path)
        if writer.ledger.opened.run_id != self.run_id:
            writer.close()
            raise LedgerError(f"The ledger {self.ledger_path} is that of another run.")
        for folder in (self.path, self.checkpoints_path, self.sections_path, self.private_path):
            remove_leftovers(folder)
        return writer

    def ledger(self) -> Ledger:
        """The run's own ledger, verified; LedgerError if it is damaged, another run's, or cut off before a checkpoint."""
        done = max(checkpoints.rounds_kept(self.checkpoints_path), default=0)  # first, as the run may be going on
        ledger = read_ledger(self.ledger_path)
        if ledger.opened.run_id != self.run_id:
            raise LedgerError(f"The ledger {self.ledger_path} is that of another run.")
        most = max((intent.round + 1 for intent in ledger.intents), default=0)
        if done > most:
            raise LedgerError(
                f"The run {self.path} has a checkpoint after {done} rounds, but its ledger knows of {most}."
            )
        return ledger

    def accountable_ledger(self) -> Ledger:
        """The ledger, for callers that state an epsilon: it also agrees with the recipe and with the existing checkpoints.

        LedgerError, in one sentence, if it does not (`consistency`). A checkpoint that was removed, or cannot be read, is not
        compared.
        """
        kept = []
        for round in checkpoints.rounds_kept(self.checkpoints_path):  # first, as the run may be going on
            with suppress(RunError):
                kept.append(checkpoints.header(checkpoints.path_of(self.checkpoints_path, round)))
        ledger = self.ledger()
        recipe = self.recipe()
        if (objection := objection_to(ledger, self.recipe_path.read_bytes(), recipe, kept)) is not None:
            raise LedgerError(f"The run {self.path} contradicts itself, so nothing can be claimed: {objection}.")
        return ledger

    def last_checkpoint(self) -> checkpoints.Checkpoint | None:
        """The newest checkpoint, to read; RunError if the ledger names a later one, or a different one for the same round."""
        if not self.begun:
            return checkpoints.latest(self.checkpoints_path)
        ledger = self.ledger()  # first, as the run may be going on
        checkpoint = checkpoints.latest(self.checkpoints_path)
        if (0 if checkpoint is None else checkpoint.round) < ledger.rounds_committed:
            raise RunError(self._missing(ledger))
        if checkpoint is not None:
            self._require_named(checkpoint, ledger)
        return checkpoint

    def _missing(self, ledger: Ledger) -> str:
        return f"The checkpoint after {ledger.rounds_committed} rounds that the ledger of {self.path} names is missing."

    def _require_named(self, checkpoint: checkpoints.Checkpoint, ledger: Ledger) -> None:
        """RunError if the ledger's last checkpoint is of the same round but has another digest."""
        done, known = checkpoint.round, ledger.committed
        if known is None or not known.rounds_done == done == ledger.rounds_committed:
            return
        if known.checkpoint != checkpoint.digest:
            raise RunError(f"The checkpoint after {done} rounds in {self.path} is not the one the ledger names.")

    def resume_point(self, *, older_if_damaged: bool = False) -> checkpoints.Checkpoint | None:
        """The checkpoint to go on from, checked against the ledger; None: from the beginning.

        RunError if the newest checkpoint, or the one the ledger names, is damaged or missing; with `older_if_damaged` an
        older one is taken instead, and the rounds since then cost again. LedgerError if a checkpoint holds more rounds than
        the ledger knows: lines were then cut off the ledger. A checkpoint that the ledger does not name yet, because the
        process was killed between the two writes, is accepted. Refused are a checkpoint of rounds that the run gave up when
        it went back, and one whose noise state in the private folder was saved at another time.
        """
        ledger = read_ledger(self.ledger_path)
        checkpoint = checkpoints.latest(self.checkpoints_path, older_if_damaged=older_if_damaged)
        done = 0 if checkpoint is None else checkpoint.round
        if done > ledger.next_round:
            raise LedgerError(
                f"The run {self.path} has a checkpoint after {done} rounds, but its ledger knows of {ledger.next_round}."
            )
        if done < ledger.rounds_committed and not older_if_damaged:
            raise RunError(
                self._missing(ledger),
                hint=f"--older-checkpoint goes on after {done} rounds; the rounds since then run again and cost again.",
            )
        if checkpoint is None:
            return None
        if checkpoint.metadata.get(OPENED) != ledger.digests()[0]:
            raise RunError(f"The checkpoint after {done} rounds in {self.path} was not saved under its ledger.")
        self._require_its_noise(checkpoint)
        if done > ledger.rounds_committed and not ledger.opened.seeded:  # a seeded run repeats the same rounds
            # Not committed since the run last went back, so it is either new or of rounds that were given up.
            given_up = {record.checkpoint for record in ledger.records if isinstance(record, Committed)}
            if checkpoint.digest in given_up:
                raise RunError(
                    f"The checkpoint after {done} rounds in {self.path} holds rounds that the run gave up when it went back.",
                    hint=f"Move {checkpoints.path_of(self.checkpoints_path, done).name} away to go on from the one before.",
                )
        self._require_named(checkpoint, ledger)
        return checkpoint

    def _require_its_noise(self, checkpoint: checkpoints.Checkpoint) -> None:
        """RunError unless the noise state in the private folder was saved with the checkpoint, if the checkpoint names one."""
        if (saved := checkpoint.metadata.get(NOISE)) is None:
            return
        path = checkpoints.path_of(self.private_path, checkpoint.round)
        if checkpoints.load(path).digest != saved:
            raise RunError(
                f"The noise in {path} was not saved with the run's checkpoint after {checkpoint.round} rounds."
            )


def first_difference(recorded: Any, wanted: Any, name: str = "") -> tuple[str, str, str] | None:
    """The dotted name of the first field that differs and both values, as text; None if nothing does."""
    if isinstance(recorded, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(recorded.keys() | wanted.keys()):
            inner = f"{name}.{key}" if name else str(key)
            difference = first_difference(recorded.get(key, _ABSENT), wanted.get(key, _ABSENT), inner)
            if difference is not None:
                return difference
        return None
    same = recorded == wanted and isinstance(recorded, bool) == isinstance(wanted, bool)
    return None if same else (name, repr(recorded), repr(wanted))


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _remove_contents(path: Path) -> None:
    for name in ("private", "checkpoints", "sections"):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in ("recipe.toml", "vocabulary.txt", MARKER):
        with suppress(OSError):
            (path / name).unlink()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
