"""Pictures in which the papers' printed points stand beside ours.

python experiments/paper_figures.py        (draws all of them from the recorded results)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import INK
from page_tables_privacy import RAMASWAMY, THAKKAR, undertrained
from papers_recorded import read

from tacit.plotting import load_pyplot, save_figure

RESULTS = Path(__file__).parent.parent / "docs" / "experiments"
# DP-FedAvg, Table 2: σ, S and accuracy; without noise 17.62%.
TABLE_2 = ((0.003, 15, 17.49), (0.006, 10, 17.04), (0.012, 15, 16.33))
WITHOUT_NOISE = 17.62
CLIP = 0.8
LEVELS = {3.2e-4: "clip 0.8, noise 3.2e-4", 1e-3: "clip 0.8, noise 1e-3", 3.2e-3: "clip 0.8, noise 3.2e-3"}


def loss_by_noise(results: Path) -> Path:
    """DP-FedAvg: points of accuracy that noise costs, by the noise on the mean over the clip."""
    runs = read(results / "dp_fedavg" / "results.json")
    sound = runs["clip 0.8"]["metrics"]["papers_top1"]
    ours = [(level / CLIP, 100 * (sound - runs[name]["metrics"]["papers_top1"])) for level, name in LEVELS.items()]
    theirs = [(sigma / clip, WITHOUT_NOISE - accuracy) for sigma, clip, accuracy in TABLE_2]
    figure, axes = load_pyplot().subplots(figsize=(5.4, 3.6), layout="constrained", facecolor="white")
    axes.plot(*zip(*ours, strict=True), "o-", color=INK[0], label="here: real text, S = 0.8, 1,000 rounds")
    axes.plot(*zip(*theirs, strict=True), "s", color="black", mfc="none", label="paper, Table 2: Reddit, 5,000 rounds")
    axes.set(xscale="log", yscale="log", xlabel="σ / S, noise on the mean over the clip", ylabel="top-1 lost, points")
    axes.set_xticks(xs := (2e-4, 5e-4, 1e-3, 2e-3, 4e-3), [f"{x:g}" for x in xs])
    axes.set_yticks(ys := (0.1, 0.3, 1, 3, 10), [f"{y:g}" for y in ys])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    path = results / "dp_fedavg" / "loss.png"
    save_figure(figure, path)
    return path


def memorised(results: Path) -> Path:
    """Memorization's Tables 1 to 6 and Production's Table 4: canaries found by accuracy, and ranks by setting."""
    folder = results / "memorization"
    figure, (found, ranks) = load_pyplot().subplots(
        1, 2, figsize=(11, 4.2), layout="constrained", facecolor="white", width_ratios=(1, 1.1)
    )
    _found(found, read(folder / "regimes.json"))
    _ranks(ranks, read(folder / "production_paper_steps.json")["canaries"])
    for axes in (found, ranks):
        axes.spines[["top", "right"]].set_visible(False)
    path = folder / "found.png"
    save_figure(figure, path)
    return path


def _found(axes: Any, runs: dict[str, Any]) -> None:
    for ink, mark, whose in ((INK[0], "o", "by user"), (INK[1], "^", "IID")):
        own = {name: run for name, run in runs.items() if name.endswith(whose)}
        points = [(100 * run["papers_top1"], run["random_sampling"]) for run in own.values()]
        axes.plot(*zip(*points, strict=True), mark, color=ink, label=f"here, {whose}")
        for (x, y), name in zip(points, own, strict=True):
            label = name.rsplit(",", 1)[0] + (" †" if undertrained(name, runs) else "")
            axes.annotate(label, (x, y), xytext=(4, 2), textcoords="offset points", fontsize=6, color=ink)
        printed = [(accuracy, first) for name, (first, _, accuracy) in THAKKAR.items() if name.endswith(whose)]
        axes.plot(*zip(*printed, strict=True), mark, color=ink, ms=4, mfc="none", label=f"paper, {whose}")
    axes.set(xlabel="top-1, %", ylabel="canaries of 90 that rank first", title="Regimes on real text")
    axes.legend(frameon=False, fontsize=7)


def _ranks(axes: Any, canaries: list[dict[str, Any]]) -> None:
    for place, (setting, (printed, _)) in enumerate(RAMASWAMY.items()):
        own = sorted(each["rank"] for each in canaries if each["setting"] == setting)
        axes.plot([place - 0.12] * len(own), own, "o", color=INK[0], label="here" if place == 0 else None)
        mark = {"color": "black", "mfc": "none", "label": "paper, Table 4" if place == 0 else None}
        axes.plot([place + 0.12] * len(printed), printed, "s", **mark)
    labels = [setting.replace("n_u = ", "").replace(", n_e = ", "\n× ") for setting in RAMASWAMY]
    axes.set_xticks(range(len(labels)), labels, fontsize=7)
    axes.set(yscale="log", xlabel="devices × copies", ylabel="rank among 2,000,000", title="Devices' canaries")
    axes.legend(frameon=False, fontsize=8)


def main() -> None:
    for draw in (loss_by_noise, memorised):
        print(f"wrote {draw(RESULTS)}")


if __name__ == "__main__":
    main()
