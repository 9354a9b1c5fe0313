"""The room that sampled rounds leave for rounding covers what composing in double precision really loses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import next_fast_len

from tacit.privacy.accounting.library import dp_accounting
from tacit.privacy.accounting.sampled_gaussian import _ROUNDING


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="this machine computes nothing with more digits")
@pytest.mark.parametrize(
    ("noise_multiplier", "probability", "rounds"),
    [
        (1.0, 1e-5, 1_000_000),
        pytest.param(0.5, 1e-6, 1_000_000, marks=pytest.mark.slow),
        pytest.param(5.0, 1.0, 100, marks=pytest.mark.slow),
        (20.0, 0.01, 1_000_000),
    ],
)
def test_no_tail_of_a_composed_distribution_is_off_by_more(
    noise_multiplier: float, probability: float, rounds: int
) -> None:
    """δ is a sum over a tail with weights of at most one, so the error of a tail's mass bounds it.

    The same masses are composed again with extended precision (64 bits, where doubles have 53).
    """
    library = dp_accounting().pld
    once = library.privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=probability, value_discretization_interval=1e-4
    )
    for pmf in (once._pmf_remove, once._pmf_add):
        masses = np.asarray(pmf.to_dense_pmf()._probs)
        first, composed = library.common.self_convolve(masses, rounds, 1e-15)
        length = next_fast_len(max(len(composed), len(masses)))
        transform = np.fft.rfft(masses.astype(np.longdouble), length)
        assert transform.dtype == np.clongdouble
        precise = np.roll(np.fft.irfft(transform**rounds, length), -first)[: len(composed)]
        error = np.abs(np.cumsum((composed - precise)[::-1])).max() / rounds
        assert error < _ROUNDING / 4
