"""`tacit compare`: models against a baseline, by replaying the typing of the same held-out users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.keyboard import CompareResult
from tacit.privacy.statement.wording import epsilon_text

if TYPE_CHECKING:
    from tacit.keyboard.comparison import KeyboardComparison
    from tacit.keyboard.jackknife import Change

_RATES = ("recall", "rate", "accuracy", "ratio")


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Two or more of: a run, ngram, ngram+history, a saved n-gram (.npz). The first is the baseline."
        ),
    ],
    on: Annotated[str, typer.Option("--on", help="A store's folder, or the word keyboard for the built-in world.")],
    held_out: Annotated[
        int | None,
        typer.Option(
            "--users", help="How many held-out users to replay, at most.", show_default="all that a store holds out"
        ),
    ] = None,
    buckets: Annotated[
        int, typer.Option("--buckets", help="How many buckets of users the jackknife intervals use.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the simulated taps and of the buckets.")] = 0,
    ngram_order: Annotated[int, typer.Option("--ngram-order", help="How many words the longest n-gram has.")] = 5,
    ngram_on: Annotated[
        Path | None,
        typer.Option("--ngram-on", help="A store to count n-grams on.", show_default="the users who are not held out"),
    ] = None,
    ngram_public: Annotated[
        bool, typer.Option("--ngram-public", help="You declare that the text of --ngram-on is public.")
    ] = False,
    save_ngram: Annotated[Path | None, typer.Option("--save-ngram", help="Save the n-gram model as .npz.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the comparison, as .png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Replay the typing of held-out users with each model, and compare suggestions, completions and corrections.

    Each change against the baseline has a 95% interval.

    Example: tacit compare ngram runs/demo-1 --on keyboard
    """
    # Imported here: JAX takes a second to import, and --help should not wait for it.
    from tacit.keyboard.comparison import NgramSettings
    from tacit.keyboard.comparison import compare as run_comparison

    if plot is not None:
        from tacit.plotting import require_picture

        require_picture(plot)
    settings = NgramSettings(ngram_order, ngram_on, ngram_public, save_ngram)
    with Console(stderr=True).status("") as status:
        found = run_comparison(
            models,
            on,
            held_out=held_out,
            buckets=buckets,
            seed=seed,
            ngram=settings,
            on_progress=lambda doing: status.update(Text(doing)),
        )
    if plot is not None:
        from tacit.keyboard.plots import plot_comparison

        plot_comparison(found, plot)
    if as_json:
        about = {"on": found.on, "users": found.users, "words": found.words, "buckets": found.buckets}
        about["outside_guarantee"] = True
        emit(CompareResult, {**about, "models": [each.as_dict() for each in found.results]})
    else:
        _print(found)


def _print(found: KeyboardComparison) -> None:
    console = Console(highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for result in found.results:
        table.add_column(result.name, justify="right", overflow="fold", min_width=18)
    for metric in found.results[0].metrics:
        table.add_row(
            metric, *(_cell(metric, each.metrics[metric], each.changes.get(metric)) for each in found.results)
        )
    console.print(table)
    for result in found.results:
        console.print(f"{result.name}: {_privacy(result.privacy)}.", soft_wrap=True)
    console.print(
        f"{found.words:,} words of {found.users:,} held-out users of {found.on}; change against {found.results[0].name} with "
        f"its 95% interval (jackknife, {found.buckets} buckets of users). Measured outside any guarantee.",
        soft_wrap=True,
    )


def _cell(metric: str, value: float, change: Change | None) -> str:
    percent = any(word in metric for word in _RATES)
    shown = "-" if math.isnan(value) else f"{value:.2%}" if percent else f"{value:.2f}"
    if change is None or math.isnan(change.relative):
        return shown
    low, high = 100 * change.low, 100 * change.high
    return f"{shown} {100 * change.relative:+.2f}%\n({low:.2f}, {high:.2f})"


def _privacy(privacy: Mapping[str, Any]) -> str:
    if "counted_on" in privacy:
        return f"{'public text' if privacy['is_public'] else 'no privacy'}, counted on {privacy['counted_on']}"
    if privacy.get("epsilon") is not None:
        return f"epsilon {epsilon_text(privacy['epsilon'])} at delta {privacy['delta']:g}"
    reasons = privacy.get("reasons_not_private")
    return "no privacy, because " + "; ".join(reasons) if reasons else "no privacy is stated yet"
