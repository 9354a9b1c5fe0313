"""`tacit fleet demo`: run a server and a few devices on this machine, and watch them train."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tacit.cli.fleet import app, without_extra
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.runs import TrainResult
from tacit.cli.running import STOPPED
from tacit.cli.summary import print_summary
from tacit.errors import FleetError
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import Recipe, load_recipe
from tacit.runs.cost import HAPPENED, owners_figures
from tacit.runs.finding import is_run, next_folder
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import last_metrics

if TYPE_CHECKING:
    from sqlalchemy import Engine

_LOOK_S = 0.25
# A few devices with little text learn nothing in five rounds: each of them has as much as a phone after a few weeks.
_WORDS = 2_000
_NO_NOISE = (
    "No noise is added, and so no privacy is claimed: {devices} devices are too few to hide what one of them adds. "
    "`tacit fleet demo --noise 1` adds some, and then learns nothing; a private fleet needs a thousand devices."
)


@dataclass
class _Device:
    """A device's process and its last message."""

    number: int
    process: subprocess.Popen[str]
    rounds: int = 0
    last_message: str = "waits for its first round"


@app.command()
def demo(
    devices: Annotated[int, typer.Option(help="How many devices.", min=4, max=64)] = 8,
    rounds: Annotated[int, typer.Option(help="How many rounds.", min=1, max=1000)] = 5,
    secagg: Annotated[bool, typer.Option("--secagg", help="Use secure aggregation.")] = False,
    noise: Annotated[float, typer.Option(help="The noise multiplier; 0 trains without privacy.", min=0.0)] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the server and the devices.", show_default="runs/fleet-demo-1, -2, ..."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a server and devices on this machine, and watch them train a small model.

    Each device is a process with made-up text of its own, and talks to the server over HTTPS. At the end you see what the
    model has learned. With so few devices noise would be larger than what there is to learn, so none is added and no privacy
    is claimed, unless you ask for it with --noise.
    """
    try:
        from tacit.fleet.server.admin import status  # noqa: F401
    except ImportError as error:
        raise without_extra("tacit fleet demo", error.name) from None
    recipe, folder = demo_recipe(devices, rounds, secagg=secagg, noise=noise), out or next_folder("fleet-demo")
    console = Console(stderr=as_json)
    if folder.exists():
        raise FleetError(f"Expected --out to be a new folder, got {folder}, which exists.")
    if noise == 0:
        console.print(_NO_NOISE.format(devices=devices), highlight=False, soft_wrap=True)
    try:
        with _served(recipe, folder) as server, _enrolled(recipe, folder, server) as crowd:
            server.watch(crowd, console)
    except KeyboardInterrupt:
        console.print(f"Stopped. The files are in {folder}.", highlight=False, soft_wrap=True)
        raise typer.Exit(STOPPED) from None
    if as_json:
        happened = owners_figures(RunFolder.open(folder / "run"))
        owner = {} if happened is None else {HAPPENED: happened}
        emit(TrainResult, {"run": str(folder / "run"), **server.summary(), **owner})
        return
    print_summary(console, folder / "run", server.summary())


def demo_recipe(devices: int, rounds: int, *, secagg: bool, noise: float = 0.0) -> Recipe:
    """The recipe `fleet` for few devices: half of them make a round, no device waits long, and a few rounds teach something."""
    goal = max(devices // 2, 3) if secagg else devices // 2  # with fewer no round of secure aggregation can end
    changes = [
        "name=fleet-demo",
        f"data.users={devices}",
        "data.vocabulary=500",
        "data.held_out=50",
        f"data.tokens_per_user={_WORDS}",
        "work.learning_rate=3.0",
        "work.epochs=3",
        "server.optimizer=sgd",
        "server.learning_rate=1.0",
        f"privacy.population={devices}",
        f"privacy.cohort={goal}",
        "privacy.min_separation=0",
        "privacy.clip_norm=20.0",
        f"privacy.noise_multiplier={noise:g}",
        f"privacy.delta={0.1 / devices:g}",
        f"run.rounds={rounds}",
        "run.evaluate_every=1",
        "fleet.timer_s=1",
        "fleet.deadline_s=600",
        "fleet.selection_s=5",
        "fleet.stage_s=120",  # the first round waits for every device to compile its plan
        "fleet.dropout=0.1",
    ]
    if noise == 0:
        changes.append("privacy.mechanism=none")
    if secagg:
        changes.append("privacy.secagg={bits = 24}")
    return load_recipe(find_recipe("fleet"), changes)


class _DemoServer:
    """A server in a thread of this process."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.address, self.stopping = "", threading.Event()
        self._result: dict[str, Any] = {}
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Return when devices can connect."""
        self.thread.start()
        self._ready.wait()
        self._require_no_failure()

    def summary(self) -> dict[str, Any]:
        """The finished run's summary."""
        self._require_no_failure()
        if self._result.get("summary") is None:
            raise FleetError("The server ended before the run was finished.")
        return dict(self._result["summary"])

    def watch(self, crowd: list[_Device], console: Console) -> None:
        """Show the progress until the run is finished: a live table in a terminal, otherwise a line for each change."""
        with _database(self.folder) as engine, ExitStack() as stack:
            live = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
            shown = ""
            while self.thread.is_alive():
                now = _progress(engine, self.recipe.run.rounds) + _learned(self.folder / "run")
                if live is not None:
                    live.update(_table(now, crowd), refresh=True)
                elif now != shown:
                    console.print(now, highlight=False, soft_wrap=True)
                shown = now
                self.thread.join(_LOOK_S)

    def _run(self) -> None:
        from tacit.fleet.server.serving import ServeSettings, serve

        def ready(address: str) -> None:
            self.address = address
            self._ready.set()

        try:
            settings = ServeSettings(out=self.folder, recipe=self.recipe, port=0)
            self._result["summary"] = serve(settings, stopping=self.stopping, ready=ready)
        except BaseException as error:
            self._result["failure"] = error
        finally:
            self._ready.set()

    def _require_no_failure(self) -> None:
        if "failure" in self._result:
            raise self._result["failure"]


@contextmanager
def _served(recipe: Recipe, folder: Path) -> Iterator[_DemoServer]:
    server = _DemoServer(recipe, folder)
    try:
        server.start()
        yield server
    finally:
        server.stopping.set()
        server.thread.join()


@contextmanager
def _enrolled(recipe: Recipe, folder: Path, server: _DemoServer) -> Iterator[list[_Device]]:
    """A process for each user of the recipe's world, enrolled with the user's text. They end with the block."""
    from tacit.data.worlds.keyboard import KeyboardWorld
    from tacit.fleet.device.enrolment import enrol
    from tacit.fleet.server import enrolment
    from tacit.fleet.wire.tls import CERTIFICATE

    data, crowd = recipe.data, []
    world = KeyboardWorld(data.world_seed, data.users, vocabulary_size=data.vocabulary, tokens_per_user=_WORDS)
    with _database(folder) as engine:
        token = enrolment.make_token(engine, uses=data.users, expires_at=time.time() + 600)
    # All devices share one cache of compiled plans, the caller's if there is one. They run on the CPU, because together they
    # would fill a GPU's memory.
    cache = {"JAX_COMPILATION_CACHE_DIR": str((folder / "cache").resolve())}
    environment = {**cache, **os.environ, "JAX_PLATFORMS": "cpu"}
    try:
        for user in range(data.users):
            home, text = folder / "devices" / str(user), folder / "devices" / f"{user}.txt"
            text.parent.mkdir(exist_ok=True)
            text.write_text("\n".join(world.sentences(user)), encoding="utf-8")
            config = enrol(home, server=server.address, token=token, data=text, ca=folder / CERTIFICATE)
            text.unlink()
            command = [sys.executable, "-m", "tacit", "device", "run", "--home", str(home)]
            # Errors go to the same stream, so that the table shows why a device ended early.
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
            )
            crowd.append(_Device(config.device or 0, process))
            threading.Thread(target=_listen, args=(crowd[-1],), daemon=True).start()
        yield crowd
    finally:
        for device in crowd:
            device.process.terminate()
        for device in crowd:
            device.process.wait()


def _listen(device: _Device) -> None:
    assert device.process.stdout is not None
    with device.process.stdout as lines:
        for line in lines:
            device.last_message = line.strip()
            device.rounds += line.startswith("Took part")


@contextmanager
def _database(folder: Path) -> Iterator[Engine]:
    from tacit.fleet.database.transactions import open_database
    from tacit.fleet.server.serving import DATABASE

    engine = open_database(f"sqlite:///{(folder / DATABASE).resolve()}")
    try:
        yield engine
    finally:
        engine.dispose()


def _progress(engine: Engine, rounds: int) -> str:
    """The number of rounds that are done, and the reports of the round under way."""
    from tacit.fleet.server.admin import status

    found = status(engine, now=time.time()).tasks
    if not found:
        return "The server is preparing its task."
    task = found[0]
    done = f"{task.rounds.get('committed', 0)} of {rounds} rounds done, {task.rounds.get('abandoned', 0)} abandoned"
    if task.under_way is None:
        return f"{done}."
    return f"{done}; round {task.under_way.round}: {task.under_way.reported} of {task.under_way.goal} reports."


def _learned(run: Path) -> str:
    """The accuracy on held-out people after the last round that was measured, as a sentence; empty before there is one."""
    last = last_metrics(run / "metrics.jsonl") if is_run(run) else None
    return "" if last is None else f" The model guesses {last['top1']:.1%} of words."


def _table(progress: str, crowd: list[_Device]) -> Table:
    table = Table("device", "rounds", "last message", title=progress, title_justify="left", box=None)
    for device in crowd:
        table.add_row(str(device.number), str(device.rounds), Text(device.last_message))
    return table
