"""The facts in the ledger's first record that a cost or a statement reads, each a record of its own.

A part that knows such a fact makes the record and hands it to `tacit.runs.opening`; readers use its fields.
Nothing names a user: data are named by a store's random id or a world's seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.privacy.record.codec import Typed


@dataclass(frozen=True)
class ReleaseSize(Typed):
    """How many numbers one release has, in how many arrays: noise is drawn for each, and its tail is charged to delta."""

    coordinates: int
    arrays: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates < 1 or self.arrays < 1:
            raise ValueError(
                f"expected a release of at least 1 number in 1 array, got {self.coordinates}, {self.arrays}"
            )


@dataclass(frozen=True)
class DataRecord(Typed):
    """Whose data the run reads: the users of a store, those of a generated world, or others (neither is named).

    `memory` names users who were given as Python objects (`tacit.users`): no odometer lists the runs on them. `users` is how
    many users the world has. `vocabulary` says where the words come from that the model knows, if the run was told. `given_by`
    names a class of users, or of a view of them, that is not Tacit's.
    """

    store: str | None = None
    memory: str | None = None
    world: str | None = None
    seed: int | None = None
    users: int | None = None
    vocabulary: str | None = None
    given_by: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(each is not None for each in (self.store, self.memory, self.world)) > 1:
            raise ValueError("expected the users of a store, of Python objects or of a world, got several of them")
        if not ((self.world is None) == (self.seed is None) == (self.users is None)):
            raise ValueError("expected a world with its seed and its number of users, or none of them")

    @property
    def name(self) -> dict[str, str | int]:
        """What tells these users from others: the store's id, or the world and its seed; empty where nothing names them."""
        if self.store is not None:
            return {"store": self.store}
        if self.memory is not None:
            return {"memory": self.memory}
        return {} if self.world is None or self.seed is None else {"world": self.world, "seed": self.seed}


@dataclass(frozen=True)
class SecureSumRecord(Typed):
    """The public constants with which updates become integers, and the variance of the noise that each device adds."""

    bits: int
    scale: float
    element_clip: int
    integers: int
    norm_limit_squared: int
    local_variance: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.bits, self.integers, self.norm_limit_squared) < 1 or self.local_variance < 0:
            raise ValueError("expected bits, integers and norm_limit_squared ≥ 1 and local_variance ≥ 0 of secure sums")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"expected a scale of secure sums above 0, got {self.scale}")


@dataclass(frozen=True)
class PlantedCanaries(Typed):
    """The canaries of an audit: the digest of their plan, and how many made-up users they brought, never the phrases.

    `device_rate` is the probability with which a made-up user takes part in a round; None: in the same way as people.
    """

    plan: str
    canaries: int
    devices: int
    coin_users: int
    device_rate: float | None

    @property
    def made_up_users(self) -> int:
        """How many users an audit added, numbered after the real ones."""
        return self.devices + self.coin_users


@dataclass(frozen=True)
class GateAuditRecord(Typed):
    """How many made-up contributions may pass the gate in a round to audit it."""

    canaries: int


@dataclass(frozen=True)
class DiscoveryRecord(Typed):
    """How a run discovers words: the limits on one user's shares, and the probability that their words alone are shown.

    `candidates` is how many words of a public list compete without a threshold, and `list_digest` the SHA-256 of that list.
    """

    words_per_user: int
    largest_share: float
    threshold_delta: float
    candidates: int
    list_digest: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words_per_user < 1 or not 0 < self.largest_share <= 1 or self.candidates < 0:
            raise ValueError("expected words_per_user ≥ 1, largest_share in (0, 1] and candidates ≥ 0 of a discovery")
        if not 0 < self.threshold_delta < 1:
            raise ValueError(f"expected a threshold_delta above 0 and below 1, got {self.threshold_delta}")


@dataclass(frozen=True)
class LettersRecord(Typed):
    """How a run finds words letter by letter: the public constants of its prefix tree (`tacit.learning.prefix_tree`).

    A prefix or a word is shown if its noised total reaches `threshold`; one that a single user has is shown with the
    probability `shown_delta` at most, in all rounds together. That is no part of the run's δ. `known_digest` is the SHA-256 of
    the words that are not looked for.
    """

    alphabet: str
    longest: int
    coordinates: int
    words_per_user: int
    threshold: float
    shown_delta: float
    known_digest: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alphabet or min(self.longest, self.coordinates, self.words_per_user) < 1:
            raise ValueError(
                "expected letters, and longest, coordinates and words_per_user ≥ 1 of a discovery by letters"
            )
        if not (0 < self.shown_delta < 1 and 1 <= self.threshold < math.inf):
            raise ValueError("expected shown_delta in (0, 1) and a threshold ≥ 1 of a discovery by letters")


@dataclass(frozen=True)
class VocabularyRecord(Typed):
    """The discovery that chose the words of the model: what it cost is part of what this run costs.

    `run` is the id of that run and `head` the digest of the last record of its ledger. It made `releases`, each with this
    noise; `threshold_delta` is that of all of them together, and 0 for words that were found letter by letter, because the
    cost of these needs no threshold.
    """

    run: str
    head: str
    noise_multiplier: float
    releases: int
    threshold_delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.noise_multiplier < math.inf or self.releases < 1 or not 0 <= self.threshold_delta < 1:
            raise ValueError(
                "expected noise above 0, at least 1 release and a threshold_delta in [0, 1) of a discovery"
            )


@dataclass(frozen=True)
class PretrainingRecord(Typed):
    """The public data that the first model was trained on, and the digest of that model.

    `asserted`: that the data are public is what the recipe says, and not known to Tacit.
    """

    public: str
    asserted: bool
    predictions: int
    unknown_words: float
    steps: int
    digest: str


@dataclass(frozen=True)
class WitnessRecord(Typed):
    """Who countersigns the heads of the ledger: name and public key (name+id+key).

    `required`: nothing of a round is shown or saved before a head that includes the round was signed.
    """

    name: str
    key: str
    required: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name or not self.key.startswith(f"{self.name}+"):
            raise ValueError(f"expected the key of the witness to begin with its name, got {self.name!r}, {self.key!r}")


@dataclass(frozen=True)
class FleetRecord(Typed):
    """How the users' side was run on real devices.

    `checks_norms`: the server computes the norm of every update itself. Where it cannot, `dropout` and `corruption` say how
    many of a round's devices may drop out and collude with the server.
    """

    transport: str
    secure_aggregation: bool
    checks_norms: bool
    over_selection: float
    timer_s: float
    dropout: float | None
    corruption: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        limits = (self.dropout, self.corruption)
        if not self.checks_norms and not all(share is not None and 0 <= share < math.inf for share in limits):
            raise ValueError("expected dropout and corruption of a fleet whose server does not check norms")
