"""False shares are corrected up to half the spare ones, and nobody honest is named a liar."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.secagg import shamir
from tacit.secagg.decoding import decoded, liars


def dealt(secret: bytes, holders: int, threshold: int, false: set[int]) -> dict[int, bytes]:
    shares = shamir.split(secret, list(range(holders)), threshold, entropy=os.urandom)
    return {holder: shamir.random_secret(os.urandom) if holder in false else share for holder, share in shares.items()}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 2**16))
def test_up_to_half_the_spare_shares_may_be_false(threshold, spare, seed):
    holders = threshold + spare
    false = set(random.Random(seed).sample(range(holders), spare // 2))
    secret = shamir.random_secret(os.urandom)
    found = decoded(dealt(secret, holders, threshold, false), threshold, lambda each: each == secret)
    assert found is not None
    assert found[0] == secret
    assert found[1] <= false
    if false & set(range(threshold)):  # decoding was needed, and finds all of them
        assert found[1] == false


def test_one_more_is_too_many_unless_it_is_known():
    secret = shamir.random_secret(os.urandom)
    shares = dealt(secret, 10, 5, {0, 1, 2})
    assert decoded(shares, 5, lambda each: each == secret) is None
    assert decoded(shares, 5, lambda each: each == secret, suspects={1}) == (secret, {0, 1, 2})
    assert decoded(shares, 5, lambda each: each == secret, suspects={0, 1, 2}) == (secret, {0, 1, 2})


def test_a_share_outside_the_field_is_false():
    secret = shamir.random_secret(os.urandom)
    shares = dealt(secret, 4, 2, set()) | {0: b"\xff" * 32}
    assert decoded(shares, 2, lambda each: each == secret) == (secret, {0})


def test_suspects_are_asked_if_too_few_others_are_left():
    secret = shamir.random_secret(os.urandom)
    shares = dealt(secret, 5, 4, set())
    assert decoded(shares, 4, lambda each: each == secret, suspects={0, 1}) == (secret, frozenset())


def test_no_secret_is_better_than_a_wrong_one():
    secret, other = shamir.random_secret(os.urandom), shamir.random_secret(os.urandom)
    assert decoded(dealt(other, 9, 3, set()), 3, lambda each: each == secret) is None


@pytest.mark.parametrize("corrupt", [1, 3])
def test_only_those_with_more_false_shares_than_the_corrupt_could_make_are_named(corrupt):
    everybody, bad = range(20), range(corrupt)
    # The corrupt pass on false shares of everybody's secrets, and deal false shares of their own to the device 19.
    pairs = [(owner, holder) for holder in bad for owner in everybody if owner != holder]
    pairs += [(owner, 19) for owner in bad]
    assert liars(pairs, corrupt) == set(bad)
    assert liars(pairs[:1], corrupt) == frozenset()


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**32))
def test_honest_devices_are_not_named_though_more_lied_than_was_assumed(corrupt, assumed, seed):
    """Who passes on false shares of everybody's secrets is named alone, however many do."""
    everybody = random.Random(seed).sample(range(100), 20)
    bad = set(everybody[:corrupt])
    pairs = [(owner, holder) for holder in bad for owner in everybody if owner != holder]
    assert liars(pairs, assumed) == bad
