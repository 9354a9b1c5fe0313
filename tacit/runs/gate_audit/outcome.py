"""The result of the audit of the gate, kept in the run's private folder, and what it means in words.

**Who may see what.** The release is users' sum plus noise, so every function of the noise that is published beside the release
reveals something about the sum. The scores would reveal the sum itself, along the channels. Even the verdict is a function of
the noise. Given the release, a verdict "passed" rules out every sum for which the noise would have failed a test, and one user
can change the verdict with a probability of up to the rate of false alarms, which is larger than most δ. So scores and verdict
are for the owner alone. A shared copy says how the run was audited and what would have been detected: both follow from the
plan.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.numbers import finite_or_none
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.record.records import UPDATE, Intent
from tacit.privacy.statement.wording import round_up
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.checks import (
    CONFIDENCE,
    FALSE_ALARM,
    POWER,
    Measured,
    detectable_scale,
    level_of,
    measure,
    planned_trials,
)
from tacit.runs.gate_audit.layout import TIMES_TOO_LONG
from tacit.runs.gate_audit.record import Design, read_records
from tacit.runs.report.blocks import Paragraph, Section, Table
from tacit.runs.report.sections import write_section

BROKEN = (
    "Something is broken at the gate: what was released is not the clipped sum with the noise that the ledger states. The "
    "stated epsilon does not hold. Do not use the model."
)
_ORDER = 31  # after the guarantee


@dataclass(frozen=True)
class Found:
    """One test in the result."""

    name: str
    chance: float
    alarm: bool
    what: str


@dataclass(frozen=True)
class GateOutcome:
    """The result. `scale` and `shift` are (lowest, estimate, highest) in stated units, at `CONFIDENCE`; None if not measured.

    `epsilon` is (lower bound, as stated), both by the same accounting; None if it was not computed.
    """

    rounds: int
    canaries: int
    coins: int
    trials: int
    values: int
    tests: tuple[Found, ...]
    scale: tuple[float, float, float] | None
    shift: tuple[float, float, float] | None
    detectable_scale: float | None
    detectable_shift: float | None
    epsilon: tuple[float, float] | None = None

    @classmethod
    def of(cls, design: Design, found: Measured) -> GateOutcome:
        alarms = set(found.alarms)
        tests = tuple(Found(each.name, each.chance, each in alarms, each.what) for each in found.findings)
        return cls(
            found.rounds,
            design.layout.canaries,
            found.coins,
            found.trials,
            found.coordinates,
            tests,
            _if_all_finite(found.scale),
            _if_all_finite(found.shift),
            finite_or_none(found.detectable_scale),
            finite_or_none(found.detectable_shift),
        )

    @property
    def alarms(self) -> list[Found]:
        """The tests that failed, the smallest p-value first."""
        return sorted((each for each in self.tests if each.alarm), key=lambda each: each.chance)

    @property
    def verdict(self) -> str:
        return "broken" if self.alarms else "passed"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"verdict": self.verdict, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> GateOutcome:
        fields: dict[str, Any] = {each.name: found[each.name] for each in dataclasses.fields(cls)}
        fields["tests"] = tuple(Found(**each) for each in fields["tests"])
        for name in ("scale", "shift", "epsilon"):
            fields[name] = None if fields[name] is None else tuple(fields[name])
        return cls(**fields)

    def sentence(self) -> str:
        """Says that there was an audit, without the verdict: others may read what a command prints."""
        seen = "done" if self.detectable_scale is None else seen_words(self.detectable_scale)
        return f"Audit of the gate: {seen}. For the owner, tacit audit run tells what was found."

    def words(self) -> list[str]:
        """What was found, the verdict last."""
        along, where = (
            self.trials // max(self.rounds, 1),
            _rounds_words(self.coins // max(self.canaries, 1), self.rounds),
        )
        single = f", and on {self.values:,} single values" if self.values != self.trials else ""
        said = [
            f"In {where}, up to {self.canaries} made-up contributions, {TIMES_TOO_LONG:g} times as long as the clip and each "
            f"in or out by a coin, went through the gate after people's: {self.coins:,} coins. The noise of all releases was "
            f"compared with the ledger's along {along:,} directions, {self.trials:,} trials in all{single}."
        ]
        if self.scale is not None:
            low, middle, high = self.scale
            said.append(
                f"The noise has {middle:.4f} times the stated standard deviation (from {low:.4f} to {high:.4f}, with "
                f"{CONFIDENCE:.1%} confidence)."
            )
        if self.shift is not None:
            low, middle, high = self.shift
            said.append(
                f"A contribution moves the release by {middle:.3f} times the stated bound (from {low:.3f} to {high:.3f}, with "
                f"{CONFIDENCE:.1%} confidence)."
            )
        if self.epsilon is not None:
            below, stated = self.epsilon
            said.append(
                f"With the noise and the shift at the ends of these intervals that favour privacy, the same accounting gives "
                f"epsilon {math.floor(below * 100) / 100:.2f}; {round_up(stated)} is stated."
            )
        said += [each.what for each in self.alarms[:5]]
        if self.detectable_scale is not None:
            shift = self.detectable_shift
            also = (
                ""
                if shift is None
                else f" So would a contribution that moves the release by {1 + shift:.2f} times the bound."
            )
            said.append(
                f"{_capital(seen_words(self.detectable_scale))}.{also} A sound run raises an alarm with a probability of at "
                f"most {FALSE_ALARM:g}."
            )
        return [*said, BROKEN if self.alarms else "Nothing contradicts the ledger."]

    def section(self) -> Section:
        """The owner's part of the run's report."""
        blocks: list[Any] = [Paragraph(text=text, note=text == BROKEN) for text in self.words()]
        rows = [[each.name, f"{each.chance:.2g}", "alarm" if each.alarm else "passed"] for each in self.tests]
        blocks.append(Table(columns=["test", "p-value", "result"], rows=rows, caption="Every test", folded=True))
        return Section(
            name="gate-audit-result",
            title="What the audit of the gate found",
            order=_ORDER + 1,
            private=True,
            blocks=blocks,
        )


def _rounds_words(some: int, rounds: int) -> str:
    return f"each of {rounds:,} rounds" if some == rounds else f"{some:,} of {rounds:,} rounds"


def seen_words(detectable: float) -> str:
    """What the audit would have detected, with probability `POWER`."""
    return f"noise {math.ceil(detectable * 1e4) / 100:g}% too small would have been seen with {POWER:.1%} probability"


def plan_section(design: Design, rounds: int) -> Section:
    """How the run is audited. Anybody may know this, because it follows from the plan alone."""
    detectable = detectable_scale(planned_trials(design, rounds), level_of(design))
    where = _rounds_words(-(-rounds // design.layout.every), rounds)
    text = (
        f"In {where}, up to {design.layout.canaries} made-up contributions went through the gate after people's, and their "
        "known part was taken out of the release again. They do not depend on users and change nothing for them. Over all "
        f"{rounds:,} rounds, {seen_words(detectable)}. What was found is in the owner's copy, because it depends on the noise."
    )
    return Section(name="gate-audit", title="The audit of the gate", order=_ORDER, blocks=[Paragraph(text=text)])


def no_audit_section(reason: str) -> Section:
    """Why a run is not audited at the gate."""
    text = f"The gate of this run was not audited: {reason}."
    return Section(name="gate-audit", title="The audit of the gate", order=_ORDER, blocks=[Paragraph(text=text)])


def read_outcome(folder: RunFolder) -> GateOutcome | None:
    """The run's result, or what its rounds show so far; None if no round was audited."""
    try:
        return GateOutcome.from_dict(json.loads(folder.gate_result_path.read_text()))
    except FileNotFoundError:
        found = read_records(folder.gate_audit_path)
        return None if found is None or not found[1] else GateOutcome.of(found[0], measure(*found))
    except (KeyError, TypeError, ValueError):
        raise RunError(f"The run {folder.path} is damaged: {folder.gate_result_path} cannot be read.") from None


def conclude(folder: RunFolder) -> GateOutcome | None:
    """Write the result of a run that has ended, and remove the scores, which are as secret as the noise."""
    found = read_outcome(folder)
    if found is not None:
        write_atomic(folder.gate_result_path, json.dumps(found.as_dict(), allow_nan=False) + "\n", mode=0o600)
    with suppress(FileNotFoundError):
        folder.gate_audit_path.unlink()
    return found


def write_gate_section(folder: RunFolder) -> GateOutcome | None:
    """Put the result into the owner's report, with a lower bound beside the stated epsilon; None if there is no result."""
    try:
        found = read_outcome(folder)
    except PermissionError:  # the report says so itself
        return None
    if found is None:
        return None
    found = dataclasses.replace(found, epsilon=_epsilons(folder, found))
    write_section(folder, found.section())
    return found


def _epsilons(folder: RunFolder, found: GateOutcome) -> tuple[float, float] | None:
    """(from the measured noise and shift, as stated), both by the same accounting; None if no finite epsilon is stated."""
    ledger = folder.ledger()
    if found.scale is None or found.shift is None or found.shift[0] <= 0 or ledger.opened.reasons_not_private:
        return None
    stated = cost_of(folder, ledger).stated.epsilon
    weaker = found.scale[2] / found.shift[0]  # more noise, less shift
    intents = [_with_noise(intent, weaker) for intent in ledger.intents]
    below = spent_by(ledger.opened, intents, start=ledger.next_round).epsilon
    return (below, stated) if math.isfinite(stated) and math.isfinite(below) else None


def _with_noise(intent: Intent, factor: float) -> Intent:
    update = intent.blocks[UPDATE]
    changed = {**update, "noise_multiplier": float(update["noise_multiplier"] or 0.0) * factor}
    return dataclasses.replace(intent, blocks={**intent.blocks, UPDATE: changed})


def _if_all_finite(values: tuple[float, float, float]) -> tuple[float, float, float] | None:
    return values if all(map(math.isfinite, values)) else None


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
