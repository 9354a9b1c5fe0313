"""`tacit data`: import users' data, make a vocabulary, and show how much there is, but never a text or an id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.data import StoreResult, VocabularyResult
from tacit.data import build
from tacit.data.build import disk_errors
from tacit.data.formats import FORMATS, ReadOptions, read
from tacit.data.formats.npz import Fields
from tacit.data.formats.pixels import Ink
from tacit.data.importing import PrivateVocabulary, import_images, import_text
from tacit.data.sources import ImageSource, Source, TextSource
from tacit.data.store import Caps, Store, open_store
from tacit.data.summary import summarise
from tacit.data.vocabulary import Vocabulary, checked_size, count_vocabulary, load_vocabulary, public_corpus
from tacit.errors import DataError

app = Commands(
    help="Import users' data, make vocabularies, and show how much data there is.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"The format of the files, if their names do not show it: {', '.join(FORMATS)}."),
]
UserOption = Annotated[str | None, typer.Option("--user", help="The column with the user's id.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text", help="The column with the text, a string or a list of strings (each an example)."),
]


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="The files to read (or folders of Hugging Face's datasets), all of text or all of images."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The store to make: a new folder.")],
    user: UserOption = None,
    text: TextOption = None,
    format: FormatOption = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            help="A vocabulary made by `tacit data vocabulary`, or a public word list (one word a line).",
        ),
    ] = None,
    vocabulary_private: Annotated[
        int | None,
        typer.Option(
            "--vocabulary-private",
            metavar="N",
            help="Count a vocabulary of N entries on these users. Every epsilon stated on this store is then infinite.",
        ),
    ] = None,
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out",
            metavar="SHARE",
            help="Hold out about this share of the users, each by a hash of their own id: nothing is ever trained on them.",
        ),
    ] = build.HELD_OUT_SHARE,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            help="A file of 32 secret bytes with which user ids are hashed. Two imports with the same key hold out the same "
            "people. Anybody who has the key can look up a known id in the store.",
            show_default="a random key that is not kept",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Keep only the first N tokens of each user.", metavar="N")
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option("--max-examples", help="Keep only the first N examples of each user.", metavar="N")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="datasets, tff-sqlite: only this split (train, test, ...).")
    ] = None,
    images_field: Annotated[str, typer.Option("--images", help="npz: the array of images.")] = "images",
    labels_field: Annotated[str, typer.Option("--labels", help="npz: the array of labels.")] = "labels",
    writers_field: Annotated[str, typer.Option("--writers", help="npz: the array of writers.")] = "writers",
    ink: Annotated[str, typer.Option("--ink", help="npz: whether ink is bright or dark.")] = "bright",
    convert_images: Annotated[
        bool,
        typer.Option(
            "--convert-images",
            help="npz: turn images of other sizes and colours into 28×28 grey ones, by a fixed rule.",
        ),
    ] = False,
    plain_quotes: Annotated[
        bool, typer.Option("--plain-quotes", help="csv: quotes are characters like any other, and enclose no values.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a store of users' texts or images.

    Rows may be in any order, and there may be more of them than fit into memory.
    Compressed files (.gz, .zst) need not be unpacked.
    User ids are hashed with a random key that is not kept, unless --key-file gives one.

    Example: tacit data import chat.jsonl.gz --user user --text sentences --vocabulary english.vocab --out chat
    """
    caps = Caps(tokens=_cap("--max-tokens", max_tokens), examples=_cap("--max-examples", max_examples))
    if ink not in ("bright", "dark"):
        raise DataError(f"Expected --ink bright or dark, got {ink!r}.")
    fields = Fields(images_field, labels_field, writers_field)
    options = ReadOptions(format, user, text, split, fields, cast(Ink, ink), convert_images, not plain_quotes)
    wanted = _wanted_vocabulary(vocabulary, vocabulary_private)
    share, key = build.checked_share(held_out), None if key_file is None else _key(key_file)
    sources = [read(file, options) for file in files]
    with _progress() as progress:
        if all(isinstance(source, ImageSource) for source in sources):
            if wanted is not None:
                raise DataError(f"{files[0]} holds images, which have no vocabulary.")
            store = import_images(
                cast("list[ImageSource]", sources), out, held_out=share, key=key, caps=caps, progress=progress
            )
        elif all(isinstance(source, TextSource) for source in sources):
            if wanted is None:
                raise DataError(
                    "Text needs a vocabulary, and none was given.",
                    hint="Add --vocabulary FILE (public words), or --vocabulary-private N (makes every epsilon infinite).",
                )
            texts = cast("list[TextSource]", sources)
            store = import_text(texts, out, vocabulary=wanted, held_out=share, key=key, caps=caps, progress=progress)
        else:
            raise DataError("Some of the files hold texts and some hold images: import them separately.")
    _print(store, as_json)


@app.command("vocabulary")
def vocabulary_(
    out: Annotated[Path, typer.Option("--out", help="The vocabulary file to write.")],
    size: Annotated[int, typer.Option("--size", help="How many entries, the four reserved ones included.")] = 10_000,
    corpus: Annotated[
        list[Path] | None, typer.Option("--corpus", help="A file of public text, in any format that can be imported.")
    ] = None,
    public_name: Annotated[
        str | None, typer.Option("--public-name", help="The name of the public corpus, as guarantees will state it.")
    ] = None,
    words: Annotated[Path | None, typer.Option("--words", help="A public word list, one word a line.")] = None,
    user: UserOption = None,
    text: TextOption = None,
    format: FormatOption = None,
    as_json: Json = False,
) -> None:
    """Make a vocabulary of the most frequent words of a public corpus, or of a word list.

    A vocabulary counted on private users reveals something about them, so this command is for public text only.

    Example: tacit data vocabulary --corpus wiki.jsonl --user page --text text --public-name Wikipedia --out wiki.vocab
    """
    checked_size(size)
    if out.exists():
        raise DataError(f"{out} exists already; expected the name of a new file.")
    if (words is None) == (not corpus):
        raise DataError("Expected either --corpus or --words, got both or neither.")
    if words is not None:
        made = load_vocabulary(words, size=size)
    else:
        if public_name is None:
            raise DataError("--corpus needs --public-name: guarantees name it as the source of the words.")
        provenance = public_corpus(public_name)
        sources = [read(path, ReadOptions(format, user, text)) for path in corpus or []]
        with _progress() as progress:
            made = count_vocabulary(_texts(sources, progress), size=size, provenance=provenance)
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


@app.command()
def show(
    store: Annotated[Path, typer.Argument(help="A store that `tacit data import` made.")], as_json: Json = False
) -> None:
    """Show counts and quantiles of a store; never a text, never an id.

    The figures are exact and no guarantee covers them: they are for people who may read the store anyway.

    Example: tacit data show chat
    """
    _print(open_store(store), as_json)


def _cap(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise DataError(f"Expected {option} of at least 1, got {value}.")
    return value


def _key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError as error:
        raise DataError(f"The key file {path} cannot be read: {error.strerror}.") from None
    if len(key) != build.KEY_BYTES:
        raise DataError(f"Expected exactly {build.KEY_BYTES} bytes in the key file {path}, got {len(key)}.")
    return key


def _wanted_vocabulary(file: Path | None, private: int | None) -> Vocabulary | PrivateVocabulary | None:
    if file is not None and private is not None:
        raise DataError("Expected --vocabulary or --vocabulary-private, got both.")
    if private is not None:
        return PrivateVocabulary(checked_size(private))
    return None if file is None else load_vocabulary(file)


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


@contextmanager
def _progress() -> Iterator[build.Progress]:
    """A progress bar on stderr, if stderr is a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report


def _print(store: Store, as_json: bool) -> None:
    summary = summarise(store)
    if as_json:
        emit(StoreResult, summary)
        return
    console = Console()
    console.print(f"[bold]{escape(str(store.path))}[/]: {_headline(summary)}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    rows = {
        "examples a user": "examples_per_user",
        "tokens a user": "tokens_per_user",
        "tokens an example": "tokens_per_example",
    }
    for i, (title, key) in enumerate((title, key) for title, key in rows.items() if summary.get(key)):
        if i == 0:
            for name in summary[key]:
                table.add_column(_quantile_name(name), justify="right")
        table.add_row(title, *(f"{value:,}" for value in summary[key].values()))
    console.print(table)
    for line in _remarks(summary):
        console.print(line, highlight=False, soft_wrap=True)


def _headline(summary: dict[str, Any]) -> str:
    if summary["kind"] == "image":
        return f"{summary['users']:,} users, {summary['examples']:,} images, {summary['classes']} classes"
    return f"{summary['users']:,} users, {summary['examples']:,} examples, {summary['tokens']:,} tokens"


def _remarks(summary: dict[str, Any]) -> Iterator[str]:
    held_out = summary["held_out"]
    yield f"held out: {held_out['users']:,} users, about {held_out['share']:.3g} of all; nothing is ever trained on them"
    if summary["kind"] == "image":
        yield f"read from: {escape('; '.join(summary['sources']))}"
    vocabulary = summary.get("vocabulary")
    if vocabulary is not None:
        share = f"{100 * summary['out_of_vocabulary']:.1f}%"
        source = escape(vocabulary["provenance"])
        yield f"vocabulary: {vocabulary['size']:,} entries, {source}; {share} of the tokens are outside it"
        if not vocabulary["public"]:
            yield "[yellow]The words were counted on the users themselves: every epsilon stated on this store is infinite.[/]"
    for name, cap in summary["caps"].items():
        if cap is not None:
            yield f"cap: {cap:,} {name} a user"
    for reason, count in summary["skipped"].items():
        yield f"left out: {count:,} {reason}"
    yield "These are exact figures about private users. No guarantee covers them."


def _quantile_name(key: str) -> str:
    return {"p0": "least", "p50": "median", "p100": "most"}.get(key, key.removeprefix("p") + "%")
