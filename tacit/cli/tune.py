"""`tacit tune`: training settings for private users, searched on public text alone, so that no private look is spent."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tacit.cli.options import Changes, Json
from tacit.cli.results import emit
from tacit.cli.results.planning import TuneResult
from tacit.errors import PrivacyError, RecipeError
from tacit.files import write_atomic
from tacit.privacy.statement.wording import round_up
from tacit.recipe.reading import apply_change, find_recipe, read_toml
from tacit.recipe.training import parse_recipe

if TYPE_CHECKING:
    from tacit.learning.averaging import Averaging
    from tacit.recipe.training import Recipe
    from tacit.recipe.tuning import Tunable
    from tacit.simulation.tuning.search import Trial, Tuned
    from tacit.simulation.tuning.stand_ins import StandIns

_SHORT = {
    "run.rounds": "rounds",
    "server.learning_rate": "server rate",
    "privacy.clip_norm": "clip",
    "work.learning_rate": "local rate",
    "server.schedule": "schedule",
    "work.trainable": "trained",
}
MOST_COLUMNS = 200
CAUTION = (
    "These figures are of public text and of fewer people: they say which setting is better, not what the private run will "
    "reach."
)


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of one that comes with Tacit.")],
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The epsilon that the whole private run may cost, its words included.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The recipe file to write.")] = Path("tuned.toml"),
    minutes: Annotated[float, typer.Option("--minutes", min=0.01, help="How long the search may take.")] = 30.0,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Try at most so many settings.", show_default="what the time allows"),
    ] = None,
    metric: Annotated[
        Literal["top1", "papers_top1"],
        typer.Option("--metric", help="Choose by the accuracy of a keyboard, or by the papers' metric."),
    ] = "top1",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31, help="Draws the order and the noise.")] = 1,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Keep the runs on stand-ins in this folder.", show_default="they are removed"),
    ] = None,
    stand_ins: Annotated[
        Path | None,
        typer.Option(
            "--stand-ins",
            metavar="STORE",
            help="Another store of public text, whose people stand in for the private users.",
            show_default="a part of those in pretrain.store",
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--stand-ins-public", help="You declare that the text of --stand-ins is public.")
    ] = False,
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Search training settings for a recipe on the public text of its [pretrain], and write the recipe with the best.

    Private users are not read, and nothing is entered in their store's odometer: a search on public text costs no privacy. The
    public people are divided into text to pre-train on, stand-ins for the private users, and held-out stand-ins. Each setting
    is tried with the noise on the mean update that the private run needs for the epsilon.

    Example: tacit tune mine.toml --epsilon 4 --minutes 20 --out tuned.toml

    Example: tacit tune mine.toml --epsilon 4 --stand-ins stores/forum --stand-ins-public
    """
    if out.exists():
        raise RecipeError(f"The file {out} exists already, and is left as it is.", hint="--out names another file.")
    tree = read_toml(find_recipe(recipe))
    for change in changes or ():
        apply_change(tree, change)
    followed = parse_recipe(tree)
    from tacit.recipe.tuning import Tunable
    from tacit.simulation.placement import use_every_core
    from tacit.simulation.tuning.search import Budget
    from tacit.simulation.tuning.search import tune as search
    from tacit.simulation.tuning.stand_ins import (
        StandIns,
        public_section,
        require_public_stand_ins,
        trainable_parts,
    )

    public_section(followed)
    if stand_ins is not None:
        if not public:
            raise PrivacyError(
                f"Expected --stand-ins-public, which declares that the text of {stand_ins} is public, with --stand-ins: a "
                "store is private unless you say otherwise."
            )
        require_public_stand_ins(followed, stand_ins)
    tunable = Tunable(tree, epsilon, trainable_parts(followed))
    use_every_core()
    console = Console(stderr=True, highlight=False)
    standing = StandIns.prepared(followed, stand_ins)
    console.print(_people_line(followed, standing), markup=False, soft_wrap=True)
    with ExitStack() as leaving:
        place = Path(leaving.enter_context(TemporaryDirectory())) if runs is None else runs
        done: list[Trial] = []

        def on_trial(trial: Trial) -> None:
            if trial not in done:
                done.append(trial)
            said = _trial_line(trial, tunable, done.index(trial) + 1, metric)
            console.print(said, markup=False, soft_wrap=True)

        found = search(tunable, standing, Budget(60 * minutes, trials, seed, metric), place, on_trial=on_trial)
    write_atomic(out, tunable.written(found.recipe, _heading(found, standing, epsilon, out)))
    if as_json:
        emit(TuneResult, _facts(out, found, standing, metric))
    else:
        _print(found, tunable, out, metric)


def _people_line(recipe: Recipe, stand_ins: StandIns) -> str:
    from tacit.simulation.tuning.stand_ins import stand_in_plan

    people = stand_ins.people
    plan = stand_in_plan(recipe.privacy, len(people.stand_ins), recipe.run.rounds)
    return (
        f"Public text: {len(people.pretraining):,} people to pre-train on. {people.store}: {len(people.stand_ins):,} "
        f"stand-ins, of whom about {plan.cohort:,.0f} take part in a round, and {len(people.held_out):,} held out. "
        "Private users are not read."
    )


def _trial_line(trial: Trial, tunable: Tunable, number: int, metric: str) -> str:
    from tacit.recipe.tuning import differences

    changed = differences(trial.setting, tunable.own)
    what = ", ".join(f"{_SHORT[key]} {_shown(value)}" for key, value in changed.items()) or "the recipe's own"
    average, value = trial.best(metric)
    how = trial.problem or f"top-1 {value:.2%}" + ("" if average is None else f" as {average}")
    again = f", mean of {len(trial.runs)} trainings" if len(trial.runs) > 1 else ""
    return f"setting {number} ({what}): {how}{again}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " + ".join(value) or "all"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _average_text(average: Averaging | None) -> str:
    if average is None:
        return "none"
    settings = average.settings()
    return (
        f"last {settings['average_rounds']}" if "average_rounds" in settings else f"decay {settings['average_decay']:g}"
    )


def _print(found: Tuned, tunable: Tunable, out: Path, metric: str) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for name in ("setting", *_SHORT.values(), "noise", "average", "top-1", "papers", "trainings"):
        table.add_column(name, justify="left" if name in ("setting", "schedule", "trained", "average") else "right")
    table.add_row("pre-trained", *[""] * (len(_SHORT) + 2), *(f"{found.before[each]:.2%}" for each in _BOTH), "")
    for number, trial in enumerate(found.trials, start=1):
        average, _ = trial.best(metric)
        scores = [f"{trial.mean(average, each):.2%}" for each in _BOTH] if trial.runs else [_DASH, _DASH]
        table.add_row(
            f"{number} *" if trial is found.chosen else str(number),
            *(_shown(value) for _, value in trial.setting),
            f"{trial.noise_multiplier:g}",
            _average_text(average) if trial.runs else _DASH,
            *scores,
            str(len(trial.runs)),
        )
    console = Console(markup=False, highlight=False, width=MOST_COLUMNS)
    console.print(table, width=Measurement.get(console, console.options, table).maximum)
    for number, trial in enumerate(found.trials, start=1):
        if trial.problem is not None:
            print(f"Setting {number}: {trial.problem}.")
    print(_chosen_line(found, tunable, metric))
    if found.within_noise(metric):
        print("The gain is no larger than the difference between two trainings of one setting: it may be luck.")
    plan = found.recipe.privacy
    print(
        f"{out}: a noise multiplier of {plan.noise_multiplier:g}, with which {found.recipe.run.rounds:,} rounds cost "
        f"ε = {round_up(found.planned.epsilon)} at δ = {plan.delta:g}."
    )
    print(CAUTION)
    print(f"Train with: tacit train {shlex.quote(str(out))}")


_BOTH, _DASH = ("top1", "papers_top1"), "-"


def _chosen_line(found: Tuned, tunable: Tunable, metric: str) -> str:
    from tacit.recipe.tuning import differences

    own, chosen = found.trials[0], found.chosen
    changed = differences(chosen.setting, tunable.own)
    keys = [f"{key} = {_shown(value)}" for key, value in changed.items()]
    keys += [] if found.average is None else [f"{found.average}"]
    value = chosen.mean(found.average, metric)
    if not keys:
        return f"Chosen (*): the recipe's own setting, {value:.2%} on held-out stand-ins."
    before = f"; the recipe's own reached {own.best(metric)[1]:.2%}" if own is not chosen and own.runs else ""
    return f"Chosen (*): {'; '.join(keys)}. {value:.2%} on held-out stand-ins{before}."


def _heading(found: Tuned, stand_ins: StandIns, epsilon: float, out: Path) -> list[str]:
    people, plan = stand_ins.people, found.recipe.privacy
    return [
        f"Tuned by `tacit tune` for epsilon {epsilon:g} on public text, {people.store}.",
        f"{len(found.trials)} settings were tried on {len(people.stand_ins):,} stand-ins. The users of [data] were not read: "
        "the choice cost no privacy.",
        "Chosen there: run.rounds, learning rates, schedule and average, privacy.clip_norm, work.trainable.",
        f"The noise is the least for epsilon {round_up(found.planned.epsilon)} at delta {plan.delta:g}.",
        f"Train with: tacit train {shlex.quote(str(out))}",
    ]


def _facts(out: Path, found: Tuned, stand_ins: StandIns, metric: str) -> dict[str, Any]:
    people, plan = stand_ins.people, found.recipe.privacy
    return {
        "recipe": str(out),
        "epsilon": found.planned.epsilon,
        "delta": plan.delta,
        "noise_multiplier": plan.noise_multiplier,
        "people": {
            "pretraining": len(people.pretraining),
            "stand_ins": len(people.stand_ins),
            "held_out": len(people.held_out),
        },
        "metric": metric,
        "before": {each: found.before[each] for each in _BOTH},
        "settings": [_setting_facts(trial, metric) for trial in found.trials],
        "chosen": found.trials.index(found.chosen) + 1,
        "within_noise": found.within_noise(metric),
        "seconds": found.seconds,
    }


def _setting_facts(trial: Trial, metric: str) -> dict[str, Any]:
    average, _ = trial.best(metric)
    facts: dict[str, Any] = {
        "keys": {key: list(value) if isinstance(value, tuple) else value for key, value in trial.setting},
        "noise_multiplier": trial.noise_multiplier,
        "trainings": len(trial.runs),
        "seconds": trial.seconds,
    }
    if trial.runs:
        facts |= {each: trial.mean(average, each) for each in _BOTH}
        facts["average"] = {"average": "none"} if average is None else average.settings()
    if trial.problem is not None:
        facts["problem"] = trial.problem
    return facts
