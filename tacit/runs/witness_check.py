"""Compares the ledger of a run with heads that its witness signed: that in the folder, a reader's, the witness's last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import LedgerError, RunError
from tacit.privacy.record.ledger import read_ledger
from tacit.runs.folder import RunFolder
from tacit.runs.heads import LedgerLeaves, held_head, prefix_objection
from tacit.runs.log_key import origin_of
from tacit.runs.witness import Witness
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.client import WitnessClient


@dataclass(frozen=True)
class Checked:
    """A ledger that agrees with every head: how many records it has, and how many of them each head has."""

    run_id: str
    witness: PublicKey
    records: int
    in_folder: int | None
    given: tuple[int, ...]
    at_witness: int | None

    @property
    def signed(self) -> int:
        """How many records no one can change any more without its being evident."""
        return max(self.in_folder or 0, self.at_witness or 0, *self.given, 0)


def check_witness(
    folder: RunFolder,
    *,
    key: PublicKey | None = None,
    address: str | None = None,
    ask: bool = True,
    heads: Sequence[Path] = (),
) -> Checked:
    """Compare the run's ledger with the head in its folder, with those in `heads`, and with what the witness holds now.

    `key` is the witness's, if the reader knows it from elsewhere; without it the ledger says which one signs. The witness is
    asked at `address`, or where the run's recipe says, unless `ask` is False. LedgerError if anything does not agree, or if no
    head can be compared.
    """
    opened = read_ledger(folder.ledger_path).opened
    if key is None:
        if (named := opened.witness) is None:
            raise RunError(
                f"The run {folder.path} was begun without a witness, so nobody has signed heads of its ledger."
            )
        key = PublicKey.parse(named.key)
    in_folder = held_head(folder.path)
    given = [_read(path) for path in heads]
    found = [
        ("the head in the folder", in_folder),
        *((f"the head in {path}", head) for path, head in zip(heads, given, strict=True)),
    ]
    at_witness = None
    if ask:
        settings = Witness.of_settings(folder.recipe())
        if address is None and settings is None:
            raise RunError("The recipe does not say where the witness is: give its address with --address.")
        client = WitnessClient(address or settings.address, key)  # type: ignore[union-attr]
        at_witness = client.latest(origin_of(opened.run_id))
        found.append((f"the head that {key.name} holds", at_witness))
    # Read after the heads: a run that goes on writes its records before they are signed.
    ledger, leaves = read_ledger(folder.ledger_path), LedgerLeaves(folder.ledger_path).read()
    for what, head in found:
        if head is not None and (why := prefix_objection(head, ledger.opened.run_id, key, leaves)) is not None:
            raise LedgerError(f"The ledger of {folder.path} does not agree with {what}: {why}.")
    if all(head is None for _, head in found):
        raise LedgerError(f"There is no head of the ledger of {folder.path} that the witness {key.name} has signed.")
    signed, holds = (
        max(head.size for _, head in found if head is not None),
        0 if at_witness is None else at_witness.size,
    )
    if ask and holds < signed:
        raise LedgerError(
            f"The witness {key.name} holds a head of {holds} records, and has signed one of {signed}: it has forgotten what it "
            "signed, and could sign another history."
        )
    return Checked(
        ledger.opened.run_id,
        key,
        len(ledger.records),
        None if in_folder is None else in_folder.size,
        tuple(head.size for head in given),
        None if at_witness is None else at_witness.size,
    )


def _read(path: Path) -> Checkpoint:
    try:
        return Checkpoint.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(f"Expected the signed head of a ledger, got {path}, which cannot be read.") from None
