"""Every command has `--json`, prints what docs/json.md publishes, and reports mistakes in one form.

The fixture `tacit` compares the output of every test that asks for JSON with the published schema.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer

import tacit
from tacit.cli import fleet_demo
from tacit.cli.app import complete
from tacit.cli.results.base import OpenResult, Result, emit, key, sometimes
from tacit.cli.results.listing import RESULTS, STREAMS
from tacit.cli.results.page import page
from tacit.fleet import logs
from tacit.fleet.server import serving
from tacit.runs.folder import RunFolder
from tacit.simulation.training import start_run
from tests.support.commands import Tacit
from tests.support.published import command_of, require_published
from tests.support.tiny_recipe import tiny

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PLAN = ("--population", 4210000, "--rounds", 190, "--delta", 1e-10, "--devices-per-round", 6500, "--epsilon", 8)
FEDAVG = ("--population", 7634, "--cohort", 50, "--rounds", 50, "--delta", 1e-5)
FTRL = ("--rounds", 93, "--min-separation", 21, "--max-participation", 4, "--delta", 1e-10)

# What is run here, by command: on the run in the folder "run", the file chat.jsonl and the word list words.txt.
TRIED: dict[str, tuple[object, ...]] = {
    "predict": ("run", "see you"),
    "export": ("run", "--safetensors", "model.safetensors", "--onnx", "model.onnx", "--check", 20),
    "population": ("--devices", 2000, "--report-goal", 10, "--rounds", 5, "--timer-hours", 24),
    "report": ("run", "--share"),
    "guarantee": ("run",),
    "certify": ("run",),
    "plan": PLAN,
    "account fedavg": (*FEDAVG, "--noise-multiplier", 1, "--convention", "dp-fedavg-2018"),
    "account ftrl": (*FTRL, "--noise-multiplier", 7),
    "account zcdp": ("--rho", 0.25, "--delta", 1e-10),
    "account group": ("--epsilon", 1, "--delta", 1e-8, "--size", 16),
    "account conventions": (),
    "account run": ("run",),
    "account compose": ("run",),
    "account calibrate fedavg": (*FEDAVG, "--epsilon", 4),
    "account calibrate ftrl": (*FTRL, "--rho", 0.5),
    "audit plant": ("keyboard", "--devices", 1, "--users", 50, "--out", "canaries.json"),
    "audit run": ("run",),
    "data vocabulary": ("--words", "words.txt", "--size", 6, "--out", "words.vocab"),
    "data import": ("chat.jsonl", "--user", "user", "--text", "text", "--vocabulary", "words.txt", "--out", "store"),
    "data show": ("store",),
    "data shard": ("store", "--shards", 2, "--out", "sharded"),
    "device policy": (),
    "account odometer": ("store",),
    "budget set": ("store", "--epsilon", 4, "--delta", 1e-5),
    "budget show": ("store",),
    "budget settle": ("store",),
    "recipe list": (),
    "recipe show": ("demo",),
    "recipe schema": ("text",),
    "runs": (),
    "runs list": (".",),
    "runs show": ("run",),
    "runs compare": ("run", "run"),
    "runs plot": ("run", "--out", "training.svg"),
}
# Commands that take longer, or a server: the file of tests/cli that runs each with --json.
ELSEWHERE = {
    "train": "test_train.py",
    "init": "test_init.py",
    "tune": "test_tune.py",
    "sweep": "test_sweep.py",
    "keyboard": "test_keyboard.py",
    "compare": "test_compare.py",
    "audit experiment": "test_audit.py",
    "inspect text": "test_inspect.py",
    "inspect images": "test_inspect_images.py",
    "inspect compare": "test_inspect.py",
    "inspect bias": "test_inspect_bias.py",
    "device compare": "test_device.py",
    "device enrol": "test_device.py",
    "device head": "test_device.py",
    "device leave": "test_device.py",
    "device receipts": "test_device.py",
    "device statement": "test_device.py",
    "device run": "test_device.py",
    "device sign": "test_device.py",
    "device status": "test_device.py",
    "fleet token": "test_fleet.py",
    "fleet status": "test_fleet.py",
    "fleet revoke": "test_fleet.py",
    "fleet devices": "test_fleet.py",
    "fleet quarantine": "test_fleet.py",
    "fleet round": "test_fleet.py",
    "fleet demo": "test_json.py",
    "fleet operator": "test_fleet_operators.py",
    "fleet budget set": "test_fleet.py",
    "fleet budget show": "test_fleet.py",
    "serve": "test_json.py",
    "board": "test_board.py",
    "witness serve": "test_witness.py",
    "witness key": "test_witness.py",
    "witness check": "test_witness.py",
    "witness submit": "test_witness.py",
}


@cache
def commands() -> dict[str, Any]:
    """Every command of the app by its name, groups that do something by themselves included."""
    found: dict[str, Any] = {}

    def walk(command: Any, name: str) -> None:
        inside = getattr(command, "commands", None)
        if inside is None or (name and command.invoke_without_command):
            found[name] = command
        for word, each in (inside or {}).items():
            walk(each, f"{name} {word}".strip())

    walk(typer.main.get_command(complete()), "")
    return found


def options(command: Any) -> dict[str, Any]:
    return {name: each for each in command.get_params(typer.Context(command)) for name in each.opts}


@pytest.mark.parametrize("name", [*commands()])
def test_every_command_has_json(name: str) -> None:
    """For a new command: a class in tacit/cli/results, a line in its listing.py, `as_json: Json`, and a line in TRIED above."""
    assert "--json" in options(commands()[name])
    assert name in RESULTS, "what does it print? tacit/cli/results has no class for it"
    assert name in TRIED or name in ELSEWHERE, "no test runs it with --json"


def test_no_schema_is_left_over() -> None:
    assert set(RESULTS) == set(commands())
    assert set(RESULTS) >= set(STREAMS)
    assert set(TRIED) | set(ELSEWHERE) == set(RESULTS)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_others_are_run_where_it_says(name: str) -> None:
    code = (HERE / ELSEWHERE[name]).read_text()
    first = ", ".join(f'"{word}"' for word in name.split())
    assert re.search(rf'tacit\(\s*{first},[^\n]*"--json"|\(\s*{first},.*\*few, "--json"', code, re.S), first


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    start_run(tiny(run={"rounds": 2}), folder / "run", tacit.Callback())
    (folder / "words.txt").write_text("the\nend\n")
    (folder / "chat.jsonl").write_text('{"user": "ann", "text": "the end"}\n{"user": "bo", "text": "the start"}\n')
    return folder


@pytest.fixture
def workplace(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the trained run, to be in; the tests below run in the order of TRIED and share what they write."""
    monkeypatch.chdir(trained)
    return trained


@pytest.mark.parametrize("name", TRIED)
def test_it_prints_what_is_published(tacit: Tacit, workplace: Path, name: str) -> None:
    if (
        name in ("data show", "data shard", "account odometer", "budget set", "budget show", "budget settle")
        and not (workplace / "store").exists()
    ):
        tacit("data", "import", *TRIED["data import"])
    found = tacit(*name.split(), *TRIED[name], "--json").object
    assert found.keys() <= RESULTS[name].model_fields.keys() or issubclass(RESULTS[name], OpenResult)


def test_a_run_on_devices(tacit: Tacit, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving is tested in tests/fleet; here it ends at once, finished or not."""
    (workplace / "fleet.toml").write_text(fleet_demo.demo_recipe(4, 1, secagg=False).to_toml())

    def finished(settings: Any) -> Any:
        shutil.copytree("run", settings.out / "run")
        return RunFolder.open(settings.out / "run").summary()

    monkeypatch.setattr(logs, "configure_logs", lambda: None)
    monkeypatch.setattr(serving, "serve", finished)
    found = tacit("serve", "fleet.toml", "--out", "server", "--json").object
    assert (found["finished"], found["run"]) == (True, "server/run")
    assert found["privacy"]["rounds_run"] == 2
    monkeypatch.setattr(serving, "serve", lambda settings: None)
    assert tacit("serve", "fleet.toml", "--out", "again", "--json").object == {"finished": False, "run": None}


def test_a_demo_of_a_fleet(tacit: Tacit, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo is tested in test_fleet_demo.py; here its server has a finished run."""

    class Server:
        def watch(self, crowd: Any, console: Any) -> None:
            console.print("1 of 1 rounds done.")

        def summary(self) -> Any:
            return RunFolder.open(Path("demo/run")).summary()

    @contextmanager
    def served(recipe: Any, folder: Path) -> Iterator[Server]:
        shutil.copytree("run", folder / "run")
        yield Server()

    @contextmanager
    def nobody(*_: Any) -> Iterator[list[Any]]:
        yield []

    monkeypatch.setattr(fleet_demo, "_served", served)
    monkeypatch.setattr(fleet_demo, "_enrolled", nobody)
    answer = tacit("fleet", "demo", "--out", "demo", "--json")
    assert answer.object["run"] == "demo/run"
    assert "1 of 1 rounds done." in answer.err


def test_a_mistake_leaves_stdout_empty(tacit: Tacit, workplace: Path) -> None:
    assert "which does not exist" in tacit("runs", "show", "nowhere", "--json").refusal(4)
    assert "Expected privacy.cohort" in tacit("train", "--set", "privacy.cohort=9e9", "--json").refusal(2)
    unknown = tacit("train", "--jsno")
    assert (unknown.code, unknown.out) == (2, "")


def test_the_page_is_what_the_classes_say() -> None:
    written = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert written == page(), "python -m tacit.cli.results > docs/json.md"
    for name in RESULTS:
        assert f"`tacit {name}`" in written


def test_the_schema_of_a_guarantee_is_published_as_a_file() -> None:
    written = json.loads((ROOT / "docs" / "guarantee.schema.json").read_text(encoding="utf-8"))
    now = json.loads(json.dumps(RESULTS["guarantee"].model_json_schema()))
    assert written == now, "python -m tacit.cli.results guarantee > docs/guarantee.schema.json"


def test_every_key_of_every_object_has_a_meaning() -> None:
    for result in RESULTS.values():
        for schema in (result.model_json_schema(), *result.model_json_schema().get("$defs", {}).values()):
            assert schema["description"], schema
            for name, described in schema.get("properties", {}).items():
                assert described.get("description"), (schema["title"], name)


class _Figures(Result):
    """An object for this test."""

    epsilon: float | None = key("epsilon")
    extra: int | None = sometimes("if there is one")


def test_only_what_is_published_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    emit(_Figures, {"epsilon": None})
    emit(_Figures, {"epsilon": 2, "extra": None})
    assert capsys.readouterr().out == '{"epsilon": null}\n{"epsilon": 2.0, "extra": null}\n'
    for wrong in ({}, {"epsilon": 1, "more": 2}, {"epsilon": "small"}, {"epsilon": float("inf")}):
        with pytest.raises(ValueError, match=r"epsilon|more|JSON"):
            emit(_Figures, wrong)
    assert capsys.readouterr().out == ""


def test_the_comparison_can_fail() -> None:
    assert command_of(["runs", "show", "x"]) == "runs show"
    assert command_of(["runs", "--json"]) == "runs"
    require_published(["fleet", "revoke", 3], '{"device": 3, "revoked": true}\n')
    for wrong in ('{"device": 3}\n', '{"device": 3, "revoked": true, "more": 1}\n'):
        with pytest.raises(jsonschema_rs.ValidationError):
            require_published(["fleet", "revoke", 3], wrong)
    with pytest.raises(AssertionError):
        require_published(["fleet", "revoke", 3], '{"device": 3, "revoked": true}\n' * 2)
    require_published(["device", "run"], '{"event": "a"}\n{"event": "b"}\n')


def test_commands_print_json_in_one_way() -> None:
    """`emit` is the only place that writes JSON to stdout."""
    printing = re.compile(r"(?:print|echo)\(json\.dumps")
    found = [path.name for path in (ROOT / "tacit" / "cli").rglob("*.py") if printing.search(path.read_text())]
    assert sorted(found) == ["__main__.py", "base.py", "recipe.py"]  # the last is `recipe schema` without --json


@pytest.mark.parametrize("name", [*commands(), ""])
def test_help_shows_flags_as_flags(tacit: Tacit, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert "bool" not in tacit(*name.split(), "--help").out


def test_help_shows_one_value_of_an_option_that_may_be_repeated(tacit: Tacit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    shown = tacit("plan", "--help").out
    assert "list[" not in shown
    assert "--timer-hours" in shown


def test_a_flag_has_a_negative_only_if_it_is_on_by_default() -> None:
    for command in commands().values():
        for name, each in options(command).items():
            assert not getattr(each, "secondary_opts", ()) or each.default is True, name


def test_an_option_has_one_meaning_in_the_options_that_commands_share() -> None:
    for shared in ("--set", "--ca", "--server", "--suffixes", "--json"):
        helps = {options(command)[shared].help for command in commands().values() if shared in options(command)}
        if shared == "--json":
            assert all("JSON object" in each and each.endswith("nothing else on stdout.") for each in helps), helps
        else:
            assert len(helps) == 1, (shared, helps)
