"""`tacit certify` on a run that was trained: the file says what the run's own folder says, and names what was exported."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

import tacit as library
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tacit.transparency.certificate import arrays_digest, read_certificate
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tests.support.checker import answer
from tests.support.commands import Tacit
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    start_run(tiny(), run, Callback())
    return run


@pytest.fixture
def run(trained: Path, here: Path) -> Path:
    return Path(shutil.copytree(trained, here / "run"))


def test_it_holds_the_ledger_the_statement_and_the_digests_of_what_was_released(tacit: Tacit, run: Path):
    assert tacit("export", "run", "--safetensors", "model.safetensors").code == 0
    said = tacit("certify", "run", "--export", "model.safetensors", "--json").object
    found = read_certificate(Path("certificate.json").read_bytes())
    assert "\n".join(found["ledger"]) + "\n" == (run / "ledger.jsonl").read_text()
    assert found["statement"] == tacit("guarantee", "run", "--json").object
    assert found["files"]["recipe.toml"] == hashlib.sha256((run / "recipe.toml").read_bytes()).hexdigest()
    assert found["files"]["model.safetensors"] == hashlib.sha256(Path("model.safetensors").read_bytes()).hexdigest()
    assert found["model"]["arrays"] == arrays_digest(load_file("model.safetensors"))
    committed = read_ledger(run / "ledger.jsonl").committed
    assert committed is not None
    assert (found["model"]["round"], found["model"]["checkpoint"]) == (committed.rounds_done, committed.checkpoint)
    head = Checkpoint.parse(found["head"])
    assert head.is_signed_by(PublicKey.parse(said["public_key"]))
    assert head.size == len(found["ledger"])
    assert found["audit"]["title"] == "The audit of the gate"
    assert "passed" not in json.dumps(found["audit"])
    assert found["code"]["tacit"] == library.__version__


def test_the_checker_proves_it_and_knows_the_exported_model(tacit: Tacit, run: Path):
    for name in ("model.safetensors", "model.onnx"):
        assert (
            tacit("export", "run", f"--{'onnx' if name.endswith('x') else 'safetensors'}", name, "--check", "20").code
            == 0
        )
    key = tacit("certify", "run", "--export", "model.onnx", "--json").object["public_key"]
    certificate, named = Path("certificate.json"), read_certificate(Path("certificate.json").read_bytes())["model"]
    for name in ("model.safetensors", "model.onnx"):
        code, said = answer(certificate, "--key", key, "--model", name)
        assert code == 0, said
        assert "after 6 rounds" in said
        assert named["checkpoint"].encode() in Path(name).read_bytes()  # the file says by itself which model it is
    weights = load_file("model.safetensors")
    changed = {each: array + 1e-6 for each, array in weights.items()}
    save_file(changed, "changed.safetensors", {"model_digest": named["checkpoint"]})
    Path("changed.onnx").write_bytes(Path("model.onnx").read_bytes().replace(b"next_word", b"other_one"))
    for name in ("changed.safetensors", "changed.onnx", "run/recipe.toml.onnx"):
        code, said = answer(certificate, "--key", key, "--model", name)
        assert code == 1, said


def test_it_holds_nothing_of_the_private_folder(tacit: Tacit, run: Path):
    tacit("certify", "run")
    certificate = Path("certificate.json").read_bytes()
    for path in (run / "private").rglob("*"):
        if path.is_file() and path.stat().st_size >= 16:
            content = path.read_bytes()
            assert content[:16] not in certificate
            assert content[:16].hex().encode() not in certificate


def test_the_same_key_signs_each_certificate_of_a_run(tacit: Tacit, run: Path):
    first = tacit("certify", "run", "--json").object["public_key"]
    said = tacit("certify", "run", "--out", "again.json").out
    assert first in said
    assert "python tacit_verify.py again.json" in said


def test_what_cannot_be_certified_is_one_sentence(tacit: Tacit, run: Path):
    assert "Cannot read gone.onnx" in tacit("certify", "run", "--export", "gone.onnx").refusal(4)
    assert "two of one name" in tacit("certify", "run", "--export", "run/recipe.toml").refusal(4)
    with LedgerWriter.open(run / "ledger.jsonl"):
        assert "process" in tacit("certify", "run").refusal(4)
    assert not Path("certificate.json").exists()
    shutil.rmtree(run / "private")
    assert "has no private/" in tacit("certify", "run").refusal(4)
