"""What stands for parts of SciPy computes the same bits, and the answers do not depend on whether SciPy was there before."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import signal, stats

from tacit.privacy.accounting import library

# From the tails, where probabilities are subnormal, over zero, to what is not a number.
POINTS = np.concatenate(
    [np.linspace(-45.0, 45.0, 20_001), np.geomspace(1e-320, 1e3, 500), [-0.0, np.inf, -np.inf, np.nan]]
)
PROBABILITIES = np.concatenate([np.linspace(0.0, 1.0, 10_001), np.geomspace(1e-320, 0.5, 500), [np.nan, -0.1, 1.1]])


def bits(value: Any) -> tuple[type, bytes]:
    """A result with its type; the signs of zero and of what is not a number do not count."""
    array = np.asarray(value, np.float64)
    return type(value), np.where(np.isnan(array), np.nan, array + 0.0).tobytes()


@pytest.mark.parametrize("scale", [None, 1.0, 0.3, 7.25, 1e6])
@pytest.mark.parametrize(("method", "arguments"), [("cdf", POINTS), ("logcdf", POINTS), ("ppf", PROBABILITIES)])
def test_the_normal_distribution_is_scipys_bit_for_bit(scale: float | None, method: str, arguments: Any) -> None:
    ours = library._Normal() if scale is None else library._Normal()(scale=scale)
    theirs = stats.norm if scale is None else stats.norm(scale=scale)
    for x in (arguments, list(arguments), *arguments[::97]):
        assert bits(getattr(ours, method)(x)) == bits(getattr(theirs, method)(x))


def test_what_is_not_computed_here_is_scipys() -> None:
    assert library._Normal()(scale=2.0).sf(1.0) == stats.norm(scale=2.0).sf(1.0)
    assert library._Normal()(1.0, 2.0).cdf(0.5) == stats.norm(1.0, 2.0).cdf(0.5)
    stand_in = {each.__name__: each for each in library._stand_ins()}
    assert stand_in["scipy.stats"].binom is stats.binom
    assert stand_in["scipy.signal"].lfilter is signal.lfilter


@pytest.mark.parametrize(("one", "other"), [(1, 1), (1, 500), (500, 1), (499, 500)])
def test_a_convolution_is_scipys_bit_for_bit(one: int, other: int) -> None:
    draws = np.random.default_rng(one + other)
    first, second = draws.random(one), draws.random(other)
    assert bits(library._convolve(first, second)) == bits(signal.fftconvolve(first, second))
    assert bits(library._convolve(list(first), second)) == bits(signal.fftconvolve(list(first), second))


ASK = """
import json, sys
if {before}: import scipy.stats, scipy.signal, scipy.optimize, dp_accounting
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
drawn, fixed = {{"kind": "poisson", "probability": 0.01}}, {{"kind": "fixed", "size": 10, "population": 1000}}
groups = [SampledRounds(drawn, 0.8, 30), SampledRounds(drawn, 1.3, 50)]
found = [epsilon(groups[:1], 1e-6, "pld")]
loaded = [name for name in ("scipy.stats", "scipy.signal", "scipy.optimize", "numpy.f2py", "unittest") if name in sys.modules]
found += [epsilon(groups, 1e-6, kind, rho=rho) for kind in ("pld", "rdp") for rho in (0.0, 0.05)]
found += [epsilon([SampledRounds(fixed, 2.0, 40)], 1e-6, "pld"), epsilon_of_gaussian(0.3, 1e-8)]
import numpy, scipy.stats
kinds = [type(each).__name__ for each in (scipy.stats, numpy.f2py, numpy.testing)]
print(json.dumps([[each.hex() for each in found], loaded, kinds]))
"""


@pytest.mark.process
def test_answers_are_the_same_with_and_without_stand_ins() -> None:
    (with_them, loaded, kinds), (without, all_loaded, _) = (
        json.loads(subprocess.check_output([sys.executable, "-c", ASK.format(before=before)]))
        for before in (False, True)
    )
    assert with_them == without
    assert (loaded, len(all_loaded)) == ([], 5)
    assert kinds == 3 * ["module"]  # whoever imports it later gets the real one
