"""A run completes with the devices it began with, whatever is killed, and though devices are silent, lie and drop out.

`benchmarks/fleet_storm.py` does the same for 40 rounds with 100 kills.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tests.support.fleet.postgres import PostgresServer
from tests.support.fleet.storm import Storm, ride_out

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("secagg", [False, True])
def test_a_short_storm(tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, secagg: bool) -> None:
    storm = Storm(rounds=2, kills=3, restarts=1, secagg=secagg, devices=30, goal=8)
    ridden = ride_out(storm, tmp_path, postgres_url, postgres_server, say=print)
    assert (ridden.kills, ridden.restarts) == (storm.kills, storm.restarts)
    run = ridden.fleet.run
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.closed is not None
    assert ledger.closed.outcome == "finished"
    live = {each.round: set(each.users.tolist()) for each in verified(run / "private/participation.bin", ledger)}
    assert [len(live[round]) for round in range(2)] == [8, 8]
    assert not live[0] & live[1]
