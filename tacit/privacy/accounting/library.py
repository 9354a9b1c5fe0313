"""The Rényi accountant of the library dp_accounting, without its warnings about orders that it leaves out.

Where a sum does not converge at an order, the library leaves that order out and warns. The bound holds without it: epsilon is
the least over the orders that are left.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

_LEFT_OUT = "Excluding this order from the epsilon computation"


def rdp_accountant(*settings: Any, **more: Any) -> Any:
    """An `RdpAccountant` of the library; takes what it takes."""
    import dp_accounting

    _leave_orders_out_quietly()
    return dp_accounting.rdp.RdpAccountant(*settings, **more)


@cache
def _leave_orders_out_quietly() -> None:
    from absl import logging as absl_logging

    absl_logging.get_absl_logger().addFilter(_says_something_else)


def _says_something_else(record: logging.LogRecord) -> bool:
    return _LEFT_OUT not in record.getMessage()
