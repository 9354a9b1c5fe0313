"""Results of the commands that make a run and that show one: train, serve, fleet demo, runs, report, guarantee."""

from __future__ import annotations

from typing import Any

from tacit.cli.results.base import OpenResult, Result, key, sometimes
from tacit.cli.results.privacy import AtScale, Claim, OwnedRunPrivacy, OwnersFigure, RunPrivacy

_FOLDER = "the run's folder"
_WORDS = "`[letters]`: how many words have a place"
_FOUND = "`[letters]`: how many of them are on no public list"
_THRESHOLD = "`[letters]`: the noised total that a prefix or a word must reach"
_OWNERS = "the owner's second figure; if users are not sampled and the reader is the owner"


class Metrics(OpenResult):
    """What was measured. A task of your own names keys of its own."""

    words: int | float | None = sometimes("how many words were predicted")
    top1: float | None = sometimes("next-word models: the share of words that were the first suggestion of a keyboard")
    top3: float | None = sometimes("next-word models: the share among the first three suggestions")
    in_vocabulary_top1: float | None = sometimes("next-word models: top1 among the words of the vocabulary")
    papers_top1: float | None = sometimes("next-word models: top1 by the papers' metric, ranked among all entries")
    papers_top3: float | None = sometimes("next-word models: top3 by the papers' metric")
    perplexity: float | None = sometimes("perplexity per word, or per letter for a model of letters")
    out_of_vocabulary: float | None = sometimes(
        "next-word models: the share of words outside the vocabulary, which can never be guessed"
    )
    accuracy: float | None = sometimes("models of letters and classifiers: the share of right predictions")
    loss: float | None = sometimes("measured on devices: mean loss in nats")


class Simulated(Result):
    """A simulated population of devices."""

    simulated_days: float = key("how many days the rounds took")


class TrainResult(Result):
    """A finished run."""

    run: str = key(_FOLDER)
    rounds: int = key("how many rounds were trained")
    parameters: int | None = sometimes("how many parameters the model has; if a model was trained")
    words: int | None = sometimes(_WORDS)
    listed: int | None = sometimes("`[letters]`: how many words of the public list had a place unasked")
    found: int | None = sometimes(_FOUND)
    threshold: float | None = sometimes(_THRESHOLD)
    warnings: list[str] | None = sometimes("`[letters]`: what may be wrong with the public list")
    metrics: Metrics = key("measured on held-out users, outside the guarantee; empty if words were found")
    baselines: dict[str, Any] | None = sometimes(
        "what simple guesses reach: `unigram_top1`; in a world also `best_possible`; if the run follows a recipe"
    )
    privacy: RunPrivacy = key("what the run costs its users")
    examples: dict[str, list[tuple[str, float]]] | None = sometimes(
        "next words and their probabilities, by what was typed before; if the run follows a recipe"
    )
    at_scale: AtScale | None = sometimes("an estimate for a larger run; if the recipe has `[scale]`")
    average: str | None = sometimes("which average of models the model is; if the recipe averages")
    clip_norm: float | None = sometimes("where the clip ended; with adaptive clipping")
    population: Simulated | None = sometimes("if the recipe simulates devices")
    from_the_participation_that_happened: OwnersFigure | None = sometimes(_OWNERS)


class ServeResult(Result):
    """A run on devices: trained, evaluated, or not finished."""

    finished: bool = key("whether the run is finished; false after a signal, and for a role that trains nothing itself")
    run: str | None = key("the run's folder; null if it is not finished here")
    rounds: int | None = sometimes("how many rounds were trained; if a model was trained")
    parameters: int | None = sometimes("how many parameters the model has; if a model was trained")
    words: int | None = sometimes(_WORDS)
    listed: int | None = sometimes("`[letters]`: how many words of the public list had a place unasked")
    found: int | None = sometimes(_FOUND)
    threshold: float | None = sometimes(_THRESHOLD)
    warnings: list[str] | None = sometimes("`[letters]`: what may be wrong with the public list")
    evaluated: str | None = sometimes("the run whose model was evaluated; if the recipe evaluates one")
    metrics: Metrics | None = sometimes("what was measured; if the run is finished")
    baselines: dict[str, Any] | None = sometimes("what simple guesses reach; if a model was trained")
    privacy: RunPrivacy | None = sometimes("what the run costs its users; if the run is finished")
    examples: dict[str, list[tuple[str, float]]] | None = sometimes("next words; if a model was trained")
    at_scale: AtScale | None = sometimes("an estimate for a larger run; if the recipe has `[scale]`")
    average: str | None = sometimes("which average of models the model is; if the recipe averages")
    clip_norm: float | None = sometimes("where the clip ended; with adaptive clipping")
    from_the_participation_that_happened: OwnersFigure | None = sometimes(_OWNERS)


class WordsFound(Result):
    """What a discovery of words found."""

    words: int = key("how many words have a place")
    found: int = key("how many of them are on no public list")


class RunFacts(Result):
    """A run as its folder shows it."""

    run: str = key(_FOLDER)
    run_id: str = key("the run's id, which its ledger has")
    created: str = key("when it was made")
    state: str = key("finished, running, interrupted, stopped, diverged or not begun")
    rounds: int = key("how many rounds are done")
    releases: int = key("how many rounds were released, further attempts included")
    metrics: Metrics = key("the last that was measured")
    baselines: dict[str, Any] = key("what simple guesses reach; empty until the run is finished")
    privacy: OwnedRunPrivacy | None = key("what the run costs its users; null until it has begun")
    discovery: WordsFound | None = sometimes("a discovery of words that has finished: what it found")


class DamagedRun(Result):
    """A run that cannot be read."""

    run: str = key(_FOLDER)
    state: str = key("damaged")
    problem: str = key("what is wrong with it")


class RunsListResult(Result):
    """The runs below a folder."""

    root: str = key("the folder")
    runs: list[RunFacts | DamagedRun] = key("each run")


class RunsCompareResult(Result):
    """Runs side by side."""

    runs: list[RunFacts] = key("each run, as given")
    recipe_differences: dict[str, list[Any]] = key(
        "keys of recipes that differ: the value in each run, null if not set"
    )


class PictureResult(Result):
    """A picture of a run."""

    run: str = key(_FOLDER)
    picture: str = key("the file that was written")


class BoardResult(Result):
    """A board that listens. It is printed once the address can be opened."""

    address: str = key("the address to open, with the token if one is needed")
    folders: list[str] = key("the folders whose runs it shows")


class ReportResult(Result):
    """A page about a run."""

    run: str = key(_FOLDER)
    report: str = key("the file that was written")
    shared: bool = key("true: anybody may see it; false: it is for the owner alone")


class CertifyResult(Result):
    """A certificate of a run."""

    run: str = key(_FOLDER)
    certificate: str = key("the file that was written")
    public_key: str = key("the public key that it is signed with; hand it on in another way than the certificate")
    headline: str = key("the claim that it states")


class MarkedLine(Result):
    """A line of a guarantee."""

    text: str = key("the line")
    mark: str | None = sometimes("enforced, observed or assumed; if the line is something the guarantee rests on")
    code: str | None = sometimes("a command or a name to copy; if there is one")


class GuaranteePart(Result):
    """A part of a guarantee."""

    title: str = key("its heading")
    lines: list[MarkedLine] = key("its lines")


class GuaranteeResult(Claim):
    """The guarantee of a run. Everybody sees the same."""

    run_id: str = key("the run's id")
    tacit_version: str = key("the version that trained it")
    mechanism: str = key("how noise is added")
    sampling: str = key("how users are chosen for a round")
    unit: str = key("who is protected: all the data of one such unit")
    adjacency: str = key("how two neighbouring data sets differ")
    accountant: str = key("how epsilon was computed")
    delta: float = key("the delta that epsilon is stated for")
    rho: float | None = key("rho of zero-concentrated differential privacy; null where there is none")
    releases: int = key("how many rounds were released, further attempts included")
    rounds_planned: int = key("how many rounds the plan has; epsilon covers all of them")
    rounds_run: int = key("how many of them have run")
    computed_from: str = key("which participation the cost was computed from")
    assumptions: list[MarkedLine] = key("what the guarantee rests on")
    ledger_head: str = key("the digest of the ledger's last record")
    headline: str = key("the claim in one sentence")
    paragraph: str = key("the claim in one paragraph, for readers who have never heard of differential privacy")
    parts: list[GuaranteePart] = key("the whole statement")
