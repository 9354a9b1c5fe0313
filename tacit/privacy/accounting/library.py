"""The library dp_accounting, imported without the parts of SciPy that no answer of ours uses.

Importing it takes `scipy.stats`, `scipy.signal` and `scipy.optimize` along, which was most of the time of `tacit account`, and
SciPy takes `numpy.f2py` and `numpy.testing` along, because it copies the names of NumPy. While the library is imported,
`_Deferred` stands for each of them, and the real module is imported when something of it is asked for.
What nearly every answer needs does without it, bit for bit as SciPy computes it (tests/privacy/accounting/test_library.py):
the normal distribution, and a convolution with an array of one element. In a process that has these modules already, nothing
is put in their place.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

_LEFT_OUT = "Excluding this order from the epsilon computation"


@cache
def dp_accounting() -> Any:
    """The library. Nothing else in Tacit imports it, so that it is always imported in this way."""
    replaced = [each for each in _stand_ins() if each.__name__ not in sys.modules]
    for each in replaced:
        each.step_in()
    try:
        return import_module("dp_accounting")
    finally:
        for each in replaced:
            each.step_aside()


def rdp_accountant(*settings: Any, **more: Any) -> Any:
    """An `RdpAccountant` of the library; takes what it takes.

    Without the warnings about orders where a sum does not converge: the bound holds without them, because epsilon is the least
    over the orders that are left.
    """
    library = dp_accounting()
    _leave_orders_out_quietly()
    return library.rdp.RdpAccountant(*settings, **more)


@cache
def _leave_orders_out_quietly() -> None:
    from absl import logging as absl_logging

    absl_logging.get_absl_logger().addFilter(_says_something_else)


def _says_something_else(record: logging.LogRecord) -> bool:
    return _LEFT_OUT not in record.getMessage()


class _Deferred(ModuleType):
    """Stands for a module until something is asked of it that it does not have."""

    def step_in(self) -> None:
        """Whoever imports the module from now on gets this one."""
        sys.modules[self.__name__] = self
        if self._of_numpy:  # which imports a part of itself when somebody names it
            setattr(np, self._short, self)

    def step_aside(self) -> None:
        """Whoever imports the module from now on gets the real one."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        if vars(np).get(self._short) is self:
            delattr(np, self._short)

    @property
    def _of_numpy(self) -> bool:
        return self.__name__.startswith("numpy.")

    @property
    def _short(self) -> str:
        return self.__name__.rpartition(".")[2]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.step_aside()
        return getattr(import_module(self.__name__), name)


def _stand_ins() -> list[_Deferred]:
    stats, signal, optimize = (_Deferred(f"scipy.{name}") for name in ("stats", "signal", "optimize"))
    vars(stats)["norm"] = _Normal()
    vars(signal)["fftconvolve"] = _convolve
    return [stats, signal, optimize, _Deferred("numpy.f2py"), _Deferred("numpy.testing")]


class _Normal:
    """`scipy.stats.norm`, or with a scale `scipy.stats.norm(scale=scale)`. It computes what the accountants ask for itself."""

    def __init__(self, scale: float | None = None) -> None:
        self._scale = scale

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        if arguments or settings.keys() != {"scale"} or not settings["scale"] > 0:
            return self._of_scipy()(*arguments, **settings)
        return _Normal(settings["scale"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_scipy(), name)

    def cdf(self, x: Any) -> Any:
        return _special().ndtr(self._standardised(x))

    def logcdf(self, x: Any) -> Any:
        return _special().log_ndtr(self._standardised(x))

    def ppf(self, probability: Any) -> Any:
        return _special().ndtri(np.asarray(probability, np.float64)) * (1.0 if self._scale is None else self._scale)

    def _standardised(self, x: Any) -> Any:
        return np.asarray(x, np.float64) / (1.0 if self._scale is None else self._scale)

    def _of_scipy(self) -> Any:
        norm = import_module("scipy.stats").norm
        return norm if self._scale is None else norm(scale=self._scale)


def _convolve(one: Any, other: Any, *arguments: Any, **settings: Any) -> Any:
    """`scipy.signal.fftconvolve`, which multiplies where one of two lists has a single element."""
    first, second = np.asarray(one), np.asarray(other)
    if first.ndim == second.ndim == 1 and min(first.size, second.size) == 1 and not arguments and not settings:
        return first * second
    return import_module("scipy.signal").fftconvolve(one, other, *arguments, **settings)


def _special() -> Any:
    from scipy import special

    return special
