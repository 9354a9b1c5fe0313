"""`tacit audit`: plant canaries, attack a trained run, compare training regimes."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tacit.api.run import open_run
from tacit.cli.commands import Commands
from tacit.cli.options import Changes, Json, RunArgument, Suffixes
from tacit.cli.results import emit
from tacit.cli.results.audit import AuditRunResult, ExperimentResult, PlantResult
from tacit.cli.summary import tacit_command
from tacit.errors import AuditError
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder

if TYPE_CHECKING:
    from tacit.audit.outcome import AuditOutcome
    from tacit.cli.planting import Planting
    from tacit.data.canaries.plan import CanaryPlan
    from tacit.recipe.training import Recipe
    from tacit.runs.gate_audit.outcome import GateOutcome

app = Commands(
    help="Test whether a run keeps its promise: plant canaries, attack the model, compare training regimes.",
    no_args_is_help=True,
)

# Not one of the exit codes for mistakes (tacit/errors.py): the command was right, and the mechanism is broken.
BROKEN_EXIT = 20
# The audit ran and says nothing about the proof, because no attack could have contradicted it.
COULD_NOT_FAIL_EXIT = 21


@app.command("plant")
def plant(
    data: Annotated[
        str, typer.Argument(help="A recipe, a store's folder, or the word keyboard for the built-in world.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The canary plan to write. Keep it secret: it contains the canaries.")
    ],
    devices: Annotated[
        int,
        typer.Option(
            "--devices", min=0, help="How many canaries for each of the 9 settings of made-up devices and copies."
        ),
    ] = 3,
    sharers: Annotated[
        int,
        typer.Option(
            "--sharers", min=0, help="How many canaries for each of the 9 settings of sharers among real users."
        ),
    ] = 0,
    coins: Annotated[
        int,
        typer.Option(
            "--coins",
            min=0,
            help="How many canary users, each in or out by a fair coin, for a lower bound on epsilon; it takes hundreds.",
        ),
    ] = 0,
    copies: Annotated[
        int, typer.Option("--copies", min=1, help="How many copies of the canary a canary user holds.")
    ] = 20,
    expected_sharers: Annotated[
        str | None,
        typer.Option(
            "--expected-sharers",
            metavar="A,B,C",
            help="How many real users share a canary, on average: three numbers.",
            show_default="the paper's: 7.84,23.52,78.4",
        ),
    ] = None,
    length: Annotated[int, typer.Option("--length", min=1, help="How many words a canary has.")] = 5,
    examples_per_device: Annotated[
        int,
        typer.Option(
            "--examples-per-device",
            min=3,
            help="How many examples a made-up device holds; training reads at most data.tokens_per_user tokens.",
        ),
    ] = 200,
    device_rate: Annotated[
        float | None,
        typer.Option(
            "--device-rate",
            help="Probability that a made-up user takes part in a round. If it is too low, the audit cannot detect anything.",
            show_default="the same as for real users",
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            "--users",
            min=1,
            help="keyboard: how many users the world has. A store's folder with --sharers: a public estimate of how many users "
            "there are.",
            show_default="keyboard: 500,000",
        ),
    ] = None,
    world_seed: Annotated[int, typer.Option("--world-seed", min=0, help="keyboard: the seed of the world.")] = 1,
    vocabulary: Annotated[int, typer.Option("--vocabulary", min=100, help="keyboard: size of the vocabulary.")] = 2_000,
    public: Annotated[
        Path | None,
        typer.Option(
            "--public",
            metavar="STORE",
            help="A store of public text, for what made-up devices hold beside their canary. A world needs none.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Makes the same plan again. Anybody who guesses the seed knows the canaries.",
            show_default="secret",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw canaries and write the plan of who will hold them. Nobody's data is changed.

    The command that trains with the plan is printed. On a store's folder it is that of the recipe own_data.

    Example: tacit audit plant demo --coins 300 --device-rate 0.5 --examples-per-device 20 --out canaries.json
    """
    from tacit.audit.plans import PAPER_SHARERS, mixed_plan

    if out.exists():
        raise AuditError(f"Expected a new file for the plan, got {out}, which exists.")
    named, population, words = _population(data, users=users, world_seed=world_seed, vocabulary=vocabulary)
    planting = _planting(data, population, public=public, world_seed=world_seed, vocabulary=vocabulary)
    if population is None and sharers:
        raise AuditError(
            f"Expected --users with --sharers on the folder of a store, got none for {data}.",
            hint="A public estimate of how many users there are says how likely each of them shares a canary.",
        )
    plan = mixed_plan(
        words,
        named,
        population=population or 1,
        seed=secrets.randbits(64) if seed is None else seed,
        devices=devices,
        sharers=sharers,
        coins=coins,
        length=length,
        copies=copies,
        expected_sharers=PAPER_SHARERS if expected_sharers is None else _numbers(expected_sharers),
        examples_per_device=examples_per_device,
        device_rate=device_rate,
    )
    arguments = planting.arguments(plan, out)
    plan.save(out)
    if as_json:
        counts = {"canaries": len(plan.canaries), "made_up_users": plan.synthetic_users}
        emit(PlantResult, {"plan": str(out), **counts, "train_with": arguments})
        return
    typer.echo(_about(plan, out, arguments))


@app.command("run")
def run(
    run: RunArgument,
    prefix: Annotated[int, typer.Option("--prefix", help="How many words of a canary the attacker knows.")] = 2,
    suffixes: Suffixes = None,
    width: Annotated[int, typer.Option("--width", help="Width of the beam search.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the random endings.")] = 0,
    as_json: Json = False,
) -> None:
    """Show what the audit of the gate found; if the run was trained with planted canaries, attack it.

    The exit code is 20 if the noise or the clip is not what the ledger says, or if the attack got more than the proof allows.
    It is 21 if no attack could have contradicted the proof. The findings also go into the owner's copy of `tacit report`.

    Example: tacit audit run runs/demo-1
    """
    from tacit.audit.outcome import BROKEN
    from tacit.runs.attacked import keep_attack
    from tacit.runs.gate_audit.outcome import BROKEN as BROKEN_AT_THE_GATE
    from tacit.runs.gate_audit.outcome import write_gate_section
    from tacit.runs.report.sections import write_section

    path = by_name(run)
    folder = RunFolder.open(path)
    gate = write_gate_section(folder)
    found = None
    if _is_planted(folder) or gate is None:
        with Console(stderr=True).status("") as status:
            found = open_run(path).audit(
                prefix=prefix,
                suffixes=suffixes,
                width=width,
                seed=seed,
                on_progress=lambda doing: status.update(Text(doing)),
            )
        write_section(folder, found.section())
        keep_attack(folder, found.as_dict())
    broken = (found is not None and found.broken) or (gate is not None and bool(gate.alarms))
    if as_json:
        attacked = {"verdict": None if gate is None else gate.verdict} if found is None else found.as_dict()
        gated = None if gate is None else gate.as_dict()
        emit(AuditRunResult, {"run": str(path), **attacked, "broken": broken, "gate": gated})
    else:
        _print(found, gate, path)
    if broken:
        at_the_gate = gate is not None and gate.alarms
        typer.echo(f"error: {BROKEN_AT_THE_GATE if at_the_gate else BROKEN}", err=True)
        raise typer.Exit(BROKEN_EXIT)
    if found is not None and found.verdict == "could_not_fail":
        raise typer.Exit(COULD_NOT_FAIL_EXIT)


@app.command("experiment")
def experiment(
    recipe: Annotated[str, typer.Argument(help="A recipe of DP-FedAvg; every regime changes some of its values.")],
    out: Annotated[Path, typer.Option("--out", help="A folder for the plan, the runs and the results.")],
    changes: Changes = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Train only this regime; may be repeated.")] = None,
    sharers: Annotated[
        int, typer.Option("--sharers", min=1, help="How many canaries for each of the 9 settings of sharers.")
    ] = 10,
    expected_sharers: Annotated[
        str,
        typer.Option(
            "--expected-sharers", metavar="A,B,C", help="How many users share a canary, on average: three numbers."
        ),
    ] = "8,24,78",
    suffixes: Suffixes = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", help="Begin no regime that is not expected to be done by then."),
    ] = 8.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the canaries.")] = 1,
    as_json: Json = False,
) -> None:
    """Plant canaries, train every regime, attack each model, and print what each has memorised.

    Run the same command again to continue: finished regimes are not trained again.

    Example: tacit audit experiment own_data --out memorization --minutes 8
    """
    from tacit.audit.plans import mixed_plan
    from tacit.audit.regimes import compare_regimes, possible_regimes, recipe_for, table_of
    from tacit.recipe.reading import find_recipe
    from tacit.recipe.training import load_recipe
    from tacit.training.datasets import open_dataset

    base = load_recipe(find_recipe(recipe), changes or ())
    for regime in possible_regimes(base):  # a recipe that cannot be used is refused before there is a folder
        recipe_for(base, regime, out / "canaries.json")
    data = open_dataset(base.model_copy(update={"audit": None}))
    expected = _numbers(expected_sharers)
    canaries = mixed_plan(
        data.words,
        data.description.name,
        population=base.data.users if base.data.store is None else base.privacy.population,
        seed=seed,
        sharers=sharers,
        expected_sharers=expected,
    )
    plan = _kept(out, base, canaries)
    with Console(stderr=True).status("") as status:
        results, done = compare_regimes(
            base,
            plan,
            out,
            names=only or (),
            minutes=minutes,
            suffixes=suffixes,
            on_progress=lambda doing: status.update(Text(doing)),
        )
    if as_json:
        emit(ExperimentResult, {"done": done, "regimes": results})
        return
    _print_table(Console(highlight=False, markup=False), *table_of(results))
    typer.echo("All done." if done else "The time is up. Run the same command again to continue.")


def _kept(out: Path, base: Recipe, plan: CanaryPlan) -> Path:
    """The plan's file in the experiment's folder; AuditError if the results there are those of another recipe or plan."""
    from tacit.data.canaries.plan import load_plan
    from tacit.files import write_atomic

    canaries, recipe = out / "canaries.json", out / "recipe.toml"
    if not canaries.exists():
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(recipe, base.to_toml() + "\n")
        plan.save(canaries)
    elif load_plan(canaries) != plan or not recipe.exists() or recipe.read_text() != base.to_toml() + "\n":
        raise AuditError(
            f"Expected the recipe, changes, --sharers, --expected-sharers and --seed with which the experiment in {out} "
            "began, got others.",
            hint="Give the same options as before, or another --out, so that results of different experiments are not mixed.",
        )
    return canaries


def _is_planted(folder: RunFolder) -> bool:
    """Whether canaries were planted: by the recipe of a training or an inspection, or by a call of `tacit.train`."""
    section = folder.recipe().get("audit")
    by_recipe = isinstance(section, dict) and section.get("plan") is not None
    return by_recipe or (folder.begun and folder.ledger().opened.planted is not None)


def _print(found: AuditOutcome | None, gate: GateOutcome | None, path: Path) -> None:
    console = Console(highlight=False, markup=False)
    if gate is not None:
        console.print("The audit of the gate", style="bold")
        for text in gate.words():
            console.print(text, soft_wrap=True)
    if found is not None:
        if gate is not None:
            console.print("\nThe audit with planted canaries", style="bold")
        columns, rows = found.table()
        if rows:
            _print_table(console, columns, rows)
        for text in found.words():
            console.print(text, soft_wrap=True)
    console.print(f"The owner's report now shows this: tacit report {path}", soft_wrap=True)


def _print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        # Headings may be broken between words, figures never: a narrow terminal continues on the next line.
        least = max(map(len, (*column.split(), *(row[number] for row in rows))))
        table.add_column(column, justify="left" if number == 0 else "right", min_width=least)
    for row in rows:
        table.add_row(*row)
    console.print(table, soft_wrap=True)


def _population(
    data: str, *, users: int | None, world_seed: int, vocabulary: int
) -> tuple[Mapping[str, str | int], int | None, Sequence[str]]:
    """What identifies the users, a public estimate of how many there are (None: not given), and the words."""
    from tacit.data.store import open_store
    from tacit.data.worlds.keyboard import KeyboardWorld
    from tacit.recipe.reading import find_recipe
    from tacit.recipe.training import load_recipe

    store = data if Path(data).is_dir() else None
    if store is None and data != "keyboard":
        recipe = load_recipe(find_recipe(data))
        section = recipe.data
        store = section.store
        users = section.users if section.store is None else recipe.privacy.population
        world_seed, vocabulary = section.world_seed, section.vocabulary
    if store is None:
        users = 500_000 if users is None else users
        words: Sequence[str] = KeyboardWorld(world_seed, users, vocabulary_size=vocabulary).words
        return {"world": "keyboard", "seed": world_seed}, users, words
    opened = open_store(store)
    if opened.vocabulary is None:
        raise AuditError(f"Expected a store of text with a vocabulary, got {store}, which has none.")
    words = opened.vocabulary.decode(range(len(opened.vocabulary)))
    return {"store": opened.store_id}, users, words


def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(set(found)) != 3:
        raise AuditError(f"Expected three different numbers like 2,6,20 in --expected-sharers, got {text!r}.")
    return found


def _planting(data: str, population: int | None, *, public: Path | None, world_seed: int, vocabulary: int) -> Planting:
    """How to train on the users that `data` names, as for `_population`."""
    from tacit.cli.planting import Planting

    if Path(data).is_dir():
        return Planting.on_store(Path(data), population, public)
    if data == "keyboard":
        return Planting.on_world(population or 1, world_seed, vocabulary)
    return Planting(data, public=public)


def _about(plan: CanaryPlan, out: Path, arguments: Sequence[str]) -> str:
    made_up = plan.synthetic_users
    return (
        f"Wrote {out}: {len(plan.canaries)} canaries"
        + (f", and {made_up} made-up users beside the real ones" if made_up else "")
        + f". Only you can read it.\nTrain with: {tacit_command()} {shlex.join(arguments)}"
    )
