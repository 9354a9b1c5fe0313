"""A secret from Shamir shares of which some are false: decoding of Reed-Solomon codes, and who gave the false ones.

The shares of one secret are values of a polynomial of degree below t, so k of them are a word of a Reed-Solomon code (McEliece
and Sarwate 1981). Up to ⌊(k - t)/2⌋ false shares are corrected, whichever they are, by Gao's algorithm (2003):

    g0 = Π (x - x_i);  g1 = the polynomial through all points;
    run Euclid's algorithm on (g0, g1) until the remainder r has degree below (k + t)/2, where r = u g0 + v g1;
    if v divides r and the quotient has degree below t, it is the polynomial: the roots of v are the false shares' places.

A share that is known to be false is worth one correct one instead of two, so whoever decodes leaves out the holders that were
caught before. Computing takes O(k²) multiplications modulo P.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from tacit.secagg.shamir import SECRET_BYTES, P, combine

# Coefficients modulo P, the constant first, without zeros at the end.
_Polynomial = list[int]


def decoded(
    shares: Mapping[int, bytes], threshold: int, is_right: Callable[[bytes], bool], *, suspects: Iterable[int] = ()
) -> tuple[bytes, frozenset[int]] | None:
    """The secret and the holders whose shares of it are false; None if no decoding gives a secret that `is_right`.

    `suspects` are holders that gave false shares of other secrets; the others' shares are tried first, and then the suspects'
    are compared. Without suspects, if no decoding is needed, false shares among those that were not needed are not looked for.
    """
    suspected = set(suspects)
    without = {holder: share for holder, share in shares.items() if holder not in suspected}
    for tried in (without, shares) if len(without) < len(shares) else (shares,):
        if len(tried) < threshold:
            continue
        values = {holder: int.from_bytes(share, "little") for holder, share in tried.items()}
        inside = {holder: share for holder, share in tried.items() if values[holder] < P}
        if len(inside) >= threshold and is_right(secret := combine(inside, threshold)):
            if not suspected:
                return secret, frozenset(tried.keys() - inside.keys())
            used = {holder + 1: values[holder] for holder in sorted(inside)[:threshold]}
            return secret, _wrong(_through(used), shares)
        polynomial = _decode({holder + 1: values[holder] for holder in inside}, threshold)
        if polynomial is None:
            continue
        secret = (polynomial[0] if polynomial else 0).to_bytes(SECRET_BYTES, "little")
        if is_right(secret):
            return secret, _wrong(polynomial, shares)
    return None


def liars(false_shares: Iterable[tuple[int, int]], most_corrupt: int) -> frozenset[int]:
    """The devices that must have lied, given who holds a false share of whose secret, as (owner, holder).

    A false share is the work of its owner, who dealt it, or of its holder, who passed it on; nobody else can tell which. But
    two honest devices never have one between them. So a device with false shares between it and more than c others is a liar
    itself, if at most c are corrupt. c is `most_corrupt`, unless that would make more than c devices liars: there are then more
    corrupt devices than was assumed, and c is the least number that does not contradict itself. Otherwise a round with one
    liar more than was assumed would make liars of all honest devices.
    """
    others: defaultdict[int, set[int]] = defaultdict(set)
    for owner, holder in false_shares:
        others[owner].add(holder)
        others[holder].add(owner)
    while len(found := {device for device, against in others.items() if len(against) > most_corrupt}) > most_corrupt:
        most_corrupt += 1
    return frozenset(found)


def _wrong(polynomial: _Polynomial, shares: Mapping[int, bytes]) -> frozenset[int]:
    return frozenset(
        holder for holder, share in shares.items() if _value(polynomial, holder + 1) != int.from_bytes(share, "little")
    )


def _decode(points: Mapping[int, int], threshold: int) -> _Polynomial | None:
    """The polynomial of degree below `threshold` through all but ⌊(k - threshold)/2⌋ of these points, or None."""
    size = len(points)
    if size < threshold:
        return None
    before, remainder = _with_roots(points), _through(points)
    v_before, v = list[int](), [1]
    while 2 * (len(remainder) - 1) >= size + threshold:
        quotient, rest = _divided(before, remainder)
        before, remainder = remainder, rest
        v_before, v = v, _minus(v_before, _product(quotient, v))
    found, rest = _divided(remainder, v)
    return found if not rest and len(found) <= threshold else None


def _with_roots(xs: Iterable[int]) -> _Polynomial:
    whole: _Polynomial = [1]
    for x in xs:
        whole = [(high - x * low) % P for high, low in zip([0, *whole], [*whole, 0], strict=True)]
    return whole


def _through(points: Mapping[int, int]) -> _Polynomial:
    """The polynomial through all points, by Lagrange."""
    whole = _with_roots(points)
    slope = [index * coefficient % P for index, coefficient in enumerate(whole)][1:]
    total = [0] * len(points)
    for x, y in points.items():
        weight = y * pow(_value(slope, x), -1, P) % P
        carried = 0
        for index in range(len(whole) - 1, 0, -1):  # whole / (X - x), by Horner's rule
            carried = (whole[index] + carried * x) % P
            total[index - 1] = (total[index - 1] + weight * carried) % P
    return _trimmed(total)


def _value(polynomial: _Polynomial, x: int) -> int:
    total = 0
    for coefficient in reversed(polynomial):
        total = (total * x + coefficient) % P
    return total


def _divided(numerator: _Polynomial, denominator: _Polynomial) -> tuple[_Polynomial, _Polynomial]:
    rest, inverse = list(numerator), pow(denominator[-1], -1, P)
    quotient = [0] * max(0, len(numerator) - len(denominator) + 1)
    for place in range(len(quotient) - 1, -1, -1):
        factor = rest[place + len(denominator) - 1] * inverse % P
        quotient[place] = factor
        for index, coefficient in enumerate(denominator):
            rest[place + index] = (rest[place + index] - factor * coefficient) % P
    return _trimmed(quotient), _trimmed(rest)


def _product(first: _Polynomial, second: _Polynomial) -> _Polynomial:
    total = [0] * max(0, len(first) + len(second) - 1)
    for index, a in enumerate(first):
        for other, b in enumerate(second):
            total[index + other] = (total[index + other] + a * b) % P
    return _trimmed(total)


def _minus(first: _Polynomial, second: _Polynomial) -> _Polynomial:
    size = max(len(first), len(second))
    a, b = first + [0] * (size - len(first)), second + [0] * (size - len(second))
    return _trimmed([(x - y) % P for x, y in zip(a, b, strict=True)])


def _trimmed(polynomial: _Polynomial) -> _Polynomial:
    end = len(polynomial)
    while end and polynomial[end - 1] == 0:
        end -= 1
    return polynomial[:end]
