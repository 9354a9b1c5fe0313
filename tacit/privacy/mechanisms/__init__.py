"""Mechanisms turn bounded sums into releases by adding noise."""

from tacit.privacy.mechanisms.base import Mechanism, Release
from tacit.privacy.mechanisms.correlated import Correlated
from tacit.privacy.mechanisms.discrete import Discrete
from tacit.privacy.mechanisms.gaussian import Gaussian, NoNoise

__all__ = ["Correlated", "Discrete", "Gaussian", "Mechanism", "NoNoise", "Release"]
