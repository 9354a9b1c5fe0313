"""What a higher layer keeps in the ledger's first record: the owner defines the record, and nothing below reads it.

The ledger stores a note as its owner wrote it, under the owner's name. No cost and no statement depends on a note: a fact that
they need is a typed field of `Opened` instead. The owner reads its own note back, strictly:

    @dataclass(frozen=True)
    class Weather(Note):
        owner: ClassVar[str] = "weather"
        sunny: bool

    opened = opening(..., notes=notes_of(Weather(sunny=True)))
    Weather.read(opened)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tacit.errors import LedgerError
from tacit.privacy.record.codec import Typed, from_json, to_json

if TYPE_CHECKING:
    from tacit.privacy.record.records import Opened


@dataclass(frozen=True)
class Note(Typed):
    """A record of a higher layer, as one object in the ledger's first record."""

    owner: ClassVar[str]

    @classmethod
    def read(cls, opened: Opened) -> Self | None:
        """The owner's note in this first record, None if there is none; LedgerError unless it has exactly these fields."""
        if cls.owner not in opened.notes:
            return None
        try:
            return from_json(cls, opened.notes[cls.owner])
        except ValueError as error:
            raise LedgerError(
                f"The ledger of the run {opened.run_id} has a note that cannot be read: {error}."
            ) from None


def notes_of(*notes: Note) -> dict[str, dict[str, Any]]:
    """The notes as `Opened.notes` holds them; ValueError if one owner writes twice."""
    found = {note.owner: to_json(note) for note in notes}
    if len(found) < len(notes):
        raise ValueError(f"Expected one note of each owner, got those of {', '.join(note.owner for note in notes)}.")
    return found
