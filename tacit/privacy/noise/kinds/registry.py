"""Which kinds of mechanism there are, and how one from outside is added."""

from __future__ import annotations

from typing import Any, TypeVar

from tacit.errors import PrivacyError
from tacit.privacy.noise.kinds.base import OUTSIDE_SAMPLINGS, MechanismKind, UnknownKind
from tacit.privacy.noise.kinds.correlated import BANDED, BLT, TREE, CorrelatedKind
from tacit.privacy.noise.kinds.discrete import DiscreteKind
from tacit.privacy.noise.kinds.gaussian import GaussianKind, NoNoiseKind
from tacit.privacy.noise.kinds.words import WordsKind
from tacit.privacy.noise.strategies import STRATEGIES
from tacit.privacy.outside import Registry, path_of

Kind = TypeVar("Kind", bound=type[MechanismKind])
AnyStrategy = TypeVar("AnyStrategy", bound=type[Any])

# Tacit's own; one line adds another.
_OWN: tuple[MechanismKind, ...] = (GaussianKind(), TREE, BLT, BANDED, DiscreteKind(), NoNoiseKind(), WordsKind())
KINDS: Registry[MechanismKind] = Registry("mechanism", {kind.name: kind for kind in _OWN})


def kind_of(name: str) -> MechanismKind:
    """The kind of this name; where none is known, one that builds nothing and claims nothing."""
    return KINDS.find(name) or UnknownKind(name, KINDS.missing(name))


def training_names() -> list[str]:
    """The names of Tacit's own mechanisms that a model can be trained with."""
    return [kind.name for kind in _OWN if kind.trains]


def register_mechanism(kind: Kind) -> Kind:
    """Make a mechanism from outside known in this process, under its import path; use it as a decorator of its class.

    A run that used it is accounted only where it is registered, so its module should register it when it is imported. What it
    claims to cost is stated as the claim of its author.

    >>> import tacit
    >>> @tacit.register_mechanism
    ... class Mine(tacit.MechanismKind):
    ...     version = "1.0"
    ...     noise = "Gaussian noise on the sum of each round"
    ...     proven_under = ("poisson",)
    ...     def build(self, plan, rounds, strategy):
    ...         return tacit.Gaussian(plan.noise_multipliers)
    ...     def cost(self, releases):
    ...         return tacit.Cost.of_rounds(releases.rounds)
    """
    path = path_of(kind)
    strange = [each for each in kind.proven_under if each not in OUTSIDE_SAMPLINGS]
    if strange or not kind.proven_under or not kind.noise or not kind.version:
        raise PrivacyError(
            f"Expected {path} to have a version, a noise in words, and samplings among {', '.join(OUTSIDE_SAMPLINGS)} in "
            f"proven_under, got {kind.version!r}, {kind.noise!r} and {list(kind.proven_under)}."
        )
    if kind.on_devices or not kind.adds_noise:
        raise PrivacyError(f"The mechanism {path} adds no noise on the server, as a mechanism from outside must.")
    made = kind()
    made.name = path
    KINDS.add(path, made)
    return kind


def register_strategy(strategy: AnyStrategy) -> AnyStrategy:
    """Make a strategy from outside known in this process, as a mechanism of the same name; a decorator of its class.

    A plan asks for it with `mechanism="module:Class"`.

    >>> import dataclasses
    >>> import numpy as np, tacit
    >>> @tacit.register_strategy
    ... @dataclasses.dataclass(frozen=True)
    ... class Uncorrelated(tacit.MatrixStrategy):
    ...     version = "1.0"
    ...     @classmethod
    ...     def fitted(cls, rounds, gap, max_participation):
    ...         return cls()
    ...     def matrix(self, rounds):
    ...         return np.eye(rounds)
    """
    path = path_of(strategy)
    if not getattr(strategy, "version", ""):
        raise PrivacyError(f"Expected {path} to have a version, got none.")
    strategy.name = path
    STRATEGIES.add(path, strategy)
    KINDS.add(
        path,
        CorrelatedKind(
            path, f"Gaussian noise correlated over the rounds by the strategy {path}", version=str(strategy.version)
        ),
    )
    return strategy
