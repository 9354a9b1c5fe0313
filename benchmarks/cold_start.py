"""How long a person waits for an answer of `tacit account` or `tacit plan`, from a cold start. One JSON line a command.

    python benchmarks/cold_start.py

Seconds are the median of three; `python` is the interpreter with nothing to do, and `imports` NumPy and SciPy alone, the least
any answer takes. Strategies are fitted beforehand, as they are for everybody but the first who asks.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

FTRL = "--rounds 4000 --noise-multiplier 7 --min-separation 400 --max-participation 10 --delta 1e-10"
COMMANDS = {
    "python": "-c pass",
    "imports": "-c import+numpy,scipy.optimize,typer,rich.console",
    "fedavg, pld": "-m tacit account fedavg --population 763430 --cohort 5000 --rounds 5000 --noise-multiplier 1 --delta 1e-9",
    "fedavg, fixed": "-m tacit account fedavg --population 763430 --cohort 5000 --rounds 5000 --noise-multiplier 1 --delta 1e-9"
    " --sampling fixed",
    "ftrl, tree": f"-m tacit account ftrl {FTRL}",
    "ftrl, blt": f"-m tacit account ftrl {FTRL} --mechanism blt",
    "ftrl, banded": f"-m tacit account ftrl {FTRL} --mechanism banded",
    "calibrate": "-m tacit account calibrate fedavg --population 763430 --cohort 5000 --rounds 5000 --delta 1e-9 --epsilon 4",
    "plan": "-m tacit plan --population 4210000 --rounds 1900 --delta 1e-10 --simulated-noise 0.54"
    " --simulated-report-goal 500 --devices-per-round 6500 --epsilon 8",
}


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Wall and processor time of one run."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for name, command in COMMANDS.items():
        arguments = [part.replace("+", " ") for part in command.split()]
        seconds(arguments)
        wall, processor = zip(*(seconds(arguments) for _ in range(3)), strict=True)
        record = {"case": name, "seconds": statistics.median(wall), "processor_seconds": statistics.median(processor)}
        print(
            json.dumps({key: round(value, 2) if key != "case" else value for key, value in record.items()}), flush=True
        )


if __name__ == "__main__":
    main()
