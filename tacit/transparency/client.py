"""A log's side of a witness: ask it over HTTP to countersign a head, and check what comes back.

The requests are those of C2SP's tlog-witness, so that a witness written by others serves. Two more are Tacit's own: `add-log`
introduces the log of a run, and `latest` shows the head that was signed last. Nothing in an answer is believed but a signature.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from tacit.errors import LedgerError, WitnessError
from tacit.transparency.checkpoint import Checkpoint, PublicKey, signatures_in
from tacit.transparency.merkle import consistency_proof
from tacit.transparency.submission import Submission

ADD_CHECKPOINT, ADD_LOG, LATEST = "add-checkpoint", "add-log", "latest"
TIMEOUT_S = 10.0
_MOST_ANSWER = 1 << 17
_SIZE = re.compile(r"(0|[1-9][0-9]{0,17})\n?")
_FORK = (
    "The witness {name} has signed a head of {size} records of this log that the ledger does not continue: records were cut "
    "off, exchanged or changed after it signed them, or the run went on in another place."
)
_FORK_HINT = "Go on with the folder of the run that the witness knows, and delete older copies."
_FORGOTTEN = (
    "The witness {name} has signed a head of {signed} records of this log, and says that it signed {size} last: it has "
    "forgotten what it signed, and could sign another history."
)
_FORGOTTEN_HINT = "Its operator has to put back the newest copy of its folder."


class WitnessSilent(WitnessError):
    """The witness did not answer, or not now: asking again may help."""


class _Conflict(Exception):
    """The witness signed a head of another size last."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class WitnessClient:
    """A witness at an address, known by its key. Each request has a connection of its own."""

    def __init__(self, address: str, key: PublicKey, *, timeout_s: float = TIMEOUT_S) -> None:
        self.address, self.key, self._timeout_s = address.rstrip("/"), key, timeout_s

    def countersign(self, head: Checkpoint, log: PublicKey, leaves: Sequence[bytes], old_size: int) -> Checkpoint:
        """The head with the witness's signature; `leaves` are the hashes of its records, `old_size` how many were signed last.

        If the witness signed more since then, it says so, and gets the proof from there. A witness that does not know the
        log is shown the log's key. LedgerError if the witness has signed what these records do not continue. WitnessError if
        it does not sign for another reason, or says that it signed less than `old_size`.
        """
        introduced, sizes = False, {old_size}
        while True:
            proof = tuple(consistency_proof(leaves, old_size))
            try:
                return self._add_checkpoint(Submission(old_size, proof, head))
            except _Conflict as conflict:
                if conflict.size < old_size:
                    raise self._forgotten(old_size, conflict.size) from None
                old_size = conflict.size
                # The same size again: the roots differ. Another one: somebody else's heads came in between.
                if old_size > head.size or old_size in sizes:
                    raise LedgerError(_FORK.format(name=self.key.name, size=old_size), hint=_FORK_HINT) from None
                sizes.add(old_size)
            except _Unknown:
                if old_size > 0:
                    raise self._forgotten(old_size, 0) from None
                if introduced or not self._introduce(log):
                    raise WitnessError(
                        f"The witness {self.key.name} does not know the log {log.name}.",
                        hint=f"Its operator has to allow this key: {log.text()}",
                    ) from None
                introduced = True

    def _forgotten(self, signed: int, size: int) -> WitnessError:
        return WitnessError(_FORGOTTEN.format(name=self.key.name, signed=signed, size=size), hint=_FORGOTTEN_HINT)

    def latest(self, origin: str) -> Checkpoint | None:
        """The head of this log that the witness signed last; None if it shows none. WitnessError if it is not signed."""
        status, text = self._ask("GET", f"{LATEST}/{quote(origin, safe='')}")
        if status == 404:
            return None
        if status != 200:
            raise self._refusal(status, text)
        try:
            head = Checkpoint.parse(text)
        except LedgerError:
            head = None
        if head is None or head.origin != origin or not head.is_signed_by(self.key):
            raise WitnessError(f"The witness at {self.address} showed a head that {self.key.name} did not sign.")
        return head

    def _add_checkpoint(self, submission: Submission) -> Checkpoint:
        status, text = self._ask("POST", ADD_CHECKPOINT, submission.text())
        match status:
            case 200:
                try:
                    signatures = signatures_in(text)
                except ValueError:
                    signatures = ()
                ours = submission.head.with_signatures(each for each in signatures if each.key_id == self.key.id)
                if not ours.is_signed_by(self.key):
                    raise WitnessError(
                        f"The witness at {self.address} did not sign with the key of {self.key.name}.",
                        hint="Compare witness.key in the recipe with the witness's own, which tacit witness key prints.",
                    )
                return ours
            case 404:
                raise _Unknown
            case 409 if (found := _SIZE.fullmatch(text)) is not None:
                raise _Conflict(int(found[1]))
            case 422:
                sentence = _FORK.format(name=self.key.name, size=submission.old_size)
                raise LedgerError(sentence, hint=_FORK_HINT)
            case _:
                raise self._refusal(status, text)

    def _introduce(self, log: PublicKey) -> bool:
        """Show the log's key to the witness; returns whether it knows the log now."""
        status, _ = self._ask("POST", ADD_LOG, log.text() + "\n")
        return status == 200

    def _refusal(self, status: int, text: str) -> WitnessError:
        kind = WitnessSilent if status in (408, 429) or status >= 500 else WitnessError
        said = " ".join("".join(each for each in text[:200] if each.isprintable() or each.isspace()).split())
        why = f": {said.rstrip('.')}" if said else ""
        return kind(f"The witness {self.key.name} at {self.address} answered {status}{why}.")

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Status and text of the answer; WitnessSilent if there is none that can be read."""
        parts = urlsplit(self.address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        headers = {} if body is None else {"content-type": "text/plain; charset=utf-8"}
        try:
            connection.request(method, f"{parts.path}/{path}", None if body is None else body.encode(), headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_ANSWER + 1)
            if len(content) > _MOST_ANSWER:
                raise ValueError
            return answer.status, content.decode()
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise WitnessSilent(f"The witness {self.key.name} at {self.address} does not answer ({reason}).") from error
        finally:
            connection.close()


class _Unknown(Exception):
    """The witness does not know the log."""
