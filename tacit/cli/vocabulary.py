"""`tacit data vocabulary`: words of a public text, of a public list, or of private users under differential privacy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from tacit.cli.data_files import FormatOption, TextOption, UserOption, progress_bar
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.data import VocabularyResult
from tacit.data import build
from tacit.data.folders import disk_errors
from tacit.data.formats import ReadOptions, read
from tacit.data.sources import Source, TextSource
from tacit.data.users import FIRST_WORD
from tacit.data.vocabulary import (
    Vocabulary,
    checked_size,
    count_vocabulary,
    discovered_by,
    load_vocabulary,
    public_corpus,
)
from tacit.errors import DataError
from tacit.mistakes import recipe_error
from tacit.privacy.statement.wording import round_up

if TYPE_CHECKING:
    from tacit.runs.folder import RunFolder


def vocabulary(
    out: Annotated[
        Path, typer.Option("--out", help="The vocabulary file to write; with --private, the folder of the run.")
    ],
    size: Annotated[int, typer.Option("--size", help="How many entries, the four reserved ones included.")] = 10_000,
    corpus: Annotated[
        list[Path] | None, typer.Option("--corpus", help="A file of public text, in any format that can be imported.")
    ] = None,
    public_name: Annotated[
        str | None, typer.Option("--public-name", help="The name of the public corpus, as guarantees will state it.")
    ] = None,
    words: Annotated[
        Path | None, typer.Option("--words", help="A public word list, one word a line, the most frequent first.")
    ] = None,
    user: UserOption = None,
    text: TextOption = None,
    format: FormatOption = None,
    private: Annotated[
        Path | None,
        typer.Option(
            "--private",
            metavar="STORE",
            help="Discover words on the users of this store under differential privacy, on top of --words or without them.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="--private: what the discovery may cost.", show_default="1")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="--private: δ of the discovery by itself.", show_default="1e-7"),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option("--population", help="--private: how many users there are, a public estimate.", metavar="N"),
    ] = None,
    sure: Annotated[
        int | None,
        typer.Option("--sure", help="--private: so many first words of the list get a place unasked.", metavar="N"),
    ] = None,
    rare: Annotated[
        Path | None,
        typer.Option(
            "--rare",
            metavar="VOCABULARY|RUN",
            help="--private: discover only words that this vocabulary, or the model of this run, does not have.",
        ),
    ] = None,
    letters: Annotated[
        bool,
        typer.Option(
            "--letters", help="--private: find words letter by letter, as devices can: from noised sums, without words."
        ),
    ] = False,
    alphabet: Annotated[
        str | None, typer.Option("--alphabet", help="--letters: the letters of words.", show_default="a-z, 0-9 and '")
    ] = None,
    longest: Annotated[
        int | None, typer.Option("--longest", help="--letters: letters of the longest words.", show_default="13")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", help="--letters: in how many rounds words grow.", show_default="7"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a vocabulary: of a public text, of a word list, or of the words that private users are found to use.

    Words that are counted on private users reveal something about them. With --private they are discovered under
    differential privacy: noise is added to how much each word is used, and a word that is on no public list must
    reach a threshold. That is a run with a ledger, and `tacit guarantee` states its cost. To train with the words, name the
    run in the recipe: [vocabulary] run = "...". Its cost is then part of the training run's. With --rare, the words are
    shown that people use and that an earlier vocabulary does not have. With --letters, words are found letter by letter in
    several rounds, as on devices, where nobody sees words. That finds fewer words at the same cost.

    Example: tacit data vocabulary --corpus wiki.jsonl --user page --text text --public-name Wikipedia --out wiki.vocab

    Example: tacit data vocabulary --private chat --words english.txt --population 10000 --out runs/words

    Example: tacit data vocabulary --private chat --rare runs/words --population 10000 --out runs/new-words

    Example: tacit data vocabulary --private chat --letters --words english.txt --population 10000 --out runs/by-letters
    """
    checked_size(size)
    if private is not None:
        if corpus:
            raise DataError("Expected --private or --corpus, got both.", hint="Public words go with --words.")
        if rare is not None and (words is not None or sure is not None):
            raise DataError(
                f"Expected --rare without {'--words' if words is not None else '--sure'}: only words outside {rare} are "
                "looked for, and each of them must reach the threshold."
            )
        if letters:
            if sure is not None:
                raise DataError(
                    "Expected --letters without --sure: words of a list are not asked for letter by letter."
                )
            shape = {"alphabet": alphabet, "longest": longest, "words": None if words is None else str(words)}
            shape |= {"outside": None if rare is None else str(rare)}
            _discover_letters(private, out, size, population, epsilon, delta, rounds, shape, as_json)
            return
        if alphabet is not None or longest is not None or rounds is not None:
            raise DataError("Expected --alphabet, --longest and --rounds with --letters only.")
        settings = {"epsilon": epsilon, "sure": sure, "words": None if words is None else str(words)}
        _discover(private, out, size, population, delta, rare, settings, as_json)
        return
    if letters:
        raise DataError("Expected --letters with --private only: public words are read as they are.")
    given = {"--epsilon": epsilon, "--delta": delta, "--population": population, "--sure": sure, "--rare": rare}
    if unused := next((name for name, value in given.items() if value is not None), None):
        raise DataError(f"Expected {unused} with --private only: public words cost nothing.")
    if out.exists():
        raise DataError(f"{out} exists already; expected the name of a new file.")
    made = _public(size, corpus, public_name, words, ReadOptions(format, user, text))
    with disk_errors(out):
        made.save(out)
    summary = {
        "vocabulary": str(out),
        "size": len(made),
        "provenance": made.provenance,
        "fingerprint": made.fingerprint,
    }
    if as_json:
        emit(VocabularyResult, summary)
    else:
        print(f"{out}: {len(made):,} entries, {made.provenance}.")


def _public(
    size: int, corpus: list[Path] | None, public_name: str | None, words: Path | None, options: ReadOptions
) -> Vocabulary:
    if (words is None) == (not corpus):
        raise DataError("Expected either --corpus or --words, got both or neither.")
    if words is not None:
        return load_vocabulary(words, size=size, on_warning=_warn)
    if public_name is None:
        raise DataError("--corpus needs --public-name: guarantees name it as the source of the words.")
    provenance = public_corpus(public_name)
    sources = [read(path, options) for path in corpus or []]
    with progress_bar() as progress:
        return count_vocabulary(_texts(sources, progress), size=size, provenance=provenance)


def _discover(
    store: Path,
    out: Path,
    size: int,
    population: int | None,
    delta: float | None,
    rare: Path | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    from tacit.recipe.sections import VocabularySection
    from tacit.runs.finding import refuse_if_taken
    from tacit.training.vocabularies import discover_words

    population = _required(population)
    refuse_if_taken(out)
    try:
        section = VocabularySection(size=size, **{name: value for name, value in settings.items() if value is not None})
    except ValidationError as error:
        raise recipe_error(error, VocabularySection, what="vocabulary", section=("vocabulary",)) from None
    folder = discover_words(
        section, store, out, population=population, delta=1e-7 if delta is None else delta, outside=rare
    )
    _show(folder, rare, as_json)


def _discover_letters(
    store: Path,
    out: Path,
    size: int,
    population: int | None,
    epsilon: float | None,
    delta: float | None,
    rounds: int | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    from rich.console import Console

    from tacit.cli.running import interruptible
    from tacit.recipe.letters import LettersSection
    from tacit.runs.finding import refuse_if_taken
    from tacit.runs.folder import RunFolder
    from tacit.runs.progress import Progress

    population = _required(population)
    refuse_if_taken(out)
    try:
        section = LettersSection(size=size, **{name: value for name, value in settings.items() if value is not None})
    except ValidationError as error:
        raise recipe_error(error, LettersSection, what="vocabulary", section=("letters",)) from None
    console = Console(stderr=True)
    with interruptible(console, out, "train"):
        from tacit.simulation.training import start_run
        from tacit.training.letter_discovery import recipe_for_store

        recipe = recipe_for_store(
            section,
            store,
            population=population,
            epsilon=1.0 if epsilon is None else epsilon,
            delta=1e-7 if delta is None else delta,
            rounds=7 if rounds is None else rounds,
        )
        with Progress(console=console) as progress:
            start_run(recipe, out, progress)
    _show(RunFolder.open(out), None if section.outside is None else Path(section.outside), as_json)


def _required(population: int | None) -> int:
    if population is None:
        raise DataError(
            "--private needs --population: a public estimate of how many users there are.",
            hint="The exact number is private, so Tacit does not count it for you.",
        )
    return population


def _show(folder: RunFolder, rare: Path | None, as_json: bool) -> None:
    """What a discovery found and what it cost; `rare`: it looked outside this vocabulary alone."""
    summary = folder.summary() or {}
    for sentence in summary["warnings"]:
        _warn(sentence)
    if as_json:
        emit(VocabularyResult, _result(folder, summary, rare is not None))
        return
    if rare is None:
        _print_words(folder, summary)
    else:
        _print_rare_words(folder, summary, rare)
    privacy = summary["privacy"]
    if privacy["epsilon"] is None:
        cost = f"It can claim no privacy, because {'; '.join(privacy['reasons_not_private'])}."
    else:
        cost = f"It cost epsilon {round_up(privacy['epsilon'])} at delta {privacy['delta']:g}."
    print(f"{cost} The statement: tacit guarantee {folder.path}")
    if rare is None:
        print(f'To train with these words, add to the recipe:\n\n[vocabulary]\nrun = "{folder.path}"')


def _result(folder: RunFolder, summary: dict[str, Any], rare: bool) -> dict[str, Any]:
    """What --json prints of a discovery."""
    from tacit.runs.word_discovery import words_of

    privacy, words = summary["privacy"], words_of(folder)
    vocabulary = Vocabulary(words, discovered_by(folder.run_id)) if words else None
    return {
        "vocabulary": None if vocabulary is None else str(folder.vocabulary_path),
        "size": 0 if vocabulary is None else len(vocabulary),
        "provenance": discovered_by(folder.run_id),
        "fingerprint": None if vocabulary is None else vocabulary.fingerprint,
        "run": str(folder.path),
        "found": summary["found"],
        "epsilon": privacy["epsilon"],
        "delta": privacy["delta"],
        "warnings": summary["warnings"],
        **({"totals": _totals(folder)} if rare else {}),
    }


def _totals(folder: RunFolder) -> dict[str, float]:
    """The words that were found, the most used first, with their noised totals."""
    from tacit.runs.word_discovery import totals_of, words_of

    found = totals_of(folder).found
    return {word: found[word] for word in words_of(folder)}


def _print_words(folder: RunFolder, summary: dict[str, Any]) -> None:
    listed = summary["words"] - summary["found"]
    found = {0: "none was", 1: "1 was"}.get(summary["found"], f"{summary['found']:,} were")
    print(
        f"{folder.vocabulary_path}: {summary['words'] + FIRST_WORD:,} entries; {listed:,} are words of the public list, "
        f"{found} found."
    )


def _print_rare_words(folder: RunFolder, summary: dict[str, Any], known: Path) -> None:
    threshold = f"the noised total that a word must reach is {summary['threshold']:.1f}"
    if not summary["found"]:
        print(f"No word was found that {known} does not have: {threshold}.")
        return
    words = "1 word was" if summary["found"] == 1 else f"{summary['found']:,} words were"
    print(f"{words} found that {known} does not have; {threshold}:\n")
    for word, total in _totals(folder).items():
        print(f"{total:12,.1f}  {word}")
    print()


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr)


def _texts(sources: list[Source], progress: build.Progress) -> Iterator[str]:
    count = 0
    for source in sources:
        if not isinstance(source, TextSource):
            raise DataError(f"{source.name} holds images; expected text.")
        for _, _, text in source.rows:
            yield text
            count += 1
            if count % 10_000 == 0:
                progress("counting words", count, None)
