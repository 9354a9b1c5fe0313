"""Which models a page gets: those of releases and of public text, never text of private users."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest
from safetensors import safe_open
from safetensors.numpy import load

import tacit
from tacit.api.run import open_run
from tacit.cli.app import main
from tacit.data.vocabulary import PRIVATE
from tacit.errors import DataError, PrivacyError, RunError
from tacit.keyboard.replay import TypingHabits
from tacit.keyboard.taps import Typist
from tacit.runs import checkpoints
from tacit.web.keyboard.models import KeyboardModels, meaning_of
from tacit.web.keyboard.ngrams import text_to_count
from tacit.web.keyboard.rules import keyboard_rules
from tests.support.made_runs import made_run
from tests.support.typed_runs import typed_run

SECRET = "zanzibarsecret"
WORDS = [f"w{chr(97 + i)}" for i in range(20)]


def metadata(file: bytes, where: Path) -> dict[str, str]:
    where.write_bytes(file)
    with safe_open(where, framework="numpy") as opened:
        return dict(opened.metadata())


def test_a_run_offers_its_model_its_beginning_and_made_up_ngrams(run: Path, tmp_path: Path) -> None:
    models = KeyboardModels()
    trained, before, ngram = models.of(run, "0")
    stated = open_run(run).guarantee()
    assert (trained.kind, trained.statement, trained.is_private) == ("trained", stated.headline, True)
    assert trained.badge.startswith("ε = ")
    assert (before.kind, ngram.kind) == ("pretrained", "ngram")
    assert "made-up people" in ngram.statement
    about = metadata(models.file(trained.key), tmp_path / "file")
    assert about["guarantee"] == stated.headline
    assert json.loads(about["architecture"])["kind"] == "word_lm"
    # The exported file and the page's are one.
    open_run(run).export(tmp_path / "exported.safetensors")
    exported = (tmp_path / "exported.safetensors").read_bytes()
    assert metadata(exported, tmp_path / "again") == about
    arrays, theirs = load(models.file(trained.key)), load(exported)
    assert arrays.keys() == theirs.keys()
    assert all(np.array_equal(arrays[name], theirs[name]) for name in arrays)
    assert "public text alone" in metadata(models.file(before.key), tmp_path / "before")["guarantee"]
    arrays, kept = load(models.file(before.key)), checkpoints.load(checkpoints.path_of(run / "pretrained", 0))
    assert all(np.array_equal(arrays[name], kept.arrays[name]) for name in arrays)
    assert any(not np.array_equal(arrays[name], load(models.file(trained.key))[name]) for name in arrays)


def test_nothing_else_can_be_fetched(run: Path) -> None:
    models = KeyboardModels()
    models.of(run, "0")
    for key in ("", "0", "1-ngram", "../private", str(run / "ledger.jsonl")):
        with pytest.raises(RunError, match="no such model"):
            models.file(key)


def test_a_run_without_words_is_refused_in_one_sentence(tmp_path: Path) -> None:
    images = made_run(tmp_path / "images", recipe='name = "images"\ninspect = "images"\nstage = "low"\n')
    with pytest.raises(RunError, match="has no words to suggest"):
        KeyboardModels().of(images.path, "0")


def test_a_pretrained_model_that_the_ledger_does_not_name_is_refused(run: Path, tmp_path: Path) -> None:
    spoilt = Path(shutil.copytree(run, tmp_path / "spoilt"))
    place = checkpoints.path_of(spoilt / "pretrained", 0)
    kept = checkpoints.load(place)
    moved = {name: array + 1 for name, array in kept.arrays.items()}
    checkpoints.save(spoilt / "pretrained", 0, moved, kept.metadata)
    models = KeyboardModels()
    key = next(each.key for each in models.of(spoilt, "0") if each.kind == "pretrained")
    with pytest.raises(RunError, match="not the one that its ledger names"):
        models.file(key)


def own_run(path: Path, users: tacit.MemoryUsers, model: Any, task: Any = None) -> tacit.Run:
    """A run of `tacit.train` on these users."""
    return tacit.train(
        model,
        task or tacit.NextWord(),
        users,
        held_out=2,
        work=tacit.FedAvg(epochs=1, batch_size=4, learning_rate=0.1),
        privacy=tacit.PrivacyPlan(population=30, cohort=6, clip_norm=0.5, noise_multiplier=2.0, delta=1e-3),
        server=optax.sgd(1.0),
        rounds=1,
        out=path,
    )


def people(vocabulary: list[str] | tacit.Vocabulary) -> tacit.MemoryUsers:
    told = {f"u{i}": [" ".join(WORDS[(i + k) % 20] for k in range(5)) + f" {SECRET}"] for i in range(30)}
    return tacit.users(told, vocabulary=vocabulary, held_out=0.1, key=bytes(32))


SHAPE = tacit.TransformerConfig(vocabulary=24, width=8, heads=2, layers=1, hidden=8)


def test_words_counted_on_private_users_are_never_served(tmp_path: Path) -> None:
    users = people(tacit.Vocabulary((*WORDS[1:], SECRET), PRIVATE))
    own_run(tmp_path / "run", users, tacit.Transformer.build(SHAPE, key=jax.random.key(0)))
    assert SECRET in (tmp_path / "run" / "vocabulary.txt").read_text()
    with pytest.raises(PrivacyError, match="counted on private users") as refused:
        KeyboardModels().of(tmp_path / "run", "0")
    assert SECRET not in str(refused.value)


def test_a_transformer_of_a_call_is_offered_to_whoever_brings_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tacit.Transformer.build(SHAPE, key=jax.random.key(0))
    made = own_run(tmp_path / "run", people(WORDS), model)
    with pytest.raises(RunError, match="a model of your own"):
        KeyboardModels().of(tmp_path / "run", "0")
    monkeypatch.setattr("tacit.web.keyboard.models.open_run", lambda path: made)
    models = KeyboardModels()
    trained, ngram = models.of(tmp_path / "run", "0")
    assert ngram.problem is not None
    assert "no public text" in ngram.problem
    about = metadata(models.file(trained.key), tmp_path / "file")
    assert json.loads(about["architecture"]) == {"kind": "transformer", "heads": 2, "longest": 10}
    assert SECRET.encode() not in models.file(trained.key)
    with pytest.raises(RunError):
        models.file(ngram.key)


def test_other_models_and_tasks_are_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scores(tacit.NextWord):
        pass

    table = {"table": jax.numpy.zeros((24, 24))}

    def loss(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.numpy.sum(model["table"][tokens[:, :-1]] ** 2), jax.numpy.float32(tokens.size)

    for number, (model, task, sentence) in enumerate(
        [
            (table, loss, "a recurrent word model or a transformer of Tacit's, got dict"),
            (tacit.Transformer.build(SHAPE, key=jax.random.key(0)), Scores(), "scores in a way of its own"),
        ]
    ):
        made = own_run(tmp_path / f"run-{number}", people(WORDS), model, task)
        monkeypatch.setattr("tacit.web.keyboard.models.open_run", lambda path, made=made: made)
        with pytest.raises(RunError, match=sentence):
            KeyboardModels().of(made.path, "0")


def test_a_private_store_is_never_counted(tmp_path: Path) -> None:
    made = own_run(tmp_path / "run", people(WORDS), tacit.Transformer.build(SHAPE, key=jax.random.key(0)))
    with pytest.raises(DataError, match="word for word"):
        text_to_count(made)


def test_another_store_under_the_name_of_the_public_one_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def store(name: str, extra: str) -> None:
        lines = [json.dumps({"user": f"{name}{i}", "text": f"see you soon {extra}"}) for i in range(30)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        (tmp_path / "words.txt").write_text("see\nyou\nsoon\nlater\n")
        tacit_import(tmp_path / f"{name}.jsonl", tmp_path / name, tmp_path / "words.txt")

    store("public", "later"), store("private", SECRET)
    pretrain = {"store": "public", "public": True, "steps": 5, "batch_size": 8}
    run = typed_run(tmp_path / "run", pretrain=pretrain, data={**DATA, "store": "private"})
    assert "public text" in text_to_count(open_run(run)).name
    (tmp_path / "public").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="not at public any more"):
        text_to_count(open_run(run))
    (tmp_path / "private").rename(tmp_path / "public")
    with pytest.raises(DataError, match="not at public any more"):
        text_to_count(open_run(run))


DATA = {"held_out": 2, "length": 6, "tokens_per_user": 24}


def tacit_import(source: Path, out: Path, words: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "data",
                "import",
                str(source),
                "--user",
                "user",
                "--text",
                "text",
                "--vocabulary",
                str(words),
                "--held-out",
                "0.4",  # of thirty people with names at random some are always held out, and some never
                "--out",
                str(out),
            ]
        )
    assert not ended.value.code


def test_epsilon_is_said_in_words_and_never_too_small(run: Path) -> None:
    stated = replace(open_run(run).guarantee(), reasons=(), epsilon=1.0, delta=1e-6)
    assert "at most 2.8 times as likely" in meaning_of(stated)  # e = 2.718…
    assert "up to a probability of about 1e-06" in meaning_of(stated)
    assert "at most 10^9 times" in meaning_of(replace(stated, epsilon=20.0))  # e²⁰ = 4.9 · 10⁸
    assert "limits little" in meaning_of(replace(stated, epsilon=20.0))
    assert "with any other text in its place" in meaning_of(replace(stated, adjacency="replace one user"))
    assert "Nothing limits" in meaning_of(replace(stated, epsilon=float("inf")))


def test_the_page_has_the_rules_of_compare() -> None:
    rules = keyboard_rules()
    assert (rules.spread, rules.reach, rules.language_weight) == (
        Typist().spread,
        Typist().reach,
        Typist().language_weight,
    )
    assert (rules.confidence, rules.longest_phrase) == (TypingHabits().confidence, TypingHabits().longest_phrase)
