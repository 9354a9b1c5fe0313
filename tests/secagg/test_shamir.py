"""Enough shares give the secret back; one fewer says nothing, by enumeration over a small field."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ProtocolError
from tacit.secagg import shamir
from tests.support.secagg_round import replayable


def test_the_field_is_a_field():
    """Miller-Rabin with forty bases."""
    odd = shamir.P - 1
    halvings = (odd & -odd).bit_length() - 1
    odd >>= halvings
    for base in range(2, 42):
        x = pow(base, odd, shamir.P)
        assert x in (1, shamir.P - 1) or any(pow(x, 2**i, shamir.P) == shamir.P - 1 for i in range(halvings))


@settings(max_examples=50)
@given(st.integers(0, shamir.P - 1), st.sets(st.integers(0, 10**6), min_size=1, max_size=12), st.data())
def test_any_threshold_of_shares_gives_the_secret_back(value, holders, data):
    secret = value.to_bytes(32, "little")
    threshold = data.draw(st.integers(1, len(holders)))
    shares = shamir.split(secret, sorted(holders), threshold, entropy=replayable(value % 1000))
    assert {len(share) for share in shares.values()} == {32}
    chosen = data.draw(st.permutations(sorted(holders)))[:threshold]
    assert shamir.combine({holder: shares[holder] for holder in chosen}, threshold) == secret


def test_fewer_shares_are_independent_of_the_secret(monkeypatch):
    """Over the field of 7 elements, every polynomial: any two of four shares look the same for every secret."""
    monkeypatch.setattr(shamir, "P", 7)
    for pair in combinations(range(4), 2):
        seen = []
        for secret in range(7):
            counts: Counter = Counter()
            for coefficients in product(range(7), repeat=2):
                draws = iter(coefficients)
                shares = shamir.split(
                    secret.to_bytes(32, "little"),
                    range(4),
                    3,
                    entropy=lambda size, draws=draws: next(draws).to_bytes(size, "little"),
                )
                counts[tuple(shares[holder] for holder in pair)] += 1
            seen.append(counts)
        assert all(counts == seen[0] for counts in seen)
        assert len(seen[0]) == 49


def test_too_few_shares_and_shares_outside_the_field_are_refused():
    shares = shamir.split(bytes(32), range(5), 3, entropy=replayable(0))
    with pytest.raises(ProtocolError, match="at least 3 shares, got 2"):
        shamir.combine({holder: shares[holder] for holder in (0, 1)}, 3)
    with pytest.raises(ProtocolError, match="share is not below"):
        shamir.combine({**shares, 0: b"\xff" * 32}, 3)
    for threshold in (0, 6):
        with pytest.raises(ProtocolError, match="threshold"):
            shamir.split(bytes(32), range(5), threshold, entropy=replayable(0))
