"""Tables and figures of docs/experiments, from recorded results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacit.plotting import load_pyplot, save_figure

INK = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#495057", "#1971c2", "#f08c00"]


def dp_fedavg_report(results: dict[str, Any], folder: Path) -> None:
    """Print a table of every variant and draw clipping, noise, and the share of people clipped."""
    pyplot = load_pyplot()
    print("| variant | top-1 | top-3 | perplexity |\n|---|---|---|---|")
    for name, record in results.items():
        if "diverged" in record:
            print(f"| {name} | diverged | | |")
            continue
        metrics = record["metrics"]
        print(f"| {name} | {metrics['papers_top1']:.2%} | {metrics['papers_top3']:.2%} | {metrics['perplexity']:.3g} |")
    print("\n| variant | top-10 words in the 10 most frequent: none, 1, 2, … 10 |\n|---|---|")
    for name, record in results.items():
        if "head_words" in record:
            counts = record["head_words"]["10"]
            print(f"| {name} | {' '.join(f'{count / sum(counts):.0%}' for count in counts)} |")

    figure, (clip, noise, share) = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained", facecolor="white")
    levels = {"0.2": "clip 0.2", "0.4": "clip 0.4", "0.8": "clip 0.8", "none": "unclipped"}
    _curves(clip, results, levels, "Clipping at S")
    noises = {"0": "clip 0.8", "3.2e-4": "clip 0.8, noise 3.2e-4", "1e-3": "clip 0.8, noise 1e-3"}
    _curves(noise, results, {**noises, "3.2e-3": "clip 0.8, noise 3.2e-3"}, "Noise σ on the mean, S = 0.8")
    shown = {
        "S = 0.8, server rate 2": "clip 0.8, server rate 2",
        "not clipped": "unclipped, server rate 0.7",
        "FedSGD, S = 0.8": "fedsgd, clip 0.8",
    }
    for ink, (label, name) in zip(INK, shown.items(), strict=False):
        rows = [row for row in results[name].get("diagnostics", []) if row[3] is not None]
        share.plot([row[0] for row in rows], [row[3] for row in rows], color=ink, lw=2, label=label)
    share.axhline(0.8, color="#9aa5b1", lw=1, ls="--")
    share.set(xlabel="round", ylabel="median norm of an update", ylim=(0, None), title="ClipThresholds before clipping")
    share.legend(frameon=False, fontsize=8)
    for axes in (clip, noise, share):
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder / "curves.png")
    print(f"\nwrote {folder / 'curves.png'}")


def _curves(axes: Any, results: dict[str, Any], variants: dict[str, str], title: str) -> None:
    for ink, (label, name) in zip(INK, variants.items(), strict=False):
        curve = results[name]["curve"]
        axes.plot(
            [row[0] for row in curve], [100 * row[1] for row in curve], color=ink, lw=2, marker="o", ms=3, label=label
        )
    axes.set(xlabel="round", ylabel="top-1, %", title=title)
    axes.legend(frameon=False, fontsize=8)


def gboard_report(results: dict[str, Any], folder: Path) -> None:
    """Print a table of every variant with the spread of its repeats; draw mechanisms, budgets, clips and pre-training."""
    pyplot = load_pyplot()
    for base, variants in results.items():
        print(
            f"\n| {base} | noise multiplier | top-1 | epsilon | rho | MinS seen | MaxP seen |\n|---|---|---|---|---|---|---|"
        )
        for name, record in variants.items():
            privacy = (record["at_scale"] or record)["privacy"]
            seen = privacy.get("participation") or {}
            epsilon, rho = privacy["epsilon"], privacy.get("rho")
            print(
                f"| {name} | {record['noise_multiplier']:.4g} | {record['metrics']['papers_top1']:.2%} | "
                f"{'∞' if epsilon is None else f'{epsilon:.3f}'} | {'' if rho is None else f'{rho:.3f}'} | "
                f"{seen.get('min_separation', '')} | {seen.get('max_participation', '')} |"
            )
    figure, axes = pyplot.subplots(1, 4, figsize=(15, 3.6), layout="constrained", facecolor="white")
    names = {"banded": "banded", "BLT": "blt", "tree": "tree", "fresh, check-in": "fresh noise, check-in"}
    shown = {"DP-FedAvg, Poisson": "DP-FedAvg, Poisson", **names}
    _curves(axes[0], results["world"], {**shown, "no noise": "no noise"}, "ε = 8")
    _curves(axes[1], results["world, strict"], shown, "ε = 2")
    fixed = {"BLT, adaptive": "blt, adaptive clip", "BLT, fixed": "blt", "tree, fixed": "tree"}
    _curves(
        axes[2], results["world"], {**fixed, "tree, adaptive": "tree, adaptive clip"}, "Fixed and adaptive clip, ε = 8"
    )
    public = {"BLT, pre-trained": "blt, pre-trained", "tree, pre-trained": "tree, pre-trained"}
    _curves(
        axes[3],
        results["world"],
        {**public, "BLT, pre-trained, tied": "blt, pre-trained, tied", "BLT": "blt", "BLT, tied": "blt, tied"},
        "Public pre-training, ε = 8",
    )
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.set_ylim(0, None)
    save_figure(figure, folder / "curves.png")
    print(f"\nwrote {folder / 'curves.png'}")


def cohort_size_report(results: dict[str, Any], folder: Path) -> None:
    """Print a line for every run and draw top-1 over rounds: one colour a noise level, dashed for small rounds."""
    pyplot = load_pyplot()
    print("| run | people a round | z | noise on the mean | rounds | top-1 | epsilon |\n|---|---|---|---|---|---|---|")
    results = dict(sorted(results.items(), key=lambda item: (item[0].split("-")[0], _on_the_mean(item[1]), item[0])))
    for name, record in results.items():
        epsilon = record.get("privacy", {}).get("epsilon")
        print(
            f"| {name} | {record['cohort']:,.0f} | {record['noise_multiplier']:g} | {_on_the_mean(record):.3g} | "
            f"{record['curve'][-1][0]} | {record['curve'][-1][1]:.2%} | {'∞' if epsilon is None else f'{epsilon:.2f}'} |"
        )
    titles = {"scotus": "Real text, 100 and 1,250 a round", "world": "Keyboard world, 500 and 6,500 a round"}
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained", facecolor="white")
    for each, (base, title) in zip(axes, titles.items(), strict=True):
        runs = [record for name, record in results.items() if name.startswith(base)]
        if not runs:
            each.set_visible(False)
            continue
        levels = sorted({f"{_on_the_mean(record):.2g}" for record in runs}, key=float)
        small = min(record["cohort"] for record in runs)
        labelled = set()
        for record in runs:
            level = f"{_on_the_mean(record):.2g}"
            label = f"σ = {level}, {record['cohort']:,.0f} a round (z = {record['noise_multiplier']:g})"
            each.plot(
                [row[0] for row in record["curve"]],
                [100 * row[1] for row in record["curve"]],
                color=INK[levels.index(level)],
                lw=1.5,
                ls="--" if record["cohort"] == small else "-",
                label=None if label in labelled else label,
            )
            labelled.add(label)
        each.set(xlabel="round", ylabel="top-1, %", title=title)
        each.legend(frameon=False, fontsize=8)
        each.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder / "curves.png")
    print(f"\nwrote {folder / 'curves.png'}")


def _on_the_mean(record: dict[str, Any]) -> float:
    """The standard deviation of the noise on the mean update, per coordinate: z · S / cohort."""
    return float(record["noise_multiplier"] * record["clip_norm"] / record["cohort"])


def pretraining_report(results: dict[str, Any], folder: Path) -> None:
    """Print rounds to the accuracy that the worst run with a fixed clip ends with, and draw top-1 and clips over rounds."""
    pyplot = load_pyplot()
    target = min(record["curve"][-1][1] for name, record in results.items() if "-fixed-" in name)
    print(
        f"| run | top-1 | round of {target:.2%} | last clip | rho at scale | epsilon at scale |\n|---|---|---|---|---|---|"
    )
    for name, record in results.items():
        reached = next((str(row[0]) for row in record["curve"] if row[1] >= target), "not reached")
        privacy = (record.get("at_scale") or {}).get("privacy", {})
        rho, epsilon = ("∞" if privacy.get(key) is None else f"{privacy[key]:.3f}" for key in ("rho", "epsilon"))
        clip = (record.get("clips") or [[0, record["clip_norm"]]])[-1][1]
        print(f"| {name} | {record['curve'][-1][1]:.2%} | {reached} | {clip:.3g} | {rho} | {epsilon} |")
    figure, (accuracy, clips) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained", facecolor="white")
    kinds = list(dict.fromkeys(name.rsplit("-", 1)[0] for name in results))
    labelled = set()
    for name, record in results.items():
        kind = name.rsplit("-", 1)[0]
        style: dict[str, Any] = {
            "color": INK[kinds.index(kind)],
            "lw": 1.5,
            "label": None if kind in labelled else kind,
        }
        labelled.add(kind)
        accuracy.plot([row[0] for row in record["curve"]], [100 * row[1] for row in record["curve"]], **style)
        if record.get("clips"):
            clips.plot([row[0] for row in record["clips"]], [row[1] for row in record["clips"]], **style)
    accuracy.axhline(100 * target, color="#9aa5b1", lw=1, ls="--")
    accuracy.set(xlabel="round", ylabel="top-1, %", title="Accuracy on real text")
    clips.set(xlabel="round", ylabel="clip norm", title="Clip", ylim=(0, None))
    accuracy.legend(frameon=False, fontsize=8)
    for each in (accuracy, clips):
        each.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder / "curves.png")
    print(f"\nwrote {folder / 'curves.png'}")


TITLES = {
    "scotus": "SCOTUS, 8,800 people",
    "irc": "Ubuntu's IRC, 5,150 people",
    "pooled": "all English files, 25,000 people",
    "spanish": "the Spanish parliament, 780 people",
}
STYLES = ("-", "--", (0, (1, 1)), "-.", ":")


def real_epsilon_report(results: dict[str, Any], folder: Path) -> None:
    """Print what every run reached and cost, and draw accuracy against epsilon, with n-grams and public models as lines."""
    print("| run | epsilon | rounds | noise multiplier | top-1, keyboard | top-1, papers | before the first round |")
    print("|---|---|---|---|---|---|---|")
    corpora: dict[str, list[dict[str, Any]]] = {}
    for name, record in results.items():
        if "metrics" not in record:
            continue
        corpora.setdefault(name.split("-")[0], []).append(record)
        epsilon, metrics = record["privacy"]["epsilon"], record["metrics"]
        shown = "∞" if epsilon is None else f"{epsilon:.2f}"
        accuracy = f"{metrics['top1']:.2%} | {metrics['papers_top1']:.2%} | {record['curve'][0][1]:.2%}"
        print(f"| {name} | {shown} | {record['rounds']} | {record['noise_multiplier']:.3f} | {accuracy} |")
    ngrams = _ngrams(folder / "ngrams.jsonl")
    pyplot = load_pyplot()
    if "scotus" in corpora:
        alone, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained", facecolor="white")
        _epsilon_panel(axes, "scotus", corpora["scotus"], ngrams.get("scotus", {}))
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(alone, folder / "scotus.png")
    columns = min(2, len(corpora))
    shape = (-(-len(corpora) // columns), columns)
    figure, panels = pyplot.subplots(
        *shape, figsize=(5.2 * shape[1], 3.6 * shape[0]), layout="constrained", facecolor="white", squeeze=False
    )
    for axes in panels.flat[len(corpora) :]:
        axes.remove()
    for axes, (corpus, records) in zip(panels.flat, corpora.items(), strict=False):
        _epsilon_panel(axes, corpus, records, ngrams.get(corpus, {}))
    figure.legend(
        *panels.flat[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3
    )
    save_figure(figure, folder / "epsilon.png")
    print(f"\nwrote {folder / 'epsilon.png'}")


def _ngrams(path: Path) -> dict[str, dict[tuple[str, int], float]]:
    """By corpus, by whose text was counted and by order: the top-1."""
    found: dict[str, dict[tuple[str, int], float]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        found.setdefault(record["name"], {})[record["counted_on"], record["order"]] = record["papers_top1"]
    return found


def _epsilon_panel(axes: Any, corpus: str, records: list[dict[str, Any]], ngrams: dict[Any, float]) -> None:
    points = sorted(
        (record["privacy"]["epsilon"], 100 * record["metrics"]["papers_top1"])
        for record in records
        if record["privacy"]["epsilon"] is not None
    )
    axes.plot(*zip(*points, strict=True), "o-", color=INK[0], lw=1.8, label="private, everything included")
    without_noise = [record["metrics"]["papers_top1"] for record in records if record["privacy"]["epsilon"] is None]
    lines = {
        "the same without noise": max(without_noise, default=None),
        "5-grams of everybody, no privacy": ngrams.get(("everybody", 5)),
        "3-grams of everybody, no privacy": ngrams.get(("everybody", 3)),
        "pre-trained on public text alone": max(record["curve"][0][1] for record in records),
        "5-grams of public text alone": ngrams.get(("public", 5)),
    }
    for (label, height), ink, style in zip(lines.items(), (*INK[1:], INK[1]), STYLES, strict=False):
        if height is not None:
            axes.axhline(100 * height, color=ink, ls=style, lw=1.2, label=label)
    axes.set(
        xscale="log",
        title=TITLES.get(corpus, corpus),
        xlabel="epsilon of the whole run, delta = 1e-5",
        ylabel="top-1, papers' metric, %",
    )
    axes.set_xticks([epsilon for epsilon, _ in points], [f"{epsilon:.3g}" for epsilon, _ in points], minor=False)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
