"""Compare training regimes by what they memorise (Memorization, Tables 1 and 4 to 7): one canary plan, many models.

Central training reads records, either shuffled (IID) or user by user. Federated training reads users: their updates unclipped,
clipped, with noise, or with correlated noise. The base is a recipe of DP-FedAvg, and each regime changes some of its values.
A comparison is resumable: finished regimes are in the results file, and an interrupted federated run continues. A regime that
diverges is tried again with half and with a quarter of its learning rate; its result contains the rates that worked.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit.audit.outcome import Attacked
from tacit.audit.run_audit import attack_canaries, comparison_count
from tacit.audit.secret_sharer import extraction
from tacit.data.canaries.plan import CoinUser, load_plan
from tacit.data.rows import to_rows
from tacit.errors import AuditError, DivergedError, RecipeError
from tacit.files import write_atomic
from tacit.learning.central import Descent, shuffled, train_central, user_by_user
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.server import OptimizerName
from tacit.models.word_lm import build
from tacit.numbers import finite_or_none
from tacit.privacy.accounting.spent import spent_by
from tacit.recipe.reading import apply_change
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.simulation.training import resume_run, start_run
from tacit.training.datasets import open_dataset
from tacit.training.recipes import model_config
from tacit.training.trained import load_trained

# Words that the attacker knows: one in Memorization's beam search; two in its random sampling and in Production's attacks.
ONE_WORD = 1
# The shares of the recipe's learning rate that are tried until one does not diverge.
STEPS = (1.0, 0.5, 0.25)
# What is measured of a model on held-out users.
MEASURED = ("top1", "papers_top1", "perplexity")
NO_NOISE = ("privacy.mechanism=none", "privacy.noise_multiplier=0.0")
ADAM = "server.optimizer=adam"


@dataclass(frozen=True)
class Regime:
    """How a model is trained: centrally with `optimizer`, or, if that is None, federated with the recipe and `changes`.

    Central training uses the recipe's work.learning_rate and work.batch_size.
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
    Regime("FedAvg + clip, IID", mixed=True, changes=NO_NOISE),
    Regime("FedAvg + clip, by user", changes=NO_NOISE),
    Regime("DP-FedAvg, IID", mixed=True),
    Regime("DP-FedAvg, by user"),
    Regime("momentum, IID", "momentum", mixed=True),
    Regime("momentum, by user", "momentum"),
    Regime("Adam, IID", "adam", mixed=True),
    Regime("Adam, by user", "adam"),
    Regime("FedAvg + Adam, IID", mixed=True, changes=(*NO_NOISE, ADAM), unclipped=True),
    Regime("FedAvg + Adam, by user", changes=(*NO_NOISE, ADAM), unclipped=True),
    Regime("DP-FTRL, by user", correlated=True),
)


def possible_regimes(recipe: Recipe, regimes: Sequence[Regime] = REGIMES) -> list[Regime]:
    """The regimes that fit this recipe's data: users of a world are generated one by one and cannot be reshuffled."""
    return [each for each in regimes if each.optimizer or not each.mixed or recipe.data.store is not None]


def recipe_for(base: Recipe, regime: Regime, plan: Path) -> Recipe:
    """The base recipe changed for this regime; [paper.regimes] may add further changes, by the regime's name."""
    if base.privacy.mechanism != "gaussian" or base.privacy.sampling == "check_in":
        raise RecipeError(
            f"Expected a recipe of DP-FedAvg to compare regimes with (privacy.mechanism = 'gaussian', sampled users), got "
            f"{base.privacy.mechanism!r} with {base.privacy.sampling!r}."
        )
    tree = base.model_dump(mode="json", exclude_none=True)
    # An absolute path, so that the run can be audited from any folder.
    tree["audit"] = {**tree.get("audit", {}), "plan": str(plan.resolve())}
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
    results_path: Path | None = None,
    regimes: Sequence[Regime] = REGIMES,
    on_progress: Callable[[str], None] = lambda doing: None,
) -> tuple[dict[str, Any], bool]:
    """Train and attack regime after regime until the time is nearly up; (results by name, whether all are done).

    Results are kept in `results_path` (none: results.json in `folder`), which alone says what is done. AuditError if they were
    compared with another number of `suffixes`: ranks among more and among fewer do not belong in one table.
    """
    path, deadline, longest = results_path or folder / "results.json", time.monotonic() + 60 * minutes, 0.0
    possible = possible_regimes(base, regimes)
    chosen = [each for each in possible if not names or each.name in names]
    if unknown := set(names) - {each.name for each in possible}:
        known = ", ".join(each.name for each in possible)
        raise RecipeError(
            f"Expected a regime for this recipe, got {sorted(unknown)[0]!r}.", hint=f"There are: {known}."
        )
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    size = comparison_count(suffixes)
    if others := {found["suffixes"] for found in results.values() if "suffixes" in found} - {size}:
        raise AuditError(
            f"Expected --suffixes {others.pop()}, with which the results in {path} were made, got {size}.",
            hint="Results with different numbers of suffixes cannot be mixed: use the same value, or another --out.",
        )
    for regime in chosen:
        if regime.name in results:
            continue
        if time.monotonic() + longest > deadline:
            return results, False
        on_progress(regime.name)
        began = time.monotonic()
        results[regime.name] = _train_and_attack(recipe_for(base, regime, plan), regime, plan, folder, size)
        results[regime.name]["seconds"] = round(time.monotonic() - began, 1)
        longest = max(longest, time.monotonic() - began)
        write_atomic(path, json.dumps(results, indent=1) + "\n")
    return results, True


def _train_and_attack(recipe: Recipe, regime: Regime, plan: Path, folder: Path, suffixes: int) -> dict[str, Any]:
    """Train and attack one regime, with smaller learning rates if it diverges; a regime that always diverges says so."""
    said = ""
    for part in STEPS:
        slower = _slowed(recipe, regime, part)
        try:
            trained = (
                _central(slower, regime) if regime.optimizer else _federated(slower, _folder(folder, regime, part))
            )
        except DivergedError as error:
            said = error.sentence
            continue
        model, words, about = trained
        canaries = load_plan(plan)
        began = time.monotonic()
        attacked = attack_canaries(model, canaries, words, suffixes=suffixes)
        known = [canary for canary in canaries.canaries if not isinstance(canary.sharing, CoinUser)]
        from_one = extraction(model, known, words, prefix=ONE_WORD)
        rates = {"local_rate": slower.work.learning_rate}
        if regime.optimizer is None:
            rates["server_rate"] = slower.server.learning_rate
        attacking = {"attack_seconds": round(time.monotonic() - began, 1)}
        return {**about, **rates, **attacking, "suffixes": suffixes, **summary_of(attacked, from_one)}
    return {"diverged": said}


def _slowed(recipe: Recipe, regime: Regime, part: float) -> Recipe:
    """The recipe with this share of its learning rate: the server's, or that of central training."""
    section = "work" if regime.optimizer else "server"
    rates = getattr(recipe, section)
    return recipe.model_copy(update={section: rates.model_copy(update={"learning_rate": part * rates.learning_rate})})


def _folder(folder: Path, regime: Regime, part: float) -> Path:
    name = regime.name.replace(",", "").replace(" + ", "-").replace(" ", "-").lower()
    return folder / (name if part == 1 else f"{name}-{part:g}")


def run_to_end(recipe: Recipe, out: Path) -> dict[str, Any]:
    """The summary of this recipe's run in the folder `out`, which is started, resumed or only read, as needed."""
    if not is_run(out):
        return start_run(recipe, out, Callback())
    folder = RunFolder.open(out)
    closed = folder.ledger().closed if folder.begun else None
    if closed is not None and closed.outcome == "diverged":
        raise DivergedError(f"The run in {out} has diverged before.")
    return folder.summary() or resume_run(out, Callback())


def _federated(recipe: Recipe, out: Path) -> tuple[Any, Sequence[str], dict[str, Any]]:
    summary = run_to_end(recipe, out)
    trained = load_trained(out)
    metrics, privacy = summary["metrics"], summary["privacy"]
    about = {name: metrics.get(name) for name in MEASURED} | {"epsilon": privacy["epsilon"]}
    about |= {"epsilon_of_noise": _epsilon_of_noise(trained.folder)}
    return trained.model, trained.words, about


def _epsilon_of_noise(folder: RunFolder) -> float | None:
    """The epsilon of the noise alone, whatever other reasons (a seed, a private vocabulary) make the run not private."""
    ledger = folder.accountable_ledger()
    opened = dataclasses.replace(ledger.opened, reasons_not_private=())
    epsilon = spent_by(opened, ledger.intents).epsilon
    return finite_or_none(epsilon)


def _central(recipe: Recipe, regime: Regime) -> tuple[Any, Sequence[str], dict[str, Any]]:
    """Train centrally, in batches of records, with as many passes over the users as the federated rounds make."""
    assert regime.optimizer is not None
    dataset, data = open_dataset(recipe), recipe.data
    rows = to_rows(
        dataset.train.gather(np.arange(len(dataset.train))),
        layout=data.layout,
        length=data.length,
        max_rows=-(-data.tokens_per_user // data.length),
    )
    epochs = max(1, round(recipe.privacy.cohort * recipe.run.rounds * recipe.work.epochs / len(dataset.train)))
    seed = data.shuffle_seed
    order = (
        shuffled(len(rows.tokens), epochs=epochs, seed=seed)
        if regime.mixed
        else user_by_user(rows.user_offsets, epochs=epochs, seed=seed)
    )
    model = build(model_config(recipe, len(dataset.words)), key=jax.random.key(recipe.model.init_seed))
    descent = Descent(NextWord(recipe.engine.precision), regime.optimizer, recipe.work.learning_rate)
    model = train_central(model, rows.tokens, order, descent, batch_size=recipe.work.batch_size)
    scores = evaluate(model, dataset.held_out).as_dict()
    about = {name: scores[name] for name in MEASURED} | {"epsilon": None, "epsilon_of_noise": None}
    return model, dataset.words, {**about, "epochs": epochs}


def summary_of(attacked: Sequence[Attacked], from_one: Sequence[int | None]) -> dict[str, Any]:
    """The number of memorised canaries, in all and by setting; `from_one` are their places in a beam search from one word."""
    places = {each.number: place for each, place in zip(attacked, from_one, strict=True)}
    settings: dict[str, list[Attacked]] = {}
    for each in attacked:
        settings.setdefault(each.setting, []).append(each)
    return {
        "canaries": len(attacked),
        "candidates": max((each.candidates for each in attacked), default=0),
        **_counts(attacked, places),
        "settings": {name: _counts(group, places) for name, group in settings.items()},
    }


def _counts(attacked: Sequence[Attacked], from_one: Mapping[int, int | None]) -> dict[str, Any]:
    """Counts of canaries: first among random suffixes; found by beam search from two words; from one word."""
    return {
        "random_sampling": sum(each.rank == 1 for each in attacked),
        "beam_search": sum(each.place is not None for each in attacked),
        "beam_search_from_one_word": sum(from_one[each.number] is not None for each in attacked),
        "exposure": float(np.mean([each.exposure for each in attacked])) if attacked else 0.0,
        "ranks": sorted(each.rank for each in attacked),
    }


def table_of(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Column heads and one row per regime, as in Memorization's tables; an infinite epsilon is shown with that of the noise."""
    canaries = max((found.get("canaries", 0) for found in results.values()), default=0)
    found_by = {
        f"RS, of {canaries}": "random_sampling",
        f"BS, of {canaries}": "beam_search",
        "BS from 1 word": "beam_search_from_one_word",
    }
    heads = ["regime", *found_by, "exposure, bits", "top-1", "papers' top-1", "perplexity", "epsilon"]
    rows = []
    for name, found in results.items():
        if "diverged" in found:
            rows.append([name, "diverged", *[""] * (len(heads) - 2)])
            continue
        counts = [str(found[key]) if key in found else "" for key in found_by.values()]
        # A recorded experiment may have the papers' metric alone.
        both = (found.get("top1"), found["papers_top1"])
        shares = ["–" if share is None else f"{share:.2%}" for share in both]
        rows.append([name, *counts, f"{found['exposure']:.2f}", *shares, f"{found['perplexity']:.4g}", _epsilon(found)])
    return heads, rows


def _epsilon(found: Mapping[str, Any]) -> str:
    if found["epsilon"] is not None:
        return f"{found['epsilon']:.2f}"
    of_noise = found.get("epsilon_of_noise")
    return "∞" if of_noise is None else f"∞ (noise: {of_noise:.2f})"
