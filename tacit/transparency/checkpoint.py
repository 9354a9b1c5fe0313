"""A signed head of a log: its name, how many records it has, and the root of their Merkle tree.

The text is that of C2SP's tlog-checkpoint, so that other people's tools read it too:

    tacit.example/runs/4f2a...            the log's origin: a name that tells it from every other log
    17                                    how many records
    kXcY1x...=                            the root, in base64
    <empty line>
    — run:4f2a Zm9v...                    a line for each signature: who, and base64(key id ‖ signature)

Logs of other people may have spaces in their origin, further lines below the root, and signatures of kinds that are not known
here. All of them are kept, so that a witness signs what the log signed; only Ed25519 signatures are ever checked.

There are two kinds of signature that are. The log's own signs the lines above the empty one. A **witness** signs them together
with the time at which it saw them (cosignature/v1): it promises that this head continues every head of the same origin that it
has signed before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from tacit.errors import LedgerError
from tacit.secagg import keys
from tacit.transparency.merkle import HASH_BYTES

_LOG, _WITNESS = b"\x01", b"\x04"  # the types of key in C2SP's signed-note
_KEY_ID_BYTES = 4
_MOST_BYTES, _MOST_SIGNATURES = 1 << 16, 16
_NAME = re.compile(r"[!-*,-~]{1,200}")  # printable ASCII without spaces and plus signs
_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")  # an origin, or a line that a log adds below its root
_MOST_EXTENSIONS = 16
_MOST_TIME = 1 << 63
_SIZE = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class PublicKey:
    """A key that signs heads, with its holder's name. `witness`: it countersigns heads of other people's logs."""

    name: str
    key: bytes
    witness: bool = False

    @property
    def id(self) -> bytes:
        """What names the key in a signature's line."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._typed()).digest()[:_KEY_ID_BYTES]

    def text(self) -> str:
        """The key in one line, as people hand it on: name+id+key."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self._typed()).decode()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that `text` wrote; LedgerError if there is none in it."""
        name, _, rest = text.strip().partition("+")
        given, _, typed = rest.partition("+")
        try:
            content = base64.b64decode(typed, validate=True)
        except (binascii.Error, ValueError):
            content = b""
        found = cls(name, content[1:], witness=content[:1] == _WITNESS)
        sized = len(content) == 1 + keys.KEY_BYTES and content[:1] in (_LOG, _WITNESS)
        if not (sized and _NAME.fullmatch(name) and given == found.id.hex()):
            raise LedgerError("Expected a public key as name+id+key in one line, as 'tacit witness key' prints it.")
        return found

    def _typed(self) -> bytes:
        return (_WITNESS if self.witness else _LOG) + self.key


@dataclass(frozen=True)
class Signature:
    """A line below a head: who signed, with which key, and what they wrote. `time` is the second at which a witness signed."""

    name: str
    key_id: bytes
    signature: bytes
    time: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A head, and the signatures below it, none of them checked. `extensions` are lines that the log added below the root."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[Signature, ...] = ()
    extensions: tuple[str, ...] = ()

    def body(self) -> str:
        """What is signed."""
        lines = (self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    def text(self) -> str:
        """The head with its signatures."""
        return f"{self.body()}\n{signature_lines(self.signatures)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The head that `text` wrote; LedgerError for anything else."""
        head, separator, below = text.partition("\n\n")
        lines = head.split("\n")
        try:
            if len(text) > _MOST_BYTES or not separator or not 3 <= len(lines) <= 3 + _MOST_EXTENSIONS:
                raise ValueError
            if not _SIZE.fullmatch(lines[1]) or not all(_LINE.fullmatch(line) for line in (lines[0], *lines[3:])):
                raise ValueError
            root = base64.b64decode(lines[2], validate=True)
            found = cls(lines[0], int(lines[1]), root, signatures_in(below), tuple(lines[3:]))
            if len(root) != HASH_BYTES or found.text() != text:
                raise ValueError
        except ValueError:
            raise LedgerError("A signed head of a log is damaged: it is not the text of a checkpoint.") from None
        return found

    def with_signatures(self, signatures: Iterable[Signature]) -> Self:
        """The head with these signatures below it, each in place of an older one of the same key."""
        found = self
        for each in signatures:
            found = found._with(each)
        return found

    def signed(self, name: str, private: bytes) -> Self:
        """The head with the log's own signature below it."""
        key = PublicKey(name, keys.identity_public(private))
        return self._with(Signature(name, key.id, keys.sign(private, self.body().encode())))

    def countersigned(self, name: str, private: bytes, *, time: int) -> Self:
        """The head with a witness's signature below it."""
        key = PublicKey(name, keys.identity_public(private), witness=True)
        return self._with(Signature(name, key.id, keys.sign(private, self._seen_at(time)), time))

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether one of the signatures was made with this key."""
        return any(self._holds(key, each) for each in self.signatures)

    def signed_only_by(self, key: PublicKey) -> Self:
        """The head with those of its signatures that were made with this key, and no others."""
        return replace(self, signatures=tuple(each for each in self.signatures if self._holds(key, each)))

    def _holds(self, key: PublicKey, signature: Signature) -> bool:
        if (signature.name, signature.key_id) != (key.name, key.id) or (signature.time is not None) != key.witness:
            return False
        content = self.body().encode() if signature.time is None else self._seen_at(signature.time)
        return keys.signed_by(key.key, signature.signature, content)

    def _seen_at(self, time: int) -> bytes:
        return f"cosignature/v1\ntime {time}\n{self.body()}".encode()

    def _with(self, signature: Signature) -> Self:
        signer = (signature.name, signature.key_id)
        others = tuple(each for each in self.signatures if (each.name, each.key_id) != signer)
        return replace(self, signatures=(*others, signature))


def signature_lines(signatures: Iterable[Signature]) -> str:
    """The signatures, a line each, as they stand below a head."""
    return "".join(f"— {each.name} {base64.b64encode(_packed(each)).decode()}\n" for each in signatures)


def signatures_in(text: str) -> tuple[Signature, ...]:
    """The signatures that these lines hold; ValueError if a line is no signature, or there are too many."""
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) > _MOST_SIGNATURES:
        raise ValueError
    return tuple(_signature(line) for line in lines)


def _packed(signature: Signature) -> bytes:
    time = b"" if signature.time is None else struct.pack(">Q", signature.time)
    return signature.key_id + time + signature.signature


def _signature(line: str) -> Signature:
    """ValueError if this line is no signature. One of a length that Ed25519 does not have is kept as it is."""
    dash, name, packed = line.split(" ")
    content = base64.b64decode(packed, validate=True)
    key_id, rest = content[:_KEY_ID_BYTES], content[_KEY_ID_BYTES:]
    if dash != "—" or not _NAME.fullmatch(name) or not rest:
        raise ValueError
    if len(rest) != 8 + keys.SIGNATURE_BYTES or (time := struct.unpack(">Q", rest[:8])[0]) >= _MOST_TIME:
        return Signature(name, key_id, rest)
    return Signature(name, key_id, rest[8:], time)
