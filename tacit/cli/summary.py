"""The summary of a run, as `tacit train` prints it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tacit.privacy.statement.wording import epsilon_text, round_up
from tacit.runs.accuracy import PAPERS, vocabulary_sentence

if TYPE_CHECKING:
    from tacit.runs.gate_audit.outcome import GateOutcome


def print_summary(
    console: Console,
    folder: Path,
    summary: Mapping[str, Any],
    *,
    happened: Mapping[str, Any] | None = None,
    gate: GateOutcome | None = None,
) -> None:
    """Accuracy, privacy, that the gate was audited, examples, and where the run lies.

    `happened` is the owner's second figure, where there is one.
    """
    if "found" in summary:
        _print_words(console, folder, summary, happened)
        return
    own = "baselines" not in summary  # a run of `tacit.train`, whose task names what it measures
    console.print()
    console.print(_own_metrics(summary["metrics"]) if own else _next_word_metrics(summary))
    console.print()
    console.print(privacy_sentence(summary["privacy"]))
    if happened is not None:
        console.print(f"For the owner, {escape(owners_sentence(happened))}.")
    if gate is not None:
        console.print(gate.sentence(), markup=False)
    if average := summary.get("average"):
        console.print(f"The model is {average}.", markup=False)
    if clip_norm := summary.get("clip_norm"):
        console.print(
            f"Adaptive clipping ended at {clip_norm:.3g}, which a large run can use as its fixed privacy.clip_norm."
        )
    if scale := summary.get("at_scale"):
        console.print(scale_sentence(scale))
    if summary.get("examples"):
        console.print("\nWhat the model suggests:")
        for context, words in list(summary["examples"].items())[:3]:
            shown = ", ".join(f"[bold]{escape(word)}[/] {probability:.0%}" for word, probability in words)
            console.print(f"  {escape(context)} … {shown}")
    where_it_lies = shlex.quote(str(folder))
    command = f"{tacit_command()} " + (f"report {where_it_lies}" if own else f'predict {where_it_lies} "see you"')
    where = Text.assemble("\nThe run is in ", (str(folder), "bold"), ". Try: ", (command, "bold"))
    console.print(where, soft_wrap=True)  # a command is copied, so it stays on one line
    if not own:
        typed_on = Text.assemble(
            "Type on it in your browser: ", (f"{tacit_command()} keyboard {where_it_lies}", "bold")
        )
        console.print(typed_on, soft_wrap=True)


def _print_words(
    console: Console, folder: Path, summary: Mapping[str, Any], happened: Mapping[str, Any] | None
) -> None:
    """What a discovery of words by letters found, and what it cost."""
    found = {0: "No word was", 1: "1 word was"}.get(summary["found"], f"{summary['found']:,} words were")
    console.print(f"{found} found; the noised total that a prefix or a word must reach is {summary['threshold']:.1f}.")
    console.print(privacy_sentence(summary["privacy"], measured=False))
    if happened is not None:
        console.print(f"For the owner, {escape(owners_sentence(happened))}.")
    where = f"The words are in {folder / 'vocabulary.txt'}. " if summary["words"] else ""
    console.print(f"{where}The statement: tacit guarantee {folder}", soft_wrap=True, markup=False, highlight=False)


def _next_word_metrics(summary: Mapping[str, Any]) -> Table:
    """How often the next word was guessed, beside simple guesses and the papers' metric; what the vocabulary leaves out."""
    metrics, baselines = summary["metrics"], summary["baselines"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    guess = baselines["unigram_top1"]
    table.add_row("Next word guessed right", f"[bold]{metrics['top1']:.1%}[/] of {metrics['words']:,} held-out words")
    times = f"  (ours is {metrics['top1'] / guess:.1f} times that)" if metrics["top1"] > guess > 0 else ""
    table.add_row("  always the same word", f"{guess:.1%}{times}")
    if best := baselines.get("best_possible"):
        table.add_row("  best possible", f"{best['top1']:.1%}  (knowing how the world makes its sentences)")
    table.add_row("In the top three", f"{metrics['top3']:.1%}")
    if "papers_top1" in metrics:
        papers = f"{metrics['papers_top1']:.1%}, and {metrics['papers_top3']:.1%} in the top three"
        table.add_row(PAPERS.capitalize(), f"{papers}  ('unknown' and the end of a sentence count as guesses)")
    if outside := vocabulary_sentence(metrics.get("out_of_vocabulary")):
        table.add_row("Vocabulary", outside)
    return table


def _own_metrics(metrics: Mapping[str, float]) -> Table:
    """What a task of somebody's own measured, by its own names."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in metrics.items():
        table.add_row(f"On held-out users: {escape(name)}", f"[bold]{value:.4g}[/]")
    return table


def privacy_sentence(privacy: Mapping[str, Any], *, measured_within: bool = False, measured: bool = True) -> str:
    """The guarantee in a few sentences of markup; an infinite epsilon in words, with the reason.

    `measured_within`: the accuracy beside it crossed the gate, so that the guarantee covers those it was measured on.
    `measured`: there is an accuracy beside it.
    """
    if privacy["epsilon"] is None:
        reasons = escape("; ".join(privacy["reasons_not_private"]))
        return f"Privacy: [bold red]none can be claimed[/] (ε is infinite), because {reasons}."
    on = "these users, with noise added" if measured_within else "held-out users, whom it does not cover"
    return (
        f"Privacy: [bold green]ε = {epsilon_text(privacy['epsilon'])} at δ = {privacy['delta']:g}[/], for all the data of "
        f"any one {privacy['unit']} ({privacy['adjacency']}; {_accountant(privacy['accountant'])}), for "
        f"{privacy['rounds']}. It was computed from {privacy['computed_from']}.\n"
        f"It holds under {len(privacy['assumptions'])} assumptions (tacit runs show lists them)."
        + (f" The accuracy was measured on {on}." if measured else "")
    )


def owners_sentence(happened: Mapping[str, Any]) -> str:
    """The owner's second figure (`tacit.runs.cost`), named so that nobody takes it for the headline."""
    if happened["epsilon"] is None:
        return f"from {happened['computed_from']}: no finite ε, because {'; '.join(happened['reasons_not_private'])}"
    rho = "" if happened["rho"] is None else f", ρ = {round_up(happened['rho'], 4)}"
    return f"from {happened['computed_from']}: ε = {epsilon_text(happened['epsilon'])}{rho}"


def _accountant(name: str) -> str:
    return f"{name.upper()} accounting" if name in ("rdp", "pld") else name


def scale_sentence(scale: Mapping[str, Any]) -> str:
    """What the same training would cost at the larger scale, labelled as an estimate."""
    privacy = scale["privacy"]
    return (
        f"At scale (an [bold]estimate[/], not this run): {scale['cohort']:,.0f} of {scale['population']:,} users a round, "
        f"noise multiplier {scale['noise_multiplier']:.3g}: ε = {epsilon_text(privacy['epsilon'])} at δ = {privacy['delta']:g} "
        f"({privacy['adjacency']}).\nThe accuracy above is then {escape(scale['label'])}."
    )


def tacit_command() -> str:
    """The command as this person can type it: `tacit`, or its path where it is not on the PATH."""
    lies_here = Path(sys.argv[0]).name == "tacit" and shutil.which("tacit") is None
    return os.path.relpath(sys.argv[0]) if lies_here else "tacit"
