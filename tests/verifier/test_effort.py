"""What the checker does grows no faster than the certificate: a long one from a liar gets its answer, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.checker import CHECKER, answer, checker
from tests.support.made_certificates import made_certificate, rechained


def _lines_run(call: Callable[[], object]) -> int:
    """How many lines of the checker this call runs; a line of a comprehension counts each time."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != str(CHECKER):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class _Searched(list[Any]):
    """A list that nobody may search from its beginning."""

    def __contains__(self, value: object) -> bool:
        raise AssertionError("a list was searched once for each round")


def _ledger(folder: Path, rounds: int, resumed: int) -> list[str]:
    """A ledger with so many rounds, and after them so many records that the run goes on."""
    made = made_certificate(folder, seed=8, rounds=1, planned=rounds)
    records = [json.loads(line) for line in made.content["ledger"]]
    opened, intent = records[0], next(each for each in records if each["kind"] == "intent")
    intents = [intent | {"round": number, "attempt": 0} for number in range(rounds)]
    goes_on = {"kind": "resumed", "round": rounds, "lost": [], "policy": "fresh noise, accounted again"}
    return rechained([opened, *intents, *([goes_on] * resumed)])


def test_a_ledger_that_is_resumed_often_is_read_record_by_record(tmp_path: Path):
    lines = [_ledger(tmp_path / str(size), size, size) for size in (50, 100, 200)]
    run = [_lines_run(lambda ledger=ledger: checker.read_ledger(ledger)) for ledger in lines]
    assert run[2] - run[1] < 2.2 * (run[1] - run[0])


def test_a_plan_is_compared_with_each_round_without_searching_it(tmp_path: Path):
    effort = []
    for size in (50, 100, 200):
        records = checker.read_ledger(_ledger(tmp_path / str(size), size, 0))
        plan = records[0]["plan"]
        plan["clip_schedule"] = [{"round": number, "clip_norm": plan["clip_norm"]} for number in range(1, size)]
        plan["restarts"] = _Searched()
        intents = records[1:]
        effort.append(_lines_run(lambda opened=records[0], intents=intents: checker.require_plan(opened, intents)))
    assert effort[2] - effort[1] < 2.2 * (effort[1] - effort[0])


def test_attempts_that_were_cut_off_are_assumed_to_be_so_for_no_reason_in_the_data(tmp_path: Path):
    said = {}
    for seed in range(6):
        made = made_certificate(tmp_path / str(seed), seed=seed)
        (tmp_path / "certificate.json").write_bytes(made.data)
        lost = len(made.ledger.intents) - 8
        code, answered = answer(tmp_path / "certificate.json", "--key", made.key)
        assert code == 0, answered
        assert ("no attempt was cut off because of what had been released" in answered) == (lost > 0)
        said[lost > 0] = answered
    assert len(said) == 2
