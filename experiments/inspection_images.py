"""A fault in images, found without looking at them: Debugging, section 6, on real handwriting, as resumable steps.

    tacit data import mnist_by_writer.npz --out stores/mnist
    python experiments/inspection_images.py --minutes 8        (again, until it says that all is done)
    python experiments/pages.py                                (writes the tables of the page)

Each inspection is a folder of runs in runs/inspection-images (`tacit inspect images`); a finished one is not repeated. All use
the classifier that the first has trained, before there was a fault. What is reported comes from
docs/experiments/inspection/images.json and the pictures beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grid import in_turn, say

import tacit
from tacit.recipe.image_inspection import RECIPE, load_image_inspection
from tacit.runs.callbacks import RunStart
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder

HERE = Path(__file__).parent
SETTINGS = HERE / "inspection_images.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "inspection" / "images.json"
# Of 800 writers, with low and with high accuracy: Tables 11 and 12, of 3,400.
BUG, FIXED = ["fault.share=0.5", "gan.populations=[500, 100]"], ["fault.share=0", "gan.populations=[200, 200]"]
BUG_BY_EXAMPLE = ["fault.share=0.5", "selection.by=example", "gan.populations=[786, 684]"]
FIXED_BY_EXAMPLE = ["fault.share=0", "selection.by=example", "gan.populations=[772, 800]"]
# The same with the built-in world's digits and letters, for as many writers as the paper has.
LETTERS = [
    'data={world="handwriting", users=3400, images=100, classes=62, held_out=100, most_images=192}',
    "classifier.privacy.population=3400",
    "selection.privacy={population=3400, cohort=3400, clip_norm=1.0, noise_multiplier=2.0, delta=1e-4}",
]
# Name: changes to the recipe. The first of digits, and of letters, trains the classifier for all like it.
VARIANTS: dict[str, list[str]] = {
    "digits, bug": BUG,
    "digits, fixed": FIXED,
    "digits, bug, by example": BUG_BY_EXAMPLE,
    "digits, fixed, by example": FIXED_BY_EXAMPLE,
    "letters, bug": [*LETTERS, "fault.share=0.5", "gan.populations=[2125, 425]"],
    "letters, fixed": [*LETTERS, "fault.share=0", "gan.populations=[850, 850]"],
    "letters, bug, by example": [*LETTERS, "fault.share=0.5", "selection.by=example", "gan.populations=[3340, 2905]"],
    "letters, fixed, by example": [*LETTERS, "fault.share=0", "selection.by=example", "gan.populations=[3282, 3400]"],
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


def inspected(name: str, folder: Path, pictures_in: Path, changes: list[str]) -> dict[str, Any]:
    """Inspect, or go on with an inspection; its findings."""
    from tacit.inspection.images.run import resume_images, start_images

    out = folder_of(folder, name)
    if (out / RECIPE).exists():
        looked = resume_images(out, Say())
    else:
        first = next(each for each in VARIANTS if each.split(",")[0] == name.split(",")[0])
        trained = folder_of(folder, first) / "classifier"
        known = trained if is_run(trained) and RunFolder.open(trained).summary() is not None else None
        looked = start_images(
            load_image_inspection(SETTINGS, [*VARIANTS[name], *changes], classifier=known), out, Say()
        )
    pictures(looked.images, pictures_in, name)
    print(f"{name}: {looked.findings.conclusion()}", flush=True)
    return {**looked.findings.as_dict(), "changes": changes}


def pictures(images: Mapping[str, Any], folder: Path, name: str) -> None:
    """A grid for each side."""
    from tacit.inspection.images.findings import COLUMNS, SHOWN
    from tacit.runs.report.pictures import grid, png

    for side, made in images.items():
        sheet = grid(made[:SHOWN], COLUMNS).repeat(2, axis=0).repeat(2, axis=1)
        (folder / f"{folder_of(Path(), name)}_{side}.png").write_bytes(png(sheet))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no inspection that would not be done by then")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="these inspections, by name")
    parser.add_argument("--runs", type=Path, default=Path("runs/inspection-images"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every inspection")
    arguments = parser.parse_args()
    folder = arguments.results.parent
    folder.mkdir(parents=True, exist_ok=True)
    say(
        in_turn(
            arguments.only,
            arguments.results,
            lambda name: inspected(name, arguments.runs, folder, arguments.changes),
            arguments.minutes,
        )
    )


if __name__ == "__main__":
    main()
