"""The command as a whole: help, refusals in one sentence, and nothing heavy before it is needed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tacit import __version__
from tacit.cli import app as module
from tacit.cli.commands import _with_flags
from tacit.errors import DataError, RunError, TacitError
from tests.support.commands import Tacit, everything

WORDS = "the\nend\n"
ROW = json.dumps({"user": "ann", "text": "the end"}) + "\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ("train", "predict", "data", "runs", "text nobody may look at")),
        (("train", "--help"), ("--set", "--out", "--resume", "--json", "Ctrl-C", "Example: tacit train")),
        (("predict", "-h"), ("--count", "--json", "Example: tacit predict")),
        (("data", "--help"), ("import", "vocabulary", "show")),
        (("runs", "--help"), ("list", "show", "compare")),
        (("serve", "--help"), ("--role", "A recipe with a [fleet] section")),
    ],
)
def test_help_names_what_there_is(
    tacit: Tacit, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    answer = tacit(*arguments)
    assert (answer.code, answer.err) == (0, "")
    for word in words:
        assert word in answer.out


def test_the_version(tacit: Tacit) -> None:
    answer = tacit("--version")
    assert (answer.code, answer.out, answer.err) == (0, f"tacit {__version__}\n", "")


@pytest.mark.process
def test_plain_commands_and_refusals_do_not_wait_for_jax(tmp_path: Path) -> None:
    code = """
import sys
from tacit.cli.app import main
for line in sys.stdin.read().splitlines():
    try:
        main(line.split())
    except SystemExit as ended:
        print(line, ended.code, "jax" in sys.modules, file=sys.stderr)
"""
    lines = ["--help", "runs", "runs --help", "data --help", "train --help", "train nothing", "train --resume nothing"]
    ended = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(lines), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    told = [line for line in ended.stderr.splitlines() if not line.startswith(("error:", "hint:"))]
    codes = [0, 0, 0, 0, 0, 2, 4]
    assert told == [f"{line} {code} False" for line, code in zip(lines, codes, strict=True)]


@pytest.mark.process
def test_the_installed_command_answers(tmp_path: Path) -> None:
    """A real process: its exit code, its two streams, and a terminal that knows only ASCII."""
    command = Path(sys.executable).with_name("tacit")
    if not command.exists():
        pytest.skip("the package is not installed beside this Python")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    arguments = [str(command), "train", "--set", "privacy.cohort=9e9", "--json"]
    ended = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"error: Expected privacy.cohort")
    assert ended.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        DataError("Expected a colour, got [red]x[/red] and a \\."),
        RunError("Expected [/], got [bold].", hint="Say [b]so[/b]."),
        TacitError("Expected one\nline."),
    ],
)
def test_what_a_person_typed_is_printed_as_it_is(
    tacit: Tacit, monkeypatch: pytest.MonkeyPatch, error: TacitError
) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(module, "build", lambda _: fail)
    answer = tacit()
    assert answer.refusal(error.exit_code) == error.sentence.replace("\n", " ")
    if error.hint is not None:
        assert answer.err.splitlines()[1] == f"hint: {error.hint}"


def test_markup_in_an_argument_is_printed_as_it_is(tacit: Tacit, here: Path) -> None:
    assert tacit("train", "[red]").refusal(2) == "Expected a recipe file, got '[red]', which does not exist."
    assert "got [bold]no[/], which does not exist" in tacit("predict", "[bold]no[/]").refusal(4)
    assert "got \"[red]\"" in tacit("train", "tiny.toml", "--set", "data.world=[red]").refusal(2)  # fmt: skip
    (here / "runs" / "[red]").mkdir(parents=True)
    (here / "runs" / "[red]" / "run.json").write_text("{}")
    assert "runs/[red]" in tacit("runs").out


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "build", lambda _: fail)
    with pytest.raises(ZeroDivisionError):
        module.main()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("no_column.jsonl", b'{"author": "ann", "text": "hi"}\n', "no column 'user'"),
        ("no_column.csv", b"author,text\nann,hi\n", "no column 'user'"),
        ("cut.jsonl.gz", gzip.compress(ROW.encode() * 1000)[:-20], "cut.jsonl.gz"),
        ("empty.jsonl", b"", "empty.jsonl"),
        ("empty.csv", b"", "empty.csv"),
        ("empty.jsonl.gz", b"", "empty.jsonl.gz"),
        ("nul.jsonl", ROW.encode() + b'{"user": "ann", "text": "a\0b"}\n', "nul.jsonl, line 2"),
        ("nul.csv", b"user,text\nann,a\0b\n", "nul.csv"),
        ("latin1.jsonl", ROW.encode() + b'{"user": "ann", "text": "caf\xe9"}\n', "latin1.jsonl, line 2"),
        ("latin1.csv", b"user,text\nann,caf\xe9\n", "latin1.csv"),
        ("long.jsonl", json.dumps({"user": "x" * 10_000_000, "text": "hi"}).encode() + b"\n", "long.jsonl, line 1"),
        ("long.csv", b"user,text\n" + b"x" * 10_000_000 + b",hi\n", "long.csv"),
        ("parquet.parquet", b"PAR1 and then nothing", "parquet.parquet"),
        ("missing.jsonl", None, "missing.jsonl"),
    ],
)
def test_data_that_cannot_be_read(tacit: Tacit, here: Path, name: str, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (here / name).write_bytes(content)
    (here / "words.txt").write_text(WORDS)
    before = everything(here)
    columns = ("--user", "user", "--text", "text")
    told = tacit("data", "import", name, *columns, "--vocabulary", "words.txt", "--out", "store", "--json").refusal(3)
    assert sentence in told
    assert len(told) < 400
    assert "xxx" not in told  # a user's id
    assert "café" not in told
    assert everything(here) == before
    assert not (here / "store").exists()


def test_a_vocabulary_of_size_nothing(tacit: Tacit, here: Path) -> None:
    (here / "words.txt").write_text("")
    (here / "chat.jsonl").write_text(ROW)
    columns = ("--user", "user", "--text", "text")
    assert "got 0" in tacit(
        "data", "import", "chat.jsonl", *columns, "--vocabulary-private", 0, "--out", "store"
    ).refusal(3)
    tacit("data", "import", "chat.jsonl", *columns, "--vocabulary", "words.txt", "--out", "store").refusal(3)
    assert "got 0" in tacit("train", "tiny.toml", "--set", "data.vocabulary=0").refusal(2)
    assert sorted(path.name for path in here.iterdir()) == ["chat.jsonl", "tiny.toml", "words.txt"]


def test_a_store_is_never_overwritten(tacit: Tacit, here: Path) -> None:
    (here / "words.txt").write_text(WORDS)
    (here / "chat.jsonl").write_text(ROW)
    (here / "mine").mkdir()
    (here / "mine" / "letter.txt").write_text("dear diary")
    command = ("data", "import", "chat.jsonl", "--user", "user", "--text", "text", "--vocabulary", "words.txt", "--out")
    assert "mine" in tacit(*command, "mine").refusal(3)
    assert everything(here / "mine") == {"letter.txt": b"dear diary"}


def test_the_line_of_a_command_in_the_list_is_the_first_of_its_help() -> None:
    """Only the command that is asked for is imported, so the list has the lines of the others."""
    for name, (path, line) in module.COMMANDS.items():
        where, _, attribute = path.partition(":")
        command = getattr(import_module(where), attribute)
        command = command(frozenset()) if attribute == "build" else command
        text = command.info.help if isinstance(command, typer.Typer) else command.__doc__
        assert " ".join(text.strip().split("\n\n")[0].split()) == line, name


def test_the_help_is_the_same_whichever_commands_are_loaded(tacit: Tacit, monkeypatch: pytest.MonkeyPatch) -> None:
    short = tacit("--help").out
    with_all = module.complete()
    monkeypatch.setattr(module, "build", lambda _: with_all)
    assert tacit("--help").out == short


def test_a_repeated_option_without_a_described_type_is_left_as_it_is():
    """Older versions of Typer have no `type_descriptor`."""
    option = SimpleNamespace(is_flag=False, param_type_name="option", multiple=True, metavar=None)
    assert _with_flags([option]) == [option]
    assert option.metavar is None
