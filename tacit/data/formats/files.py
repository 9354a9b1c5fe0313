"""Lines of text files, plain or compressed, with one clear sentence for each way in which a file can be broken."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tacit.errors import DataError

# A longer line is refused: a file without line breaks would otherwise be read into memory as a whole.
MOST_LINE_BYTES = 64 << 20

_COMPRESSIONS = (".gz", ".zst")


def is_compressed(path: Path) -> bool:
    """Whether the name tells that the file is compressed."""
    return path.suffix.lower() in _COMPRESSIONS


def bare_suffix(path: Path) -> str:
    """The suffix without the one of the compression: ".jsonl" for "a.jsonl.gz"."""
    name = Path(path.stem) if is_compressed(path) else path
    return name.suffix.lower()


def check_file(path: Path) -> None:
    """Raise DataError unless this is a file with something in it."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a file.")
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror}.") from None
    if size == 0:
        raise DataError(f"The file {path} is empty.")


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn what a damaged or unreadable file makes Python raise into one sentence."""
    try:
        yield
    except EOFError:
        raise DataError(f"The file {path} is truncated: its compressed data ends too early.") from None
    except (gzip.BadGzipFile, zlib.error):
        raise DataError(f"The file {path} is damaged: it is not valid gzip data.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror or error}.") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The content of the file, decompressed if its name ends with .gz or .zst."""
    check_file(path)
    suffix = path.suffix.lower()
    with read_errors(path), open(path, "rb") as raw:
        if suffix == ".gz":
            with gzip.open(raw, "rb") as stream:
                yield stream  # type: ignore[misc]
        elif suffix == ".zst":
            with io.BufferedReader(_ZstdReader(raw, path), 1 << 20) as buffered:
                yield buffered
        else:
            yield raw


def lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of the file, numbered from 1, without their line breaks; blank lines only if asked for."""
    number, found = 0, False
    with open_bytes(path) as stream:
        while raw := stream.readline(MOST_LINE_BYTES + 1):
            number += 1
            text = decode_line(raw, path, number)
            is_blank = not text or text.isspace()
            found = found or not is_blank
            if blank or not is_blank:
                yield number, text
    if not found:
        raise DataError(f"The file {path} is empty.")


def decode_line(raw: bytes, path: Path, number: int) -> str:
    """One line as text, without its line break."""
    if len(raw) > MOST_LINE_BYTES:
        raise DataError(f"{path}, line {number} is longer than {MOST_LINE_BYTES >> 20} MiB.")
    if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{path} is UTF-16 text; expected UTF-8.", hint="iconv -f UTF-16 -t UTF-8 turns it into UTF-8.")
    if b"\0" in raw:
        raise DataError(f"{path}, line {number} holds a NUL byte; expected UTF-8 text.")
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}, line {number} is not valid UTF-8.") from None
    return text.rstrip("\r\n")


class _ZstdReader(io.RawIOBase):
    """Decompresses one frame after the other and, unlike the library's own reader, notices when the last one is cut."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise DataError(f"Reading {path} needs the package zstandard.", hint="pip install zstandard") from None
        self._library = zstandard
        self._raw = raw
        self._path = path
        self._frame: Any = None
        self._waiting = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._waiting or self._raw.read(1 << 16)
            self._waiting = b""
            if not chunk:
                if self._frame is not None:
                    raise EOFError
                return 0
            if self._frame is None:
                # Pushshift's files use windows of 2 GiB.
                self._frame = self._library.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            try:
                self._ready = memoryview(self._frame.decompress(chunk))
            except self._library.ZstdError:
                raise DataError(f"The file {self._path} is damaged: it is not valid zstd data.") from None
            if self._frame.eof:
                self._waiting, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
