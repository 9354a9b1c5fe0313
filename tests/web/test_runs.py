"""The table and one run, as a program asks for them: what is right, and what is damaged, foreign or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tacit.api.run import open_run
from tacit.runs.folder import RunFolder
from tacit.runs.public import public_files
from tests.support.boards import client_of, keys
from tests.support.made_runs import made_run


def rows(client) -> dict[str, dict]:
    return {row["name"]: row for row in client.get("/api/runs").json()["runs"]}


def test_the_table_says_what_the_runs_say(tmp_path: Path) -> None:
    run = made_run(tmp_path / "deep" / "er" / "one")
    made_run(tmp_path / "two", private=False, outcome="stopped", rounds=2, planned=9)
    with client_of(tmp_path) as client:
        found = rows(client)
        about = client.get("/api/runs").json()
    assert about["folders"] == [str(tmp_path)]
    assert (about["owner"], about["control"]) == (False, False)
    assert (found["deep/er/one"]["state"], found["two"]["state"]) == ("finished", "stopped")
    assert found["deep/er/one"]["epsilon"] == open_run(run.path).cost().epsilon
    assert found["deep/er/one"]["metrics"]["top1"] == 0.2461
    assert found["deep/er/one"]["epsilon_so_far"] == 4.0
    assert found["two"]["epsilon"] is None
    assert found["two"]["infinite_because"] == ["no noise is added"]
    assert (found["two"]["rounds"], found["two"]["planned"]) == (2, 9)


def test_one_run_in_every_part(tmp_path: Path) -> None:
    run = made_run(tmp_path / "one")
    with client_of(tmp_path) as client:
        path = f"/api/runs/{keys(client)['one']}"
        detail, curves = client.get(path).json(), client.get(f"{path}/metrics").json()
        assert detail["recipe_text"] == run.recipe_path.read_text()
        assert {file["name"] for file in detail["files"]} == set(public_files(run))
        assert all(file["what"] for file in detail["files"])
        for file in detail["files"]:
            answer = client.get(f"{path}/file", params={"name": file["name"]})
            assert answer.content == (run.path / file["name"]).read_bytes()
            assert answer.headers["content-disposition"].startswith("attachment")
            assert "sandbox" in answer.headers["content-security-policy"]
        assert [record["round"] for record in curves["records"]] == [1, 2, 3, 4]
        assert curves["clipped"] is None
        assert len(client.get(f"{path}/metrics?after=3").json()["records"]) == 1
        assert client.get(f"{path}/ledger").content == run.ledger_path.read_bytes()
        stated = open_run(run.path).guarantee().as_json()
        said = client.get(f"{path}/guarantee").json()
        assert {name: said[name] for name in ("headline", "epsilon", "ledger_head")} == {
            name: stated[name] for name in ("headline", "epsilon", "ledger_head")
        }
        assert [part["title"] for part in said["parts"]] == [part["title"] for part in stated["parts"]]
        audit = client.get(f"{path}/audit").json()
        assert (audit["epsilon"], audit["gate"], audit["attack"], audit["owner"]) == (
            stated["epsilon"],
            None,
            None,
            False,
        )


def test_several_runs_together(tmp_path: Path) -> None:
    made_run(tmp_path / "one")
    made_run(tmp_path / "two", rounds=7)
    made_run(tmp_path / "open", private=False)
    with client_of(tmp_path) as client:
        known = keys(client)
        found = client.get("/api/compare", params={"key": [known["one"], known["two"]]}).json()
        assert found["differences"] == {"run.rounds": [4, 7]}
        each = rows(client)
        together = found["planned_together"]["epsilon"]
        assert max(each["one"]["epsilon"], each["two"]["epsilon"]) < together < found["one_after_another"]["epsilon"]
        found = client.get("/api/compare", params={"key": [known["one"], known["open"]]}).json()
        assert found["planned_together"]["epsilon"] is None
        assert found["planned_together"]["reasons_not_private"] == ["no noise is added (open)"]
        assert client.get("/api/compare").status_code == 422
        assert client.get("/api/compare", params={"key": ["nothing"]}).status_code == 404


PARTS = ("", "/metrics", "/guarantee", "/ledger", "/audit", "/suggest", "/file?name=run.json")


@pytest.mark.parametrize("part", PARTS)
def test_no_such_run_is_one_sentence(tmp_path: Path, part: str) -> None:
    with client_of(tmp_path) as client:
        for key in ("0" * 16, "none", "..", "%2e%2e"):
            answer = client.get(f"/api/runs/{key}{part}")
            assert answer.status_code == 404
            assert answer.json()["problem"].endswith(".")


NESTED = b"[" * 100_000  # deeper than a reader of JSON goes
DAMAGE = [
    ("run.json", b'{"tacit run": 99, "run_id": "a", "created": "b"}'),
    ("recipe.toml", b"\xff\xfe not toml"),
    ("ledger.jsonl", b'{"kind":"opened"}\n{"x":1}\n'),
    ("metrics.jsonl", b'\xff\xff\n{"round": "many"}\n{"round": 2}\n'),
    ("metrics.jsonl", NESTED + b"\n"),
    ("summary.json", b"[1, 2]"),
    ("summary.json", NESTED),
]


@pytest.mark.parametrize(("name", "text"), DAMAGE, ids=[f"{name}, {text[:4]!r}" for name, text in DAMAGE])
def test_a_damaged_run_is_one_sentence_and_hides_no_other(tmp_path: Path, name: str, text: bytes) -> None:
    made_run(tmp_path / "good")
    (made_run(tmp_path / "bad").path / name).write_bytes(text)
    with client_of(tmp_path) as client:
        found, known = rows(client), keys(client)
        assert found["good"]["state"] == "finished"
        assert found["bad"]["state"] == "damaged"
        assert found["bad"]["problem"].endswith(".")
        assert found["bad"]["epsilon"] is None
        for part in PARTS:
            answer = client.get(f"/api/runs/{known['bad']}{part}")
            assert answer.status_code in (200, 404, 409), (part, answer.text)
            if answer.status_code != 200:
                assert answer.json()["problem"].endswith(".")
            assert "Traceback" not in answer.text
        (offered,) = client.get(f"/api/keyboard?run={known['bad']}").json()["models"]
        assert offered["problem"].endswith((".", "?"))


def test_a_forged_summary_states_nothing(tmp_path: Path) -> None:
    """What a ledger that contradicts its recipe costs is not stated, whatever the summary says."""
    run = made_run(tmp_path / "forged")
    run.recipe_path.write_text(run.recipe_path.read_text().replace("rounds = 4", "rounds = 3"))
    with client_of(tmp_path) as client:
        found = rows(client)["forged"]
        assert found["state"] == "damaged"
        assert "contradicts itself" in found["problem"]
        answer = client.get(f"/api/runs/{keys(client)['forged']}/guarantee")
        assert answer.status_code == 409
        assert "contradicts itself" in answer.json()["problem"]


def test_a_run_that_is_written_and_one_that_has_not_begun(tmp_path: Path) -> None:
    torn = made_run(tmp_path / "torn", outcome=None)
    with torn.ledger_path.open("ab") as ledger, torn.metrics_path.open("ab") as metrics:
        ledger.write(b'{"attempt":0,"bl')
        metrics.write(b'{"round": 5, "to')
    RunFolder.create(tmp_path / "new", 'name = "new"\n')
    with client_of(tmp_path) as client:
        found, known = rows(client), keys(client)
        assert found["torn"]["state"] == "interrupted"
        assert found["torn"]["rounds"] == 4
        assert len(client.get(f"/api/runs/{known['torn']}/metrics").json()["records"]) == 4
        assert client.get(f"/api/runs/{known['torn']}/ledger").content == torn.ledger_path.read_bytes()
        assert found["new"]["state"] == "not begun"
        for part in ("guarantee", "ledger", "audit", "suggest"):
            answer = client.get(f"/api/runs/{known['new']}/{part}")
            assert answer.status_code == 409
            assert answer.json()["problem"].endswith(".")


def test_no_folder_and_foreign_files_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "runs" / "foreign").mkdir(parents=True)
    (tmp_path / "runs" / "foreign" / "run.json").write_text("hello")
    (tmp_path / "runs" / "file").write_text("hello")
    with client_of(tmp_path / "none") as client:
        assert client.get("/api/runs").json()["runs"] == []
    with client_of(tmp_path / "runs") as client:
        assert rows(client)["foreign"]["state"] == "damaged"


def test_wrong_values_are_one_sentence(tmp_path: Path) -> None:
    made_run(tmp_path / "one")
    with client_of(tmp_path) as client:
        path = f"/api/runs/{keys(client)['one']}"
        for query in ("/metrics?after=-1", "/metrics?after=x", "/suggest?count=0", "/suggest?text=" + 501 * "x"):
            answer = client.get(path + query)
            assert answer.status_code == 422
            assert answer.json()["problem"].startswith("Expected another ")
        assert client.get(path + "/suggest?text=see").json()["problem"].endswith(".")  # it has no model


def test_a_bug_is_told_in_the_terminal_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    from tacit.web import one_run

    def broken(*_: object) -> None:
        raise ZeroDivisionError("what went wrong inside")

    made_run(tmp_path / "one")
    monkeypatch.setattr(one_run, "_files", broken)
    with client_of(tmp_path) as client:
        client.raise_server_exceptions = False  # type: ignore[attr-defined]
        client._transport.raise_server_exceptions = False  # type: ignore[attr-defined]
        answer = client.get(f"/api/runs/{keys(client)['one']}")
    assert answer.status_code == 500
    assert answer.json() == {"problem": "The board could not answer. Its terminal shows why."}
    assert "what went wrong inside" in caplog.text


def test_the_document_of_the_routes_has_every_model(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        document = client.get("/api/openapi.json").json()
    assert "RunRow" in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
    assert "http" not in json.dumps(document).replace("https://json-schema.org", "").replace("HTTPValidationError", "")


def test_the_same_folder_twice_is_listed_once(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "one")
    os.symlink(tmp_path / "runs", tmp_path / "again")
    with client_of(tmp_path) as client:
        assert len(client.get("/api/runs").json()["runs"]) == 1
