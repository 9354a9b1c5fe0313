"""Certificates of runs that nobody trained: ledgers with power cuts, resumes, extensions and discoveries, made by hand.

The ledger is written by Tacit's own writer, and statement and signatures are Tacit's own too. No JAX is needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.noise.strategies.toeplitz import Toeplitz
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import Ledger, LedgerWriter, read_ledger
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.records import FRESH_NOISE, Closed, Committed, Extended, Resumed, canonical
from tacit.privacy.statement.guarantee import Guarantee
from tacit.secagg import keys
from tacit.transparency.certificate import signed_certificate
from tacit.transparency.checkpoint import PublicKey
from tests.support.planned_ledgers import opened_with

KEY = bytes(range(32))
SAMPLED: dict[str, Any] = {
    "population": 1000,
    "cohort": 20,
    "clip_norm": 0.8,
    "noise_multiplier": 1.2,
    "delta": 1e-5,
}
_OFTEN = {"sampling": "check_in", "min_separation": 3, "max_participation": 4, "noise_multiplier": 4.0}
_BLT = {"strategy": "blt", "theta": [0.9, 0.4], "omega": [0.3, 0.2], "horizon": 40}
_BAND = {"strategy": "banded", "coefficients": [1.0, 0.5, 0.3], "horizon": 40}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gaussian": (SAMPLED, {}),
    "fixed": ({**SAMPLED, "sampling": "fixed", "noise_multiplier": 3.0}, {}),
    "adaptive": ({**SAMPLED, "adaptive": {"quantile": 0.5, "learning_rate": 0.2, "count_noise": 2.0}}, {}),
    "weighted": ({**SAMPLED, "estimator": "clipped", "example_cap": 5.0, "total_weight": 500.0}, {}),
    "scheduled": ({**SAMPLED, "clip_schedule": [{"round": 3, "clip_norm": 0.5}]}, {}),
    "check-in": ({**SAMPLED, **_OFTEN}, {}),
    "tree": ({**SAMPLED, **_OFTEN, "mechanism": "tree", "restarts": [4]}, {"strategy": {"strategy": "tree"}}),
    "blt": ({**SAMPLED, **_OFTEN, "mechanism": "blt"}, {"strategy": _BLT}),
    "banded": ({**SAMPLED, **_OFTEN, "mechanism": "banded", "restarts": [3, 7]}, {"strategy": _BAND}),
    "cyclic": (
        {**SAMPLED, "sampling": "cyclic_poisson", "mechanism": "banded", "bands": 3, "noise_multiplier": 2.0},
        {"strategy": _BAND},
    ),
}


@dataclasses.dataclass(frozen=True)
class Made:
    """A certificate, the ledger it holds, and the public key that signed it."""

    data: bytes
    ledger: Ledger
    key: str

    @property
    def content(self) -> dict[str, Any]:
        return dict(json.loads(self.data))


def made_certificate(
    folder: Path,
    kind: str = "gaussian",
    *,
    seed: int = 0,
    rounds: int = 8,
    planned: int | None = None,
    extended: int = 0,
    run_id: str = "ab12cd34",
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> Made:
    """A run of this kind, with up to three power cuts; `changes` are fields of its first record, `settings` of its plan."""
    given, facts = KINDS[kind]
    plan = PrivacyPlan(**{**given, **(settings or {})})
    facts = {**facts, "run_id": run_id, "rounds": planned or rounds, "adjacency": plan.adjacency, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    with LedgerWriter.create(folder / "ledger.jsonl", opened_with(plan, **facts)) as writer:
        _train(writer, plan, rounds, chance)
        if extended:
            writer.append(Extended(extended))
            writer.append(Resumed(writer.ledger.next_round, [], FRESH_NOISE))
            _train(writer, plan, extended, chance)
        return Made(certified(writer.ledger), writer.ledger, public_key(writer.ledger))


def earlier(made: Made, folder: Path, records: int) -> Made:
    """The certificate of the same run when its ledger had so many records."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ledger.jsonl"
    path.write_bytes(b"".join(made.ledger.path.read_bytes().splitlines(keepends=True)[:records]))
    ledger = read_ledger(path)
    return Made(certified(ledger), ledger, made.key)


def _train(writer: LedgerWriter, plan: PrivacyPlan, rounds: int, chance: random.Random) -> None:
    cuts, saved = chance.randint(0, 3), writer.ledger.next_round
    while (number := writer.ledger.next_round) < rounds:
        (planned,) = planned_intents(plan, number + 1, start=number)
        cohort = f"{chance.getrandbits(256):064x}"
        writer.append(dataclasses.replace(planned, attempt=writer.ledger.attempts(number), participation=cohort))
        if chance.random() < 0.5:
            saved = number + 1
            writer.append(Committed(saved, f"{chance.getrandbits(256):064x}"))
        if cuts and chance.random() < 0.3:
            cuts -= 1
            writer.append(Resumed(saved, writer.ledger.lost_from(saved), FRESH_NOISE))
    writer.append(Committed(rounds, f"{chance.getrandbits(256):064x}"))
    writer.append(Closed(rounds, "finished"))


def certified(ledger: Ledger, *, private: bytes = KEY, stated: Spent | None = None, **changes: Any) -> bytes:
    """The certificate of this ledger; `changes` are parts of its content."""
    opened, last = ledger.opened, ledger.committed
    spent = spent_by(opened, ledger.intents, start=ledger.next_round) if stated is None else stated
    column = None
    if opened.strategy and isinstance(strategy := from_description(opened.strategy), Toeplitz):
        borders = [0, *opened.plan.get("restarts", ()), opened.rounds]
        longest = max(stop - start for start, stop in pairwise(borders))
        column = {"coefficients": [float(each) for each in strategy.column(longest)]}
    content = {
        "run": opened.run_id,
        "strategy": column,
        "statement": Guarantee.of(ledger, spent).as_json(),
        "audit": None,
        "files": {"recipe.toml": "ab" * 32},
        "model": None
        if last is None
        else {"round": last.rounds_done, "checkpoint": last.checkpoint, "arrays": "cd" * 32},
        "code": {"tacit": "0"},
        "witnesses": [],
    }
    lines = ledger.path.read_bytes().split(b"\n")[:-1]
    return signed_certificate({**content, **changes}, lines, f"tacit/run/{opened.run_id}", private)


def public_key(ledger: Ledger, private: bytes = KEY) -> str:
    """What the signatures of the run's log are checked with."""
    return PublicKey(f"tacit/run/{ledger.opened.run_id}", keys.identity_public(private)).text()


def signed_again(content: dict[str, Any], lines: list[str], *, private: bytes = KEY) -> bytes:
    """A certificate with this content and these lines of a ledger, signed anew with this key."""
    kept = {
        name: each
        for name, each in content.items()
        if name not in ("certificate", "ledger", "head", "key", "signature")
    }
    encoded = [line.encode("ascii", "replace") for line in lines]
    return signed_certificate(kept, encoded, f"tacit/run/{content['run']}", private)


def rechained(records: list[dict[str, Any]]) -> list[str]:
    """The lines of a ledger with these records, every digest made to fit."""
    previous, lines = "0" * 64, []
    for seq, record in enumerate(records):
        content = {name: each for name, each in record.items() if name != "digest"} | {"seq": seq, "previous": previous}
        previous = hashlib.sha256(canonical(content)).hexdigest()
        lines.append(canonical(content | {"digest": previous}).decode())
    return lines
