"""Give a run that has finished more rounds.

The ledger gets an `Extended` record, and the run goes on from its last checkpoint under the plan it began with: the same
clip, noise and sampling. recipe.toml stays as it is, because the ledger is bound to it.

**What it costs.** The statement of a run that was extended covers all of its rounds. People extend a run because they have
looked at what it released, so the number of rounds is not a constant that was settled beforehand, and all rounds are charged
by the odometer for adaptively chosen releases (`tacit.privacy.accounting.adaptive`). It reads somewhat more than a run that
had been planned with so many rounds would state. What was stated before the extension stays true for what had been released
until then: the first releases are those of a run with the plan of that time, whatever comes after them. An ε that the
recipe's noise was calibrated for does not hold for the extended run.

**What cannot be extended.** The proof of the odometer is about rounds whose cost is settled one by one: fresh Gaussian noise
on users who are sampled. Correlated noise (trees, banded, buffered Toeplitz) was optimised and charged for its number of rounds
as a whole. Users who check in are charged by how often they may take part in all rounds, which the plan has promised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tacit.errors import RunError
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.outside import is_path
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Extended, Opened
from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder


@dataclass(frozen=True)
class Extension:
    """What it means to extend a run: its rounds and its stated cost, before and after."""

    rounds_before: int
    rounds: int
    before: Spent
    after: Spent

    def sentence(self) -> str:
        """Says what the extension will cost, before it starts."""
        asked = f"The run goes on from {self.rounds_before:,} to {self.rounds:,} rounds"
        if self.after.reasons_not_private:
            return f"{asked}; ε stays infinite."
        return (
            f"{asked}. ε for all {self.rounds:,} rounds will be {epsilon_text(self.after.epsilon)} at δ = "
            f"{self.after.delta:g}, after {epsilon_text(self.before.epsilon)} for the first {self.rounds_before:,}: a target "
            "that the noise was calibrated for no longer holds. The earlier statement stays true for the model after "
            f"{self.rounds_before:,} rounds."
        )


def extension_of(folder: RunFolder, rounds: int) -> Extension:
    """What extending the run to `rounds` rounds in all would cost; RunError, in one sentence, if it cannot be extended."""
    if not folder.begun:
        raise RunError(f"The run {folder.path} has not begun, so there is nothing to extend.")
    ledger = folder.accountable_ledger()
    require_extendable(ledger, folder, rounds)
    return Extension(
        ledger.opened.rounds,
        rounds,
        cost_of(folder, ledger).stated,
        cost_of(folder, replace(ledger, records=(*ledger.records, Extended(rounds)))).stated,
    )


def require_extendable(ledger: Ledger, folder: RunFolder, rounds: int) -> None:
    """RunError, in one sentence, unless the run of this ledger can go on until `rounds` rounds are done."""
    opened, closed = ledger.opened, ledger.closed
    if closed is None or closed.outcome != "finished":
        how = "has not finished" if closed is None or closed.outcome == "stopped" else f"has {closed.outcome}"
        raise RunError(
            f"Expected a run that has finished, to extend it to {rounds:,} rounds, got {folder.path}, which {how}.",
            hint=None if how == "has diverged" else f"Finish it first: tacit train --resume {folder.path}",
        )
    if rounds <= opened.rounds:
        raise RunError(
            f"Expected run.rounds > {opened.rounds:,}, the rounds that {folder.path} has run, got {rounds:,}."
        )
    server = folder.recipe().get("server", {})
    if server.get("schedule", "constant") != "constant" and server.get("final") == 0:
        raise RunError(
            f"The run {folder.path} cannot be extended beyond its {opened.rounds:,} rounds: its learning rate has fallen to 0 "
            "(server.final), so that further rounds would cost privacy and change nothing.",
            hint="Begin a new run with more rounds.",
        )
    if (objection := objection_to_extending(opened)) is not None:
        raise RunError(
            f"The run {folder.path} cannot be extended beyond its {opened.rounds:,} rounds: {objection}.",
            hint="Begin a new run with more rounds.",
        )


def objection_to_extending(opened: Opened) -> str | None:
    """Why a run with this first record cannot get more rounds, without a full stop; None if it can."""
    kind = kind_of(opened.mechanism)
    if opened.finds_words:
        return "it finds words, and its threshold is made for the rounds that were planned"
    if is_path(opened.mechanism):
        return f"the mechanism {opened.mechanism} comes from outside Tacit, and its cost is stated for the rounds of its plan"
    if kind.correlated:
        return (
            f"the noise of the mechanism '{opened.mechanism}' is correlated between rounds, and was planned and charged for "
            "this number of rounds as a whole"
        )
    if opened.plan.get("sampling") == "check_in":
        return "its users check in, and the plan promises how often each of them takes part in all of its rounds"
    if kind.adds_noise and opened.mechanism != "gaussian":
        return f"nothing is proven about extending a run with the mechanism '{opened.mechanism}'"
    return None
