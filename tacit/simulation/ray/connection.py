"""Ray itself: started on this machine for a run, or joined where it runs already."""

from __future__ import annotations

import logging
import os
import re
import socket
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, ClassVar

from tacit.errors import WorkerError
from tacit.recipe.engine import Ray

# How long an address may take to answer.
ANSWER_S = 10.0
# The memory that processes of a Ray share which is started here. It holds the model and the partial sums of a round.
LEAST_SHARED, MOST_SHARED = 160 << 20, 2 << 30
# Whether processes of Ray ask each other for a token.
TOKEN_MODE, TOKENS, NO_TOKENS = "RAY_AUTH_MODE", "token", "disabled"
logger = logging.getLogger(__name__)


def import_ray() -> Any:
    """The module `ray`; WorkerError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        import ray
    except ImportError:
        raise WorkerError("Ray is not installed.", hint="pip install 'tacit[ray]'") from None
    return ray


class Connection:
    """This process in a Ray cluster. `close` leaves it, and stops a Ray that was started here.

    Starting Ray forks, which does not go well with the threads of JAX: connect before JAX is used, wherever that is possible. A
    program that has called `ray.init` itself keeps its Ray.
    """

    current: ClassVar[Connection | None] = None

    def __init__(self, settings: Ray) -> None:
        self.ray, self.address = import_ray(), settings.address
        with ExitStack() as leaving:
            leaving.callback(set_token_mode, os.environ.get(TOKEN_MODE))
            leaving.enter_context(messages_logged())
            if settings.address is None:
                self._start(settings)
            else:
                self._join(settings.address)
            self._leaving = leaving.pop_all()

    @classmethod
    def of(cls, settings: Ray) -> Connection:
        """The connection of this process; WorkerError if there can be none."""
        ray, known = import_ray(), cls.current
        if known is not None:
            if ray.is_initialized() and known.address == settings.address:
                return known
            known.close()
        elif ray.is_initialized():
            known = cls.__new__(cls)
            known.ray, known.address = ray, settings.address
            return known
        cls.current = cls(settings)
        return cls.current

    def _start(self, settings: Ray) -> None:
        """Ray on this machine alone: nothing listens for other machines, and its files are for their owner alone."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with on_loopback(), owner_only():
            self._init(
                "Ray did not start on this machine",
                address="local",  # and not a cluster that happens to run on this machine
                num_cpus=max(cores, settings.workers or 0),
                object_store_memory=_shared_memory(),
                include_dashboard=False,
            )

    def _join(self, address: str) -> None:
        """Join a cluster that runs already."""
        if address != "auto":
            _require_answer(address)
        set_token_mode(token_mode_of(address))
        self._init(
            "No Ray cluster runs on this machine" if address == "auto" else f"No Ray cluster answers at {address}",
            address=address,
        )

    def _init(self, what: str, **arguments: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
                self.ray.init(log_to_driver=False, logging_level="ERROR", namespace="tacit", **arguments)
        except Exception as error:
            joins = arguments["address"] != "local"
            if joins and (differing := _other_versions(str(error))) is not None:
                raise WorkerError(differing, hint="All machines need the same Ray and the same Python.") from error
            if joins and isinstance(error, ConnectionError) and arguments["address"] == "auto":
                raise WorkerError(
                    f"{what}, so there is none that --address auto could join.",
                    hint="`ray start --head` starts one, and `ray start --address=HOST:PORT` adds this machine to one.",
                ) from error
            raise WorkerError(
                f"{what}: {_first_line(error)}.",
                hint="`ray start --head` starts a cluster on this machine; `ray status` shows it." if joins else None,
            ) from error

    def room_for(self, gpus_per_worker: float) -> int:
        """How many workers the cluster has room for, those of this run included: each has a core, and its GPUs on one node."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if gpus_per_worker:
            return sum(min(int(has.get("CPU", 0)), int(has.get("GPU", 0) / gpus_per_worker)) for has in nodes)
        return sum(int(has.get("CPU", 0)) for has in nodes)

    def close(self) -> None:
        """Leave the cluster."""
        if Connection.current is self:
            Connection.current = None
            with suppress(Exception):
                self.ray.shutdown()
            self._leaving.close()


def token_mode_of(address: str) -> str | None:
    """Whether the cluster at this address asks for tokens, as `set_token_mode` takes it; WorkerError if it takes none of ours.

    Ray uses the token that it finds in this person's home for some addresses and not for others, whatever the cluster does, and
    does not say when that goes wrong: where this process expects tokens and the cluster does not, all workers end at once.
    """
    given = os.environ.get(TOKEN_MODE)
    try:
        from ray._private.services import canonicalize_bootstrap_address
        from ray._raylet import AuthenticationTokenLoader, GcsClient  # type: ignore[attr-defined]
        from ray.exceptions import AuthenticationError, RpcError
    except ImportError:  # a Ray from before there were tokens
        return given
    try:
        where = canonicalize_bootstrap_address(address)
    except ConnectionError:
        return given  # Ray says that there is none

    def answers(mode: str) -> bool:
        set_token_mode(mode)
        try:
            GcsClient(address=where)
        except AuthenticationError:
            return False
        except RpcError as error:
            raise WorkerError(f"No Ray cluster answers at {where}: {_first_line(error)}.") from error
        return True

    if not answers(NO_TOKENS):
        known = AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
        if not known or not answers(TOKENS):
            raise WorkerError(
                f"The Ray cluster asks for a token, and this machine has {'another one' if known else 'none'}.",
                hint="Copy ~/.ray/auth_token from the machine of the cluster's head, or set RAY_AUTH_TOKEN.",
            )
    mode = os.environ[TOKEN_MODE]
    if given not in (None, mode):
        raise WorkerError(
            f"Expected {TOKEN_MODE}={mode}, as in the Ray cluster, got {given}.",
            hint=f"Set {TOKEN_MODE} to the same value on every machine before `ray start`, or nowhere.",
        )
    return mode


def set_token_mode(mode: str | None) -> None:
    """Whether processes of Ray ask each other for a token: `TOKENS`, `NO_TOKENS`, or None for Ray's own choice.

    A Ray that was started in this process asks for one, and Ray remembers that for the process, and the token. A cluster
    without a token that it joined later would be refused, and would take every worker for one whose driver is gone.
    """
    if mode is None:
        os.environ.pop(TOKEN_MODE, None)
    else:
        os.environ[TOKEN_MODE] = mode
    with suppress(ImportError):  # a Ray from before there were tokens
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # Ray has no types for them

        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def messages_logged() -> Iterator[None]:
    """What Ray says of workers and nodes that were lost goes to the log of this module, and not to stdout."""
    from ray._private import worker

    def log(data: Any, ignore_prefix: bool) -> None:
        for line in data["lines"]:
            logger.info("%s", line)

    before, worker.print_to_stdstream = worker.print_to_stdstream, log
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def on_loopback() -> Iterator[None]:
    """What Ray starts meanwhile listens at 127.0.0.1 only.

    Elsewhere than on Windows and macOS, Ray would listen on every network of this machine, and it replaces the
    address 127.0.0.1 by another one where it is asked for. This is the switch that it has for those two systems.
    """
    from ray._private import ray_constants

    name, before = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    given = os.environ.get(name)
    ray_constants.ENABLE_RAY_CLUSTER, os.environ[name] = False, "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(name)
        if given is not None:
            os.environ[name] = given


@contextmanager
def owner_only() -> Iterator[None]:
    """Files that are made meanwhile, and later by the processes that are started meanwhile, are for their owner alone.

    Where its shared memory is full, Ray writes partial sums, which have no noise yet, to files under /tmp that everybody could
    read. It also keeps the token there is for its ports in a file.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _shared_memory() -> int:
    """How much memory a Ray that is started here shares between processes: a tenth of what is free."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    return min(MOST_SHARED, max(LEAST_SHARED, free // 10))


def _require_answer(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise WorkerError(f"Expected the address of a Ray cluster as auto or host:port, got {address}.")
    try:
        with closing(socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S)):
            pass
    except OSError as error:
        raise WorkerError(
            f"No Ray cluster answers at {address}: {(error.strerror or str(error) or 'no answer').rstrip('.')}.",
            hint="`ray start --head --port=6379` starts one; its address is then host:6379.",
        ) from None


def _other_versions(said: str) -> str | None:
    """The sentence for a cluster with another Ray or Python, of which Ray tells in eight lines; None for any other message."""
    found = [re.findall(rf"^\s*{name}: (\S+)", said, re.MULTILINE) for name in ("Ray", "Python")]
    if "mismatch" not in said or any(len(each) != 2 for each in found):
        return None
    (theirs, here), (their_python, python) = found
    expected = f"Expected Ray {here} and Python {python} in the cluster, as on this machine"
    return f"{expected}, got Ray {theirs} and Python {their_python}."


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(". ")
