"""The server's error answers: one sentence, an HTTP status, and whether trying again makes sense.

401   the sender is unknown or the signature is wrong; always the same sentence, so that an attacker learns nothing from it
403   the device has no place in this round
404   no such round, file or path
408   the body did not arrive in time
409   the device sent something else before, or its counter was used already
410   the round is over
411, 413   the body's length is not stated, or too long; answered before the body is read
422   not a valid message
429   too many requests; try again later
500   a bug in the server
503   the server is stopping, or cannot reach its database
"""

from __future__ import annotations

from tacit.errors import FleetError


class Refusal(FleetError):
    """A request that the server does not accept; nothing has changed. `headers` are sent with the answer."""

    def __init__(
        self, sentence: str, *, status: int = 422, again: bool = False, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.again = status, again
        self.headers = headers or {}


def unauthorised() -> Refusal:
    """The same answer to every request whose sender cannot be authenticated."""
    return Refusal("The request is not signed by an enrolled device.", status=401)
