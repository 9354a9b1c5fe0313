"""Results of `tacit audit`. They are for the owner: verdict and scores depend on the noise."""

from __future__ import annotations

from typing import Literal

from tacit.cli.results.base import OpenResult, Result, key, sometimes


class PlantResult(Result):
    """A plan of canaries."""

    plan: str = key("the file that was written; keep it secret")
    canaries: int = key("how many canaries it has")
    made_up_users: int = key("how many made-up users it adds to the real ones")
    train_with: list[str] = key("the arguments of `tacit` that train a run with it: `train`, a recipe, its changes")


class GateTest(Result):
    """One test of the gate."""

    name: str = key("what was tested")
    chance: float = key("its p-value")
    alarm: bool = key("whether it contradicts the ledger")
    what: str = key("what was found, in a sentence")


class GateResult(Result):
    """The audit of the gate. Intervals are (lowest, estimate, highest)."""

    verdict: Literal["passed", "broken"] = key("whether a test contradicts the ledger")
    rounds: int = key("how many rounds were audited")
    canaries: int = key("the most made-up contributions in a round")
    coins: int = key("how many coins decided whether one went in")
    trials: int = key("along how many directions the noise was compared, over all rounds")
    values: int = key("on how many single values it was compared")
    tests: list[GateTest] = key("every test")
    scale: tuple[float, float, float] | None = key("measured noise over stated noise; null if not measured")
    shift: tuple[float, float, float] | None = key("how far a contribution moves the release, over the bound; or null")
    detectable_scale: float | None = key("by which share too small the noise would have been noticed")
    detectable_shift: float | None = key("by which share too long a contribution would have been noticed")
    epsilon: tuple[float, float] | None = key("(lower bound from the measured noise, stated epsilon); or null")


class AttackedCanary(Result):
    """The attacks on one canary."""

    number: int = key("its number in the plan")
    setting: str = key("how it was shared")
    rank: int = key("its place among random endings; 1 is the likeliest")
    candidates: int = key("how many endings were compared, the canary included")
    exposure: float = key("log2(candidates / rank), in bits")
    place: int | None = key("its place in the beam search; null if it was not found")


class CanaryExposure(Result):
    """What training read of the canaries of one setting, on average."""

    setting: str = key("how they were shared")
    canaries: int = key("how many canaries")
    holders: float = key("how many users held one")
    copies: float = key("how many copies a holder had")
    expected: float = key("how many copies training was expected to read")
    seen: float = key("how many it read")


class EpsilonBound(Result):
    """A lower bound on epsilon, from guesses about who took part."""

    epsilon: float = key("epsilon is at least this")
    confidence: float = key("with this confidence")
    canaries: int = key("how many canary users, each in or out by a coin")
    guesses: int = key("how many of them the attacker guessed")
    right: int = key("how many guesses were right")
    strongest: float = key("the bound if all guesses had been right")


class ProofReason(Result):
    """Why nothing is proven."""

    code: str = key("the reason's code")
    detail: str = key("what is particular to this case")
    run: str = key("the run it is about; empty for this run")


class ProvenEpsilon(Result):
    """What is proven for one made-up user."""

    epsilon: float | None = key("epsilon; null if it is infinite")
    delta: float = key("delta")
    reasons: list[ProofReason] = key("why it is infinite")


class AuditRunResult(Result):
    """What an audit found. The exit code is 20 if it is broken, and 21 if no attack could have contradicted the proof."""

    run: str = key("the run's folder")
    verdict: Literal["broken", "passed", "could_not_fail", "no_bound"] | None = key("the attacks', or else the gate's")
    broken: bool = key("whether something contradicts the stated epsilon")
    gate: GateResult | None = key("the audit of the gate; null if there was none")
    prefix: int | None = sometimes(
        "how many words the attacker knew; these and all further keys if canaries were planted"
    )
    suffixes: int | None = sometimes("how many random endings were compared")
    beam_width: int | None = sometimes("the width of the beam search")
    canaries: list[AttackedCanary] | None = sometimes("each canary, without its text")
    exposures: list[CanaryExposure] | None = sometimes("what training read of them, by setting")
    lower_bounds: dict[str, EpsilonBound] | None = sometimes("lower bounds on epsilon, by kind of score")
    proven: ProvenEpsilon | None = sometimes("what is proven for one made-up user; null without made-up users")
    strongest_possible: float | None = sometimes("the lower bound that an attacker who is always right would reach")


class RegimeResult(OpenResult):
    """What one training regime has memorised; a central regime also has `epochs`."""

    diverged: str | None = sometimes("what went wrong; then there is no other key but seconds")
    top1: float | None = sometimes("the share of held-out words that were the first suggestion of a keyboard")
    papers_top1: float | None = sometimes("the same by the papers' metric, ranked among all entries")
    perplexity: float | None = sometimes("perplexity on held-out words")
    epsilon: float | None = sometimes("epsilon of the run; null if it is infinite")
    epsilon_of_noise: float | None = sometimes("epsilon of the noise alone; null if it is infinite")
    suffixes: int | None = sometimes("how many random endings were compared")
    canaries: int | None = sometimes("how many canaries")
    candidates: int | None = sometimes("how many endings were compared, the canary included")
    random_sampling: int | None = sometimes("how many canaries were first among random endings")
    beam_search: int | None = sometimes("how many a beam search found from two words")
    beam_search_from_one_word: int | None = sometimes("how many it found from one word")
    exposure: float | None = sometimes("mean exposure in bits")
    ranks: list[int] | None = sometimes("the rank of every canary")
    seconds: float | None = sometimes("how long it took")


class ExperimentResult(Result):
    """Training regimes compared."""

    done: bool = key("whether all regimes are done; if not, run the same command again")
    regimes: dict[str, RegimeResult] = key("each regime that is done, by name")
