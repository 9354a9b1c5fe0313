"""How long a device waits before it tries again."""

from __future__ import annotations

import pytest

from tacit.fleet.device.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, pause_after, retry_after_s


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, FIRST_PAUSE_S), (3, 8 * FIRST_PAUSE_S), (20, LONGEST_PAUSE_S), (5000, LONGEST_PAUSE_S)]
)
def test_pauses_double_up_to_the_longest_however_long_a_server_is_away(failures: int, pause: float) -> None:
    drawn = [pause_after(failures) for _ in range(200)]
    assert 0.5 * pause <= min(drawn) < 0.75 * pause
    assert 1.25 * pause < max(drawn) <= 1.5 * pause


def test_the_servers_own_wish_is_followed_up_to_the_longest_pause() -> None:
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "7200"}) == LONGEST_PAUSE_S
    assert retry_after_s({"retry-after": "tomorrow"}) == retry_after_s({}) == 0.0
