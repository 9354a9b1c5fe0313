"""The command line: one command a file, listed here. A person's mistake ends in one sentence and its exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tacit import __version__
from tacit.cli import (
    account,
    audit,
    compare,
    data,
    device,
    export,
    fleet,
    fleet_demo,
    init,
    inspect,
    plan,
    population,
    predict,
    recipe,
    report,
    runs,
    serve,
    train,
)
from tacit.cli.commands import Commands
from tacit.errors import TacitError
from tacit.privacy.outside import import_module_named

app = Commands(
    name="tacit",
    help="Train language models on text nobody may look at, and prove how much they can have learned about any one person.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # paragraphs flow with the terminal, and [fleet] is not taken for a style
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
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


app.command("train")(train.train)
app.command("init")(init.init)
app.command("serve")(serve.serve)
app.command("predict")(predict.predict)
app.command("compare")(compare.compare)
app.command("export")(export.export)
app.command("population")(population.population)
app.command("report")(report.report)
app.command("guarantee")(report.guarantee)
app.command("plan")(plan.plan)
app.add_typer(account.app, name="account")
app.add_typer(audit.app, name="audit")
app.add_typer(data.app, name="data")
app.add_typer(device.app, name="device")
fleet.app.command("demo")(fleet_demo.demo)
app.add_typer(fleet.app, name="fleet")
app.add_typer(inspect.app, name="inspect")
app.add_typer(recipe.app, name="recipe")
app.add_typer(runs.app, name="runs")


def main(arguments: Sequence[str] | None = None) -> None:
    """The `tacit` command: ends in SystemExit, with what went wrong on stderr and never on stdout."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show ε gets an escape, not an error
    try:
        app(args=arguments, prog_name="tacit")
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
