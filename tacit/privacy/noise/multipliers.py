"""The noise multipliers that plans accept and searches try."""

LEAST_NOISE, MOST_NOISE = 1e-6, 1e6
