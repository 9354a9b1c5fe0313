"""A fault of tokenization found without looking at the text, at four rates (Debugging, section 5 and appendix B.3).

    zcat scotus_advocates_en.jsonl.gz | head -n 2249 > public.jsonl
    zcat scotus_advocates_en.jsonl.gz | tail -n +2250 > private.jsonl
    tacit data vocabulary --corpus public.jsonl --user user --text sentences --size 5000 \\
        --public-name "oral arguments of 2,249 other advocates" --out advocates.vocab
    tacit data import private.jsonl --user user --text sentences --vocabulary advocates.vocab \\
        --max-tokens 500 --out stores/scotus_inspect
    python experiments/inspection_text.py --minutes 8     (again, until it says that all is done)
    python experiments/inspection_text.py --report        (draws the figure)
    python experiments/pages.py                           (writes the tables of the page)

Each corpus, at each rate of the fault, has a next-word model (the primary one) and a model that spells unknown words, both
differentially private, both trained on faulty text. Each is a run of its own; one that was cut off goes on where it was, and a
finished one is not repeated. What is reported comes from docs/experiments/inspection/text.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

from grid import in_turn, read_results, say
from inspection_text_report import draw

import tacit
from tacit.recipe.reading import RECIPES, apply_change, read_toml
from tacit.recipe.text_inspection import TEXT, TextFault, load_text_inspection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "inspection" / "text.json"
SHARES = (0.0, 0.01, 0.1, 1.0)
SCOTUS = HERE / "inspection_scotus.toml"
# The noise on the mean of a round of 5,000 of 2 million people, in rounds of 400.
LETTERS_OF_SCOTUS = [
    "data.tokens_per_user=680",
    "privacy.cohort=400",
    "privacy.noise_multiplier=0.08",
    "server.learning_rate=2.0",
    "run.rounds=600",
    "run.evaluate_every=100",
    "run.checkpoint_every=100",
    "scale.population=2000000",
    "scale.cohort=5000",
    "scale.delta=5e-9",
]
SMALL = ["model.embedding=64", "model.units=128", "model.projection=64"]
# The paper's sizes (appendix B.2, Table 5), of models of unknown words and of primary models.
LARGE = ["model={preset='paper'}", "work.learning_rate=0.5", "server.learning_rate=1.0", "privacy.clip_norm=0.1"]
WORDS = {
    "scotus_paper": [
        "model.preset=production",
        "work.learning_rate=0.5",
        "server.learning_rate=1.0",
        "privacy.clip_norm=0.2",
    ]
}
# Corpus: the recipe of its primary model, and what is changed in recipes/inspect_text.toml for its unknown words.
CORPORA: dict[str, tuple[Path, list[str]]] = {
    "keyboard": (RECIPES / "demo.toml", ["run.rounds=150", "privacy.cohort=500", "privacy.noise_multiplier=0.6"]),
    "scotus": (SCOTUS, [*LETTERS_OF_SCOTUS, *SMALL]),
    "scotus_paper": (SCOTUS, [*LETTERS_OF_SCOTUS, *LARGE]),
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
    for change in (*WORDS.get(corpus, ()), *changes):
        apply_change(tree, change)
    return parse_recipe(tree)


def inspected(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Both models of a corpus at a rate, made or gone on with."""
    corpus, share = name.split()
    words, letters = (arguments.runs / f"{corpus}-{share}-{kind}" for kind in ("words", "letters"))
    primary = RunFolder.open(words).summary() if is_run(words) else None
    if primary is None:
        primary = train_words(primary_recipe(corpus, arguments.words), TextFault(share=float(share)), words)
    return _record(corpus, float(share), primary, inspect(corpus, float(share), words, letters, arguments.letters))


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
    parser.add_argument("--set", dest="both", action="append", default=[], help="change a value in every model")
    parser.add_argument("--report", action="store_true", help="draw the figure")
    arguments = parser.parse_args()
    if arguments.report:
        draw(read_results(arguments.results), arguments.results.parent)
        return
    arguments.words += arguments.both
    arguments.letters += arguments.both
    names = [f"{corpus} {share:g}" for corpus in arguments.only or ("keyboard", "scotus") for share in SHARES]
    say(in_turn(names, arguments.results, lambda name: inspected(name, arguments), arguments.minutes))


if __name__ == "__main__":
    main()
