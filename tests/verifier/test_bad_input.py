"""Whatever is in the file, the checker answers: Not proved, because ... It never fails, and never takes long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.checker import answer, checker
from tests.support.made_certificates import KINDS, Made, made_certificate, rechained, signed_again


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    place = tmp_path_factory.mktemp("made")
    return {kind: made_certificate(place / kind, kind) for kind in KINDS}


def _refused(path: Path, data: bytes, *options: str) -> str:
    path.write_bytes(data)
    code, said = answer(path, *options)
    assert code == 1
    assert said.startswith("Not proved, because ")
    assert said.count("\n") == 1
    return said


DAMAGED = {
    "empty": b"",
    "null": b"null\n",
    "a list": b"[]\n",
    "an object": b"{}\n",
    "no text": b"\xff\xfe\x00",
    "nested deeply": b"[" * 200_000 + b"]" * 200_000 + b"\n",
    "nested objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"\n",
    "not a number": b'{"certificate":NaN}\n',
    "infinity": b'{"certificate":Infinity}\n',
    "overflow": b'{"certificate":1e999}\n',
    "a huge whole number": b'{"certificate":' + b"9" * 100_000 + b"}\n",
    "a key twice": b'{"certificate":1,"certificate":1}\n',
    "zeros": bytes(1_000_000),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_files_get_an_answer(data: bytes, tmp_path: Path):
    _refused(tmp_path / "certificate.json", data)


def test_a_file_that_is_too_long_is_not_read_whole(tmp_path: Path):
    path = tmp_path / "certificate.json"
    with path.open("wb") as file:
        file.truncate(1 << 36)  # 64 GiB of nothing, none of it on disk
    assert "longer than 64 MiB" in answer(path)[1]
    assert answer(Path("/dev/null"))[0] == 1
    assert answer(tmp_path)[0] == 1


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        found += [each for name in sorted(value) for each in _places(value[name], (*path, name))]
    if isinstance(value, list):
        found += [each for place in range(len(value)) for each in _places(value[place], (*path, place))]
    return found


def _changed(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    if not path:
        return put
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _changed(value[path[0]], path[1:], put)
    return copy


_FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@_FUZZ
@given(data=st.data())
def test_a_signed_record_with_anything_in_it_gets_an_answer(data: st.DataObject, made: dict[str, Made], tmp_path: Path):
    """The operator signs a ledger in which one value is any other. Only what changes nothing that is charged may be proved."""
    run = made[data.draw(st.sampled_from(sorted(made)))]
    records = [json.loads(line) for line in run.content["ledger"]]
    place = data.draw(st.sampled_from(_places(records[: data.draw(st.integers(1, len(records)))])))
    put = data.draw(ANYTHING)
    path = tmp_path / "certificate.json"
    try:
        path.write_bytes(signed_again(run.content, rechained(_changed(records, place, put))))
    except (ValueError, TypeError, AttributeError):
        return  # no ledger can be written from it
    code, said = answer(path, "--key", run.key)
    assert said.startswith("Proved: " if code == 0 else "Not proved, because ")
    if code == 0:
        assert said.partition(" at δ")[0] == _proved(run, tmp_path)


_PROVED = dict[bytes, str]()


def _proved(run: Made, place: Path) -> str:
    """What is proved of the honest run; each is checked once."""
    if run.data not in _PROVED:
        path = place / "honest.json"
        path.write_bytes(run.data)
        _PROVED[run.data] = answer(path, "--key", run.key)[1].partition(" at δ")[0]
    return _PROVED[run.data]


@_FUZZ
@given(data=st.data())
def test_a_signed_certificate_with_anything_in_it_gets_an_answer(
    data: st.DataObject, made: dict[str, Made], tmp_path: Path
):
    run = made[data.draw(st.sampled_from(sorted(made)))]
    content = {name: each for name, each in run.content.items() if name not in ("ledger", "signature", "run")}
    changed = _changed(content, data.draw(st.sampled_from(_places(content))), data.draw(ANYTHING))
    path = tmp_path / "certificate.json"
    path.write_bytes(signed_again({**changed, "run": run.content["run"]}, run.content["ledger"]))
    code, said = answer(path, "--key", run.key)
    assert said.startswith("Proved: " if code == 0 else "Not proved, because ")
    if code == 0:
        assert said.partition(" at δ")[0] == _proved(run, tmp_path)


@_FUZZ
@given(text=st.text(max_size=300) | st.binary(max_size=300).map(lambda each: each.decode("latin-1")))
def test_keys_and_heads_of_any_text_get_an_answer(text: str, made: dict[str, Made], tmp_path: Path):
    run, path, head = made["gaussian"], tmp_path / "certificate.json", tmp_path / "head.txt"
    path.write_bytes(run.data)
    head.write_text(text, encoding="utf-8", errors="replace")
    assert answer(path, f"--key={text}")[0] == 1
    assert answer(path, f"--witness={text}")[0] == 1
    assert answer(path, "--head", str(head))[0] == 1
    assert answer(path, "--model", str(head))[0] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 10**9},
        {"rounds": 2_000_000},
        {"population": 10**12},
        {"release": {"coordinates": 10**15, "arrays": 10**15}},
        {"rounds": True},
        {"rounds": 8.0},
    ],
)
def test_numbers_out_of_proportion_get_an_answer(change: dict[str, Any], made: dict[str, Made], tmp_path: Path):
    for run in (made["gaussian"], made["tree"], made["blt"], made["cyclic"]):
        records = [json.loads(line) for line in run.content["ledger"]]
        lines = rechained([records[0] | change, *records[1:]])
        _refused(tmp_path / "certificate.json", signed_again(run.content, lines), "--key", run.key)


def test_what_is_printed_holds_no_control_characters(made: dict[str, Made], tmp_path: Path):
    run = made["gaussian"]
    records = [json.loads(line) for line in run.content["ledger"]]
    lines = rechained([records[0] | {"mechanism": "\x1b[2Jgaussian\n\nProved: ε ≤ 0"}, *records[1:]])
    said = _refused(tmp_path / "certificate.json", signed_again(run.content, lines))
    assert "\x1b" not in said


def test_a_number_is_a_number():
    for value in (True, "1", None, [1], 10**400, -1):
        with pytest.raises(checker.NotProved):
            checker.number(value, 0, 10)


def test_the_usual_mistakes_are_named(made: dict[str, Made], tmp_path: Path):
    run, path = made["gaussian"], tmp_path / "certificate.json"
    assert "was cut off, or is no JSON" in _refused(path, run.data[:-100])
    path.write_bytes(run.data)
    assert "cannot be read (No such file or directory)" in answer(tmp_path / "nothing.json")[1]
    assert "cannot be read (No such file or directory)" in answer(path, "--head", str(tmp_path / "nothing"))[1]
    for key in ("", "example.com", "example.com+0123abcd", run.key[:-4]):
        assert "public key is not whole" in answer(path, f"--key={key}")[1]
