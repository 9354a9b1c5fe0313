"""Routes that stop and resume runs, for a board with --control. A process of its own trains a run, never the board."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from tacit.errors import RunError
from tacit.files import is_being_written
from tacit.runs.folder import RunFolder
from tacit.web.reading import path_of
from tacit.web.settings import BoardSettings
from tacit.web.watcher import RunWatcher

LOCKS = Path("/proc/locks")
# A process that refuses to resume has said so after about this long.
REFUSES_WITHIN_S = 15.0


class Said(BaseModel):
    """What was done, in a sentence."""

    said: str


def control_routes(watcher: RunWatcher, settings: BoardSettings) -> APIRouter:
    """The routes of control; each refuses unless the board was started with --control."""
    router = APIRouter(prefix="/api/runs/{key}")

    def allowed(key: str) -> RunFolder:
        if not settings.control:
            raise HTTPException(403, "This board only shows runs. Started with --control it can stop and resume them.")
        folder = RunFolder.open(path_of(watcher, key))
        if folder.begun and folder.ledger().opened.fleet is not None:
            raise RunError(
                f"Devices train the run {folder.path}: its server is stopped where it runs, and tacit serve goes on with it.",
                hint="tacit fleet round pause lets the server wait.",
            )
        return folder

    @router.post("/stop")
    def stop(key: str) -> Said:
        """Ask the process that trains this run to stop after the round under way, as Ctrl-C does."""
        folder = allowed(key)
        if not is_being_written(folder.ledger_path):
            raise RunError("No process is training this run now.")
        process = writer_of(folder.ledger_path)
        try:
            os.kill(process, signal.SIGINT)
        except OSError as error:
            raise RunError(
                f"The process {process} that trains this run cannot be stopped ({error.strerror})."
            ) from error
        return Said(said="It stops after the round under way, which is saved.")

    @router.post("/resume")
    def resume(key: str) -> Said:
        """Go on with this run in a new process, as tacit train --resume does."""
        folder = allowed(key)
        if is_being_written(folder.ledger_path):
            raise RunError("A process is training this run already.")
        if (kind := folder.recipe().get("inspect")) is not None:
            raise RunError(f"Go on with this inspection in a terminal: tacit inspect {kind} --resume {folder.path}")
        start(folder.path)
        return Said(said="It goes on, in a process of its own.")

    return router


def writer_of(path: Path) -> int:
    """The process that holds the lock on this file; RunError where the system does not tell."""
    try:
        file, locks = path.stat(), LOCKS.read_text()
    except OSError:
        raise RunError("This system does not tell which process trains the run: stop it with Ctrl-C.") from None
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in locks.splitlines():
        fields = line.split()
        if (
            len(fields) > 5
            and fields[1] == "FLOCK"
            and fields[3] == "WRITE"
            and fields[5] == place
            and int(fields[4]) > 0
        ):
            return int(fields[4])
    raise RunError("The process that trains this run is not one of this machine: stop it where it runs.")


def start(path: Path) -> None:
    """Start a process that goes on with this run; RunError with its own sentence if it refuses at once."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tacit", "train", "--resume", str(path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # it goes on when the board ends
        )
        threading.Thread(target=process.wait, name="tacit resumed run", daemon=True).start()  # it leaves no zombie
        until = time.monotonic() + REFUSES_WITHIN_S
        while time.monotonic() < until and process.poll() is None and not is_being_written(path / "ledger.jsonl"):
            time.sleep(0.1)
        if process.poll() not in (None, 0):
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
            raise RunError(told[0] if told else "The run could not be resumed: try tacit train --resume in a terminal.")
