"""Pictures of a run: how accuracy grew, and what the rounds so far would have cost."""

from __future__ import annotations

from pathlib import Path

from tacit.errors import RunError
from tacit.plotting import load_pyplot, require_picture, save_figure
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, read_metrics

INK, ACCENT, FAINT = "#1f2933", "#0b7285", "#9aa5b1"
# The metric to plot is the first of these that the run has; each with a title and a label. All but the loss are shares.
LOSS = "loss"
MEASURES = {
    "top1": ("next word guessed right, %", "Accuracy on held-out people"),
    "accuracy": ("guessed right, %", "Accuracy on held-out people"),
    "inverted": ("images with a bright background, %", "What the model generates"),
    LOSS: ("mean loss", "Loss on held-out people"),
}


def plot_training(folder: RunFolder, out: Path) -> None:
    """What the run is judged by over its rounds, with what it can be compared to, and epsilon beside it, as a PNG or SVG."""
    require_picture(out)
    pyplot = load_pyplot()
    records = list(read_metrics(folder.metrics_path))
    if not records:
        raise RunError(f"The run {folder.path} has no evaluation to plot yet.")
    measure = next((name for name in MEASURES if all(name in record for record in records)), None)
    if measure is None:
        raise RunError(f"Expected a run with {', '.join(MEASURES)} in its metrics, got {folder.path}, which has none.")
    what, title = MEASURES[measure]
    summary = folder.summary() or {}
    rounds = [record["round"] for record in records]
    figure, (accuracy, budget) = pyplot.subplots(
        1, 2, figsize=(9, 3.4), width_ratios=[3, 2], layout="constrained", facecolor="white"
    )
    reached = [(1 if measure == LOSS else 100) * record[measure] for record in records]
    accuracy.plot(rounds, reached, color=ACCENT, lw=2, marker="o", ms=3)
    baselines = summary.get("baselines", {})
    levels = {}
    if "unigram_top1" in baselines:
        levels["always the same word"] = 100 * baselines["unigram_top1"]
    if "best_possible" in baselines:
        levels["best possible"] = 100 * baselines["best_possible"]["top1"]
    for label, height in levels.items():
        _level(accuracy, height, label)
    accuracy.set(xlabel="round", ylabel=what, title=title)
    accuracy.set(xlim=(0, None), ylim=(0, 1.12 * max([1.0, *reached, *levels.values()])))
    privacy = summary.get("privacy", {})
    spent = [record[EPSILON_SO_FAR] for record in records]
    if None in spent:
        reason = "; ".join(privacy.get("reasons_not_private", [])) or "epsilon is infinite"
        budget.text(0.5, 0.5, f"no privacy is claimed:\n{reason}", ha="center", va="center", wrap=True, color=INK)
        budget.set(xticks=[], yticks=[])
    else:
        budget.plot(rounds, spent, color=ACCENT, lw=2, marker="o", ms=3)
        delta = f" at δ = {privacy['delta']:g}" if "delta" in privacy else ""
        budget.set(
            xlabel="round",
            ylabel="ε, had the run been planned to end here",
            xlim=(0, None),
            ylim=(0, None),
            title=f"Privacy{delta}",
        )
    for axes in (accuracy, budget):
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, out)


def _level(axes: object, height: float, label: str) -> None:
    axes.axhline(height, color=FAINT, lw=1, ls="--")  # type: ignore[attr-defined]
    axes.annotate(  # type: ignore[attr-defined]
        label, (0.99, height), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=FAINT, fontsize=9
    )
