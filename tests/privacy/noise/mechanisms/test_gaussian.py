"""The Gaussian mechanism, and no mechanism at all, keep the contract of mechanisms."""

from __future__ import annotations

from tacit.privacy.noise.mechanisms import Gaussian, NoNoise
from tacit.testing.mechanism import MechanismContract


class TestGaussian(MechanismContract):
    mechanism = "gaussian"

    def build(self, noise_multipliers):
        return Gaussian(noise_multipliers)


class TestNoNoise(MechanismContract):
    mechanism = "none"
    is_noiseless = True

    def build(self, noise_multipliers):
        return NoNoise(noise_multipliers)
