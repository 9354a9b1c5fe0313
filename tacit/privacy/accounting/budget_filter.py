"""A privacy filter: what may still be spent on the same people, when every job is chosen by looking at earlier ones.

An owner sets a budget, (ε, δ) or ρ. Each job that reads the people says beforehand what it will cost at most (`charges`), and
begins only if the filter admits it. Somebody may look at all that was released before they decide whether there is a next
job, with which mechanism, noise and number of rounds. Adding up what came about and converting it at the best order, as for
jobs that were settled beforehand, is then no proof: of the ways to spend, a person takes the one that suits what was released
so far (`tests/privacy/accounting/test_budget_filter.py` shows such a person, who brings the true δ above the stated one).

**Setting.** Releases Y₁, Y₂, ... of all jobs, in whatever order and however interleaved. One user's data differ between D and
D′. Given the past, the settings of release i are chosen without another look at the data, and release i has Rényi divergence
at most ρᵢ(α) at every order α used here, for neighbours in either order. S(α) = Σ ρᵢ(α) over everything released until now, L
is its privacy loss, and C(α) is the sum of the charges in the account. A charge is in the account before the first release
that it pays for, it is not lower than the sum of its job's ρᵢ(α), and it stays that high. So S(α) ≤ C(α) at all times, at all
orders.

**Theorem (ρ).** Let every admitted job leave C(α) ≤ α R at all orders α > 1: the charged ρ's add up to R or less. Then
everything that is ever released is R-zCDP.

*Proof.* Given the past, E_D[e^{(α−1) Lᵢ}] ≤ e^{(α−1) ρᵢ(α)}, so e^{(α−1)(L − S(α))} is a supermartingale that begins at 1 (S is
known before each release). S(α) ≤ C(α) ≤ α R at all times, whatever was chosen, so E_D[e^{(α−1) L}] ≤ e^{(α−1) α R} after any
number of releases, also one that depends on them. This is D_α ≤ α R, for every α > 1, which is R-zCDP. ∎

**Theorem (ε, δ).** Let orders α_j and weights w_j be fixed by δ alone, and let every admitted job leave reading(C) ≤ ε, where
the reading is that of the Rényi odometer (`adaptive`). Then everything that is ever released is (ε, δ)-private.

*Proof.* With S, M = Σ_j w_j e^{(α_j−1)(L − S(α_j))} is a supermartingale that begins at 1 (`adaptive`), so E_D[M] ≤ 1
whenever one stops. M falls where S grows, so the reading grows with S: the least ε′ with (1 − e^{ε′−L})₊ ≤ δ M for every L is
at S what it is at C, or smaller. So reading(S) ≤ reading(C) ≤ ε on every path, and for any set O of outcomes

    P_D(O) − e^ε P_D′(O) = E_D[1_O (1 − e^{ε−L})] ≤ E_D[(1 − e^{reading(S)−L})₊] ≤ δ E_D[M] ≤ δ.  ∎

The one-order filter of Feldman and Zrnic (2021) is the case of a single α; Whitehouse et al. (2023) prove filters and odometers
by the same supermartingale.

**What follows for the account.**
- A reservation that was not used may be given back: charges only have to be above what was released.
- Jobs may run at the same time. The rounds of one come between those of another, and each round's divergence is given the whole
  past. A ρ that is charged for a run of correlated Gaussian noise bounds its rows' conditional divergences on every path.
- The δ of a budget is fixed when it is set: orders and weights follow from it. What is set aside for the tails of noise and for
  the thresholds of discoveries of words is fixed with it (`several_runs`): a threshold fails with probability δ_T at most given
  the past, and the charged δ_T may add up to a fifth of δ and no more.
- The tails of noise (`noise.tail`) are charged at the budget's ε, not at what is spent until now: noise that is outside its
  proof in a first job adds (1 + e^ε) τ at the ε that all jobs reach in the end, and Σ τ is at most its share of δ for that ε.
- ε may be raised. For each ε fixed beforehand the proof holds for the outcomes in which the budget did not pass it. So a raised
  budget is a weaker statement than one that was large from the start, and every statement says how often it was raised. So is
  one that was set when releases had been made: ε and δ may have been chosen by looking at them, and the statement says of how
  many runs.
- A budget in ρ admits no job whose cost is no ρ: users who are sampled, and thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tacit.errors import PrivacyError
from tacit.privacy.accounting.charges import Charge, ChargedWords, rho_for, rho_of_discovery, sampled_rounds
from tacit.privacy.accounting.composition import Concentrated, Part, Sampled, the_one
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY
from tacit.privacy.accounting.several_runs import RunCost, added
from tacit.privacy.record.codec import Typed
from tacit.privacy.record.reasons import in_words

# With a budget in ρ the jobs are zCDP up to an event, that noise is outside its proof, of at most this probability together.
LARGEST_TAIL = 1e-20
_HALVINGS = 60


@dataclass(frozen=True)
class Limit(Typed):
    """The most that may be spent: ε at δ, or ρ."""

    epsilon: float | None
    delta: float | None
    rho: float | None = None

    @property
    def value(self) -> float:
        """The ε, or the ρ."""
        found = self.epsilon if self.rho is None else self.rho
        assert found is not None
        return found

    @property
    def symbol(self) -> str:
        """What the value is called."""
        return "ε" if self.rho is None else "ρ"

    def same_kind(self, other: Limit) -> bool:
        """Whether both are a ρ, or an ε at the same δ."""
        return (self.rho is None) == (other.rho is None) and self.delta == other.delta


@dataclass(frozen=True)
class Spending:
    """What charges come to under a limit: the ε that the odometer reads at its δ, or Σ ρ; infinite with the reason."""

    value: float
    unknown: str | None = None


def require_limit(epsilon: float | None, delta: float | None, rho: float | None) -> Limit:
    """The limit with these numbers; PrivacyError unless they are ε > 0 with 0 < δ < 1, or ρ > 0."""
    if (rho is None) == (epsilon is None):
        raise PrivacyError("Expected either epsilon with delta, or rho, as the budget.")
    if rho is not None:
        if delta is not None:
            raise PrivacyError("Expected no delta beside rho: a budget in rho has none.")
        if not 0 < rho < math.inf:
            raise PrivacyError(f"Expected rho > 0, got {rho}.")
        return Limit(None, None, float(rho))
    assert epsilon is not None
    if not 0 < epsilon < math.inf:
        raise PrivacyError(f"Expected epsilon > 0, got {epsilon}.")
    if delta is None:
        raise PrivacyError("Expected a delta beside epsilon, such as 1e-6, got none.")
    if not 0 < delta < 1:
        raise PrivacyError(f"Expected delta between 0 and 1 beside epsilon, got {delta}.")
    return Limit(float(epsilon), float(delta))


def spending(charges: Mapping[str, Charge], limit: Limit) -> Spending:
    """What these charges, by the run that each is for, come to together."""
    if not charges:
        return Spending(0.0)
    for run, charge in charges.items():
        if charge.unknown is not None:
            return Spending(math.inf, f"the cost of the run {run} is unknown: {charge.unknown}")
        if not charge.is_possible:
            return Spending(math.inf, f"the cost of the run {run} is unknown: its charge has a number that no cost has")
    try:
        the_one("unit of privacy", (charge.unit for charge in charges.values()))
        adjacency = _adjacency(charges.values())
    except PrivacyError as error:
        return Spending(math.inf, error.sentence.rstrip(".").replace("Expected", "expected", 1))
    words = _other_discoveries(charges)
    if limit.rho is not None:
        return _rho(charges, words, adjacency)
    assert limit.delta is not None
    costs = [_cost(charge, adjacency) for charge in charges.values()]
    for each in words:
        part = Concentrated(rho_of_discovery(each, adjacency), adjacency)
        costs.append(RunCost((part,), 0.0, threshold_delta=each.threshold_delta))
    found, reasons = added(costs, limit.delta, adaptive=True, odometer=True, within_epsilon=limit.value)
    return Spending(found.epsilon, in_words(reasons) if reasons else None)


def most_rho(charges: Mapping[str, Charge], limit: Limit) -> float:
    """The largest ρ of one more Gaussian release that the limit has room for, rounded down; 0 if there is no room."""
    adjacency = _adjacency(charges.values())
    unit = next((charge.unit for charge in charges.values()), "")

    def fits(rho: float) -> bool:
        return spending({**charges, "": Charge(unit, adjacency, rho=rho)}, limit).value <= limit.value

    if not fits(0.0):
        return 0.0
    low, high = 0.0, limit.value  # a single ρ costs an ε of more than ρ
    for _ in range(_HALVINGS if limit.rho is not None else 30):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _cost(charge: Charge, adjacency: str) -> RunCost:
    parts: list[Part] = [Sampled(each) for each in sampled_rounds(charge)]
    if rho := rho_for(charge, adjacency):
        parts.append(Concentrated(rho, adjacency))
    return RunCost(parts, charge.tail, threshold_delta=charge.threshold_delta)


def _rho(charges: Mapping[str, Charge], words: Iterable[ChargedWords], adjacency: str) -> Spending:
    words = list(words)
    for run, charge in charges.items():
        if charge.rounds:
            return Spending(math.inf, f"the users of the run {run} are sampled, and that cost is no rho")
        if charge.threshold_delta:
            return Spending(math.inf, f"the run {run} uses a threshold, and that cost is no rho")
    if any(each.threshold_delta for each in words):
        return Spending(math.inf, "words were found with a threshold, and that cost is no rho")
    if math.fsum(charge.tail for charge in charges.values()) > LARGEST_TAIL:
        return Spending(math.inf, "the proof of the noise leaves out too much for a budget in rho")
    rhos = [rho_for(charge, adjacency) for charge in charges.values()]
    return Spending(math.fsum((*rhos, *(rho_of_discovery(each, adjacency) for each in words))))


def _adjacency(charges: Iterable[Charge]) -> str:
    stated = [charge.adjacency for charge in charges if charge.adjacency is not None]
    return the_one("adjacency", stated) if stated else ADJACENCY["poisson"]


def _other_discoveries(charges: Mapping[str, Charge]) -> list[ChargedWords]:
    """The discoveries that chose the words of these runs, each once, without those that are charged among the runs.

    Where two runs say different things about one discovery, the larger of each counts.
    """
    found: dict[str, ChargedWords] = {}
    for charge in charges.values():
        words = charge.words
        if words is None or (words.run in charges and charges[words.run].covers_words(words)):
            continue
        found[words.run] = words.at_least(found.get(words.run, words))
    return list(found.values())
