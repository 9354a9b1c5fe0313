"""How long a person waits for an answer of `tacit account` or `tacit plan`, from a cold start. One JSON line a command.

    python benchmarks/cold_start.py

Seconds are the median of five; `python` is the interpreter with nothing to do, `shell` the library of the command line, and
`imports` also NumPy and the special functions of SciPy, the least any figure takes. Every line has the ratios of its processor
time to the first and to these imports; where other work runs on the machine, processor time is the steadier figure. Strategies
are fitted beforehand, as they are for everybody but the first who asks.
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
    "shell": "-c import+typer,typer.rich_utils",
    "imports": "-c import+numpy,scipy.special,typer,typer.rich_utils",
    "help": "-m tacit --help",
    "runs": "-m tacit runs",
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
    of: dict[str, float] = {}
    for name, command in COMMANDS.items():
        arguments = [part.replace("+", " ") for part in command.split()]
        seconds(arguments)
        wall, processor = zip(*(seconds(arguments) for _ in range(5)), strict=True)
        of[name] = statistics.median(processor)
        record: dict[str, object] = {"case": name, "seconds": round(statistics.median(wall), 2)}
        record["processor_seconds"] = round(of[name], 2)
        record["to_python"] = round(of[name] / of["python"], 1)
        if "imports" in of:
            record["to_imports"] = round(of[name] / of["imports"], 2)
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
