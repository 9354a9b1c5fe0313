"""What the audit of the gate costs a round: rounds with it and without it in turn, in one process. One JSON line a recipe.

    python benchmarks/gate_audit.py                          the demo, then a tree
    python benchmarks/gate_audit.py demo --rounds 40 --set privacy.cohort=200

Each round waits for the device, so what the audit adds cannot hide behind the next round. `ratio` is the mean, over pairs of
neighbouring rounds, of the audited one's time over the plain one's; `cpu_ratio` is the same of processor time, which says
more on processors that others use as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

import jax

from tacit.data.users import all_names
from tacit.models.word_lm import parameter_count
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.record.records import UPDATE
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import load_recipe
from tacit.runs.gate_audit.checks import detectable_scale, level_of, planned_trials
from tacit.runs.gate_audit.layout import Layout, canaries_for
from tacit.runs.gate_audit.record import Design
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.gate_audit import AuditedGate
from tacit.simulation.training import engine_of
from tacit.training.recipes import RecipeSetup

WARM_UP = 4


class Nowhere:
    """Takes the place of the file that scores are written to."""

    def append(self, record: Mapping[str, Any]) -> None:
        self.last = json.dumps({name: getattr(each, "tolist", lambda e=each: e)() for name, each in record.items()})


def case(name: str, changes: list[str], rounds: int) -> dict[str, Any]:
    """Run the recipe's rounds, every other one audited."""
    recipe = load_recipe(find_recipe(name), changes)
    setup = RecipeSetup.build(recipe)
    engine = engine_of(setup)
    plan, state = recipe.privacy, setup.start
    sizes = [leaf.size for leaf in jax.tree.leaves(engine.learned(state.model))]
    layout = Layout.of(
        sizes,
        [block for block in plan.noise_multipliers if block != UPDATE],
        rounds=recipe.run.rounds,
        canaries=canaries_for(plan.cohort),
        per_layer=plan.clipping == "per_layer",
    )
    design = Design.of(plan, layout, setup.strategy)
    writer: Any = Nowhere()
    audited = AuditedGate(engine, setup.mechanism, design, writer)
    stream = CohortStream(
        plan.build_sampler(),
        Randomness.from_seed(0),
        all_names(setup.dataset.train),
        engine.prepare,
        start=0,
        stop=2 * rounds + WARM_UP,
    )
    clipping = plan.build_clipping()
    norms = clipping.norms(clipping.init(), 0)
    model, server_state, noise = state.model, state.server, state.noise
    seconds: list[float] = []
    processor: list[float] = []
    try:
        for cohort in stream:
            users, mechanism = (audited, audited) if _is_audited(cohort.round) else (engine, setup.mechanism)
            asked, used = time.perf_counter(), time.process_time()
            bounded, _ = users.collect(model, cohort, norms)
            release, noise = mechanism.release(bounded, noise, key=cohort.noise_key)
            model, server_state, finite = setup.server.step(model, server_state, release)
            audited.settle(cohort.round + 1)
            assert bool(finite)  # waits for the device
            seconds.append(time.perf_counter() - asked)
            processor.append(time.process_time() - used)
    finally:
        stream.close()
    plain, with_audit = _apart(seconds)
    detectable = detectable_scale(planned_trials(design, recipe.run.rounds), level_of(design))
    return {
        "recipe": name,
        "device": jax.devices()[0].device_kind,
        "parameters": parameter_count(model),
        "cohort": plan.cohort,
        "canaries": layout.canaries,
        "channels": int(layout.in_update.sum()),
        "seconds_plain": round(statistics.median(plain), 4),
        "seconds_audited": round(statistics.median(with_audit), 4),
        "ratio": round(_ratio(seconds), 4),
        "cpu_seconds_plain": round(statistics.median(_apart(processor)[0]), 4),
        "cpu_ratio": round(_ratio(processor), 4),
        "pairs": len(plain),
        "first_audited_round_seconds": round(seconds[1], 2),
        "detectable_noise_error_percent": round(100 * detectable, 3),
    }


def _is_audited(round: int) -> bool:
    """One round of each pair, now the first and now the second (Thue and Morse): a tree's odd rounds do more than others."""
    return round.bit_count() % 2 == 1


def _apart(times: list[float]) -> tuple[list[float], list[float]]:
    """The plain rounds' times and the audited ones', pair by pair."""
    found: tuple[list[float], list[float]] = [], []
    for round in range(WARM_UP, len(times)):
        found[_is_audited(round)].append(times[round])
    return found


def _ratio(times: list[float]) -> float:
    """Audited over plain: the geometric mean over pairs of neighbouring rounds, without the tenths at either end."""
    ratios = sorted(audited / plain for plain, audited in zip(*_apart(times), strict=True))
    kept = ratios[len(ratios) // 10 : len(ratios) - len(ratios) // 10]
    return statistics.geometric_mean(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["demo", "gboard_tree"])
    parser.add_argument("--rounds", type=int, default=12, help="pairs of rounds")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    arguments = parser.parse_args()
    for name in arguments.recipes:
        print(json.dumps(case(name, arguments.changes, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
