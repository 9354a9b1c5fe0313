"""Speed of simulated participation: rounds a minute without training, and memory. One JSON line.

    python benchmarks/population.py                                  5 million devices, 6,500 reports a round
    python benchmarks/population.py --devices 1000000 --rounds 400

`rounds_a_minute` counts whole rounds (check-ins, rejections, work, timers); `bytes_a_device` is what the process grew by at
its peak, over the number of devices.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from tacit.simulation.population.habits import DAY
from tacit.simulation.population.rounds import Population
from tacit.simulation.population.settings import PopulationSettings


def measure(settings: PopulationSettings, rounds: int, seed: int) -> dict[str, object]:
    """One population, from its creation through so many rounds."""
    before = _peak_bytes()
    start = time.perf_counter()
    population = Population.create(settings, np.random.default_rng(seed))
    created = time.perf_counter()
    check_ins = sum(reported.counts.check_ins for reported in population.rounds(rounds))
    took = time.perf_counter() - created
    return {
        "devices": settings.devices,
        "report_goal": settings.report_goal,
        "timer_hours": settings.timer_hours,
        "rounds": rounds,
        "rounds_a_minute": round(60 * rounds / took),
        "check_ins_a_second": round(check_ins / took),
        "create_s": round(created - start, 2),
        "simulated_days": round(population.clock_s / DAY, 2),
        "bytes_a_device": round((_peak_bytes() - before) / settings.devices),
        "peak_mib": round(_peak_bytes() / 2**20),
    }


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=5_000_000)
    parser.add_argument("--report-goal", type=int, default=6_500)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--timer-hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    settings = PopulationSettings(devices=asked.devices, report_goal=asked.report_goal, timer_hours=asked.timer_hours)
    print(json.dumps(measure(settings, asked.rounds, asked.seed)), flush=True)


if __name__ == "__main__":
    main()
