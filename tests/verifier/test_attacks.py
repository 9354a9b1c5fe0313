"""1,000 of 1,000 generated attacks on certificates and their ledgers are found, and honest runs raise no alarm."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.certificate_attacks import ATTACKS, Lie, Scene, head_of
from tests.support.checker import answer
from tests.support.honest_runs import KINDS as TRAINED
from tests.support.honest_runs import certified, honest_run
from tests.support.made_certificates import KINDS, Made, earlier, made_certificate


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Made, Made, Made]]:
    """By kind: a run, another run, and the first when it was shorter."""
    place, found = tmp_path_factory.mktemp("runs"), {}
    for number, kind in enumerate(KINDS):
        whole = made_certificate(place / f"{kind}-whole", kind, seed=number, rounds=8)
        other = made_certificate(place / f"{kind}-other", kind, seed=number + 50, rounds=8, run_id="ef56ab78")
        shorter = earlier(whole, place / f"{kind}-shorter", 2 + number % 6)
        found[kind] = whole, other, shorter
    return found


def _holds(path: Path, lie: Lie, key: str) -> tuple[int, str]:
    path.write_bytes(lie.data)
    options = ["--key", key]
    for number, head in enumerate(lie.heads):
        kept = path.with_suffix(f".{number}.txt")
        kept.write_text(head, encoding="utf-8")
        options += ["--head", str(kept)]
    return answer(path, *options)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("times", [5, pytest.param(35, marks=pytest.mark.slow)])
def test_every_attack_is_found(runs: dict[str, tuple[Made, Made, Made]], attack, times: int, tmp_path: Path):
    """29 attacks, 35 times each: more than 1,000."""
    chance = random.Random(attack.__name__)
    for number in range(times):
        whole, other, shorter = runs[list(KINDS)[number % len(KINDS)]]
        lie = attack(Scene(whole, other, shorter, chance))
        assert lie.data != whole.data or lie.heads
        code, said = _holds(tmp_path / "certificate.json", lie, whole.key)
        assert code == 1, (number, said)
        assert said.startswith("Not proved, because "), said


def test_the_runs_that_are_attacked_are_proved(runs: dict[str, tuple[Made, Made, Made]], tmp_path: Path):
    for whole, other, shorter in runs.values():
        lines = whole.content["ledger"]
        for made, heads in (
            (whole, [head_of(lines[:3], "ab12cd34"), head_of(lines, "ab12cd34")]),
            (other, []),
            (shorter, []),
        ):
            code, said = _holds(tmp_path / "certificate.json", Lie(made.data, heads), made.key)
            assert code == 0, said


@pytest.mark.parametrize("many", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_honest_runs_raise_no_alarm(many: int, tmp_path: Path):
    """Of every kind, with up to three power cuts, finished or not; some of them extended."""
    cuts = 0
    for number in range(many):
        kind = list(KINDS)[number % len(KINDS)]
        longer = {"extended": 12} if kind in ("gaussian", "fixed", "adaptive") and number % 3 == 0 else {}
        planned = {} if longer or number % 4 else {"planned": 11}
        made = made_certificate(tmp_path / str(number), kind, seed=number, **longer, **planned)
        cuts += len(made.ledger.intents) - len({intent.round for intent in made.ledger.intents})
        code, said = _holds(tmp_path / "certificate.json", Lie(made.data), made.key)
        assert code == 0, (number, kind, said)
    assert cuts > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINED)
def test_runs_that_were_trained_raise_no_alarm(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`python -m tests.support.honest_runs --runs 100` checks as many as one likes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    honest_run(tmp_path / "run", kind, 3)
    key = certified(tmp_path / "run", tmp_path / "certificate.json")
    code, said = answer(tmp_path / "certificate.json", "--key", key)
    assert code == 0, said
