"""Noise strategies: how the noise of rounds is correlated. NumPy and SciPy only; `mechanisms` draws the noise."""

from tacit.privacy.noise.strategies.base import Strategy, stretches
from tacit.privacy.noise.strategies.cache import STRATEGIES, from_description, optimised
from tacit.privacy.noise.strategies.matrix import MatrixStrategy
from tacit.privacy.noise.strategies.toeplitz import BandedToeplitz, BufferedToeplitz
from tacit.privacy.noise.strategies.tree import Tree

__all__ = [
    "STRATEGIES",
    "BandedToeplitz",
    "BufferedToeplitz",
    "MatrixStrategy",
    "Strategy",
    "Tree",
    "from_description",
    "optimised",
    "stretches",
]
