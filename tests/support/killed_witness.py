"""A witness that is killed at each moment of signing a head, and then asked to sign another history of the same log.

`python -m tests.support.killed_witness FOLDER` prints a line of JSON for each moment: whether the witness was killed, whether
its signature had left by then, and whether the witness that began again in its folder signed the other history. It is a process
of its own, because it forks.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.transparency.witness import Refused, Witness, WitnessKey
from tests.support.witnesses_at_rest import LOG, leaves, submission

ONE, OTHER = leaves("a", "b", "c"), leaves("a", "b", "x")


class Killed(Witness):
    """Killed before the statement with this number, or when the transaction is over."""

    moment, after = -1, False

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        left = [self.moment]

        def count(statement: str) -> None:
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGKILL)

        with super()._connected() as connection:
            connection.set_trace_callback(count if self.moment >= 0 else None)
            yield connection
        if self.after:
            os.kill(os.getpid(), signal.SIGKILL)


def at(home: Path, moment: int | None) -> dict[str, bool]:
    """Kill the witness at this moment (None: when the transaction is over), and ask the next one."""
    witness = Killed(home, WitnessKey.of(home), first_use=True)
    witness.introduce(LOG.text())
    witness.add_checkpoint(submission(ONE, 0, size=2).text())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        witness.moment, witness.after = (-1, True) if moment is None else (moment, False)
        os.write(writing, witness.add_checkpoint(submission(ONE, 2).text()).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    left = os.read(reading, 1 << 16)
    os.close(reading)
    try:
        other = Witness(home, WitnessKey.of(home), first_use=True).add_checkpoint(submission(OTHER, 2).text())
    except Refused:
        other = ""
    return {"killed": os.WIFSIGNALED(status), "left": bool(left), "other": bool(other)}


def main(folder: Path) -> None:
    moment = 0
    while (found := at(folder / str(moment), moment))["killed"]:
        print(json.dumps(found))
        moment += 1
    print(json.dumps(found))
    print(json.dumps(at(folder / "after", None)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
