"""The public files of a run: every file that may be shown to anybody, listed once.

The guarantee speaks of these files ("What is released"), and the neighbour tests compare every byte of them between two data
sets that differ in one user. Every other file in a run's folder, above all in `private/`, is for the run's owner alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.privacy.record.records import Opened
from tacit.runs.folder import RunFolder


@dataclass(frozen=True)
class PublicFile:
    """Files of a run folder that match `path`, and what they say."""

    path: str
    what: str


WITNESSED = PublicFile("head.txt", "the last head of the ledger that the run's witness signed")
# Made of the other public files for whoever asks for it, so no statement names it: tacit certify RUN --out RUN/certificate.json
CERTIFICATE = PublicFile("certificate.json", "the run's certificate, which others check without Tacit")

PUBLIC: tuple[PublicFile, ...] = (
    PublicFile("run.json", "which run this is, and when it was begun"),
    PublicFile("recipe.toml", "everything the run was told"),
    PublicFile("vocabulary.txt", "the words that the model knows"),
    PublicFile("ledger.jsonl", "every release: its noise, its bounds, its sampling constants"),
    WITNESSED,
    PublicFile("checkpoints/*.safetensors", "models after some of the rounds, and the state of the server's optimizer"),
    PublicFile("pretrained/*.safetensors", "the model that public data made, before the first round"),
    PublicFile("metrics.jsonl", "accuracy on held-out users, round by round"),
    PublicFile("summary.json", "the result, with accuracy and baselines measured on held-out users"),
    PublicFile("sections/*.json", "parts of the report for everybody"),
    PublicFile("report.html", "the report that `tacit report --share` writes"),
)


# Those of a discovery of words, which trains no model.
OF_WORDS: tuple[PublicFile, ...] = (
    PublicFile("run.json", "which run this is, and when it was begun"),
    PublicFile("recipe.toml", "everything the run was told"),
    PublicFile("ledger.jsonl", "the release: its noise and its bounds"),
    WITNESSED,
    PublicFile("totals.json", "the noised totals"),
    PublicFile("vocabulary.txt", "the words that were chosen by these totals"),
    PublicFile("summary.json", "how many words there are, and what they cost"),
    PublicFile("sections/*.json", "parts of the report for everybody"),
    PublicFile("report.html", "the report that `tacit report --share` writes"),
)


# Those of a discovery of words letter by letter: a release in every round.
OF_LETTERS: tuple[PublicFile, ...] = (
    *OF_WORDS[:2],
    PublicFile("ledger.jsonl", "every release: its noise, its bounds, its sampling constants"),
    WITNESSED,
    PublicFile("checkpoints/*.safetensors", "noised totals, prefixes and words after some of the rounds"),
    PublicFile("metrics.jsonl", "how many prefixes and words there were, round by round"),
    PublicFile("totals.json", "the words that were found, with their noised totals"),
    *OF_WORDS[5:],
)


def released_files(opened: Opened) -> tuple[str, ...]:
    """The files that a statement names as the outcome, a line each."""
    public = OF_LETTERS if opened.letters is not None else OF_WORDS if opened.finds_words else PUBLIC
    there = (each for each in public if each is not WITNESSED or opened.witness is not None)
    return tuple(f"{each.path}: {each.what}" for each in there)


def public_paths(folder: RunFolder) -> dict[str, Path]:
    """Every public file that there is, by its path in the run's folder. A link is left out: it may lead to any file."""
    patterns = dict.fromkeys(public.path for public in (*PUBLIC, *OF_WORDS, CERTIFICATE))
    found = (path for pattern in patterns for path in sorted(folder.path.glob(pattern)))
    return {str(path.relative_to(folder.path)): path for path in found if path.is_file() and not path.is_symlink()}


def public_files(folder: RunFolder) -> dict[str, bytes]:
    """The content of every public file that there is, by its path in the run's folder."""
    return {name: path.read_bytes() for name, path in public_paths(folder).items()}
