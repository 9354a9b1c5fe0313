"""No two draws share a key; every bit of a key counts; seeds replay."""

from __future__ import annotations

import itertools

from tacit.privacy.noise.randomness import Randomness

SECRET = Randomness(bytes(range(32)))


def key_bits(randomness: Randomness, round: int, attempt: int) -> tuple[int, ...]:
    """All the words of both keys."""
    key = randomness.noise_key(round=round, attempt=attempt)
    return tuple(
        int.from_bytes(both[i : i + 4], "little") for both in (key.cipher, key.further) for i in range(0, 32, 4)
    )


def test_each_round_and_attempt_has_its_own_key():
    keys = [key_bits(SECRET, round, attempt) for round, attempt in itertools.product(range(20), range(3))]
    assert len(set(keys)) == len(keys)
    # 256 bits for the cipher and 256 for further bits: every word varies.
    assert [len({key[word] for key in keys}) > 50 for word in range(16)] == [True] * 16


def test_a_key_does_not_show_itself_in_messages():
    key = SECRET.noise_key(round=0, attempt=0)
    assert repr(key.stream(1)) == "NoiseStream(source=NoiseKey(), block=1)"


def test_noise_and_sampling_never_share_bytes():
    assert SECRET.derive("noise", round=0, attempt=0, size=8) != SECRET.derive("sample", round=0, attempt=0, size=8)


def test_every_bit_of_the_secret_matters():
    base = key_bits(SECRET, 0, 0)
    for bit in range(256):
        changed = bytearray(SECRET.root)
        changed[bit // 8] ^= 1 << bit % 8
        assert key_bits(Randomness(bytes(changed)), 0, 0) != base


def test_a_seed_replays_and_ignores_attempts():
    assert key_bits(Randomness.from_seed(3), 5, 0) == key_bits(Randomness.from_seed(3), 5, 1)
    assert key_bits(Randomness.from_seed(3), 5, 0) != key_bits(Randomness.from_seed(4), 5, 0)
    assert Randomness.from_seed(3).seeded
    assert not SECRET.seeded
