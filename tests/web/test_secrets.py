"""No route shows what is private: every route is asked about a run full of planted secrets, and its answer is searched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import BaseRoute, Route

from tacit.runs.attacked import keep_attack
from tacit.runs.folder import RunFolder
from tacit.runs.public import public_files
from tacit.runs.report.blocks import Paragraph, Section
from tacit.runs.report.sections import write_section
from tests.support.boards import TestClient, client_of, keys
from tests.support.made_runs import made_run

SECRET = "SECRET4711"
# Figures of the private diagnostics: quantiles of norms and the size of a cohort.
DIAGNOSTICS = ("0.71317", "0.81317", "0.91317", "918273", "norm_quantiles")
TOKEN = "t" * 40


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A run in which every private file, and files that are none of Tacit's, hold a secret; and runs around it."""
    folder = made_run(tmp_path / "runs" / "planted")
    write_section(folder, Section(name="audit", title=SECRET, order=60, private=True, blocks=[Paragraph(text=SECRET)]))
    # A section that says it is private, in the folder that everybody may read.
    stray = {"tacit section": 1, "name": "stray", "title": SECRET, "order": 61, "private": True, "blocks": []}
    (folder.sections_path / "61-stray.json").write_text(json.dumps(stray))
    keep_attack(folder, {"verdict": SECRET, "canaries": []})
    for name in ("report.html", "users.sha256", "noise.safetensors", "gate_audit.jsonl", "notes.txt"):
        (folder.private_path / name).write_text(SECRET)
    for name in ("notes.txt", "store.jsonl", ".env", "metrics.jsonl.torn", "ledger.jsonl.torn", "certificate.json"):
        (folder.path / name).write_text(SECRET)
    with folder.diagnostics_path.open("a") as diagnostics:
        diagnostics.write(json.dumps({"round": 5, "users": 918273, "clipped": 0.5}) + "\n")
    (folder.path / "checkpoints" / "people.txt").write_text(SECRET)
    (folder.path / "checkpoints" / "link.safetensors").symlink_to(folder.private_path / "notes.txt")
    (tmp_path / "beside.txt").write_text(SECRET)
    (tmp_path / "runs" / "beside.txt").write_text(SECRET)
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "chats.jsonl").write_text(SECRET)
    return tmp_path / "runs"


def addresses(client: TestClient, key: str) -> Iterator[str]:
    """Every address of the board, for this run, and every wrong name of a file that leads somewhere."""
    for route in flattened(client.app.routes):  # type: ignore[attr-defined]
        if isinstance(route, Route) and route.methods and "GET" in route.methods and route.path != "/api/events":
            yield route.path.replace("{key}", key)
    names = [
        "private/participation.bin",
        "private/notes.txt",
        "notes.txt",
        "../beside.txt",
        "../planted/notes.txt",
        ".env",
    ]
    names += [
        "checkpoints/people.txt",
        "checkpoints/link.safetensors",
        "checkpoints/../private/notes.txt",
        "/etc/passwd",
    ]
    names += [
        "sections/../private/notes.txt",
        "./private/notes.txt",
        "metrics.jsonl.torn",
        "private",
        ".",
        "",
        "%2e%2e/beside.txt",
    ]
    names += list(public_files(RunFolder.open(Path(client.get("/api/runs").json()["folders"][0]) / "planted")))
    yield from (f"/api/runs/{key}/file?name={name}" for name in names)
    yield from (
        f"/api/runs/{name}" for name in ("..", "../foreign", "foreign", "planted", "%2e%2e%2fbeside.txt", "private")
    )
    yield f"/api/compare?key={key}"
    yield f"/api/keyboard?run={key}"
    yield f"/api/keyboard/models/{key}-trained"
    yield f"/api/runs/{key}/metrics?after=1"
    yield f"/api/runs/{key}/suggest?text=see"
    yield f"/api/runs/{key}/private"
    yield f"/api/runs/{key}/diagnostics"


def flattened(routes: list[BaseRoute]) -> Iterator[BaseRoute]:
    """The routes, also those of routers inside."""
    for route in routes:
        yield route
        inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", None)
        yield from flattened(inner or [])


def everything_said(client: TestClient, key: str) -> dict[str, str]:
    asked = list(dict.fromkeys(addresses(client, key)))
    assert len(asked) > 30
    assert any(re.fullmatch(r"/api/runs/\w+/guarantee", each) for each in asked), "the routes were walked"
    assert {"/api/papers", "/api/fleet", "/api/plan", "/keyboard"} <= set(asked)
    return {each: client.get(each).text for each in asked}


@pytest.mark.filterwarnings("ignore")
def test_no_route_shows_a_secret(planted: Path) -> None:
    with client_of(planted) as client:
        for address, text in everything_said(client, keys(client)["planted"]).items():
            for secret in (SECRET, *DIAGNOSTICS):
                assert secret not in text, address
            assert '"clipped":0.5' not in text, address


@pytest.mark.filterwarnings("ignore")
def test_the_owner_sees_the_named_figures_and_no_other(planted: Path) -> None:
    (planted / "planted" / "private" / "audit.json").unlink()  # it is for the owner, who sees it
    (planted / "planted" / "private" / "gate_audit.jsonl").unlink()
    with client_of(planted, owner=True, token=TOKEN) as client:
        said = everything_said(client, keys(client)["planted"])
    for address, text in said.items():
        for secret in (SECRET, *DIAGNOSTICS, TOKEN):
            assert secret not in text, address
    assert any('"clipped":0.5' in text for text in said.values())


def test_a_write_is_refused_without_control(planted: Path) -> None:
    own = {"origin": "http://127.0.0.1:8080"}
    with client_of(planted) as client:
        key = keys(client)["planted"]
        for what in ("stop", "resume"):
            answer = client.post(f"/api/runs/{key}/{what}", headers=own)
            assert answer.status_code == 403
            assert "--control" in answer.json()["problem"]
