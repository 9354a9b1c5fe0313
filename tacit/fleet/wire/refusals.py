"""What the server answers when it does not take a request: one sentence, a status, and whether trying again makes sense.

401   who speaks is not who it says; one sentence whatever was wrong, so that nothing is learned from it
403   a device, but not one with a place in this round
404   nothing of this name
409   said before, with other words; or a counter that has been used
410   the round is over
411, 413   a body without a stated length, or too long; said before a byte of it is read
422   not a valid message
429   too many requests; come back later
503   the server is stopping, or cannot reach its database
"""

from __future__ import annotations

from tacit.errors import FleetError


class Refusal(FleetError):
    """A request that is not taken; nothing has changed. `headers` go out with the answer."""

    def __init__(
        self, sentence: str, *, status: int = 422, again: bool = False, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.again = status, again
        self.headers = headers or {}


def unauthorised() -> Refusal:
    """The one answer to every request whose sender cannot be established."""
    return Refusal("Expected a request signed by an enrolled device, got another.", status=401)
