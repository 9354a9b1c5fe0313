"""A device's folder: private, whole or not there, and one process at a time."""

from __future__ import annotations

import json
import stat

import pytest

from tacit.errors import DataError, FleetError
from tacit.fleet.device import examples
from tacit.fleet.device.conditions import FileConditions
from tacit.fleet.device.home import DeviceConfig, Home
from tacit.fleet.device.memory import Memory
from tacit.fleet.wire.blobs import sha256_of


@pytest.fixture
def home(tmp_path):
    with Home.create(tmp_path / "home") as made:
        made.configure(DeviceConfig(server="https://fleet.test", device=3))
        yield made


def test_nothing_in_it_is_for_others(home, tmp_path):
    (tmp_path / "typed.txt").write_text("see you\n")
    examples.copy_sentences(tmp_path / "typed.txt", home.examples_path)
    home.keep_report(b"report")
    home.keep_blob(sha256_of(b"x"), b"x")
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert {"identity.key", "device.json", "state.json", "examples.jsonl", "report.bin"} <= {p.name for p in files}
    for path in [home.path, *home.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_what_is_remembered_is_there_for_the_next_process(home):
    identity = home.identity
    home.remember(Memory(counter=77))
    home.close()
    with Home.open(home.path) as again:
        assert (again.memory.counter, again.identity, again.config.device) == (77, identity, 3)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"counter": -1}', b'{"format": 2}', b'{"else": 1}'])
def test_a_damaged_or_missing_memory_is_no_fresh_start(home, content):
    home.close()
    if content is None:
        (home.path / "state.json").unlink()
    else:
        (home.path / "state.json").write_bytes(content)
    with Home.open(home.path) as again, pytest.raises(FleetError, match=r"state\.json"):
        _ = again.memory


def test_one_process_at_a_time(home):
    with pytest.raises(FleetError, match="Another process is using"):
        Home.open(home.path)
    home.close()
    Home.open(home.path).close()


def test_a_folder_that_is_no_home_is_refused(tmp_path):
    with pytest.raises(FleetError, match="enrolled device"):
        Home.open(tmp_path)
    (tmp_path / "device.json").write_text("{}")
    with pytest.raises(FleetError, match=r"identity\.key is missing"):
        Home.create(tmp_path)


def test_a_home_killed_while_it_was_made_is_made_again(home):
    home.close()
    for name in ("identity.key", "device.json"):
        (home.path / name).unlink()
    Home.create(home.path).close()
    assert (home.path / "identity.key").is_file()


def test_downloads_are_what_their_name_says(home):
    name = sha256_of(b"plan")
    with pytest.raises(FleetError, match="SHA-256"):
        home.keep_blob(name, b"another plan")
    assert home.blob(name) is None
    home.keep_blob(name, b"plan")
    assert home.blob(name) == b"plan"
    home.blob_path(name).write_bytes(b"plam")  # the disk forgets a bit
    assert home.blob(name) is None


def test_other_downloads_are_deleted(home):
    for content in (b"1", b"2", b"3"):
        home.keep_blob(sha256_of(content), content)
    home.drop_blobs(but=[sha256_of(b"2")])
    assert [home.blob(sha256_of(content)) for content in (b"1", b"2", b"3")] == [None, b"2", None]


def test_sentences_are_kept_as_they_are(tmp_path):
    (tmp_path / "typed.txt").write_text("See you!\n\n  \n…\nça va\n", encoding="utf-8")
    assert examples.copy_sentences(tmp_path / "typed.txt", tmp_path / "kept") == 2
    assert examples.load(tmp_path / "kept") == ["See you!", "ça va"]
    (tmp_path / "typed.jsonl").write_text('{"text": "two\\nlines"}\n', encoding="utf-8")
    examples.copy_sentences(tmp_path / "typed.jsonl", tmp_path / "kept")
    assert examples.load(tmp_path / "kept") == ["two\nlines"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\n", "at least one sentence"),
        ("a.txt", b"\xff\xfe", "UTF-8"),
        ("a.jsonl", b'{"text": 3}\n', "line 1"),
        ("a.jsonl", b"secret words\n", "line 1"),
        ("missing/a.txt", None, "No such file"),
    ],
)
def test_files_without_sentences_are_refused_without_quoting_them(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        examples.copy_sentences(tmp_path / name, tmp_path / "kept")
    assert "secret" not in caught.value.sentence


@pytest.mark.parametrize(
    ("content", "met"),
    [
        (None, True),
        ({}, True),
        ({"idle": True, "charging": True, "unmetered": True}, True),
        ({"charging": False}, False),
        ({"idle": 1}, False),
        ([], False),
    ],
)
def test_conditions_are_met_unless_the_file_says_otherwise(tmp_path, content, met):
    path = tmp_path / "conditions.json"
    if content is not None:
        path.write_text(json.dumps(content))
    assert FileConditions(path).met() is met
    path.write_text("{")
    assert not FileConditions(path).met()
