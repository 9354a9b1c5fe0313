"""A run on devices under a storm: `python benchmarks/fleet_storm.py [--secagg] [--kills 100]`; needs PostgreSQL's programs.

Processes of every role are killed in turn with SIGKILL and started again, PostgreSQL is stopped at once and started again, a
tenth of the devices never reports, another tenth lies (updates that are too long, or false shares), and of all others some drop
out in every round. The run has to end with the devices it began with, its ledger and participation record have to agree, and
MinS and MaxP have to hold. It prints how long that took, and how many rounds were abandoned and lost.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tests.support.fleet.postgres import PostgresServer
from tests.support.fleet.soundness import states
from tests.support.fleet.storm import Ridden, Storm, ride_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--secagg", action="store_true", help="with secure aggregation")
    for name, value in (("rounds", 40), ("kills", 100), ("restarts", 5), ("devices", 60), ("goal", 16), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--stage-s", type=float, default=5.0, help="of secure aggregation: longer on a slow machine")
    storm = Storm(**vars(parser.parse_args()))
    folder = Path(tempfile.mkdtemp(prefix="tacit-storm-"))
    postgres = folder / "postgres"
    postgres.mkdir()
    folder.chmod(0o755)
    server = PostgresServer(postgres)
    try:
        server.sql("CREATE DATABASE storm")
        ridden = ride_out(storm, folder, server.url("storm"), server, say=print_now)
        report(storm, ridden, states(ridden.fleet.engine))
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def report(storm: Storm, ridden: Ridden, tries: list[tuple[int, str]]) -> None:
    """Check the run, and print what it took."""
    run = ridden.fleet.run
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.closed is not None, "the ledger is not closed"
    assert ledger.closed.outcome == "finished", ledger.closed.outcome
    recorded = list(verified(run / "private/participation.bin", ledger))
    live = {each.round: each.users.tolist() for each in recorded}
    assert sorted(live) == list(range(storm.rounds)), sorted(live)
    times = Counter(user for users in live.values() for user in users)
    for user in times:
        when = [round for round, users in sorted(live.items()) if user in users]
        assert all(later - earlier > 1 for earlier, later in pairwise(when)), (user, when)
    assert max(times.values()) <= -(-storm.rounds // 2)
    assert max(times) <= storm.devices, "a device that was not there at the beginning took part"
    abandoned = sum(state == "abandoned" for _, state in tries)
    print(
        f"{storm.rounds} rounds of {storm.goal} of {storm.devices} devices, {ridden.kills} kills, {ridden.restarts} restarts "
        f"of PostgreSQL, {'with' if storm.secagg else 'without'} secure aggregation: finished. {abandoned} tries abandoned, "
        f"{len(recorded) - storm.rounds} rounds lost after their intent; {len(times)} devices took part, the most often "
        f"{max(times.values())} times."
    )


def print_now(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
