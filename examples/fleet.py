"""A fleet on one machine: a server, and devices that keep their text to themselves and speak HTTPS with it.

    python examples/fleet.py            # needs pip install 'tacit[fleet]'

Each device is a process of its own. It trains on its text, clips, and sends its update; the server adds noise and keeps the
same ledger as a simulated run. docs/fleet.md tells how to run a server and devices for real.
"""

import subprocess
import sys
from pathlib import Path

import tacit

TINY = "--tiny" in sys.argv
DEVICES, ROUNDS = (4, 1) if TINY else (8, 3)

# A new folder each time: runs/fleet-1, -2, ...
number = 1
while (out := Path(f"runs/fleet-{number}")).exists():
    number += 1
command = ["fleet", "demo", "--noise", "1", "--devices", str(DEVICES), "--rounds", str(ROUNDS), "--out", str(out)]
subprocess.run([sys.executable, "-m", "tacit", *command], check=True)

# The run of a fleet is a run like any other. With so few devices the noise drowns the model; without --noise, and without a
# guarantee, it learns something.
run = tacit.open_run(out / "run")
print(run)
print(run.cost())
print(run.predict("see you"))
print(run.guarantee().as_markdown()[:600], "...")
