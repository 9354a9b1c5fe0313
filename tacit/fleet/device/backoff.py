"""How long a device waits before it tries a request again.

Pauses grow with each failure and are random, so that a server that comes back is not met by all devices at once.
"""

from __future__ import annotations

import random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
# After this many doublings every pause is the longest one, and 2**failures would not fit into a float.
_MOST_DOUBLINGS = 32


def jittered(pause_s: float) -> float:
    """A random time between half and one and a half times the pause."""
    return pause_s * random.uniform(0.5, 1.5)


def pause_after(failures: int) -> float:
    """The pause after this many failures in a row: it doubles with each, up to LONGEST_PAUSE_S."""
    return jittered(min(FIRST_PAUSE_S * 2 ** min(failures, _MOST_DOUBLINGS), LONGEST_PAUSE_S))


def retry_after_s(headers: dict[str, str]) -> float:
    """The server's Retry-After in seconds, at most LONGEST_PAUSE_S; 0 if there is none."""
    text = headers.get("retry-after", "")
    return min(float(text), LONGEST_PAUSE_S) if text.isdecimal() else 0.0
