"""CPU cores as JAX devices that compute in one thread each.

All CPU devices of a JAX client share one pool of threads, and XLA splits every large operation among them. While each core
trains a user of its own, splitting only makes the cores wait for each other. So each core gets a client of its own, whose pool
has one thread. XLA takes the size of a pool from environment variables, which are set while the clients are made.

A call on such a device returns when it is done, so the caller needs a thread for each of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_SIZE_OF_A_POOL = {"PJRT_NPROC": "1", "NPROC": "1"}


@lru_cache
def own_devices(cores: int) -> tuple[Any, ...]:
    """A device for each of so many cores, the same at every call; none if this version of JAX cannot make them."""
    try:
        from jaxlib.xla_client import make_cpu_client

        with _environment(_SIZE_OF_A_POOL):
            clients: list[Any] = [make_cpu_client(num_devices=1) for _ in range(cores)]
        return tuple(client.devices()[0] for client in clients)
    except (ImportError, TypeError):  # it is not part of JAX's public API
        return ()


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.pop(name, None) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
