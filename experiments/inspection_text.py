"""A fault of tokenization found without looking at the text, at four rates (Debugging, section 5 and appendix B.3).

    zcat scotus_advocates_en.jsonl.gz | head -n 2249 > public.jsonl
    zcat scotus_advocates_en.jsonl.gz | tail -n +2250 > private.jsonl
    tacit data vocabulary --corpus public.jsonl --user user --text sentences --size 5000 \\
        --public-name "oral arguments of 2,249 other advocates" --out advocates.vocab
    tacit data import private.jsonl --user user --text sentences --vocabulary advocates.vocab \\
        --max-tokens 500 --out stores/scotus_inspect
    python experiments/inspection_text.py --minutes 8     (again, until it says that all is done)
    python experiments/inspection_text.py --report        (draws the figure and prints the tables)

Each corpus, at each rate of the fault, has a next-word model (the primary one) and a model that spells unknown words, both
differentially private, both trained on faulty text. Each is a run of its own; one that was cut off goes on where it was, and a
finished one is not repeated. What is reported comes from docs/experiments/inspection/text.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from inspection_text_report import report

import tacit
from tacit.recipe.reading import RECIPES, apply_change, read_toml
from tacit.recipe.text_inspection import TEXT, TextFault, load_text_inspection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.folder import RunFolder, is_run

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "inspection" / "text.json"
SHARES = (0.0, 0.01, 0.1, 1.0)
# Corpus: the recipe of its primary model, and what is changed in recipes/inspect_text.toml for its unknown words.
CORPORA: dict[str, tuple[Path, list[str]]] = {
    "keyboard": (RECIPES / "demo.toml", ["run.rounds=150", "privacy.cohort=500", "privacy.noise_multiplier=0.6"]),
    "scotus": (
        HERE / "inspection_scotus.toml",
        [
            "data.tokens_per_user=680",
            "model.embedding=64",
            "model.units=128",
            "model.projection=64",
            "privacy.cohort=400",
            "privacy.noise_multiplier=0.08",
            "server.learning_rate=2.0",
            "run.rounds=600",
            "run.evaluate_every=100",
            "run.checkpoint_every=100",
            "scale.population=2000000",
            "scale.cohort=5000",
            "scale.delta=5e-9",
        ],
    ),
}


class Say(tacit.Callback):
    """A line an evaluation."""

    def __init__(self, name: str) -> None:
        self._name, self._started = name, time.monotonic()

    def on_warning(self, sentence: str) -> None:
        print(f"{self._name}: warning: {sentence}", flush=True)

    def on_evaluation(self, round: int, metrics: Any) -> None:
        seconds = time.monotonic() - self._started
        print(f"{self._name}: round {round}, perplexity {metrics['perplexity']:.3g}, {seconds:.0f} s", flush=True)


def train_words(recipe: Recipe, fault: TextFault, out: Path) -> dict[str, Any]:
    """Train the primary model on faulty text, or go on with it; its summary."""
    import jax

    from tacit.inspection.record import InspectionRecord, fault_record
    from tacit.inspection.text.run import with_fault
    from tacit.learning.next_word import NextWord
    from tacit.models.word_lm import build
    from tacit.runs.driver import begin, go_on
    from tacit.simulation.training import program_of
    from tacit.training.datasets import open_dataset
    from tacit.training.recipes import RecipeSetup, model_config

    sound = open_dataset(recipe)
    dataset = dataclasses.replace(
        sound,
        train=with_fault(sound.train, fault, sound.words),
        notes=(InspectionRecord("primary", fault=fault_record(fault)),),
    )
    model = build(model_config(recipe, len(dataset.words)), key=jax.random.key(recipe.model.init_seed))
    setup = RecipeSetup.of(recipe, dataset, model, NextWord(recipe.engine.precision), None)
    folder = RunFolder.open(out) if is_run(out) else RunFolder.create(out, recipe.to_toml(), vocabulary=dataset.words)
    return (go_on if folder.begun else begin)(program_of(setup, folder), folder, Say(out.name))


def inspect(corpus: str, share: float, primary: Path, out: Path, changes: list[str]) -> dict[str, Any]:
    """Train the model of unknown words, or go on with it; its summary."""
    from tacit.inspection.text.run import resume_inspection, start_inspection

    if is_run(out):
        return resume_inspection(out, Say(out.name))
    more = [*CORPORA[corpus][1], f"fault.share={share}", *changes]
    return start_inspection(load_text_inspection(TEXT, more, primary=primary), out, Say(out.name))


def primary_recipe(corpus: str, changes: list[str]) -> Recipe:
    """The recipe of a corpus's primary model."""
    tree = read_toml(CORPORA[corpus][0])
    for change in changes:
        apply_change(tree, change)
    return parse_recipe(tree)


def step(arguments: argparse.Namespace) -> bool:
    """Make models until the time is nearly up; says whether all are done."""
    deadline, longest = time.monotonic() + 60 * arguments.minutes, 0.0
    for corpus in arguments.only or list(CORPORA):
        for share in SHARES:
            name = f"{corpus} {share:g}"
            if name in _read(arguments.results):
                continue
            words, letters = (arguments.runs / f"{corpus}-{share:g}-{kind}" for kind in ("words", "letters"))
            summaries = []
            for out in (words, letters):
                summary = RunFolder.open(out).summary() if is_run(out) else None
                if summary is None:
                    if time.monotonic() + longest > deadline:
                        return False
                    began = time.monotonic()
                    if out is words:
                        fault = TextFault(share=share)
                        summary = train_words(primary_recipe(corpus, arguments.words), fault, out)
                    else:
                        summary = inspect(corpus, share, words, out, arguments.letters)
                    longest = max(longest, time.monotonic() - began)
                    print(f"{out.name}: {time.monotonic() - began:.0f} s", flush=True)
                summaries.append(summary)
            arguments.results.parent.mkdir(parents=True, exist_ok=True)
            # Read again: another process may have added other corpora in the meantime.
            results = {**_read(arguments.results), name: _record(corpus, share, *summaries)}
            arguments.results.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    return True


def _read(results: Path) -> dict[str, Any]:
    return json.loads(results.read_text()) if results.exists() else {}


def _record(corpus: str, share: float, words: dict[str, Any], letters: dict[str, Any]) -> dict[str, Any]:
    def cost(privacy: dict[str, Any]) -> dict[str, Any]:
        return {key: privacy.get(key) for key in ("epsilon", "delta", "adjacency", "releases")}

    def large(summary: dict[str, Any]) -> dict[str, Any] | None:
        scale = summary.get("at_scale")
        return None if scale is None else {**scale, "privacy": cost(scale["privacy"])}

    return {
        "corpus": corpus,
        "share": share,
        "inspection": letters["inspection"],
        "letters": letters["metrics"],
        "privacy": {
            "words": cost(words["privacy"]),
            "letters": cost(letters["privacy"]),
            "together": cost(letters["together"]),
        },
        "at_scale": {"words": large(words), "letters": large(letters)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop starting models when this is nearly up")
    parser.add_argument("--only", nargs="*", choices=list(CORPORA), help="these corpora")
    parser.add_argument("--runs", type=Path, default=Path("runs/inspection_text"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--words", action="append", default=[], help="change a value of every primary model's recipe")
    parser.add_argument("--letters", action="append", default=[], help="change a value of every inspection's recipe")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        print(report(_read(arguments.results), arguments.results.parent))
        return
    print("all done" if step(arguments) else "time is up; run again to go on")


if __name__ == "__main__":
    main()
