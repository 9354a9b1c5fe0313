"""No route shows what is private: every route is asked about a run full of planted secrets, and its answer is searched."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Mount, Route

from tacit.data.vocabulary import PRIVATE, vocabulary_text
from tacit.errors import RunError
from tacit.runs.attacked import keep_attack
from tacit.runs.folder import RunFolder
from tacit.runs.public import public_files
from tacit.runs.report.blocks import Paragraph, Section
from tacit.runs.report.sections import write_section
from tacit.web.events import Events
from tests.support.boards import TestClient, client_of, keys, until
from tests.support.made_runs import made_run

SECRET = "SECRET4711"
# Figures of the private diagnostics: quantiles of norms and the size of a cohort.
DIAGNOSTICS = ("0.71317", "0.81317", "0.91317", "918273", "norm_quantiles")
TOKEN = "t" * 40
OWN = {"origin": "http://127.0.0.1:8080"}
# What to ask where a route needs a value of this name. A route that needs another one fails the test until it stands here.
VALUES = {"key": "{key}", "name": "vocabulary.txt", "population": "1000", "rounds": "10", "delta": "1e-6"}
EVENTS, SPREAD = "/api/events", Events._spread


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
    # Words that were counted on users without noise, and what a model says with them, are users' text.
    counted = made_run(tmp_path / "runs" / "counted")
    counted.vocabulary_path.write_text(vocabulary_text(["see", SECRET], PRIVATE))
    counted.write_summary((counted.summary() or {}) | {"examples": {"see": [[SECRET, 0.5]]}})
    (counted.path / "report.html").write_text(SECRET)
    (tmp_path / "beside.txt").write_text(SECRET)
    (tmp_path / "runs" / "beside.txt").write_text(SECRET)
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "chats.jsonl").write_text(SECRET)
    return tmp_path / "runs"


def requests(client: TestClient, key: str) -> Iterator[tuple[str, str]]:
    """Every request that the board answers, for this run, and every wrong name of a file that leads somewhere."""
    described = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    for route in flattened(client.app.routes):  # type: ignore[attr-defined]
        if isinstance(route, Mount):
            assert route.path == "/static", f"Say here what {route.path} serves."
            continue
        assert isinstance(route, Route), f"The walk does not know how to ask {route}."
        for method in route.methods or ():
            about = described.get(re.sub(r":\w+\}", "}", route.path), {}).get(method.lower(), {})
            yield method, address_of(route, about.get("parameters", []), key)
    yield from (("GET", each) for each in addresses(client, key))


def address_of(route: Route, parameters: list[dict[str, Any]], key: str) -> str:
    """The route's address, with a value for whatever it needs."""
    values = {name: value.replace("{key}", key) for name, value in VALUES.items()}
    path = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: values[found[1]], route.path)
    needed = [each["name"] for each in parameters if each["in"] == "query" and each["required"]]
    return path + ("?" if needed else "") + "&".join(f"{name}={values[name]}" for name in needed)


def addresses(client: TestClient, key: str) -> Iterator[str]:
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
    names += list(public_files(run_of(client, key)))
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
    """The routes, those of routers inside in place of these."""
    for route in routes:
        inner = getattr(getattr(route, "original_router", None), "routes", None)
        if inner is None:
            yield route
        else:
            assert route.include_context.prefix == "", (
                "Give a router its prefix when it is made: the walk reads it there."
            )  # type: ignore[attr-defined]
            yield from flattened(inner)


def run_of(client: TestClient, key: str) -> RunFolder:
    return RunFolder.open(client.app.state.watcher.path(key))  # type: ignore[attr-defined]


def everything_said(client: TestClient, key: str) -> dict[str, str]:
    asked = list(dict.fromkeys(requests(client, key)))
    assert len(asked) > 30
    assert any(re.fullmatch(r"/api/runs/\w+/guarantee", address) for _, address in asked), "the routes were walked"
    assert {"/api/papers", "/api/fleet", "/keyboard", EVENTS} <= {address for _, address in asked}
    assert {("POST", f"/api/runs/{key}/{what}") for what in ("stop", "resume")} <= set(asked)
    said = {f"{method} {address}": text_of(client, method, address) for method, address in asked if address != EVENTS}
    return {**said, EVENTS: everything_heard(client, key)}


def text_of(client: TestClient, method: str, address: str) -> str:
    """All that an answer says: its body, and its headers."""
    answer = client.request(method, address, headers={} if method in ("GET", "HEAD") else OWN)
    assert answer.status_code != 422, f"Say in VALUES what {address} needs: {answer.text}"
    return f"{answer.text}\n{answer.headers}"


def everything_heard(client: TestClient, key: str) -> str:
    """What the stream says while the run changes, until the board ends it."""
    watcher = client.app.state.watcher  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as listens, patch.object(Events, "_spread", autospec=True, side_effect=SPREAD) as spread:
        heard = listens.submit(lambda: client.get(EVENTS).text)
        until(lambda: watcher._watched > 0, "the stream to begin")
        run_of(client, key).metrics_path.touch()
        until(lambda: any(f'"{key}"' in call.args[1] for call in spread.mock_calls), "the change to be told")
        for stop in client.app.state.stopping:  # type: ignore[attr-defined]
            stop()
        found = heard.result()
    assert "event: run" in found
    return found


def require_no_secret(said: dict[str, str], *more: str) -> None:
    for address, text in said.items():
        for secret in (SECRET, *DIAGNOSTICS, *more):
            assert secret not in text, address


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream notices its end soon, and nothing is trained."""

    def refuse(path: Path) -> None:
        raise RunError("Nothing is resumed here.")

    monkeypatch.setattr("tacit.web.events.BEAT_S", 0.2)
    monkeypatch.setattr("tacit.web.control.start", refuse)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", ["planted", "counted"])
@pytest.mark.parametrize("control", [False, True])
def test_no_route_shows_a_secret(planted: Path, run: str, control: bool) -> None:
    with client_of(planted, control=control, token=TOKEN) as client:
        said = everything_said(client, keys(client)[run])
    require_no_secret(said, TOKEN)
    assert not any('"clipped":0.5' in text for text in said.values())


LINKED = {
    "ledger.jsonl": SECRET,
    "summary.json": json.dumps({"metrics": {"top1": 0.71317}}),
    "sections": None,
    "sections/60-linked.json": json.dumps(
        {"tacit section": 1, "name": "linked", "title": SECRET, "order": 60, "private": False, "blocks": []}
    ),
    "checkpoints/link.safetensors": SECRET,
}


@pytest.mark.parametrize("name", LINKED)
def test_a_link_in_a_run_leads_nowhere(planted: Path, name: str) -> None:
    """A run that came from somebody else can hold links to the files of whoever looks at it."""
    link, elsewhere, text = planted / "planted" / name, planted.parent / "elsewhere", LINKED[name]
    if text is None:
        link.rename(elsewhere)
    else:
        elsewhere.write_text(text)
        link.unlink(missing_ok=True)
    link.symlink_to(elsewhere)
    with client_of(planted) as client:
        key = keys(client)["planted"]
        require_no_secret(everything_said(client, key))
        told = client.get(f"/api/runs/{key}/ledger")
        assert (told.status_code, told.json()["problem"].count("is a link")) == (409, 1)
        (offered,) = client.get(f"/api/keyboard?run={key}").json()["models"]
        assert "is a link" in offered["problem"]
        row = next(row for row in client.get("/api/runs").json()["runs"] if row["key"] == key)
        assert (row["state"], row["metrics"], row["recipe"]) == ("damaged", {}, "")


@pytest.mark.parametrize("name", ["ledger.jsonl", "metrics.jsonl"])
def test_a_pipe_in_a_run_holds_nobody_up(planted: Path, name: str) -> None:
    """Whoever opens a pipe waits for a writer, and the board would show old figures of every run from then on."""
    pipe = planted / "planted" / name
    pipe.unlink()
    os.mkfifo(pipe)
    with client_of(planted) as client:
        key = keys(client)["planted"]
        row = next(row for row in client.get("/api/runs").json()["runs"] if row["key"] == key)
        assert row["problem"].endswith(f"{name} is neither a file nor a folder, so no page shows this run.")
        assert client.get(f"/api/runs/{key}/metrics").status_code == 409


@pytest.mark.filterwarnings("ignore")
def test_the_owner_sees_the_named_figures_and_no_other(planted: Path) -> None:
    (planted / "planted" / "private" / "audit.json").unlink()  # it is for the owner, who sees it
    (planted / "planted" / "private" / "gate_audit.jsonl").unlink()
    with client_of(planted, owner=True, token=TOKEN) as client:
        said = everything_said(client, keys(client)["planted"])
    require_no_secret(said, TOKEN)
    assert any('"clipped":0.5' in text for text in said.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/runs/{key}/leak"),
        ("POST", "/api/runs/{key}/leak"),
        ("PUT", "/api/leak"),
        ("GET", "/api/leak/{name:path}"),
        ("GET", "/leak"),
    ],
)
def test_a_route_that_leaks_is_found(planted: Path, method: str, path: str) -> None:
    """What the walk is for: a new route that says a secret turns it red, wherever it stands and whatever it needs."""
    inner = APIRouter()
    inner.add_api_route(path, lambda key="", name="": (planted / "beside.txt").read_text(), methods=[method])
    with client_of(planted) as client:
        assert isinstance(client.app, FastAPI)
        client.app.include_router(inner)
        asked = [each for each in requests(client, keys(client)["planted"]) if "leak" in each[1]]
        said = {address: text_of(client, method, address) for method, address in asked}
    with pytest.raises(AssertionError, match="leak"):
        require_no_secret(said)


def test_a_route_that_the_walk_cannot_ask_is_named(planted: Path) -> None:
    with client_of(planted) as client:
        assert isinstance(client.app, FastAPI)
        client.app.add_api_route("/api/new", lambda secret_of: secret_of)
        with pytest.raises(KeyError, match="secret_of"):
            list(requests(client, "0"))


def test_a_write_is_refused_without_control(planted: Path) -> None:
    with client_of(planted) as client:
        key = keys(client)["planted"]
        for what in ("stop", "resume"):
            answer = client.post(f"/api/runs/{key}/{what}", headers=OWN)
            assert answer.status_code == 403
            assert "--control" in answer.json()["problem"]
