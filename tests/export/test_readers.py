"""The readers in docs/export.md do what the page says: each is run, as it is printed there, on an exported file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from tacit.data.users import FIRST_WORD
from tacit.errors import RunError
from tacit.export.model_files import Exportable, export_onnx
from tacit.learning.next_word import suggest
from tacit.models.lora import Adapter, add_adapters
from tacit.models.transformer import TransformerConfig
from tacit.models.transformer import build as build_transformer
from tacit.models.word_lm import WordLM, WordLMConfig, build

PAGE = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text(encoding="utf-8")
WORDS = ["<pad>", "<bos>", "<eos>", "<oov>", "see", "you", "naïve", "soon", "now", *(f"w{i}" for i in range(31))]
GUARANTEE = "ε = 2 at δ = 1e-06, for any one user"
SMALL = WordLMConfig(vocabulary=len(WORDS), embedding=6, units=9, projection=6, output_bias=True)


def exportable(model: object, words: list[str] = WORDS) -> Exportable:
    return Exportable(model, words, {}, {"guarantee": {"headline": GUARANTEE}, "checkpoint": "ab12"})


@pytest.fixture(scope="module")
def model() -> WordLM:
    return build(SMALL, key=jax.random.key(5))


@pytest.fixture
def answer(model: WordLM, tmp_path: Path) -> list[str]:
    """keyboard.onnx is in the folder; this is what a reader has to print after "see you"."""
    agreement = export_onnx(exportable(model), tmp_path / "keyboard.onnx", contexts=40)
    assert agreement.largest_logit_difference < 1e-4
    words = [WORDS[id] for id, _ in suggest(model, [WORDS.index("see"), WORDS.index("you")])]
    return [" ".join(words), GUARANTEE]


def printed(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return str(code)


@pytest.mark.process
def test_the_reader_in_python(answer: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUTF8": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", printed("python")], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert ended.stdout.decode().splitlines() == answer, ended.stderr.decode()


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


@pytest.mark.process
def test_the_reader_in_javascript_is_javascript(tmp_path: Path) -> None:
    (tmp_path / "reader.mjs").write_text(printed("javascript"), encoding="utf-8")
    ended = subprocess.run([node(), "--check", tmp_path / "reader.mjs"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.process
def test_the_reader_in_javascript(answer: list[str], tmp_path: Path) -> None:
    """Runs where the folder NODE_PATH has the package onnxruntime-node: npm install onnxruntime-node."""
    modules = Path(os.environ.get("NODE_PATH", "/nowhere"))
    if not (modules / "onnxruntime-node").is_dir():
        pytest.skip("NODE_PATH is no folder with onnxruntime-node in it")
    (tmp_path / "node_modules").symlink_to(modules.resolve())
    (tmp_path / "reader.mjs").write_text(printed("javascript"), encoding="utf-8")
    ended = subprocess.run([node(), "reader.mjs"], cwd=tmp_path, capture_output=True, check=False)
    assert ended.stdout.decode().splitlines() == answer, ended.stderr.decode()


def test_adapters_are_merged(model: WordLM, answer: list[str], tmp_path: Path) -> None:
    adapted = add_adapters(model, 2, key=jax.random.key(1))
    moved = {name: Adapter(each.A, each.B + 0.3) for name, each in adapted.adapters.items()}
    adapted = type(adapted)(adapted.base, moved, adapted.scale)
    plain, corrected = (tmp_path / name for name in ("keyboard.onnx", "adapted.onnx"))
    assert export_onnx(exportable(adapted), corrected, contexts=40).contexts == 40
    assert corrected.read_bytes() != plain.read_bytes()


def test_what_cannot_be_written_is_refused_by_name(model: WordLM, tmp_path: Path) -> None:
    transformer = build_transformer(TransformerConfig(vocabulary=len(WORDS), width=8, heads=1), key=jax.random.key(0))
    out = tmp_path / "keyboard.onnx"
    with pytest.raises(RunError, match="Expected a recurrent word model to write as ONNX, got Transformer"):
        export_onnx(exportable(transformer), out)
    with pytest.raises(RunError, match=f"each of the {len(WORDS)} entries of the model, got a run with 0"):
        export_onnx(exportable(model, []), out)
    tiny = build(WordLMConfig(vocabulary=FIRST_WORD + 2, embedding=6, units=9, projection=6), key=jax.random.key(5))
    with pytest.raises(RunError, match="at least 3 words besides the reserved entries, got 2"):
        export_onnx(exportable(tiny, WORDS[: FIRST_WORD + 2]), out)
    assert not out.exists()
