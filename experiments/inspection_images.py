"""A fault in images, found without looking at them: Debugging, section 6, on real handwriting, as resumable steps.

    tacit data import mnist_by_writer.npz --out stores/mnist
    python experiments/inspection_images.py --minutes 8        (again, until it says that all is done)
    python experiments/inspection_images.py --report           (prints the tables)

Each inspection is a folder of runs in runs/inspection-images (`tacit inspect images`); a finished one is not repeated. All use
the classifier that the first has trained, before there was a fault. What is reported comes from
docs/experiments/inspection/images.json and the pictures beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tacit
from tacit.recipe.image_inspection import RECIPE, load_image_inspection
from tacit.runs.callbacks import RunStart
from tacit.runs.folder import RunFolder, is_run

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "inspection" / "images.json"
BY_EXAMPLE = ["selection.by=example", "gan.privacy.population=800"]
# Name: changes to the recipe. The first trains the classifier for all.
VARIANTS: dict[str, list[str]] = {
    "bug": ["fault.share=0.5"],
    "fixed": ["fault.share=0"],
    "bug, by example": ["fault.share=0.5", *BY_EXAMPLE],
    "fixed, by example": ["fault.share=0", *BY_EXAMPLE],
}


class Say(tacit.Callback):
    """Prints evaluations, nothing else."""

    def on_start(self, run: RunStart) -> None:
        self.run = run

    def on_warning(self, sentence: str) -> None:
        print(sentence, flush=True)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        seen = {name: f"{each:.4f}" for name, each in metrics.items() if name in ("accuracy", "inverted", "brightness")}
        print(f"{self.run.name} {round}/{self.run.rounds}: {seen}", flush=True)


def folder_of(folder: Path, name: str) -> Path:
    """Where an inspection lies."""
    return folder / name.replace(",", "").replace(" ", "_")


def step(chosen: list[str], folder: Path, results_path: Path, minutes: float, changes: list[str]) -> bool:
    """Inspect until the time is nearly up; says whether all are done."""
    from tacit.inspection.images.run import resume_images, start_images

    deadline, longest = time.monotonic() + 60 * minutes, 0.0
    results_path.parent.mkdir(parents=True, exist_ok=True)
    trained = folder_of(folder, next(iter(VARIANTS))) / "classifier"
    for name in chosen:
        results = json.loads(results_path.read_text()) if results_path.exists() else {}
        if name in results:
            continue
        if time.monotonic() + longest > deadline:
            return False
        began, out = time.monotonic(), folder_of(folder, name)
        if (out / RECIPE).exists():
            looked = resume_images(out, Say())
        else:
            known = trained if is_run(trained) and RunFolder.open(trained).summary() is not None else None
            recipe = load_image_inspection(
                HERE / "inspection_images.toml", [*VARIANTS[name], *changes], classifier=known
            )
            looked = start_images(recipe, out, Say())
        seconds = time.monotonic() - began
        longest = max(longest, seconds)
        pictures(looked.images, results_path.parent, name)
        results[name] = {**looked.findings.as_dict(), "changes": changes, "seconds": seconds}
        results_path.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {looked.findings.conclusion()} ({seconds:.0f} s)", flush=True)
    return True


def pictures(images: Mapping[str, Any], folder: Path, name: str) -> None:
    """A grid for each side."""
    from tacit.inspection.images.findings import COLUMNS, SHOWN
    from tacit.runs.report.pictures import grid, png

    for side, made in images.items():
        sheet = grid(made[:SHOWN], COLUMNS).repeat(2, axis=0).repeat(2, axis=1)
        (folder / f"{folder_of(Path(), name)}_{side}.png").write_bytes(png(sheet))


def report(results_path: Path) -> None:
    """Print the scores, and how the images came to be chosen."""
    results = json.loads(results_path.read_text())
    print("| inspection | images like those of | bright background | mean intensity | confidence | on negatives |")
    print("|---|---|---|---|---|---|")
    for name, found in results.items():
        for side, score in found["scores"].items():
            cells = [f"{score[each]:.2f}" for each in ("brightness", "confidence", "negative_confidence")]
            print(f"| {name} | {side} | {score['inverted']:.0%} | {' | '.join(cells)} |")
    print("\n| inspection | held-out accuracy before | now | thresholds | minutes |\n|---|---|---|---|---|")
    for name, found in results.items():
        accuracy, limits = found["accuracy"], found["thresholds"]
        shown = "by example" if limits is None else f"≤ {limits[0]:.2f}, ≥ {limits[1]:.2f}"
        minutes = found["seconds"] / 60
        print(f"| {name} | {accuracy['before']:.1%} | {accuracy['now']:.1%} | {shown} | {minutes:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no inspection that would not be done by then")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="these inspections, by name")
    parser.add_argument("--runs", type=Path, default=Path("runs/inspection-images"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every inspection")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        report(arguments.results)
    elif step(arguments.only, arguments.runs, arguments.results, arguments.minutes, arguments.changes):
        print("all done")
    else:
        print("time is up; run again to go on")


if __name__ == "__main__":
    main()
