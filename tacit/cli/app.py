"""The command line: one command a file, listed here. A person's mistake ends in one sentence and its exit code.

Only the command that is asked for is imported. Of the others the line in `COMMANDS` is enough: it is what `tacit --help` shows.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tacit import __version__
from tacit.cli.commands import Commands, Group
from tacit.errors import TacitError
from tacit.privacy.outside import import_module_named

# The commands, in the order of the help: where each is, and the first line of its help.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": (
        "tacit.cli.train:train",
        "Train a model. Without a recipe: the demo, a private next-word model on a built-in world.",
    ),
    "init": (
        "tacit.cli.init:init",
        "Write a recipe for a store of your own, and say what it will cost in time and epsilon.",
    ),
    "tune": (
        "tacit.cli.tune:tune",
        "Search training settings for a recipe on the public text of its [pretrain], and write the recipe with the best.",
    ),
    "sweep": (
        "tacit.cli.sweep:sweep",
        "Train a grid of recipes side by side, and state what all of it costs the people whose data it reads.",
    ),
    "serve": (
        "tacit.cli.serve:serve",
        "Train a recipe on devices: select them for rounds, add up their updates, train the model, keep the ledger.",
    ),
    "predict": ("tacit.cli.predict:predict", "Show the most likely next words, with their probabilities."),
    "keyboard": (
        "tacit.cli.keyboard:keyboard",
        "Type on the models of runs with a phone's keyboard in the browser: suggestions, completions, corrections.",
    ),
    "compare": (
        "tacit.cli.compare:compare",
        "Replay the typing of held-out users with each model, and compare suggestions, completions and corrections.",
    ),
    "export": (
        "tacit.cli.export:export",
        "Write a run's model as ONNX or safetensors, with its guarantee, accuracy and recipe digest in the file's metadata.",
    ),
    "population": (
        "tacit.cli.population:population",
        "Simulate which devices take part, how long rounds take, and which MinS and MaxP follow (Gboard, section 2.2).",
    ),
    "report": (
        "tacit.cli.report:report",
        "Write a run as one HTML page with curves, the guarantee and the recipe. The page needs no network and has no script.",
    ),
    "guarantee": (
        "tacit.cli.report:guarantee",
        "Print the guarantee of a run, as Markdown: what is claimed, for whom, what it rests on, and how to check it.",
    ),
    "certify": (
        "tacit.cli.certify:certify",
        "Write a run's certificate: ledger, statement and digests, signed. Others compute epsilon from it without Tacit.",
    ),
    "plan": (
        "tacit.cli.plan:plan",
        "Choose report goal, noise multiplier and MinS, for a target or for the noise with which a simulation learned well.",
    ),
    "account": ("tacit.cli.account:build", "Compute epsilon, delta and rho, of settings or of the ledgers of runs."),
    "budget": (
        "tacit.cli.budget:app",
        "Set how much privacy a store's people may lose in all. Jobs that do not fit are refused.",
    ),
    "board": (
        "tacit.cli.board:board",
        "Show runs in the browser: a table that is live, curves, guarantees, ledgers and plans.",
    ),
    "audit": (
        "tacit.cli.audit:app",
        "Test whether a run keeps its promise: plant canaries, attack the model, compare training regimes.",
    ),
    "witness": (
        "tacit.cli.witness:app",
        "Countersign the heads of ledgers, so that nobody can rewrite one unseen; compare a run with signed heads.",
    ),
    "data": ("tacit.cli.data:app", "Import users' data, make vocabularies, and show how much data there is."),
    "device": ("tacit.cli.device_person:app", "Take part in a fleet's training with text that stays on this machine."),
    "fleet": (
        "tacit.cli.fleet_budget:app",
        "Administer a running fleet: enrolment tokens, status, devices, rounds, budget.",
    ),
    "inspect": (
        "tacit.cli.inspect:app",
        "Find faults in data that nobody may open, with private models that make up similar data.",
    ),
    "recipe": ("tacit.cli.recipe:app", "List and show recipes, and print their schema."),
    "runs": ("tacit.cli.runs:app", "List, show, compare and plot runs."),
}


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


def _tacit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this module first: it registers a mechanism, a strategy, a participation or a model of your own that "
            "a run uses. May be repeated.",
        ),
    ] = None,
) -> None:
    for module in modules or ():
        import_module_named(module)


class _InOrder(Group):
    """The commands in the order of the table, whichever of them are loaded."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)


@cache
def build(chosen: frozenset[str]) -> Commands:
    """The command line, in which these commands can run and the others are listed. A group may need words of its own."""
    app = Commands(
        name="tacit",
        cls=_InOrder,
        help="Train language models on text nobody may look at, and prove how much they can have learned about any one person.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",  # paragraphs flow with the terminal, and [fleet] is not taken for a style
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_tacit)
    for name, (path, line) in COMMANDS.items():
        module, _, attribute = path.partition(":")
        found = getattr(import_module(module), attribute) if name in chosen else None
        if attribute == "build" and found:
            found = found(chosen)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name, help=None if found else line)(found or _not_loaded)
    return app


def _not_loaded() -> None:
    raise AssertionError("only a command that was asked for runs")


def complete() -> Commands:
    """The command line with every command."""
    return build(frozenset(COMMANDS))


def load(arguments: Sequence[str]) -> Commands:
    """The command line in which the commands that these arguments name can run. Importing them takes a while."""
    chosen = frozenset(COMMANDS).intersection(arguments)
    if "account" in chosen:
        from tacit.cli import account

        chosen |= frozenset(account.COMMANDS).intersection(arguments)
    return build(chosen)


def main(arguments: Sequence[str] | None = None) -> None:
    """The `tacit` command: ends in SystemExit, with what went wrong on stderr and never on stdout."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show ε gets an escape, not an error
    try:
        load(sys.argv[1:] if arguments is None else arguments)(args=arguments, prog_name="tacit")
    except TacitError as error:
        _explain(error)
        sys.exit(error.exit_code)


def _explain(error: TacitError) -> None:
    """Print the sentence on one line and the hint on the next. Both quote what a person typed, so neither is read as markup."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error:", "bold red"), " ", _one_line(error.sentence)))
    if error.hint is not None:
        console.print(Text.assemble(("hint:", "dim"), " ", _one_line(error.hint)))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
