"""Mechanisms turn bounded sums into releases by adding noise."""

from tacit.privacy.noise.mechanisms.base import Mechanism, Release
from tacit.privacy.noise.mechanisms.correlated import Correlated
from tacit.privacy.noise.mechanisms.discrete import Discrete
from tacit.privacy.noise.mechanisms.gaussian import Gaussian, NoNoise

__all__ = ["Correlated", "Discrete", "Gaussian", "Mechanism", "NoNoise", "Release"]
