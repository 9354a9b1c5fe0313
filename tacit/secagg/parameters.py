"""How many neighbours a device needs, and how many shares must recover a secret, for a stated probability of failure.

The setting: n devices, of which at most C = ⌈corruption · n⌉ collude with the server and at most D = ⌈dropout · n⌉ are lost,
at any stage. Places on the ring are uniformly random and independent of who is corrupt and who is lost (for a
malicious server: because `Session.graph_seed` became known after the roster). So the corrupt among one device's k neighbours
are hypergeometric, drawn k out of n - 1 with C marked, and the lost ones likewise with D marked.

**The round completes** if every device keeps t of its k neighbours. It fails with probability at most

    n · P[Hyp(n - 1, D, k) > k - t]                                                     ("interruption")

**Against a server that follows the protocol** (honest but curious), with all that it and the corrupt devices see, the sum over
the honest included devices is all that it learns, if no honest device has t corrupt neighbours and the honest devices that stay
are connected. On the ring they are connected unless k/2 in a row are corrupt or lost, and each such run begins somewhere:

    n · P[Hyp(n - 1, C, k) ≥ t]  +  n · C(C + D, k/2) / C(n, k/2)                       ("exposure", curious)

**Against a malicious server**, which may send anything, the server decides who is lost, and may choose by the ring. Let c be
the largest number of corrupt neighbours of any honest device. If t > k/2 + c, the server learns the sum over one set of honest
devices and nothing else (docs/secagg.md has the proof; it uses the ring and the consistency round), so

    n · P[Hyp(n - 1, C, k) > c],   t = ⌊k/2⌋ + c + 1                                    ("exposure", malicious)

That set may be smaller than the session's `minimum`: a malicious server can announce different sets, each large enough, to
different stretches of the ring. If 3t > 2(k + c), all devices that reveal have signed the same set, and the sum is over all its
honest members:

    n · P[Hyp(n - 1, C, k) > c],   c = ⌈3t/2⌉ - k - 1                                   ("split")

**In a complete graph** both hold if 2t > k + c, where c = C is certain: two honest devices that reveal for different sets have
t - c + 1 honest signers each, themselves included, and an honest device signs one set; so 2(t - c + 1) ≤ k + 1 - c.

**If the server steers the ring** (`steered`), it can place all corrupt devices around one, and c = min(C, k) is certain.

All of it is computed exactly in integers and becomes a float at the end. `choose` returns about the smallest k that keeps both
probabilities below the requested bounds. (They fall with k, except for small steps because the threshold is an integer; the
search may miss a slightly smaller k there.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from tacit.errors import ProtocolError
from tacit.secagg.session import Session

Server = Literal["curious", "malicious"]
# The most neighbours that `against_malicious` gives a device: it expands a mask and splits two secrets for each.
MOST_NEIGHBOURS = 512


@dataclass(frozen=True)
class Parameters:
    """Neighbours and threshold, and the bounds on what can go wrong with them.

    `exposure` bounds the probability, over the ring, that a round reveals more than one sum; `interruption` that a round
    with no more losses than stated cannot be completed (it then fails and reveals nothing).
    """

    neighbours: int
    threshold: int
    exposure: float
    interruption: float


def choose(
    devices: int,
    *,
    dropout: float,
    corruption: float,
    server: Server,
    exposure: float = 2.0**-40,
    interruption: float = 2.0**-20,
    one_set: bool = False,
    steered: bool = False,
) -> Parameters:
    """About the fewest neighbours that suffice, with the highest threshold that lets the round complete.

    With `one_set`, `exposure` also bounds the probability that a malicious server reveals a sum of fewer honest devices than
    `minimum` less the corrupt (a curious one never does). With `steered` a malicious server may choose the places on the ring.
    Raises if even the complete graph does not suffice: against a
    malicious server 2 · dropout + corruption must be below 1, and against any server below 1.
    """
    if devices < 2:
        raise ProtocolError(f"Expected devices ≥ 2, got {devices}.")
    for name, value in (("dropout", dropout), ("corruption", corruption)):
        if not 0 <= value < 1:
            raise ProtocolError(f"Expected {name} to be at least 0 and below 1, got {value}.")
    corrupt, lost = math.ceil(corruption * devices), math.ceil(dropout * devices)
    candidates = [*range(2, devices - 1, 2), devices - 1]

    def fits(k: int) -> Parameters | None:
        found = _fits(devices, k, corrupt, lost, server, exposure, interruption, steered)
        if found is None or not one_set or server == "curious":
            return found
        split = split_probability(devices, k, found.threshold, corrupt=corrupt, steered=steered)
        return found if split <= exposure else None

    low, high = -1, 0
    while (found := fits(candidates[high])) is None:
        if high == len(candidates) - 1:
            raise ProtocolError(
                f"Expected a dropout and corruption that {devices} devices tolerate against a {server} server, "
                f"got {dropout} and {corruption}."
            )
        low, high = high, min(2 * high + 1, len(candidates) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        better = fits(candidates[middle])
        if better is None:
            low = middle
        else:
            high, found = middle, better
    return found


def against_malicious(devices: int, *, dropout: float, corruption: float) -> Parameters:
    """Parameters against a malicious server that steers the ring and is held to the minimum.

    ProtocolError where that many devices do not allow it, or every device would deal with more than MOST_NEIGHBOURS others.
    """
    found = choose(devices, dropout=dropout, corruption=corruption, server="malicious", one_set=True, steered=True)
    if found.neighbours > MOST_NEIGHBOURS:
        raise ProtocolError(f"Expected at most {MOST_NEIGHBOURS} neighbours a device, got {found.neighbours}.")
    return found


def against_curious(devices: int, *, dropout: float, corruption: float) -> Parameters:
    """Parameters against an honest-but-curious server; ProtocolError where that many devices do not allow it."""
    return choose(devices, dropout=dropout, corruption=corruption, server="curious")


def check(
    session: Session,
    *,
    dropout: float,
    corruption: float,
    server: Server,
    exposure: float = 2.0**-40,
    minimum: int = 2,
    steered: bool = False,
) -> None:
    """ProtocolError if the probability that a round with these constants is exposed is above `exposure`.

    With a `minimum` above 2, ProtocolError also if a sum could be over fewer devices, corrupt ones included. A session reaches
    devices through the server, and a malicious server could offer a threshold of one. So a device calls this before it
    advertises, with its owner's assumptions and not the server's.
    """
    corrupt, lost = math.ceil(corruption * session.devices), math.ceil(dropout * session.devices)
    found = exposed_probability(
        session.devices,
        session.neighbours,
        session.threshold,
        corrupt=corrupt,
        lost=lost,
        server=server,
        steered=steered,
    )
    if found > exposure:
        raise ProtocolError(
            f"Expected neighbours and threshold that expose a round with probability {exposure:.3g} or less to a {server} "
            f"server, got {session.neighbours} and {session.threshold}: {float(found):.3g}."
        )
    if session.minimum < minimum:
        raise ProtocolError(f"Expected sums of at least {minimum} devices, got a minimum of {session.minimum}.")
    if server == "malicious" and minimum > 2:
        split = split_probability(
            session.devices, session.neighbours, session.threshold, corrupt=corrupt, steered=steered
        )
        if split > exposure:
            raise ProtocolError(
                f"Expected a threshold at which a malicious server breaks the minimum with probability {exposure:.3g} or less, "
                f"got {session.threshold} of {session.neighbours} neighbours: {float(split):.3g}."
            )


def _fits(
    devices: int,
    k: int,
    corrupt: int,
    lost: int,
    server: Server,
    exposure: float,
    interruption: float,
    steered: bool,
) -> Parameters | None:
    # The highest threshold with which the round completes, from how many neighbours may be missing.
    missing = _least(lambda m: devices * tail(devices - 1, lost, k, m + 1), interruption, k)
    threshold = k - missing
    if threshold < 1:
        return None
    exposed = exposed_probability(devices, k, threshold, corrupt=corrupt, lost=lost, server=server, steered=steered)
    interrupted = devices * tail(devices - 1, lost, k, missing + 1)
    return Parameters(k, threshold, float(exposed), float(interrupted)) if exposed <= exposure else None


def exposed_probability(
    devices: int, neighbours: int, threshold: int, *, corrupt: int, lost: int, server: Server, steered: bool = False
) -> Fraction:
    """The bound above on the probability of revealing more than one sum, exactly; at most 1."""
    k = neighbours
    if server == "malicious":
        allowed = _allowed_in_complete(k, threshold) if k == devices - 1 else threshold - k // 2 - 1
        return _too_corrupt(devices, k, corrupt, allowed, steered)
    total = devices * tail(devices - 1, corrupt, k, threshold)
    if k < devices - 1:  # a complete graph cannot fall apart
        total += devices * Fraction(math.comb(min(corrupt + lost, devices), k // 2), math.comb(devices, k // 2))
    return min(Fraction(1), total)


def split_probability(
    devices: int, neighbours: int, threshold: int, *, corrupt: int, steered: bool = False
) -> Fraction:
    """The bound above on the probability that devices reveal for different sets, exactly; at most 1."""
    k = neighbours
    allowed = _allowed_in_complete(k, threshold) if k == devices - 1 else -(-3 * threshold // 2) - k - 1
    return _too_corrupt(devices, k, corrupt, allowed, steered)


def _allowed_in_complete(k: int, threshold: int) -> int:
    """The most corrupt neighbours with 2t > k + c."""
    return 2 * threshold - k - 1


def _too_corrupt(devices: int, k: int, corrupt: int, allowed: int, steered: bool) -> Fraction:
    """A bound on the probability that an honest device has more corrupt neighbours than `allowed`."""
    if allowed < 0:
        return Fraction(1)
    if steered:
        return Fraction(int(min(corrupt, k) > allowed))
    return min(Fraction(1), devices * tail(devices - 1, corrupt, k, allowed + 1))


@lru_cache(maxsize=4096)
def tail(population: int, marked: int, draws: int, at_least: int) -> Fraction:
    """P[Hyp ≥ at_least], exactly: at least so many marked items among `draws` out of `population`."""
    marked = min(marked, population)
    lowest, highest = max(0, draws - (population - marked)), min(marked, draws)
    if at_least <= lowest:
        return Fraction(1)
    if at_least > highest:
        return Fraction(0)
    term = math.comb(marked, highest) * math.comb(population - marked, draws - highest)
    total = term
    for j in range(highest, at_least, -1):  # from the term of j to that of j - 1
        term = term * j * (population - marked - draws + j) // ((marked - j + 1) * (draws - j + 1))
        total += term
    return Fraction(total, math.comb(population, draws))


def _least(failure: Callable[[int], Fraction], bound: float, most: int) -> int:
    """The least m in 0..most with failure(m) ≤ bound; failure does not increase and is 0 at `most`."""
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if failure(middle) <= bound else (middle, high)
    return high
