"""Attacks on a certificate and its ledger: each takes a run, and returns what a liar would show and the heads a reader kept.

Three liars: somebody without the run's key, who changes bytes or signs with a key of their own; the run's operator, who has the
key and signs what is not so; and the operator before a reader who kept a signed head.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacit.transparency.checkpoint import Checkpoint
from tacit.transparency.merkle import leaf_hash, root
from tests.support.made_certificates import KEY, Made, rechained, signed_again

FOREIGN = bytes(range(1, 33))
Json = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """A run as its certificate has it, another run, and the same run when it was shorter."""

    run: Made
    other: Made
    earlier: Made
    chance: random.Random


@dataclass(frozen=True)
class Lie:
    """What is shown. `heads` are what the reader holds, beside the key of the run's log."""

    data: bytes
    heads: list[str] = field(default_factory=list)


def head_of(lines: list[str], run: str) -> str:
    """The head of the log with these lines, signed with the run's key."""
    name = f"tacit/run/{run}"
    return Checkpoint(name, len(lines), root([leaf_hash(line.encode()) for line in lines])).signed(name, KEY).text()


def _records(made: Made) -> list[Json]:
    return [json.loads(line) for line in made.content["ledger"]]


def _an_intent(records: list[Json], chance: random.Random) -> Json:
    return dict(chance.choice([each for each in records if each["kind"] == "intent"]))


def _with(records: list[Json], change: Json) -> list[Json]:
    return [change if each["seq"] == change["seq"] else each for each in records]


def _other_noise(scene: Scene, factor: float) -> list[Json]:
    records = _records(scene.run)
    intent = _an_intent(records, scene.chance)
    name = scene.chance.choice(sorted(intent["blocks"]))
    block = intent["blocks"][name]
    return _with(
        records,
        intent
        | {"blocks": {**intent["blocks"], name: {**block, "noise_multiplier": block["noise_multiplier"] * factor}}},
    )


# Without the run's key: bytes are changed.
def a_bit(scene: Scene) -> Lie:
    place = scene.chance.randrange(len(scene.run.data) - 1)
    return Lie(
        bytes(
            each ^ (1 << scene.chance.randrange(7)) if at == place else each for at, each in enumerate(scene.run.data)
        )
    )


def cut_off(scene: Scene) -> Lie:
    return Lie(scene.run.data[: scene.chance.randrange(len(scene.run.data) - 1)])


def _shown(scene: Scene, **changes: Any) -> Lie:
    whole = json.dumps(scene.run.content | changes, sort_keys=True, separators=(",", ":"))
    return Lie(whole.encode() + b"\n")


def lines_cut_out(scene: Scene) -> Lie:
    lines = scene.run.content["ledger"]
    place = scene.chance.randrange(1, len(lines))
    return _shown(scene, ledger=lines[:place] + lines[place + scene.chance.randint(1, 3) :])


def lines_exchanged(scene: Scene) -> Lie:
    lines = list(scene.run.content["ledger"])
    first, second = scene.chance.sample(range(len(lines)), 2)
    lines[first], lines[second] = lines[second], lines[first]
    return _shown(scene, ledger=lines)


def a_record_edited(scene: Scene) -> Lie:
    lines = list(scene.run.content["ledger"])
    place = scene.chance.randrange(len(lines))
    lines[place] = lines[place].replace("0", "1", 1) if "0" in lines[place] else lines[place] + " "
    return _shown(scene, ledger=lines)


def edited_and_hashed_again(scene: Scene) -> Lie:
    return _shown(scene, ledger=rechained(_other_noise(scene, scene.chance.uniform(1.01, 3.0))))


def another_model(scene: Scene) -> Lie:
    return _shown(scene, model={**scene.run.content["model"], "arrays": f"{scene.chance.getrandbits(256):064x}"})


def another_statement(scene: Scene) -> Lie:
    stated = scene.run.content["statement"]
    return _shown(scene, statement={**stated, "epsilon": stated["epsilon"] * scene.chance.uniform(0.1, 0.99)})


def another_head(scene: Scene) -> Lie:
    lines = scene.run.content["ledger"]
    return _shown(scene, head=head_of(lines[: scene.chance.randrange(1, len(lines))], scene.run.content["run"]))


def the_signature_of_another(scene: Scene) -> Lie:
    return _shown(scene, signature=scene.other.content["signature"])


def a_signature_made_up(scene: Scene) -> Lie:
    return _shown(scene, signature=base64.b64encode(scene.chance.randbytes(64)).decode())


# With a key of one's own: everything fits, but for the key.
def forged_whole(scene: Scene) -> Lie:
    return Lie(signed_again(scene.run.content, rechained(_other_noise(scene, 1.5)), private=FOREIGN))


def signed_by_another(scene: Scene) -> Lie:
    lines = scene.run.content["ledger"]
    return Lie(signed_again(scene.run.content, lines[: scene.chance.randrange(1, len(lines) + 1)], private=FOREIGN))


# The operator signs what is not so.
def _operator(scene: Scene, records: list[Json] | None = None, **changes: Any) -> Lie:
    lines = scene.run.content["ledger"] if records is None else rechained(records)
    return Lie(signed_again(scene.run.content | changes, lines))


def other_noise_than_planned(scene: Scene) -> Lie:
    return _operator(scene, _other_noise(scene, scene.chance.choice([0.5, 0.9, 1.1, 1.000001])))


def less_noise_planned_too(scene: Scene) -> Lie:
    records, factor = _records(scene.run), scene.chance.uniform(0.3, 0.95)
    opened = records[0] | {
        "plan": {**records[0]["plan"], "noise_multiplier": records[0]["plan"]["noise_multiplier"] * factor}
    }
    lower = [opened]
    for each in records[1:]:
        blocks = {
            n: {**b, "noise_multiplier": b["noise_multiplier"] * factor} for n, b in each.get("blocks", {}).items()
        }
        lower.append(each | ({"blocks": blocks} if blocks else {}))
    return _operator(scene, lower)


def a_larger_clip(scene: Scene) -> Lie:
    records = _records(scene.run)
    intent = _an_intent(records, scene.chance)
    block = intent["blocks"]["update"] | {"bound": None if scene.chance.random() < 0.3 else -1.0}
    return _operator(scene, _with(records, intent | {"blocks": {**intent["blocks"], "update": block}}))


def another_sampling(scene: Scene) -> Lie:
    records = _records(scene.run)
    intent = _an_intent(records, scene.chance)
    law = {name: each if isinstance(each, str) else each / 2 for name, each in intent["sampling"].items()}
    return _operator(scene, _with(records, intent | {"sampling": law}))


def an_attempt_left_out(scene: Scene) -> Lie:
    records = _records(scene.run)
    intent = _an_intent(records, scene.chance)
    return _operator(scene, [each for each in records if each["seq"] != intent["seq"]])


def fewer_rounds_planned(scene: Scene) -> Lie:
    records = _records(scene.run)
    return _operator(scene, [records[0] | {"rounds": scene.chance.randrange(1, records[0]["rounds"])}, *records[1:]])


def a_smaller_epsilon_stated(scene: Scene) -> Lie:
    stated = scene.run.content["statement"]
    lower = stated["epsilon"] - max(0.0025, stated["epsilon"] * scene.chance.uniform(0.003, 0.9))
    return _operator(scene, statement={**stated, "epsilon": max(lower, 0.0)})


def a_larger_delta_stated(scene: Scene) -> Lie:
    stated = scene.run.content["statement"]
    return _operator(scene, statement={**stated, "delta": stated["delta"] * scene.chance.uniform(2, 100)})


def neighbours_that_are_closer(scene: Scene) -> Lie:
    stated = scene.run.content["statement"]
    other = scene.chance.choice(
        ["zero out one user", "add or remove one user", "replace one user", "replace one example"]
    )
    other = other if other != stated["adjacency"] else "change one word"
    if scene.chance.random() < 0.5:
        return _operator(scene, statement={**stated, "adjacency": other})
    records = _records(scene.run)
    return _operator(scene, [records[0] | {"adjacency": other}, *records[1:]], statement={**stated, "adjacency": other})


def a_model_that_is_not_in_the_ledger(scene: Scene) -> Lie:
    return _operator(scene, model={**scene.run.content["model"], "checkpoint": f"{scene.chance.getrandbits(256):064x}"})


def another_strategy(scene: Scene) -> Lie:
    records = _records(scene.run)
    strategy = dict(records[0]["strategy"])
    if not strategy:
        strategy = {"strategy": "banded", "coefficients": [1.0], "horizon": 99}
    elif "coefficients" in strategy:
        strategy["coefficients"] = [
            1.0,
            *(each * scene.chance.uniform(0, 0.9) for each in strategy["coefficients"][1:]),
        ]
    elif "omega" in strategy:
        strategy["omega"] = [each * scene.chance.uniform(0, 0.9) for each in strategy["omega"]]
    else:
        strategy = {"strategy": "blt", "theta": [], "omega": [], "horizon": 99}
    return _operator(scene, [records[0] | {"strategy": strategy}, *records[1:]])


def the_ledger_of_another_run(scene: Scene) -> Lie:
    if scene.chance.random() < 0.5:
        return Lie(signed_again(scene.run.content, scene.other.content["ledger"]))
    records, others = _records(scene.run), _records(scene.other)
    place = scene.chance.randrange(1, min(len(records), len(others)))
    return _operator(scene, records[:place] + others[place:])


def the_certificate_of_another_run(scene: Scene) -> Lie:
    return Lie(scene.other.data)


# The reader kept a head.
def an_older_certificate(scene: Scene) -> Lie:
    return Lie(scene.earlier.data, [Checkpoint.parse(scene.run.content["head"]).text()])


def the_end_cut_off(scene: Scene) -> Lie:
    lines = scene.run.content["ledger"]
    kept = lines[: scene.chance.randrange(1, len(lines))]
    return Lie(signed_again(scene.run.content, kept), [head_of(lines, scene.run.content["run"])])


def a_fork(scene: Scene) -> Lie:
    records, lines = _records(scene.run), scene.run.content["ledger"]
    intent = _an_intent(records, scene.chance) | {"participation": f"{scene.chance.getrandbits(256):064x}"}
    held = lines[: scene.chance.randrange(intent["seq"] + 1, len(lines) + 1)]
    stated = dict(scene.run.content["statement"])
    forked = rechained(_with(records, intent))
    stated["ledger_head"] = json.loads(forked[-1])["digest"]
    return Lie(
        signed_again(scene.run.content | {"statement": stated}, forked), [head_of(held, scene.run.content["run"])]
    )


ATTACKS: tuple[Callable[[Scene], Lie], ...] = (
    a_bit, cut_off, lines_cut_out, lines_exchanged, a_record_edited, edited_and_hashed_again, another_model,
    another_statement, another_head, the_signature_of_another, a_signature_made_up, forged_whole, signed_by_another,
    other_noise_than_planned, less_noise_planned_too, a_larger_clip, another_sampling, an_attempt_left_out,
    fewer_rounds_planned, a_smaller_epsilon_stated, a_larger_delta_stated, neighbours_that_are_closer,
    a_model_that_is_not_in_the_ledger, another_strategy, the_ledger_of_another_run, the_certificate_of_another_run,
    an_older_certificate, the_end_cut_off, a_fork,
)  # fmt: skip
