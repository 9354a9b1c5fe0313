"""Training regimes compared by what they memorise (Memorization, Tables 1 and 4 to 7): one plan of canaries, many models.

Central training sees records: mixed (IID) or user after user. Federated training sees users: their updates as they are,
clipped, with noise, or with correlated noise. A recipe of DP-FedAvg is the base; each regime changes what makes it another.
Steps are resumable: what is done is in results.json and is not done again, and a federated run goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit.audit.canaries import load_plan
from tacit.audit.outcome import Attacked
from tacit.data.rows import to_rows
from tacit.errors import DivergedError, RecipeError
from tacit.learning.central import Descent, shuffled, train_central, user_by_user
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.server import OptimizerName
from tacit.models.word_lm import build
from tacit.recipe import Recipe, apply_change, parse_recipe
from tacit.runs.files import write_atomic
from tacit.runs.folder import RunFolder, is_run
from tacit.simulation.auditing import attack
from tacit.simulation.datasets import open_dataset
from tacit.simulation.training import load_trained, model_config, resume_run, start_run

NO_NOISE = ("privacy.mechanism=none", "privacy.noise_multiplier=0.0")


@dataclass(frozen=True)
class Regime:
    """How a model is trained. `optimizer`: central training with it; None: federated, the recipe changed by `changes`.

    Central training steps at the recipe's work.learning_rate, in batches of work.batch_size.
    """

    name: str
    optimizer: OptimizerName | None = None
    mixed: bool = False
    changes: tuple[str, ...] = ()
    unclipped: bool = False
    correlated: bool = False


REGIMES = (
    Regime("SGD, IID", "sgd", mixed=True),
    Regime("SGD, by user", "sgd"),
    Regime("FedAvg, IID", mixed=True, changes=NO_NOISE, unclipped=True),
    Regime("FedAvg, by user", changes=NO_NOISE, unclipped=True),
    Regime("FedAvg + clip, by user", changes=NO_NOISE),
    Regime("DP-FedAvg, by user"),
    Regime("DP-FedAvg, IID", mixed=True),
    Regime("DP-FTRL, by user", correlated=True),
    Regime("momentum, IID", "momentum", mixed=True),
    Regime("momentum, by user", "momentum"),
    Regime("Adam, IID", "adam", mixed=True),
    Regime("Adam, by user", "adam"),
)


def possible(recipe: Recipe) -> list[Regime]:
    """The regimes there are for this recipe's data: a world's users are made one by one and cannot be dealt out anew."""
    return [each for each in REGIMES if each.optimizer or not each.mixed or recipe.data.store is not None]


def recipe_for(base: Recipe, regime: Regime, plan: Path) -> Recipe:
    """The base recipe as this regime trains it; [paper.regimes] may add changes of its own, by the regime's name."""
    if base.privacy.mechanism != "gaussian" or base.privacy.sampling == "check_in":
        raise RecipeError(
            f"Expected a recipe of DP-FedAvg to compare regimes with (privacy.mechanism = 'gaussian', sampled users), got "
            f"{base.privacy.mechanism!r} with {base.privacy.sampling!r}."
        )
    tree = base.model_dump(mode="json", exclude_none=True)
    tree["audit"] = {**tree.get("audit", {}), "plan": str(plan)}
    if regime.unclipped:
        tree["privacy"].pop("clip_norm")
    if regime.optimizer is None and regime.mixed:
        tree["data"]["iid"] = True
    if regime.correlated:
        apart = int(base.privacy.population / base.privacy.cohort / 2)
        tree["privacy"] |= {"mechanism": "tree", "sampling": "check_in", "min_separation": apart}
    for change in (*regime.changes, *base.paper.get("regimes", {}).get(regime.name, [])):
        apply_change(tree, change)
    return parse_recipe(tree)


def compare_regimes(
    base: Recipe,
    plan: Path,
    folder: Path,
    *,
    names: Sequence[str] = (),
    minutes: float = 8.0,
    suffixes: int | None = None,
    told: Callable[[str], None] = lambda doing: None,
) -> tuple[dict[str, Any], bool]:
    """Train and attack regime after regime until the time is nearly up; (results by name, whether all are done)."""
    path, deadline, longest = folder / "results.json", time.monotonic() + 60 * minutes, 0.0
    chosen = [each for each in possible(base) if not names or each.name in names]
    if unknown := set(names) - {each.name for each in possible(base)}:
        known = ", ".join(each.name for each in possible(base))
        raise RecipeError(
            f"Expected a regime for this recipe, got {sorted(unknown)[0]!r}.", hint=f"There are: {known}."
        )
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for regime in chosen:
        if regime.name in results:
            continue
        if time.monotonic() + longest > deadline:
            return results, False
        told(regime.name)
        began = time.monotonic()
        results[regime.name] = _one(recipe_for(base, regime, plan), regime, plan, folder, suffixes)
        results[regime.name]["seconds"] = round(time.monotonic() - began, 1)
        longest = max(longest, time.monotonic() - began)
        write_atomic(path, json.dumps(results, indent=1) + "\n")
    return results, True


def _one(recipe: Recipe, regime: Regime, plan: Path, folder: Path, suffixes: int | None) -> dict[str, Any]:
    try:
        trained = _federated(recipe, regime, folder) if regime.optimizer is None else _central(recipe, regime)
    except DivergedError as error:
        return {"diverged": error.sentence}
    model, words, about = trained
    return {**about, **summary_of(attack(model, load_plan(plan), words, suffixes=suffixes))}


def _federated(recipe: Recipe, regime: Regime, folder: Path) -> tuple[Any, Sequence[str], dict[str, Any]]:
    out = folder / regime.name.replace(",", "").replace(" + ", "-").replace(" ", "-").lower()
    summary = RunFolder.open(out).summary() if is_run(out) else start_run(recipe, out, _Nobody())
    if summary is None:  # cut off on its way; one that has a summary was cut off in the attack
        summary = resume_run(out, _Nobody())
    model, words = load_trained(out)
    metrics, privacy = summary["metrics"], summary["privacy"]
    return model, words, {"top1": metrics["top1"], "perplexity": metrics["perplexity"], "epsilon": privacy["epsilon"]}


def _central(recipe: Recipe, regime: Regime) -> tuple[Any, Sequence[str], dict[str, Any]]:
    """As many passes over the users as the federated rounds make, in batches of records."""
    assert regime.optimizer is not None
    dataset, data = open_dataset(recipe), recipe.data
    rows = to_rows(
        dataset.train.gather(np.arange(len(dataset.train))),
        layout=data.layout,
        length=data.length,
        max_rows=-(-data.tokens_per_user // data.length),
    )
    epochs = max(1, round(recipe.privacy.cohort * recipe.run.rounds * recipe.work.epochs / len(dataset.train)))
    seed = data.split_seed
    order = (
        shuffled(len(rows.tokens), epochs=epochs, seed=seed)
        if regime.mixed
        else user_by_user(rows.user_offsets, epochs=epochs, seed=seed)
    )
    model = build(model_config(recipe, len(dataset.words)), key=jax.random.key(recipe.model.init_seed))
    descent = Descent(NextWord(recipe.engine.precision), regime.optimizer, recipe.work.learning_rate)
    model = train_central(model, rows.tokens, order, descent, batch_size=recipe.work.batch_size)
    scores = evaluate(model, dataset.held_out)
    about = {"top1": scores.top1, "perplexity": scores.perplexity, "epsilon": None, "epochs": epochs}
    return model, dataset.words, about


def summary_of(attacked: Sequence[Attacked]) -> dict[str, Any]:
    """How many canaries are memorised: first among random endings, found by beam search; and by setting."""
    settings: dict[str, list[Attacked]] = {}
    for each in attacked:
        settings.setdefault(each.setting, []).append(each)
    return {
        "canaries": len(attacked),
        "candidates": max((each.candidates for each in attacked), default=0),
        **_counts(attacked),
        "settings": {name: _counts(group) for name, group in settings.items()},
    }


def _counts(attacked: Sequence[Attacked]) -> dict[str, Any]:
    return {
        "random_sampling": sum(each.rank == 1 for each in attacked),
        "beam_search": sum(each.place is not None for each in attacked),
        "exposure": float(np.mean([each.exposure for each in attacked])) if attacked else 0.0,
        "ranks": sorted(each.rank for each in attacked),
    }


def table_of(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Column heads and rows, a regime each, as Memorization prints them."""
    heads = ["regime", "memorised, RS", "memorised, BS", "exposure, bits", "top-1", "perplexity", "epsilon"]
    rows = []
    for name, found in results.items():
        if "diverged" in found:
            rows.append([name, "diverged", "", "", "", "", ""])
            continue
        epsilon = "∞" if found["epsilon"] is None else f"{found['epsilon']:.2f}"
        rs, bs = (f"{found[key]} of {found['canaries']}" for key in ("random_sampling", "beam_search"))
        figures = [f"{found['exposure']:.2f}", f"{found['top1']:.2%}", f"{found['perplexity']:.4g}", epsilon]
        rows.append([name, rs, bs, *figures])
    return heads, rows


class _Nobody:
    def warned(self, sentence: str) -> None:
        pass

    def round_done(self, round: int) -> None:
        pass

    def evaluated(self, record: Mapping[str, Any]) -> None:
        pass
