from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli.data import app
from tacit.data.store import open_store
from tacit.errors import DataError, StoreError

SECRET = "xylophone"
USER = "somebody@example.org"


def run(*arguments: object) -> str:
    """What the command printed on stdout."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    records = [{"user": USER, "said": [f"the {SECRET}", "the end ."]}, {"user": "bob", "said": ["the beginning"]}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("the\nend\n")
    return path


def test_import_and_show(tmp_path: Path, chat: Path, words: Path) -> None:
    out = tmp_path / "store"
    columns = ("--user", "user", "--text", "said")
    printed = run("import", chat, *columns, "--vocabulary", words, "--out", out)
    assert "2 users, 3 examples, 7 tokens" in printed
    assert "word list: words.txt" in printed
    assert "infinite" not in printed
    shown = run("show", out)
    assert shown == printed
    for private in (SECRET, USER, "somebody", *open_store(out).pseudonyms(np.arange(2))):
        assert private not in shown


def test_exchanged_columns_are_noticed(tmp_path: Path, words: Path) -> None:
    asks, table = "are --user and --text exchanged?", tmp_path / "chat.csv"
    table.write_text("user,said\nann,the end\nbob,the end\n")
    exchanged = run("import", table, "--user", "said", "--text", "user", "--vocabulary", words, "--out", tmp_path / "a")
    assert asks in exchanged
    right = run("import", table, "--user", "user", "--text", "said", "--vocabulary", words, "--out", tmp_path / "b")
    assert asks not in right


def test_json_is_one_object(tmp_path: Path, chat: Path, words: Path) -> None:
    out = tmp_path / "store"
    columns = ("--user", "user", "--text", "said")
    printed = json.loads(run("import", chat, *columns, "--vocabulary", words, "--out", out, "--json"))
    assert printed == json.loads(run("show", out, "--json"))
    assert (printed["users"], printed["examples"], printed["tokens"]) == (2, 3, 7)
    assert printed["tokens_per_user"]["p100"] == 5
    assert printed["examples_per_user"]["p0"] == 1
    assert printed["out_of_vocabulary"] == pytest.approx(3 / 7)
    assert printed["vocabulary"]["public"] is True
    assert SECRET not in json.dumps(printed)


def test_a_private_vocabulary_is_said_to_cost_everything(tmp_path: Path, chat: Path) -> None:
    arguments = ("import", chat, "--user", "user", "--text", "said", "--vocabulary-private", "6")
    printed = run(*arguments, "--held-out", "0", "--max-tokens", "4", "--out", tmp_path / "s")
    assert "every epsilon stated on this store is infinite" in printed
    assert "cap: 4 tokens a user" in printed
    summary = json.loads(run("show", tmp_path / "s", "--json"))
    assert summary["vocabulary"]["public"] is False
    assert summary["held_out"] == {"share": 0.0, "users": 0}


def test_a_key_file_names_the_same_people_alike(tmp_path: Path, chat: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "short").write_bytes(b"k" * 31)
    arguments = ("import", chat, "--user", "user", "--text", "said", "--vocabulary-private", "6")
    for name in ("a", "b"):
        run(*arguments, "--key-file", tmp_path / "key", "--out", tmp_path / name)
    run(*arguments, "--out", tmp_path / "c")
    a, b, c = ((tmp_path / name / "users.bin").read_bytes() for name in "abc")
    assert a == b != c
    with pytest.raises(DataError, match="exactly 32 bytes in the key file"):
        run(*arguments, "--key-file", tmp_path / "short", "--out", tmp_path / "d")


def test_images(tmp_path: Path) -> None:
    path = tmp_path / "i.npz"
    np.savez(path, pictures=np.zeros((2, 28, 28), np.uint8), labels=np.array([1, 2]), writers=np.array([7, 7]))
    printed = run("import", path, "--images", "pictures", "--out", tmp_path / "s")
    assert "1 users, 2 images, 2 classes" in printed
    assert run("show", tmp_path / "s") == printed


TABLE = ("--user", "user", "--text", "said")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*TABLE,), "Text needs a vocabulary"),
        ((*TABLE, "--vocabulary-private", 0), "vocabulary size of at least 5 .*got 0"),
        ((*TABLE, "--vocabulary-private", 9, "--vocabulary", "words.txt"), "got both"),
        ((*TABLE, "--vocabulary", "missing"), "no vocabulary file missing"),
        ((*TABLE, "--vocabulary-private", 9, "--held-out", 2), "from 0 to below 1, got 2"),
        ((*TABLE, "--vocabulary-private", 9, "--key-file", "missing"), "key file missing cannot be read"),
        ((*TABLE, "--vocabulary-private", 9, "--max-tokens", 0), "--max-tokens of at least 1, got 0"),
        (("--user", "author", "--text", "said", "--vocabulary-private", 9), "no column 'author'; the columns are"),
        (("--text", "said", "--vocabulary-private", 9), "user column is missing"),
        ((*TABLE, "--vocabulary-private", 9, "--format", "xml"), "Expected a format among"),
        ((*TABLE, "--vocabulary-private", 9, "--ink", "blue"), "--ink bright or dark, got 'blue'"),
    ],
)
def test_bad_imports_leave_nothing_behind(
    tmp_path: Path, chat: Path, arguments: tuple[Any, ...], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        run("import", chat, *arguments, "--out", tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["chat.jsonl"]


def test_texts_and_images_do_not_mix(tmp_path: Path, chat: Path) -> None:
    path = tmp_path / "i.npz"
    np.savez(path, images=np.zeros((1, 28, 28), np.uint8), labels=np.array([1]), writers=np.array([7]))
    with pytest.raises(DataError, match="some hold images"):
        run("import", chat, path, *TABLE, "--vocabulary-private", 9, "--out", tmp_path / "s")
    with pytest.raises(DataError, match="images, which have no vocabulary"):
        run("import", path, "--vocabulary-private", 9, "--out", tmp_path / "s")


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store"):
        run("show", tmp_path / "missing")


@pytest.mark.parametrize("command", ["import", "vocabulary", "show"])
def test_every_command_has_an_example(command: str) -> None:
    assert f"tacit data {command}" in " ".join(run(command, "--help").split())
