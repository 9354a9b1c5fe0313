"""What a run is told about its witness: where it is, by which key it is known, and whether the run may go on without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tacit.errors import LedgerError, RecipeError
from tacit.privacy.record.facts import WitnessRecord
from tacit.transparency.checkpoint import PublicKey
from tacit.transparency.client import WitnessClient


@dataclass(frozen=True, kw_only=True)
class Witness:
    """A witness that countersigns the head of a run's ledger: `tacit.train(..., witness=tacit.Witness(...))`.

    - `address` is where it listens, http://… or https://…
    - `key` is its public key, in one line, as `tacit witness key` prints it.
    - With `required`, nothing of a round is shown or saved before the witness has signed a head that includes the round, and
      the run stops if the witness does not answer. Without it, the run goes on and says so.

    >>> import tacit
    >>> tacit.Witness(address="localhost:8090", key="")
    Traceback (most recent call last):
    tacit.errors.RecipeError: Expected the address of a witness as http://… or https://…, got 'localhost:8090'.
    """

    address: str
    key: str
    required: bool = True

    def __post_init__(self) -> None:
        if (objection := address_objection(self.address) or key_objection(self.key)) is not None:
            raise RecipeError(f"{objection[0].upper()}{objection[1:]}.")

    @property
    def public(self) -> PublicKey:
        """The key that the witness's signatures are checked with."""
        return PublicKey.parse(self.key)

    def client(self) -> WitnessClient:
        """The way to the witness."""
        return WitnessClient(self.address, self.public)

    def record(self) -> WitnessRecord:
        """What the ledger's first record says of it."""
        return WitnessRecord(self.public.name, self.public.text(), self.required)

    def settings(self) -> dict[str, Any]:
        """The witness as the section of a recipe that `of_settings` reads."""
        return {"witness": {"address": self.address, "key": self.key, "required": self.required}}

    @classmethod
    def of_settings(cls, settings: dict[str, Any]) -> Witness | None:
        """The witness of a recipe, None if it has none."""
        return None if settings.get("witness") is None else cls(**settings["witness"])


def address_objection(address: str) -> str | None:
    """What is wrong with the address of a witness, without a full stop."""
    try:
        parts = urlsplit(address)
        _ = parts.port
        fits = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        fits = False
    if fits and address.isascii() and address.isprintable() and " " not in address:
        return None
    return f"expected the address of a witness as http://… or https://…, got {address!r}"


def key_objection(key: str) -> str | None:
    """What is wrong with the public key of a witness, without a full stop."""
    try:
        found = PublicKey.parse(key)
    except LedgerError as error:
        return f"{error.sentence[0].lower()}{error.sentence[1:].rstrip('.')}"
    return None if found.witness else f"expected the key of a witness, got that of the log {found.name}"
