"""Honest runs of every kind that the checker knows, most of them killed and resumed, certified and checked.

The tests check a few. To check many:

    python -m tests.support.honest_runs --runs 100
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.checker import CHECKER, answer
from tests.support.tiny_recipe import tiny

_CHECK_IN = {"sampling": "check_in", "min_separation": 3, "noise_multiplier": 4.0}
KINDS: dict[str, dict[str, Any]] = {
    "gaussian": {"noise_multiplier": 1.5},
    "fixed size": {"sampling": "fixed", "noise_multiplier": 4.0},
    "adaptive": {"noise_multiplier": 1.5, "adaptive": {"quantile": 0.5, "learning_rate": 0.2, "count_noise": 2.0}},
    "tree": {"mechanism": "tree", **_CHECK_IN},
    "blt": {"mechanism": "blt", **_CHECK_IN},
    "banded": {"mechanism": "banded", **_CHECK_IN},
    "restarts": {"mechanism": "blt", "restarts": [2, 4], **_CHECK_IN},
    "check-in": {"mechanism": "gaussian", **_CHECK_IN},
    "cyclic": {"mechanism": "banded", "bands": 2, "sampling": "cyclic_poisson", "noise_multiplier": 2.0},
}


class PowerCut(BaseException):
    """The machine stops: nothing below may catch it."""


@contextmanager
def power_cut(records: int, *, after: bool) -> Iterator[None]:
    """Stops the process's work when it appends the record with this number, before or after it is on disk."""
    from tacit.files import GrowingFile

    real, seen = GrowingFile._grow, [0]

    def grow(self: GrowingFile, record: bytes) -> None:
        seen[0] += 1
        if seen[0] == records and not after:
            raise PowerCut
        real(self, record)
        if seen[0] == records:
            raise PowerCut

    GrowingFile._grow = grow  # type: ignore[method-assign]
    try:
        yield
    finally:
        GrowingFile._grow = real  # type: ignore[method-assign]


def honest_run(folder: Path, kind: str, seed: int) -> int:
    """Train a run of this kind, with up to three power cuts; returns how many there were."""
    from tacit.privacy.record.ledger import read_ledger
    from tacit.runs.callbacks import Callback
    from tacit.simulation.training import resume_run, start_run

    chance, cuts = random.Random(seed), 0
    recipe = tiny(privacy=KINDS[kind], run={"rounds": 6})
    begun = False
    for _ in range(chance.randint(0, 3)):
        try:
            with power_cut(chance.randint(3, 14), after=chance.random() < 0.5):
                if begun:
                    resume_run(folder, Callback())
                else:
                    start_run(recipe, folder, Callback())
        except PowerCut:
            cuts, begun = cuts + 1, (folder / "ledger.jsonl").exists()
            if not begun:
                raise AssertionError("a run without a ledger cannot be resumed: let it be cut later") from None
            closed = read_ledger(folder / "ledger.jsonl").closed
            if closed is not None and closed.outcome == "finished":  # its last record was on disk already
                return cuts
        else:
            return cuts
    if begun:
        resume_run(folder, Callback())
    else:
        start_run(recipe, folder, Callback())
    return cuts


def verdict(certificate: Path, *options: str) -> tuple[int, str]:
    """What the checker, as a program of its own, says of this certificate, and its exit code."""
    done = subprocess.run([sys.executable, CHECKER, certificate, *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def certified(folder: Path, out: Path) -> str:
    """Certify the run; returns its public key."""
    from tacit.api.run import open_run
    from tacit.runs.log_key import public_log_key

    run = open_run(folder)
    run.certify(out)
    return public_log_key(run.path, run.run_id).text()


def main() -> None:
    """Train, certify and check; fails at the first alarm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    cuts: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        for number in range(given.runs):
            kind = list(KINDS)[number % len(KINDS)]
            run, out = Path(place) / f"run-{number}", Path(place) / f"{number}.json"
            cuts[honest_run(run, kind, number)] += 1
            code, said = answer(out, "--key", certified(run, out))
            if code:
                raise SystemExit(f"run {number} ({kind}): {said}")
            print(f"run {number + 1} ({kind}): {said.partition(chr(10))[0]}", flush=True)
    often = ", ".join(f"{count} with {times}" for times, count in sorted(cuts.items()))
    print(f"{given.runs} honest runs, by power cuts: {often}. Every certificate was proved; no alarm.")


if __name__ == "__main__":
    main()
