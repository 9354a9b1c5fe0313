"""What others can check a run against: a head of its ledger that a witness signed, and a certificate in its folder.

Both are read from the run's public files. Nobody is asked: `tacit witness check` also asks the witness.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from tacit.errors import LedgerError
from tacit.privacy.record.ledger import Ledger
from tacit.runs.folder import RunFolder
from tacit.runs.public import CERTIFICATE
from tacit.runs.witness_check import check_witness
from tacit.transparency.certificate import read_certificate

# A ledger of ten thousand rounds is far smaller.
MOST_BYTES = 64_000_000


class WitnessView(BaseModel):
    """The witness that the ledger names, and how far the signed head in the folder goes."""

    name: str
    public_key: str
    required: bool
    records: int = Field(description="how many records the ledger has")
    signed: int | None = Field(description="how many of them are in the signed head; null if there is a problem")
    problem: str | None = None


class CertificateView(BaseModel):
    """The certificate in the run's folder. Its signature fits the key that it names."""

    file: str
    records: int | None = Field(default=None, description="how many of the ledger's records it holds")
    whole: bool = Field(default=False, description="whether these are all: the run has not gone on since")
    public_key: str | None = None
    problem: str | None = None


def witness_of(folder: RunFolder, ledger: Ledger) -> WitnessView | None:
    """The witness of the run's ledger; None if it was begun without one."""
    named = ledger.opened.witness
    if named is None:
        return None
    signed, problem = None, None
    try:
        signed = check_witness(folder, ask=False).in_folder
    except LedgerError as error:
        problem = error.sentence
    return WitnessView(
        name=named.name,
        public_key=named.key,
        required=named.required,
        records=len(ledger.records),
        signed=signed,
        problem=problem,
    )


def certificate_of(folder: RunFolder, ledger: Ledger) -> CertificateView | None:
    """The certificate in the run's folder, compared with its ledger; None if there is none."""
    path = folder.path / CERTIFICATE.path
    if not path.is_file() or path.is_symlink():
        return None
    lines = folder.ledger_path.read_bytes().split(b"\n")[:-1]
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LedgerError("The certificate is too large to be one.")
        found = read_certificate(path.read_bytes())
        held = [str(line).encode() for line in found["ledger"]]
        if found["run"] != ledger.opened.run_id:
            raise LedgerError("The certificate is that of another run.")
        if held != lines[: len(held)]:
            raise LedgerError("The certificate holds another ledger than the run.")
    except LedgerError as error:
        return CertificateView(file=CERTIFICATE.path, problem=error.sentence)
    return CertificateView(file=CERTIFICATE.path, records=len(held), whole=held == lines, public_key=str(found["key"]))
