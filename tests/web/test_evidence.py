"""What the page of a guarantee says of a witness and a certificate, from public files alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tacit.api.run import open_run
from tacit.runs.folder import RunFolder
from tacit.runs.heads import submit
from tacit.runs.witness import Witness
from tacit.transparency.witness import Witness as WitnessServer
from tacit.transparency.witness import WitnessKey
from tests.support.boards import client_of, keys
from tests.support.made_runs import made_run
from tests.support.witnessed_runs import add_rounds, begun
from tests.support.witnesses import listening


def stated(folder: Path) -> dict[str, Any]:
    """What the board says of the guarantee of the run `run` below this folder."""
    with client_of(folder) as client:
        answer = client.get(f"/api/runs/{keys(client)['run']}/guarantee")
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def certified(tmp_path: Path) -> RunFolder:
    """A finished run with its certificate in its folder."""
    run = made_run(tmp_path / "run")
    open_run(run.path).certify(run.path / "certificate.json")
    return run


def test_a_run_without_either_says_so(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    found = stated(tmp_path)
    assert found["witness"] is None
    assert found["certificate"] is None
    assert found["paragraph"] == open_run(run.path).guarantee().as_json()["paragraph"] != ""


def test_how_far_the_witness_has_signed(tmp_path: Path) -> None:
    key = WitnessKey.of(tmp_path / "home", "example.com/w")
    with listening(WitnessServer(tmp_path / "home", key, first_use=True)) as address:
        witness = Witness(address=address, key=key.public.text())
        run = begun(tmp_path / "runs" / "run", witness)
        submit(run, witness)
    shutil.rmtree(run.path / "private")  # nothing of it is read
    found = stated(tmp_path / "runs")["witness"]
    assert (found["name"], found["signed"], found["records"]) == ("example.com/w", 3, 3)
    assert (found["required"], found["problem"]) == (True, None)
    add_rounds(run, 1)
    found = stated(tmp_path / "runs")["witness"]
    assert (found["signed"], found["records"]) == (3, 4)
    lines = run.ledger_path.read_text().splitlines(keepends=True)
    run.ledger_path.write_text("".join(lines[:2]))
    found = stated(tmp_path / "runs")["witness"]
    assert found["signed"] is None
    assert "records were cut off its end" in found["problem"]


def test_the_certificate_can_be_taken_along(certified: RunFolder) -> None:
    found = stated(certified.path.parent)["certificate"]
    records = len(certified.ledger_path.read_text().splitlines())
    assert found["file"] == "certificate.json"
    assert (found["records"], found["whole"], found["problem"]) == (records, True, None)
    with client_of(certified.path.parent) as client:
        key = keys(client)["run"]
        file = client.get(f"/api/runs/{key}/file?name=certificate.json")
        assert file.content == (certified.path / "certificate.json").read_bytes()
        listed = {each["name"]: each["what"] for each in client.get(f"/api/runs/{key}").json()["files"]}
        assert "certificate" in listed["certificate.json"]


def changed(text: str) -> str:
    content = json.loads(text)
    content["statement"]["epsilon"] = 0.01
    return json.dumps(content)


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (changed, "was changed after it had been signed"),
        (lambda text: "SECRET", "Expected a certificate of format 1"),
        (lambda text: '{"certificate": 1, "signature": "", "key": 3}', "Expected a certificate of format 1"),
    ],
    ids=["changed", "no certificate", "foreign"],
)
def test_a_certificate_that_is_none_says_what_is_wrong(certified: RunFolder, alter: Any, said: str) -> None:
    path = certified.path / "certificate.json"
    path.write_text(alter(path.read_text()))
    assert said in stated(certified.path.parent)["certificate"]["problem"]
    with client_of(certified.path.parent) as client:
        assert client.get(f"/api/runs/{keys(client)['run']}/file?name=certificate.json").status_code == 404


def test_a_certificate_of_another_run_or_ledger_is_not_this_run_s(certified: RunFolder, tmp_path: Path) -> None:
    other = made_run(tmp_path / "other" / "run")
    shutil.copy(certified.path / "certificate.json", other.path)
    assert "of another run" in stated(tmp_path / "other")["certificate"]["problem"]
    # The same run, whose ledger ends elsewhere: a certificate that holds more than the ledger.
    lines = certified.ledger_path.read_text().splitlines(keepends=True)
    certified.ledger_path.write_text("".join(lines[:-1]))
    assert "another ledger" in stated(certified.path.parent)["certificate"]["problem"]
