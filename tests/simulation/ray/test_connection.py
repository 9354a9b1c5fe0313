"""What is wrong with Ray is told in one sentence, before there is a run."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit.errors import RecipeError, WorkerError
from tacit.recipe.engine import Ray
from tacit.simulation.ray.connection import Connection
from tacit.simulation.ray.identity import identity
from tests.support.ray_faults import descendants
from tests.support.tiny_recipe import tiny


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    yield
    assert Connection.current is None


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


def test_a_cluster_with_another_ray_or_python_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own message has eight lines, of which the first says nothing."""
    ray = pytest.importorskip("ray")
    from ray._private.utils import check_version_info, compute_version_info

    theirs = {"ray_version": "2.1.0", "python_version": "3.99.1"}
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

    monkeypatch.setattr(ray, "init", nowhere)
    with pytest.raises(WorkerError) as refused:
        Connection.of(Ray(address="auto"))
    assert (
        refused.value.sentence
        == "No Ray cluster runs on this machine, so there is none that --address auto could join."
    )


# 127.0.0.1 as /proc/net writes it, in IPv4 and in IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.mark.process
def test_a_ray_of_our_own_listens_on_this_machine_only() -> None:
    """Whoever can reach a port of Ray may run code here."""
    pytest.importorskip("ray")

    def process() -> int:
        return os.getpid()

    connection = Connection.of(Ray(workers=1))
    try:
        assert connection.ray.get(connection.ray.remote(process).remote()) != process()
        heard = listening(descendants(os.getpid()))
        assert len(heard) >= 3  # of the store of the cluster, of the node, of the worker
        assert set(heard) <= LOOPBACK
        assert connection.ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"
    finally:
        connection.close()


@pytest.mark.process
def test_the_files_of_a_ray_of_our_own_are_for_their_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that have no noise yet are among them, where shared memory is full."""
    pytest.importorskip("ray")
    before = os.umask(0o022)
    connection = None
    try:
        monkeypatch.setattr("tacit.simulation.ray.connection._shared_memory", lambda: 80 << 20)
        connection = Connection.of(Ray(workers=1))
        sums = [connection.ray.put(np.zeros(3_000_000)) for _ in range(6)]
        assert len(sums) == 6
        session = Path(connection.ray._private.worker.global_worker.node.get_session_dir_path())
        written = [path for path in session.rglob("*") if path.is_file() and not path.is_symlink()]
        assert [path for path in written if path.stat().st_size >= 24_000_000]
        assert not [path for path in written if path.stat().st_mode & 0o077]
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
        if connection is not None:
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
