"""The results of an audit, and what each number means in plain words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

from tacit.audit.exposures import SettingExposure
from tacit.audit.lower_bound import LowerBound
from tacit.numbers import finite_or_none
from tacit.privacy.record.reasons import Reason, in_words
from tacit.privacy.statement.wording import round_up
from tacit.runs.report.blocks import Paragraph, Section, Table

BY_LOSS, BY_TRAJECTORY = "loss", "trajectory"
BROKEN = (
    "Something is broken: the attack got more out of the model than the proven epsilon allows. The noise, the clipping, the "
    "sampling or the accounting is not what the ledger says. Do not use the model."
)
COULD_NOT_FAIL = "This audit could not have failed"
Verdict = Literal["broken", "passed", "could_not_fail", "no_bound"]


@dataclass(frozen=True)
class Attacked:
    """The attacks on one canary. `place` is its place in the beam search's results, 1 being the likeliest; None: not found."""

    number: int
    text: str
    setting: str
    rank: int
    candidates: int
    exposure: float
    place: int | None


@dataclass(frozen=True)
class Proven:
    """The proven (epsilon, delta) of one synthetic user, from their own participation; `reasons` why epsilon is infinite."""

    epsilon: float
    delta: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class AuditOutcome:
    """An audit of one model. `bounds` has one entry per kind of score; `proven` is None without synthetic users."""

    prefix: int
    suffixes: int
    width: int
    attacked: Sequence[Attacked]
    exposures: Sequence[SettingExposure]
    bounds: dict[str, LowerBound]
    proven: Proven | None

    @property
    def verdict(self) -> Verdict:
        """What the lower bounds say about the proof.

        "could_not_fail": even an attacker who is always right could not have exceeded the proven epsilon, or it is infinite.
        """
        if self.broken:
            return "broken"
        if not self.bounds or self.proven is None:
            return "no_bound"
        return "could_not_fail" if self.strongest <= self.proven.epsilon else "passed"

    @property
    def strongest(self) -> float:
        """The lower bound that an attacker who is always right would reach with as many canary users."""
        return max((bound.strongest for bound in self.bounds.values()), default=0.0)

    @property
    def broken(self) -> bool:
        """Whether a lower bound exceeds the proven epsilon."""
        return self.proven is not None and any(b.epsilon > self.proven.epsilon for b in self.bounds.values())

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the canaries' texts."""
        proven = None
        if self.proven is not None:
            proven = {**asdict(self.proven), "epsilon": finite_or_none(self.proven.epsilon)}
        return {
            "prefix": self.prefix,
            "suffixes": self.suffixes,
            "beam_width": self.width,
            "canaries": [{k: v for k, v in asdict(each).items() if k != "text"} for each in self.attacked],
            "exposures": [asdict(each) for each in self.exposures],
            "lower_bounds": {name: asdict(bound) for name, bound in self.bounds.items()},
            "proven": proven,
            "strongest_possible": self.strongest,
            "verdict": self.verdict,
            "broken": self.broken,
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column heads and one row per setting: how its canaries were shared, seen, ranked and extracted."""
        seen = {row.setting: row for row in self.exposures}
        rows = []
        for setting, group in groupby(self.attacked, key=lambda each: each.setting):
            same, shown = list(group), seen.get(setting)
            rows.append(
                [
                    setting,
                    str(len(same)),
                    "" if shown is None else _count(shown.expected),
                    "" if shown is None else _count(shown.seen),
                    f"{statistics.median(each.rank for each in same):,.0f}",
                    f"{min(each.rank for each in same):,}",
                    f"{statistics.fmean(each.exposure for each in same):.1f}",
                    str(sum(each.place is not None for each in same)),
                ]
            )
        return [
            "shared by",
            "phrases",
            "expected",
            "seen",
            "median rank",
            "best rank",
            "bits",
            "found",
        ], rows

    def words(self) -> list[str]:
        """The meaning of the numbers, a sentence or two each."""
        said = []
        if self.attacked:
            most = max(each.candidates for each in self.attacked)
            said = [
                "A canary is a phrase of random words that nobody would write. It was planted in the training data, and the "
                "attacks search the model for it.",
                "Expected and seen: how many copies of a canary training was expected to read, and how many it read. Every "
                "pass over a copy counts; copies beyond the part of a user's text that training reads do not.",
                f"Rank: the attacker knows the first {self.prefix} words and compares the rest with {most - 1:,} random "
                f"endings. 1 means that the model prefers the secret to all of them; a model that has not memorised it gives "
                f"any rank up to {most:,} with the same probability. Bits: the mean exposure, log2 of the number of endings "
                f"over the rank: {math.log2(most):.1f} for rank 1, about 1.4 by chance.",
                f"Found: the attacker knows the first {self.prefix} words, lets the model continue them, keeps the "
                f"{self.width} likeliest phrases, and finds the secret among them.",
            ]
        return said + self.bound_words()

    def bound_words(self) -> list[str]:
        """The lower bounds beside the proven epsilon."""
        said = []
        names = {BY_LOSS: "by loss alone", BY_TRAJECTORY: "by the model's trajectory in training"}
        for name, bound in self.bounds.items():
            said.append(
                f"Membership {names[name]}: of {bound.canaries} canary users, each in or out by a fair coin, the attacker "
                f"guessed {bound.guesses} and was right {bound.right} times. So epsilon is at least "
                f"{round_down(bound.epsilon)}, with {bound.confidence:.2%} confidence."
            )
        if self.proven is not None:
            proven = (
                f"epsilon at most {round_up(self.proven.epsilon)} at delta {self.proven.delta:g}"
                if math.isfinite(self.proven.epsilon)
                else f"nothing, because {in_words(self.proven.reasons)}"
            )
            said.append(f"Proven for any one synthetic user, from their own participation: {proven}.")
        if self.bounds:
            together = 1 - sum(1 - bound.confidence for bound in self.bounds.values())
            best = self.strongest
            said.append(
                f"The lower bounds hold together with {together:.2%} confidence. "
                + (
                    f"With this many canary users, an attacker who is always right could have shown epsilon "
                    f"{round_down(best)}. A lower bound below that is the result of this attack; a better attack may exist."
                    if best > 0
                    else "With this many canary users no attack can show anything at this delta: plant more canary users, or "
                    "choose a smaller delta."
                )
            )
            said.append(self._verdict_words())
        return said

    def _verdict_words(self) -> str:
        """The verdict in one or two sentences."""
        if self.verdict == "broken":
            return BROKEN
        if self.verdict != "could_not_fail" or self.proven is None:
            return "No lower bound exceeds the proven epsilon."
        if math.isinf(self.proven.epsilon):
            return f"{COULD_NOT_FAIL}: nothing is proven for this run, so no lower bound can exceed it."
        return (
            f"{COULD_NOT_FAIL}: this many canary users can show epsilon {round_down(self.strongest)} at most, and "
            f"{round_up(self.proven.epsilon)} is proven. An audit that can fail needs more canary users (tacit audit plant "
            "--coins) or a run with a smaller epsilon; the audit of the gate tests the noise and the clip at any epsilon."
        )

    def section(self) -> Section:
        """The audit's section of the run's report. It is for the owner alone, because it contains the canaries' texts."""
        columns, rows = self.table()
        apart = (BROKEN, COULD_NOT_FAIL)
        blocks: list[Any] = [Paragraph(text=text, note=text.startswith(apart)) for text in self.words()]
        if rows:
            blocks.insert(1, Table(columns=columns, rows=rows, caption="Canaries by how they were shared"))
            each = [
                [str(a.number + 1), a.text, a.setting, f"{a.rank:,}", f"{a.exposure:.1f}", str(a.place or "no")]
                for a in self.attacked
            ]
            heads = ["canary", "text", "shared by", "rank", "exposure, bits", "extracted at"]
            blocks.append(Table(columns=heads, rows=each, caption="Every canary", folded=True))
        return Section(name="audit", title="The audit", order=60, private=True, blocks=blocks)


def round_down(value: float) -> str:
    """Two decimals, rounded down, so that a lower bound stays a lower bound."""
    return f"{math.floor(value * 100) / 100:.2f}"


def _count(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
