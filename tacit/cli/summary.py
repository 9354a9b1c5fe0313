"""The summary of a run, in words a person understands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def print_summary(console: Console, folder: Path, summary: Mapping[str, Any]) -> None:
    """Accuracy, privacy, examples, and where the run lies."""
    metrics, baselines, privacy = summary["metrics"], summary["baselines"], summary["privacy"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    guess = baselines["unigram_top1"]
    table.add_row("Next word guessed right", f"[bold]{metrics['top1']:.1%}[/] of {metrics['words']:,} held-out words")
    table.add_row(
        "  always the same word", f"{guess:.1%}  (ours is {metrics['top1'] / max(guess, 1e-9):.1f} times that)"
    )
    if best := baselines.get("best_possible"):
        table.add_row("  best possible", f"{best['top1']:.1%}  (knowing how the world makes its sentences)")
    table.add_row("In the top three", f"{metrics['top3']:.1%}")
    console.print()
    console.print(table)
    console.print()
    console.print(privacy_sentence(privacy))
    if summary["examples"]:
        console.print("\nWhat it would suggest:")
        for context, words in list(summary["examples"].items())[:3]:
            shown = ", ".join(f"[bold]{word}[/] {probability:.0%}" for word, probability in words)
            console.print(f"  {context} … {shown}")
    console.print(f'\nThe run is in [bold]{folder}[/]. Try: [bold]tacit predict {folder} "see you"[/]')


def privacy_sentence(privacy: Mapping[str, Any]) -> str:
    """The guarantee in two sentences; an infinite epsilon in words, with the reason."""
    if privacy["epsilon"] is None:
        return (
            "Privacy: [bold red]none can be claimed[/] (ε is infinite), because "
            + "; ".join(privacy["reasons_not_private"])
            + "."
        )
    return (
        f"Privacy: [bold green]ε = {privacy['epsilon']:.2f} at δ = {privacy['delta']:.0e}[/], for all the data of any one "
        f"{privacy['unit']} ({privacy['adjacency']}; {privacy['accountant'].upper()} accounting over "
        f"{privacy['releases']} releases).\n"
        "The accuracy above was measured on held-out users, who are not covered by this guarantee."
    )
