"""`tacit data`: import users' data, make a vocabulary, and show how much there is, but never a text or an id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.data_files import FormatOption, TextOption, UserOption, progress_bar
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.data import StoreResult
from tacit.cli.shard import shard
from tacit.cli.vocabulary import vocabulary
from tacit.data import build
from tacit.data.formats import ReadOptions, read
from tacit.data.formats.npz import Fields
from tacit.data.formats.pixels import Ink
from tacit.data.importing import PrivateVocabulary, import_images, import_text
from tacit.data.sources import ImageSource, TextSource
from tacit.data.store import Caps, Store, open_store
from tacit.data.summary import NOT_COVERED, summarise
from tacit.data.vocabulary import Vocabulary, checked_size, load_vocabulary
from tacit.errors import DataError

app = Commands(
    help="Import users' data, make vocabularies, and show how much data there is.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command("vocabulary")(vocabulary)
app.command("shard")(shard)


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
    with progress_bar() as progress:
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


# Real text and a fitting list of words stay far below this share of tokens outside the vocabulary.
_MOST_OUTSIDE = 0.5


@app.command()
def show(
    store: Annotated[str, typer.Argument(help="A store that `tacit data import` made: a folder, or its URL.")],
    as_json: Json = False,
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
        if summary["out_of_vocabulary"] > _MOST_OUTSIDE:
            yield (
                "[yellow]Warning: most of the text is outside the vocabulary. Is the vocabulary of another language, or are "
                "--user and --text exchanged?[/]"
            )
        if not vocabulary["public"]:
            yield "[yellow]The words were counted on the users themselves: every epsilon stated on this store is infinite.[/]"
    for name, cap in summary["caps"].items():
        if cap is not None:
            yield f"cap: {cap:,} {name} a user"
    for reason, count in summary["skipped"].items():
        yield f"left out: {count:,} {reason}"
    yield NOT_COVERED


def _quantile_name(key: str) -> str:
    return {"p0": "least", "p50": "median", "p100": "most"}.get(key, key.removeprefix("p") + "%")
