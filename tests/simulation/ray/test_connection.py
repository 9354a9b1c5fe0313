"""What is wrong with Ray is told in one sentence, before there is a run."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit.errors import RecipeError, WorkerError
from tacit.recipe.engine import Ray
from tacit.simulation.ray.connection import NO_TOKENS, TOKEN_MODE, TOKENS, Connection
from tacit.simulation.ray.identity import identity
from tests.support.ray_faults import cluster, descendants
from tests.support.tiny_recipe import tiny


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    before = os.environ.get(TOKEN_MODE)
    yield
    assert Connection.current is None
    assert os.environ.get(TOKEN_MODE) == before


def test_a_missing_ray_is_told_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WorkerError) as refused:
        tacit.train(recipe=tiny(), engine=tacit.Ray(), out=tmp_path / "run")
    assert (refused.value.sentence, refused.value.hint) == ("Ray is not installed.", "pip install 'tacit[ray]'")
    assert not (tmp_path / "run").exists()


def test_an_address_that_does_not_answer_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(WorkerError, match=f"No Ray cluster answers at 127.0.0.1:{port}: Connection refused"):
        tacit.train(recipe=tiny(), engine=tacit.Ray(address=f"127.0.0.1:{port}"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("asks", "has", "given", "found"),
    [
        (None, "mine", None, NO_TOKENS),
        (None, None, NO_TOKENS, NO_TOKENS),
        (None, "mine", TOKENS, r"^Expected RAY_AUTH_MODE=disabled, as in the Ray cluster, got token\.$"),
        ("mine", "mine", None, TOKENS),
        ("mine", "mine", TOKENS, TOKENS),
        ("mine", "mine", NO_TOKENS, r"^Expected RAY_AUTH_MODE=token, as in the Ray cluster, got disabled\.$"),
        ("theirs", "mine", None, r"^The Ray cluster asks for a token, and this machine has another one\.$"),
        ("theirs", None, None, r"^The Ray cluster asks for a token, and this machine has none\.$"),
    ],
)
def test_tokens_are_used_as_the_cluster_uses_them(
    asks: str | None, has: str | None, given: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would end every worker where only this process has a token, and not say why."""
    ray = pytest.importorskip("ray")
    raylet = pytest.importorskip("ray._raylet")
    joined = []

    def client(address: str) -> None:
        if asks is not None and (os.environ[TOKEN_MODE] != TOKENS or has != asks):
            raise ray.exceptions.AuthenticationError("InvalidAuthToken")

    loader = SimpleNamespace(has_token=lambda ignore_auth_mode: has is not None, reset_cache=lambda: None)
    monkeypatch.setattr(raylet, "GcsClient", client)
    monkeypatch.setattr(raylet, "AuthenticationTokenLoader", SimpleNamespace(instance=lambda: loader))
    monkeypatch.setattr("tacit.simulation.ray.connection._require_answer", lambda address: None)
    monkeypatch.setattr(ray, "init", lambda **given: joined.append(os.environ[TOKEN_MODE]))
    monkeypatch.delenv(TOKEN_MODE, raising=False)
    if given is not None:
        monkeypatch.setenv(TOKEN_MODE, given)
    if found in (TOKENS, NO_TOKENS):
        Connection.of(Ray(address="10.0.0.1:6379")).close()
        assert joined == [found]
    else:
        with pytest.raises(WorkerError, match=found):
            Connection.of(Ray(address="10.0.0.1:6379"))
        assert not joined
    assert os.environ.get(TOKEN_MODE) == given


def test_what_answers_and_is_no_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would try it twenty times."""
    ray = pytest.importorskip("ray")
    raylet = pytest.importorskip("ray._raylet")

    def client(address: str) -> None:
        raise ray.exceptions.RpcError("Timed out while waiting for GCS to become available.", 4)

    monkeypatch.setattr(raylet, "GcsClient", client)
    monkeypatch.setattr("tacit.simulation.ray.connection._require_answer", lambda address: None)
    with pytest.raises(WorkerError, match=r"^No Ray cluster answers at 10\.0\.0\.1:22: Timed out while waiting"):
        Connection.of(Ray(address="10.0.0.1:22"))


def test_a_cluster_with_another_ray_or_python_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own message has eight lines, of which the first says nothing."""
    ray = pytest.importorskip("ray")
    from ray._private.utils import check_version_info, compute_version_info

    theirs = {"ray_version": "2.1.0", "python_version": "3.99.1"}
    monkeypatch.setattr("tacit.simulation.ray.connection.token_mode_of", lambda address: None)
    monkeypatch.setattr(ray, "init", lambda **given: check_version_info(theirs, "the driver"))
    here, python = compute_version_info()
    with pytest.raises(WorkerError) as refused:
        Connection.of(Ray(address="auto"))
    assert refused.value.sentence == (
        f"Expected Ray {here} and Python {python} in the cluster, as on this machine, got Ray 2.1.0 and Python 3.99.1."
    )
    assert refused.value.hint == "All machines need the same Ray and the same Python."


def test_no_cluster_on_this_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def nowhere(**given: object) -> None:
        raise ConnectionError("Could not find any running Ray instance. Please specify the one to connect to.")

    monkeypatch.setattr("tacit.simulation.ray.connection.token_mode_of", lambda address: None)
    monkeypatch.setattr(ray, "init", nowhere)
    with pytest.raises(WorkerError) as refused:
        Connection.of(Ray(address="auto"))
    assert (
        refused.value.sentence
        == "No Ray cluster runs on this machine, so there is none that --address auto could join."
    )


# 127.0.0.1 as /proc/net writes it, in IPv4 and in IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def process() -> int:
    return os.getpid()


class Actor:
    def process(self) -> int:
        return process()

    def die(self) -> None:
        os.kill(process(), signal.SIGKILL)


@pytest.mark.process
def test_a_ray_of_our_own_is_for_this_machine_and_its_owner_and_leaves_no_trace_in_this_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can reach a port of Ray may run code here. Sums that have no noise yet are in files, where shared memory is full.
    What Ray says of a lost worker is not on stdout, where a command's own answer is. The Ray asked for a token, and a cluster
    without tokens can be joined afterwards."""
    pytest.importorskip("ray")
    before = os.umask(0o022)
    connection = None
    try:
        monkeypatch.delenv(TOKEN_MODE, raising=False)
        monkeypatch.setattr("tacit.simulation.ray.connection._shared_memory", lambda: 80 << 20)
        connection = Connection.of(Ray(workers=1))
        assert connection.ray.get(connection.ray.remote(process).remote()) != process()
        heard = listening(descendants(os.getpid()))
        assert len(heard) >= 3  # of the store of the cluster, of the node, of the worker
        assert set(heard) <= LOOPBACK
        assert connection.ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"

        sums = [connection.ray.put(np.zeros(3_000_000)) for _ in range(6)]
        assert len(sums) == 6
        session = Path(connection.ray._private.worker.global_worker.node.get_session_dir_path())
        written = [path for path in session.rglob("*") if path.is_file() and not path.is_symlink()]
        assert [path for path in written if path.stat().st_size >= 24_000_000]
        assert not [path for path in written if path.stat().st_mode & 0o077]
        assert os.umask(0o022) == 0o022

        caplog.set_level("INFO", logger="tacit.simulation.ray.connection")
        with pytest.raises(connection.ray.exceptions.ActorDiedError):
            connection.ray.get(connection.ray.remote(Actor).remote().die.remote())
        until = time.monotonic() + 300
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.05)
        assert "worker died" in caplog.text
        assert capfd.readouterr().out == ""
    finally:
        os.umask(before)
        if connection is not None:
            connection.close()

    with cluster(nodes=0) as found:
        os.environ.pop(TOKEN_MODE)
        connection = Connection.of(Ray(address=found.address))
        try:
            actor = connection.ray.remote(Actor).options(num_cpus=0).remote()
            assert connection.ray.get(actor.process.remote()) != process()
        finally:
            connection.close()


def listening(processes: set[int]) -> list[str]:
    """The addresses at which these processes take connections, as /proc/net writes them."""
    sockets = set()
    for process in processes:
        with suppress(OSError):
            for each in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(os.readlink(each))
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    return [each[1].split(":")[0] for each in lines[1:] if each[3] == "0A" and f"socket:[{each[9]}]" in sockets]


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379", "http://host"])
def test_what_is_no_address_is_refused(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(WorkerError, match=f"as auto or host:port, got {address}"):
        Connection.of(Ray(address=address))


@pytest.mark.parametrize(
    ("gpus_per_worker", "workers"), [(0.0, 7), (1.0, 5), (0.5, 7), (2.0, 2)], ids=["cores", "one", "half", "two"]
)
def test_a_worker_has_its_core_and_its_gpus_on_one_node(gpus_per_worker: float, workers: int) -> None:
    """The head has a GPU and no core for workers, a node has more GPUs than cores, and one is gone."""
    nodes = [
        {"Alive": True, "Resources": {"GPU": 1.0, "memory": 9.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 3.0}},
        {"Alive": True, "Resources": {"CPU": 5.0, "GPU": 3.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
    ]
    connection = Connection.__new__(Connection)
    connection.ray = SimpleNamespace(nodes=lambda: nodes)
    assert connection.room_for(gpus_per_worker) == workers


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"workers": 0}, "Expected workers to be a whole number of at least 1, got 0."),
        ({"pieces": 1.5}, "Expected pieces to be a whole number of at least 1, got 1.5."),
        (
            {"gpus_per_worker": -1},
            "Expected gpus_per_worker to be a share of one GPU or a whole number of them, got -1.",
        ),
        (
            {"gpus_per_worker": 1.5},
            "Expected gpus_per_worker to be a share of one GPU or a whole number of them, got 1.5.",
        ),
        ({"give_up_s": 0}, "Expected give_up_s > 0, got 0."),
        ({"address": "ray://head:10001"}, "Expected an address such as auto or host:port, got ray://head:10001"),
    ],
)
def test_settings_are_checked(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecipeError) as refused:
        Ray(**given)  # type: ignore[arg-type]
    assert refused.value.sentence.startswith(sentence)


def test_another_version_or_another_checkout_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = identity()
    assert mine.difference(mine) is None
    assert mine.difference(dataclasses.replace(mine, jax="0.1")) == ("jax", mine.jax, "0.1")
    assert mine.difference(dataclasses.replace(mine, source="other")) == ("Tacit's source", mine.source, "other")
    assert mine.difference(dataclasses.replace(mine, tacit="9")) == ("tacit", mine.tacit, "9")
