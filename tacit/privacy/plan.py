"""One plan builds everything: clip, sampler, denominator, noise and accounting come from here and cannot disagree.

A plan is a recipe's ``[privacy]`` section, validated. Its numbers are public constants: the population is a stated
estimate, never counted on a store; the sampling probability q and the denominator follow from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from tacit.errors import PrivacyError
from tacit.mistakes import recipe_error
from tacit.privacy.accounting.noise_split import bit_noise_multiplier, other_block
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY as SAMPLED_ADJACENCY
from tacit.privacy.accounting.sampled_gaussian import combined_noise_multiplier
from tacit.privacy.gate.discretisation import SecAggSection
from tacit.privacy.noise.kinds import KINDS, MechanismKind, kind_of, training_names
from tacit.privacy.noise.multipliers import LEAST_NOISE, MOST_NOISE
from tacit.privacy.outside import IMPORT_FIRST, about, is_path
from tacit.privacy.participation.custom import PARTICIPATIONS
from tacit.privacy.participation.cyclic import CYCLIC, CyclicPoisson
from tacit.privacy.participation.limits import ZERO_OUT, Gap
from tacit.privacy.participation.samplers import CheckIn, FixedSize, Poisson, Sampler
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN

if TYPE_CHECKING:
    from tacit.privacy.gate.thresholds import Clipping
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.noise.strategies import Strategy

# What two neighbouring data sets differ in. With check_in the user is in the same rounds on both sides, with zeros.
ADJACENCY = {**SAMPLED_ADJACENCY, CYCLIC: SAMPLED_ADJACENCY["poisson"], "check_in": ZERO_OUT}

# Rounding in the gate is covered by its bound up to this many users a round (tacit.privacy.gate.sums).
LARGEST_COHORT = 100_000

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Outside these limits, squares and their inverses overflow or underflow in the floating-point numbers of the proof.
LEAST_NORM, MOST_NORM = 1e-30, 1e30


def _within_reason(norm: float) -> float:
    if not LEAST_NORM <= norm <= MOST_NORM:
        raise ValueError(f"expected privacy.clip_norm from {LEAST_NORM:g} to {MOST_NORM:g}, got {norm:g}")
    return norm


Norm = Annotated[Positive, AfterValidator(_within_reason)]


def _mechanism_name(name: str) -> str:
    if name not in KINDS.names() and not is_path(name):
        raise ValueError(f"expected privacy.mechanism of {', '.join(training_names())} or module:Class, got {name!r}")
    return name


def _participation_name(name: str) -> str:
    if not is_path(name):
        raise ValueError(f"expected privacy.participation of the form module:Class, got {name!r}")
    return name


class ClipChange(BaseModel):
    """From `round` on, clip at `clip_norm`; the noise σ = z · S follows, so the cost of a round stays the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    round: int = Field(ge=0, description="the first round with this clip")
    clip_norm: Norm = Field(description="the clip from then on")


class AdaptiveSection(BaseModel):
    """Clip at a quantile of the norms, learned on the way (Gboard, Algorithm 1); clip_norm is where it begins [C⁰]."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    quantile: float = Field(default=0.5, gt=0, lt=1, description="share of users not clipped [γ]")
    learning_rate: Positive = Field(default=0.2, description="speed of the estimate [η_γ]")
    count_noise: Positive | None = Field(
        default=None, description="standard deviation of the noise on the count [σ_b]; none: a twentieth of the cohort"
    )


class PrivacyPlan(BaseModel):
    """What is released about users, and the noise on it. Symbols of DP-FedAvg in brackets.

    >>> import tacit
    >>> plan = tacit.PrivacyPlan(population=500_000, cohort=500, clip_norm=0.5, noise_multiplier=0.5, delta=1e-6)
    >>> plan.sampling_probability
    0.001
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mechanism: Annotated[str, AfterValidator(_mechanism_name)] = Field(
        default="gaussian",
        description="gaussian, tree, blt, banded, discrete or none; or module:Class of one from outside",
    )
    population: int = Field(gt=0, description="how many users there are, a public estimate [K]")
    cohort: Positive = Field(description="users a round: expected (Poisson) or exact [C, report goal m]")
    sampling: Literal["poisson", "fixed", "check_in", "cyclic_poisson"] = Field(
        default="poisson",
        description="each user by a coin, a fixed number of users, whoever checks in, or each user of one group by a coin",
    )
    bands: int | None = Field(
        default=None,
        ge=1,
        description="with cyclic_poisson: groups of users that take turns, and rounds over which noise is correlated [b]",
    )
    participation: Annotated[str, AfterValidator(_participation_name)] | None = Field(
        default=None, description="module:Class of a sampler from outside that draws users by this sampling"
    )
    min_separation: int | None = Field(
        default=None, ge=0, description="rounds between two participations of a user, at least [MinS]"
    )
    max_participation: int | None = Field(default=None, ge=1, description="rounds a user takes part in, at most [MaxP]")
    restarts: tuple[int, ...] = Field(default=(), description="rounds before which correlated noise begins anew")
    most_bands: int | None = Field(
        default=None, ge=1, description="cap on a band's memory, in vectors of the model's size"
    )
    clip_norm: Norm | None = Field(
        default=None, description="bound on one user's update [S]; without this key there is no clipping"
    )
    clipping: Literal["flat", "per_layer"] = Field(
        default="flat", description="one bound on the whole update, or on each of its parameter vectors"
    )
    clip_schedule: tuple[ClipChange, ...] = Field(default=(), description="rounds from which the clip is another")
    noise_multiplier: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="σ over the sensitivity [z]")
    delta: float = Field(default=1e-9, gt=0, lt=1, description="δ of the guarantee; below 1 / population")
    example_cap: Positive | None = Field(
        default=None, description="predictions at which a user's weight reaches 1 [ŵ]; none weighs all users alike"
    )
    estimator: Literal["fixed", "clipped"] = Field(
        default="fixed", description="divide by a public constant, or by the noisy sum of weights [f_f, f_c]"
    )
    total_weight: Positive | None = Field(
        default=None,
        description="public estimate of the sum of all users' weights [W, or W_min for the clipped estimator]",
    )
    weight_noise: float = Field(
        default=10.0, gt=1, allow_inf_nan=False, description="noise multiplier of the weight block, in units of z"
    )
    adaptive: AdaptiveSection | None = None
    secagg: SecAggSection | None = None

    if not TYPE_CHECKING:  # checkers know the fields from the class

        def __init__(self, **settings: Any) -> None:
            """RecipeError, in one sentence, where pydantic's `model_validate` raises a ValidationError."""
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise recipe_error(error, type(self), what="plan", section=("privacy",)) from None

        # As pydantic marks its own: a recipe is validated as a whole, without a call of this method for its section.
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="after")
    def _fits_together(self) -> PrivacyPlan:
        if self.cohort > self.population:
            raise ValueError(
                f"expected privacy.cohort ≤ privacy.population = {self.population}, got {self.cohort:.15g}"
            )
        if self.sampling not in ("poisson", CYCLIC) and self.cohort != int(self.cohort):
            raise ValueError(
                f"expected a whole number for privacy.cohort unless sampling is Poisson, got {self.cohort:g}"
            )
        if self.claims and self.clip_norm is None:
            raise ValueError(
                f"expected privacy.clip_norm with mechanism '{self.mechanism}': noise needs a bound to be scaled to"
            )
        if self.claims and self.kind.trains and self.cohort > LARGEST_COHORT:
            raise ValueError(
                f"expected privacy.cohort ≤ {LARGEST_COHORT}, the largest for which rounding is proven, got {self.cohort:g}"
            )
        if self.claims and self.noise_multiplier == 0:
            raise ValueError(
                f"expected privacy.noise_multiplier > 0 with mechanism '{self.mechanism}', got 0; "
                "say mechanism = 'none' for training without privacy"
            )
        if self.claims and not LEAST_NOISE <= self.noise_multiplier <= MOST_NOISE:
            raise ValueError(
                f"expected privacy.noise_multiplier from {LEAST_NOISE:g} to {MOST_NOISE:g}, got {self.noise_multiplier:g}"
            )
        if not self.claims and self.noise_multiplier > 0:
            raise ValueError(
                f"expected no privacy.noise_multiplier with mechanism '{self.mechanism}', got {self.noise_multiplier:g}"
            )
        if self.claims and self.delta >= 1 / self.population:
            raise ValueError(f"expected privacy.delta < 1/population = {1 / self.population:.3g}, got {self.delta:g}")
        if self.example_cap is not None and self.total_weight is None:
            raise ValueError("expected privacy.total_weight with privacy.example_cap: the denominator must be public")
        if self.total_weight is not None and self.total_weight > self.population:
            raise ValueError(
                f"expected privacy.total_weight ≤ privacy.population = {self.population}: weights are at most 1, "
                f"got {self.total_weight:g}"
            )
        if self.clip_schedule and self.clip_norm is None:
            raise ValueError(
                "expected privacy.clip_norm with privacy.clip_schedule: it is the bound before the first change"
            )
        starts = [change.round for change in self.clip_schedule]
        if starts != sorted(set(starts)):
            raise ValueError(f"expected rising rounds in privacy.clip_schedule, got {starts}")
        self._participation_fits()
        self._adaptive_fits()
        self._secagg_fits()
        return self

    def _participation_fits(self) -> None:
        kind = self.kind
        if self.sampling == CYCLIC and kind.known and CYCLIC not in kind.proven_under:
            raise ValueError(
                f"expected privacy.mechanism = 'banded' with sampling '{CYCLIC}', for which alone it is proven, "
                f"got '{self.mechanism}'"
            )
        if kind.correlated and self.sampling not in kind.proven_under:
            proven = " or ".join(f"'{each}'" for each in kind.proven_under)
            raise ValueError(
                f"expected privacy.sampling = {proven} with mechanism '{self.mechanism}': correlated noise rests on how far "
                f"apart a user's rounds are, got '{self.sampling}'"
            )
        if self.sampling not in kind.proven_under and not kind.on_devices:
            raise ValueError(
                f"expected privacy.sampling of {' or '.join(kind.proven_under)}, under which the mechanism "
                f"'{self.mechanism}' is proven, got '{self.sampling}'"
            )
        law = None if self.participation is None else getattr(PARTICIPATIONS.find(self.participation), "law", None)
        if law is not None and law != self.sampling:
            raise ValueError(
                f"expected privacy.sampling = '{law}', the law of privacy.participation = '{self.participation}', "
                f"got '{self.sampling}'"
            )
        if self.sampling == "check_in":
            if self.min_separation is None or self.max_participation is None:
                raise ValueError(
                    "expected privacy.min_separation and privacy.max_participation with sampling 'check_in'"
                )
            self.check_participation()
        elif self.min_separation is not None or self.max_participation is not None:
            raise ValueError(
                f"expected privacy.min_separation and max_participation with sampling 'check_in' only, got '{self.sampling}'"
            )
        self._groups_fit()
        if kind.known and not kind.correlated and self.restarts:
            own = ", ".join(each.name for each in KINDS.own.values() if each.correlated)
            raise ValueError(f"expected privacy.restarts with mechanisms {own} only, got '{self.mechanism}'")
        if kind.known and not kind.has_bands and self.most_bands is not None:
            own = " or ".join(f"'{each.name}'" for each in KINDS.own.values() if each.has_bands)
            raise ValueError(f"expected privacy.most_bands with mechanism {own} only, got '{self.mechanism}'")
        if self.sampling == CYCLIC and self.most_bands is not None:
            raise ValueError(f"expected privacy.bands and no privacy.most_bands with sampling '{CYCLIC}', got both")
        restarts = list(self.restarts)
        if restarts != sorted(set(restarts)) or min(restarts, default=1) < 1:
            raise ValueError(f"expected rising rounds of 1 and above in privacy.restarts, got {restarts}")
        within = [change.round for change in self.clip_schedule if change.round not in restarts and change.round > 0]
        if kind.correlated and within:
            raise ValueError(
                f"expected the clip to change only in rounds of privacy.restarts with mechanism '{self.mechanism}', "
                f"got a change in round {within[0]}"
            )

    def _groups_fit(self) -> None:
        """Cyclic sampling: as many groups as bands, each of them large enough for a cohort."""
        if self.sampling != CYCLIC:
            if self.bands is not None:
                raise ValueError(f"expected privacy.bands with sampling '{CYCLIC}' only, got '{self.sampling}'")
            return
        if self.bands is None:
            raise ValueError(f"expected privacy.bands with sampling '{CYCLIC}'")
        if self.bands * self.cohort > self.population:
            raise ValueError(
                f"expected privacy.bands ≤ {int(self.population // self.cohort)} with sampling '{CYCLIC}', so that each of the "
                f"groups has {self.cohort:g} of {self.population} users, got {self.bands}"
            )

    def _adaptive_fits(self) -> None:
        if self.adaptive is None:
            return
        if self.clip_norm is None:
            raise ValueError("expected privacy.clip_norm with privacy.adaptive: it is the clip it begins with")
        if self.clip_schedule:
            raise ValueError("expected either privacy.clip_schedule or privacy.adaptive, got both")
        if self.noise_multiplier > 0 and combined_noise_multiplier(self._side_noise.values()) <= self.noise_multiplier:
            raise ValueError(
                f"expected privacy.adaptive.count_noise > {self.noise_multiplier / 2:g}, half of privacy.noise_multiplier: "
                f"the counts alone would cost more than the whole round may, got {self._count_noise:g}"
            )

    def _secagg_fits(self) -> None:
        scheme = None if self.secagg is None else self.secagg.scheme
        if self.kind.on_devices != (scheme == "device_noise"):
            raise ValueError(
                "expected privacy.secagg.scheme = 'device_noise' with mechanism 'discrete' and with no other: noise that "
                f"devices add is fresh in every round, got {scheme!r} with '{self.mechanism}'"
            )
        if self.secagg is not None:
            side_blocks = self.adaptive is not None or self.weighted
            self.secagg.check(
                sampling=self.sampling, cohort=self.cohort, clip_norm=self.clip_norm, side_blocks=side_blocks
            )

    def check_rounds(self, rounds: int) -> None:
        """ValueError unless so many rounds can be run as planned."""
        if max(self.restarts, default=0) >= rounds:
            raise ValueError(
                f"expected privacy.restarts within the {rounds} rounds of the run, got {self.restarts[-1]}"
            )
        self.check_participation(rounds)

    def check_participation(self, rounds: int = 0) -> None:
        """ValueError unless the population can fill every round with users who may take part again."""
        if self.min_separation is None or self.max_participation is None:
            return
        sustained = int(self.population // self.cohort) - 1
        if self.min_separation > sustained:
            raise ValueError(
                f"expected privacy.min_separation ≤ {sustained}, what {self.population} users can sustain with "
                f"{self.cohort:g} a round, got {self.min_separation}"
            )
        if rounds * self.cohort > self.population * self.max_participation:
            needed = math.ceil(rounds * self.cohort / self.population)
            raise ValueError(
                f"expected privacy.max_participation ≥ {needed}, what {rounds} rounds of {self.cohort:g} need from "
                f"{self.population} users, got {self.max_participation}"
            )

    @property
    def kind(self) -> MechanismKind:
        """The kind of the mechanism: how it is built, what it costs, and what is proven about it."""
        return kind_of(self.mechanism)

    @property
    def claims(self) -> bool:
        """Whether noise is added at all."""
        return self.kind.adds_noise

    @property
    def outside(self) -> dict[str, Any]:
        """Version and description of what comes from outside Tacit, as the ledger's first record holds it."""
        named: dict[str, Any] = {"mechanism": self.kind if is_path(self.mechanism) and self.kind.known else None}
        if self.participation is not None:
            named["participation"] = PARTICIPATIONS.find(self.participation)
        return {field: about(thing) for field, thing in named.items() if thing is not None}

    @property
    def sampling_probability(self) -> float:
        """q: the share of the population that takes part in a round."""
        return self.cohort / self.population

    @property
    def group_probability(self) -> float:
        """With cyclic sampling: the probability that a user is drawn when it is their group's turn."""
        return (self.bands or 1) * self.cohort / self.population

    @property
    def denominator(self) -> float:
        """What sums are divided by: qW for the fixed estimator, qW_min (a floor) for the clipped one."""
        return self.sampling_probability * (self.population if self.total_weight is None else self.total_weight)

    @property
    def weighted(self) -> bool:
        """Whether the sum of weights is a block of the gate."""
        return self.estimator == "clipped"

    @property
    def noise_multipliers(self) -> dict[str, float]:
        """z_j of each block, so that together they cost z: the plan gives the side blocks' z_j, the update gets the rest."""
        z, side = self.noise_multiplier, self._side_noise
        if z == 0 or not side:
            return {UPDATE: z} | dict.fromkeys(side, 0.0)
        return {UPDATE: other_block(z, combined_noise_multiplier(side.values()))} | side

    @property
    def _side_noise(self) -> dict[str, float]:
        """z_j of the blocks beside the update: the weights' a multiple of z, the bits' from σ_b (Gboard, Theorem 1)."""
        weight = {WEIGHT: self.noise_multiplier * self.weight_noise} if self.weighted else {}
        return weight | ({WITHIN: bit_noise_multiplier(self._count_noise)} if self.adaptive is not None else {})

    @property
    def _count_noise(self) -> float:
        given = None if self.adaptive is None else self.adaptive.count_noise
        return self.cohort / 20 if given is None else given

    @property
    def gap(self) -> Gap:
        """The promised distance between two participations of one user."""
        return Gap(self.min_separation or 0)

    @property
    def combined_noise_multiplier(self) -> float:
        """The z of a round as a whole, computed from what its blocks get."""
        return combined_noise_multiplier(self.noise_multipliers.values())

    @property
    def adjacency(self) -> str:
        """What two neighbouring data sets differ in."""
        return ADJACENCY[self.sampling]

    def clip_norm_at(self, round: int) -> float:
        """S in this round as planned; infinite where there is no clipping."""
        norm = math.inf if self.clip_norm is None else self.clip_norm
        for change in self.clip_schedule:
            if change.round <= round:
                norm = change.clip_norm
        return norm

    def build_clipping(self) -> Clipping:
        """Where updates are clipped, round by round."""
        from tacit.privacy.gate.thresholds import AdaptiveClip, FixedClip

        if self.adaptive is None or self.clip_norm is None:
            return FixedClip(self.clip_norm_at)
        return AdaptiveClip(
            self.clip_norm,
            self.adaptive.quantile,
            self.adaptive.learning_rate,
            self.cohort,
            self.restarts if self.kind.correlated else None,
        )

    def build_sampler(self) -> Sampler:
        """The sampler: the one of the plan's sampling, or the participation from outside that the plan names."""
        if self.participation is None:
            return self.build_law()
        found = PARTICIPATIONS.find(self.participation)
        if found is None:
            reason = PARTICIPATIONS.missing(self.participation)
            raise PrivacyError(f"{reason[0].upper()}{reason[1:]}.", hint=IMPORT_FIRST)
        return found(self)

    @property
    def sampling_constants(self) -> dict[str, Any]:
        """The kind of sampling that is accounted, and its public constants, as every intent names them."""
        return self.build_law().describe()

    def build_law(self) -> Sampler:
        """The sampler that is accounted, by its law or by its promise."""
        if self.sampling == "poisson":
            return Poisson(self.sampling_probability)
        if self.sampling == "fixed":
            return FixedSize(int(self.cohort), self.population)
        if self.sampling == CYCLIC:
            assert self.bands is not None
            return CyclicPoisson(self.group_probability, self.bands)
        assert self.max_participation is not None
        return CheckIn(int(self.cohort), self.gap.rounds_between, self.max_participation)

    def build_strategy(self, rounds: int) -> Strategy | None:
        """How noise is correlated over so many rounds; None where it is independent."""
        return self.kind.build_strategy(self, rounds)

    def build_mechanism(self, rounds: int, strategy: Strategy | None) -> Mechanism:
        """The mechanism that adds this plan's noise in so many rounds."""
        return self.kind.build(self, rounds, strategy)


def with_rounds(plan: dict[str, Any], rounds: int) -> dict[str, Any]:
    """A plan as given in a recipe, completed with what follows from the number of rounds where it is left out.

    MaxP is what MinS leaves room for; with adaptive clipping, correlated noise restarts before rounds 128 + 1024 i.
    """
    filled = dict(plan)
    gap = plan.get("min_separation")
    if plan.get("sampling") == "check_in" and type(gap) is int and gap >= 0:
        filled.setdefault("max_participation", -(-rounds // Gap(gap).index_difference))
    if kind_of(str(plan.get("mechanism"))).correlated and plan.get("adaptive") is not None:
        filled.setdefault("restarts", list(range(128, rounds, 1024)))
    return filled
