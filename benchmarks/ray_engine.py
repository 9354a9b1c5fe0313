"""Speed of the engine on Ray: against the built-in engine, by workers, and what a round costs beside its users' work.

    python benchmarks/ray_engine.py scaling      whole runs of the demo, built-in and on Ray, on 1 to all cores
    python benchmarks/ray_engine.py overhead     milliseconds and bytes a round beside the users' work, by cohort
    python benchmarks/ray_engine.py model        a model on paper of many GPUs, from measured figures

One JSON line a case. `scaling` trains the same recipe with both engines in turn, and compares each run with the one beside it,
because other work on the machine would otherwise count against one. It counts wall time and the processor time of the driver
and all its descendants, Ray's own processes included; processor time changes little with other work on the machine. The first
rounds, which compile, are left out. `efficiency` is the speed against that on one core, divided by the cores, and
`processor_efficiency` the same of users a processor second, which leaves waiting out. `overhead` takes users without text and
the demo's model. `ms_beside_work` is how long a round takes beyond the time for which its workers were busy with users:
messages, transfers, merging, and waiting for the last piece.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPEATS = 3
# Rounds that compile, and that fill queues.
FIRST = 3


@dataclass(frozen=True)
class Cohort:
    """A cohort as engines take it."""

    chunks: Any
    users: Any
    round: int = 0
    entropy: Any = None


def engine(kind: str, workers: int, users: Any, preset_name: str, cohort: int, tokens: int, pieces: int) -> Any:
    """An engine of this kind for these users, and the model that it broadcasts."""
    import jax

    from tacit.learning.batches import TextBatches
    from tacit.learning.next_word import NextWord
    from tacit.learning.work import FedAvg, LocalWork
    from tacit.models.word_lm import build, parameter_count, preset
    from tacit.privacy.plan import PrivacyPlan
    from tacit.recipe.engine import Ray
    from tacit.simulation.choice import engine_for, use_accelerators

    ray = Ray(workers=workers, pieces=pieces) if kind == "ray" else None
    use_accelerators(ray)
    model = build(preset(preset_name), key=jax.random.key(1))
    plan = PrivacyPlan(mechanism="none", population=len(users), cohort=cohort, clip_norm=0.5, sampling="fixed")
    shape = TextBatches("windows", 10, 8, -(-tokens // 80))
    work = LocalWork(FedAvg(learning_rate=0.5), NextWord())
    found = engine_for(ray, users, work, plan, shape, parameters=parameter_count(model))
    found.open()
    return found, model


def timed(found: Any, model: Any, users: int, cohort: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of each of so many rounds after two that compile, and how long workers were busy in it, added up."""
    import jax
    import numpy as np

    from tacit.privacy.gate.sums import ClipThresholds

    busy, seconds = [0.0], []
    if hasattr(found, "pool"):
        plain = found.pool.do

        def watched(*given: Any) -> Iterator[Any]:
            for done in plain(*given):
                busy[0] += done.seconds
                yield done

        found.pool.do = watched
    for round in range(rounds + 2):
        numbers = (np.arange(cohort) + round * cohort) % users
        busy[0], began = 0.0, time.perf_counter()
        bounded, _ = found.collect(model, Cohort(list(found.prepare(numbers)), numbers), ClipThresholds(0.5))
        jax.block_until_ready(bounded.blocks["update"].total)
        seconds.append((time.perf_counter() - began, busy[0]))
    return seconds[2:]


def processor_seconds() -> float:
    """The processor time of this process and all its descendants that are alive."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            pid = int(folder.name)
            parents[pid], used[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours, found = {os.getpid()}, -1
    while len(ours) != found:
        found = len(ours)
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return sum(used[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def training(given: argparse.Namespace) -> dict[str, Any]:
    """The rounds of one run, after the first ones, in a process of its own."""
    import jax

    from tacit.recipe.engine import Ray
    from tacit.recipe.reading import find_recipe
    from tacit.recipe.training import load_recipe, on_engine
    from tacit.runs.callbacks import Callback
    from tacit.simulation.training import first_rounds_of, setup_of_recipe

    rounds = FIRST + given.rounds
    changes = {
        "privacy.cohort": given.cohort,
        "model.preset": json.dumps(given.preset),
        "run.rounds": rounds + 1,  # the last one evaluates, and is not timed
        "run.evaluate_every": rounds + 1,
        "run.checkpoint_every": rounds + 1,
    }
    recipe = load_recipe(find_recipe("demo"), [f"{key}={value}" for key, value in changes.items()])
    if given.kind == "ray":
        recipe = on_engine(recipe, Ray(workers=given.workers, pieces=given.pieces))
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        _, states = first_rounds_of(setup_of_recipe(recipe, out), out, Callback(), catch_interrupt=False)
        for state in states:
            if state.round in (FIRST, rounds):
                jax.block_until_ready(state.model)
                now = time.perf_counter(), processor_seconds()
                if state.round == rounds:
                    break
                began = now
        states.close()
    wall, processor = now[0] - began[0], now[1] - began[1]
    users = given.cohort * given.rounds
    return {"users_a_second": users / wall, "users_a_processor_second": users / processor}


def case(given: argparse.Namespace) -> dict[str, Any]:
    """Rounds of an engine alone on users without text, in a process of its own."""
    import tacit

    users = tacit.users({number: [] for number in range(given.cohort)}, vocabulary=["you"])
    found, model = engine(given.kind, given.workers, users, given.preset, given.cohort, 160, given.pieces)
    try:
        seconds = timed(found, model, len(users), given.cohort, given.rounds)
        moved = bytes_moved(found, model, given.cohort)
    finally:
        found.close()
    typical = statistics.median(whole for whole, _ in seconds)
    beside = statistics.median(whole - busy / given.workers for whole, busy in seconds)
    return {
        "workers": given.workers,
        "cohort": given.cohort,
        "ms_a_round": round(1000 * typical, 1),
        "ms_beside_work": round(1000 * beside, 1),
        **moved,
    }


def bytes_moved(found: Any, model: Any, cohort: int) -> dict[str, Any]:
    """What the driver sends to each worker's machine once a round, and what the pieces send back."""
    import jax
    import numpy as np

    from tacit.simulation.ray.worker import in_numpy

    pieces = list(found.prepare(np.arange(cohort)))
    back = 8 * sum(leaf.size for leaf in jax.tree.leaves(found.learned(model))) + 16
    return {
        "pieces": len(pieces),
        "bytes_to_each_node": len(pickle.dumps(in_numpy(model))),
        "bytes_of_users": sum(len(pickle.dumps(piece)) for piece in pieces),
        "bytes_back": len(pieces) * back + 5 * cohort,
    }


def in_own_process(*arguments: str, cores: int) -> dict[str, Any]:
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(cores)}
    ended = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(ended.stderr[-2000:])
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def scaling(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Both engines on 1 to all cores, in turn, the first one changing; the median of the repetitions and of their ratios."""
    cores = len(os.sched_getaffinity(0))
    kinds, measures = ["built-in", "ray"], ["users_a_second", "users_a_processor_second"]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for repetition in range(given.repeats):
        for count in range(1, cores + 1):
            for kind in kinds[:: 1 - 2 * (repetition % 2)]:
                common = ["--cohort", str(given.cohort), "--rounds", str(given.rounds), "--preset", given.preset]
                told = in_own_process("training", "--kind", kind, "--workers", str(count), *common, cores=count)
                found.setdefault((kind, count), []).append(told)

    def ratios(one: tuple[str, int], other: tuple[str, int], measure: str) -> list[float]:
        return [mine[measure] / theirs[measure] for mine, theirs in zip(found[one], found[other], strict=True)]

    for kind, count in sorted(found):
        line: dict[str, Any] = {"engine": kind, "cores": count, "cohort": given.cohort}
        for measure in measures:
            line[measure] = round(statistics.median(each[measure] for each in found[kind, count]), 1)
        if kind == "ray":
            for measure in measures:
                each = ratios((kind, count), ("built-in", count), measure)
                line[f"{measure}_of_built_in"] = round(statistics.median(each), 3)
                line[f"{measure}_of_built_in_each"] = [round(ratio, 3) for ratio in each]
        efficiency = statistics.median(ratios((kind, count), (kind, 1), "users_a_second")) / count
        of_processors = statistics.median(ratios((kind, count), (kind, 1), "users_a_processor_second"))
        yield {**line, "efficiency": round(efficiency, 3), "processor_efficiency": round(of_processors, 3)}


def overhead(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rounds on two workers: what passes beside the time for which both of them are busy."""
    for cohort, rounds in ((100, 15), (1_000, 8), (10_000, 3)):
        common = ["--cohort", str(cohort), "--workers", "2", "--rounds", str(rounds)]
        yield in_own_process("case", *common, "--preset", given.preset, cores=2)


def on_paper(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A round on many GPUs: training, divided by the workers; the model out and the partial sums back, through one driver."""
    for gpus in (1, 8, 64):
        for cohort in (6_500, 20_000):
            pieces = max(3 * gpus, 16)
            largest = -(-pieces // gpus) / pieces  # of the round, for the worker with the most pieces
            training = cohort * largest / given.users_a_second
            back = pieces * 8 * given.parameters / given.bytes_a_second
            merging = pieces * 8 * given.parameters / given.merged_a_second
            out = gpus / 8 * 4 * given.parameters / given.bytes_a_second  # once for each node of eight GPUs
            total = out + max(training, back, merging) + given.server_s
            yield {
                "gpus": gpus,
                "cohort": cohort,
                "pieces": pieces,
                "training_s": round(training, 2),
                "sums_back_s": round(back, 2),
                "merging_s": round(merging, 2),
                "round_s": round(total, 2),
                "users_a_second": round(cohort / total),
            }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["scaling", "overhead", "model", "case", "training"])
    parser.add_argument("--cohort", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of `scaling`")
    parser.add_argument("--kind", default="ray", choices=["built-in", "ray"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pieces", type=int, default=16)
    parser.add_argument("--users-a-second", type=float, default=4_900.0, help="of `model`: what one GPU trains")
    parser.add_argument("--parameters", type=float, default=1.14e6, help="of `model`")
    parser.add_argument(
        "--bytes-a-second", type=float, default=1.25e9, help="of `model`: the driver's network, 10 Gbit/s"
    )
    parser.add_argument(
        "--merged-a-second", type=float, default=2e9, help="of `model`: bytes of sums that the driver adds"
    )
    parser.add_argument("--server-s", type=float, default=0.1, help="of `model`: noise and the server's step")
    given = parser.parse_args()
    if given.what in ("case", "training"):
        print(json.dumps({"case": case, "training": training}[given.what](given)))
    else:
        for line in {"scaling": scaling, "overhead": overhead, "model": on_paper}[given.what](given):
            print(json.dumps(line), flush=True)
