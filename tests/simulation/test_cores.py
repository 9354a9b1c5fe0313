"""Each core is a device with a pool of one thread, and computes what JAX's own device computes."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import xla_client

from tacit.simulation.cores import own_devices


@pytest.fixture(autouse=True)
def forgotten():
    own_devices.cache_clear()
    yield
    own_devices.cache_clear()


def test_devices_are_distinct_and_the_same_at_every_call():
    devices = own_devices(2)
    assert len({id(device.client) for device in devices}) == 2
    assert own_devices(2) is devices
    assert jax.devices()[0] not in devices


def test_pools_have_one_thread_and_the_environment_stays(monkeypatch):
    real, seen = xla_client.make_cpu_client, []

    def make(**options):
        seen.append((os.environ["PJRT_NPROC"], os.environ["NPROC"]))
        return real(**options)

    monkeypatch.setattr(xla_client, "make_cpu_client", make)
    monkeypatch.setenv("NPROC", "7")
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    own_devices(2)
    assert seen == [("1", "1")] * 2
    assert os.environ["NPROC"] == "7"
    assert "PJRT_NPROC" not in os.environ


def test_another_version_of_jax_may_have_no_such_client(monkeypatch):
    monkeypatch.delattr(xla_client, "make_cpu_client")
    assert own_devices(2) == ()


def test_a_core_computes_what_jax_computes():
    (device,) = own_devices(1)
    matrix = np.random.default_rng(0).normal(size=(80, 96)).astype(np.float32)
    f = jax.jit(lambda a: jnp.tanh(a @ a.T))
    there = f(jax.device_put(matrix, device))
    assert there.devices() == {device}
    np.testing.assert_array_equal(there, f(matrix))
