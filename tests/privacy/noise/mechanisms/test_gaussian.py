"""The Gaussian mechanism, and no mechanism at all, keep the contract of mechanisms."""

from __future__ import annotations

from tacit.privacy.noise.mechanisms import Gaussian, NoNoise
from tests.contracts.mechanism import MechanismContract


class TestGaussian(MechanismContract):
    def build(self, noise_multipliers):
        return Gaussian(noise_multipliers)


class TestNoNoise(MechanismContract):
    is_noiseless = True

    def build(self, noise_multipliers):
        return NoNoise(noise_multipliers)
