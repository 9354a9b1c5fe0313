"""The queue against a plain sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.simulation.population.check_in_queue import BUCKET_S, CheckInQueue


@given(data=st.data())
@settings(max_examples=150)
def test_it_gives_what_a_sorted_list_would(data):
    times = st.integers(0, 20 * BUCKET_S)
    queue, entries, free = CheckInQueue(), [], list(range(40))
    for _ in range(data.draw(st.integers(1, 12))):
        count = data.draw(st.integers(0, min(8, len(free))))
        added = [(data.draw(times), free.pop()) for _ in range(count)]
        queue.add(np.array([d for _, d in added], np.int64), np.array([t for t, _ in added], np.int64))
        entries = sorted(entries + added)
        if data.draw(st.booleans()):
            queue = CheckInQueue.restore(queue.keys())
        before = data.draw(times)
        devices, at_s, until = queue.peek(before)
        assert list(zip(at_s.tolist(), devices.tolist(), strict=True)) == [e for e in entries if e[0] < until]
        assert until <= before
        assert devices.size or until == before
        taken = data.draw(st.integers(0, len(devices)))
        queue.take(taken)
        free += [device for _, device in entries[:taken]]
        entries = entries[taken:]
        assert len(queue.keys()) == len(entries)


@given(times=st.lists(st.integers(0, 5 * BUCKET_S), min_size=1, max_size=20), ahead=st.integers(0, 5 * BUCKET_S))
def test_what_is_seen_at_once_depends_on_the_entries_alone(times, ahead):
    queue = CheckInQueue()
    queue.add(np.arange(len(times)), np.array(times))
    queue.peek(ahead)
    queue.add(np.array([len(times)]), np.array([0]))
    restored = CheckInQueue.restore(queue.keys())
    for mine, its in zip(queue.peek(10_000), restored.peek(10_000), strict=True):
        np.testing.assert_array_equal(mine, its)
