"""JSON read value by value from a stream, so that memory holds one value and a chunk of the file."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import IO, Any

from tacit.errors import DataError

_CHUNK = 1 << 20
_MOST_VALUE = 256 << 20
# A value that is cut by the end of a chunk is found wrong this close to it, unless a string is what was cut.
_NEAR_THE_END = 16


class JsonStream:
    """A JSON text, of which the caller names the punctuation and gets the values.

    `wrong` says in a message what the file should have been: "is not valid JSON in LEAF's layout".
    """

    def __init__(self, stream: IO[bytes], path: Path, *, wrong: str, hint: str | None = None) -> None:
        self._stream = stream
        self._path = path
        self._wrong, self._hint = wrong, hint
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._lines, self._counted = 1, 0  # the number of the line at text[counted]
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()

    def at(self, character: str) -> bool:
        """Whether this character comes next."""
        if not self._skip_blanks():
            raise self.damaged()
        return self._text[self._at] == character

    def ended(self) -> bool:
        """Whether nothing but blanks is left."""
        return not self._skip_blanks()

    def expect(self, character: str) -> None:
        """Pass over this character."""
        if not self.at(character):
            raise self.damaged()
        self._at += 1

    def comma(self, closing: str) -> None:
        """Pass over the comma between two members, unless `closing` ends them here."""
        if not self.at(closing):
            self.expect(",")
            if self.at(closing):
                raise self.damaged()

    def value(self) -> Any:
        """Pass over a value and return it."""
        self._skip_blanks()
        wanted = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_THE_END
                if not cut:
                    self._at = error.pos
                    raise self.damaged() from None
                value, end = None, len(self._text)
            except (ValueError, RecursionError):  # a number of too many digits, lists in lists in lists
                raise self.damaged() from None
            # At the very end of what was read, a number might go on.
            if end < len(self._text):
                self._at = end
                return value
            if not self._more(wanted):
                raise self.damaged()
            wanted *= 2

    def line(self) -> int:
        """The number of the line that was reached."""
        self._lines += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._lines

    def damaged(self) -> DataError:
        """The error for a file that is not what it should be, with the line that was reached."""
        return DataError(f"The file {self._path} {self._wrong} (line {self.line()}).", hint=self._hint)

    def _skip_blanks(self) -> bool:
        """Go to the next character that is no blank; False at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return True
            if not self._more(_CHUNK):
                return False

    def _more(self, wanted: int) -> bool:
        """Read on by about so many bytes, forgetting what was passed over; False at the end of the file."""
        chunk = self._stream.read(wanted)
        if len(self._text) - self._at > _MOST_VALUE:
            raise DataError(f"{self._path}, line {self.line()}: a value is longer than {_MOST_VALUE >> 20} MiB.")
        try:
            text = self._utf8.decode(chunk, final=not chunk)
        except UnicodeDecodeError:
            raise DataError(
                f"The file {self._path} is not valid UTF-8 (within {wanted:,} bytes after line {self.line()})."
            ) from None
        self.line()
        self._text = self._text[self._at :] + text
        self._at = self._counted = 0
        return bool(chunk)
