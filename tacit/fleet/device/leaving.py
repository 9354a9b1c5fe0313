"""Leaving: the server is told, confirms it with its signature, and the text and the key are deleted here.

The confirmation is kept in the device's folder, with the memory and the account, so that the owner can still show what was
asked and sent. It is on disk before anything is deleted; a device that is killed in between leaves again, and the server
answers the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from tacit.errors import FleetError
from tacit.files import write_atomic
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.home import Home
from tacit.fleet.device.public_log import followed
from tacit.fleet.device.receipts import is_signed
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.public_log import LEAVE, LEFT_LABEL, LeaveRequest, Leaving, SignedText, salted
from tacit.secagg import keys
from tacit.transparency.checkpoint import PublicKey

_ALONE = "To delete key and text here, and tell the server nothing, add --without-server."


@dataclass(frozen=True)
class Left:
    """That a device has left; `confirmed` is the server's word, None if the server was not asked."""

    confirmed: Leaving | None
    kept_text: bool


def leave(home: Home, connection: Connection | None, *, keep_text: bool) -> Left:
    """Leave the server and delete key and text; without a connection only the second. FleetError if the server does not
    confirm: then nothing is deleted.
    """
    confirmed = confirmation_in(home)
    if confirmed is None and connection is not None:
        try:
            signed, confirmed = _confirmed(home, connection, _log_key(home, connection))
        except FleetError as error:
            error.hint = error.hint or _ALONE
            raise
        write_atomic(home.left_path, signed.model_dump_json(), mode=0o600)
    if confirmed is None:
        write_atomic(home.left_path, "{}", mode=0o600)
    home.forget(keep_text=keep_text)
    return Left(confirmed, keep_text)


def confirmation_in(home: Home) -> Leaving | None:
    """The server's confirmation that this device has left; None if there is none."""
    try:
        return Leaving.model_validate_json(SignedText.model_validate_json(home.left_path.read_bytes()).text)
    except (FileNotFoundError, ValidationError):
        return None


def _log_key(home: Home, connection: Connection) -> str | None:
    """The key that must sign. What the server's log does now keeps nobody from leaving, if the key is known already."""
    try:
        log = followed(connection, home.memory.log, home.policy)
    except PolicyRefusal:
        if home.memory.log.key is None:
            raise
        return home.memory.log.key
    home.remember(home.memory.model_copy(update={"log": log}))
    return log.key


def _confirmed(home: Home, connection: Connection, log_key: str | None) -> tuple[SignedText, Leaving]:
    body = LeaveRequest(identity=keys.identity_public(home.identity).hex()).model_dump_json().encode()
    try:
        signed = SignedText.model_validate_json(connection.ask("POST", LEAVE, body))
        found = Leaving.model_validate_json(signed.text)
    except ValidationError:
        raise FleetError(
            "The server's confirmation that the device has left is not valid; nothing was deleted."
        ) from None
    of_this_device = found.device == salted(found.salt, connection.device)
    if log_key is None or not of_this_device or not is_signed(PublicKey.parse(log_key), LEFT_LABEL, signed):
        raise FleetError("The server did not sign that this device has left; nothing was deleted.")
    return signed, found
