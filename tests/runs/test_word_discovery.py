"""A run that discovers words: its intent comes first, everything it does is charged, and what it releases may be published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.vocabulary import load_vocabulary
from tacit.errors import DataError, RunError
from tacit.privacy.discovery.release import WordTotals
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.participation.log import verified
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.reading import toml_of
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import heads_of, objection_to, runs_of
from tacit.runs.public import public_files
from tacit.runs.report import report_html
from tacit.runs.witness import Witness
from tacit.runs.word_discovery import Discovery, discover, discovered, totals_of, unused_list, words_of
from tacit.transparency.client import WitnessClient
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import witness_in

NOISE = 0.2
USERS: list[dict[str, int]] = [{"cat": 2, "lol": 1, f"own{number}": 1} for number in range(60)]


def discovery(**changes: Any) -> Discovery:
    settings: dict[str, Any] = {
        "population": 60,
        "noise_multiplier": NOISE,
        "delta": 1e-4,
        "threshold_delta": 1e-5,
        "size": 6,
        "rule": SharesRule(100, 0.5),
        "sure": ("the",),
        "candidates": ("cat", "dog", "zebra"),
    }
    return Discovery(**settings | changes)


def run(
    place: Path,
    wanted: Discovery,
    words: Any = None,
    *,
    users: Iterable[Mapping[str, int]] = USERS,
    store: bool = True,
    witness: Witness | None = None,
) -> RunFolder:
    """Discover in place/words, on the users of place/store."""
    settings = {
        "data": {"store": "store"},
        "vocabulary": {
            "words_per_user": wanted.rule.words_per_user,
            "largest_share": wanted.rule.largest_share,
            "threshold_delta": wanted.threshold_delta,
        },
        "privacy": wanted.plan().model_dump(mode="json", exclude_none=True),
        "run": {"rounds": 1} | ({} if wanted.seed is None else {"seed": wanted.seed}),
    }
    (place / "store").mkdir(exist_ok=True)
    given = list(users)
    return discover(
        wanted,
        place / "words",
        toml_of(settings),
        data=DataRecord(store="ab" * 16),
        store=place / "store" if store else None,
        users=np.arange(len(given)),
        words=words or (lambda: given),
        witness=witness,
    )


def test_the_intent_is_durable_before_a_word_is_read(tmp_path: Path) -> None:
    seen = []

    def words() -> list[dict[str, int]]:
        ledger = read_ledger(tmp_path / "words" / "ledger.jsonl")
        took_part = [each.users for each in verified(tmp_path / "words" / "private" / "participation.bin", ledger)]
        seen.append(
            (len(ledger.intents), len(took_part[0]), runs_of(tmp_path / "store").keys() == {ledger.opened.run_id})
        )
        return USERS

    run(tmp_path, discovery(), words)
    assert seen == [(1, 60, True)]


def test_what_a_finished_discovery_leaves_behind(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery())
    assert words_of(folder)[0] == "the"
    assert folder.vocabulary() == list(words_of(folder))
    assert set(words_of(folder)) == {"the", "cat", "lol", "dog", "zebra"}
    assert load_vocabulary(folder.vocabulary_path).provenance == f"discovered by the run {folder.run_id}"
    assert not load_vocabulary(folder.vocabulary_path).is_public
    totals = totals_of(folder)
    assert list(totals.candidates) == ["cat", "dog", "zebra"]
    assert set(totals.found) == {"lol"}
    summary = folder.summary() or {}
    assert (summary["words"], summary["listed"], summary["found"], summary["warnings"]) == (5, 4, 1, [])
    assert summary["privacy"]["epsilon"] == cost_of(folder).stated.epsilon
    for name, content in public_files(folder).items():
        assert b"own1" not in content, name
    assert {"totals.json", "vocabulary.txt", "ledger.jsonl"} <= public_files(folder).keys()


def test_a_required_witness_signs_the_intent_before_there_are_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, countersign, folder = witness_in(tmp_path / "witness"), WitnessClient.countersign, tmp_path / "words"
    written: list[tuple[int, bool]] = []

    def watched(self: WitnessClient, head: Any, *more: Any) -> Any:
        written.append((head.size, (folder / "totals.json").exists()))
        return countersign(self, head, *more)

    monkeypatch.setattr(WitnessClient, "countersign", watched)
    with listening(server) as address:
        run(tmp_path, discovery(), witness=Witness(address=address, key=server.key.public.text()))
    assert written == [(1, False), (2, False), (3, True)]
    assert "head.txt" in public_files(RunFolder.open(folder))


def test_the_odometer_lists_the_run_and_every_head(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery())
    ledger = folder.ledger()
    heads = heads_of(tmp_path / "store")[folder.run_id]
    assert [head.length for head in heads] == [1, 2, 3]  # begun, before anything is written, finished
    assert heads[-1].head == ledger.head
    assert objection_to(ledger, heads, tmp_path) is None


def test_a_discovery_that_was_cut_off_is_charged_and_has_no_words(tmp_path: Path) -> None:
    def interrupted() -> Iterable[dict[str, int]]:
        yield from USERS[:7]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, discovery(), interrupted)
    folder = RunFolder.open(tmp_path / "words")
    assert not folder.vocabulary_path.exists()
    assert not (folder.path / "totals.json").exists()
    with pytest.raises(RunError, match="did not finish, so it has no words"):
        discovered(folder)
    stated = cost_of(folder).stated
    assert stated.releases == 1
    (tmp_path / "whole").mkdir()
    assert stated.epsilon == cost_of(run(tmp_path / "whole", discovery())).stated.epsilon
    assert "its words are lost" in report_html(folder, share=True)
    assert folder.run_id in runs_of(tmp_path / "store")


def test_a_seeded_discovery_claims_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    folders = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        folders.append(run(tmp_path / name, discovery(seed=5)))
    assert totals_of(folders[0]) == totals_of(folders[1])
    stated = cost_of(folders[0]).stated
    assert math.isinf(stated.epsilon)
    words, record, reasons = discovered(folders[0])
    assert record is None
    assert Reason(Why.SEEDED) in reasons
    assert "cat" in words


def test_two_discoveries_draw_different_noise(tmp_path: Path) -> None:
    totals = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        totals.append(totals_of(run(tmp_path / name, discovery())).candidates)
    assert all(totals[0][word] != totals[1][word] for word in totals[0])


def test_reasons_of_the_words_that_it_was_given_are_its_own(tmp_path: Path) -> None:
    counted = Reason(Why.COUNTED_VOCABULARY)
    folder = run(tmp_path, discovery(reasons_not_private=(counted,)))
    assert cost_of(folder).stated.reasons_not_private == (counted,)


def test_what_a_run_that_uses_the_words_is_charged(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery())
    words, record, reasons = discovered(folder)
    assert reasons == ()
    assert record is not None
    assert (record.run, record.head) == (folder.run_id, folder.ledger().head)
    assert (record.noise_multiplier, record.releases, record.threshold_delta) == (NOISE, 1, 1e-5)
    assert tuple(words) == words_of(folder)


def test_words_outside_a_vocabulary(tmp_path: Path) -> None:
    wanted = discovery(sure=(), candidates=(), known=("the", "cat"))
    folder = run(tmp_path, wanted)
    assert words_of(folder) == ("lol",)
    # All of a user's contribution goes to words that are not known: two of equal count, at most half each.
    assert totals_of(folder).found["lol"] == pytest.approx(0.5 * 60, abs=6 * NOISE)
    assert "word found" in report_html(folder, share=True)


def test_no_word_outside_a_vocabulary(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery(sure=(), candidates=(), known=("cat", "lol")))
    assert words_of(folder) == ()
    assert not folder.vocabulary_path.exists()
    assert (folder.summary() or {})["found"] == 0
    assert folder.ledger().closed is not None


def test_people_whose_words_are_all_sure_leave_the_list_as_it_is(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery(candidates=(), sure=("the", "cat")), users=[{"the": 3, "cat": 1}] * 60)
    assert words_of(folder) == ("the", "cat")
    assert totals_of(folder).found == {}
    assert (folder.summary() or {})["found"] == 0


def test_without_a_list_and_without_words_there_is_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No word was found: too few people use the same words") as told:
        run(tmp_path, discovery(sure=(), candidates=()), users=USERS[:1])
    assert told.value.hint is not None
    assert len(RunFolder.open(tmp_path / "words").ledger().intents) == 1  # and it is charged


def test_a_list_in_another_alphabet_is_told_by_the_noised_totals(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery(candidates=tuple(f"слово{number}" for number in range(50))))
    assert "may be in another alphabet" in (folder.summary() or {})["warnings"][0]
    used = WordTotals({"cat": 10.0, "dog": 0.1}, {}, 1.0)
    assert unused_list(used) == []
    assert unused_list(WordTotals({"cat": 1.0, "dog": 0.1}, {}, 1.0)) != []
    assert unused_list(WordTotals({}, {"lol": 50.0}, 1.0)) == []


def test_a_vocabulary_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery())
    with folder.vocabulary_path.open("a") as file:
        file.write("smuggled\n")
    with pytest.raises(DataError, match="damaged"):
        discovered(folder)


def test_a_release_that_cannot_be_read(tmp_path: Path) -> None:
    folder = run(tmp_path, discovery())
    (folder.path / "totals.json").write_text("{}")
    with pytest.raises(RunError, match=r"no totals\.json that can be read"):
        totals_of(folder)


def test_the_statement_is_that_of_a_discovery(tmp_path: Path) -> None:
    said = cost_of(run(tmp_path, discovery())).guarantee().as_markdown()
    for wrong in ("train", "update without", "Accuracy", "first round starts", "1 releases", "checkpoints", "sampler"):
        assert wrong not in said, wrong
    for right in ("1 release in 1 round ", "reads each user's words", "at most 1e-05", "every user takes part"):
        assert right in said, right
