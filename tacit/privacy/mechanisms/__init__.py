"""Mechanisms turn bounded sums into releases by adding noise."""

from tacit.privacy.mechanisms.base import Mechanism, Release
from tacit.privacy.mechanisms.gaussian import Gaussian, NoNoise

__all__ = ["Gaussian", "Mechanism", "NoNoise", "Release"]
