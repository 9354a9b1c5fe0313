"""`tacit witness`: keys, a server that is killed and goes on, and runs that are compared with what was signed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.runs.heads import HEAD
from tacit.runs.witness import Witness
from tacit.transparency.client import WitnessClient
from tests.support.commands import Tacit
from tests.support.ctrl_c import hearing_ctrl_c
from tests.support.forging import forge
from tests.support.witnessed_runs import add_rounds, begun
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import LOG, leaves, submission, witness_in


def test_a_key_is_printed_and_stays(tacit: Tacit, here: Path) -> None:
    made = tacit("witness", "key", "--home", "w", "--name", "example.com/w", "--json").object["public_key"]
    assert made.startswith("example.com/w+")
    assert tacit("witness", "key", "--home", "w").out == f"{made}\n"
    assert "a name is part of a key" in tacit("witness", "key", "--home", "w", "--name", "other").refusal(4)


def test_a_run_is_submitted_and_compared(tacit: Tacit, here: Path) -> None:
    server = witness_in(here / "w")
    key = server.key.public.text()
    with listening(server) as address:
        run = begun(here / "run", Witness(address=address, key=key))
        assert "There is no head" in tacit("witness", "check", "run").refusal(4)
        assert tacit("witness", "submit", "run", "--json").object == {"run": "run", "records": 3}
        (here / "kept").write_bytes((run.path / HEAD).read_bytes())
        add_rounds(run, 1)
        found = tacit("witness", "check", "run", "--head", "kept", "--json").object
        assert found == {
            "run_id": run.run_id,
            "witness": key,
            "records": 4,
            "signed": 3,
            "in_folder": 3,
            "given": [3],
            "at_witness": 3,
        }
        said = tacit("witness", "check", "run", "--key", key, "--address", address, "--head", "kept").out
        assert "in kept: 3 of 4 records" in said
        assert "The last 1 of them are in no signed head yet." in said
        assert "signed the head of 4 records" in tacit("witness", "submit", "run").out
        forge(run.path, lambda records: records.pop())
        assert "records were cut off its end" in tacit("witness", "check", "run").refusal(4)
    assert "does not answer" in tacit("witness", "check", "run", "--head", "kept").refusal(4)
    (run.path / HEAD).unlink()
    assert tacit("witness", "check", "run", "--head", "kept", "--offline", "--json").object["at_witness"] is None
    assert "cannot be read" in tacit("witness", "check", "run", "--head", "nowhere", "--offline").refusal(4)
    assert "name+id+key" in tacit("witness", "check", "run", "--key", "nonsense").refusal(4)


def test_a_run_without_a_witness(tacit: Tacit, here: Path) -> None:
    begun(here / "run", None)
    assert "without a witness" in tacit("witness", "check", "run").refusal(4)
    assert "without a witness" in tacit("witness", "submit", "run").refusal(4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("address = 'localhost:1'", "Expected the address of a witness as http://… or https://…"),
        ("key = 'nonsense'", "name+id+key"),
        (f"key = '{LOG.text()}'", "got that of the log"),
    ],
)
def test_what_a_recipe_may_say(tacit: Tacit, here: Path, line: str, said: str) -> None:
    key = witness_in(here / "w").key.public.text()
    section = f"[witness]\naddress = 'http://localhost:1'\nkey = '{key}'\n"
    name = line.split()[0]
    changed = "\n".join(line if each.startswith(name) else each for each in section.splitlines())
    recipe = (here / "tiny.toml").read_text()
    (here / "one.toml").write_text(f"{recipe}\n{section}")
    assert tacit("recipe", "show", str(here / "one.toml"), "--json").code == 0
    (here / "two.toml").write_text(f"{recipe}\n{changed}")
    assert said.lower() in tacit("train", "two.toml", "--out", "run").refusal(2).lower()


def test_the_extra_that_is_missing_is_named(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tacit.web.witness", None)
    assert "tacit[web]" in tacit("witness", "serve", "--home", "w").refusal(4)


def test_what_serve_refuses(tacit: Tacit, here: Path) -> None:
    own = witness_in(here / "w").key.public.text()
    assert "name+id+key" in tacit("witness", "serve", "--home", "w", "--allow", "nonsense", "--json").refusal(4)
    assert "key of a log" in tacit("witness", "serve", "--home", "w", "--allow", own, "--json").refusal(4)


def test_it_needs_no_jax() -> None:
    code = "import sys, tacit.cli.witness, tacit.web.witness; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def started(here: Path, *more: str) -> tuple[subprocess.Popen[str], WitnessClient]:
    command = [sys.executable, "-m", "tacit", "witness", "serve", "--home", "w", "--port", "0", "--json", *more]
    with hearing_ctrl_c():
        process = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = json.loads(process.stdout.readline())
    return process, WitnessClient(found["address"], Witness(address=found["address"], key=found["public_key"]).public)


@pytest.mark.process
def test_a_witness_that_was_killed_goes_on_where_it_was(here: Path) -> None:
    one, other = leaves(*"abcdef"), leaves(*"abxdef")
    process, client = started(here, "--allow", LOG.text())
    client.countersign(submission(one, 0, size=4).head, LOG, one[:4], 0)
    process.kill()
    process.communicate(timeout=60)
    process, client = started(here)  # what was allowed stays allowed
    try:
        assert client.latest(LOG.name).size == 4  # type: ignore[union-attr]
        with pytest.raises(Exception, match="does not continue"):
            client.countersign(submission(other, 0).head, LOG, other, 0)
        client.countersign(submission(one, 0).head, LOG, one, 4)
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
